//! Who is asking, and how much of it at once. With security off that is the client's address.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use axum::http::StatusCode;
use parking_lot::Mutex;

use super::ApiError;

/// The client's address. Who accepts the connection puts it into the request's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Peer(pub IpAddr);

/// Counts the requests in flight for each client, up to a limit.
#[derive(Debug, Clone)]
pub(super) struct Slots {
    limit: u32,
    taken: Arc<Mutex<HashMap<IpAddr, u32>>>,
}

/// A request in flight; dropping it ends that.
#[derive(Debug)]
pub(super) struct Slot {
    peer: IpAddr,
    slots: Slots,
}

impl Slots {
    /// At most `limit` in flight for one client; 0 is no bound.
    pub(super) fn new(limit: u32) -> Self {
        Self { limit, taken: Arc::default() }
    }

    /// # Errors
    /// 429 when the client has as many in flight as it may.
    pub(super) fn take(&self, Peer(peer): Peer) -> Result<Slot, ApiError> {
        let mut taken = self.taken.lock();
        let count = taken.entry(peer).or_insert(0);
        if self.limit > 0 && *count >= self.limit {
            let message = format!("{count} requests of this kind are in flight already");
            return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, message).retry_after(1));
        }
        *count = count.saturating_add(1);
        Ok(Slot { peer, slots: self.clone() })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.lock();
        if let Some(count) = taken.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_comes_free_when_the_request_ends_and_others_have_their_own() {
        let (slots, one, other) = (Slots::new(1), Peer([127, 0, 0, 1].into()), Peer([127, 0, 0, 2].into()));
        let held = slots.take(one).unwrap();
        assert_eq!(slots.take(one).unwrap_err().status, StatusCode::TOO_MANY_REQUESTS);
        assert!(slots.take(other).is_ok());
        drop(held);
        assert!(slots.take(one).is_ok());
        assert!(slots.taken.lock().is_empty());
    }
}
