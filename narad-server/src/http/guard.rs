//! Keeps a browser from being used against the broker: by a page of another origin, or by a name that was made to
//! point at this machine.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, Method, Request, header};

use super::{ApiError, CONSUME, access::forbidden};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses a state-changing request that a browser sends from another origin, and, when only loopback may be asked, every
/// request for a host that is not loopback.
///
/// # Errors
/// 403.
pub(super) fn check<B>(
    request: &Request<B>,
    route: Option<&str>,
    loopback_only: bool,
) -> Result<(), ApiError> {
    let hosts = || {
        let authority = request.uri().authority().map(|authority| authority.as_str());
        let headers = request.headers().get_all(header::HOST).iter();
        authority.into_iter().chain(headers.map(|host| host.to_str().unwrap_or_default()))
    };
    if loopback_only && !hosts().all(is_loopback) {
        return Err(forbidden("under --dev the Host must be loopback, such as 127.0.0.1 or localhost"));
    }
    let changes =
        !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) || route == Some(CONSUME);
    if changes && is_foreign(request.headers(), hosts().next()) {
        return Err(forbidden("a browser sends this from another origin"));
    }
    Ok(())
}

/// Whether a browser says that another origin is behind the request.
fn is_foreign(headers: &HeaderMap, host: Option<&str>) -> bool {
    if let Some(site) = headers.get(SEC_FETCH_SITE) {
        return site != "same-origin" && site != "none";
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let Some((scheme, origin)) = origin.to_str().ok().and_then(|origin| origin.split_once("://")) else {
        return true;
    };
    let default_port = if scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
    let plain = |name: &str| name.strip_suffix(default_port).unwrap_or(name).to_ascii_lowercase();
    host.is_none_or(|host| plain(host) != plain(origin))
}

/// Whether `host`, with or without a port, is this machine by any resolver.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, port)) if port.is_empty() || port.starts_with(':') => name,
            _ => "",
        },
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_are_loopback() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1:7942", "127.9.9.9", "[::1]:1", "[::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "example.org",
            "localhost.example.org:80",
            "10.0.0.1:7942",
            "[::2]:1",
            "127.0.0.1.nip.io",
            "[::1]x",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn the_fetch_metadata_decide_and_without_them_the_origin() {
        let foreign = |pairs: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(HeaderName::from_static(name), value.parse().unwrap());
            }
            is_foreign(&headers, Some("localhost:7942"))
        };
        assert!(!foreign(&[]));
        assert!(!foreign(&[("sec-fetch-site", "same-origin"), ("origin", "http://elsewhere")]));
        assert!(!foreign(&[("sec-fetch-site", "none")]));
        assert!(foreign(&[("sec-fetch-site", "same-site")]));
        assert!(foreign(&[("sec-fetch-site", "cross-site"), ("origin", "http://localhost:7942")]));
        assert!(!foreign(&[("origin", "http://LOCALHOST:7942")]));
        assert!(foreign(&[("origin", "http://localhost:7943")]));
        assert!(foreign(&[("origin", "null")]));
    }
}
