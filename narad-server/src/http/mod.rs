//! The routes of `/v1`, and the mapping of errors to statuses. Nothing else: what a request does is the broker's.

mod access;
mod admit;
mod batch;
mod body;
mod children;
mod counting;
mod directories;
mod encoding;
mod error;
mod guard;
mod head;
mod health;
mod identity;
mod link;
mod message_json;
mod messages;
mod openapi;
mod params;
mod replay;
mod schemas;
mod settle;
mod topics;
mod up_to;
mod users;

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use axum::{
    Router,
    extract::{DefaultBodyLimit, Request, State},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::get,
};

use bytes::Bytes;

pub use identity::Peer;
pub use link::Link;

use self::{counting::RequestCounts, encoding::Decoders, error::ApiError, identity::Slots};
use crate::{
    broker::Broker,
    config::{Config, Http},
    telemetry::{Source, failures, families::Families},
};

/// The route that leases: a GET that changes state.
const CONSUME: &str = "/v1/topics/{topic}/consume";
const OPENAPI: &str = "/v1/openapi.json";
/// What names of topics are like, those that came with older data aside.
const PATTERN_OF_NAMES: &str = "^[A-Za-z0-9._-]{1,200}$";
const PRODUCE_BATCH: &str = "/v1/topics/{topic}/produce/batch";
const ACK: &str = "/v1/topics/{topic}/ack";
const METRICS: &str = "/metrics";

/// Who may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Users, as far as their grants go.
    Users,
    /// Anybody, for everything.
    Anybody,
    /// Anybody on this machine: a request whose `Host` is not loopback is refused.
    Loopback,
}

impl Access {
    /// What the configuration says.
    pub fn of(config: &Config) -> Self {
        match (config.security.enabled, config.dev) {
            (true, _) => Self::Users,
            (false, false) => Self::Anybody,
            (false, true) => Self::Loopback,
        }
    }
}

/// The OpenAPI document of every route, `/metrics` included.
pub fn openapi() -> serde_json::Value {
    openapi::everything()
}

/// What every handler can reach. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<AppInner>);

struct AppInner {
    broker: Broker,
    settings: Http,
    access: Access,
    shutting_down: AtomicBool,
    consumes: Slots,
    produces: Slots,
    requests: RequestCounts,
    decoders: Decoders,
    openapi: OnceLock<Bytes>,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("access", &self.0.access).finish_non_exhaustive()
    }
}

impl App {
    /// The API of `broker`, for those that `access` names.
    pub fn new(broker: Broker, settings: Http, access: Access) -> Self {
        Self(Arc::new(AppInner {
            broker,
            consumes: Slots::new(settings.max_consume_in_flight_per_identity),
            produces: Slots::new(settings.max_produce_in_flight_per_identity),
            settings,
            access,
            shutting_down: AtomicBool::new(false),
            requests: RequestCounts::default(),
            decoders: Decoders::default(),
            openapi: OnceLock::new(),
        }))
    }

    /// From here on `/healthz` answers 503.
    pub fn begin_shutdown(&self) {
        self.0.shutting_down.store(true, Ordering::Release);
    }

    fn broker(&self) -> &Broker {
        &self.0.broker
    }

    /// The routes. Each request must carry its [`Peer`] as an extension, and carries the [`Link`] of its connection
    /// if a client that leaves is to be noticed.
    pub fn routes(self) -> Router {
        self.routes_beside(Router::new())
    }

    /// The same with what `others` serve at paths that are not the broker's. Whoever asks there is checked as everywhere.
    pub fn routes_beside(self, others: Router) -> Router {
        let routes = openapi::routes(&self)
            .fold(Router::new(), |routes, route| routes.route(route.path, (route.handlers)()));
        let access = self.0.access;
        self.served(routes, others, access)
    }

    /// `/metrics` alone, for a listener of its own: whoever reaches that needs no password.
    pub fn metrics_routes(self) -> Router {
        let access = match self.0.access {
            Access::Users | Access::Anybody => Access::Anybody,
            Access::Loopback => Access::Loopback,
        };
        self.served(Router::new().route(METRICS, get(health::metrics)), Router::new(), access)
    }

    fn served(self, routes: Router<Self>, others: Router, access: Access) -> Router {
        let others = others
            .method_not_allowed_fallback(error::method_not_allowed)
            .layer(from_fn(counting::say_route))
            .fallback(error::not_found);
        routes
            .method_not_allowed_fallback(error::method_not_allowed)
            .fallback_service(others)
            // The body layer holds the limits, route by route.
            .layer(DefaultBodyLimit::disable())
            // One layer for all that is done to a request on its way: each has a price.
            .layer(from_fn_with_state((self.clone(), access), pass))
            .with_state(self)
    }
}

/// Takes a request to its handler, whatever that is: counted, and refused as early as it can be told.
async fn pass(State((app, access)): State<(App, Access)>, request: Request, next: Next) -> Response {
    let answer = |request| async {
        match prepare(&app, access, request).await {
            Ok(request) => next.run(request).await,
            Err(refusal) => refusal,
        }
    };
    counting::count(&app, request, answer).await
}

/// The request as handlers take it: whoever sent it may, and its body is there; or the answer that refuses it.
async fn prepare(app: &App, access: Access, request: Request) -> Result<Request, Response> {
    head::check(app, &request).map_err(ApiError::into_response)?;
    let request = admit::check(app, access, request).await?;
    body::collect(app, request).await.map_err(ApiError::into_response)
}

#[async_trait]
impl Source for App {
    /// The broker's series, those of requests, and those of telemetry itself.
    async fn collect(&self) -> Families {
        let mut families = Families::default();
        self.0.broker.collect(&mut families).await;
        self.0.requests.collect(&mut families);
        failures::collect(&mut families);
        families
    }
}
