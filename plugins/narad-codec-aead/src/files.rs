//! The files of the codecs underneath, encrypted: a dictionary is made of records, and would tell them to whoever has the
//! disk.
//!
//! They lie in this codec's own directory as `<codec>.<file>`, each bound to its topic and its name.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use narad_core::{
    Error, Result,
    plugin::{LogIdentity, PluginDir, PluginFiles},
};

use crate::{error::AeadError, layout::file_bound_to, safe::Safe};

/// Keeps the files of others in `dir`, encrypted.
#[derive(Debug)]
pub(crate) struct SealedFiles {
    dir: PluginDir,
    safe: Arc<Safe>,
    log: LogIdentity,
    /// A file was seen that an earlier key encrypts.
    is_of_before: AtomicBool,
}

impl SealedFiles {
    pub(crate) fn new(dir: PluginDir, safe: Arc<Safe>, log: LogIdentity) -> Self {
        Self { dir, safe, log, is_of_before: AtomicBool::new(false) }
    }

    /// Whether there is a file that [`renew`](Self::renew) would encrypt anew.
    pub(crate) fn wants_renewal(&self) -> bool {
        self.is_of_before.load(Ordering::Relaxed)
    }

    /// Encrypts with the key of now what was encrypted with one of before, so that the latter may go with the last frame
    /// under it. What has no key here stays as it is.
    pub(crate) fn renew(&self) -> Result<()> {
        for kept in self.dir.list()? {
            let Some(stored) = self.dir.read(&kept)?.filter(|stored| self.safe.is_of_before(stored)) else {
                continue;
            };
            if let Ok(clear) = self.safe.open(&stored, |prefix| file_bound_to(prefix, &self.log, &kept)) {
                self.put(&kept, &clear)?;
            }
        }
        self.is_of_before.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn put(&self, kept: &str, clear: &[u8]) -> Result<()> {
        let mut sealed = Vec::with_capacity(clear.len().saturating_add(Safe::OVERHEAD));
        let bound = |prefix: &_| file_bound_to(prefix, &self.log, kept);
        let fill = |out: &mut Vec<u8>| {
            out.extend_from_slice(clear);
            Ok(())
        };
        self.safe.seal(&mut sealed, bound, fill).map_err(|source| Error::Plugin {
            plugin: "aead".to_owned(),
            operation: "encrypt",
            source: source.into(),
        })?;
        self.dir.write(kept, &sealed)
    }
}

impl PluginFiles for SealedFiles {
    fn list(&self, plugin: &str) -> Result<Vec<String>> {
        let kept = self.dir.list()?.into_iter();
        Ok(kept.filter_map(|kept| Some(kept.strip_prefix(plugin)?.strip_prefix('.')?.to_owned())).collect())
    }

    /// A file that cannot be decrypted is there and cannot be used: what needs it is not lost, and all else goes on.
    fn read(&self, plugin: &str, name: &str) -> Result<Option<Vec<u8>>> {
        let kept = kept_as(plugin, name);
        let Some(stored) = self.dir.read(&kept)? else { return Ok(None) };
        let opened = self.safe.open(&stored, |prefix| file_bound_to(prefix, &self.log, &kept));
        if opened.is_ok() && self.safe.is_of_before(&stored) {
            self.is_of_before.store(true, Ordering::Relaxed);
        }
        opened.map(Some).map_err(|error| unusable(kept, &error))
    }

    fn write(&self, plugin: &str, name: &str, bytes: &[u8]) -> Result<()> {
        self.put(&kept_as(plugin, name), bytes)
    }

    fn remove(&self, plugin: &str, name: &str) -> Result<()> {
        self.dir.remove(&kept_as(plugin, name))
    }
}

/// No plugin has a full stop in its name, so no two files are kept as one.
fn kept_as(plugin: &str, name: &str) -> String {
    format!("{plugin}.{name}")
}

fn unusable(kept: String, error: &AeadError) -> Error {
    Error::Unusable { path: kept.into(), reason: error.to_string() }
}
