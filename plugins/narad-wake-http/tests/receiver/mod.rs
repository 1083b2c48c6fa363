//! A receiver of notifications on a real socket, which does what the test tells it to.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "each test uses a part of it"
)]

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Receiver as Mailbox, Sender},
    },
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use serde_json::Value;

/// Longer than anything takes that does not hang, on the slowest machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What is done with a request.
#[derive(Debug, Clone, Copy)]
pub enum Answer {
    /// It is answered with this status.
    Status(u16),
    /// Its connection is closed.
    Hangup,
    /// Nothing, for as long as the sender waits.
    Silence,
    /// Nothing, until the test lets go; then its connection is closed.
    Held,
}

/// A request as it arrived.
#[derive(Debug)]
pub struct Request {
    pub head: String,
    pub body: Value,
}

pub struct Receiver {
    pub url: String,
    requests: Mailbox<Request>,
    script: Arc<Script>,
    connections: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Script {
    plan: Mutex<VecDeque<Answer>>,
    let_go: Mutex<bool>,
    changed: Condvar,
}

impl Receiver {
    /// Does what is planned, one answer a request, and answers 204 after that.
    pub fn start(plan: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/wake", listener.local_addr().unwrap());
        let (mail, requests) = mpsc::channel();
        let script = Arc::new(Script { plan: Mutex::new(plan.into_iter().collect()), ..Script::default() });
        let connections = Arc::<AtomicUsize>::default();
        let (read, accepted) = (script.clone(), connections.clone());
        thread::spawn(move || {
            for connection in listener.incoming() {
                accepted.fetch_add(1, Ordering::SeqCst);
                let (mail, script) = (mail.clone(), read.clone());
                thread::spawn(move || serve(connection.unwrap(), &mail, &script));
            }
        });
        Self { url, requests, script, connections }
    }

    /// Ends what is held, now and later.
    pub fn let_go(&self) {
        *self.script.let_go.lock() = true;
        self.script.changed.notify_all();
    }

    pub fn next(&self) -> Request {
        self.requests.recv_timeout(PATIENCE).expect("a notification arrives")
    }

    pub fn is_quiet(&self) -> bool {
        self.requests.try_recv().is_err()
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// The requests of one connection, until it ends.
fn serve(connection: TcpStream, mail: &Sender<Request>, script: &Script) {
    let mut reader = BufReader::new(connection);
    while let Some(request) = read(&mut reader) {
        let answer = script.plan.lock().pop_front().unwrap_or(Answer::Status(204));
        let _ = mail.send(request);
        match answer {
            Answer::Status(status) => {
                let answer = format!("HTTP/1.1 {status} Said\r\nContent-Length: 0\r\n\r\n");
                if reader.get_mut().write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
            Answer::Hangup => return,
            Answer::Held => {
                script.changed.wait_while_for(&mut script.let_go.lock(), |let_go| !*let_go, PATIENCE);
                return;
            }
            // Ends with the sender's side of the connection.
            Answer::Silence => {
                let _ = reader.read(&mut [0]);
                return;
            }
        }
    }
}

fn read(reader: &mut impl BufRead) -> Option<Request> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { head, body: serde_json::from_slice(&body).unwrap() })
}
