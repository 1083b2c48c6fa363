//! Crashes: no message that was acknowledged is lost, whatever the disk had not written yet.

use std::{collections::HashSet, time::Duration};

use crate::support::{BOUND, Fake, ID, message, open, open_with, quick, runtime};
use narad_core::testkit::{SimDisk, Survival, seed};

const PARTITIONS: u32 = 3;

/// Everything that the partitions hold.
fn received(fake: &Fake) -> Vec<String> {
    (0..PARTITIONS).flat_map(|partition| fake.payloads("orders", ID, partition)).collect()
}

async fn produce_some(ingress: &narad_server::ingress::Ingress, round: u32, acknowledged: &mut Vec<String>) {
    let tasks: Vec<_> = (0..40u32)
        .map(|n| {
            let (ingress, text) = (ingress.clone(), format!("{round}-{n}"));
            tokio::spawn(async move {
                let answer = ingress.produce(vec![message(n % PARTITIONS, text.clone())]).await;
                answer.is_ok().then_some(text)
            })
        })
        .collect();
    for task in tasks {
        acknowledged.extend(task.await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_message_is_lost_by_crashes_at_any_moment() {
    for survival in [Survival::Nothing, Survival::Random, Survival::Everything] {
        let disk = SimDisk::new(seed());
        let mut acknowledged = Vec::new();
        for round in 0..6 {
            let (ingress, fake) = open(&disk, quick()).await;
            fake.set_unavailable(round % PARTITIONS, true);
            produce_some(&ingress, round, &mut acknowledged).await;
            // In one round the crash falls into whatever the dispatcher is doing, in the other it comes when
            // everything is done that can be, and the checkpoint is synced.
            if round % 2 == 1 {
                fake.wait_for_lookups(round % PARTITIONS, 4).await;
            }
            disk.power_loss_keeping(survival);
            drop(ingress);
        }
        let runtime = runtime(&disk);
        let fake = Fake::new(&runtime);
        let ingress = open_with(&runtime, &fake, quick()).await;
        ingress.close(BOUND).await;
        let there: HashSet<String> = received(&fake).into_iter().collect();
        assert_eq!(acknowledged.len(), 240);
        for text in &acknowledged {
            assert!(there.contains(text), "{text} was acknowledged and is lost");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_window_behind_the_last_checkpoint_comes_twice() {
    let disk = SimDisk::new(seed());
    let (ingress, fake) = open(&disk, quick()).await;
    ingress.produce((0..100).map(|n| message(0, format!("a{n}"))).collect()).await.unwrap();
    fake.wait_for("orders", ID, 0, 100).await;
    let written = || disk.contents(crate::support::CHECKPOINT).unwrap();
    crate::support::until("the checkpoint", || written() == 100u64.to_be_bytes()).await;
    drop(ingress);
    disk.crash_process();
    let (ingress, fake) = open(&disk, quick()).await;
    ingress.produce(vec![message(0, "b")]).await.unwrap();
    ingress.close(BOUND).await;
    assert_eq!(fake.payloads("orders", ID, 0).len(), 101);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_close_had_no_time_for_comes_after_the_next_start() {
    let disk = SimDisk::new(seed());
    let (ingress, fake) = open(&disk, quick()).await;
    fake.set_unavailable(0, true);
    ingress.produce(vec![message(0, "later"), message(1, "now")]).await.unwrap();
    fake.wait_for("orders", ID, 1, 1).await;
    ingress.close(Duration::from_millis(100)).await;
    assert!(received(&fake).iter().all(|text| text == "now"));
    disk.crash_process();
    let (ingress, fake) = open(&disk, quick()).await;
    ingress.close(BOUND).await;
    assert!(received(&fake).contains(&"later".to_owned()));
}
