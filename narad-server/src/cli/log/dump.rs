//! `narad log dump`: every record of a partition, one JSON object a line, in offset order.

use std::{
    borrow::Cow,
    io,
    ops::{Range, RangeInclusive},
    path::PathBuf,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use clap::Args;
use narad_core::{
    disk::OsDisk,
    format::Offset,
    log::inspect::{Inspected, Summary, UnreadableReason},
};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{Reader, target};
use crate::cli::{
    error::{CliError, Outcome},
    output::Output,
};

/// What is printed.
#[derive(Debug, Args)]
#[command(
    after_help = "A record is {\"offset\",\"key\" (base64),\"committed_at_ms\",\"payload_len\",\"payload_sha256\",\
        \"codec\",\"segment\"}, also at or above the high watermark. A record that cannot be read is \
        {\"offset\",\"error\":\"corrupt\"|\"unknown_codec\"|\"lacking\"}, a run of missing offsets \
        {\"from\",\"to\",\"error\":\"gap\"} with both ends included. The last line is \
        {\"next_offset\",\"high_watermark\",\"segments\",\"torn_tail_bytes\",\"prepared_bytes\"} as an open would recover them."
)]
pub(in crate::cli) struct DumpArgs {
    /// The directory of one partition, as data/topics/orders/p00000
    #[arg(value_name = "PARTITION_DIR")]
    pub(super) dir: PathBuf,
    /// Begin with this offset
    #[arg(long, value_name = "N", default_value_t = 0)]
    from: u64,
    /// End with this offset, inclusive
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    to: u64,
    /// Add the payload, in base64
    #[arg(long)]
    payload: bool,
}

/// A line of the dump.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Line<'a> {
    Record {
        offset: u64,
        key: String,
        committed_at_ms: i64,
        payload_len: usize,
        payload_sha256: String,
        codec: Cow<'a, str>,
        segment: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        payload: Option<String>,
    },
    Unreadable {
        offset: u64,
        error: &'static str,
    },
    Gap {
        from: u64,
        to: u64,
        error: &'static str,
    },
    Summary {
        next_offset: u64,
        high_watermark: u64,
        segments: usize,
        torn_tail_bytes: u64,
        prepared_bytes: u64,
    },
}

impl DumpArgs {
    /// Emits the lines for what was found, as far as it lies in the range.
    fn lines(
        &self,
        found: &Inspected<'_>,
        reader: &Reader<'_>,
        emit: &mut dyn FnMut(Line<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        match found {
            Inspected::Record { record, codec, segment } => {
                let offset = record.offset.get();
                if !(self.from..=self.to).contains(&offset) {
                    return Ok(());
                }
                emit(Line::Record {
                    offset,
                    key: BASE64_STANDARD.encode(&record.key),
                    committed_at_ms: record.committed_at_ms,
                    payload_len: record.payload.len(),
                    payload_sha256: hex(&Sha256::digest(&record.payload)),
                    codec: reader.codec_name(*codec),
                    segment: segment.file_name().unwrap_or_default().to_string_lossy(),
                    payload: self.payload.then(|| BASE64_STANDARD.encode(&record.payload)),
                })
            }
            Inspected::Unreadable { offsets, reason } => {
                let error = match reason {
                    UnreadableReason::UnknownCodec(_) => "unknown_codec",
                    UnreadableReason::Lacking => "lacking",
                    _ => "corrupt",
                };
                self.clip(offsets).map_or(Ok(()), |mut clipped| {
                    clipped.try_for_each(|offset| emit(Line::Unreadable { offset, error }))
                })
            }
            Inspected::Gap { offsets } => self.clip(offsets).map_or(Ok(()), |clipped| {
                let (from, to) = clipped.into_inner();
                emit(Line::Gap { from, to, error: "gap" })
            }),
            _ => Ok(()),
        }
    }

    /// The part of `offsets` that was asked for.
    fn clip(&self, offsets: &Range<Offset>) -> Option<RangeInclusive<u64>> {
        let last = offsets.end.get().checked_sub(1)?;
        let (from, to) = (offsets.start.get().max(self.from), last.min(self.to));
        (from <= to).then_some(from..=to)
    }
}

impl From<Summary> for Line<'_> {
    fn from(summary: Summary) -> Self {
        Self::Summary {
            next_offset: summary.next_offset.get(),
            high_watermark: summary.high_watermark.get(),
            segments: summary.segments,
            torn_tail_bytes: summary.torn_tail_bytes,
            prepared_bytes: summary.prepared_bytes,
        }
    }
}

/// Carries the command out.
pub(super) fn run(args: &DumpArgs, reader: &Reader<'_>, out: &mut Output) -> Result<Outcome, CliError> {
    target::require_single(&OsDisk, &args.dir)?;
    let summary = reader
        .walk(&args.dir, &mut |found| args.lines(&found, reader, &mut |line| out.object(&line)))
        .map_err(|error| error.in_dir(&args.dir))?;
    out.object(&Line::from(summary))?;
    Ok(Outcome::Complete)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use bytes::Bytes;
    use narad_core::format::{Batch, CodecNumber, Record};

    use super::*;
    use crate::broker::default_plugins;

    fn args(from: u64, to: u64, payload: bool) -> DumpArgs {
        DumpArgs { dir: PathBuf::new(), from, to, payload }
    }

    fn lines(args: &DumpArgs, found: &Inspected<'_>) -> Vec<String> {
        let mut lines = Vec::new();
        let mut emit = |line: Line<'_>| {
            lines.push(serde_json::to_string(&line)?);
            Ok(())
        };
        args.lines(found, &Reader { registry: &default_plugins().unwrap() }, &mut emit).unwrap();
        lines
    }

    fn range(from: u32, to: u32) -> Range<Offset> {
        from.into()..to.into()
    }

    fn record() -> Inspected<'static> {
        let mut batch = Batch::of(b"k\xFF", b"abc");
        batch.stamp(1_767_225_600_000);
        let record = Record::decode(7.into(), &Bytes::copy_from_slice(&batch.as_bytes()[4..])).unwrap();
        let segment = Path::new("p00000/00000000000000000000.log");
        Inspected::Record { record, codec: CodecNumber::new(1).unwrap(), segment }
    }

    #[test]
    fn the_lines_are_as_documented() {
        let start = "{\"offset\":7,\"key\":\"a/8=\",\"committed_at_ms\":1767225600000,\"payload_len\":3,\
            \"payload_sha256\":\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\",\
            \"codec\":\"zstd\",\"segment\":\"00000000000000000000.log\"";
        assert_eq!(lines(&args(0, u64::MAX, false), &record()), [format!("{start}}}")]);
        assert_eq!(lines(&args(7, 7, true), &record()), [format!("{start},\"payload\":\"YWJj\"}}")]);
        assert!(lines(&args(8, 9, true), &record()).is_empty());
        let all = args(0, u64::MAX, false);
        let unreadable = |reason| lines(&all, &Inspected::Unreadable { offsets: range(3, 5), reason });
        assert_eq!(
            unreadable(UnreadableReason::Corrupt),
            [r#"{"offset":3,"error":"corrupt"}"#, r#"{"offset":4,"error":"corrupt"}"#]
        );
        let unknown = unreadable(UnreadableReason::UnknownCodec(CodecNumber::new(5).unwrap()));
        assert_eq!(unknown[1], r#"{"offset":4,"error":"unknown_codec"}"#);
        let gap = lines(&all, &Inspected::Gap { offsets: range(4, 10) });
        assert_eq!(gap, [r#"{"from":4,"to":9,"error":"gap"}"#]);
    }

    #[test]
    fn the_range_includes_both_ends_and_clips() {
        let some = args(3, 5, false);
        let gap = |from, to| lines(&some, &Inspected::Gap { offsets: range(from, to) });
        assert_eq!(gap(0, 9), [r#"{"from":3,"to":5,"error":"gap"}"#]);
        assert_eq!(gap(5, 9), [r#"{"from":5,"to":5,"error":"gap"}"#]);
        assert!(gap(6, 9).is_empty() && gap(0, 3).is_empty() && gap(4, 4).is_empty());
        let reason = UnreadableReason::Corrupt;
        assert_eq!(lines(&some, &Inspected::Unreadable { offsets: range(0, 9), reason }).len(), 3);
    }
}
