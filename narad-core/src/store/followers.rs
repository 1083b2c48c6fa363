//! Whoever else reads a topic's logs, beside its consumers, and must not lose what it has not got: the children that a
//! topic's records are copied to.
//!
//! The store copies nothing itself. It asks before each sweep, so that a policy which goes by what is settled keeps what
//! a follower has not got. Where the answer is not known, nothing counts as settled.

use std::{fmt::Debug, sync::Arc};

use parking_lot::RwLock;

use super::{Inner, topic::Topic};
use crate::{
    format::Offset,
    plugin::{Incarnation, PartitionId},
};

/// Tells how far the followers of a topic are. Set with [`Store::set_followers`](super::Store::set_followers).
pub trait Followers: Debug + Send + Sync + 'static {
    /// How far those are who follow a partition. Asked by the threads that do the store's background work, outside every
    /// lock of the store; does no I/O and does not block.
    fn followed(&self, topic: &str, incarnation: Incarnation, partition: PartitionId) -> Followed;
}

/// How far those are who follow a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Followed {
    /// Nobody follows it.
    ByNobody,
    /// Every follower has got what lies below this offset.
    Below(Offset),
    /// It cannot be said now.
    Unknown,
}

/// Who is asked; nobody as long as nobody was set.
#[derive(Debug, Default)]
pub(super) struct FollowersSeat(RwLock<Option<Arc<dyn Followers>>>);

impl FollowersSeat {
    pub(super) fn set(&self, followers: Arc<dyn Followers>) {
        *self.0.write() = Some(followers);
    }
}

impl Inner {
    /// The highest offset at and below which the consumers, who are at `consumers`, and every follower are done.
    ///
    /// The consumers come first: a follower that joins after they were looked at begins at or behind where they were.
    pub(super) fn settled_by_all(
        &self,
        topic: &Topic,
        incarnation: Incarnation,
        partition: PartitionId,
        consumers: Option<Offset>,
    ) -> Option<Offset> {
        let consumers = consumers?;
        let Some(followers) = self.followers.0.read().clone() else { return Some(consumers) };
        match followers.followed(topic.name(), incarnation, partition) {
            Followed::ByNobody => Some(consumers),
            Followed::Below(next) => {
                next.get().checked_sub(1).and_then(Offset::new).map(|last| last.min(consumers))
            }
            Followed::Unknown => None,
        }
    }
}
