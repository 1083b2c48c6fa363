//! Counts requests by route, method and status.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use axum::{
    extract::{MatchedPath, Request, State},
    http::Method,
    middleware::Next,
    response::Response,
};
use parking_lot::Mutex;

use super::App;

/// Requests answered, by route (the pattern, never the path), method and status; and those under way.
#[derive(Debug, Default)]
pub(super) struct RequestCounts {
    answered: Mutex<BTreeMap<(String, &'static str, u16), u64>>,
    in_flight: AtomicU64,
}

impl RequestCounts {
    pub(super) fn answered(&self) -> BTreeMap<(String, &'static str, u16), u64> {
        self.answered.lock().clone()
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }
}

/// Ends the request also when the client hangs up and the handler is dropped.
struct InFlight<'a>(&'a AtomicU64);

impl<'a> InFlight<'a> {
    fn new(count: &'a AtomicU64) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) async fn count(State(app): State<App>, request: Request, next: Next) -> Response {
    let counts = &app.0.requests;
    let _in_flight = InFlight::new(&counts.in_flight);
    let route = request.extensions().get::<MatchedPath>().map_or("none", |path| path.as_str()).to_owned();
    let method = known(request.method());
    let response = next.run(request).await;
    *counts.answered.lock().entry((route, method, response.status().as_u16())).or_default() += 1;
    response
}

/// A label with a bound on its values: anybody can make up a method.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
