//! The short way of a large request whose messages are all for one partition: they are committed to it, as one commit and
//! without the WAL before it. Beside so many bytes the WAL's shared fsync saves nothing, and each of them would be
//! written twice.
//!
//! Nothing overtakes what was acknowledged before it: where the WAL holds something for the partition that is not done, the
//! messages go to the WAL as well. So they do while the partition is slow: who is under way when it turns slow waits for it,
//! and nobody else.

use std::time::Duration;

use super::{Partitions, Staged, direct::commit};

/// Requests with fewer bytes of payload share the WAL's fsync.
const LEAST_BYTES: usize = 64 << 10;
/// A partition that is at a commit for longer is slow.
const PATIENCE: Duration = Duration::from_millis(50);

/// Commits the messages to their partition, all or none, if they are many bytes for one that `is_clear` of earlier
/// messages. Answers whether they are durable and visible; if not, nothing of them was kept.
pub(super) async fn try_commit(
    messages: &[Staged],
    partitions: &dyn Partitions,
    is_clear: impl FnOnce(&Staged) -> bool,
) -> bool {
    let bytes: usize = messages.iter().map(|message| message.payload.len()).sum();
    let Some(first) = of_one_partition(messages).filter(|_| bytes >= LEAST_BYTES) else { return false };
    if !is_clear(first) {
        return false;
    }
    let Some(log) = partitions.open_log(&first.topic, first.id, first.partition) else { return false };
    if log.committing_for().is_some_and(|time| time > PATIENCE) {
        return false;
    }
    // Whatever keeps the partition from it, the WAL takes the messages and the dispatcher meets the partition.
    commit(&log, messages).await.is_ok()
}

/// The first of messages that are all for one partition.
fn of_one_partition(messages: &[Staged]) -> Option<&Staged> {
    let first = messages.first()?;
    let is_there = |message: &Staged| {
        message.partition == first.partition && message.id == first.id && message.topic == first.topic
    };
    messages.iter().all(is_there).then_some(first)
}
