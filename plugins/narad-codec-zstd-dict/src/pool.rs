//! Contexts that are costly to make and used for one frame at a time. Nothing here waits: an empty pool makes one.

use std::sync::{Mutex, PoisonError};

/// Contexts kept while nobody uses them. As many frames are rarely encoded or decoded at once, and a burst of more
/// pays for making theirs.
const MAX_IDLE: usize = 8;

/// Idle contexts, shared by the process.
#[derive(Debug)]
pub(crate) struct Pool<T>(Mutex<Vec<T>>);

impl<T> Pool<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// An idle context, or a new one.
    pub(crate) fn take<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let idle = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(make, Ok)
    }

    /// Gives a context back. One too many is dropped, outside the lock.
    pub(crate) fn give_back(&self, context: T) {
        let surplus = {
            let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < MAX_IDLE {
                idle.push(context);
                return;
            }
            context
        };
        drop(surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_come_back_and_a_surplus_goes() {
        let pool = Pool::new();
        assert_eq!(pool.take(|| Ok::<_, ()>(1)), Ok(1));
        for context in 0..100 {
            pool.give_back(context);
        }
        let kept = std::iter::from_fn(|| pool.take(|| Err(())).ok()).count();
        assert_eq!(kept, MAX_IDLE);
        assert_eq!(pool.take(|| Err("cannot")), Err("cannot"));
    }
}
