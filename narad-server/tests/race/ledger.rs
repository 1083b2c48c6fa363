//! What became of every message of one name, over all lives of the topic.
//!
//! A call that overlaps a delete and a create may meet either life. What is known of a call is the window of lives that
//! it can have met; a message that was produced in one window and delivered in another that does not overlap it went
//! from one life into another.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU32, Ordering},
};

use bytes::Bytes;
use parking_lot::Mutex;

/// The largest payload.
const LARGEST: u64 = 2048;
/// Lives after which a message is forgotten: whoever is delivered one then has found a record of the dead.
const REMEMBERED: u32 = 8;

/// The lives that a call can have met, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub first: u32,
    pub last: u32,
}

impl Window {
    fn meets(self, other: Self) -> bool {
        self.first.max(other.first) <= self.last.min(other.last)
    }
}

#[derive(Debug)]
struct Message {
    window: Window,
    outcome: Outcome,
    delivered: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    UnderWay,
    Taken,
    Refused,
}

/// The messages of one name.
#[derive(Debug)]
pub struct Ledger {
    slot: u32,
    /// Lives whose creation has begun.
    begun: AtomicU32,
    /// Lives whose delete was answered.
    ended: AtomicU32,
    messages: Mutex<(u64, BTreeMap<u64, Message>)>,
}

impl Ledger {
    pub fn new(slot: u32) -> Self {
        Self { slot, begun: AtomicU32::new(0), ended: AtomicU32::new(0), messages: Mutex::default() }
    }

    /// A creation begins. Returns the number of the life, from 1.
    pub fn begins(&self) -> u32 {
        let life = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let forgotten = life.saturating_sub(REMEMBERED);
        self.messages
            .lock()
            .1
            .retain(|_, message| message.outcome == Outcome::UnderWay || message.window.last >= forgotten);
        life
    }

    /// A delete was answered.
    pub fn ends(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    /// The first life that a call can meet which begins now.
    pub fn first(&self) -> u32 {
        self.ended.load(Ordering::SeqCst) + 1
    }

    fn window_from(&self, first: u32) -> Window {
        Window { first, last: self.begun.load(Ordering::SeqCst) }
    }

    /// A message that is about to be produced, and what names it.
    pub fn write(&self) -> (u64, Bytes) {
        let window = Window { first: self.first(), last: u32::MAX };
        let mut messages = self.messages.lock();
        messages.0 += 1;
        let id = messages.0;
        messages.1.insert(id, Message { window, outcome: Outcome::UnderWay, delivered: false });
        (id, payload(self.slot, id))
    }

    /// The produce call was answered.
    pub fn answered(&self, id: u64, taken: bool) {
        let mut messages = self.messages.lock();
        let message = messages.1.get_mut(&id).unwrap();
        message.window = self.window_from(message.window.first);
        message.outcome = if taken { Outcome::Taken } else { Outcome::Refused };
        assert!(taken || !message.delivered, "message {id} was delivered, and then refused");
    }

    /// A consume that began when the first life was `first` has brought this.
    pub fn delivered(&self, bytes: &[u8], first: u32) {
        let window = self.window_from(first);
        let (slot, id) = named(bytes).unwrap_or_else(|| panic!("nobody produced this: {bytes:?}"));
        assert_eq!(slot, self.slot, "message {id} of another topic");
        assert!(bytes == payload(slot, id), "message {id} came with other bytes");
        let mut messages = self.messages.lock();
        let Some(message) = messages.1.get_mut(&id) else {
            panic!("message {id} is of a life long gone, and was delivered in {window:?}");
        };
        assert_ne!(message.outcome, Outcome::Refused, "message {id} was refused and delivered");
        assert!(
            message.window.meets(window),
            "message {id} was produced in {:?} and delivered in {window:?}",
            message.window
        );
        message.delivered = true;
    }

    /// Messages of this life alone that were taken and not delivered so far.
    pub fn missing(&self, life: u32) -> Vec<u64> {
        let of_life = Window { first: life, last: life };
        let missing = |message: &Message| {
            message.window == of_life && message.outcome == Outcome::Taken && !message.delivered
        };
        let messages = self.messages.lock();
        messages.1.iter().filter(|(_, message)| missing(message)).map(|(id, _)| *id).collect()
    }

    /// Messages so far.
    pub fn written(&self) -> u64 {
        self.messages.lock().0
    }
}

/// Twelve bytes that name it, then as many as its number says.
fn payload(slot: u32, id: u64) -> Bytes {
    let mut bytes = [slot.to_le_bytes().as_slice(), &id.to_le_bytes()].concat();
    let mut noise = id.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(slot);
    for _ in 0..noise % LARGEST / 8 {
        noise = noise.rotate_left(23).wrapping_mul(0xD134_2543_DE82_EF95);
        bytes.extend_from_slice(&noise.to_le_bytes());
    }
    bytes.into()
}

fn named(bytes: &[u8]) -> Option<(u32, u64)> {
    let (slot, rest) = bytes.split_first_chunk()?;
    let (id, _) = rest.split_first_chunk()?;
    Some((u32::from_le_bytes(*slot), u64::from_le_bytes(*id)))
}
