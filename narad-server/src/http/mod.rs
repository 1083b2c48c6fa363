//! The routes of `/v1`, and the mapping of errors to statuses. Nothing else: what a request does is the broker's.

mod batch;
mod body;
mod counting;
mod directories;
mod error;
mod guard;
mod head;
mod health;
mod identity;
mod message_json;
mod messages;
mod params;
mod replay;
mod settle;
mod topics;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{
    Router,
    extract::DefaultBodyLimit,
    middleware::from_fn_with_state,
    routing::{delete, get, post, put},
};

pub use identity::Peer;

use self::{counting::RequestCounts, error::ApiError, identity::Slots};
use crate::{broker::Broker, config::Http};

/// The route that leases: a GET that changes state.
const CONSUME: &str = "/v1/topics/{topic}/consume";
const PRODUCE_BATCH: &str = "/v1/topics/{topic}/produce/batch";
const ACK: &str = "/v1/topics/{topic}/ack";

/// What every handler can reach. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<AppInner>);

struct AppInner {
    broker: Broker,
    settings: Http,
    /// Security is off, and only this machine may be asked.
    dev: bool,
    shutting_down: AtomicBool,
    consumes: Slots,
    produces: Slots,
    requests: RequestCounts,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("dev", &self.0.dev).finish_non_exhaustive()
    }
}

impl App {
    /// The API of `broker`. Under `dev` a request whose `Host` is not loopback is refused.
    pub fn new(broker: Broker, settings: Http, dev: bool) -> Self {
        Self(Arc::new(AppInner {
            broker,
            consumes: Slots::new(settings.max_consume_in_flight_per_identity),
            produces: Slots::new(settings.max_produce_in_flight_per_identity),
            settings,
            dev,
            shutting_down: AtomicBool::new(false),
            requests: RequestCounts::default(),
        }))
    }

    /// From here on `/healthz` answers 503.
    pub fn begin_shutdown(&self) {
        self.0.shutting_down.store(true, Ordering::Release);
    }

    fn broker(&self) -> &Broker {
        &self.0.broker
    }

    /// The routes. Each request must carry its [`Peer`] as an extension.
    pub fn routes(self) -> Router {
        let (no_schemas, no_children, no_users) = (
            || error::missing("schemas"),
            || error::missing("children and fan-out"),
            || error::missing("users and grants"),
        );
        Router::new()
            .route("/v1/topics", post(topics::create).get(topics::list))
            .route("/v1/topics/{topic}", get(topics::describe).patch(topics::update).delete(topics::delete))
            .route("/v1/topics/{topic}/schema", get(no_schemas))
            .route("/v1/topics/{topic}/children", get(no_children).post(no_children))
            .route("/v1/topics/{topic}/children/{child}", delete(no_children))
            .route("/v1/topics/{topic}/produce", post(messages::produce))
            .route(PRODUCE_BATCH, post(batch::produce))
            // Without a HEAD of its own axum would lease a message to answer one.
            .route(CONSUME, get(messages::consume).head(error::no_head))
            .route(ACK, post(settle::settle))
            .route("/v1/users", get(no_users).post(no_users))
            .route("/v1/users/{user}", get(no_users).delete(no_users))
            .route("/v1/users/{user}/grants", put(no_users))
            .route("/v1/users/{user}/password", put(no_users))
            .route("/v1/directories", get(directories::list))
            .route("/v1/directories/{directory}/adopt", post(directories::adopt))
            .route("/v1/cluster/members", get(health::members))
            .route("/healthz", get(health::alive))
            .route("/readyz", get(health::ready))
            .route("/metrics", get(health::metrics))
            .method_not_allowed_fallback(error::method_not_allowed)
            .fallback(error::not_found)
            // The body layer holds the limits, route by route.
            .layer(DefaultBodyLimit::disable())
            .layer(from_fn_with_state(self.clone(), guard::check))
            .layer(from_fn_with_state(self.clone(), body::collect))
            .layer(from_fn_with_state(self.clone(), head::check))
            .layer(from_fn_with_state(self.clone(), counting::count))
            .with_state(self)
    }
}
