//! The spans of requests, as a collector gets them: those of one's own routes have their route as the broker's have.
#![cfg(feature = "otlp")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod http_support;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, routing::get};
use http_support::{Narad, config};
use narad_server::serve::Builder;
use opentelemetry::{Context, trace::TracerProvider};
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{SdkTracerProvider, Span, SpanData, SpanProcessor},
};
use tracing_subscriber::layer::SubscriberExt;

/// The spans that ended: each with its name and its route.
#[derive(Debug, Clone, Default)]
struct Ended(Arc<Mutex<Vec<(String, String)>>>);

impl SpanProcessor for Ended {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        let routes = span.attributes.iter().filter(|attribute| attribute.key.as_str() == "http.route");
        let routes = routes.map(|attribute| attribute.value.to_string()).collect::<Vec<_>>();
        if !routes.is_empty() {
            self.0.lock().unwrap().push((span.name.to_string(), routes.join(" and ")));
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// In one thread, whose spans are looked at.
#[tokio::test]
async fn a_span_has_the_route_of_its_request_ones_own_and_the_brokers() {
    let ended = Ended::default();
    let provider = SdkTracerProvider::builder().with_span_processor(ended.clone()).build();
    let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let _looking = tracing::subscriber::set_default(tracing_subscriber::registry().with(spans));

    let dir = tempfile::tempdir().unwrap();
    let own = Router::new().route("/mine/{what}", get(async || "mine"));
    let server = Builder::new().unwrap().routes(|_| own).start(config(dir.path())).await.unwrap();
    let client = reqwest::Client::builder().timeout(Duration::from_secs(30)).build().unwrap();
    let narad = Narad { server, client, dir };
    narad.get("/mine/letters").await.is(200);
    narad.get("/v1/topics").await.is(200);
    narad.get("/nobodys").await.error(404);
    narad.stop().await;

    let expected =
        [("GET /mine/{what}", "/mine/{what}"), ("GET /v1/topics", "/v1/topics"), ("GET none", "none")];
    assert_eq!(*ended.0.lock().unwrap(), expected.map(|(name, route)| (name.to_owned(), route.to_owned())));
}
