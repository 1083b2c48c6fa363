//! Who is asking, and how much of it at once: a user, or with security off the client's address.

use std::{
    collections::HashMap,
    convert::Infallible,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use axum::{
    extract::FromRequestParts,
    http::{StatusCode, request::Parts},
};
use parking_lot::Mutex;

use super::ApiError;
use crate::{security::Caller, size::counted};

/// The client's address. Who accepts the connection puts it into the request's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Peer(pub IpAddr);

/// Nobody's address: of requests that came without one.
impl Default for Peer {
    fn default() -> Self {
        Self(Ipv4Addr::UNSPECIFIED.into())
    }
}

/// Whom a request in flight is counted for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Identity {
    User(Arc<str>),
    Address(IpAddr),
}

impl Identity {
    /// Whom a request of `caller` from `peer` is counted for.
    pub(super) fn of(caller: &Caller, peer: Peer) -> Self {
        caller.name().map_or(Self::Address(peer.0), |name| Self::User(Arc::clone(name)))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Identity {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let peer: Peer = parts.extensions.get().copied().unwrap_or_default();
        Ok(parts.extensions.get().map_or(Self::Address(peer.0), |caller| Self::of(caller, peer)))
    }
}

/// Counts the requests in flight for each identity, up to a limit.
#[derive(Debug, Clone)]
pub(super) struct Slots {
    limit: u32,
    taken: Arc<Mutex<HashMap<Identity, u32>>>,
}

/// A request in flight; dropping it ends that.
#[derive(Debug)]
pub(super) struct Slot {
    identity: Identity,
    slots: Slots,
}

impl Slots {
    /// At most `limit` in flight for one identity; 0 is no bound.
    pub(super) fn new(limit: u32) -> Self {
        Self { limit, taken: Arc::default() }
    }

    /// # Errors
    /// 429 when the client has as many in flight as it may.
    pub(super) fn take(&self, identity: Identity) -> Result<Slot, ApiError> {
        let mut taken = self.taken.lock();
        let count = taken.entry(identity.clone()).or_insert(0);
        if self.limit > 0 && *count >= self.limit {
            let message = format!("{} of this kind in flight already", counted((*count).into(), "request"));
            return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, message).retry_after(1));
        }
        *count = count.saturating_add(1);
        Ok(Slot { identity, slots: self.clone() })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.lock();
        if let Some(count) = taken.get_mut(&self.identity) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.identity);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_comes_free_when_the_request_ends_and_others_have_their_own() {
        let address = |last| Identity::Address([127, 0, 0, last].into());
        let (slots, user) = (Slots::new(1), Identity::User("ann".into()));
        let held = slots.take(address(1)).unwrap();
        assert_eq!(slots.take(address(1)).unwrap_err().status, StatusCode::TOO_MANY_REQUESTS);
        assert!(slots.take(address(2)).is_ok() && slots.take(user).is_ok());
        drop(held);
        assert!(slots.take(address(1)).is_ok());
        assert!(slots.taken.lock().is_empty());
    }
}
