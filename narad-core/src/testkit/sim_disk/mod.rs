//! An in-memory disk that fails, fills up, lies and loses power when a test says so.
//!
//! It keeps what a process sees (the page cache) apart from what survives (the platter), so a missing sync loses
//! data in a test as it would in the field. It knows nothing of frames. It never touches a real file.

mod calls;
mod content;
mod faults;
mod files;
mod gate;
mod handle;
mod state;
mod tree;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rand::{RngExt, rngs::StdRng};

pub use calls::{Call, CallKind};
pub use faults::{Failure, Fault, FaultId};
pub use gate::Gate;

use self::{
    content::Content,
    state::{Entered, Shared},
    tree::{Edit, Names, Node, ROOT, Tree},
};
use super::{ManualClock, SeedGuard};
use crate::clock::Clock;

/// What a power loss leaves of what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// Each sector, length and name survives or not, as the seed has it.
    Random,
    /// Nothing does: the strictest reading of what a sync is for.
    Nothing,
    /// Everything does, as if all had been written back in time.
    Everything,
}

impl Survival {
    /// How many of `n` things that happened one after the other survive.
    fn of(self, n: usize, rng: &mut StdRng) -> usize {
        match self {
            Self::Random => rng.random_range(0..=n),
            Self::Nothing => 0,
            Self::Everything => n,
        }
    }
}

/// An in-memory file system with an empty root directory. Clones are handles on the same disk.
///
/// # What survives a power loss
/// * Of a file: what `sync_data` covered. Of what was written since, each 512-byte sector survives or not, with what
///   it held after any one of the writes to it; changes of the length survive in order up to any point, one that
///   grows the file possibly up to a sector's end inside the write. A length whose bytes are lost reads as zeros.
/// * Of a directory: the names that `sync_dir` covered. Each later create, rename or unlink survives or not by
///   itself; a rename whole; what survives takes along earlier changes of the same name.
/// * After a failed `sync_data` the dirty sectors are each written or forgotten; a later sync brings none back.
///
/// Everything random comes from the seed, in the order of the calls; with several threads that order is theirs.
/// Paths start at the root, be they absolute or not; `..` is refused.
///
/// ```
/// use std::path::Path;
/// use narad_core::{disk::{Disk, DiskExt, FileExt, OpenMode}, testkit::SimDisk};
///
/// let disk = SimDisk::new(7);
/// disk.create_dir_all_durable(Path::new("/data"))?;
/// let file = disk.open(Path::new("/data/hwm"), OpenMode::CreateNew)?;
/// file.write_all_at(&[1; 8], 0).map_err(|(_, error)| error)?;
/// file.sync_data()?;
/// disk.sync_dir(Path::new("/data"))?;
/// disk.power_loss();
/// assert!(file.len().is_err(), "handles of before the crash are stale");
/// assert_eq!(disk.contents("/data/hwm").as_deref(), Some(&[1; 8][..]));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SimDisk {
    shared: Arc<Shared>,
    /// The epoch that this handle's process lives in; `None` outlives every crash.
    process: Option<u64>,
}

impl SimDisk {
    /// An empty disk whose chances come from `seed`, with a clock of its own that stands still.
    pub fn new(seed: u64) -> Self {
        Self::with_clock(seed, Arc::new(ManualClock::new()))
    }

    /// An empty disk that takes modification times from `clock`.
    pub fn with_clock(seed: u64, clock: Arc<dyn Clock>) -> Self {
        let tree = Tree::new(clock.unix_ms());
        let shared = Shared::new(tree, Arc::new(SeedGuard::new(seed)), seed, clock);
        Self { shared: Arc::new(shared), process: None }
    }

    /// Takes modification times from `clock` from now on.
    pub fn set_clock(&self, clock: Arc<dyn Clock>) {
        self.shared.state().clock = clock;
    }

    /// The seed that this disk, or the one it was forked from, was made with.
    pub fn seed(&self) -> u64 {
        self.shared.seed.get()
    }

    // ---- crashes

    /// The power goes: what was not synced survives or not, by chance. Open handles turn stale (every call on them
    /// is `EIO`) and locks are released. Faults stay in force until [`clear_faults`](Self::clear_faults).
    pub fn power_loss(&self) {
        self.power_loss_keeping(Survival::Random);
    }

    /// As [`power_loss`](Self::power_loss), with a say in what survives.
    pub fn power_loss_keeping(&self, survival: Survival) {
        let mut state = self.shared.state();
        let state = &mut *state;
        state.drop_handles();
        state.tree.lose_power(survival, &mut state.rng);
    }

    /// The process dies and the system lives on: everything written stays visible, as unsynced as it was. Handles
    /// turn stale and locks are released.
    pub fn crash_process(&self) {
        self.shared.state().drop_handles();
    }

    /// A copy of the whole disk, unsynced state included, so that many crashes can be tried from one point. It shares
    /// nothing with this one: no handles, locks, faults or logged calls; its chances are drawn anew from this disk's,
    /// so one fork after the other crashes differently.
    pub fn fork(&self) -> Self {
        let mut state = self.shared.state();
        let (mut tree, draws_from) = (state.tree.clone(), state.rng.random());
        tree.lose_handles();
        let fork = Shared::new(tree, self.shared.seed.clone(), draws_from, state.clock.clone());
        let mut copy = fork.state();
        (copy.capacity, copy.lying) = (state.capacity, state.lying);
        drop(copy);
        Self { shared: Arc::new(fork), process: None }
    }

    /// A handle for one process: after the next crash every call through it is `EIO`. Give this one to what is to be
    /// killed, so that threads and destructors that outlive the crash cannot touch what it left.
    #[must_use]
    pub fn process(&self) -> Self {
        let epoch = self.shared.state().epoch;
        Self { shared: self.shared.clone(), process: Some(epoch) }
    }

    // ---- faults

    /// Puts a fault in force.
    pub fn inject(&self, fault: Fault) -> FaultId {
        self.shared.state().faults.inject(fault)
    }

    /// How many calls an injected fault has hit.
    pub fn fired(&self, fault: FaultId) -> u64 {
        self.shared.state().faults.fired(fault)
    }

    /// Takes one fault out of force.
    pub fn remove_fault(&self, fault: FaultId) {
        self.shared.state().faults.remove(fault);
    }

    /// Takes every fault out of force.
    pub fn clear_faults(&self) {
        self.shared.state().faults.clear();
    }

    /// Whether every sync is acknowledged and none is done.
    pub fn lie_about_syncs(&self, lying: bool) {
        self.shared.state().lying = lying;
    }

    /// Bounds the bytes of all files together; growth beyond is `ENOSPC`, after what still fits was written. `None`:
    /// no bound.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.shared.state().capacity = bytes;
    }

    // ---- what was asked of the disk

    /// Every call since the start or the last [`take_calls`](Self::take_calls), in order, failed ones included.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.state().calls.clone()
    }

    /// As [`calls`](Self::calls), and forgets them.
    pub fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.shared.state().calls)
    }

    /// How many of the logged calls are of `kind`.
    pub fn count(&self, kind: CallKind) -> usize {
        self.shared.state().calls.iter().filter(|call| call.kind == kind).count()
    }

    /// How many of the logged calls are of `kind`, on a file whose name matches `pattern` (`hwm`, `*.log`).
    pub fn count_on(&self, kind: CallKind, pattern: &str) -> usize {
        self.shared.state().calls.iter().filter(|call| call.kind == kind && call.is_on(pattern)).count()
    }

    /// Open handles, those of locks included.
    pub fn open_files(&self) -> usize {
        self.shared.state().tree.handles()
    }

    /// Bytes of all files that have a name or an open handle.
    pub fn used_bytes(&self) -> u64 {
        self.shared.state().tree.used_bytes()
    }

    // ---- the test's own hands: neither logged nor failed

    /// Puts a file of these bytes at `path`, with the directories above it, all durable. What was there is replaced.
    pub fn plant(&self, path: impl AsRef<Path>, bytes: impl Into<Vec<u8>>) {
        self.plant_node(path.as_ref(), Node::File(Content::durable(bytes.into())));
    }

    /// Makes a directory at `path`, with those above it, all durable. One that is there keeps its content.
    pub fn plant_dir(&self, path: impl AsRef<Path>) {
        let here = |disk: &Self| {
            let state = disk.shared.state();
            state.tree.lookup(path.as_ref()).is_ok_and(|node| state.tree.names(node).is_ok())
        };
        if !here(self) {
            self.plant_node(path.as_ref(), Node::Dir(Names::default()));
        }
    }

    /// Puts something that is neither file nor directory (a link, FIFO, socket) at `path`; it cannot be opened.
    pub fn plant_other(&self, path: impl AsRef<Path>) {
        self.plant_node(path.as_ref(), Node::Other);
    }

    /// The bytes of the file at `path` as a process sees them; `None` when no file is there.
    pub fn contents(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let state = self.shared.state();
        let node = state.tree.lookup(path.as_ref()).ok()?;
        state.tree.file(node).ok().map(|content| content.bytes().to_vec())
    }

    /// Changes the bytes of the file at `path` behind everybody's back, durably: damage, or a restore.
    ///
    /// # Panics
    /// When no file is there.
    pub fn alter(&self, path: impl AsRef<Path>, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.shared.state();
        let node = state.tree.lookup(path.as_ref()).expect("a file to alter");
        let content = state.tree.file_mut(node).expect("a file to alter");
        let mut bytes = content.bytes().to_vec();
        change(&mut bytes);
        *content = Content::durable(bytes);
    }

    /// Sets the modification time of what is at `path`, in Unix milliseconds.
    ///
    /// # Panics
    /// When nothing is there.
    pub fn set_modified(&self, path: impl AsRef<Path>, unix_ms: i64) {
        let mut state = self.shared.state();
        let node = state.tree.lookup(path.as_ref()).expect("something to date");
        state.tree.inode_mut(node).expect("something to date").modified_ms = unix_ms;
    }

    /// The paths of everything but directories, sorted.
    pub fn paths(&self) -> Vec<PathBuf> {
        let state = self.shared.state();
        let (mut paths, mut open) = (Vec::new(), vec![(PathBuf::from("/"), ROOT)]);
        while let Some((path, node)) = open.pop() {
            match state.tree.names(node) {
                Ok(names) => open.extend(names.iter().map(|(name, id)| (path.join(name), *id))),
                Err(_) => paths.push(path),
            }
        }
        paths.sort();
        paths
    }

    /// Logs and judges a call of the [`Disk`](crate::disk::Disk) seam, and turns a failure into its error.
    fn enter(&self, kind: CallKind, path: &Arc<Path>) -> io::Result<Entered<'_>> {
        self.shared.enter(self.process, kind, path, 0)?.or_fail()
    }

    fn plant_node(&self, path: &Path, node: Node) {
        let mut state = self.shared.state();
        let now_ms = state.now_ms();
        let mut levels: Vec<&Path> = path.ancestors().filter(|level| level.file_name().is_some()).collect();
        levels.reverse();
        let mut node = Some(node);
        for level in levels {
            let last = level == path;
            if !last && state.tree.lookup(level).is_ok() {
                continue;
            }
            let planted = if last { node.take() } else { None };
            let (dir, name) = state.tree.locate(level).expect("a path through directories");
            let made = state.tree.make(planted.unwrap_or(Node::Dir(Names::default())), now_ms);
            state.tree.plant(Edit { dir, name, to: Some(made) });
        }
    }
}
