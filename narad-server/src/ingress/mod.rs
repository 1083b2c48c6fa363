//! The produce WAL, its checkpoint, the dispatcher.
