//! `narad log dump`: every record of a partition, one JSON object a line, in offset order.

use std::path::PathBuf;

use base64::{Engine, prelude::BASE64_STANDARD};
use clap::Args;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{Entry, Unreadable, registered, walk};
use crate::cli::{
    error::{CliError, Outcome},
    output::Output,
};

/// What is printed.
#[derive(Debug, Args)]
#[command(
    after_help = "A record is {\"offset\",\"key\" (base64),\"committed_at_ms\",\"payload_len\",\"payload_sha256\",\
        \"codec\",\"segment\"}, also at or above the high watermark. A record that cannot be read is \
        {\"offset\",\"error\":\"corrupt\"|\"unknown_codec\"}, a run of missing offsets \
        {\"from\",\"to\",\"error\":\"gap\"} with both ends included. The last line is \
        {\"next_offset\",\"high_watermark\",\"segments\",\"torn_tail_bytes\"} as an open would recover them."
)]
pub(in crate::cli) struct DumpArgs {
    /// The directory of one partition, as data/topics/orders/p00000
    #[arg(value_name = "PARTITION_DIR")]
    dir: PathBuf,
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
        codec: &'a str,
        segment: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        payload: Option<String>,
    },
    Unreadable {
        offset: u64,
        error: Unreadable,
    },
    Gap {
        from: u64,
        to: u64,
        error: &'static str,
    },
}

impl DumpArgs {
    /// The line for `entry`; none when it lies outside the range.
    fn line<'a>(&self, entry: &Entry<'a>) -> Option<Line<'a>> {
        let wanted = self.from..=self.to;
        match *entry {
            Entry::Record { offset, key, committed_at_ms, payload, codec, segment } => {
                wanted.contains(&offset).then(|| Line::Record {
                    offset,
                    key: BASE64_STANDARD.encode(key),
                    committed_at_ms,
                    payload_len: payload.len(),
                    payload_sha256: hex(&Sha256::digest(payload)),
                    codec,
                    segment,
                    payload: self.payload.then(|| BASE64_STANDARD.encode(payload)),
                })
            }
            Entry::Unreadable { offset, why } => {
                wanted.contains(&offset).then_some(Line::Unreadable { offset, error: why })
            }
            Entry::Gap { from, to } => {
                let (from, to) = (from.max(self.from), to.min(self.to));
                (from <= to).then_some(Line::Gap { from, to, error: "gap" })
            }
        }
    }
}

/// Carries the command out.
pub(super) fn run(args: &DumpArgs, out: &mut Output) -> Result<Outcome, CliError> {
    let codecs = registered(&args.dir)?;
    let summary =
        walk(&args.dir, &codecs, &mut |entry| args.line(&entry).map_or(Ok(()), |line| out.object(&line)))
            .map_err(|error| error.in_dir(&args.dir))?;
    out.object(&summary)?;
    Ok(Outcome::Complete)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn args(from: u64, to: u64, payload: bool) -> DumpArgs {
        DumpArgs { dir: PathBuf::new(), from, to, payload }
    }

    fn text(args: &DumpArgs, entry: &Entry<'_>) -> Option<String> {
        args.line(entry).map(|line| serde_json::to_string(&line).unwrap())
    }

    #[test]
    fn the_lines_are_as_documented() {
        let (key, payload) = (Bytes::from_static(b"k\xFF"), Bytes::from_static(b"abc"));
        let segment = "00000000000000000000.log";
        let record = Entry::Record {
            offset: 7,
            key: &key,
            committed_at_ms: 1_767_225_600_000,
            payload: &payload,
            codec: "zstd",
            segment,
        };
        let start = "{\"offset\":7,\"key\":\"a/8=\",\"committed_at_ms\":1767225600000,\"payload_len\":3,\
            \"payload_sha256\":\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\",\
            \"codec\":\"zstd\",\"segment\":\"00000000000000000000.log\"";
        let all = args(0, u64::MAX, false);
        assert_eq!(text(&all, &record), Some(format!("{start}}}")));
        assert_eq!(text(&args(0, 7, true), &record), Some(format!("{start},\"payload\":\"YWJj\"}}")));
        let unreadable = |why| text(&all, &Entry::Unreadable { offset: 3, why }).unwrap();
        assert_eq!(unreadable(Unreadable::Corrupt), r#"{"offset":3,"error":"corrupt"}"#);
        assert_eq!(unreadable(Unreadable::UnknownCodec), r#"{"offset":3,"error":"unknown_codec"}"#);
        let gap = Entry::Gap { from: 4, to: 9 };
        assert_eq!(text(&all, &gap).unwrap(), r#"{"from":4,"to":9,"error":"gap"}"#);
        let summary =
            super::super::Summary { next_offset: 5, high_watermark: 4, segments: 1, torn_tail_bytes: 9 };
        assert_eq!(
            serde_json::to_string(&summary).unwrap(),
            r#"{"next_offset":5,"high_watermark":4,"segments":1,"torn_tail_bytes":9}"#
        );
    }

    #[test]
    fn the_range_includes_both_ends_and_clips_gaps() {
        let at = |offset| Entry::Unreadable { offset, why: Unreadable::Corrupt };
        let some = args(3, 5, false);
        let seen: Vec<u64> = (0..9).filter(|offset| some.line(&at(*offset)).is_some()).collect();
        assert_eq!(seen, [3, 4, 5]);
        let gap = |from, to| text(&some, &Entry::Gap { from, to });
        assert_eq!(gap(0, 9).unwrap(), r#"{"from":3,"to":5,"error":"gap"}"#);
        assert_eq!(gap(5, 9).unwrap(), r#"{"from":5,"to":5,"error":"gap"}"#);
        assert_eq!(gap(6, 9), None);
    }
}
