//! Names and directories: what processes see, what survives, and the changes that lie between the two.
//!
//! A change of names (a create, a rename, an unlink) becomes durable with a sync of a directory it touches, or by
//! chance; a rename whole or not at all. Nothing here draws sectors or lengths: see `content`.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    io,
    path::{Component, Path},
};

use rand::rngs::StdRng;
use rustix::io::Errno;

use super::{Survival, content::Content};

pub(super) type NodeId = u64;

pub(super) const ROOT: NodeId = 0;

#[derive(Debug, Clone)]
pub(super) enum Node {
    File(Content),
    Dir(Names),
    /// A link, FIFO, socket or device.
    Other,
}

/// The names in a directory.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    cached: BTreeMap<OsString, NodeId>,
    durable: BTreeMap<OsString, NodeId>,
}

#[derive(Debug, Clone)]
pub(super) struct Inode {
    pub(super) node: Node,
    pub(super) modified_ms: i64,
    /// Open handles, which keep an unlinked file alive.
    pub(super) handles: usize,
}

/// One name in one directory now stands for `to`, or for nothing.
#[derive(Debug, Clone)]
pub(super) struct Edit {
    pub(super) dir: NodeId,
    pub(super) name: OsString,
    pub(super) to: Option<NodeId>,
}

/// Edits that survive together or not at all.
type Change = Vec<Edit>;

#[derive(Debug, Clone)]
pub(super) struct Tree {
    nodes: BTreeMap<NodeId, Inode>,
    next: NodeId,
    pending: Vec<Change>,
}

impl Tree {
    pub(super) fn new(now_ms: i64) -> Self {
        let root = Inode { node: Node::Dir(Names::default()), modified_ms: now_ms, handles: 0 };
        Self { nodes: BTreeMap::from([(ROOT, root)]), next: ROOT + 1, pending: Vec::new() }
    }

    /// The node at `path`. Absolute and relative paths start at the root alike.
    pub(super) fn lookup(&self, path: &Path) -> io::Result<NodeId> {
        names_of(path)?
            .into_iter()
            .try_fold(ROOT, |dir, name| self.entry(dir, &name)?.ok_or_else(|| Errno::NOENT.into()))
    }

    /// The directory that holds `path`, and the name in it, which need not exist.
    pub(super) fn locate(&self, path: &Path) -> io::Result<(NodeId, OsString)> {
        let mut names = names_of(path)?;
        let name = names.pop().ok_or(Errno::BUSY)?;
        let dir = names.into_iter().try_fold(ROOT, |dir, name| {
            self.entry(dir, &name)?.ok_or_else(|| io::Error::from(Errno::NOENT))
        })?;
        self.names(dir)?;
        Ok((dir, name))
    }

    /// What a name in a directory stands for.
    pub(super) fn entry(&self, dir: NodeId, name: &OsStr) -> io::Result<Option<NodeId>> {
        Ok(self.names(dir)?.get(name).copied())
    }

    /// The names that processes see in a directory.
    pub(super) fn names(&self, dir: NodeId) -> io::Result<&BTreeMap<OsString, NodeId>> {
        match &self.inode(dir)?.node {
            Node::Dir(names) => Ok(&names.cached),
            _ => Err(Errno::NOTDIR.into()),
        }
    }

    pub(super) fn inode(&self, id: NodeId) -> io::Result<&Inode> {
        self.nodes.get(&id).ok_or_else(|| Errno::IO.into())
    }

    pub(super) fn inode_mut(&mut self, id: NodeId) -> io::Result<&mut Inode> {
        self.nodes.get_mut(&id).ok_or_else(|| Errno::IO.into())
    }

    pub(super) fn file(&self, id: NodeId) -> io::Result<&Content> {
        match &self.inode(id)?.node {
            Node::File(content) => Ok(content),
            Node::Dir(_) => Err(Errno::ISDIR.into()),
            Node::Other => Err(Errno::INVAL.into()),
        }
    }

    pub(super) fn file_mut(&mut self, id: NodeId) -> io::Result<&mut Content> {
        match &mut self.inode_mut(id)?.node {
            Node::File(content) => Ok(content),
            Node::Dir(_) => Err(Errno::ISDIR.into()),
            Node::Other => Err(Errno::INVAL.into()),
        }
    }

    /// Makes a node that no name stands for yet.
    pub(super) fn make(&mut self, node: Node, now_ms: i64) -> NodeId {
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, Inode { node, modified_ms: now_ms, handles: 0 });
        id
    }

    /// Changes names for everybody to see; the change is durable once a directory it touches is synced.
    pub(super) fn change(&mut self, edits: Change, now_ms: i64) {
        for edit in &edits {
            self.apply(edit, |names| &mut names.cached);
            if let Some(inode) = self.nodes.get_mut(&edit.dir) {
                inode.modified_ms = now_ms;
            }
        }
        self.pending.push(edits);
    }

    pub(super) fn sync_dir(&mut self, dir: NodeId) {
        let chosen = self.pending.iter().map(|change| change.iter().any(|edit| edit.dir == dir)).collect();
        self.make_durable(chosen);
        self.collect();
    }

    /// Some of the pending changes survive, then each file's sectors and lengths by themselves; open handles go.
    pub(super) fn lose_power(&mut self, survival: Survival, rng: &mut StdRng) {
        let chosen = self.pending.iter().map(|_| survival.of(1, rng) == 1).collect();
        self.make_durable(chosen);
        self.pending.clear();
        for inode in self.nodes.values_mut() {
            inode.handles = 0;
            match &mut inode.node {
                Node::File(content) => content.lose_power(survival, rng),
                Node::Dir(names) => names.cached = names.durable.clone(),
                Node::Other => {}
            }
        }
        self.collect();
    }

    /// The process is gone: its handles go, everything it did stays.
    pub(super) fn lose_handles(&mut self) {
        for inode in self.nodes.values_mut() {
            inode.handles = 0;
        }
        self.collect();
    }

    /// Changes a name for everybody and for good.
    pub(super) fn plant(&mut self, edit: Edit) {
        self.apply(&edit, |names| &mut names.cached);
        self.apply(&edit, |names| &mut names.durable);
        for change in &mut self.pending {
            change.retain(|earlier| (earlier.dir, &earlier.name) != (edit.dir, &edit.name));
        }
    }

    /// Bytes of the files that have a name or an open handle.
    pub(super) fn used_bytes(&self) -> u64 {
        let named = self.named();
        let held = self.nodes.iter().filter(|(id, inode)| inode.handles > 0 || named.contains(id));
        held.map(|(_, inode)| if let Node::File(content) = &inode.node { content.len() as u64 } else { 0 })
            .sum()
    }

    /// Whether a path leads to the node, as processes see it.
    pub(super) fn is_named(&self, id: NodeId) -> bool {
        self.named().contains(&id)
    }

    fn named(&self) -> BTreeSet<NodeId> {
        self.reach(vec![ROOT], |names| names.cached.values())
    }

    pub(super) fn handles(&self) -> usize {
        self.nodes.values().map(|inode| inode.handles).sum()
    }

    fn apply(&mut self, edit: &Edit, side: impl Fn(&mut Names) -> &mut BTreeMap<OsString, NodeId>) {
        let Some(Inode { node: Node::Dir(names), .. }) = self.nodes.get_mut(&edit.dir) else { return };
        match edit.to {
            Some(id) => _ = side(names).insert(edit.name.clone(), id),
            None => _ = side(names).remove(&edit.name),
        }
    }

    fn make_durable(&mut self, mut chosen: Vec<bool>) {
        take_along_what_came_before(&self.pending, &mut chosen);
        let pending = std::mem::take(&mut self.pending);
        for (change, chosen) in pending.into_iter().zip(chosen) {
            if chosen {
                for edit in &change {
                    self.apply(edit, |names| &mut names.durable);
                }
            } else {
                self.pending.push(change);
            }
        }
    }

    /// Forgets nodes that nothing can bring back. A pending change still can: it may survive without the one that
    /// took its name away again.
    fn collect(&mut self) {
        let mut roots = vec![ROOT];
        roots.extend(self.pending.iter().flatten().filter_map(|edit| edit.to));
        let mut alive = self.reach(roots, |names| names.cached.values().chain(names.durable.values()));
        alive.extend(self.nodes.iter().filter(|(_, inode)| inode.handles > 0).map(|(id, _)| *id));
        self.nodes.retain(|id, _| alive.contains(id));
    }

    fn reach<'a, I>(&'a self, mut open: Vec<NodeId>, names: impl Fn(&'a Names) -> I) -> BTreeSet<NodeId>
    where
        I: Iterator<Item = &'a NodeId>,
    {
        let mut reached = BTreeSet::new();
        while let Some(id) = open.pop() {
            if reached.insert(id)
                && let Some(Inode { node: Node::Dir(dir), .. }) = self.nodes.get(&id)
            {
                open.extend(names(dir));
            }
        }
        reached
    }
}

/// A journal keeps the order of changes to one name: what is durable takes along what came before it.
fn take_along_what_came_before(pending: &[Change], chosen: &mut [bool]) {
    for later in (0..pending.len()).rev() {
        if !chosen[later] {
            continue;
        }
        for earlier in 0..later {
            let same_name = pending[earlier]
                .iter()
                .any(|a| pending[later].iter().any(|b| (a.dir, &a.name) == (b.dir, &b.name)));
            chosen[earlier] |= same_name;
        }
    }
}

fn names_of(path: &Path) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name.to_owned()),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return Err(Errno::INVAL.into()),
        }
    }
    Ok(names)
}
