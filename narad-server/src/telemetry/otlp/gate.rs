//! Whether spans are made. While a collector takes none, making them would cost a produce more than all else that telemetry
//! does; so then each costs a look at a static, as it does where no collector is named.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tracing::{Metadata, callsite::rebuild_interest_cache, subscriber::Interest};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    layer::{Context, Filter},
};

/// Open at first. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Gate(Arc<AtomicBool>);

impl Gate {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    /// Opens or shuts it, for spans that begin from now on. A change asks every place of a span anew, which takes a fraction
    /// of a millisecond: it is for changes that come a few times a second at most.
    pub(super) fn set(&self, is_open: bool) {
        if self.0.swap(is_open, Ordering::Relaxed) != is_open {
            rebuild_interest_cache();
        }
    }

    fn lets_through(&self, metadata: &Metadata<'_>) -> bool {
        !metadata.is_span() || self.0.load(Ordering::Relaxed)
    }
}

/// What is traced while the gate is open.
#[derive(Debug)]
pub(super) struct Gated {
    pub(super) targets: Targets,
    pub(super) gate: Gate,
}

impl<S> Filter<S> for Gated {
    fn enabled(&self, metadata: &Metadata<'_>, context: &Context<'_, S>) -> bool {
        self.gate.lets_through(metadata) && Filter::<S>::enabled(&self.targets, metadata, context)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        // What is never wanted is not even asked about, until the gate changes.
        if self.gate.lets_through(metadata) {
            Filter::<S>::callsite_enabled(&self.targets, metadata)
        } else {
            Interest::never()
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Filter::<S>::max_level_hint(&self.targets)
    }
}
