//! A client of one topic that keeps statuses and bodies as they came.

use std::time::Duration;

use serde_json::Value;

/// Longer than anything that is not stuck takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client of one topic.
#[derive(Clone)]
pub struct Client {
    pub http: reqwest::Client,
    pub url: String,
    topic: String,
}

/// An answer, whole.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub retry_after: bool,
    pub body: String,
}

impl Client {
    pub fn new(url: String, topic: &str) -> Self {
        let http = reqwest::Client::builder().timeout(PATIENCE).build().unwrap();
        Self { http, url, topic: topic.to_owned() }
    }

    pub fn topic_url(&self, rest: &str) -> String {
        format!("{}/v1/topics/{}{rest}", self.url, self.topic)
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let answer = request.send().await.unwrap_or_else(|error| panic!("no answer: {error:?}"));
        let (status, retry_after) = (answer.status().as_u16(), answer.headers().contains_key("retry-after"));
        Answer { status, retry_after, body: answer.text().await.unwrap() }
    }

    /// `query` begins with `?` or is empty.
    pub async fn produce(&self, query: &str, payload: &str) -> Answer {
        let url = self.topic_url(&format!("/produce{query}"));
        self.send(self.http.post(url).body(payload.to_owned())).await
    }

    /// The status, if there was an answer.
    pub async fn try_produce(&self, query: &str, payload: &str) -> Option<u16> {
        let url = self.topic_url(&format!("/produce{query}"));
        let answer = self.http.post(url).body(payload.to_owned()).send().await;
        answer.ok().map(|answer| answer.status().as_u16())
    }

    /// A path of the API.
    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.http.get(format!("{}{path}", self.url))).await
    }

    pub async fn create(&self) -> Answer {
        let body = format!("{{\"name\":\"{}\"}}", self.topic);
        self.send(self.http.post(format!("{}/v1/topics", self.url)).body(body)).await
    }

    pub async fn delete(&self) -> Answer {
        self.send(self.http.delete(self.topic_url(""))).await
    }

    pub async fn consume(&self, query: &str) -> Answer {
        self.send(self.http.get(self.topic_url(&format!("/consume{query}")))).await
    }

    pub async fn ack(&self, message: &Value) -> Answer {
        let handle = message["receipt_handle"].as_str().unwrap();
        self.send(self.http.post(self.topic_url("/ack")).query(&[("receipt_handle", handle)])).await
    }

    /// Everything that can be consumed now, acknowledged.
    pub async fn drain(&self) -> Vec<String> {
        let mut payloads = Vec::new();
        loop {
            let answer = self.consume("?wait=1s").await;
            if answer.status == 204 {
                return payloads;
            }
            assert_eq!(answer.status, 200, "{}", answer.body);
            let message: Value = serde_json::from_str(&answer.body).unwrap();
            payloads.push(message["payload"].as_str().unwrap().to_owned());
            assert_eq!(self.ack(&message).await.status, 204);
        }
    }

    /// Replays a partition from `from` to its end: what each offset answered, `None` for one that is not readable.
    pub async fn replay(&self, partition: u32, from: u64) -> Vec<(u64, Option<String>)> {
        let mut found = Vec::new();
        for offset in from.. {
            let answer = self.consume(&format!("?partition={partition}&offset={offset}")).await;
            match answer.status {
                200 => {
                    let message: Value = serde_json::from_str(&answer.body).unwrap();
                    assert_eq!(message["offset"].as_u64(), Some(offset));
                    assert_eq!(message["partition"].as_u64(), Some(partition.into()));
                    found.push((offset, Some(message["payload"].as_str().unwrap().to_owned())));
                }
                410 => {
                    assert!(!answer.body.contains(".log"), "the server's file is named: {}", answer.body);
                    found.push((offset, None));
                }
                204 => break,
                status => panic!("replay of {partition}/{offset} answered {status}: {}", answer.body),
            }
        }
        found
    }

    /// Produces until it is answered 202, within `patience`: what heals, heals by itself.
    pub async fn produce_until_accepted(&self, query: &str, payload: &str, patience: Duration) {
        let begin = tokio::time::Instant::now();
        loop {
            let answer = self.produce(query, payload).await;
            if answer.status == 202 {
                return;
            }
            assert!(begin.elapsed() < patience, "produce still fails after {patience:?}: {answer:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The value of a series of `/metrics`, named with its labels as it stands there.
    pub async fn metric(&self, series: &str) -> Option<u64> {
        let text = self.get("/metrics").await.body;
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
        Some(line.parse().unwrap())
    }

    /// Waits until everything acknowledged is in its partition.
    pub async fn settled(&self) {
        for _ in 0..300 {
            if self.metric("narad_ingress_dispatch_backlog_records").await == Some(0) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("acknowledged messages still wait for their partitions after 15 s");
    }
}
