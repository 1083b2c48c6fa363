//! How the commands that read write a message out.

use std::io;

use super::{
    client::Message,
    error::CliError,
    output::{Output, printable},
};

/// How a message is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// The payload byte for byte, and a newline.
    Raw,
    /// A JSON object.
    Object,
    /// For a person at a terminal.
    Shown,
}

impl Style {
    /// The style that the flags ask for.
    pub(super) fn choose(raw: bool, out: &Output) -> Result<Self, CliError> {
        match (raw, out.is_json()) {
            (true, true) => {
                Err(CliError::Usage("--raw and --json exclude each other; give one of them".into()))
            }
            (false, true) => Ok(Self::Object),
            (false, false) if out.is_terminal() => Ok(Self::Shown),
            _ => Ok(Self::Raw),
        }
    }

    /// Writes one message.
    pub(super) fn write(self, message: &Message, out: &mut Output) -> io::Result<()> {
        match self {
            Self::Raw => out.raw_line(&message.payload),
            Self::Object => out.object(message),
            Self::Shown => {
                let place = format!("{}:{}", message.partition, message.offset);
                let payload = printable(&message.payload);
                if message.key.is_empty() {
                    out.line(format_args!("{place:<10}  {payload}"))
                } else {
                    out.line(format_args!("{place:<10}  [{}]  {payload}", printable(&message.key)))
                }
            }
        }
    }
}
