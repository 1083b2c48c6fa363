//! The dictionaries of a topic: what is in its directory, what frames are decoded with, and which one is in use.
//!
//! A dictionary comes into use when its file is durable and never before, in this process or in a later one: `current` is
//! written after the file, and a later process uses what `current` names and nothing else.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use narad_core::{
    Error,
    plugin::{PluginDir, PluginError},
};
use zstd::zstd_safe::{CDict, DDict};

use crate::dictionary::{Dictionary, file_name, id_in};

/// The file that names the dictionary in use.
const CURRENT: &str = "current";

/// What new frames are compressed with.
pub(crate) struct InUse {
    pub(crate) id: u32,
    pub(crate) encoder: CDict<'static>,
}

#[derive(Default)]
struct Dictionaries {
    decoders: BTreeMap<u32, Arc<DDict<'static>>>,
    /// Those whose file cannot be believed.
    damaged: BTreeSet<u32>,
    in_use: Option<Arc<InUse>>,
}

/// The dictionaries, and where they are kept: nowhere for a log without a directory, which then has none.
pub(crate) struct Shelf {
    dir: Option<PluginDir>,
    known: RwLock<Dictionaries>,
}

impl fmt::Debug for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("Shelf")
            .field("dictionaries", &known.decoders.keys())
            .field("damaged", &known.damaged)
            .field("in_use", &known.in_use.as_ref().map(|in_use| in_use.id))
            .finish_non_exhaustive()
    }
}

impl Shelf {
    /// Reads what is in `dir`. A damaged dictionary is no error: frames that need it say so, and all others are read.
    pub(crate) fn load(dir: Option<PluginDir>, level: i32) -> Result<Self, PluginError> {
        let shelf = Self { dir, known: RwLock::default() };
        shelf.look_again(level)?;
        Ok(shelf)
    }

    /// Reads what has come into the directory since: a file that was put back, or what another codec of this topic keeps
    /// there, as the one that a change of settings is about to replace does.
    pub(crate) fn look_again(&self, level: i32) -> Result<(), PluginError> {
        let Some(dir) = &self.dir else { return Ok(()) };
        let current = read(dir, CURRENT)?.and_then(|bytes| id_in(str::from_utf8(&bytes).ok()?.trim_end()));
        for id in dir.list()?.iter().filter_map(|name| id_in(name)) {
            if self.decoder(id).is_ok() {
                continue;
            }
            if let Some(bytes) = read(dir, &file_name(id))? {
                let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
                known.take_in(id, bytes, level, current == Some(id));
            }
        }
        Ok(())
    }

    /// Whether another dictionary may be added to those there are.
    pub(crate) fn has_room(&self, max: usize) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        self.dir.is_some() && known.decoders.len().saturating_add(known.damaged.len()) < max
    }

    pub(crate) fn in_use(&self) -> Option<Arc<InUse>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).in_use.clone()
    }

    /// The dictionary of that number; otherwise whether there is a damaged file of it.
    pub(crate) fn decoder(&self, id: u32) -> Result<Arc<DDict<'static>>, bool> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.decoders.get(&id).cloned().ok_or_else(|| known.damaged.contains(&id))
    }

    /// Makes a dictionary durable, then uses it. After an error the one that was in use still is.
    pub(crate) fn add(&self, dictionary: &Dictionary, encoder: CDict<'static>) -> Result<(), PluginError> {
        let (Some(dir), id) = (&self.dir, dictionary.id()) else { return Ok(()) };
        let decoder = DDict::try_create(dictionary.bytes()).ok_or("zstd does not take its own dictionary")?;
        match read(dir, &file_name(id))? {
            // One chance in two thousand million: frames may need what is there.
            Some(other) if other != dictionary.bytes() => return Ok(()),
            _ => dir.write(&file_name(id), dictionary.bytes())?,
        }
        dir.write(CURRENT, file_name(id).as_bytes())?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.damaged.remove(&id);
        known.decoders.insert(id, Arc::new(decoder));
        known.in_use = Some(Arc::new(InUse { id, encoder }));
        Ok(())
    }
}

/// What a file holds; nothing for what is there in its place and can be no file of this codec.
fn read(dir: &PluginDir, name: &str) -> Result<Option<Vec<u8>>, Error> {
    match dir.read(name) {
        Err(Error::Unusable { .. }) => Ok(Some(Vec::new())),
        read => read,
    }
}

impl Dictionaries {
    fn take_in(&mut self, id: u32, bytes: Vec<u8>, level: i32, is_current: bool) {
        let dictionary = Dictionary::read(id, bytes);
        let decoder = dictionary.as_ref().and_then(|dictionary| DDict::try_create(dictionary.bytes()));
        let (Some(dictionary), Some(decoder)) = (dictionary, decoder) else {
            self.damaged.insert(id);
            return;
        };
        self.damaged.remove(&id);
        self.decoders.insert(id, Arc::new(decoder));
        if is_current {
            let encoder = CDict::try_create(dictionary.bytes(), level);
            self.in_use = encoder.map(|encoder| Arc::new(InUse { id, encoder }));
        }
    }
}
