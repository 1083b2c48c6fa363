//! Who is asking, and what they may do: passwords, the throttle of those who guess them, grants.
//!
//! Knows users and topics as the metastore has them, and no HTTP. No password is kept, logged or shown; none is hashed
//! on an async thread.

mod authenticator;
mod caller;
mod grants;
mod hasher;
mod throttle;

pub use authenticator::{AuthError, Authenticator};
pub use caller::Caller;
pub use grants::{GrantError, check as check_grants};
pub use hasher::generate_password;
