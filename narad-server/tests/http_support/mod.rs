//! A server in this process on a port of its own, and a client for it.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub mod contract;

use std::{path::Path, time::Duration};

use narad_server::{
    config::{Config, Overrides, load},
    serve::Server,
};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

/// A server and its data directory.
pub struct Narad {
    pub server: Server,
    pub client: reqwest::Client,
    pub dir: tempfile::TempDir,
}

/// An answer, read whole.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: reqwest::header::HeaderMap,
    pub text: String,
}

impl Answer {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The error's text, after checking the status.
    #[track_caller]
    pub fn error(&self, status: u16) -> String {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        let body = self.json();
        assert_eq!(body.as_object().unwrap().len(), 1, "{self:?}");
        body["error"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        self
    }
}

pub fn config(data_dir: &Path) -> Config {
    let overrides = Overrides {
        dev: true,
        addr: Some("127.0.0.1:0".to_owned()),
        data_dir: Some(data_dir.to_owned()),
        ..Overrides::default()
    };
    load(&overrides, []).unwrap().0
}

impl Narad {
    pub async fn start() -> Self {
        Self::start_with(|_| ()).await
    }

    pub async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), change).await
    }

    pub async fn start_in(dir: tempfile::TempDir, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = config(dir.path());
        change(&mut config);
        let server = Server::start(config).await.unwrap();
        let client = reqwest::Client::builder().timeout(Duration::from_secs(30)).build().unwrap();
        Self { server, client, dir }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.addr())
    }

    pub async fn send(&self, method: Method, path: &str, body: impl Into<reqwest::Body>) -> Answer {
        let answer = answer(self.client.request(method.clone(), self.url(path)).body(body)).await;
        contract::check(&method, path, &answer);
        answer
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, "").await
    }

    pub async fn post(&self, path: &str, body: impl Into<reqwest::Body>) -> Answer {
        self.send(Method::POST, path, body).await
    }

    pub async fn create(&self, name: &str) -> Value {
        self.post("/v1/topics", json!({"name": name}).to_string()).await.is(201).json()
    }

    /// Asks until the answer is what is waited for, with a bound.
    pub async fn until(&self, path: &str, is_it: impl Fn(&Answer) -> bool) -> Answer {
        let asking = async {
            loop {
                let answer = self.get(path).await;
                if is_it(&answer) {
                    return answer;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), asking).await.expect("what is waited for comes")
    }

    pub async fn ready(&self) -> Answer {
        self.until("/readyz", |answer| answer.status == 200).await
    }

    /// Ends the server and gives its data back.
    pub async fn stop(self) -> tempfile::TempDir {
        self.server.shutdown().await.unwrap();
        self.dir
    }
}

pub async fn answer(request: reqwest::RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    Answer { status, headers, text: response.text().await.unwrap() }
}
