//! What the store asks before retention takes anything: how far the children of a topic are.
//!
//! Answers from memory. A child counts as soon as its link is being made, and for as long as it is not known where it is,
//! nothing counts as settled.

use std::{fmt, sync::Weak};

use narad_core::{
    format::Offset,
    plugin::{Incarnation, PartitionId},
    store::{Followed, Followers},
};

use super::shared::Shared;

/// The answer as long as there is no fan-out that could give one.
#[derive(Debug, Clone, Copy)]
pub struct NotKnownYet;

impl Followers for NotKnownYet {
    fn followed(&self, _: &str, _: Incarnation, _: PartitionId) -> Followed {
        Followed::Unknown
    }
}

/// The children of a fan-out's links.
pub(super) struct Children(pub(super) Weak<Shared>);

impl fmt::Debug for Children {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Children")
    }
}

impl Followers for Children {
    fn followed(&self, _: &str, incarnation: Incarnation, partition: PartitionId) -> Followed {
        let Some(shared) = self.0.upgrade() else { return Followed::Unknown };
        if !shared.certainty.is_certain(incarnation) {
            return Followed::Unknown;
        }
        let mut lowest: Option<Offset> = None;
        for link in shared.children_of(incarnation) {
            let Some(next) = link.known_cursor(partition).and_then(|cursor| cursor.next()) else {
                return Followed::Unknown;
            };
            lowest = Some(lowest.map_or(next, |lowest| lowest.min(next)));
        }
        lowest.map_or(Followed::ByNobody, Followed::Below)
    }
}
