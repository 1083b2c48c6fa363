//! Retention by what is settled never takes what a child has not got.

use std::{sync::Arc, time::Duration};

use crate::support::{Bed, CHILDREN, PARENT, disk, link, settle};
use narad_core::{
    format::Offset,
    plugin::{PartitionId, RetentionDecision, RetentionPolicy, RetentionView},
    store::{ConsumerPosition, Followed, Followers},
    testkit::seed,
};
use narad_server::fanout::NotKnownYet;

const MINUTE: Duration = Duration::from_secs(60);
const PARTITION: PartitionId = PartitionId(0);

/// Takes what everybody has settled.
#[derive(Debug)]
struct Settled;

impl RetentionPolicy for Settled {
    fn name(&self) -> &str {
        "settled"
    }
    fn roll_age(&self) -> Option<Duration> {
        None
    }
    fn decide(&self, view: &RetentionView<'_>) -> RetentionDecision {
        let settled = |end| view.frontier.is_some_and(|frontier| end <= frontier.saturating_add(1));
        let expire = view.segments.iter().take_while(|segment| settled(segment.end)).count();
        RetentionDecision::expire(expire, "settled")
    }
}

fn followed(bed: &Bed) -> Followed {
    bed.fanout.followers().followed(PARENT, bed.spec(PARENT).incarnation, PARTITION)
}

fn below(offset: u64) -> Followed {
    Followed::Below(Offset::new(offset).unwrap())
}

#[tokio::test(start_paused = true)]
async fn the_slowest_child_counts_and_what_is_not_known_is_said_so() {
    let (disk, clock) = disk(seed());
    let bed = Bed::open(&disk, &clock);
    let parent = bed.spec(PARENT).incarnation;
    assert_eq!(NotKnownYet.followed(PARENT, parent, PARTITION), Followed::Unknown);
    assert_eq!(followed(&bed), Followed::Unknown, "nobody has said what is linked");
    bed.link(&[]).await;
    assert_eq!(followed(&bed), Followed::ByNobody);

    bed.produce(0, &["a", "b"]);
    bed.link(&[link(CHILDREN[0], 1, Duration::ZERO), link(CHILDREN[1], 2, MINUTE)]).await;
    assert_eq!(followed(&bed), Followed::Unknown, "no cursor was read yet");
    settle().await;
    assert_eq!(followed(&bed), below(0), "the second child gets nothing for a minute");
    clock.advance(MINUTE);
    bed.produce(0, &["c"]);
    settle().await;
    assert_eq!(followed(&bed), below(2));

    let linking = bed.fanout.linking(parent);
    let another = bed.fanout.linking(parent);
    drop(linking);
    assert_eq!(followed(&bed), Followed::Unknown, "a child is being attached");
    drop(another);
    bed.fanout.forget_certainty();
    assert_eq!(followed(&bed), Followed::Unknown);
    bed.link(&[link(CHILDREN[0], 1, Duration::ZERO)]).await;
    assert_eq!(followed(&bed), below(3), "a child that was detached is waited for no longer");
    let followers = bed.fanout.followers();
    bed.close().await;
    assert_eq!(followers.followed(PARENT, parent, PARTITION), Followed::Unknown);
}

#[tokio::test(start_paused = true)]
async fn what_consumers_have_settled_waits_for_a_child_that_refuses_and_for_one_that_is_delayed() {
    let (disk, clock) = disk(seed());
    let bed = Bed::open(&disk, &clock);
    bed.store.set_followers(bed.fanout.followers());
    bed.link(&[link(CHILDREN[0], 1, Duration::ZERO), link(CHILDREN[1], 2, 10 * MINUTE)]).await;
    bed.store.set_retention(PARENT, Arc::new(Settled));
    let long = "a message that fills a segment".repeat(20);
    bed.codecs[0].refuses.store(true, std::sync::atomic::Ordering::SeqCst);
    bed.produce(0, &[long.as_str(); 4]);
    bed.store.set_retention(PARENT, Arc::new(Settled));
    let position = ConsumerPosition { frontier: Offset::new(3), acked: Vec::new() };
    bed.store.record_position(&bed.spec(PARENT), PARTITION, position);
    let sweep = || {
        clock.advance(MINUTE + Duration::from_secs(1));
        bed.store.tick();
        bed.log(PARENT, 0).oldest_offset().get()
    };
    settle().await;
    assert_eq!(sweep(), 0, "neither child has anything");
    bed.codecs[0].refuses.store(false, std::sync::atomic::Ordering::SeqCst);
    tokio::time::sleep(MINUTE).await;
    assert_eq!((sweep(), bed.payloads(CHILDREN[0], 0).len()), (0, 4), "one has all, the other nothing");
    clock.advance(10 * MINUTE);
    tokio::time::sleep(MINUTE).await;
    assert_eq!((sweep(), bed.payloads(CHILDREN[1], 0).len()), (4, 4));
    assert_eq!(bed.fanout.stats().await.iter().map(|stats| stats.dropped).sum::<u64>(), 0);
    bed.close().await;
}
