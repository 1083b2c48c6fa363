//! Messages and those who let go of them at the worst moment, over real sockets: each is obtainable by somebody else at
//! once, none is lost, and none is settled by two.
//!
//! `NARAD_ROUNDS` says how many rounds of each kind there are (60), `NARAD_SEED` repeats their moments.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::http_support::{Answer, Narad, answer};
use narad_core::testkit::{SeedGuard, seed};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    task::JoinSet,
    time::{Instant, sleep_until},
};

/// Topics that race side by side.
const LANES: u64 = 6;
/// A quiet machine takes a few milliseconds. A busy one must not fail for being slow, and a lease must not end by itself.
const OBTAINABLE: Duration = Duration::from_secs(15);
/// The lease where its end matters.
const LEASE: Duration = Duration::from_millis(100);

const ACK: &str = "";
const NACK: &str = "&extend=0";
const EXTEND: &str = "&extend=true";

fn rounds() -> u64 {
    std::env::var("NARAD_ROUNDS").map_or(60, |text| text.parse().expect("NARAD_ROUNDS"))
}

/// One topic and its clients.
struct Lane {
    narad: Arc<Narad>,
    topic: String,
    random: StdRng,
}

impl Lane {
    fn path(&self, rest: &str) -> String {
        format!("/v1/topics/{}{rest}", self.topic)
    }

    async fn produce(&self, payload: &str) {
        self.narad.post(&self.path("/produce"), payload.to_owned()).await.is(202);
    }

    fn polling(&self) -> tokio::task::JoinHandle<Answer> {
        let url = self.narad.url(&self.path("/consume?wait=10s"));
        tokio::spawn(answer(self.narad.client.get(url)))
    }

    /// What a poll brought, polling on while it brings nothing.
    async fn got(&self, mut poll: tokio::task::JoinHandle<Answer>) -> Value {
        let begin = Instant::now();
        loop {
            let answer = poll.await.unwrap();
            if answer.status == 200 {
                return answer.json();
            }
            answer.is(204);
            assert!(begin.elapsed() < OBTAINABLE * 2, "nobody gets it");
            poll = self.polling();
        }
    }

    /// The status of an ack, an extension or a nack.
    async fn settle(&self, message: &Value, how: &str) -> u16 {
        let handle = message["receipt_handle"].as_str().unwrap();
        let path = self.path(&format!("/ack?receipt_handle={handle}{how}"));
        let status = self.narad.post(&path, "").await.status.as_u16();
        assert!(status == 204 || status == 410, "{status}");
        status
    }

    /// Acks `message` or, as long as its lease has ended, whoever gets it next. Exactly one ack succeeds.
    async fn ack_in_the_end(&self, mut message: Value) {
        let offset = message["offset"].clone();
        while self.settle(&message, ACK).await == 410 {
            message = self.got(self.polling()).await;
            assert_eq!(message["offset"], offset);
        }
    }

    /// A moment up to `around` before or after `from`.
    fn about(&mut self, from: Instant, around: Duration) -> Instant {
        let micros = u64::try_from(around.as_micros()).unwrap();
        from - around + Duration::from_micros(self.random.random_range(0..=2 * micros))
    }
}

/// Runs `race` in every lane.
async fn in_lanes<F>(lease: Duration, race: fn(Lane) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let seed = SeedGuard::new(seed());
    let narad = Arc::new(Narad::start().await);
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let topic = format!("lane-{lane}");
        let body = json!({"name": topic, "visibility_timeout_ms": lease.as_millis() as u64}).to_string();
        narad.post("/v1/topics", body).await.is(201);
        let random = StdRng::seed_from_u64(seed.get().wrapping_add(lane));
        lanes.spawn(race(Lane { narad: Arc::clone(&narad), topic, random }));
    }
    while let Some(ended) = lanes.join_next().await {
        ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    }
    Arc::into_inner(narad).unwrap().stop().await;
}

/// How long each took until somebody else had the message.
static TAKEN: Mutex<Vec<Duration>> = Mutex::new(Vec::new());

async fn close_as_it_comes(mut lane: Lane) {
    for round in 0..rounds().div_ceil(LANES) {
        let mut leaver = TcpStream::connect(lane.narad.server.addr()).await.unwrap();
        let poll = format!("GET {} HTTP/1.1\r\nhost: localhost\r\n\r\n", lane.path("/consume?wait=10s"));
        leaver.write_all(poll.as_bytes()).await.unwrap();
        let around = Duration::from_millis(5);
        let now = Instant::now();
        let closes_at = lane.about(now + 2 * around, around);
        let closing = tokio::spawn(async move {
            sleep_until(closes_at).await;
            drop(leaver);
        });
        sleep_until(now + 2 * around).await;
        lane.produce(&round.to_string()).await;
        closing.await.unwrap();
        let begin = Instant::now();
        let message = lane.got(lane.polling()).await;
        TAKEN.lock().unwrap().push(begin.elapsed());
        assert!(begin.elapsed() < OBTAINABLE, "round {round}: {:?}", begin.elapsed());
        assert_eq!(message["payload"].to_string(), round.to_string());
        assert_eq!(lane.settle(&message, ACK).await, 204);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_message_whose_consumer_closes_as_it_comes_is_obtainable_at_once() {
    in_lanes(Duration::from_secs(120), close_as_it_comes).await;
    let mut taken = TAKEN.lock().unwrap();
    taken.sort();
    let slow = taken.iter().filter(|time| **time > Duration::from_secs(1)).count();
    eprintln!(
        "{} rounds: obtainable within {:?}, half of them within {:?}, {slow} after more than a second",
        taken.len(),
        taken.last().unwrap(),
        taken[taken.len() / 2]
    );
}

async fn let_go_at_the_edge(mut lane: Lane) {
    for round in 0..rounds().div_ceil(LANES) {
        lane.produce(&round.to_string()).await;
        let asked = Instant::now();
        let held = lane.got(lane.polling()).await;
        let (leased, other) = (Instant::now(), lane.polling());
        // Begun some time between the question and the answer.
        let edge = asked + (leased - asked) / 2 + LEASE;
        sleep_until(lane.about(edge, Duration::from_millis(5))).await;
        let how = [ACK, NACK, EXTEND][usize::try_from(round % 3).unwrap()];
        let mut status = lane.settle(&held, how).await;
        if (how, status) == (EXTEND, 204) {
            // Held anew, and by nobody else: settled by who extended it, or once that has ended by who comes next.
            status = lane.settle(&held, ACK).await;
        }
        let done = status == 204 && how != NACK;
        if done {
            lane.produce("next").await;
        }
        let next = lane.got(other).await;
        let expected = if done { json!("next") } else { json!(round) };
        assert_eq!(next["payload"], expected, "round {round}, ack{how} answered {status}");
        lane.ack_in_the_end(next).await;
    }
    lane.narad.get(&lane.path("/consume")).await.is(204);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lease_that_is_let_go_at_its_end_has_one_holder() {
    in_lanes(LEASE, let_go_at_the_edge).await;
}
