//! `narad log verify`: check every frame of every segment of a partition, a topic or a data directory.
//!
//! Damage is what was written and cannot be read back. A torn tail (a crash cut the last write short) and a frame
//! of an unregistered codec are reported, and are not damage.

use std::{ops::Range, path::PathBuf};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use narad_core::{
    disk::OsDisk,
    format::Offset,
    log::inspect::{Inspected, UnreadableReason},
};
use serde::Serialize;

use super::{
    Reader, WalkError,
    target::{self, Target},
};
use crate::cli::{
    error::{CliError, Outcome},
    output::{Output, human_bytes, table},
};

/// What is checked.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 when nothing is damaged, 1 when something is (a corrupt record, a gap), 2 when \
        something could not be looked at. A torn tail alone, which the next open cuts, and frames of a codec that \
        is not registered are reported and are not damage. BYTES are those of frames; PREPARED are zeros behind the \
        last one, which a broker keeps ready for frames to come and leaves there when it is killed."
)]
pub(in crate::cli) struct VerifyArgs {
    /// The directory of a partition, of a topic, or a whole data directory
    pub(super) dir: PathBuf,
}

/// What a partition turned out to be.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
struct Findings {
    partition: String,
    segments: usize,
    /// Readable records.
    records: u64,
    /// Bytes of the frames that check out. What else the files hold is damage, or lies behind the last frame.
    bytes: u64,
    /// Runs of missing offsets.
    gaps: u64,
    /// Offsets in them.
    missing: u64,
    /// Records of damaged frames.
    corrupt: u64,
    /// Records of frames whose codec is not registered, or lacks a key or the like.
    unknown_codec: u64,
    /// Frames that check out and hold offsets of another place; never served.
    misplaced_frames: u64,
    /// Bytes behind the last frame that are no frame.
    torn_tail_bytes: u64,
    /// Zeros behind it, which a broker writes ahead of frames to come.
    prepared_bytes: u64,
    /// Why the partition could not be looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Findings {
    fn note(&mut self, found: &Inspected<'_>) {
        let count = |offsets: &Range<Offset>| offsets.end.since(offsets.start);
        match found {
            Inspected::Frame { bytes } => self.bytes = self.bytes.saturating_add(*bytes),
            Inspected::Record { .. } => self.records += 1,
            Inspected::Unreadable {
                offsets,
                reason: UnreadableReason::UnknownCodec(_) | UnreadableReason::Lacking,
            } => {
                self.unknown_codec = self.unknown_codec.saturating_add(count(offsets));
            }
            Inspected::Unreadable { offsets, .. } => {
                self.corrupt = self.corrupt.saturating_add(count(offsets));
            }
            Inspected::Gap { offsets } => {
                self.gaps += 1;
                self.missing = self.missing.saturating_add(count(offsets));
            }
            Inspected::Misplaced { .. } => self.misplaced_frames += 1,
            _ => {}
        }
    }

    fn is_damaged(&self) -> bool {
        self.gaps > 0 || self.corrupt > 0 || self.misplaced_frames > 0
    }

    fn state(&self) -> String {
        match &self.error {
            Some(error) => format!("cannot look: {error}"),
            None if self.misplaced_frames > 0 => {
                format!("DAMAGED, {} misplaced frames", self.misplaced_frames)
            }
            None if self.is_damaged() => "DAMAGED".to_owned(),
            None if self.unknown_codec > 0 => "ok, unknown codec".to_owned(),
            None if self.torn_tail_bytes > 0 => "ok, torn tail".to_owned(),
            None => "ok".to_owned(),
        }
    }

    fn row(&self) -> [String; 10] {
        [
            self.partition.clone(),
            self.segments.to_string(),
            self.records.to_string(),
            human_bytes(self.bytes),
            self.gaps.to_string(),
            self.corrupt.to_string(),
            self.unknown_codec.to_string(),
            human_bytes(self.torn_tail_bytes),
            human_bytes(self.prepared_bytes),
            self.state(),
        ]
    }
}

/// Carries the command out.
pub(super) fn run(args: &VerifyArgs, reader: &Reader<'_>, out: &mut Output) -> Result<Outcome, CliError> {
    let targets = target::find(&OsDisk, &args.dir)?;
    let bar = progress(targets.iter().map(|target| target.bytes).sum());
    let findings: Vec<Findings> = targets.iter().map(|target| check(target, reader, &bar)).collect();
    bar.finish_and_clear();
    report(&findings, out)?;
    out.flush()?;
    let failed = targets.iter().zip(&findings).find_map(|(target, findings)| {
        let reason = findings.error.clone()?;
        Some(CliError::CannotLook { dir: target.dir.clone(), reason })
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(Outcome::of(!findings.iter().any(Findings::is_damaged))),
    }
}

fn check(target: &Target, reader: &Reader<'_>, bar: &ProgressBar) -> Findings {
    let mut findings = Findings { partition: target.name.clone(), ..Findings::default() };
    bar.set_message(target.name.clone());
    let start = bar.position();
    let walked = reader.walk(&target.dir, &mut |found| {
        findings.note(&found);
        if let Inspected::Frame { bytes } = found {
            bar.inc(bytes);
        }
        Ok(())
    });
    // What was no frame was passed too.
    bar.set_position(start.saturating_add(target.bytes));
    match walked {
        Ok(summary) => {
            findings.segments = summary.segments;
            findings.torn_tail_bytes = summary.torn_tail_bytes;
            findings.prepared_bytes = summary.prepared_bytes;
        }
        Err(WalkError::Look(error)) => findings.error = Some(error.to_string()),
        Err(WalkError::Visit(error)) => findings.error = Some(error.to_string()),
    }
    findings
}

fn report(findings: &[Findings], out: &mut Output) -> Result<(), CliError> {
    if out.is_json() {
        return Ok(findings.iter().try_for_each(|findings| out.object(findings))?);
    }
    if findings.is_empty() {
        return Ok(out.line("no partitions")?);
    }
    let rows: Vec<[String; 10]> = findings.iter().map(Findings::row).collect();
    let names = [
        "PARTITION",
        "SEGMENTS",
        "RECORDS",
        "BYTES",
        "GAPS",
        "CORRUPT",
        "UNKNOWN CODEC",
        "TORN TAIL",
        "PREPARED",
        "STATE",
    ];
    let numeric = [false, true, true, true, true, true, true, true, true, false];
    Ok(out.line(table(names, numeric, &rows))?)
}

fn progress(bytes: u64) -> ProgressBar {
    let template = "{bar:30} {percent:>3} %  {binary_bytes_per_sec}  {msg}";
    // A template that does not parse would cost the looks, not the check.
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(bytes).with_style(style)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use narad_core::format::CodecNumber;

    use super::*;

    fn noted(found: &[Inspected<'_>]) -> Findings {
        let mut findings = Findings { torn_tail_bytes: 12, ..Findings::default() };
        found.iter().for_each(|found| findings.note(found));
        findings
    }

    fn unreadable(reason: UnreadableReason) -> Inspected<'static> {
        Inspected::Unreadable { offsets: 3.into()..5.into(), reason }
    }

    #[test]
    fn only_what_is_lost_is_damage() {
        assert_eq!(noted(&[]).state(), "ok, torn tail");
        let unknown = UnreadableReason::UnknownCodec(CodecNumber::new(5).unwrap());
        let findings = noted(&[unreadable(unknown)]);
        assert_eq!((findings.unknown_codec, findings.is_damaged()), (2, false));
        assert_eq!(findings.state(), "ok, unknown codec");
        let findings = noted(&[unreadable(UnreadableReason::Corrupt)]);
        assert_eq!((findings.corrupt, findings.is_damaged()), (2, true));
        let findings = noted(&[Inspected::Gap { offsets: 3.into()..6.into() }]);
        assert_eq!((findings.gaps, findings.missing, findings.is_damaged()), (1, 3, true));
        assert!(noted(&[Inspected::Misplaced { segment: Path::new("s"), pos: 0 }]).is_damaged());
    }
}
