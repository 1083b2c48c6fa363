//! The use cases. Knows no HTTP.
