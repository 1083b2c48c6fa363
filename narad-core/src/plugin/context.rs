//! `PluginContext`: what a constructor of a plugin is handed.

use std::{fmt, path::PathBuf, sync::Arc};

use serde_json::Value;

use super::{
    Codec, CodecSet, LogIdentity, PluginDir, PluginFiles, PluginKind, PluginPlace, RegistryError,
    RetentionPolicy, SyncPolicy, WakeNotifier,
    dir::{Alone, InPlace},
};
use crate::disk::Disk;

/// How many plugins can stand around one that stands in them, as a codec over a codec does.
pub const MAX_NESTING: u8 = 8;

/// Builds plugins for others: the registry, as its constructors see it.
pub(super) trait Nursery: Sync {
    fn codec(&self, spec: &Value, context: &PluginContext<'_>) -> Result<Arc<dyn Codec>, RegistryError>;

    fn readable_codecs(&self, context: &PluginContext<'_>) -> Result<CodecSet, RegistryError>;

    fn retention(
        &self,
        spec: &Value,
        context: &PluginContext<'_>,
    ) -> Result<Arc<dyn RetentionPolicy>, RegistryError>;

    fn sync(&self, spec: &Value, context: &PluginContext<'_>) -> Result<Arc<dyn SyncPolicy>, RegistryError>;

    fn wake(&self, spec: &Value, context: &PluginContext<'_>)
    -> Result<Arc<dyn WakeNotifier>, RegistryError>;
}

/// What a plugin is built for, and what its constructor can use.
///
/// A constructor that is given other plugins in its configuration builds them from the same registry, each as a name or
/// as an object with a `name`:
///
/// ```
/// # use std::sync::Arc;
/// # use narad_core::plugin::{PluginContext, PluginError, RetentionDecision, RetentionPolicy, RetentionView, Registry};
/// # #[derive(Debug)]
/// # struct Not(Arc<dyn RetentionPolicy>);
/// # impl RetentionPolicy for Not {
/// #     fn name(&self) -> &str { "not" }
/// #     fn roll_age(&self) -> Option<std::time::Duration> { None }
/// #     fn decide(&self, _: &RetentionView<'_>) -> RetentionDecision { RetentionDecision::KEEP }
/// # }
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// #[serde(deny_unknown_fields)]
/// struct NotConfig {
///     policy: serde_json::Value,
/// }
///
/// fn build(config: NotConfig, context: &PluginContext<'_>) -> Result<Arc<dyn RetentionPolicy>, PluginError> {
///     Ok(Arc::new(Not(context.retention(&config.policy)?)))
/// }
///
/// let mut registry = Registry::new();
/// registry.retention(narad_core::origin!(), "not", build)?;
/// # Ok::<(), narad_core::plugin::RegistryError>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct PluginContext<'a> {
    /// The log, or partition 0 of the topic where the plugin serves all of its partitions. A wake notifier that serves
    /// all logs of a broker gets the broker's name.
    pub log: LogIdentity,
    files: Option<Arc<dyn PluginFiles>>,
    dir: Option<PluginDir>,
    nursery: Option<&'a dyn Nursery>,
    depth: u8,
    /// The configuration is a stranger's.
    is_from_outside: bool,
    /// The plugin is to be in a set of codecs that stands in another codec.
    to_be_readable: bool,
}

impl fmt::Debug for PluginContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginContext")
            .field("log", &self.log)
            .field("dir", &self.dir)
            .field("depth", &self.depth)
            .finish_non_exhaustive()
    }
}

impl PluginContext<'static> {
    /// The context for a log, in which plugins have no directory: for a log that stands alone, or to see whether a
    /// configuration fits.
    pub fn new(log: LogIdentity) -> Self {
        Self {
            log,
            files: None,
            dir: None,
            nursery: None,
            depth: 0,
            is_from_outside: false,
            to_be_readable: false,
        }
    }
}

impl<'a> PluginContext<'a> {
    /// The same with directories for plugins in `place`.
    #[must_use]
    pub fn in_place(self, place: Arc<dyn PluginPlace>) -> Self {
        self.keeping_in(Arc::new(InPlace(place)))
    }

    /// The same with `files` for what the plugins keep that are built with it, in place of their own directories beside the
    /// data: for a plugin that builds others in itself.
    #[must_use]
    pub fn keeping_in(self, files: Arc<dyn PluginFiles>) -> Self {
        Self { files: Some(files), ..self }
    }

    /// The same with directories for plugins below `dir`, which is made with the first file that one keeps: for a log that
    /// stands alone. Nobody else may write there.
    #[must_use]
    pub fn in_dir(self, disk: Arc<dyn Disk>, dir: impl Into<PathBuf>) -> Self {
        self.in_place(Arc::new(Alone::new(disk, dir.into())))
    }

    /// The same for a configuration that comes from somebody who has no say over the machine, as the owner of a topic who is
    /// no admin.
    #[must_use]
    pub fn from_outside(self) -> Self {
        Self { is_from_outside: true, ..self }
    }

    /// Whether the configuration comes from somebody who has no say over the machine. A plugin then refuses to look at a
    /// file, a variable or an address because the configuration names it: its answer would tell what is there. Asked when a
    /// configuration is taken; one that was taken once is built without.
    pub fn is_from_outside(&self) -> bool {
        self.is_from_outside
    }

    /// The plugin's own directory. Absent when there is nowhere to keep anything: in a log that stands alone and was given
    /// no place, and when a configuration is only checked; so its absence is no error of the configuration.
    pub fn dir(&self) -> Option<&PluginDir> {
        self.dir.as_ref()
    }

    /// The codec that `spec` asks for, as a part of the plugin that is being built.
    ///
    /// # Errors
    /// As [`Registry::build_codec`](super::Registry::build_codec); `TooDeep` in more than [`MAX_NESTING`] others.
    pub fn codec(&self, spec: &Value) -> Result<Arc<dyn Codec>, RegistryError> {
        self.nursery(PluginKind::Codec, spec)?.codec(spec, self)
    }

    /// Every codec that can be built without configuration, for a codec over another: what is under its own frames may
    /// come from a codec that it was over before. Empty where the plugin is built to be in such a set itself.
    ///
    /// # Errors
    /// As [`Registry::readable_codecs`](super::Registry::readable_codecs).
    pub fn readable_codecs(&self) -> Result<CodecSet, RegistryError> {
        match self.nursery {
            // Codecs over others would build each other without end.
            Some(nursery) if !self.to_be_readable => nursery.readable_codecs(self),
            _ => Ok(CodecSet::new()),
        }
    }

    /// The same for a retention policy.
    ///
    /// # Errors
    /// As [`codec`](Self::codec).
    pub fn retention(&self, spec: &Value) -> Result<Arc<dyn RetentionPolicy>, RegistryError> {
        self.nursery(PluginKind::Retention, spec)?.retention(spec, self)
    }

    /// The same for a sync policy.
    ///
    /// # Errors
    /// As [`codec`](Self::codec).
    pub fn sync(&self, spec: &Value) -> Result<Arc<dyn SyncPolicy>, RegistryError> {
        self.nursery(PluginKind::Sync, spec)?.sync(spec, self)
    }

    /// The same for a wake notifier.
    ///
    /// # Errors
    /// As [`codec`](Self::codec).
    pub fn wake(&self, spec: &Value) -> Result<Arc<dyn WakeNotifier>, RegistryError> {
        self.nursery(PluginKind::Wake, spec)?.wake(spec, self)
    }

    fn nursery(&self, kind: PluginKind, spec: &Value) -> Result<&'a dyn Nursery, RegistryError> {
        let name = || spec.as_str().map_or_else(|| spec.to_string(), str::to_owned);
        match self.nursery {
            Some(_) if self.depth > MAX_NESTING => {
                Err(RegistryError::TooDeep { kind, name: name(), limit: MAX_NESTING })
            }
            Some(nursery) => Ok(nursery),
            None => Err(RegistryError::Unknown { kind, name: name(), known: Vec::new() }),
        }
    }

    /// The same for those in a set of readable codecs.
    pub(super) fn for_readable(&self) -> Self {
        Self { to_be_readable: self.depth > 0, ..self.clone() }
    }

    /// What the constructor of `plugin` is handed.
    pub(super) fn for_plugin<'b>(&self, plugin: &str, nursery: &'b dyn Nursery) -> PluginContext<'b> {
        PluginContext {
            log: self.log.clone(),
            files: self.files.clone(),
            dir: self.files.clone().map(|files| PluginDir::new(files, plugin)),
            nursery: Some(nursery),
            depth: self.depth.saturating_add(1),
            is_from_outside: self.is_from_outside,
            to_be_readable: self.to_be_readable,
        }
    }
}
