//! Durations and sizes as people write them, for settings and plugins' configurations alike.
//!
//! Pure: text in, a value or an error out, for any text.

pub mod duration;
pub mod size;
