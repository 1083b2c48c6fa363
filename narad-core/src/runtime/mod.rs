//! What the logs of a process share: the disk and the clock, a bounded pool of workers for blocking file I/O, one
//! timer, the frame cache, and counters.

use std::{future::Future, sync::Arc};

use crate::{
    clock::{Clock, SystemClock},
    disk::{Disk, OsDisk},
};

/// How a runtime is built.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RuntimeOptions {
    /// The file system.
    pub disk: Arc<dyn Disk>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Threads for blocking file I/O, at most. They start when there is work and end when there is none.
    pub workers: usize,
    /// Bytes of decoded frames kept in memory.
    pub cache_bytes: usize,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self {
            disk: Arc::new(OsDisk),
            clock: Arc::new(SystemClock::new()),
            workers: 16,
            cache_bytes: 64 << 20,
        }
    }
}

/// Shared by the logs of a process; cheap to clone.
#[derive(Debug, Clone)]
pub struct Runtime {
    options: RuntimeOptions,
}

impl Runtime {
    /// A runtime with threads of its own.
    pub fn new(options: RuntimeOptions) -> Self {
        Self { options }
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.options.clock
    }

    /// The file system.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.options.disk
    }

    /// Runs blocking work on the pool; `group` (a topic's name, say) bounds how many workers it can take.
    pub fn run_blocking<T: Send + 'static>(
        &self,
        group: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = T> + Send + 'static {
        let _ = (group, &self.options);
        async move {
            let _ = work;
            todo!()
        }
    }
}

impl Default for Runtime {
    fn default() -> Self {
        Self::new(RuntimeOptions::default())
    }
}
