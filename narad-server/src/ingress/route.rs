//! The key field of a WAL record: where the message goes, then the message's own key. The payload field is the
//! message, byte for byte.
//!
//! | offset | size | field | |
//! | --- | --- | --- | --- |
//! | 0 | 1 | version | 1; 2 when the producer named the partition |
//! | 1 | 16 | incarnation | as in the topic's marker: 16 lower-case hexadecimal digits |
//! | 17 | 4 | partition | u32, big-endian |
//! | 21 | 2 | topic length | u16, big-endian, ≥ 1 |
//! | 23 | n | topic | UTF-8 |
//! | 23 + n | rest | key | the message's key, empty when there is none |
//!
//! Integrity is the frame's business: its CRC covers these bytes.

use std::{collections::HashMap, io::Write, sync::Arc};

use bytes::Bytes;
use narad_core::plugin::{Incarnation, PartitionId};

use super::Staged;

/// The partition was chosen for the message, and another one does as well.
const FREE: u8 = 1;
/// The producer named the partition: the message goes there or waits.
const PINNED: u8 = 2;
const INCARNATION_LEN: usize = 16;
/// Bytes between the version and the length of the topic's name.
const BEFORE_LEN: usize = INCARNATION_LEN + 4;
/// Bytes before the topic's name.
const FIXED_LEN: usize = 1 + BEFORE_LEN + 2;
/// Routes that are remembered, at most.
const KNOWN: usize = 4096;

/// The partition a message is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Route {
    pub(super) topic: Arc<str>,
    pub(super) id: Incarnation,
    pub(super) partition: PartitionId,
}

/// What the key field of a WAL record says.
#[derive(Debug)]
pub(super) struct Address {
    /// Where the message goes, as it is written.
    route: Bytes,
    /// Whether the producer named the partition.
    pub(super) pinned: bool,
    /// The message's own key.
    pub(super) key: Bytes,
}

/// The routes of the last messages, so that each is made once and not for every message.
#[derive(Debug, Default)]
pub(super) struct Routes(HashMap<Bytes, Arc<Route>>);

impl Routes {
    /// Where the message goes.
    pub(super) fn of(&mut self, address: &Address) -> Option<Arc<Route>> {
        if let Some(known) = self.0.get(&address.route) {
            return Some(Arc::clone(known));
        }
        let route = Arc::new(address.route()?);
        if self.0.len() >= KNOWN {
            self.0.clear();
        }
        // A copy: the bytes are a view of all that was read with them.
        self.0.insert(Bytes::copy_from_slice(&address.route), Arc::clone(&route));
        Some(route)
    }
}

/// Bytes a message's WAL record takes for key and payload together.
pub(super) fn stored_len(message: &Staged) -> usize {
    FIXED_LEN + message.topic.len() + message.key.len() + message.payload.len()
}

/// Writes the key field of the WAL record into `out`, which is cleared. `None` for a topic whose name does not fit.
pub(super) fn encode(message: &Staged, out: &mut Vec<u8>) -> Option<()> {
    let topic_len = u16::try_from(message.topic.len()).ok().filter(|&len| len > 0)?;
    out.clear();
    out.reserve(FIXED_LEN + message.topic.len() + message.key.len());
    out.push(if message.pinned { PINNED } else { FREE });
    write!(out, "{}", message.id).ok()?;
    out.extend_from_slice(&message.partition.0.to_be_bytes());
    out.extend_from_slice(&topic_len.to_be_bytes());
    out.extend_from_slice(message.topic.as_bytes());
    out.extend_from_slice(&message.key);
    Some(())
}

/// Reads the key field of a WAL record; what it gives are views. `None` when it is not one that this version wrote.
pub(super) fn decode(field: &Bytes) -> Option<Address> {
    let (&version, rest) = field.split_first()?;
    let pinned = match version {
        FREE => false,
        PINNED => true,
        _ => return None,
    };
    let topic_len = u16::from_be_bytes(*rest.get(BEFORE_LEN..)?.first_chunk()?);
    if topic_len == 0 {
        return None;
    }
    let (route, key) = rest.split_at_checked(BEFORE_LEN + 2 + usize::from(topic_len))?;
    Some(Address { route: field.slice_ref(route), pinned, key: field.slice_ref(key) })
}

impl Address {
    /// Where the message goes; `None` where that is not what this version wrote.
    fn route(&self) -> Option<Route> {
        let (incarnation, rest) = self.route.split_first_chunk::<INCARNATION_LEN>()?;
        let (partition, rest) = rest.split_first_chunk::<4>()?;
        let (_, topic) = rest.split_first_chunk::<2>()?;
        Some(Route {
            topic: std::str::from_utf8(topic).ok()?.into(),
            id: std::str::from_utf8(incarnation).ok()?.parse().ok()?,
            partition: PartitionId(u32::from_be_bytes(*partition)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(topic: &str, key: &'static [u8]) -> Staged {
        Staged {
            topic: topic.into(),
            id: Incarnation::new(0xAB),
            partition: PartitionId(7),
            pinned: false,
            key: Bytes::from_static(key),
            payload: Bytes::from_static(b"payload"),
        }
    }

    #[test]
    fn the_header_is_as_documented_and_reads_back() {
        let mut field = vec![9; 100];
        encode(&message("orders", b"k1"), &mut field).unwrap();
        assert_eq!(field, b"\x0100000000000000ab\0\0\0\x07\0\x06ordersk1");
        assert_eq!(stored_len(&message("orders", b"k1")), field.len() + 7);
        let address = decode(&Bytes::from(field)).unwrap();
        let (mut routes, Address { pinned, key, .. }) = (Routes::default(), &address);
        let route = routes.of(&address).unwrap();
        assert_eq!(
            (&*route.topic, route.id, route.partition),
            ("orders", Incarnation::new(0xAB), PartitionId(7))
        );
        assert!(Arc::ptr_eq(&route, &routes.of(&address).unwrap()));
        assert_eq!((*pinned, &**key), (false, &b"k1"[..]));
        let mut field = Vec::new();
        encode(&Staged { pinned: true, ..message("orders", b"k1") }, &mut field).unwrap();
        assert_eq!(field[0], 2);
        assert!(decode(&Bytes::from(field)).unwrap().pinned);
    }

    #[test]
    fn every_proper_prefix_and_other_versions_are_refused() {
        let mut field = Vec::new();
        encode(&message("orders", b""), &mut field).unwrap();
        for len in 0..field.len() {
            assert!(decode(&Bytes::copy_from_slice(&field[..len])).is_none(), "{len} bytes");
        }
        assert!(decode(&Bytes::from(field.clone())).is_some_and(|address| address.key.is_empty()));
        for (at, byte) in [(1, b'x'), (FIXED_LEN, 0xFF)] {
            let mut field = field.clone();
            field[at] = byte;
            let address = decode(&Bytes::from(field)).unwrap();
            assert!(Routes::default().of(&address).is_none(), "neither an incarnation nor a name");
        }
        for version in [0, 3] {
            field[0] = version;
            assert!(decode(&Bytes::from(field.clone())).is_none());
        }
    }

    #[test]
    fn a_name_that_does_not_fit_is_refused() {
        assert_eq!(encode(&message(&"n".repeat(65_536), b""), &mut Vec::new()), None);
        assert_eq!(encode(&message("", b""), &mut Vec::new()), None);
        assert_eq!(encode(&message(&"n".repeat(65_535), b""), &mut Vec::new()), Some(()));
    }
}
