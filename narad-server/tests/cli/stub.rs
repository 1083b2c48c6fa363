//! A broker that is none: it answers what a test tells it to, and remembers what it was asked.

use std::{
    collections::{BTreeMap, VecDeque},
    process::{Command, Output, Stdio},
    sync::{Arc, Mutex, MutexGuard},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{Method, StatusCode, Uri},
    response::{IntoResponse, Response},
};

/// A request that reached the stub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Method and path with query: `POST /v1/topics/t/produce`.
    pub(crate) request: String,
    /// The body.
    pub(crate) body: Bytes,
}

/// An answer: status, `Retry-After` and body.
#[derive(Debug, Clone)]
pub(crate) struct Answer(pub(crate) u16, pub(crate) Option<u64>, pub(crate) String);

impl Answer {
    /// An answer of that status without a body.
    pub(crate) fn status(status: u16) -> Self {
        Self(status, None, String::new())
    }

    /// An answer with a body.
    pub(crate) fn body(status: u16, body: &str) -> Self {
        Self(status, None, body.to_owned())
    }
}

#[derive(Default)]
struct Inner {
    asked: Vec<Asked>,
    scripted: BTreeMap<String, VecDeque<Answer>>,
}

type Decide = dyn Fn(&Asked) -> Answer + Send + Sync;

/// A stub that listens until the test ends.
#[derive(Clone)]
pub(crate) struct Stub {
    inner: Arc<Mutex<Inner>>,
    decide: Arc<Decide>,
    address: String,
}

impl Stub {
    /// Answers what `decide` says, but for what is scripted.
    pub(crate) async fn start(decide: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let stub = Self { inner: Arc::default(), decide: Arc::new(decide), address };
        let app = Router::new().fallback(answer).with_state(stub.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        stub
    }

    /// `HOST:PORT`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The next requests whose path and query or body contains `part` get these answers, in turn.
    pub(crate) fn script(&self, part: &str, answers: impl IntoIterator<Item = Answer>) {
        self.lock().scripted.entry(part.to_owned()).or_default().extend(answers);
    }

    /// Every request so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.lock().asked.clone()
    }

    /// The bodies of all produce requests, sorted.
    pub(crate) fn produced(&self) -> Vec<String> {
        let produced = |asked: &Asked| asked.request.contains("/produce");
        let mut bodies: Vec<String> = self
            .asked()
            .iter()
            .filter(|asked| produced(asked))
            .map(|asked| String::from_utf8_lossy(&asked.body).into_owned())
            .collect();
        bodies.sort();
        bodies
    }

    /// Runs `narad` against the stub, with that on standard input.
    pub(crate) async fn narad(&self, args: &[&str], stdin: &[u8]) -> Ran {
        narad(&self.address, args, stdin).await
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }
}

async fn answer(State(stub): State<Stub>, method: Method, uri: Uri, body: Bytes) -> Response {
    let asked = Asked { request: format!("{method} {uri}"), body };
    let scripted = {
        let mut inner = stub.lock();
        inner.asked.push(asked.clone());
        let text = format!("{} {}", asked.request, String::from_utf8_lossy(&asked.body));
        let mut matching = inner.scripted.iter_mut().filter(|(part, _)| text.contains(part.as_str()));
        matching.find_map(|(_, answers)| answers.pop_front())
    };
    let Answer(status, retry_after, body) = scripted.unwrap_or_else(|| (stub.decide)(&asked));
    let status = StatusCode::from_u16(status).unwrap();
    match retry_after {
        Some(seconds) => (status, [("retry-after", seconds.to_string())], body).into_response(),
        None => (status, body).into_response(),
    }
}

/// How a run of the command ended.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The exit status.
    pub(crate) status: i32,
    /// Standard output.
    pub(crate) stdout: Vec<u8>,
    /// Standard error.
    pub(crate) stderr: String,
}

impl Ran {
    /// Standard output as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The JSON objects on standard output.
    pub(crate) fn objects(&self) -> Vec<serde_json::Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Runs `narad` against the server at `address`.
pub(crate) async fn narad(address: &str, args: &[&str], stdin: &[u8]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_narad"));
    command.env("NARAD_ADDR", address).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let stdin = stdin.to_vec();
    let run = move || -> Output {
        let mut child = command.spawn().unwrap();
        // The command may end without reading all of it.
        let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), &stdin);
        child.wait_with_output().unwrap()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    Ran {
        status: output.status.code().unwrap_or(-1),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Has nobody listen there any more, whoever else holds the descriptor: a process that another test is just starting does.
pub(crate) fn close(listener: std::net::TcpListener) {
    rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
}
