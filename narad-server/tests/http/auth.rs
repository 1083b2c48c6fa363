//! Who gets in: credentials, the throttle by a clock of the test's own, what a client's requests cost, and the first
//! user.

use std::{os::unix::fs::PermissionsExt, sync::Arc, time::Duration};

use crate::http_support::{Answer, Narad, answer, config};
use crate::secured::{ROOT_PASSWORD, Secured, secure};
use narad_core::{
    runtime::{Runtime, RuntimeOptions},
    testkit::ManualClock,
};
use narad_server::{
    broker::{Broker, default_plugins},
    serve::Server,
};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const PASSWORD: &str = "correct horse";

/// A server whose passwords go by the clock that comes with it.
async fn by_hand() -> (Secured, ManualClock) {
    let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::new());
    let mut config = config(dir.path());
    secure(&mut config);
    let mut options = RuntimeOptions::default();
    options.clock = Arc::new(clock.clone());
    let broker = Broker::open(Runtime::new(options), default_plugins().unwrap(), &config).await.unwrap();
    let server = Server::start_on(broker, config).await.unwrap();
    (Secured(Narad { server, client: reqwest::Client::new(), dir }), clock)
}

fn hashes(narad: &Secured) -> u64 {
    narad.server().broker().password_hashes()
}

async fn topics(narad: &Secured, user: &str, password: &str) -> Answer {
    narad.ask(user, password, Method::GET, "/v1/topics", &Value::Null).await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_credentials_nothing_answers_but_health() {
    let narad = Secured::start().await;
    for (method, path) in [
        (Method::GET, "/v1/topics"),
        (Method::POST, "/v1/topics"),
        (Method::GET, "/v1/topics/t"),
        (Method::POST, "/v1/topics/t/produce"),
        (Method::GET, "/v1/topics/t/consume"),
        (Method::GET, "/v1/users"),
        (Method::GET, "/v1/cluster/members"),
        (Method::GET, "/metrics"),
        (Method::GET, "/nowhere"),
        (Method::OPTIONS, "/v1/topics"),
    ] {
        let refused = narad.open(method.clone(), path, &Value::Null).await;
        assert_eq!(refused.headers["www-authenticate"], "Basic realm=\"narad\"", "{method} {path}");
        refused.error(401);
    }
    narad.open(Method::GET, "/healthz", &Value::Null).await.is(200);
    narad.0.ready().await;
    for (name, value) in [("authorization", "Bearer abc"), ("authorization", "Basic !"), ("cookie", "admin")]
    {
        answer(narad.request(Method::GET, "/v1/topics", &Value::Null).header(name, value)).await.error(401);
    }
    for (user, password) in [
        ("admin", ""),
        ("admin", "wrong"),
        ("nobody", ROOT_PASSWORD),
        ("", ""),
        ("a b", "c"),
        ("Admin", ROOT_PASSWORD),
    ] {
        topics(&narad, user, password).await.error(401);
    }
    topics(&narad, "admin", ROOT_PASSWORD).await.is(200);
    narad.root(Method::GET, "/metrics", &Value::Null).await.is(200);
    narad.root(Method::GET, "/nowhere", &Value::Null).await.error(404);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clients_requests_cost_one_hash() {
    let narad = Arc::new(Secured::start().await);
    narad.user("ann", PASSWORD, json!([{"action": "consume", "patterns": ["*"]}])).await;
    let before = hashes(&narad);
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let narad = Arc::clone(&narad);
        asking.spawn(async move {
            for _ in 0..25 {
                topics(&narad, "ann", PASSWORD).await.is(200);
            }
        });
    }
    while let Some(done) = asking.join_next().await {
        done.unwrap();
    }
    assert_eq!(hashes(&narad) - before, 1, "200 requests of clients that start together");
    // Other changes of the metadata do not make it forget, nor do new grants, which count at once.
    narad.root(Method::POST, "/v1/topics", &json!({"name": "t"})).await.is(201);
    let before = hashes(&narad);
    narad.ask("ann", PASSWORD, Method::GET, "/v1/topics/t", &Value::Null).await.is(200);
    narad.root(Method::PUT, "/v1/users/ann/grants", &json!({"grants": []})).await.is(200);
    narad.ask("ann", PASSWORD, Method::GET, "/v1/topics/t", &Value::Null).await.error(403);
    assert_eq!(hashes(&narad), before);
    Arc::into_inner(narad).unwrap().stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_password_ends_the_old_one_at_once() {
    let narad = Secured::start().await;
    narad.user("ann", PASSWORD, json!([])).await;
    topics(&narad, "ann", PASSWORD).await.is(200);
    narad.root(Method::PUT, "/v1/users/ann/password", &json!({"new_password": "new"})).await.is(204);
    topics(&narad, "ann", PASSWORD).await.error(401);
    topics(&narad, "ann", "new").await.is(200);
    narad.root(Method::PUT, "/v1/users/ann/password", &json!({"new_password": PASSWORD})).await.is(204);
    topics(&narad, "ann", "new").await.error(401);
    narad.root(Method::DELETE, "/v1/users/ann", &Value::Null).await.is(204);
    topics(&narad, "ann", PASSWORD).await.error(401);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn five_wrong_passwords_then_one_try_every_twelve_seconds() {
    let (narad, clock) = by_hand().await;
    narad.user("ann", PASSWORD, json!([])).await;
    narad.user("bob", PASSWORD, json!([])).await;
    topics(&narad, "bob", PASSWORD).await.is(200);
    for _ in 0..5 {
        topics(&narad, "ann", "guess").await.error(401);
        topics(&narad, "bob", "guess").await.error(401);
    }
    let before = hashes(&narad);
    for password in ["guess", PASSWORD] {
        let refused = topics(&narad, "ann", password).await;
        assert_eq!(refused.headers["retry-after"], "12");
        assert!(refused.error(429).contains("ann"));
    }
    // Nobody is locked out by a stranger.
    topics(&narad, "bob", PASSWORD).await.is(200);
    topics(&narad, "bob", "guess").await.error(429);
    assert_eq!(hashes(&narad), before, "what is refused costs nothing");

    clock.advance(Duration::from_millis(11_500));
    assert_eq!(topics(&narad, "ann", PASSWORD).await.headers["retry-after"], "1");
    clock.advance(Duration::from_millis(500));
    topics(&narad, "ann", "guess").await.error(401);
    topics(&narad, "ann", PASSWORD).await.error(429);
    clock.advance(Duration::from_secs(12));
    topics(&narad, "ann", PASSWORD).await.is(200);
    for _ in 0..5 {
        topics(&narad, "ann", "guess").await.error(401);
    }
    topics(&narad, "ann", "guess").await.error(429);

    // Credentials in use stay good; after five minutes without a request they cost a hash, and wait their turn.
    for _ in 0..3 {
        clock.advance(Duration::from_secs(4 * 60));
        topics(&narad, "ann", PASSWORD).await.is(200);
    }
    clock.advance(Duration::from_secs(5 * 60));
    let before = hashes(&narad);
    topics(&narad, "ann", PASSWORD).await.is(200);
    assert_eq!(hashes(&narad) - before, 1);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_current_password_is_a_guess_like_any() {
    let (narad, _clock) = by_hand().await;
    narad.user("ann", PASSWORD, json!([])).await;
    let guess = json!({"new_password": "x", "current_password": "guess"});
    for _ in 0..5 {
        narad.ask("ann", PASSWORD, Method::PUT, "/v1/users/ann/password", &guess).await.error(403);
    }
    narad.ask("ann", PASSWORD, Method::PUT, "/v1/users/ann/password", &guess).await.error(429);
    let right = json!({"new_password": "x", "current_password": PASSWORD});
    narad.ask("ann", PASSWORD, Method::PUT, "/v1/users/ann/password", &right).await.is(204);
    topics(&narad, "ann", PASSWORD).await.error(429);
    topics(&narad, "ann", "x").await.is(200);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_that_is_not_there_costs_a_hash_and_is_never_throttled() {
    let narad = Secured::start().await;
    let before = hashes(&narad);
    for _ in 0..8 {
        topics(&narad, "nobody", "guess").await.error(401);
    }
    assert_eq!(hashes(&narad) - before, 8);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_still_sends_its_body_reads_the_401() {
    let narad = Secured::start().await;
    let mut stream = TcpStream::connect(narad.server().addr()).await.unwrap();
    let (body, turns) = (vec![b'x'; 1 << 20], 4);
    let head = format!(
        "POST /v1/topics/t/produce HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n",
        body.len() * turns
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..turns {
        stream.write_all(&body).await.unwrap();
    }
    // The connection goes on.
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 401 ") && text.contains("HTTP/1.1 200 OK"), "{text}");
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_asks_first_is_refused_before_it_sends() {
    let narad = Secured::start().await;
    let mut stream = TcpStream::connect(narad.server().addr()).await.unwrap();
    let head = b"POST /v1/topics HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 401 "), "{text}");
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_sites_page_does_nothing_even_with_the_browsers_password() {
    let narad = Secured::start().await;
    let body = json!({"name": "t"});
    for (name, value, status) in [
        ("sec-fetch-site", "cross-site", 403),
        ("sec-fetch-site", "same-site", 403),
        ("origin", "http://elsewhere", 403),
        ("sec-fetch-site", "same-origin", 201),
        ("sec-fetch-site", "none", 409),
    ] {
        let request =
            narad.request(Method::POST, "/v1/topics", &body).basic_auth("admin", Some(ROOT_PASSWORD));
        let answer = answer(request.header(name, value)).await;
        assert_eq!(answer.status, status, "{name}: {value}: {answer:?}");
    }
    let consume = narad.request(Method::GET, "/v1/topics/t/consume", &Value::Null);
    let consume = consume.basic_auth("admin", Some(ROOT_PASSWORD)).header("sec-fetch-site", "cross-site");
    answer(consume).await.error(403);
    // A host that is not loopback is none of its business with security on.
    let asked = narad.request(Method::GET, "/v1/topics", &Value::Null).header("host", "broker.example");
    answer(asked.basic_auth("admin", Some(ROOT_PASSWORD))).await.is(200);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn consumes_in_flight_are_counted_by_user() {
    let narad =
        Arc::new(Secured::start_with(|config| config.http.max_consume_in_flight_per_identity = 1).await);
    narad.root(Method::POST, "/v1/topics", &json!({"name": "t"})).await.is(201);
    for user in ["ann", "bob"] {
        narad.user(user, PASSWORD, json!([{"action": "consume", "patterns": ["t"]}])).await;
    }
    let parked = {
        let narad = Arc::clone(&narad);
        tokio::spawn(async move {
            loop {
                let path = "/v1/topics/t/consume?wait=10s";
                let answer = narad.ask("ann", PASSWORD, Method::GET, path, &Value::Null).await;
                // The other's request was there first.
                if answer.status != 429 {
                    return answer;
                }
            }
        })
    };
    let asking = async {
        loop {
            let second = narad.ask("ann", PASSWORD, Method::GET, "/v1/topics/t/consume", &Value::Null).await;
            if second.status == 429 {
                break second;
            }
        }
    };
    let refused = tokio::time::timeout(Duration::from_secs(9), asking).await.expect("the first parks");
    assert!(refused.headers.contains_key("retry-after"));
    narad.ask("bob", PASSWORD, Method::GET, "/v1/topics/t/consume", &Value::Null).await.is(204);
    narad.root(Method::POST, "/v1/topics/t/produce", &json!(1)).await.is(202);
    parked.await.unwrap().is(200);
    Arc::into_inner(narad).unwrap().stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_take_any_user_or_nobody_or_a_listener_of_their_own() {
    let narad = Secured::start().await;
    narad.user("ann", PASSWORD, json!([])).await;
    narad.ask("ann", PASSWORD, Method::GET, "/metrics", &Value::Null).await.is(200);
    let dir = narad.stop().await;

    let narad = Secured::start_in(dir, |config| config.http.metrics_unauthenticated = true).await;
    narad.open(Method::GET, "/metrics", &Value::Null).await.is(200);
    narad.open(Method::GET, "/v1/topics", &Value::Null).await.error(401);
    let dir = narad.stop().await;

    let narad =
        Secured::start_in(dir, |config| config.http.metrics_addr = Some("127.0.0.1:0".parse().unwrap()))
            .await;
    narad.root(Method::GET, "/metrics", &Value::Null).await.error(404);
    let metrics = format!("http://{}", narad.server().metrics_addr().unwrap());
    let text = answer(narad.0.client.get(format!("{metrics}/metrics"))).await.is(200).text;
    assert!(text.contains("narad_http_requests_total"), "{text}");
    answer(narad.0.client.get(format!("{metrics}/v1/topics"))).await.error(404);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_holds_passwords_is_for_its_owner_alone() {
    let narad = Secured::start().await;
    narad.user("ann", PASSWORD, json!([])).await;
    let dir = narad.stop().await;
    for (path, mode) in [("meta", 0o700), ("meta/meta.redb", 0o600)] {
        let found = std::fs::metadata(dir.path().join(path)).unwrap().permissions().mode() & 0o7777;
        assert_eq!(found, mode, "{path}: {found:o}");
    }
    let bytes = std::fs::read(dir.path().join("meta/meta.redb")).unwrap();
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds("$argon2id$v=19$") && !holds(PASSWORD) && !holds(ROOT_PASSWORD));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_cannot_be_one_stops_the_first_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    secure(&mut config);
    config.admin_password = Some("x".repeat(73).into());
    let error = Server::start(config).await.unwrap_err().to_string();
    assert!(error.contains("NARAD_ADMIN_PASSWORD") && !error.contains("xxx"), "{error}");
}
