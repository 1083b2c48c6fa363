//! The built binary on a real file system whose system calls fail from outside: every 202 is there with its bytes,
//! nothing refused is there twice, every answer is one of the contract's, and when the calls work again so does the
//! broker.
//!
//! Needs strace and the permission to trace; where one is missing the tests say so and are skipped.

use std::{path::Path, sync::Arc, time::Duration};

use crate::real_broker::{Attached, Broker, Client, Ledger, can_trace, reason};
use serde_json::Value;
use tokio::{sync::Semaphore, task::JoinSet};

const WAL: &str = "ingress/produce/00000000000000000000.log";
const WAL_HWM: &str = "ingress/produce/hwm";
const CHECKPOINT: &str = "ingress/produce/checkpoint";
const PARTITION: &str = "topics/t/p00000/00000000000000000000.log";
const PARTITION_HWM: &str = "topics/t/p00000/hwm";
const AHEAD: &str = "topics/t/p00000/consumer.ahead";
const META: &str = "meta/meta.redb";
const PARTITIONS: u32 = 3;
/// Brokers that run at once: most of a case is waiting.
const AT_ONCE: usize = 6;
/// Longer than a reopen waits, twice.
const HEALING: Duration = Duration::from_secs(15);

/// Calls that fail while the broker runs.
struct Fault {
    inject: &'static [&'static str],
    /// Relative to the data directory; the calls on these fail.
    paths: &'static [&'static str],
    produces: Produces,
}

/// What producers are answered while calls fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Produces {
    /// 202, all of them.
    GoOn,
    /// A refusal at least once, with this status each time.
    Refused(u16),
    /// Perhaps a refusal, with this status: which thread's calls are counted is not known.
    MayBeRefused(u16),
}

impl Produces {
    fn allows(self, status: u16) -> bool {
        match self {
            Self::GoOn => false,
            Self::Refused(expected) | Self::MayBeRefused(expected) => status == expected,
        }
    }
}

/// How a broker ends whose calls fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    /// The calls work again first, and everything heals.
    Healed,
    /// SIGTERM while they fail.
    Terminated,
    /// `kill -9` while they fail.
    Killed,
}

const fn fault(inject: &'static [&'static str], paths: &'static [&'static str], produces: Produces) -> Fault {
    Fault { inject, paths, produces }
}

const REFUSED: Produces = Produces::Refused(500);
const FULL: Produces = Produces::Refused(503);
/// No descriptors: that passes.
const PASSING: Produces = Produces::Refused(503);

const WAL_FAULTS: &[Fault] = &[
    fault(&["fdatasync:error=EIO"], &[WAL], REFUSED),
    fault(&["fdatasync:error=EIO:when=1"], &[WAL], REFUSED),
    fault(&["fdatasync:error=EIO:when=2+3"], &[WAL], Produces::MayBeRefused(500)),
    fault(&["pwrite64:error=EIO"], &[WAL], REFUSED),
    fault(&["pwrite64:error=ENOSPC"], &[WAL], FULL),
    fault(&["pwrite64:error=ENOSPC:when=2+2"], &[WAL], Produces::MayBeRefused(503)),
    fault(&["pwrite64:retval=0"], &[WAL], REFUSED),
    fault(&["pread64:error=EIO:when=1"], &[WAL], REFUSED),
    fault(&["pwrite64:error=ENOSPC", "ftruncate:error=EIO"], &[WAL], REFUSED),
    fault(&["pread64:error=EIO", "ftruncate:error=EIO"], &[WAL], REFUSED),
    fault(&["fdatasync:error=EIO", "ftruncate:error=EIO"], &[WAL], REFUSED),
    fault(&["ftruncate:error=EIO"], &[WAL_HWM], REFUSED),
    fault(&["fdatasync:error=EIO"], &[WAL_HWM], REFUSED),
    fault(&["openat:error=EMFILE"], &[WAL_HWM], PASSING),
    fault(&["openat:error=EIO:when=1"], &[WAL_HWM], REFUSED),
];

const OTHER_FAULTS: &[Fault] = &[
    fault(&["fdatasync:error=EIO"], &[PARTITION], Produces::GoOn),
    fault(&["fdatasync:error=EIO:when=1"], &[PARTITION], Produces::GoOn),
    fault(&["pwrite64:error=EIO"], &[PARTITION], Produces::GoOn),
    fault(&["pwrite64:error=ENOSPC"], &[PARTITION], Produces::GoOn),
    fault(&["pread64:error=EIO"], &[PARTITION], Produces::GoOn),
    fault(&["pread64:error=EIO:when=1"], &[PARTITION], Produces::GoOn),
    fault(&["pread64:error=EIO", "ftruncate:error=EIO"], &[PARTITION], Produces::GoOn),
    fault(&["ftruncate:error=EIO"], &[PARTITION_HWM], Produces::GoOn),
    fault(&["openat:error=EACCES"], &[PARTITION_HWM], Produces::GoOn),
    fault(&["fdatasync:error=EIO"], &[CHECKPOINT], Produces::GoOn),
    fault(&["pwrite64:error=ENOSPC"], &[CHECKPOINT], Produces::GoOn),
    fault(&["pwrite64:error=EIO", "openat:error=EMFILE"], &[CHECKPOINT], Produces::GoOn),
    fault(&["pwrite64:error=EIO"], &[AHEAD], Produces::GoOn),
    fault(&["fdatasync:error=EIO"], &[AHEAD], Produces::GoOn),
    fault(&["openat:error=EACCES"], &[AHEAD], Produces::GoOn),
    fault(&["fdatasync:error=EIO", "pwrite64:error=EIO"], &[META], Produces::GoOn),
    fault(&["fdatasync:error=EIO:when=1"], &[META], Produces::GoOn),
    fault(&["pwrite64:error=ENOSPC"], &[META], Produces::GoOn),
    fault(&["fsync:error=EIO"], &["topics", "topics/made", "topics/made/p00000"], Produces::GoOn),
    fault(&["mkdir:error=EACCES"], &["topics/made"], Produces::GoOn),
    fault(&["mkdir:error=ENOSPC"], &["topics/made/p00000"], Produces::GoOn),
    fault(&["openat:error=EMFILE"], &["topics/made/incarnation"], Produces::GoOn),
    fault(&["openat:error=EROFS"], &["topics/made/p00000/00000000000000000000.log"], Produces::GoOn),
];

/// Wherever they go.
const FAULTS_EVERYWHERE: &[Fault] = &[
    fault(&["fdatasync:error=EIO"], &[], REFUSED),
    fault(&["fdatasync:error=EIO", "fsync:error=EIO", "ftruncate:error=EIO"], &[], REFUSED),
    fault(&["fdatasync:delay_enter=200ms"], &[], Produces::GoOn),
    fault(&["pwrite64:error=EIO"], &[], REFUSED),
    fault(&["pwrite64:error=ENOSPC"], &[], FULL),
    fault(&["pwrite64:error=EDQUOT"], &[], FULL),
    fault(&["pwrite64:error=ENOSPC", "ftruncate:error=EIO", "fdatasync:error=EIO"], &[], REFUSED),
    fault(&["pread64:error=EIO"], &[], REFUSED),
    fault(&["openat:error=EMFILE"], &[], PASSING),
    fault(&["openat:error=EACCES", "mkdir:error=EROFS", "rename:error=EROFS"], &[], REFUSED),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_fail_everywhere() {
    run_all(FAULTS_EVERYWHERE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_on_the_produce_log_fail() {
    run_all(WAL_FAULTS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_on_partitions_positions_and_metadata_fail() {
    run_all(OTHER_FAULTS).await;
}

async fn run_all(faults: &'static [Fault]) {
    if !can_trace() {
        return;
    }
    let (room, mut cases) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
    for fault in faults {
        for ending in [Ending::Healed, Ending::Terminated, Ending::Killed] {
            let room = Arc::clone(&room);
            cases.spawn(async move {
                let _place = room.acquire_owned().await.unwrap();
                let case = format!("{:?} on {:?}, {ending:?}", fault.inject, fault.paths);
                let run = tokio::spawn(run(fault, ending)).await;
                run.map_err(|panic| (case, panic))
            });
        }
    }
    let mut failed = Vec::new();
    while let Some(outcome) = cases.join_next().await {
        if let Err((case, panic)) = outcome.unwrap() {
            failed.push(format!("{case}: {}", reason(panic)));
        }
    }
    assert!(failed.is_empty(), "{} cases:\n{}", failed.len(), failed.join("\n"));
}

async fn run(fault: &Fault, ending: Ending) {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::default();
    let mut broker = written(dir.path(), &mut ledger).await;
    let client = broker.client("t");

    let paths: Vec<_> = fault.paths.iter().map(|path| dir.path().join(path)).collect();
    let attached = Attached::to(&broker, fault.inject, &paths);
    produce_while_failing(&client, &mut ledger, fault.produces).await;
    consume_while_failing(&client, &mut ledger).await;
    let mut made = Made::while_failing(&broker).await;
    attached.has_injected().await;

    // A process death can bring back once what was refused, and repeats what was under way.
    let (mut accepted_at_most, mut refused_at_most) = (1, 0);
    match ending {
        Ending::Healed => {
            drop(attached);
            for partition in 0..PARTITIONS {
                let payload = format!("healed {partition}");
                client.produce_until_accepted(&format!("?partition={partition}"), &payload, HEALING).await;
                ledger.answered(&payload, true);
            }
            if !made.created {
                broker.create_topic("made").await;
                made.created = true;
            }
            client.settled().await;
            healthy(&client).await;
            let copies = ledger.count(&client, PARTITIONS).await;
            ledger.check(&copies, accepted_at_most, refused_at_most);
            assert!(broker.terminate().await.success());
        }
        Ending::Terminated => {
            // What it could not close it says by its status.
            broker.terminate().await;
            (accepted_at_most, refused_at_most) = (2, 1);
        }
        Ending::Killed => {
            broker.kill();
            (accepted_at_most, refused_at_most) = (2, 1);
        }
    }

    let broker = Broker::start(dir.path()).await;
    let client = broker.client("t");
    client.settled().await;
    let copies = ledger.count(&client, PARTITIONS).await;
    ledger.check(&copies, accepted_at_most, refused_at_most);
    made.check(&broker).await;
    healthy(&client).await;
    assert!(broker.terminate().await.success());
}

/// A broker with messages in every partition and positions of consumers. It was closed once: its `hwm` files state
/// something, which the next commit has to take back.
async fn written(dir: &Path, ledger: &mut Ledger) -> Broker {
    let broker = Broker::start_through_log(dir).await;
    broker.create_topic("t").await;
    let client = broker.client("t");
    for n in 0..6 {
        let payload = format!("before {n}");
        assert_eq!(client.produce(&format!("?partition={}", n % PARTITIONS), &payload).await.status, 202);
        ledger.answered(&payload, true);
    }
    client.settled().await;
    for partition in 0..PARTITIONS {
        let answer = client.consume(&format!("?partition={partition}&wait=5s")).await;
        assert_eq!(client.ack(&serde_json::from_str(&answer.body).unwrap()).await.status, 204);
    }
    assert!(broker.terminate().await.success());
    Broker::start_through_log(dir).await
}

async fn produce_while_failing(client: &Client, ledger: &mut Ledger, expected: Produces) {
    let mut refused = 0;
    for n in 0..9 {
        let payload = format!("while {n}");
        let answer = client.produce(&format!("?partition={}", n % PARTITIONS), &payload).await;
        ledger.answered(&payload, answer.status == 202);
        if answer.status != 202 {
            refused += 1;
            let error: Value = serde_json::from_str(&answer.body).expect(&answer.body);
            assert!(error["error"].is_string(), "{answer:?}");
            assert!(expected.allows(answer.status), "{answer:?}");
        }
        assert_eq!(client.get("/healthz").await.status, 200);
    }
    assert!(refused > 0 || !matches!(expected, Produces::Refused(_)), "none of 9 was refused");
}

/// A topic that was created, perhaps, while calls failed.
struct Made {
    created: bool,
    ledger: Ledger,
}

impl Made {
    async fn while_failing(broker: &Broker) -> Self {
        let (client, mut ledger) = (broker.client("made"), Ledger::default());
        let status = client.create().await.status;
        assert!([201, 500, 503].contains(&status), "create answered {status}");
        if status == 201 {
            let answer = client.produce("?partition=0", "into the new one").await;
            assert!([202, 500, 503].contains(&answer.status), "{answer:?}");
            ledger.answered("into the new one", answer.status == 202);
        }
        Self { created: status == 201, ledger }
    }

    /// It is there with its message, if it was promised.
    async fn check(mut self, broker: &Broker) {
        if self.created {
            let copies = self.ledger.count(&broker.client("made"), PARTITIONS).await;
            self.ledger.check(&copies, 2, 1);
        }
    }
}

/// Consume and replay give messages that were sent, or say that they cannot; they never hang.
async fn consume_while_failing(client: &Client, ledger: &mut Ledger) {
    for n in 0..6 {
        let partition = n % PARTITIONS;
        let leased = client.consume(&format!("?partition={partition}")).await;
        let replayed = client.consume(&format!("?partition={partition}&offset={}", n / PARTITIONS)).await;
        for answer in [&leased, &replayed] {
            let body: Value = match answer.status {
                204 => continue,
                _ => serde_json::from_str(&answer.body).expect(&answer.body),
            };
            if answer.status == 200 {
                let offset = body["offset"].as_u64().unwrap();
                ledger.served(partition, offset, body["payload"].as_str().unwrap());
            } else {
                assert!([500, 503].contains(&answer.status), "{answer:?}");
            }
        }
        if leased.status == 200 {
            let ack = client.ack(&serde_json::from_str(&leased.body).unwrap()).await;
            assert_eq!(ack.status, 204, "{ack:?}");
        }
    }
    for path in ["/readyz", "/metrics"] {
        assert_eq!(client.get(path).await.status, 200);
    }
}

/// Waits until nothing is degraded.
async fn healthy(client: &Client) {
    let begin = tokio::time::Instant::now();
    loop {
        let ready = client.get("/readyz").await;
        if ready.status == 200 && !ready.body.contains("degraded") {
            return;
        }
        assert!(begin.elapsed() < HEALING, "{ready:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
