//! Loops of `pwrite` + `fdatasync`: the least that a commit of as many bytes can be.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    path::Path,
    time::{Duration, Instant},
};

/// Bytes of a file that are written before a loop goes over them.
const WRITTEN: u64 = 64 << 20;

/// Where a loop writes.
#[derive(Debug, Clone, Copy)]
pub enum Blocks {
    /// Behind the end of the file.
    New,
    /// Over so many parts of [`WRITTEN`], from the start again when they are used up.
    Written(u64),
}

/// A file that is ready for a loop.
pub struct RawFile {
    file: File,
    blocks: Blocks,
    at: u64,
}

impl RawFile {
    pub fn new(path: &Path, blocks: Blocks) -> Self {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap();
        if let Blocks::Written(parts) = blocks {
            let piece = vec![1; 1 << 20];
            for at in (0..WRITTEN / parts).step_by(piece.len()) {
                file.write_all_at(&piece, at).unwrap();
            }
        }
        file.sync_all().unwrap();
        Self { file, blocks, at: 0 }
    }

    /// Writes bytes behind those before them, and syncs them.
    pub fn write(&mut self, bytes: &[u8]) {
        let len = bytes.len() as u64;
        if let Blocks::Written(parts) = self.blocks
            && self.at + len > WRITTEN / parts
        {
            self.at = 0;
        }
        self.file.write_all_at(bytes, self.at).unwrap();
        self.file.sync_data().unwrap();
        self.at += len;
    }

    /// How many writes of so many bytes there are in `time`.
    pub fn run(&mut self, bytes: usize, time: Duration) -> u64 {
        let bytes: Vec<u8> = (0..bytes).map(|n| (n * 31) as u8).collect();
        let (start, mut writes) = (Instant::now(), 0);
        while start.elapsed() < time {
            self.write(&bytes);
            writes += 1;
        }
        writes
    }
}
