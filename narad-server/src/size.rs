//! Sizes as people write them, and numbers of things as they read them.

pub use narad_core::units::size::{SizeError, WithUnits, parse};

/// How many of something there are: `1 byte`, `2 bytes`.
pub(crate) fn counted(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}
