//! A broker of somebody's own: routes beside `/v1`, checked as everywhere, and never in its place.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod http_support;
mod secured;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    routing::{get, post},
};
use http_support::{Narad, answer, config};
use narad_core::{
    origin,
    plugin::{NoConfig, RegistryError, SilentWake},
};
use narad_server::{broker::NewTopic, serve::Builder};
use reqwest::Method;
use secured::{ROOT_PASSWORD, Secured, secure};
use serde_json::Value;

fn builder() -> Builder {
    Builder::new().unwrap().routes(|broker| {
        let create = broker.clone();
        Router::new()
            .route("/mine", get(async move || broker.node_id().to_owned()))
            .route(
                "/mine/{topic}",
                post(async move |axum::extract::Path(name): axum::extract::Path<String>| {
                    create
                        .create_topic(NewTopic { name, ..NewTopic::default() })
                        .await
                        .unwrap()
                        .name
                        .to_string()
                }),
            )
            .route("/mine/echo", post(async |body: String| body))
            .route("/v1/topics", get(async || "never"))
    })
}

async fn start(change: impl FnOnce(&mut narad_server::config::Config)) -> Narad {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.node.id = "node-7".to_owned();
    change(&mut config);
    let server = builder().start(config).await.unwrap();
    let client = reqwest::Client::builder().timeout(Duration::from_secs(30)).build().unwrap();
    Narad { server, client, dir }
}

async fn ask(narad: &Narad, method: Method, path: &str, body: &'static str) -> http_support::Answer {
    answer(narad.client.request(method, narad.url(path)).body(body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn own_routes_reach_the_broker_and_the_brokers_come_first() {
    let narad = start(|_| ()).await;
    assert_eq!(ask(&narad, Method::GET, "/mine", "").await.is(200).text, "node-7");
    assert_eq!(ask(&narad, Method::POST, "/mine/letters", "").await.is(200).text, "letters");
    assert_eq!(ask(&narad, Method::POST, "/mine/echo", "hello").await.is(200).text, "hello");
    assert_eq!(narad.get("/v1/topics").await.is(200).json()["topics"][0]["name"], "letters");
    ask(&narad, Method::GET, "/nobodys", "").await.error(404);
    ask(&narad, Method::DELETE, "/mine", "").await.error(405);
    let foreign = narad.client.post(narad.url("/mine/echo")).header("sec-fetch-site", "cross-site");
    answer(foreign).await.error(403);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_there_must_say_who_it_is() {
    let narad = Secured(start(secure).await);
    let open = narad.open(Method::GET, "/mine", &Value::Null).await;
    assert!(open.headers.contains_key("www-authenticate"));
    open.error(401);
    narad.ask("admin", "wrong", Method::GET, "/mine", &Value::Null).await.error(401);
    let root = narad.ask("admin", ROOT_PASSWORD, Method::GET, "/mine", &Value::Null).await;
    assert_eq!(root.is(200).text, "node-7");
    narad.0.stop().await;
}

#[test]
fn a_second_plugin_of_a_name_is_refused_before_anything_starts() {
    let twice = Builder::new()
        .unwrap()
        .plugins(|registry| registry.wake(origin!(), "silent", |NoConfig {}, _| Ok(Arc::new(SilentWake))));
    let refused = twice.unwrap_err();
    assert!(matches!(refused, RegistryError::Duplicate { .. }), "{refused}");
    assert!(refused.to_string().contains("narad-server"), "{refused}");
}
