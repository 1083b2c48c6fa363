//! The locks, atomics and threads of everything that the `shuttle` models run: parking_lot's and std's, or, with the
//! private feature `shuttle`, the same over shuttle's scheduler.
//!
//! Decides nothing but which of the two it is. Whatever is locked across a call into the engine comes from here: a lock
//! that shuttle does not know blocks the only thread that a model has.

#[cfg(all(feature = "engine", not(feature = "shuttle")))]
pub(crate) use parking_lot::RwLock;
#[cfg(not(feature = "shuttle"))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
#[cfg(all(feature = "engine", not(feature = "shuttle")))]
pub(crate) use std::{sync::atomic, thread};

#[cfg(feature = "shuttle")]
pub(crate) use self::modelled::{Condvar, Mutex, MutexGuard, RwLock};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::{sync::atomic, thread};

/// parking_lot's signatures over shuttle's locks, as far as the engine uses them: a panic poisons nothing, and a wait
/// takes its guard by reference.
#[cfg(feature = "shuttle")]
mod modelled {
    use std::{
        fmt,
        ops::{Deref, DerefMut},
        sync::{PoisonError, TryLockError},
        time::Duration,
    };

    use shuttle::sync::{self, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult};

    #[derive(Default)]
    pub(crate) struct Mutex<T: ?Sized>(sync::Mutex<T>);

    /// Empty only while a wait has it.
    pub(crate) struct MutexGuard<'a, T: ?Sized>(Option<sync::MutexGuard<'a, T>>);

    #[derive(Debug, Default)]
    pub(crate) struct Condvar(sync::Condvar);

    #[derive(Default)]
    pub(crate) struct RwLock<T: ?Sized>(sync::RwLock<T>);

    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(sync::Mutex::new(value))
        }
    }

    impl<T: ?Sized> Mutex<T> {
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            match self.0.try_lock() {
                Ok(guard) => Some(MutexGuard(Some(guard))),
                Err(TryLockError::Poisoned(poisoned)) => Some(MutexGuard(Some(poisoned.into_inner()))),
                Err(TryLockError::WouldBlock) => None,
            }
        }
    }

    /// Prints nothing of the value: looking at it would be a step of the schedule.
    impl<T: ?Sized> fmt::Debug for Mutex<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Mutex").finish_non_exhaustive()
        }
    }

    #[expect(clippy::expect_used, reason = "a wait has the guard borrowed for as long as it is empty")]
    impl<T: ?Sized> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_deref().expect("the lock is held")
        }
    }

    #[expect(clippy::expect_used, reason = "a wait has the guard borrowed for as long as it is empty")]
    impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_deref_mut().expect("the lock is held")
        }
    }

    impl Condvar {
        pub(crate) const fn new() -> Self {
            Self(sync::Condvar::new())
        }

        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            guard.0 = guard.0.take().map(|held| self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
        }

        /// Never times out: a model has no time.
        #[expect(clippy::expect_used, reason = "a guard holds its lock")]
        pub(crate) fn wait_for<T>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            limit: Duration,
        ) -> WaitTimeoutResult {
            let held = guard.0.take().expect("the lock is held");
            let (held, outcome) = self.0.wait_timeout(held, limit).unwrap_or_else(PoisonError::into_inner);
            guard.0 = Some(held);
            outcome
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    impl<T> RwLock<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(sync::RwLock::new(value))
        }
    }

    impl<T: ?Sized> RwLock<T> {
        pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(PoisonError::into_inner)
        }

        pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// Prints nothing of the value: looking at it would be a step of the schedule.
    impl<T: ?Sized> fmt::Debug for RwLock<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("RwLock").finish_non_exhaustive()
        }
    }
}
