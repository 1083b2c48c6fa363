//! Durations as people write them.
