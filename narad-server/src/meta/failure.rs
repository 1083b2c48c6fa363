//! What goes wrong inside a transaction of the embedded metastore.

use std::{io, sync::Arc};

use super::MetaError;

/// A refusal leaves the database as good as it was; after a failure of the store it must be opened anew.
pub(super) enum Failure {
    /// The change was not to be made.
    Refused(MetaError),
    /// redb or the file system failed.
    Store(redb::Error),
}

impl From<MetaError> for Failure {
    fn from(error: MetaError) -> Self {
        Self::Refused(error)
    }
}

macro_rules! store_failures {
    ($($error:ty),* $(,)?) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::Store(error.into())
            }
        })*
    };
}

store_failures!(
    io::Error,
    redb::CommitError,
    redb::DatabaseError,
    redb::StorageError,
    redb::TableError,
    redb::TransactionError,
);

impl From<Failure> for MetaError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(error) => error,
            Failure::Store(redb::Error::Io(error)) if is_full(&error) => {
                Self::DiskFull { source: Arc::new(error) }
            }
            Failure::Store(error) => Self::Failed { source: Arc::new(error) },
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
