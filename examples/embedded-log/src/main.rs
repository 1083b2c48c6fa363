//! A log in an application: commit, crash, reopen, read everything back.
//!
//! `cargo run -p embedded-log [DIRECTORY]`

use std::{path::PathBuf, sync::Arc};

use narad_codecs::Zstd;
use narad_core::{
    format::{Batch, Offset},
    log::{Log, LogOptions},
    runtime::Runtime,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir =
        std::env::args_os().nth(1).map_or_else(|| std::env::temp_dir().join("embedded-log"), PathBuf::from);
    let runtime = Runtime::default();
    let open = || Log::open(&runtime, &dir, LogOptions::new("orders", Arc::new(Zstd::default())));

    let log = open()?;
    println!("{} records were here before", log.high_watermark());
    let batch: Batch = (1..=3).map(|n| (format!("customer-{n}"), format!("{{\"order\":{n}}}"))).collect();
    let offsets = log.commit(batch)?;
    println!("committed {}..{}: on disk, read back, visible", offsets.start, offsets.end);

    // A crash: the log is dropped and nobody closed it. What was appended and not committed may be gone.
    log.append(&Batch::of(b"customer-4", b"{\"order\":\"not committed\"}"))?;
    drop(log);

    let log = open()?;
    let mut from = Offset::ZERO;
    while from < log.high_watermark() {
        let batch = log.read_batch(from, 100, 1 << 20)?;
        for record in &batch.records {
            println!("{} {:?} {:?}", record.offset, record.key, record.payload);
        }
        from = batch.next;
    }
    log.close()?;
    Ok(())
}
