//! `narad log verify`: check every frame of every segment of a partition, a topic or a data directory.
//!
//! Damage is what was written and cannot be read back. A torn tail (a crash cut the last write short) and a frame
//! of an unregistered codec are reported, and are not damage.

use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use narad_core::{disk::OsDisk, plugin::CodecSet};
use serde::Serialize;

use super::{
    Entry, Unreadable, WalkError, registered,
    target::{self, Target},
    walk,
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
        is not registered are reported and are not damage."
)]
pub(in crate::cli) struct VerifyArgs {
    /// The directory of a partition, of a topic, or a whole data directory
    dir: PathBuf,
}

/// What a partition turned out to be.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
struct Findings {
    partition: String,
    segments: u64,
    /// Readable records.
    records: u64,
    /// Bytes of the segment files.
    bytes: u64,
    /// Runs of missing offsets.
    gaps: u64,
    /// Offsets in them.
    missing: u64,
    /// Records of damaged frames.
    corrupt: u64,
    /// Records of frames whose codec is not registered.
    unknown_codec: u64,
    torn_tail_bytes: u64,
    /// Why the partition could not be looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Findings {
    fn note(&mut self, entry: &Entry<'_>) {
        match *entry {
            Entry::Record { .. } => self.records += 1,
            Entry::Unreadable { why: Unreadable::Corrupt, .. } => self.corrupt += 1,
            Entry::Unreadable { why: Unreadable::UnknownCodec, .. } => self.unknown_codec += 1,
            Entry::Gap { from, to } => {
                self.gaps += 1;
                self.missing = self.missing.saturating_add(to.saturating_sub(from).saturating_add(1));
            }
        }
    }

    fn is_damaged(&self) -> bool {
        self.gaps > 0 || self.corrupt > 0
    }

    fn state(&self) -> String {
        match &self.error {
            Some(error) => format!("cannot look: {error}"),
            None if self.is_damaged() => "DAMAGED".to_owned(),
            None if self.unknown_codec > 0 => "ok, unknown codec".to_owned(),
            None if self.torn_tail_bytes > 0 => "ok, torn tail".to_owned(),
            None => "ok".to_owned(),
        }
    }

    fn row(&self) -> [String; 9] {
        [
            self.partition.clone(),
            self.segments.to_string(),
            self.records.to_string(),
            human_bytes(self.bytes),
            self.gaps.to_string(),
            self.corrupt.to_string(),
            self.unknown_codec.to_string(),
            human_bytes(self.torn_tail_bytes),
            self.state(),
        ]
    }
}

/// Carries the command out.
pub(super) fn run(args: &VerifyArgs, out: &mut Output) -> Result<Outcome, CliError> {
    let codecs = registered(&args.dir)?;
    let targets = target::find(&OsDisk, &args.dir)?;
    let bar = progress(targets.iter().flat_map(|target| &target.segments).map(|(_, bytes)| bytes).sum());
    let findings: Vec<Findings> = targets.iter().map(|target| check(target, &codecs, &bar)).collect();
    bar.finish_and_clear();
    report(&findings, out)?;
    if let Some(failed) = findings.iter().find(|findings| findings.error.is_some()) {
        out.flush()?;
        let reason = failed.error.clone().unwrap_or_default();
        return Err(CliError::CannotLook { dir: args.dir.join(&failed.partition), reason });
    }
    Ok(Outcome::of(!findings.iter().any(Findings::is_damaged)))
}

fn check(target: &Target, codecs: &CodecSet, bar: &ProgressBar) -> Findings {
    let bytes = target.segments.iter().map(|(_, bytes)| bytes).sum();
    let mut findings = Findings { partition: target.name.clone(), bytes, ..Findings::default() };
    bar.set_message(target.name.clone());
    let start = bar.position();
    let mut segments = Segments { target, current: 0, passed: 0 };
    let walked = walk(&target.dir, codecs, &mut |entry| {
        findings.note(&entry);
        if let Entry::Record { segment, .. } = entry {
            bar.set_position(start.saturating_add(segments.bytes_before(segment)));
        }
        Ok(())
    });
    bar.set_position(start.saturating_add(bytes));
    match walked {
        Ok(summary) => {
            findings.segments = summary.segments;
            findings.torn_tail_bytes = summary.torn_tail_bytes;
        }
        Err(WalkError::Look(error)) => findings.error = Some(error.to_string()),
        Err(WalkError::Visit(error)) => findings.error = Some(error.to_string()),
    }
    findings
}

/// How far a walk through a partition's segments has come.
struct Segments<'a> {
    target: &'a Target,
    current: usize,
    passed: u64,
}

impl Segments<'_> {
    /// Bytes of the segments before the one called `name`. Names come in order.
    fn bytes_before(&mut self, name: &str) -> u64 {
        while let Some((passed, bytes)) = self.target.segments.get(self.current)
            && passed.as_str() < name
        {
            self.passed = self.passed.saturating_add(*bytes);
            self.current += 1;
        }
        self.passed
    }
}

fn report(findings: &[Findings], out: &mut Output) -> Result<(), CliError> {
    if out.is_json() {
        return Ok(findings.iter().try_for_each(|findings| out.object(findings))?);
    }
    if findings.is_empty() {
        return Ok(out.line("no partitions")?);
    }
    let rows: Vec<[String; 9]> = findings.iter().map(Findings::row).collect();
    let names = [
        "PARTITION",
        "SEGMENTS",
        "RECORDS",
        "BYTES",
        "GAPS",
        "CORRUPT",
        "UNKNOWN CODEC",
        "TORN TAIL",
        "STATE",
    ];
    let numeric = [false, true, true, true, true, true, true, true, false];
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
    use super::*;

    #[test]
    fn only_what_is_lost_is_damage() {
        let unreadable = |why| Entry::Unreadable { offset: 1, why };
        let mut findings = Findings { torn_tail_bytes: 12, ..Findings::default() };
        assert_eq!(findings.state(), "ok, torn tail");
        findings.note(&unreadable(Unreadable::UnknownCodec));
        assert_eq!(findings.state(), "ok, unknown codec");
        assert!(!findings.is_damaged());
        let mut corrupt = findings.clone();
        corrupt.note(&unreadable(Unreadable::Corrupt));
        assert!(corrupt.is_damaged());
        findings.note(&Entry::Gap { from: 3, to: 5 });
        assert!(findings.is_damaged());
        assert_eq!((findings.gaps, findings.missing), (1, 3));
    }

    #[test]
    fn progress_follows_the_segments() {
        let segments = vec![("1.log".to_owned(), 10), ("2.log".to_owned(), 20), ("3.log".to_owned(), 5)];
        let target = Target { dir: PathBuf::new(), name: String::new(), segments };
        let mut segments = Segments { target: &target, current: 0, passed: 0 };
        let seen: Vec<u64> =
            ["1.log", "1.log", "3.log", "9.log"].map(|name| segments.bytes_before(name)).to_vec();
        assert_eq!(seen, [0, 0, 30, 35]);
    }
}
