//! The four places where somebody else's crate plugs in, and the registry that builds a plugin from its name.
//!
//! A plugin decides, the engine acts: a plugin is asked a question and answers it from what it is handed. It does
//! no I/O, takes no lock of the engine, and the engine checks every answer. What a plugin keeps, such as dictionaries, it
//! reads and writes in a [`PluginDir`] where nothing waits for it: in its constructor and in [`Codec::maintain`].

mod codec;
mod context;
mod dir;
mod identity;
mod lacking;
mod pool;
mod refusal;
mod registry;
mod retention;
mod sync;
mod unbuilt;
mod wake;

pub use codec::{Codec, CodecSet, FrameContext, Sample};
pub use context::{MAX_NESTING, PluginContext};
pub use dir::{MAX_PLUGIN_FILE_BYTES, MAX_PLUGIN_FILES, PluginDir, PluginFiles, PluginPlace, Visit};
pub use identity::{Incarnation, LogIdentity, PartitionId};
pub use lacking::Lacking;
pub use pool::Pool;
pub use refusal::{Origin, PluginKind, RegistryError};
#[cfg(feature = "testkit")]
pub(crate) use registry::is_plugin_name;
pub use registry::{NoConfig, PluginInfo, Registry};
pub use retention::{RetentionDecision, RetentionPolicy, RetentionView, SegmentInfo};
pub use sync::{BatchedSync, SyncDecision, SyncPolicy, Synced, Unsynced};
pub use wake::{SilentWake, WakeNotifier, WakeReason};

/// What a plugin answers when it cannot do what it was asked.
pub type PluginError = Box<dyn std::error::Error + Send + Sync>;
