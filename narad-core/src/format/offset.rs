//! The position of a record in a partition.

use std::fmt;

/// The position of a record in a partition: 0 for the first one ever written, one more for each that follows.
///
/// The format stores offsets as `i64 ≥ 0`, so the largest is 2⁶³ − 1. That one is only ever an exclusive end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Offset(u64);

impl Offset {
    /// The first offset of a partition.
    pub const ZERO: Self = Self(0);
    /// The largest offset the format can express.
    pub const MAX: Self = Self(i64::MAX as u64);

    /// The offset `value`, or `None` above [`Offset::MAX`].
    pub const fn new(value: u64) -> Option<Self> {
        if value <= Self::MAX.0 { Some(Self(value)) } else { None }
    }

    /// The offset as stored, or `None` when negative.
    pub const fn from_i64(value: i64) -> Option<Self> {
        if value >= 0 { Some(Self(value.cast_unsigned())) } else { None }
    }

    /// As a plain number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// As stored.
    pub const fn to_i64(self) -> i64 {
        self.0.cast_signed()
    }

    /// `count` records further on, or `None` past [`Offset::MAX`].
    pub const fn checked_add(self, count: u64) -> Option<Self> {
        match self.0.checked_add(count) {
            Some(sum) => Self::new(sum),
            None => None,
        }
    }

    /// `count` records further on, at most [`Offset::MAX`].
    pub fn saturating_add(self, count: u64) -> Self {
        self.checked_add(count).unwrap_or(Self::MAX)
    }

    /// How many records lie from `earlier` up to here; 0 when `earlier` is not earlier.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Offset> for u64 {
    fn from(offset: Offset) -> Self {
        offset.0
    }
}

impl From<u32> for Offset {
    fn from(value: u32) -> Self {
        Self(u64::from(value))
    }
}
