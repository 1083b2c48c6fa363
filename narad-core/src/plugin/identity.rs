//! Which log a plugin is being asked about.

use std::{fmt, str::FromStr, sync::Arc};

/// The number of a partition within its topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct PartitionId(pub u32);

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Tells one life of a topic's name from the next: 16 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(u64);

impl Incarnation {
    /// The incarnation of this number. Numbers come from a random source, so that two never meet.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not 16 hexadecimal digits")]
pub struct IncarnationError;

impl FromStr for Incarnation {
    type Err = IncarnationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() != 16 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(IncarnationError);
        }
        u64::from_str_radix(text, 16).map(Self).map_err(|_| IncarnationError)
    }
}

/// The identity of a log: a topic's partition in one incarnation, or a name given at open.
///
/// A codec that authenticates where a frame belongs binds to this. It is cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LogIdentity {
    /// The topic, or the name given at open.
    pub name: Arc<str>,
    /// The topic's incarnation; absent for a log that is no topic's.
    pub incarnation: Option<Incarnation>,
    /// The partition; 0 for a log that is no topic's.
    pub partition: PartitionId,
}

impl LogIdentity {
    /// A log that stands alone.
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), incarnation: None, partition: PartitionId(0) }
    }

    /// A partition of a topic.
    pub fn partition(topic: impl Into<Arc<str>>, incarnation: Incarnation, partition: PartitionId) -> Self {
        Self { name: topic.into(), incarnation: Some(incarnation), partition }
    }
}

impl fmt::Display for LogIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.incarnation {
            Some(_) => write!(f, "{}/{}", self.name, self.partition),
            None => f.write_str(&self.name),
        }
    }
}
