//! What telemetry itself could not do, counted for the process: there is one log and one way out of it.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::{
    families::{Families, Labels},
    names,
};

/// The component in `narad_errors_total`.
const COMPONENT: &str = "telemetry";

static COUNTS: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

/// Counts a failure by one of a few kinds.
#[cfg(feature = "otlp")]
pub(super) fn count(kind: &'static str) {
    *COUNTS.lock().entry(kind).or_default() += 1;
}

/// How often it was counted.
#[cfg(all(test, feature = "otlp"))]
pub(super) fn counted(kind: &str) -> u64 {
    COUNTS.lock().get(kind).copied().unwrap_or_default()
}

/// Adds the series of failures of telemetry.
pub fn collect(out: &mut Families) {
    for (kind, count) in COUNTS.lock().iter() {
        out.add(names::ERRORS, &Labels::new([("component", COMPONENT), ("kind", kind)]), *count);
    }
}
