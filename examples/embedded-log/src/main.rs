//! A log in an application: commit, crash, reopen, read everything back.
//!
//! `cargo run -p embedded-log [DIRECTORY]`
//!
//! The program starts itself a second time, and that process dies in the middle of its work. What it had committed is
//! there; what it had only appended may be.

use std::{
    env,
    error::Error,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::Arc,
};

use narad_codecs::Zstd;
use narad_core::{
    format::{Batch, Offset},
    log::{Log, LogOptions},
    runtime::Runtime,
};

/// How the process is called that dies.
const DIES: &str = "--die";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args_os().skip(1);
    let dir = arguments.next().map_or_else(|| env::temp_dir().join("embedded-log"), PathBuf::from);
    let runtime = Runtime::default();
    if arguments.next().is_some_and(|argument| argument == DIES) {
        return write_and_die(&open(&runtime, &dir)?);
    }
    let log = open(&runtime, &dir)?;
    let before = log.high_watermark();
    log.close()?;
    println!("{before} records were here before");

    let died = Command::new(env::current_exe()?).arg(&dir).arg(DIES).status()?;
    println!("the other process died: {died}");

    // Opening recovers: what was committed is all there, a frame that was being written is cut off.
    let log = open(&runtime, &dir)?;
    let mut from = before;
    let mut found = Vec::new();
    while from < log.high_watermark() {
        let batch = log.read_batch(from, 100, 1 << 20)?;
        for record in &batch.records {
            println!("{} {:?} {:?}", record.offset, record.key, record.payload);
        }
        found.extend(batch.records);
        from = batch.next;
    }
    assert!(found.len() >= 3, "what was committed is there");
    assert_eq!(found.first().map(|first| first.offset), Some(before), "and begins where the log had ended");

    // It goes on as if nothing had happened; and closed in good order, nothing is left to be recovered.
    let offsets = log.commit(Batch::of(b"customer-5", b"{\"order\":\"after the crash\"}"))?;
    log.close()?;
    let end: Offset = open(&runtime, &dir)?.high_watermark();
    assert_eq!(end, offsets.end);
    println!("closed at {end}, and opened there again");
    Ok(())
}

fn open(runtime: &Runtime, dir: &Path) -> narad_core::Result<Log> {
    Log::open(runtime, dir, LogOptions::new("orders", Arc::new(Zstd::default())))
}

fn write_and_die(log: &Log) -> Result<(), Box<dyn Error>> {
    let batch: Batch = (1..=3).map(|n| (format!("customer-{n}"), format!("{{\"order\":{n}}}"))).collect();
    let offsets = log.commit(batch)?;
    println!("committed {}..{}: on disk, read back, visible", offsets.start, offsets.end);
    log.append(&Batch::of(b"customer-4", b"{\"order\":\"appended, and not committed\"}"))?;
    // No destructor runs, and nobody closes the log.
    process::abort()
}
