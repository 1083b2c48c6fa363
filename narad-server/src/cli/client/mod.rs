//! A thin typed client of `/v1`: one method a route, one error type.
//!
//! It never repeats a request by itself and prints nothing.

mod error;
mod message;
pub(super) mod model;
mod server;
mod users;

use std::time::Duration;

use bytes::Bytes;
use reqwest::{
    Method, RequestBuilder, Response, StatusCode, Url,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use self::model::{
    AdoptedTopic, Attach, Children, Directories, NewTopic, Schemas, Topic, TopicChange, TopicPage,
};
pub(super) use self::{error::ClientError, message::Message};
use crate::secret::Secret;

/// Where a server is looked for when nobody says.
pub(crate) const DEFAULT_SERVER: &str = "http://127.0.0.1:7942";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

type Result<T> = std::result::Result<T, ClientError>;

/// Where a produced message goes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Target {
    /// The topic.
    pub(crate) topic: String,
    /// The key; decides the partition when none is named.
    pub(crate) key: Option<String>,
    /// The partition.
    pub(crate) partition: Option<u32>,
}

/// What a consume asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Poll {
    /// How long the server may wait for a message; it clamps this.
    pub(crate) wait: Duration,
    /// One partition alone.
    pub(crate) partition: Option<u32>,
    /// Messages at most, 1 to 100.
    pub(crate) max: usize,
}

/// What a replay found at an offset.
#[derive(Debug)]
pub(crate) enum Replayed {
    /// The record.
    Record(Message),
    /// Nothing is there yet: the partition ends before it.
    End,
    /// It aged out or cannot be read, in the server's words.
    Gone(String),
}

/// What became of one receipt of a batch.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Settled {
    /// The status a single ack would have got: 204 when it worked.
    pub(crate) status: u16,
    /// Why it did not.
    #[serde(default)]
    pub(crate) error: Option<String>,
}

/// How messages are settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settle {
    /// They are done.
    Ack,
    /// They go back at once, for another consumer.
    Release,
}

/// A connection pool to one server; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    server: Url,
    credentials: Option<(String, Secret)>,
}

impl Client {
    /// A client of the server at `address`: `HOST:PORT`, or a URL. Nothing is connected yet.
    pub(crate) fn new(address: &str) -> Result<Self> {
        let server = parse_server(address)?;
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("narad/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| ClientError::Address { given: address.to_owned(), reason: innermost(&error) })?;
        Ok(Self { http, server, credentials: None })
    }

    /// The same, as that user.
    pub(crate) fn with_credentials(self, user: String, password: Secret) -> Self {
        Self { credentials: Some((user, password)), ..self }
    }

    /// Creates a topic.
    pub(crate) async fn create_topic(&self, topic: &NewTopic) -> Result<Topic> {
        let request = self.request(Method::POST, &["topics"])?.json(topic);
        self.json(request).await
    }

    /// The directories that no topic has.
    pub(crate) async fn directories(&self) -> Result<Directories> {
        self.json(self.request(Method::GET, &["directories"])?).await
    }

    /// Makes a topic of a directory that none has.
    pub(crate) async fn adopt(&self, directory: &str, settings: &AdoptedTopic) -> Result<Topic> {
        let request = self.request(Method::POST, &["directories", directory, "adopt"])?.json(settings);
        self.json(request).await
    }

    /// One page of topics in name order; the first for an empty token.
    async fn topics(&self, page_token: &str) -> Result<TopicPage> {
        let request = self.request(Method::GET, &["topics"])?;
        let request = request.query(&[("limit", "1000"), ("page_token", page_token)]);
        self.json(request).await
    }

    /// Every topic in name order, page by page.
    pub(crate) async fn all_topics(&self) -> Result<Vec<Topic>> {
        let (mut topics, mut page_token) = (Vec::new(), String::new());
        loop {
            let page = self.topics(&page_token).await?;
            topics.extend(page.topics);
            // A server that repeats a token would be asked for ever.
            if page.next_page_token.is_empty() || page.next_page_token == page_token {
                return Ok(topics);
            }
            page_token = page.next_page_token;
        }
    }

    /// A topic with the statistics of its partitions, or of one of them.
    pub(crate) async fn topic(&self, name: &str, partition: Option<u32>) -> Result<Topic> {
        let request = self.request(Method::GET, &["topics", name])?;
        self.json(request.query(&present(("partition", partition)))).await
    }

    /// Changes a topic's settings.
    pub(crate) async fn edit_topic(&self, name: &str, change: &TopicChange) -> Result<Topic> {
        let request = self.request(Method::PATCH, &["topics", name])?.json(change);
        self.json(request).await
    }

    /// The versions of a topic's schema.
    pub(crate) async fn schemas(&self, topic: &str) -> Result<Schemas> {
        self.json(self.request(Method::GET, &["topics", topic, "schema"])?).await
    }

    /// Deletes a topic with everything in it.
    pub(crate) async fn delete_topic(&self, name: &str) -> Result<()> {
        self.send(self.request(Method::DELETE, &["topics", name])?).await.map(drop)
    }

    /// Makes a topic the child of another, and answers the parent.
    pub(crate) async fn attach(&self, parent: &str, link: &Attach) -> Result<Topic> {
        self.json(self.request(Method::POST, &["topics", parent, "children"])?.json(link)).await
    }

    /// Ends that.
    pub(crate) async fn detach(&self, parent: &str, child: &str) -> Result<()> {
        self.send(self.request(Method::DELETE, &["topics", parent, "children", child])?).await.map(drop)
    }

    /// The children of a topic.
    pub(crate) async fn children(&self, parent: &str) -> Result<Children> {
        self.json(self.request(Method::GET, &["topics", parent, "children"])?).await
    }

    /// Produces one message; when this answers, it is synced to disk.
    pub(crate) async fn produce(&self, target: &Target, payload: Bytes) -> Result<()> {
        let mut request = self.request(Method::POST, &["topics", &target.topic, "produce"])?;
        if let Some(key) = &target.key {
            request = request.query(&[("key", key)]);
        }
        request = request.query(&present(("partition", target.partition)));
        self.send(request.body(payload)).await.map(drop)
    }

    /// Produces a batch, all or none of it: `body` is its JSON, of so many messages. When this answers, they are synced to
    /// disk.
    pub(crate) async fn produce_batch(&self, topic: &str, messages: u64, body: Bytes) -> Result<()> {
        #[derive(Deserialize)]
        struct Accepted {
            accepted: u64,
        }
        let request = self.request(Method::POST, &["topics", topic, "produce", "batch"])?;
        let request = request.header(CONTENT_TYPE, "application/json").body(body);
        match self.json(request).await? {
            Accepted { accepted } if accepted == messages => Ok(()),
            Accepted { accepted } => {
                let reason = format!("{accepted} accepted of {messages}");
                Err(self.not_understood("POST produce/batch".into(), reason))
            }
        }
    }

    /// Leases up to `poll.max` messages; none when the wait ran out.
    pub(crate) async fn consume(&self, topic: &str, poll: Poll) -> Result<Vec<Message>> {
        let request = self
            .request(Method::GET, &["topics", topic, "consume"])?
            .query(&[("wait", format!("{}ms", poll.wait.as_millis()))])
            .query(&[("max", poll.max)])
            .query(&present(("partition", poll.partition)))
            .timeout(poll.wait.saturating_add(ANSWER_TIMEOUT));
        let response = self.send(request).await?;
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(Vec::new());
        }
        let (text, asked) = self.text(response).await?;
        message::parse_batch(&text).map_err(|reason| self.not_understood(asked, reason))
    }

    /// Reads one record, without a lease.
    pub(crate) async fn replay(&self, topic: &str, partition: u32, offset: u64) -> Result<Replayed> {
        let request = self
            .request(Method::GET, &["topics", topic, "consume"])?
            .query(&[("partition", u64::from(partition)), ("offset", offset)]);
        let response = match self.send(request).await {
            Ok(response) if response.status() == StatusCode::NO_CONTENT => return Ok(Replayed::End),
            Ok(response) => response,
            Err(ClientError::Refused { status: StatusCode::GONE, message, .. }) => {
                return Ok(Replayed::Gone(message));
            }
            Err(error) => return Err(error),
        };
        let (text, asked) = self.text(response).await?;
        let message = message::parse_single(&text).map_err(|reason| self.not_understood(asked, reason))?;
        Ok(Replayed::Record(message))
    }

    /// Settles up to 100 receipts, each on its own; the answers are in the order of `receipts`.
    pub(crate) async fn settle(&self, topic: &str, how: Settle, receipts: &[&str]) -> Result<Vec<Settled>> {
        #[derive(Serialize)]
        struct Receipts<'a> {
            receipt_handles: &'a [&'a str],
        }
        #[derive(Deserialize)]
        struct Results {
            results: Vec<Settled>,
        }
        let mut request = self.request(Method::POST, &["topics", topic, "ack"])?;
        if how == Settle::Release {
            request = request.query(&[("extend", "0")]);
        }
        let results: Results = self.json(request.json(&Receipts { receipt_handles: receipts })).await?;
        if results.results.len() != receipts.len() {
            let reason = format!("{} results for {} receipts", results.results.len(), receipts.len());
            return Err(self.not_understood("POST ack".into(), reason));
        }
        Ok(results.results)
    }

    fn request(&self, method: Method, path: &[&str]) -> Result<RequestBuilder> {
        // A URL drops these two segments and would lead to another resource.
        if let Some(name) = path.iter().find(|segment| ["", ".", ".."].contains(segment)) {
            return Err(ClientError::TopicName((*name).to_owned()));
        }
        self.at(method, std::iter::once("v1").chain(path.iter().copied()))
    }

    /// A request of what is not of this version of the API alone, such as `healthz`.
    fn outside_v1(&self, method: Method, name: &'static str) -> Result<RequestBuilder> {
        self.at(method, [name])
    }

    fn at<'a>(&self, method: Method, path: impl IntoIterator<Item = &'a str>) -> Result<RequestBuilder> {
        let mut url = self.server.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        let request = self.http.request(method, url).timeout(ANSWER_TIMEOUT);
        match &self.credentials {
            Some((user, password)) => {
                let password = password.expose_text().ok_or(ClientError::PasswordBytes)?;
                Ok(request.basic_auth(user, Some(password)))
            }
            None => Ok(request),
        }
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response> {
        let response = request.send().await.map_err(|error| self.failed(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let retry_after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.trim().parse().ok())
            .map(Duration::from_secs);
        // A refusal is one even when its body gets lost.
        let body = response.text().await.unwrap_or_default();
        Err(ClientError::Refused { status, message: error_message(&body, status), retry_after })
    }

    async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T> {
        let response = self.send(request).await?;
        let (text, asked) = self.text(response).await?;
        serde_json::from_str(&text).map_err(|error| self.not_understood(asked, error.to_string()))
    }

    /// The body, and the path that was asked for.
    async fn text(&self, response: Response) -> Result<(String, String)> {
        let path = response.url().path().to_owned();
        let bytes = response.bytes().await.map_err(|error| self.failed(&error))?;
        match String::from_utf8(bytes.into()) {
            Ok(text) => Ok((text, path)),
            Err(_) => Err(self.not_understood(path, "it is not UTF-8".into())),
        }
    }

    fn failed(&self, error: &reqwest::Error) -> ClientError {
        let (server, reason) = (self.name(), innermost(error));
        if error.is_connect() {
            ClientError::Unreachable { server, reason }
        } else if error.is_builder() {
            ClientError::Address { given: server, reason }
        } else {
            ClientError::Lost { server, reason }
        }
    }

    fn not_understood(&self, request: String, reason: String) -> ClientError {
        ClientError::Answer { server: self.name(), request, reason }
    }

    /// The server's address without the credentials it may hold.
    fn name(&self) -> String {
        let mut shown = self.server.clone();
        // Both fail only for a URL without a host, which `parse_server` refuses.
        let _ = shown.set_password(None);
        let _ = shown.set_username("");
        shown.as_str().trim_end_matches('/').to_owned()
    }
}

/// `HOST:PORT`, `:PORT` or an `http` URL.
fn parse_server(given: &str) -> Result<Url> {
    let refuse = |reason: &str| ClientError::Address { given: given.to_owned(), reason: reason.to_owned() };
    let full = match given {
        url if url.contains("://") => url.to_owned(),
        port if port.starts_with(':') => format!("http://127.0.0.1{port}"),
        host => format!("http://{host}"),
    };
    let url = Url::parse(&full).map_err(|error| refuse(&error.to_string()))?;
    match url.scheme() {
        "http" if url.has_host() => Ok(url),
        "http" => Err(refuse("no host in it")),
        "https" => Err(refuse("this build speaks plain HTTP only; reach TLS through a local proxy")),
        _ => Err(refuse("not an http URL")),
    }
}

/// A query parameter that may be absent.
fn present<T: Copy>((name, value): (&'static str, Option<T>)) -> Vec<(&'static str, T)> {
    value.map(|value| (name, value)).into_iter().collect()
}

/// What the body of a refusal says, or what the status means when it says nothing.
fn error_message(body: &str, status: StatusCode) -> String {
    #[derive(Deserialize)]
    struct Body {
        error: String,
    }
    match serde_json::from_str::<Body>(body) {
        Ok(body) => body.error,
        Err(_) if body.trim().is_empty() => status.canonical_reason().unwrap_or("refused").to_lowercase(),
        Err(_) => body.trim().chars().take(200).collect(),
    }
}

/// The cause at the bottom, which says more than `error sending request`.
fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    if error.is_timeout() { "timed out".to_owned() } else { cause.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_with_and_without_a_scheme() {
        let parsed = |given| parse_server(given).unwrap().to_string();
        assert_eq!(parsed("localhost:7942"), "http://localhost:7942/");
        assert_eq!(parsed(":7942"), "http://127.0.0.1:7942/");
        assert_eq!(parsed("[::1]:7942"), "http://[::1]:7942/");
        assert_eq!(parsed("http://broker/narad"), "http://broker/narad");
        for bad in ["https://broker", "ftp://broker", "http://", "a b", ""] {
            assert!(matches!(parse_server(bad), Err(ClientError::Address { .. })), "{bad:?}");
        }
    }

    #[test]
    fn topic_names_are_escaped_in_paths() {
        let client = Client::new("http://broker/base/").unwrap();
        let url =
            |name| client.request(Method::GET, &["topics", name]).unwrap().build().unwrap().url().clone();
        assert_eq!(url("a/b?c").as_str(), "http://broker/base/v1/topics/a%2Fb%3Fc");
        assert!(matches!(client.request(Method::GET, &["topics", ".."]), Err(ClientError::TopicName(_))));
    }

    #[test]
    fn credentials_in_the_address_are_not_shown() {
        assert_eq!(Client::new("http://me:secret@broker:1").unwrap().name(), "http://broker:1");
    }

    #[test]
    fn a_refusal_is_told_in_the_servers_words() {
        let status = StatusCode::NOT_FOUND;
        assert_eq!(error_message(r#"{"error":"topic x does not exist"}"#, status), "topic x does not exist");
        assert_eq!(error_message("", status), "not found");
        assert_eq!(error_message("<html>", status), "<html>");
    }
}
