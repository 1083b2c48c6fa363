//! Links between topics: a parent whose messages are copied to its children. The rules that every link keeps.
//!
//! Knows no table: whoever changes a link checks it here first, inside the transaction that makes the change.

use std::sync::Arc;

use narad_core::{format::Offset, plugin::Incarnation};

use super::Topic;
use crate::duration::shown;

/// The most children of one topic.
pub const MAX_CHILDREN: usize = 108;
/// How much longer a parent keeps its messages than the longest delay of a child, in milliseconds.
pub const RETENTION_MARGIN_MS: u64 = 3_600_000;

/// A child, as its parent's record has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildLink {
    /// The child.
    pub name: Arc<str>,
    /// Which life of the child.
    pub id: Incarnation,
    /// Tells this attachment from every other there was and will be.
    pub epoch: u64,
    /// How long a message waits before it is copied, in milliseconds.
    pub delay_ms: u64,
}

/// A parent, as its child's record has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentLink {
    /// The parent.
    pub name: Arc<str>,
    /// Which life of the parent.
    pub id: Incarnation,
    /// As in [`ChildLink::epoch`].
    pub epoch: u64,
    /// As in [`ChildLink::delay_ms`].
    pub delay_ms: u64,
    /// By partition of the parent, the first offset that is copied. A partition beyond came later and is copied from its
    /// start.
    pub offsets: Arc<[Offset]>,
}

/// What is to be linked to a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLink {
    /// The parent.
    pub parent: Arc<str>,
    /// Which life of the parent.
    pub parent_id: Incarnation,
    /// How long a message waits before it is copied, in milliseconds.
    pub delay_ms: u64,
    /// See [`ParentLink::offsets`].
    pub offsets: Arc<[Offset]>,
}

/// A link in force, with what copying needs to know of both ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The child.
    pub child: Arc<str>,
    /// Which life of the child.
    pub child_id: Incarnation,
    /// The parent and where copying began.
    pub parent: ParentLink,
    /// How many partitions the parent has.
    pub parent_partitions: u32,
}

/// Both ends of a link, as a change has left them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linked {
    /// The parent.
    pub parent: Topic,
    /// The child.
    pub child: Topic,
}

/// Why two topics cannot be linked, or a linked one not be changed so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkRefusal {
    /// A topic cannot be its own child.
    #[error("topic {0} cannot be its own child")]
    Itself(Arc<str>),
    /// A child has one parent.
    #[error("topic {child} is a child of {parent} already")]
    HasParent {
        /// The child.
        child: Arc<str>,
        /// The parent that it has.
        parent: Arc<str>,
    },
    /// A topic with children cannot become a child.
    #[error("topic {0} has children and cannot become a child")]
    HasChildren(Arc<str>),
    /// A child cannot have children.
    #[error("topic {0} is a child and cannot have children")]
    IsChild(Arc<str>),
    /// There is no room for another child.
    #[error("topic {0} has {MAX_CHILDREN} children, and cannot have more")]
    TooMany(Arc<str>),
    /// The parent would lose messages before they are due.
    #[error(
        "topic {parent} keeps messages for {}, and a child with a delay of {} needs them for {} ({} ms), or for ever (0)",
        shown(*retention_ms), shown(*delay_ms), shown(needed_for(*delay_ms)), needed_for(*delay_ms)
    )]
    Retention {
        /// The parent.
        parent: Arc<str>,
        /// Its retention.
        retention_ms: u64,
        /// The child's delay.
        delay_ms: u64,
    },
}

/// Whether `child` may become a child of `parent`.
pub(super) fn check_link(parent: &Topic, child: &Topic, delay_ms: u64) -> Result<(), LinkRefusal> {
    if parent.name == child.name {
        return Err(LinkRefusal::Itself(Arc::clone(&child.name)));
    }
    if let Some(link) = &child.parent {
        let (child, parent) = (Arc::clone(&child.name), Arc::clone(&link.name));
        return Err(LinkRefusal::HasParent { child, parent });
    }
    if !child.children.is_empty() {
        return Err(LinkRefusal::HasChildren(Arc::clone(&child.name)));
    }
    if parent.parent.is_some() {
        return Err(LinkRefusal::IsChild(Arc::clone(&parent.name)));
    }
    if parent.children.len() >= MAX_CHILDREN {
        return Err(LinkRefusal::TooMany(Arc::clone(&parent.name)));
    }
    check_retention_for(parent, delay_ms)
}

/// Whether `parent` keeps its messages for long enough for the children that it has.
pub(super) fn check_retention(parent: &Topic) -> Result<(), LinkRefusal> {
    parent.children.iter().try_for_each(|child| check_retention_for(parent, child.delay_ms))
}

/// For how long a parent must keep its messages for a child with that delay, in milliseconds.
fn needed_for(delay_ms: u64) -> u64 {
    delay_ms.saturating_add(RETENTION_MARGIN_MS)
}

fn check_retention_for(parent: &Topic, delay_ms: u64) -> Result<(), LinkRefusal> {
    let retention_ms = parent.retention_ms;
    if retention_ms == 0 || retention_ms >= needed_for(delay_ms) {
        return Ok(());
    }
    Err(LinkRefusal::Retention { parent: Arc::clone(&parent.name), retention_ms, delay_ms })
}
