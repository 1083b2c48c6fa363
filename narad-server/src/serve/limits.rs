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

/// How many connections the server holds: `asked`, and no more than half of the files that the process may open, so that
/// clients never take what the logs need. Fewer than asked for is said.
pub(super) fn connections(asked: u32) -> u32 {
    let files = getrlimit(Resource::Nofile).current;
    let granted = granted(asked, files);
    if granted < asked {
        tracing::warn!(
            asked, granted, files = %Files(files),
            "http.max_connections is more than half of the limit of open files; holding fewer"
        );
    }
    granted
}

fn granted(asked: u32, files: Option<u64>) -> u32 {
    let half = files.map_or(u32::MAX, |files| u32::try_from(files / 2).unwrap_or(u32::MAX));
    asked.min(half.max(1))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_files_are_left_for_logs() {
        assert_eq!(granted(4096, None), 4096);
        assert_eq!(granted(4096, Some(20_000)), 4096);
        assert_eq!(granted(4096, Some(1024)), 512);
        assert_eq!(granted(4096, Some(1)), 1);
        assert_eq!(granted(10, Some(1024)), 10);
    }
}
