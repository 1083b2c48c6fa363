//! The command `narad`.
