//! The file of `--failed`: lines that were refused or whose fate is unknown, as they were, for another try.
//!
//! Each line is handed to the operating system as soon as it failed, so that an end by a signal loses none of them.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::cli::error::CliError;

/// Where failed lines go, if anywhere.
pub(in crate::cli) struct FailedFile(Option<(PathBuf, File)>);

impl FailedFile {
    /// Creates or empties the file at `path`; without a path nothing is kept.
    ///
    /// # Errors
    /// It cannot be created, or is `input` itself, which would be emptied before it was read.
    pub(in crate::cli) fn create(path: Option<&Path>, input: &Path) -> Result<Self, CliError> {
        let Some(path) = path else { return Ok(Self(None)) };
        if is_same_file(path, input) {
            let path = path.display();
            return Err(CliError::Usage(format!("--failed {path} is what --lines reads; give another file")));
        }
        let file = File::create(path).map_err(|source| CliError::Keep { path: path.to_owned(), source })?;
        Ok(Self(Some((path.to_owned(), file))))
    }

    /// The file, if there is one.
    pub(super) fn path(&self) -> Option<&Path> {
        self.0.as_ref().map(|(path, _)| path.as_path())
    }

    /// Writes one line.
    pub(super) fn keep(&mut self, line: &[u8]) -> Result<(), CliError> {
        let Some((path, file)) = &mut self.0 else { return Ok(()) };
        // One write, so that a signal in between does not join two lines.
        file.write_all(&[line, b"\n"].concat())
            .map_err(|source| CliError::Keep { path: path.clone(), source })
    }
}

/// Whether both paths lead to one file, by whatever names. `-` is standard input.
fn is_same_file(path: &Path, input: &Path) -> bool {
    let input = if input == Path::new("-") { Path::new("/dev/stdin") } else { input };
    let identity = |path: &Path| -> io::Result<_> {
        fs::metadata(path).map(|file| (file.is_file(), file.dev(), file.ino()))
    };
    matches!((identity(path), identity(input)), (Ok(one), Ok(other)) if one.0 && one == other)
}
