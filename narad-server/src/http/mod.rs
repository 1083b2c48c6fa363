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
mod routes;
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
use axum::{Router, extract::DefaultBodyLimit, middleware::from_fn, routing::get};
use bytes::Bytes;

pub use identity::Peer;
pub use link::Link;
pub use routes::Routes;

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
const PRODUCE: &str = "/v1/topics/{topic}/produce";
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

    /// The routes.
    pub fn routes(self) -> Routes {
        self.routes_beside(Router::new())
    }

    /// The same with what `others` serve at paths that are not the broker's. Whoever asks there is checked as everywhere.
    pub fn routes_beside(self, others: Router) -> Routes {
        let routes = openapi::routes(&self)
            .fold(Router::new(), |routes, route| routes.route(route.path, (route.handlers)()));
        let access = self.0.access;
        self.served(routes, others, access, true)
    }

    /// `/metrics` alone, for a listener of its own: whoever reaches that needs no password.
    pub fn metrics_routes(self) -> Routes {
        let access = match self.0.access {
            Access::Users | Access::Anybody => Access::Anybody,
            Access::Loopback => Access::Loopback,
        };
        self.served(Router::new().route(METRICS, get(health::metrics)), Router::new(), access, false)
    }

    fn served(self, routes: Router<Self>, others: Router, access: Access, carry_messages: bool) -> Routes {
        let others = others
            .method_not_allowed_fallback(error::method_not_allowed)
            .layer(from_fn(counting::say_route))
            .fallback(error::not_found);
        let routes = routes
            .method_not_allowed_fallback(error::method_not_allowed)
            .fallback_service(others)
            // The body is collected within the route's limit before the handler runs.
            .layer(DefaultBodyLimit::disable());
        Routes::new(self, access, routes, carry_messages)
    }
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
