//! The process's limits.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard one: a broker needs one for each connection and each busy log.
/// Where that fails the server runs with what it has.
pub(super) fn raise_descriptors() {
    let Rlimit { current: soft, maximum: hard } = getrlimit(Resource::Nofile);
    match setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard }) {
        Ok(()) => tracing::info!(from = %Files(soft), to = %Files(hard), "the limit of open files"),
        Err(error) => {
            tracing::warn!(%error, soft = %Files(soft), hard = %Files(hard), "the limit of open files stays as it is");
        }
    }
}

/// A number of files, `None` for no limit.
struct Files(Option<u64>);

impl std::fmt::Display for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(files) => files.fmt(f),
            None => f.write_str("unlimited"),
        }
    }
}
