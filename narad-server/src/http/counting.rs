//! Counts requests and times them, by route, method and status.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use axum::{
    extract::{MatchedPath, Request},
    http::Method,
    middleware::Next,
    response::Response,
};
use narad_core::metrics::{Histogram, WAIT_BOUNDS};
use parking_lot::RwLock;
use tracing::{Instrument, Span};

use super::{App, METRICS};
use crate::telemetry::{
    families::{Families, Labels},
    names, spans,
};

/// The route of a request that is none of anybody's.
const NO_ROUTE: &str = "none";

/// The route that has answered, of those beside the broker's own: in the answer's extensions.
#[derive(Clone)]
struct Beside(MatchedPath);

/// Requests answered, by route (the pattern, never the path), method and status; and those under way.
#[derive(Debug, Default)]
pub(super) struct RequestCounts {
    routes: RwLock<HashMap<String, Arc<RouteCounts>>>,
    in_flight: AtomicU64,
}

/// Those of one route.
#[derive(Debug, Default)]
struct RouteCounts(RwLock<BTreeMap<(&'static str, u16), Arc<Histogram>>>);

impl RequestCounts {
    /// Adds the series of requests.
    pub(super) fn collect(&self, out: &mut Families) {
        out.add(names::HTTP_IN_FLIGHT, &Labels::none(), self.in_flight.load(Ordering::Relaxed));
        let routes: BTreeMap<String, Arc<RouteCounts>> =
            self.routes.read().iter().map(|(route, counts)| (route.clone(), Arc::clone(counts))).collect();
        for (route, counts) in routes {
            for ((method, status), durations) in counts.0.read().iter() {
                let Some(durations) = durations.snapshot() else { continue };
                let labels =
                    Labels::new([("route", &route), ("method", method), ("status", &status.to_string())]);
                out.add(names::HTTP_REQUESTS, &labels, durations.count());
                out.add(names::HTTP_DURATION, &labels, durations);
            }
        }
    }

    fn route(&self, route: &str) -> Arc<RouteCounts> {
        if let Some(known) = self.routes.read().get(route) {
            return Arc::clone(known);
        }
        Arc::clone(self.routes.write().entry(route.to_owned()).or_default())
    }
}

impl RouteCounts {
    fn answered(&self, method: &'static str, status: u16) -> Arc<Histogram> {
        if let Some(known) = self.0.read().get(&(method, status)) {
            return Arc::clone(known);
        }
        let made = || Arc::new(Histogram::new(WAIT_BOUNDS));
        Arc::clone(self.0.write().entry((method, status)).or_insert_with(made))
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

/// What `answer` answers to the request for `route`, counted and timed, within its span.
pub(super) async fn count<B, A: Future<Output = Response>>(
    app: &App,
    route: Option<&str>,
    request: Request<B>,
    answer: impl FnOnce(Request<B>) -> A,
) -> Response {
    let counts = &app.0.requests;
    let _in_flight = InFlight::new(&counts.in_flight);
    let (method, since) = (known(request.method()), Instant::now());
    let span = span(method, route, &request);
    let mut response = answer(request).instrument(span.clone()).await;
    // Which of the routes beside the broker's own it is, their router alone finds out.
    let found = route.is_none().then(|| response.extensions_mut().remove::<Beside>()).flatten();
    let found = found.as_ref().map_or(NO_ROUTE, |Beside(matched)| matched.as_str());
    if route.is_none() {
        spans::routed(&span, method, found);
    }
    let route = route.unwrap_or(found);
    let status = response.status().as_u16();
    spans::answered(&span, status);
    counts.route(route).answered(method, status).observe(since.elapsed());
    response
}

/// Leaves the route that has answered in the answer, for [`count`].
pub(super) async fn say_route(matched: Option<MatchedPath>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if let Some(matched) = matched {
        response.extensions_mut().insert(Beside(matched));
    }
    response
}

/// The request's span; none for those that ask how the server is, again and again.
fn span<B>(method: &'static str, route: Option<&str>, request: &Request<B>) -> Span {
    match route {
        Some("/healthz" | "/readyz" | METRICS) => Span::none(),
        route => spans::request(method, route, request.uri().path(), request.headers()),
    }
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
