//! What was promised and what was seen, over all lives of a broker.

use std::collections::{BTreeMap, HashMap};

use super::Client;

/// Who was promised what, and what each offset holds.
#[derive(Default)]
pub struct Ledger {
    /// Every payload that was sent, and whether it was answered 202.
    sent: HashMap<String, bool>,
    /// The one content of each partition and offset, over the whole test.
    contents: BTreeMap<(u32, u64), String>,
}

impl Ledger {
    /// A message was answered.
    pub fn answered(&mut self, payload: &str, accepted: bool) {
        self.sent.insert(payload.to_owned(), accepted);
    }

    /// An offset was served.
    ///
    /// # Panics
    /// When nobody sent that, or the offset has held something else before.
    pub fn served(&mut self, partition: u32, offset: u64, payload: &str) {
        assert!(self.sent.contains_key(payload), "{partition}/{offset} holds what nobody sent: {payload:?}");
        let before = self.contents.entry((partition, offset)).or_insert_with(|| payload.to_owned());
        assert_eq!(before, payload, "{partition}/{offset} was served with two contents");
    }

    pub fn accepted(&self) -> impl Iterator<Item = &str> {
        self.sent.iter().filter(|(_, accepted)| **accepted).map(|(payload, _)| payload.as_str())
    }

    pub fn refused(&self) -> usize {
        self.sent.values().filter(|accepted| !**accepted).count()
    }

    /// Replays everything, and counts: how often each payload is there now.
    pub async fn count(&mut self, client: &Client, partitions: u32) -> HashMap<String, usize> {
        let mut copies = HashMap::new();
        for partition in 0..partitions {
            for (offset, payload) in client.replay(partition, 0).await {
                let payload = payload.unwrap_or_else(|| panic!("{partition}/{offset} cannot be read"));
                self.served(partition, offset, &payload);
                *copies.entry(payload).or_default() += 1;
            }
        }
        copies
    }

    /// Compares what is there with what was promised.
    ///
    /// # Panics
    /// When an accepted message is missing or is there more often than `accepted_at_most`, or a refused one is there
    /// more often than `refused_at_most`.
    pub fn check(&self, copies: &HashMap<String, usize>, accepted_at_most: usize, refused_at_most: usize) {
        for (payload, accepted) in &self.sent {
            let there = copies.get(payload).copied().unwrap_or(0);
            if *accepted {
                assert!(there >= 1, "acknowledged and lost: {payload}");
                assert!(there <= accepted_at_most, "acknowledged once and there {there} times: {payload}");
            } else {
                assert!(there <= refused_at_most, "refused and there {there} times: {payload}");
            }
        }
    }
}
