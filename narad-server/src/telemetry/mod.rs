//! The program's own log, and every metric's name. Decides nothing; must never hold up a request.

pub mod exposition;
mod logging;
pub mod names;

pub use logging::init;
