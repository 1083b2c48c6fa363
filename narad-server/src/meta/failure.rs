//! What goes wrong inside a transaction of the embedded metastore.

use std::{io, path::Path, sync::Arc};

use super::MetaError;

/// A refusal leaves the database as good as it was; after any other failure it must be opened anew.
pub(super) enum Failure {
    /// The change was not to be made.
    Refused(MetaError),
    /// No transaction could be begun.
    NotBegun(redb::Error),
    /// redb or the file system failed.
    Store(redb::Error),
}

impl Failure {
    /// The failure of an attempt to open the file at `path`.
    pub(super) fn of_open(self, path: &Path) -> MetaError {
        match self {
            Self::Refused(error) => error,
            Self::NotBegun(source) | Self::Store(source) => match MetaError::from(Self::Store(source)) {
                MetaError::Failed { source } => MetaError::CannotOpen { path: path.to_owned(), source },
                other => other,
            },
        }
    }

    /// The failure of a transaction that changes nothing.
    pub(super) fn of_read(self) -> Self {
        match self {
            Self::Store(error) => Self::NotBegun(error),
            other => other,
        }
    }
}

impl From<MetaError> for Failure {
    fn from(error: MetaError) -> Self {
        Self::Refused(error)
    }
}

impl From<redb::TransactionError> for Failure {
    fn from(error: redb::TransactionError) -> Self {
        Self::NotBegun(error.into())
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

store_failures!(io::Error, redb::CommitError, redb::DatabaseError, redb::StorageError, redb::TableError);

impl From<Failure> for MetaError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(error) => error,
            Failure::NotBegun(redb::Error::Io(error)) | Failure::Store(redb::Error::Io(error))
                if is_full(&error) =>
            {
                Self::DiskFull { source: Arc::new(error) }
            }
            Failure::NotBegun(error) => Self::Unavailable { source: Arc::new(error) },
            Failure::Store(error) => Self::Failed { source: Arc::new(error) },
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
