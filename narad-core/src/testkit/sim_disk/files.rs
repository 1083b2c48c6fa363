//! The simulated disk behind the [`Disk`] seam.

use std::{io, path::Path, sync::Arc};

use rustix::io::Errno;

use super::{
    SimDisk,
    calls::CallKind,
    content::Content,
    faults::Verdict,
    handle::{Access, SimFile},
    state::{Entered, State},
    tree::{Edit, Names, Node, NodeId},
};
use crate::disk::{DirEntry, Disk, File, FileKind, Metadata, OpenMode};

/// What `len` says of a directory.
const DIR_BYTES: u64 = 4096;

impl Disk for SimDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn File>> {
        let kind = if mode == OpenMode::CreateNew { CallKind::Create } else { CallKind::Open };
        let path: Arc<Path> = path.into();
        let Entered { mut state, .. } = self.enter(kind, &path)?;
        let (node, access) = match mode {
            OpenMode::Read => (state.tree.lookup(&path)?, Access::Read),
            OpenMode::ReadWrite => (state.tree.lookup(&path)?, Access::Write),
            OpenMode::CreateNew => (create(&mut state, &path, empty_file())?, Access::Write),
        };
        match &state.tree.inode(node)?.node {
            Node::Dir(_) => return Err(Errno::ISDIR.into()),
            Node::Other => return Err(Errno::NXIO.into()),
            _ => {}
        }
        Ok(Box::new(SimFile::open(&self.shared, &mut state, &path, node, access)?))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let Entered { mut state, .. } = self.enter(CallKind::CreateDir, &path.into())?;
        create(&mut state, path, Node::Dir(Names::default())).map(drop)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let Entered { state, .. } = self.enter(CallKind::List, &path.into())?;
        let dir = state.tree.lookup(path)?;
        let names = state.tree.names(dir)?.iter();
        names
            .map(|(name, id)| {
                Ok(DirEntry { name: name.clone(), kind: kind_of(&state.tree.inode(*id)?.node) })
            })
            .collect()
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let Entered { state, .. } = self.enter(CallKind::Metadata, &path.into())?;
        let inode = state.tree.inode(state.tree.lookup(path)?)?;
        let len = match &inode.node {
            Node::File(content) => content.len() as u64,
            Node::Dir(_) => DIR_BYTES,
            Node::Other => 0,
        };
        Ok(Metadata { kind: kind_of(&inode.node), len, modified_ms: inode.modified_ms })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let Entered { mut state, verdict } = self.enter(CallKind::Rename, &to.into())?;
        let moved = state.tree.lookup(from)?;
        let ((from_dir, from_name), (to_dir, to_name)) = (state.tree.locate(from)?, state.tree.locate(to)?);
        let moves_dir = matches!(state.tree.inode(moved)?.node, Node::Dir(_));
        if moves_dir && to.starts_with(from) && to != from {
            return Err(Errno::INVAL.into());
        }
        match state.tree.entry(to_dir, &to_name)? {
            Some(replaced) if replaced == moved => return Ok(()),
            Some(replaced) => match (&state.tree.inode(replaced)?.node, moves_dir) {
                (Node::Dir(_), false) => return Err(Errno::ISDIR.into()),
                (Node::Dir(_), true) => check_empty(&state, replaced)?,
                (_, true) => return Err(Errno::NOTDIR.into()),
                (_, false) => {}
            },
            None => {}
        }
        if !matches!(verdict, Verdict::Skip) {
            let now_ms = state.now_ms();
            let gone = Edit { dir: from_dir, name: from_name, to: None };
            state.tree.change(vec![gone, Edit { dir: to_dir, name: to_name, to: Some(moved) }], now_ms);
        }
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let Entered { mut state, verdict } = self.enter(CallKind::Remove, &path.into())?;
        let node = state.tree.lookup(path)?;
        match state.tree.inode(node)?.node {
            Node::Dir(_) => Err(Errno::ISDIR.into()),
            _ => unlink(&mut state, path, &verdict),
        }
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let Entered { mut state, verdict } = self.enter(CallKind::Remove, &path.into())?;
        let dir = state.tree.lookup(path)?;
        check_empty(&state, dir)?;
        unlink(&mut state, path, &verdict)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let Entered { mut state, verdict } = self.enter(CallKind::SyncDir, &path.into())?;
        let dir = state.tree.lookup(path)?;
        if !state.lying && !matches!(verdict, Verdict::Skip) {
            state.tree.sync_dir(dir);
        }
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let path: Arc<Path> = path.into();
        let Entered { mut state, .. } = self.enter(CallKind::Lock, &path)?;
        let node = match state.tree.lookup(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => create(&mut state, &path, empty_file())?,
            node => node?,
        };
        state.tree.file(node)?;
        if !state.locked.insert(node) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(SimFile::open(&self.shared, &mut state, &path, node, Access::WriteLocked)?))
    }

    fn available_bytes(&self, path: &Path) -> io::Result<u64> {
        let Entered { state, .. } = self.enter(CallKind::Available, &path.into())?;
        state.tree.lookup(path)?;
        Ok(state.free_bytes())
    }
}

fn empty_file() -> Node {
    Node::File(Content::default())
}

fn create(state: &mut State, path: &Path, node: Node) -> io::Result<NodeId> {
    let (dir, name) = state.tree.locate(path)?;
    if state.tree.entry(dir, &name)?.is_some() {
        return Err(Errno::EXIST.into());
    }
    let now_ms = state.now_ms();
    let id = state.tree.make(node, now_ms);
    state.tree.change(vec![Edit { dir, name, to: Some(id) }], now_ms);
    Ok(id)
}

fn unlink(state: &mut State, path: &Path, verdict: &Verdict) -> io::Result<()> {
    let (dir, name) = state.tree.locate(path)?;
    if !matches!(verdict, Verdict::Skip) {
        let now_ms = state.now_ms();
        state.tree.change(vec![Edit { dir, name, to: None }], now_ms);
    }
    Ok(())
}

fn check_empty(state: &State, dir: NodeId) -> io::Result<()> {
    if state.tree.names(dir)?.is_empty() { Ok(()) } else { Err(Errno::NOTEMPTY.into()) }
}

fn kind_of(node: &Node) -> FileKind {
    match node {
        Node::File(_) => FileKind::File,
        Node::Dir(_) => FileKind::Directory,
        Node::Other => FileKind::Other,
    }
}
