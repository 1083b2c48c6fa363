//! Records that are about as compressible as JSON.

use narad_core::format::Batch;

/// So many different batches of `records` records of `bytes` bytes.
pub fn json_batches(batches: usize, records: usize, bytes: usize) -> Vec<Batch> {
    let mut state = 1u64;
    let mut word = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("\"field-{}\":{:07},", state >> 60, (state >> 33) % 10_000_000)
    };
    let mut payload = |_| {
        let mut text = String::new();
        while text.len() < bytes {
            text.push_str(&word());
        }
        text.truncate(bytes);
        ("", text)
    };
    (0..batches).map(|_| (0..records).map(&mut payload).collect()).collect()
}
