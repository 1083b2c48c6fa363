//! An open file of the simulated disk.

use std::{io, path::Path, sync::Arc};

use rustix::io::Errno;

use super::{
    calls::CallKind,
    faults::Verdict,
    state::{Entered, Shared, State},
    tree::NodeId,
};
use crate::disk::File;

/// The largest file; beyond it a length can only be a mistake.
const MAX_FILE_BYTES: u64 = 1 << 33;

#[derive(Debug)]
pub(super) struct SimFile {
    shared: Arc<Shared>,
    path: Arc<Path>,
    node: NodeId,
    epoch: u64,
    access: Access,
}

/// What a handle may do, and whether a lock goes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
    WriteLocked,
}

impl SimFile {
    /// A handle on `node`, counted here and released when it goes.
    pub(super) fn open(
        shared: &Arc<Shared>,
        state: &mut State,
        path: &Arc<Path>,
        node: NodeId,
        access: Access,
    ) -> io::Result<Self> {
        state.tree.inode_mut(node)?.handles += 1;
        let (shared, path) = (shared.clone(), path.clone());
        Ok(Self { shared, path, node, epoch: state.epoch, access })
    }

    fn enter(&self, kind: CallKind, bytes: u64) -> io::Result<Entered<'_>> {
        self.shared.enter(Some(self.epoch), kind, &self.path, bytes)?.or_fail()
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.access == Access::Read { Err(Errno::BADF.into()) } else { Ok(()) }
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let Entered { state, verdict } = self.enter(CallKind::Read, buf.len() as u64)?;
        let content = state.tree.file(self.node)?;
        let buf = match verdict {
            Verdict::Shorten(bytes) if bytes < buf.len() => &mut buf[..bytes],
            _ => buf,
        };
        let Ok(at) = usize::try_from(offset) else { return Ok(0) };
        let read = content.read(buf, at);
        if matches!(verdict, Verdict::FlipBit) {
            flip_bit(&mut buf[..read]);
        }
        Ok(read)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let Entered { mut state, verdict } = self.enter(CallKind::Write, buf.len() as u64)?;
        self.check_writable()?;
        let mut bytes = buf.to_vec();
        match verdict {
            Verdict::Shorten(limit) => bytes.truncate(limit),
            Verdict::FlipBit => flip_bit(&mut bytes),
            Verdict::Skip => return Ok(bytes.len()),
            _ => {}
        }
        let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= MAX_FILE_BYTES);
        let growth = end.ok_or(Errno::FBIG)?.saturating_sub(state.tree.file(self.node)?.len() as u64);
        if growth > 0 {
            let missing = growth.saturating_sub(state.free_bytes());
            let fits = (bytes.len() as u64).saturating_sub(missing);
            if fits == 0 && missing > 0 {
                return Err(Errno::NOSPC.into());
            }
            bytes.truncate(usize::try_from(fits).unwrap_or(usize::MAX));
        }
        let now_ms = state.now_ms();
        let at = usize::try_from(offset).map_err(|_| Errno::FBIG)?;
        state.tree.file_mut(self.node)?.write(&bytes, at);
        state.tree.inode_mut(self.node)?.modified_ms = now_ms;
        Ok(bytes.len())
    }

    fn sync_data(&self) -> io::Result<()> {
        let Entered { mut state, verdict } =
            self.shared.enter(Some(self.epoch), CallKind::SyncData, &self.path, 0)?;
        let state = &mut *state;
        match verdict {
            Verdict::Fail(failure) => {
                state.tree.file_mut(self.node)?.fail_sync(&mut state.rng);
                Err(failure.error())
            }
            Verdict::Skip => Ok(()),
            _ if state.lying => Ok(()),
            _ => {
                state.tree.file_mut(self.node)?.sync();
                Ok(())
            }
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let Entered { mut state, verdict } = self.enter(CallKind::SetLen, len)?;
        self.check_writable()?;
        if matches!(verdict, Verdict::Skip) {
            return Ok(());
        }
        if len > MAX_FILE_BYTES {
            return Err(Errno::FBIG.into());
        }
        let growth = len.saturating_sub(state.tree.file(self.node)?.len() as u64);
        if growth > 0 && growth > state.free_bytes() {
            return Err(Errno::NOSPC.into());
        }
        let now_ms = state.now_ms();
        state.tree.file_mut(self.node)?.set_len(usize::try_from(len).map_err(|_| Errno::FBIG)?);
        state.tree.inode_mut(self.node)?.modified_ms = now_ms;
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        let Entered { state, .. } = self.enter(CallKind::Metadata, 0)?;
        Ok(state.tree.file(self.node)?.len() as u64)
    }

    fn is_unlinked(&self) -> io::Result<bool> {
        let Entered { state, .. } = self.enter(CallKind::Metadata, 0)?;
        Ok(!state.tree.is_named(self.node))
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if state.epoch != self.epoch {
            return;
        }
        if self.access == Access::WriteLocked {
            state.locked.remove(&self.node);
        }
        if let Ok(inode) = state.tree.inode_mut(self.node) {
            inode.handles = inode.handles.saturating_sub(1);
        }
    }
}

fn flip_bit(bytes: &mut [u8]) {
    let middle = bytes.len() / 2;
    if let Some(byte) = bytes.get_mut(middle) {
        *byte ^= 0x10;
    }
}
