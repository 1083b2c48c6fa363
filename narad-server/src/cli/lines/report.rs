//! The account of a bulk publish: what was accepted, what was not and why, and the bar meanwhile.

use std::{collections::BTreeMap, path::Path, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::MAX_MESSAGE;
use crate::cli::{
    client::ClientError,
    error::CliError,
    output::{Output, human_bytes},
};

/// Why no further line is sent.
#[derive(Debug)]
pub(super) enum Stop {
    /// Somebody pressed Ctrl-C.
    Interrupted,
    /// The input broke off.
    Unreadable(CliError),
    /// A failed line could not be kept for another try.
    NotKept(CliError),
    /// A refusal that every further line would meet too.
    Hopeless,
    /// A line ran out of tries, and none was accepted since its first.
    NothingAccepted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Fate {
    /// It was certainly not accepted.
    Refused,
    /// It may have been.
    Unknown,
}

#[derive(Debug, PartialEq, Eq)]
struct Failure {
    fate: Fate,
    reason: String,
}

/// What became of the lines so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    accepted: u64,
    bytes: u64,
    empty: u64,
    retries: u64,
    last_read: u64,
    failures: BTreeMap<u64, Failure>,
    stop: Option<Stop>,
}

#[derive(Serialize)]
struct FailedLine<'a> {
    line: u64,
    outcome: Fate,
    error: &'a str,
}

#[derive(Serialize)]
struct Summary {
    accepted: u64,
    failed: u64,
    unknown: u64,
    empty: u64,
    retries: u64,
    bytes: u64,
    seconds: f64,
    per_second: f64,
    /// Lines from this one on were not sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped_at_line: Option<u64>,
    /// Every line before this one was accepted or is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_not_accepted: Option<u64>,
}

impl Tally {
    /// Lines accepted.
    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Whether every line that holds a message was accepted.
    pub(super) fn all_accepted(&self) -> bool {
        self.failures.is_empty() && self.stop.is_none()
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_some()
    }

    /// Notes why no more is sent; the first reason counts.
    pub(super) fn stop(&mut self, reason: Stop) {
        self.stop.get_or_insert(reason);
    }

    pub(super) fn read_up_to(&mut self, number: u64) {
        self.last_read = number;
    }

    pub(super) fn accept(&mut self, bytes: usize) {
        self.accepted += 1;
        self.bytes += bytes as u64;
    }

    pub(super) fn empty(&mut self) {
        self.empty += 1;
    }

    pub(super) fn repeated(&mut self, times: u32) {
        self.retries += u64::from(times);
    }

    pub(super) fn fail(&mut self, number: u64, error: &ClientError) {
        let fate = if error.outcome_is_unknown() { Fate::Unknown } else { Fate::Refused };
        self.failures.insert(number, Failure { fate, reason: error.to_string() });
    }

    pub(super) fn too_long(&mut self, number: u64, bytes: u64) {
        let reason = format!("{bytes} bytes; a message has at most {MAX_MESSAGE}");
        self.failures.insert(number, Failure { fate: Fate::Refused, reason });
    }

    /// Writes the failures and the summary; `kept` is the file that has the failed lines.
    pub(super) fn report(
        &self,
        took: Duration,
        kept: Option<&Path>,
        out: &mut Output,
    ) -> Result<(), CliError> {
        let summary = self.summary(took);
        if out.is_json() {
            for (&line, failure) in &self.failures {
                out.object(&FailedLine { line, outcome: failure.fate, error: &failure.reason })?;
            }
            out.object(&summary)?;
        } else {
            for (first, last, failure) in self.runs() {
                let lines =
                    if first == last { format!("line {first}") } else { format!("lines {first}-{last}") };
                let fate = if failure.fate == Fate::Unknown { "unknown" } else { "not accepted" };
                out.complain(format_args!("{lines}: {fate}: {}", failure.reason));
            }
            out.line(summary.text())?;
        }
        if let (Some(stop), Some(line), Some(first)) =
            (&self.stop, summary.stopped_at_line, summary.first_not_accepted)
        {
            let why = match stop {
                Stop::Interrupted => "interrupted".to_owned(),
                Stop::Unreadable(error) | Stop::NotKept(error) => error.to_string(),
                Stop::Hopeless => "every further line would be refused too".to_owned(),
                Stop::NothingAccepted => "the broker accepts nothing any more".to_owned(),
            };
            let mut advice = format!(
                "stopped: {why}; nothing from line {line} on was sent, and line {first} is the first that was not \
                 accepted: `tail -n +{first} FILE | narad pub TOPIC --lines -` sends again from there, which may \
                 repeat lines that were accepted"
            );
            if let (Some(kept), false) = (kept, matches!(stop, Stop::NotKept(_))) {
                advice.push_str(&format!(
                    "; or send what {} keeps, and then the rest from line {line} on",
                    kept.display()
                ));
            }
            out.complain(advice);
        }
        Ok(())
    }

    /// Neighbouring lines that failed for the same reason, as `(first, last, failure)`.
    fn runs(&self) -> Vec<(u64, u64, &Failure)> {
        let mut runs: Vec<(u64, u64, &Failure)> = Vec::new();
        for (&number, failure) in &self.failures {
            match runs.last_mut() {
                Some((_, last, same)) if *last + 1 == number && *same == failure => *last = number,
                _ => runs.push((number, number, failure)),
            }
        }
        runs
    }

    fn summary(&self, took: Duration) -> Summary {
        let seconds = took.as_secs_f64();
        let stopped_at_line = self.stop.is_some().then(|| self.last_read.saturating_add(1));
        let first_failure = self.failures.keys().next().copied();
        let unknown = self.failures.values().filter(|failure| failure.fate == Fate::Unknown).count() as u64;
        Summary {
            accepted: self.accepted,
            failed: self.failures.len() as u64,
            unknown,
            empty: self.empty,
            retries: self.retries,
            bytes: self.bytes,
            seconds,
            per_second: if seconds > 0.0 { self.accepted as f64 / seconds } else { 0.0 },
            stopped_at_line,
            first_not_accepted: first_failure.into_iter().chain(stopped_at_line).min(),
        }
    }
}

impl Summary {
    fn text(&self) -> String {
        let unknown = match self.failed {
            0 => String::new(),
            _ => format!(" ({} of them unknown: they may have been accepted)", self.unknown),
        };
        let mut text = format!(
            "{} accepted, {} failed{unknown} in {:.1} s: {:.0} messages/s, {} in all",
            self.accepted,
            self.failed,
            self.seconds,
            self.per_second,
            human_bytes(self.bytes)
        );
        for (count, what) in [(self.empty, "empty lines left out"), (self.retries, "tries repeated")] {
            if count > 0 {
                text.push_str(&format!("; {count} {what}"));
            }
        }
        text
    }
}

/// A progress bar on standard error; nothing when that is not a terminal.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// Of an input of `len` bytes, if that is known.
    pub(super) fn new(len: Option<u64>) -> Self {
        let (bar, template) = match len {
            Some(len) => {
                (ProgressBar::new(len), "{bar:30} {percent:>3} %  {msg}  {binary_bytes_per_sec}  {eta} left")
            }
            None => (ProgressBar::new_spinner(), "{spinner} {msg}  {binary_bytes}  {binary_bytes_per_sec}"),
        };
        // A template that does not parse would cost the looks, not the messages.
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(bar.with_style(style))
    }

    /// A line of `bytes` bytes is done with; `accepted` lines are by now.
    pub(super) fn settled(&self, bytes: u64, accepted: u64) {
        self.0.inc(bytes.saturating_add(1));
        if !self.0.is_hidden() {
            self.0.set_message(format!("{accepted} accepted"));
        }
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(message: &str) -> ClientError {
        ClientError::Refused {
            status: reqwest::StatusCode::BAD_REQUEST,
            message: message.into(),
            retry_after: None,
        }
    }

    #[test]
    fn neighbours_with_one_reason_share_a_line() {
        let mut tally = Tally::default();
        for number in [4, 2, 3, 6] {
            tally.fail(number, &refused("no"));
        }
        tally.fail(5, &refused("other"));
        let runs: Vec<_> = tally.runs().iter().map(|(first, last, _)| (*first, *last)).collect();
        assert_eq!(runs, [(2, 4), (5, 5), (6, 6)]);
        assert!(!tally.all_accepted());
    }

    #[test]
    fn the_summary_tells_lost_answers_from_refusals() {
        let mut tally = Tally::default();
        tally.accept(10);
        tally.fail(2, &refused("no"));
        tally.fail(3, &ClientError::Lost { server: "s".into(), reason: "reset".into() });
        let summary = tally.summary(Duration::from_secs(2));
        assert!(summary.text().contains("2 failed (1 of them unknown"), "{}", summary.text());
        let summary = serde_json::to_value(summary).unwrap();
        assert_eq!(
            summary,
            serde_json::json!({"accepted":1,"failed":2,"unknown":1,"empty":0,"retries":0,"bytes":10,
                               "seconds":2.0,"per_second":0.5,"first_not_accepted":2})
        );
    }

    #[test]
    fn a_stop_names_the_first_line_that_was_not_accepted() {
        let first = |failures: &[u64]| {
            let mut tally = Tally::default();
            tally.read_up_to(70);
            failures.iter().for_each(|number| tally.fail(*number, &refused("no")));
            tally.stop(Stop::Interrupted);
            let summary = tally.summary(Duration::ZERO);
            (summary.first_not_accepted, summary.stopped_at_line)
        };
        assert_eq!(first(&[9, 70]), (Some(9), Some(71)), "not where it stopped");
        assert_eq!(first(&[]), (Some(71), Some(71)));
    }
}
