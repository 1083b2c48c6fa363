//! Ack, extend, release and the end of a lease in the same moment, by a clock that stands still until it is moved: never
//! two holders, never none.
//!
//! `NARAD_ROUNDS` says how many rounds there are (1000).

use std::{sync::Arc, time::Duration};

use crate::support::{Bed, ID, text, wait};
use narad_core::testkit::{ManualClock, SeedGuard, SimDisk, seed};
use narad_server::queue::{Delivery, QueueError, Settle};
use rand::{RngExt, SeedableRng, rngs::StdRng};

const LEASE: Duration = Duration::from_millis(100);
const TICK: Duration = Duration::from_nanos(1);

fn rounds() -> u64 {
    std::env::var("NARAD_ROUNDS").map_or(1000, |text| text.parse().expect("NARAD_ROUNDS"))
}

/// Everything in the same moment: the holder does something, the clock passes the end of the lease, somebody looks.
async fn at_the_edge(
    bed: &Bed,
    clock: &ManualClock,
    held: Delivery,
    how: Settle,
    random: &mut StdRng,
) -> (bool, Option<Delivery>) {
    let moves = random.random_range(0..3);
    let order: u32 = random.random();
    let settling = {
        let bed = bed.clone();
        async move { bed.settle(&held, how).await }
    };
    let moving = {
        let clock = clock.clone();
        async move { (0..moves).for_each(|_| clock.advance(TICK)) }
    };
    let looking = {
        let bed = bed.clone();
        async move { bed.consume(wait(Duration::ZERO)).await.unwrap().pop() }
    };
    // Whoever is started first has a better chance.
    let (settled, seen);
    if order & 1 == 0 {
        let settling = tokio::spawn(settling);
        let (moving, looking) = (tokio::spawn(moving), tokio::spawn(looking));
        (settled, seen) = (settling.await.unwrap(), looking.await.unwrap());
        moving.await.unwrap();
    } else {
        let (looking, moving) = (tokio::spawn(looking), tokio::spawn(moving));
        let settling = tokio::spawn(settling);
        (settled, seen) = (settling.await.unwrap(), looking.await.unwrap());
        moving.await.unwrap();
    }
    assert!(matches!(settled, Ok(()) | Err(QueueError::Gone)));
    (settled.is_ok(), seen)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn at_the_edge_of_a_lease_a_message_has_one_holder() {
    let seed = SeedGuard::new(seed());
    let mut random = StdRng::seed_from_u64(seed.get());
    let clock = ManualClock::new();
    let mut bed = Bed::open_with(&SimDisk::new(seed.get()), ID, 64 << 20, Arc::new(clock.clone()));
    bed.topic.visibility = LEASE;
    let mut outcomes = std::collections::BTreeMap::new();
    for round in 0..rounds() {
        let how = [Settle::Ack, Settle::Extend, Settle::Release][usize::try_from(round % 3).unwrap()];
        bed.put(0, &[&round.to_string()]);
        let held = bed.next().await;
        assert_eq!(text(&held), round.to_string());
        clock.advance(LEASE - TICK);
        let (settled, seen) = at_the_edge(&bed, &clock, held.clone(), how, &mut random).await;
        *outcomes.entry((format!("{how:?}"), settled, seen.is_some())).or_insert(0) += 1;
        let seen = match (how, settled) {
            (Settle::Ack, true) => {
                assert!(seen.is_none(), "round {round}: it is done, and somebody was given it");
                assert!(bed.now().await.is_none(), "round {round}");
                assert_eq!(bed.frontier(0), Some(round));
                continue;
            }
            (Settle::Extend, true) => {
                assert!(seen.is_none(), "round {round}: it is held, and somebody else was given it");
                assert!(bed.now().await.is_none(), "round {round}: held by one");
                clock.advance(LEASE + 3 * TICK);
                None
            }
            _ => seen,
        };
        // Given back or expired: whoever looks gets it, once.
        if !settled {
            clock.advance(TICK);
        }
        let next = match seen {
            Some(seen) => seen,
            None => bed.next().await,
        };
        assert_eq!(text(&next), round.to_string());
        assert!(bed.now().await.is_none(), "round {round}: held by one");
        assert!(matches!(bed.settle(&held, Settle::Ack).await, Err(QueueError::Gone)), "round {round}");
        bed.ack(&next).await;
        assert_eq!(bed.frontier(0), Some(round));
    }
    eprintln!("settled, seen by another at once: {outcomes:?}");
}
