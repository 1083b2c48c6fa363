//! What the requests of a run hold: a message, or a batch of them. Made before the clock starts and sent over and over.

use bytes::Bytes;
use rand::RngExt;
use serde_json::Value;

/// The most messages that a broker takes in a batch.
pub(super) const MOST_MESSAGES: i64 = 1000;
/// The longest body of one that it takes, in bytes.
const LONGEST: usize = 16 << 20;

/// What stands around the messages of a batch, and between two of them.
const HEAD: &[u8] = b"{\"messages\":[";
const BETWEEN: &[u8] = b",";
const TAIL: &[u8] = b"]}";

/// A message of `size` bytes.
pub(super) fn message(size: u64) -> Bytes {
    let mut message = vec![0; length(size)];
    letters(&mut message);
    message.into()
}

/// The body of a batch, which all connections share: it may be long. Its messages differ, since a codec would make next to
/// nothing of a thousand that are equal.
#[derive(Debug)]
pub(super) struct Batch {
    whole: Bytes,
    /// What each message takes of it, in bytes.
    each: usize,
    /// How many they are.
    pub(super) messages: u64,
}

impl Batch {
    /// A batch of `messages` messages, each stored as `size` bytes.
    ///
    /// # Errors
    /// It would be longer than a broker takes. The text is for whoever asked for it.
    pub(super) fn new(messages: u64, size: u64, key: Option<&str>) -> Result<Self, String> {
        let key = key.map(|key| format!("\"key\":{},", Value::from(key))).unwrap_or_default();
        let before = format!("{{{key}\"payload\":");
        let (payload, after) = (length(size), b"}");
        let each = before.len() + payload + after.len();
        let long = end_of(messages, each) + TAIL.len();
        if long > LONGEST {
            let most = (LONGEST - TAIL.len() - HEAD.len() + BETWEEN.len()) / (each + BETWEEN.len());
            return Err(format!(
                "a batch of {messages} such messages takes {long} bytes as JSON and a broker takes {LONGEST}: \
                give --batch {most} or less, or a smaller --size"
            ));
        }
        let mut whole = Vec::with_capacity(long);
        whole.extend_from_slice(HEAD);
        for message in 0..messages {
            if message > 0 {
                whole.extend_from_slice(BETWEEN);
            }
            whole.extend_from_slice(before.as_bytes());
            let start = whole.len();
            whole.resize(start + payload, 0);
            json(whole.get_mut(start..).unwrap_or_default());
            whole.extend_from_slice(after);
        }
        whole.extend_from_slice(TAIL);
        Ok(Self { whole: whole.into(), each, messages })
    }

    /// The body with the first `messages` alone.
    pub(super) fn of(&self, messages: u64) -> Bytes {
        if messages == self.messages {
            return self.whole.clone();
        }
        let head = self.whole.get(..end_of(messages, self.each)).unwrap_or_default();
        [head, TAIL].concat().into()
    }
}

/// Where that many messages, of `each` bytes, end in a batch.
fn end_of(messages: u64, each: usize) -> usize {
    HEAD.len() + length(messages) * (each + BETWEEN.len()) - BETWEEN.len()
}

/// JSON that takes all of `payload`: a broker stores it as it is written, with the quotes.
fn json(payload: &mut [u8]) {
    match payload {
        [digit] => *digit = b'7',
        [open, text @ .., close] => {
            (*open, *close) = (b'"', b'"');
            letters(text);
        }
        [] => {}
    }
}

/// Text, so that it can be read in a terminal.
fn letters(text: &mut [u8]) {
    rand::rng().fill(&mut *text);
    text.iter_mut().for_each(|byte| *byte = b'a' + *byte % 26);
}

/// A size or a number that was found to be in bounds.
fn length(number: u64) -> usize {
    usize::try_from(number).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The payloads of a body, as they are stored, and the keys.
    fn messages(body: &Bytes) -> Vec<(String, Option<String>)> {
        let body: Value = serde_json::from_slice(body).unwrap();
        let messages = body["messages"].as_array().unwrap();
        let key = |message: &Value| message["key"].as_str().map(String::from);
        messages.iter().map(|message| (message["payload"].to_string(), key(message))).collect()
    }

    #[test]
    fn every_message_is_stored_with_its_size_and_differs_from_the_others() {
        for size in [1, 2, 3, 256] {
            let batch = Batch::new(5, size, None).unwrap();
            let mut stored = messages(&batch.of(5));
            assert!(stored.len() == 5 && stored.iter().all(|(payload, _)| payload.len() as u64 == size));
            stored.dedup();
            assert!(size < 256 || stored.len() == 5, "{stored:?}");
        }
    }

    #[test]
    fn a_smaller_batch_is_the_beginning_of_the_whole() {
        let batch = Batch::new(4, 20, Some("a \"key\"\n")).unwrap();
        let whole = messages(&batch.of(4));
        assert!(whole.iter().all(|(_, key)| key.as_deref() == Some("a \"key\"\n")), "{whole:?}");
        for fewer in 1..4 {
            assert_eq!(messages(&batch.of(fewer)), whole[..fewer as usize]);
        }
    }

    #[test]
    fn what_is_longer_than_a_broker_takes_is_refused_with_the_largest_that_fits() {
        let refused = Batch::new(1000, 64 << 10, None).unwrap_err();
        assert!(refused.contains("--batch 255 or less"), "{refused}");
        assert!(Batch::new(256, 64 << 10, None).is_err());
        assert!(Batch::new(255, 64 << 10, None).unwrap().of(255).len() <= LONGEST);
        // To the byte: 15 around all messages, and 13 with each of them, but for the last one's comma.
        let size = (LONGEST as u64 - 15 + 1) / 16 - 13;
        assert!(Batch::new(16, size, None).unwrap().of(16).len() > LONGEST - 16);
        assert!(Batch::new(16, size + 1, None).is_err());
    }
}
