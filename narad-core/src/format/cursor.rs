//! `fanout-<child>.offset`: how far a child of a topic is in one partition of it.

use serde::{Deserialize, Serialize};

use super::Offset;

/// Bytes of the file: more than any cursor takes, and within one sector. Always the same, so that overwriting it in
/// place changes the old cursor into the new one or not at all.
pub const FANOUT_CURSOR_LEN: usize = 64;

/// How far a child is in a partition of its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FanoutCursor {
    /// The attachment that the cursor belongs to. Of another one it says nothing.
    pub epoch: u64,
    /// Everything below was copied.
    pub next: Offset,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    epoch: String,
    next_offset: u64,
}

/// The file as written: one JSON object, white space behind it.
pub fn encode_fanout_cursor(cursor: FanoutCursor) -> [u8; FANOUT_CURSOR_LEN] {
    let FanoutCursor { epoch, next } = cursor;
    let object = format!("{{\"epoch\":\"{epoch:016x}\",\"next_offset\":{next}}}");
    let mut bytes = [b' '; FANOUT_CURSOR_LEN];
    for (to, from) in bytes.iter_mut().zip(object.bytes()) {
        *to = from;
    }
    if let Some(last) = bytes.last_mut() {
        *last = b'\n';
    }
    bytes
}

/// The file as found: `None` for anything but one cursor.
pub fn decode_fanout_cursor(bytes: &[u8]) -> Option<FanoutCursor> {
    let stored: Stored = serde_json::from_slice(bytes).ok()?;
    let digits = stored.epoch.len() == 16 && stored.epoch.bytes().all(|byte| byte.is_ascii_hexdigit());
    let epoch = u64::from_str_radix(&stored.epoch, 16).ok().filter(|_| digits)?;
    Some(FanoutCursor { epoch, next: Offset::new(stored.next_offset)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_written_as_documented_and_reads_back() {
        let cursor = FanoutCursor { epoch: 0x1f, next: Offset::from(7) };
        let bytes = encode_fanout_cursor(cursor);
        let text = std::str::from_utf8(&bytes).unwrap();
        assert_eq!(text.trim_end(), r#"{"epoch":"000000000000001f","next_offset":7}"#);
        assert_eq!(decode_fanout_cursor(&bytes), Some(cursor));
        assert_eq!(decode_fanout_cursor(text.trim_end().as_bytes()), Some(cursor));
        let longest = FanoutCursor { epoch: u64::MAX, next: Offset::new(i64::MAX as u64).unwrap() };
        assert_eq!(decode_fanout_cursor(&encode_fanout_cursor(longest)), Some(longest));
    }

    #[test]
    fn what_is_no_cursor_says_nothing() {
        let bytes = encode_fanout_cursor(FanoutCursor { epoch: 1, next: Offset::ZERO });
        for len in 0..40 {
            assert_eq!(decode_fanout_cursor(&bytes[..len]), None, "{len} bytes");
        }
        for text in [
            r#"{"epoch":"1","next_offset":7}"#,
            r#"{"epoch":"+00000000000001f","next_offset":7}"#,
            r#"{"epoch":"000000000000001f","next_offset":-7}"#,
            r#"{"epoch":"000000000000001f","next_offset":9223372036854775808}"#,
            r#"{"epoch":"000000000000001f"}"#,
            "[]",
        ] {
            assert_eq!(decode_fanout_cursor(text.as_bytes()), None, "{text}");
        }
        assert_eq!(decode_fanout_cursor(&[0; FANOUT_CURSOR_LEN]), None);
    }
}
