//! The logs that are compared, each behind the same call: append a batch, return when it is durable.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use narad_core::{
    format::Batch,
    log::{Log, LogOptions},
    runtime::Runtime,
};

/// Appends a batch and returns when an fsync has made it durable. Called by many threads.
pub type Append = Box<dyn Fn(&[Vec<u8>]) + Send + Sync>;

/// A peer's name and how it is opened in an empty directory.
pub type Peer = (&'static str, fn(&Path) -> Append);

pub const PEERS: &[Peer] = &[("narad", narad), ("okaywal", okaywal), ("fjall", fjall)];

fn narad(dir: &Path) -> Append {
    let options = LogOptions::new("peer-bench", Arc::new(narad_codecs::None));
    let log = Log::open(&Runtime::default(), &dir.join("log"), options).expect("narad opens");
    Box::new(move |records| {
        let batch: Batch = records.iter().map(|record| ("", record)).collect();
        log.commit(batch).expect("narad commits");
    })
}

/// Forgets what it is told to check: nothing is recovered here.
#[derive(Debug)]
struct Forgets;

impl okaywal::LogManager for Forgets {
    fn recover(&mut self, _: &mut okaywal::Entry<'_>) -> io::Result<()> {
        Ok(())
    }

    fn checkpoint_to(
        &mut self,
        _: okaywal::EntryId,
        _: &mut okaywal::SegmentReader,
        _: &okaywal::WriteAheadLog,
    ) -> io::Result<()> {
        Ok(())
    }
}

fn okaywal(dir: &Path) -> Append {
    let configuration = okaywal::Configuration::default_for(dir);
    let configuration = configuration.preallocate_bytes(64 << 20).checkpoint_after_bytes(60 << 20);
    let log = configuration.open(Forgets).expect("okaywal opens");
    Box::new(move |records| {
        let mut entry = log.begin_entry().expect("okaywal begins an entry");
        for record in records {
            entry.write_chunk(record).expect("okaywal writes");
        }
        entry.commit().expect("okaywal commits");
    })
}

fn fjall(dir: &Path) -> Append {
    let database = fjall::Database::builder(dir).open().expect("fjall opens");
    let keyspace =
        database.keyspace("log", fjall::KeyspaceCreateOptions::default).expect("fjall has a keyspace");
    let next = AtomicU64::new(0);
    Box::new(move |records| {
        let first = next.fetch_add(records.len() as u64, Ordering::Relaxed);
        let mut batch = database.batch().durability(Some(fjall::PersistMode::SyncData));
        for (number, record) in records.iter().enumerate() {
            batch.insert(&keyspace, (first + number as u64).to_be_bytes(), &record[..]);
        }
        batch.commit().expect("fjall commits");
    })
}
