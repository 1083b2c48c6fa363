//! What codecs need for a frame and is costly to make, kept between frames. Nothing here waits: an empty pool makes one.

use std::sync::{Mutex, PoisonError};

/// Contexts kept while nobody uses them. As many frames are rarely encoded or decoded at once, and a burst of more
/// pays for making theirs.
const MAX_IDLE: usize = 8;

/// Idle contexts of a codec (of a compression library, say), for a `static` that all logs of the process share: a codec is
/// called from many threads at once, and what is made anew for each frame can cost more than the frame.
///
/// ```
/// use narad_core::plugin::Pool;
///
/// static BUFFERS: Pool<Vec<u8>> = Pool::new();
/// let buffer = BUFFERS.take(|| Ok::<_, std::io::Error>(Vec::with_capacity(4096)))?;
/// BUFFERS.give_back(buffer);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Pool<T>(Mutex<Vec<T>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Pool<T> {
    /// An empty one.
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// An idle context, or a new one.
    ///
    /// # Errors
    /// What `make` says.
    pub fn take<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let idle = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(make, Ok)
    }

    /// Gives a context back, for somebody else to take. At most 8 are kept; one too many is dropped, outside the lock.
    pub fn give_back(&self, context: T) {
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
