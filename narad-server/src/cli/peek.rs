//! `narad sub --peek`: look at what waits, without leasing anything.
//!
//! Reads by replay from where the consumers of each partition are: the oldest message that is not acked comes first.
//! Messages that somebody has leased, or acked out of order, lie behind that and are shown too.

use std::collections::VecDeque;

use super::{
    client::{Client, Replayed, model::PartitionStats},
    error::{CliError, Outcome},
    gaps::Gaps,
    output::Output,
    retry::Retry,
    style::Style,
};

/// Messages shown unless told otherwise.
const DEFAULT_MAX: u64 = 10;

/// A partition on the way through it.
struct Place {
    partition: u32,
    next: u64,
    end: u64,
    gaps: Gaps,
}

impl Place {
    fn new(stats: &PartitionStats) -> Self {
        let oldest = stats.oldest_offset.unwrap_or(0);
        Self {
            partition: stats.index,
            // An older broker does not tell where its consumers are.
            next: stats.consumer_offset.unwrap_or(oldest).max(oldest),
            end: stats.high_watermark.unwrap_or(0),
            gaps: Gaps::default(),
        }
    }
}

/// Shows up to `max` messages, the partitions taking turns.
pub(super) async fn run(
    client: &Client,
    topic: &str,
    partition: Option<u32>,
    max: Option<u64>,
    style: Style,
    out: &mut Output,
) -> Result<Outcome, CliError> {
    let max = max.unwrap_or(DEFAULT_MAX);
    let stats = client.topic(topic, partition).await?.partition_stats;
    let mut places: VecDeque<Place> = stats.iter().map(Place::new).collect();
    let (mut shown, mut complete) = (0, true);
    while let (true, Some(mut place)) = (shown < max, places.pop_front()) {
        let found = if place.next < place.end {
            Retry::BUSY.run(|| client.replay(topic, place.partition, place.next)).await.0?
        } else {
            Replayed::End
        };
        match found {
            Replayed::End => place.gaps.tell(out),
            Replayed::Record(message) => {
                place.gaps.tell(out);
                style.write(&message, out)?;
                shown += 1;
                place.next += 1;
                places.push_back(place);
            }
            Replayed::Gone(why) => {
                complete = false;
                place.gaps.pass_over(place.next, why, out);
                place.next += 1;
                places.push_front(place);
            }
        }
    }
    places.iter_mut().for_each(|place| place.gaps.tell(out));
    if out.is_terminal() {
        out.remark(format_args!("{}, none of them leased", crate::size::counted(shown, "message")));
    }
    Ok(Outcome::of(complete))
}
