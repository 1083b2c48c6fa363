//! `PluginDir`: the few small files that a plugin keeps beside the data it serves.
//!
//! Reaches files through the `disk` seam alone, and never one outside the plugin's own directory.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    disk::{Disk, DiskExt, FileExt, FileKind, OpenMode, parent_of},
    error::{Error, Result},
};

/// The largest file that a plugin can keep: 4 MiB.
pub const MAX_PLUGIN_FILE_BYTES: usize = 4 << 20;
/// How many files a plugin can keep at once.
pub const MAX_PLUGIN_FILES: usize = 256;
/// The longest name of a file.
const MAX_NAME_BYTES: usize = 100;
/// Ends the name of a file that is being written, and of no other.
const UNFINISHED: &str = ".tmp";

/// Looks at, or changes, what is in the directory that is handed in.
pub type Visit<'a> = &'a mut dyn FnMut(&dyn Disk, &Path) -> Result<()>;

/// Where the directories of plugins lie. What keeps the data implements it: it knows whether they may be used now.
pub trait PluginPlace: std::fmt::Debug + Send + Sync + 'static {
    /// Runs `visit` on the directory that holds those of the plugins, if there may be one; it creates nothing.
    ///
    /// # Errors
    /// What `visit` says, or why nobody may look.
    fn look(&self, visit: Visit<'_>) -> Result<()>;

    /// Runs `visit` on that directory, which is there and whose name is durable. Nobody moves it meanwhile, and no other
    /// change is made in it.
    ///
    /// # Errors
    /// What `visit` says, or why nothing may be changed.
    fn change(&self, visit: Visit<'_>) -> Result<()>;
}

/// What keeps the files of plugins, each plugin's apart from the others'. The store does it for those that it builds; a
/// plugin that builds others in itself may do it for them ([`PluginContext::keeping_in`](super::PluginContext::keeping_in)),
/// as one must that encrypts what they are shown.
///
/// Each call promises what the method of [`PluginDir`] of its name does, and fails as that one.
pub trait PluginFiles: std::fmt::Debug + Send + Sync + 'static {
    /// The names of `plugin`'s files, sorted.
    ///
    /// # Errors
    /// As [`PluginDir::list`].
    fn list(&self, plugin: &str) -> Result<Vec<String>>;

    /// The content of one of them; `None` when there is none of that name.
    ///
    /// # Errors
    /// As [`PluginDir::read`].
    fn read(&self, plugin: &str, name: &str) -> Result<Option<Vec<u8>>>;

    /// Makes `bytes` the content of one of them, durably, and whole or not at all.
    ///
    /// # Errors
    /// As [`PluginDir::write`].
    fn write(&self, plugin: &str, name: &str, bytes: &[u8]) -> Result<()>;

    /// Removes one of them, durably.
    ///
    /// # Errors
    /// As [`PluginDir::remove`].
    fn remove(&self, plugin: &str, name: &str) -> Result<()>;
}

/// A plugin's own directory beside the data: `topics/<topic>/plugins/<plugin>/`. Cheap to clone.
///
/// It is for a few small files, such as dictionaries: each at most 4 MiB ([`MAX_PLUGIN_FILE_BYTES`]), 256 of them at most
/// ([`MAX_PLUGIN_FILES`]). Their names have 1 to 100 of `A-Z a-z 0-9 . _ -`, begin with a letter or digit and do not end
/// in `.tmp`. Every call does file I/O and may wait: call it in a constructor and in
/// [`Codec::maintain`](super::Codec::maintain), and nowhere else.
///
/// The directory goes where the topic goes: it is deleted, quarantined and backed up with it. Plugins of one name in one
/// topic share it.
#[derive(Debug, Clone)]
pub struct PluginDir {
    files: Arc<dyn PluginFiles>,
    plugin: Arc<str>,
}

impl PluginDir {
    /// The directory of `plugin` among `files`; `plugin` is a name that a registry takes.
    pub(super) fn new(files: Arc<dyn PluginFiles>, plugin: &str) -> Self {
        Self { files, plugin: plugin.into() }
    }

    /// The names of the files, sorted. Those that a crash left unfinished are not among them.
    ///
    /// # Errors
    /// `Io`; `Unusable` for something else than a directory in its place.
    pub fn list(&self) -> Result<Vec<String>> {
        self.files.list(&self.plugin)
    }

    /// The content of a file; `None` when there is none of that name.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that no file can have; `Unusable` for something else than a file of at most 4 MiB in its
    /// place; `Io`.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        check_file_name(name)?;
        self.files.read(&self.plugin, name)
    }

    /// Makes `bytes` the content of a file, whether it was there or not. When this has returned `Ok`, that survives a
    /// power loss; until then a crash leaves what was there before or the new content, whole.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that no file can have, and for one file too many or too large; `DiskFull`, `Io`. What
    /// was there before may or may not be replaced after an error of the last step: write again.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        check_file_name(name)?;
        if bytes.len() > MAX_PLUGIN_FILE_BYTES {
            let reason =
                format!("{name} has {} bytes; at most {MAX_PLUGIN_FILE_BYTES} are kept", bytes.len());
            return Err(Error::InvalidArgument { name: "plugin file", reason });
        }
        self.files.write(&self.plugin, name, bytes)
    }

    /// Removes a file, durably. One that is not there is no error.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that no file can have; `Io`, after which it may be there still.
    pub fn remove(&self, name: &str) -> Result<()> {
        check_file_name(name)?;
        self.files.remove(&self.plugin, name)
    }
}

/// A directory for each plugin in a place.
#[derive(Debug)]
pub(super) struct InPlace(pub(super) Arc<dyn PluginPlace>);

impl PluginFiles for InPlace {
    fn list(&self, plugin: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        self.0.look(&mut |disk, parent| {
            names = names_in(disk, &parent.join(plugin))?;
            Ok(())
        })?;
        Ok(names)
    }

    fn read(&self, plugin: &str, name: &str) -> Result<Option<Vec<u8>>> {
        let mut content = None;
        self.0.look(&mut |disk, parent| {
            let dir = parent.join(plugin);
            content = if is_directory(disk, &dir)? { content_of(disk, &dir.join(name))? } else { None };
            Ok(())
        })?;
        Ok(content)
    }

    fn write(&self, plugin: &str, name: &str, bytes: &[u8]) -> Result<()> {
        self.0.change(&mut |disk, parent| {
            let dir = parent.join(plugin);
            make_directory(disk, &dir)?;
            let names = names_in(disk, &dir)?;
            if names.len() >= MAX_PLUGIN_FILES && !names.iter().any(|other| other == name) {
                let reason =
                    format!("{name} would be one of more than {MAX_PLUGIN_FILES}; remove others first");
                return Err(Error::InvalidArgument { name: "plugin file", reason });
            }
            replace(disk, &dir, name, bytes)
        })
    }

    fn remove(&self, plugin: &str, name: &str) -> Result<()> {
        self.0.change(&mut |disk, parent| {
            let dir = parent.join(plugin);
            if !is_directory(disk, &dir)? {
                return Ok(());
            }
            unlink(disk, &dir.join(name))?;
            sync_dir(disk, &dir)
        })
    }
}

/// A directory of no topic's, for a log that stands alone.
#[derive(Debug)]
pub(super) struct Alone {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    turn: Mutex<()>,
}

impl Alone {
    pub(super) fn new(disk: Arc<dyn Disk>, dir: PathBuf) -> Self {
        Self { disk, dir, turn: Mutex::default() }
    }
}

impl PluginPlace for Alone {
    fn look(&self, visit: Visit<'_>) -> Result<()> {
        visit(&*self.disk, &self.dir)
    }

    fn change(&self, visit: Visit<'_>) -> Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        make_directory(&*self.disk, &self.dir)?;
        visit(&*self.disk, &self.dir)
    }
}

/// Refuses what could lead elsewhere, or be taken for an unfinished file.
fn check_file_name(name: &str) -> Result<()> {
    let fits = (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        && !name.ends_with(UNFINISHED);
    if fits {
        return Ok(());
    }
    let reason = format!(
        "{name:?} is not 1 to {MAX_NAME_BYTES} of A-Z a-z 0-9 . _ - that begin with a letter or digit and do not end in \
         {UNFINISHED}"
    );
    Err(Error::InvalidArgument { name: "plugin file", reason })
}

fn names_in(disk: &dyn Disk, dir: &Path) -> Result<Vec<String>> {
    if !is_directory(disk, dir)? {
        return Ok(Vec::new());
    }
    let entries = disk.list(dir).map_err(|error| Error::io("list", dir, error))?;
    let files = entries.into_iter().filter(|entry| entry.kind == FileKind::File);
    let names = files.filter_map(|entry| entry.name.into_string().ok());
    let mut names: Vec<String> = names.filter(|name| check_file_name(name).is_ok()).collect();
    names.sort();
    Ok(names)
}

/// Whether there is a directory; anything else of that name is refused, links included.
fn is_directory(disk: &dyn Disk, path: &Path) -> Result<bool> {
    match disk.metadata(path) {
        Ok(metadata) if metadata.kind == FileKind::Directory => Ok(true),
        Ok(_) => Err(unusable(path, "this has to be a directory, and links are not followed".to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io("stat", path, error)),
    }
}

/// Makes sure of the directory, its name durable: whoever made it may have died before that.
fn make_directory(disk: &dyn Disk, dir: &Path) -> Result<()> {
    disk.create_dir_all_durable(dir).map_err(|error| Error::io("mkdir", dir, error))?;
    is_directory(disk, dir)?;
    sync_dir(disk, parent_of(dir))
}

fn content_of(disk: &dyn Disk, path: &Path) -> Result<Option<Vec<u8>>> {
    let len = match disk.metadata(path) {
        Ok(metadata) if metadata.kind == FileKind::File => metadata.len,
        Ok(_) => return Err(unusable(path, "a plugin's file has to be a regular file".to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("stat", path, error)),
    };
    match usize::try_from(len).ok().filter(|len| *len <= MAX_PLUGIN_FILE_BYTES) {
        Some(len) => disk.read_small(path, len).map(Some).map_err(|error| Error::io("read", path, error)),
        None => {
            Err(unusable(path, format!("{len} bytes; a plugin's file has at most {MAX_PLUGIN_FILE_BYTES}")))
        }
    }
}

/// Through a file beside it, so that the name never stands for half a content.
fn replace(disk: &dyn Disk, dir: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let (path, unfinished) = (dir.join(name), dir.join(format!("{name}{UNFINISHED}")));
    unlink(disk, &unfinished)?;
    let written = write_whole(disk, &unfinished, bytes)
        .and_then(|()| disk.rename(&unfinished, &path).map_err(|error| Error::io("rename", &path, error)));
    if written.is_err() {
        // What cannot be removed either is by the next write.
        let _ = disk.remove_file(&unfinished);
    }
    written.and_then(|()| sync_dir(disk, dir))
}

fn write_whole(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<()> {
    let file = disk.open(path, OpenMode::CreateNew).map_err(|error| Error::io("open", path, error))?;
    file.write_all_at(bytes, 0).map_err(|(_, error)| Error::io("write", path, error))?;
    file.sync_data().map_err(|error| Error::io("fsync", path, error))
}

fn unlink(disk: &dyn Disk, path: &Path) -> Result<()> {
    match disk.remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("unlink", path, error)),
        _ => Ok(()),
    }
}

fn sync_dir(disk: &dyn Disk, dir: &Path) -> Result<()> {
    disk.sync_dir(dir).map_err(|error| Error::io("fsync", dir, error))
}

fn unusable(path: &Path, reason: String) -> Error {
    Error::Unusable { path: path.to_owned(), reason }
}
