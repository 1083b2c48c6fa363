//! Where results go: standard output, as text for people or as one JSON object a line; complaints go to standard
//! error.
//!
//! Nothing in `cli` prints except through here. A write that fails is an error and never a panic, so that
//! `narad sub t | head` ends quietly.

use std::{
    fmt::{Display, Write as _},
    io::{self, BufWriter, IsTerminal, Write},
    path::Path,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use serde::Serialize;

/// Who reads standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// A person.
    Human,
    /// A program: one JSON object a line.
    Json,
}

/// The results of a command on their way out.
pub(crate) struct Output {
    format: Format,
    terminal: bool,
    stdout: Box<dyn Write>,
}

impl Output {
    /// Standard output, buffered until [`flush`](Self::flush).
    pub(crate) fn stdout(format: Format) -> Self {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        Self { format, terminal, stdout: Box::new(BufWriter::with_capacity(64 << 10, stdout.lock())) }
    }

    /// Whether a program reads the results.
    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Whether a person looks at them directly.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Writes a line of text.
    pub(crate) fn line(&mut self, text: impl Display) -> io::Result<()> {
        writeln!(self.stdout, "{text}")
    }

    /// Writes one JSON object on a line of its own.
    pub(crate) fn object(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.stdout, value)?;
        self.stdout.write_all(b"\n")
    }

    /// Writes `bytes` as they are, then a newline.
    pub(crate) fn raw_line(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stdout.write_all(bytes)?;
        self.stdout.write_all(b"\n")
    }

    /// Hands everything written so far to the operating system.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }

    /// Says on standard error what went wrong, in the form that fits the format.
    pub(crate) fn complain(&self, problem: impl Display) {
        complain(self.format, problem);
    }

    /// Says something on standard error that a program does not need.
    pub(crate) fn remark(&self, text: impl Display) {
        if self.format == Format::Human {
            // A closed standard error leaves nobody to tell.
            let _ = writeln!(io::stderr(), "{text}");
        }
    }
}

/// Resolves when nobody reads standard output any more, as when `head` has ended; never where that cannot be told. From
/// the first poll on, a thread waits for it.
pub(crate) async fn nobody_reads() {
    let (tell, told) = tokio::sync::oneshot::channel();
    let watch = move || {
        let stdout = io::stdout();
        loop {
            // Asked for nothing, the system tells of errors and hang-ups alone.
            let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
            match poll(&mut watched, None) {
                Ok(_) if watched.iter().any(|one| !one.revents().is_empty()) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
        // The command may have ended.
        let _ = tell.send(());
    };
    let watching = std::thread::Builder::new().name("stdout".to_owned()).spawn(watch).is_ok();
    if !watching || told.await.is_err() {
        std::future::pending().await
    }
}

/// What the program is called: `narad`, or as somebody has called a broker of their own.
pub(crate) fn program() -> String {
    let called =
        std::env::args_os().next().and_then(|path| Some(Path::new(&path).file_stem()?.to_str()?.to_owned()));
    called.unwrap_or_else(|| "narad".to_owned())
}

/// Says on standard error what went wrong: `narad: ...`, or `{"error": ...}` for programs.
pub(crate) fn complain(format: Format, problem: impl Display) {
    let line = match format {
        Format::Human => format!("{}: {problem}", program()),
        Format::Json => serde_json::json!({ "error": problem.to_string() }).to_string(),
    };
    // A closed standard error leaves nobody to tell.
    let _ = writeln!(io::stderr(), "{line}");
}

/// Columns of text under their names; columns that `numeric` names are aligned to the right.
pub(crate) fn table<const N: usize>(names: [&str; N], numeric: [bool; N], rows: &[[String; N]]) -> String {
    let mut widths = names.map(|name| name.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in std::iter::once(&names.map(String::from)).chain(rows) {
        let mut line = String::new();
        for ((cell, width), right) in row.iter().zip(widths).zip(numeric) {
            // Writing to a string cannot fail.
            let _ = if right { write!(line, "{cell:>width$}  ") } else { write!(line, "{cell:<width$}  ") };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}

/// `bytes` as text that cannot take over a terminal: control characters are escaped, but for newline and tab.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for character in String::from_utf8_lossy(bytes).chars() {
        match character {
            '\n' | '\t' => text.push(character),
            control if control.is_control() => text.extend(control.escape_default()),
            other => text.push(other),
        }
    }
    text
}

/// Bytes in the unit that suits their size: `512 B`, `1.5 MiB`.
pub(crate) fn human_bytes(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_aligns_names_left_and_numbers_right() {
        let rows = [["orders".into(), "3".into()], ["x".into(), "108".into()]];
        assert_eq!(
            table(["TOPIC", "N"], [false, true], &rows),
            "TOPIC     N\norders    3\nx       108",
            "no blanks at the ends of lines"
        );
    }

    #[test]
    fn control_characters_do_not_reach_a_terminal() {
        assert_eq!(printable(b"a\x1b[2Jb\tc\n"), "a\\u{1b}[2Jb\tc\n");
        assert_eq!(printable("größe".as_bytes()), "größe");
    }
}
