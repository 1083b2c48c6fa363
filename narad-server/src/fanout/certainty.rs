//! Whether it is known who follows a topic: while a link is being made, or may not have been told of, nothing of its
//! parent counts as settled.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use narad_core::plugin::Incarnation;
use parking_lot::Mutex;

/// Whether the links that the fan-out copies along are all that there are.
#[derive(Debug, Default)]
pub(super) struct Certainty {
    links_are_known: AtomicBool,
    /// Parents that are getting a child, and how many.
    linking: Mutex<HashMap<Incarnation, usize>>,
}

impl Certainty {
    pub(super) fn set_known(&self, known: bool) {
        self.links_are_known.store(known, Ordering::SeqCst);
    }

    pub(super) fn is_certain(&self, parent: Incarnation) -> bool {
        self.links_are_known.load(Ordering::SeqCst) && !self.linking.lock().contains_key(&parent)
    }
}

/// A parent is getting a child: until this goes, nothing of it counts as settled by all.
#[derive(Debug)]
pub struct Linking {
    certainty: Arc<Certainty>,
    parent: Incarnation,
}

impl Linking {
    pub(super) fn begin(certainty: &Arc<Certainty>, parent: Incarnation) -> Self {
        *certainty.linking.lock().entry(parent).or_default() += 1;
        Self { certainty: Arc::clone(certainty), parent }
    }
}

impl Drop for Linking {
    fn drop(&mut self) {
        let mut linking = self.certainty.linking.lock();
        if let Some(count) = linking.get_mut(&self.parent) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                linking.remove(&self.parent);
            }
        }
    }
}
