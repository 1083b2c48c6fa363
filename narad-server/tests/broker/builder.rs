//! A broker of somebody's own: routes beside `/v1`, checked as everywhere, and never in its place.

use std::{sync::Arc, time::Duration};

use crate::http_support::{Narad, answer, config};
use crate::secured::{ROOT_PASSWORD, Secured, secure};
use axum::{
    Router,
    extract::Path,
    routing::{get, post},
};
use narad_core::{
    origin,
    plugin::{NoConfig, RegistryError, SilentWake},
};
use narad_server::{
    broker::{Broker, BrokerError, NewTopic},
    security::Caller,
    serve::Builder,
};
use reqwest::Method;
use serde_json::Value;

fn builder() -> Builder {
    Builder::new().unwrap().routes(|broker| {
        let create = broker.clone();
        Router::new()
            .route("/mine", get(async move || broker.node_id().to_owned()))
            .route(
                "/mine/{topic}",
                post(async move |Path(name): Path<String>| {
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

async fn ask(narad: &Narad, method: Method, path: &str, body: &'static str) -> crate::http_support::Answer {
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
async fn own_routes_add_up_and_are_counted_by_their_path() {
    let dir = tempfile::tempdir().unwrap();
    let further = |broker: Broker| {
        let topic = async move |Path(name): Path<String>| -> Result<String, BrokerError> {
            Ok(broker.topic(&name).await?.name.to_string())
        };
        Router::new().route("/further/{topic}", get(topic)).fallback(async || "never")
    };
    let server = builder().routes(further).start(config(dir.path())).await.unwrap();
    let client = reqwest::Client::builder().timeout(Duration::from_secs(30)).build().unwrap();
    let narad = Narad { server, client, dir };
    ask(&narad, Method::GET, "/mine", "").await.is(200);
    ask(&narad, Method::POST, "/mine/letters", "").await.is(200);
    assert_eq!(ask(&narad, Method::GET, "/further/letters", "").await.is(200).text, "letters");
    ask(&narad, Method::GET, "/further/elsewhere", "").await.error(404);
    ask(&narad, Method::GET, "/nobodys", "").await.error(404);
    ask(&narad, Method::DELETE, "/mine", "").await.error(405);
    let metrics = narad.get("/metrics").await.is(200).text;
    for counted in [
        r#"{route="/mine",method="GET",status="200"} 1"#,
        r#"{route="/mine/{topic}",method="POST",status="200"} 1"#,
        r#"{route="/further/{topic}",method="GET",status="200"} 1"#,
        r#"{route="/further/{topic}",method="GET",status="404"} 1"#,
        r#"{route="none",method="GET",status="404"} 1"#,
    ] {
        assert!(metrics.contains(&format!("narad_http_requests_total{counted}")), "{counted} in {metrics}");
    }
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_is_told_who_asks() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    secure(&mut config);
    let who = async |caller: Caller| caller.name().map_or_else(String::new, ToString::to_string);
    let own = Builder::new().unwrap().routes(move |_| Router::new().route("/who", get(who)));
    let server = own.start(config).await.unwrap();
    let client = reqwest::Client::builder().timeout(Duration::from_secs(30)).build().unwrap();
    let narad = Secured(Narad { server, client, dir });
    let root = narad.ask("admin", ROOT_PASSWORD, Method::GET, "/who", &Value::Null).await;
    assert_eq!(root.is(200).text, "admin");
    narad.0.stop().await;
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
