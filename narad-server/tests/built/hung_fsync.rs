//! The built binary on a disk that hangs in an fsync: health answers, what does not need that fsync is served, and
//! readiness names the log that waits.
//!
//! Needs strace and the permission to trace; where one is missing the tests say so and are skipped.

use std::{process::Command, time::Duration};

use crate::real_broker::{Attached, Broker, Client, can_trace};
use tokio::time::{Instant, timeout};

/// What answers at once answers within this even on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(2);
/// The delay of the one fsync, as strace is told it; readiness takes 3 s to find that odd.
const DELAY: &str = "fdatasync:delay_enter=8s:when=1";

/// Asks for health, metrics and messages until readiness says `expected`, or is silent about it for too long.
async fn served_until_named(client: &Client, expected: &str) {
    let begin = Instant::now();
    loop {
        let ask = async |path: &str| {
            let answer = timeout(AT_ONCE, client.get(path)).await;
            answer.unwrap_or_else(|_| panic!("{path} hangs")).status
        };
        assert_eq!(ask("/healthz").await, 200);
        assert_eq!(ask("/metrics").await, 200);
        assert_eq!(ask("/v1/topics/t").await, 200);
        assert_eq!(ask("/v1/topics/t/consume?partition=1&offset=0").await, 200);
        let leased = ask("/v1/topics/t/consume?partition=2").await;
        assert!([200, 204].contains(&leased), "consume answered {leased}");
        let ready = timeout(AT_ONCE, client.get("/readyz")).await.expect("/readyz hangs");
        assert_eq!(ready.status, 200);
        if ready.body.contains(expected) {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(7), "readiness does not say {expected:?}: {ready:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A broker with a message in each partition; `through_log`: whose produce log takes every message.
async fn written(through_log: bool) -> (tempfile::TempDir, Broker, Client) {
    let dir = tempfile::tempdir().unwrap();
    let broker = if through_log {
        Broker::start_through_log(dir.path()).await
    } else {
        Broker::start(dir.path()).await
    };
    broker.create_topic("t").await;
    let client = broker.client("t");
    for partition in 0..3 {
        assert_eq!(client.produce(&format!("?partition={partition}"), "before").await.status, 202);
    }
    client.settled().await;
    (dir, broker, client)
}

async fn not_degraded(client: &Client) {
    let ready = client.get("/readyz").await;
    assert!(!ready.body.contains("degraded"), "{ready:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_produce_log_hangs_reads_are_served_and_readiness_names_it() {
    if !can_trace() {
        return;
    }
    let (dir, broker, client) = written(true).await;
    let wal = dir.path().join("ingress/produce/00000000000000000000.log");
    let attached = Attached::to(&broker, &[DELAY], &[wal]);
    let producer = client.clone();
    let produced = tokio::spawn(async move { producer.produce("?partition=0", "slow").await });
    served_until_named(&client, "produce log: a commit has waited").await;
    assert!(!produced.is_finished(), "no 202 before the fsync");
    assert_eq!(produced.await.unwrap().status, 202);
    attached.has_injected().await;
    not_degraded(&client).await;
    assert!(broker.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_partition_hangs_the_others_are_served_and_readiness_names_it() {
    if !can_trace() {
        return;
    }
    let (dir, broker, client) = written(false).await;
    let partition = dir.path().join("topics/t/p00000/00000000000000000000.log");
    let attached = Attached::to(&broker, &[DELAY], &[partition]);
    for partition in 0..3 {
        let answer = timeout(AT_ONCE, client.produce(&format!("?partition={partition}"), "after")).await;
        assert_eq!(answer.expect("produce does not wait for a partition").status, 202);
    }
    broker.create_topic("other").await;
    let other = broker.client("other");
    assert_eq!(timeout(AT_ONCE, other.produce("", "there")).await.unwrap().status, 202);
    assert_eq!(timeout(AT_ONCE, other.consume("?wait=2s")).await.unwrap().status, 200);
    served_until_named(&client, "t/0: a commit has waited").await;
    assert_eq!(client.replay(1, 0).await.len(), 2, "the other partitions take messages");
    assert_eq!(client.replay(0, 0).await.len(), 1, "what is not synced is not shown");
    client.settled().await;
    attached.has_injected().await;
    assert_eq!(client.replay(0, 0).await.len(), 2);
    not_degraded(&client).await;
    assert!(broker.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_partitions_of_many_topics_hang_health_answers_and_messages_are_taken() {
    const TOPICS: usize = 8;
    if !can_trace() {
        return;
    }
    let (dir, broker, client) = written(false).await;
    let (mut topics, mut paths) = (Vec::new(), Vec::new());
    for n in 0..TOPICS {
        let name = format!("hung{n}");
        broker.create_topic(&name).await;
        topics.push(broker.client(&name));
        for partition in 0..3 {
            assert_eq!(topics[n].produce(&format!("?partition={partition}"), "before").await.status, 202);
            let partition = format!("topics/{name}/p0000{partition}");
            paths.push(dir.path().join(partition).join("00000000000000000000.log"));
        }
    }
    client.settled().await;
    let attached = Attached::to(&broker, &["fdatasync:delay_enter=6s"], &paths);
    for topic in &topics {
        for partition in 0..3 {
            let taken = timeout(AT_ONCE, topic.produce(&format!("?partition={partition}"), "after")).await;
            assert_eq!(taken.expect("produce does not wait for partitions").status, 202);
        }
    }
    served_until_named(&client, "hung0/0: a commit has waited").await;
    drop(attached);
    client.settled().await;
    for topic in &topics {
        for partition in 0..3 {
            let payloads: Vec<_> =
                topic.replay(partition, 0).await.into_iter().map(|(_, payload)| payload).collect();
            assert_eq!(payloads, [Some("before".to_owned()), Some("after".to_owned())]);
        }
    }
    not_degraded(&client).await;
    assert!(broker.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_whose_disk_hangs_ends_within_its_grace_and_loses_nothing() {
    if !can_trace() {
        return;
    }
    let (dir, broker, client) = written(true).await;
    let attached = Attached::to(&broker, &["fdatasync:delay_enter=60s"], &[]);
    let producer = client.clone();
    let produced = tokio::spawn(async move { producer.try_produce("?partition=0", "hanging").await });
    served_until_named(&client, "produce log: a commit has waited").await;
    let begin = Instant::now();
    assert!(Command::new("kill").arg(broker.pid().to_string()).status().unwrap().success());
    while !has_exited(broker.pid()) {
        assert!(begin.elapsed() < Duration::from_secs(13), "http.shutdown_grace is 10 s");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_ne!(produced.await.unwrap(), Some(202), "no 202 before the fsync");
    drop(attached);
    broker.terminate().await;

    let broker = Broker::start(dir.path()).await;
    let client = broker.client("t");
    client.settled().await;
    for partition in 0..3 {
        let found = client.replay(partition, 0).await;
        assert_eq!(found[0], (0, Some("before".to_owned())));
        // What nobody promised may be there.
        assert!(
            found.len() <= 2
                && found.iter().skip(1).all(|(_, payload)| payload.as_deref() == Some("hanging"))
        );
    }
    assert!(broker.terminate().await.success());
}

/// Whether the process has called exit: strace keeps the threads that it delays, so that it cannot be waited for.
fn has_exited(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.starts_with('Z')
}
