//! Where lines come from: a thread that reads a file or standard input, at most a few lines ahead.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
    thread,
};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::MAX_MESSAGE;
use crate::cli::error::CliError;

/// What a line turned out to be. Lines are numbered from 1.
#[derive(Debug)]
pub(super) enum Line {
    /// A line without its newline; may be empty.
    Message { number: u64, payload: Bytes },
    /// A line that no broker takes; it was read past and not kept.
    TooLong { number: u64, bytes: u64 },
    /// The input broke off here.
    Failed(CliError),
}

/// An input that was opened.
pub(in crate::cli) struct Source {
    name: String,
    len: Option<u64>,
    input: Box<dyn Read + Send>,
}

impl Source {
    /// Opens a file, or standard input for `-`.
    pub(in crate::cli) fn open(path: &Path) -> Result<Self, CliError> {
        let name = input_name(path);
        if path == Path::new("-") {
            return Ok(Self { name, len: None, input: Box::new(io::stdin()) });
        }
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
        let (metadata, file) = opened.map_err(|source| input_error(path, source))?;
        Ok(Self { name, len: metadata.is_file().then_some(metadata.len()), input: Box::new(file) })
    }

    /// Bytes in it, where that is known beforehand.
    pub(super) fn len(&self) -> Option<u64> {
        self.len
    }

    /// Its lines, read at most `ahead` lines before they are taken.
    ///
    /// The thread is not waited for: it may hang in a read of standard input when the command has long ended.
    pub(super) fn into_lines(self, ahead: usize) -> mpsc::Receiver<Line> {
        let (sender, receiver) = mpsc::channel(ahead.max(1));
        thread::spawn(move || {
            let mut input = BufReader::with_capacity(256 << 10, self.input);
            let mut number = 0;
            loop {
                number += 1;
                let line = match read_line(&mut input, MAX_MESSAGE) {
                    Ok(None) => return,
                    Ok(Some(ReadLine::Whole(payload))) => Line::Message { number, payload: payload.into() },
                    Ok(Some(ReadLine::TooLong(bytes))) => Line::TooLong { number, bytes },
                    Err(source) => Line::Failed(CliError::Input { name: self.name.clone(), source }),
                };
                let last = matches!(line, Line::Failed(_));
                if sender.blocking_send(line).is_err() || last {
                    return;
                }
            }
        });
        receiver
    }
}

/// The error of an input at `path`.
pub(in crate::cli) fn input_error(path: &Path, source: io::Error) -> CliError {
    CliError::Input { name: input_name(path), source }
}

fn input_name(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

#[derive(Debug, PartialEq, Eq)]
enum ReadLine {
    Whole(Vec<u8>),
    TooLong(u64),
}

/// The next line without its newline, or `None` at the end. Keeps at most `limit` bytes of it.
fn read_line(input: &mut impl BufRead, limit: usize) -> io::Result<Option<ReadLine>> {
    let mut line = Vec::new();
    let most = limit as u64 + 1;
    input.by_ref().take(most).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.pop_if(|last| *last == b'\n').is_none() && line.len() > limit {
        return Ok(Some(ReadLine::TooLong(line.len() as u64 + skip_line(input)?)));
    }
    Ok(Some(ReadLine::Whole(line)))
}

/// Reads past the rest of a line. Returns its length without the newline.
fn skip_line(input: &mut impl BufRead) -> io::Result<u64> {
    let mut skipped = 0;
    loop {
        let buffered = match input.fill_buf() {
            Ok(buffered) => buffered,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let newline = buffered.iter().position(|byte| *byte == b'\n');
        let length = newline.unwrap_or(buffered.len());
        skipped += length as u64;
        let (at_end, taken) = (buffered.is_empty(), newline.map_or(length, |at| at + 1));
        input.consume(taken);
        if at_end || newline.is_some() {
            return Ok(skipped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(mut input: &[u8], limit: usize) -> Vec<ReadLine> {
        std::iter::from_fn(|| read_line(&mut input, limit).unwrap()).collect()
    }

    #[test]
    fn a_line_is_everything_before_its_newline() {
        let whole = |text: &[u8]| ReadLine::Whole(text.to_vec());
        assert_eq!(
            lines(b"a\r\n\n \xFF\nlast", 9),
            [whole(b"a\r"), whole(b""), whole(b" \xFF"), whole(b"last")]
        );
        assert_eq!(lines(b"a\n", 9), [whole(b"a")]);
        assert_eq!(lines(b"", 9), []);
    }

    #[test]
    fn a_line_above_the_limit_is_read_past() {
        let whole = |text: &[u8]| ReadLine::Whole(text.to_vec());
        assert_eq!(
            lines(b"abc\nabcd\nabcdef\nx", 3),
            [whole(b"abc"), ReadLine::TooLong(4), ReadLine::TooLong(6), whole(b"x")]
        );
        assert_eq!(lines(b"abcdef", 3), [ReadLine::TooLong(6)]);
    }
}
