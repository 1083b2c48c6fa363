//! An address to listen on, as people write it: `HOST:PORT`, or `:PORT` for every interface.

use std::{
    borrow::Cow,
    fmt,
    net::{IpAddr, Ipv4Addr},
    str::FromStr,
};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// An IP address (IPv6 without its brackets) or a name; `None` is every interface.
    host: Option<String>,
    port: u16,
}

/// The text is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not an address; write HOST:PORT or :PORT")]
pub struct AddressError(String);

impl Address {
    /// Every interface, on that port.
    pub fn any_interface(port: u16) -> Self {
        Self { host: None, port }
    }

    /// Loopback, on that port.
    pub fn loopback(port: u16) -> Self {
        Self { host: Some(Ipv4Addr::LOCALHOST.to_string()), port }
    }

    /// The host as the resolver wants it. Every interface is the IPv6 one that takes IPv4 too, where there is IPv6.
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// The port; 0 picks one.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether only this machine can reach it.
    pub fn is_loopback(&self) -> bool {
        match self.host.as_deref() {
            None => false,
            Some("localhost") => true,
            Some(host) => host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()),
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || AddressError(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(malformed)?;
        let port = port.parse().map_err(|_| malformed())?;
        let host = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').ok_or_else(malformed)?,
            // An IPv6 address without brackets leaves open where the port begins.
            None if host.contains(':') => return Err(malformed()),
            None => host,
        };
        let usable = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte));
        if !usable {
            return Err(malformed());
        }
        Ok(Self { host: (!host.is_empty()).then(|| host.to_owned()), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Some(host) if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            Some(host) => write!(f, "{host}:{}", self.port),
            None => write!(f, ":{}", self.port),
        }
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for Address {
    fn schema_name() -> Cow<'static, str> {
        "Address".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "description": "HOST:PORT, or :PORT for every interface"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for (text, loopback) in [
            (":7942", false),
            ("127.0.0.1:0", true),
            ("localhost:80", true),
            ("[::1]:7942", true),
            ("[::]:7942", false),
            ("0.0.0.0:1", false),
            ("broker.example:7942", false),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!((address.to_string().as_str(), address.is_loopback()), (text, loopback));
        }
        for text in
            ["", "7942", "localhost", "host:", "host:99999", "::1:7942", "[::1:7942", "a b:1", "http://a:1"]
        {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
