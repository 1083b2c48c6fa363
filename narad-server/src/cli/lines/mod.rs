//! `narad pub --lines`: every line a message, many requests in flight, and an account of each that was not accepted.
//!
//! Memory is bounded by the requests in flight, not by the input; only failures are remembered.

mod failed;
mod report;
mod source;

use std::{pin::pin, time::Instant};

use bytes::Bytes;
use futures_util::{StreamExt, stream::FuturesUnordered};
use reqwest::StatusCode;
use tokio::sync::mpsc;

pub(super) use self::{
    failed::FailedFile,
    source::{Source, input_error},
};
use self::{
    report::{Progress, Stop, Tally},
    source::Line,
};
use super::{
    client::{Client, ClientError, Target},
    error::{CliError, Outcome},
    interrupted,
    output::Output,
    retry::Retry,
};

/// The largest message that `/v1` takes.
const MAX_MESSAGE: usize = 1 << 20;

/// How lines are published.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options {
    /// Requests in flight at once, ≥ 1.
    pub(super) in_flight: usize,
    /// Repetitions of a line that a busy server refused.
    pub(super) retries: u32,
}

/// A line after its last try.
struct Sent {
    number: u64,
    payload: Bytes,
    repeated: u32,
    /// Lines accepted before its first try.
    accepted_before: u64,
    result: Result<(), ClientError>,
}

/// Publishes each line of `source`, then says what became of them.
pub(super) async fn publish(
    client: &Client,
    target: &Target,
    source: Source,
    options: Options,
    mut failed: FailedFile,
    out: &mut Output,
) -> Result<Outcome, CliError> {
    let progress = Progress::new(source.len());
    let started = Instant::now();
    let lines = source.into_lines(options.in_flight);
    let mut tally = Tally::default();
    send_all(client, target, lines, options, &progress, &mut tally, &mut failed).await;
    progress.finish();
    tally.report(started.elapsed(), failed.path(), out)?;
    Ok(Outcome::of(tally.all_accepted()))
}

async fn send_all(
    client: &Client,
    target: &Target,
    mut lines: mpsc::Receiver<Line>,
    options: Options,
    progress: &Progress,
    tally: &mut Tally,
    failed: &mut FailedFile,
) {
    let mut interrupted = pin!(interrupted());
    let mut in_flight = FuturesUnordered::new();
    let mut reading = true;
    while reading || !in_flight.is_empty() {
        tokio::select! {
            biased;
            () = &mut interrupted, if reading => {
                tally.stop(Stop::Interrupted);
                reading = false;
            }
            Some(sent) = in_flight.next() => {
                settle(sent, progress, tally, failed);
                reading &= !tally.is_stopped();
            }
            line = lines.recv(), if reading && in_flight.len() < options.in_flight => match line {
                None => reading = false,
                Some(Line::Failed(error)) => {
                    tally.stop(Stop::Unreadable(error));
                    reading = false;
                }
                Some(Line::TooLong { number, bytes }) => {
                    tally.read_up_to(number);
                    tally.too_long(number, bytes);
                    progress.settled(bytes, tally.accepted());
                }
                Some(Line::Message { number, payload }) => {
                    tally.read_up_to(number);
                    if payload.is_empty() {
                        tally.empty();
                    } else {
                        // Before the server has answered once, an address where nobody listens is a mistake.
                        let retry = Retry { limit: options.retries, unreachable: tally.accepted() > 0, lost: false };
                        in_flight.push(send(client, target, number, payload, retry, tally.accepted()));
                    }
                }
            },
        }
    }
}

async fn send(
    client: &Client,
    target: &Target,
    number: u64,
    payload: Bytes,
    retry: Retry,
    accepted_before: u64,
) -> Sent {
    let (result, repeated) = retry.run(|| client.produce(target, payload.clone())).await;
    Sent { number, payload, repeated, accepted_before, result }
}

fn settle(sent: Sent, progress: &Progress, tally: &mut Tally, failed: &mut FailedFile) {
    tally.repeated(sent.repeated);
    match sent.result {
        Ok(()) => tally.accept(sent.payload.len()),
        Err(error) => {
            if concerns_every_line(&error) {
                tally.stop(Stop::Hopeless);
            } else if (error.is_busy() || error.is_unreachable()) && tally.accepted() == sent.accepted_before
            {
                tally.stop(Stop::NothingAccepted);
            }
            tally.fail(sent.number, &error);
            if let Err(error) = failed.keep(&sent.payload) {
                tally.stop(Stop::NotKept(error));
            }
        }
    }
    progress.settled(sent.payload.len() as u64, tally.accepted());
}

/// Whether the next line would be refused for the same reason.
fn concerns_every_line(error: &ClientError) -> bool {
    matches!(
        error.status(),
        Some(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND | StatusCode::CONFLICT)
    )
}
