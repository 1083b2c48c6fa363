//! docs/http-api.md: every example is run with curl and gets the answer that it states, and every route has one.
//!
//! `documented/mod.rs` says how an example is written.

use std::collections::{BTreeMap, BTreeSet};

use crate::documented::{blocks, can_run, examples, same_body};
use crate::http_support::{Narad, contract};

const MANUAL: &str = include_str!("../../../docs/http-api.md");

#[tokio::test(flavor = "multi_thread")]
async fn every_example_gets_the_answer_that_it_states() {
    if !can_run("curl") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // As the manual has it: the directory of a topic of another broker.
    std::fs::create_dir_all(dir.path().join("topics/old-orders/p00000")).unwrap();
    let narad = Narad::start_in(dir, |_| ()).await;
    narad.ready().await;
    let (address, dir) = (narad.server.addr().to_string(), tempfile::tempdir().unwrap());
    tokio::task::spawn_blocking(move || {
        let mut known = BTreeMap::new();
        for example in examples(MANUAL) {
            example.check(&address, dir.path(), &mut known);
        }
    })
    .await
    .unwrap();
    narad.stop().await;
}

#[test]
fn every_curl_in_the_manual_is_an_example() {
    let plain = blocks(MANUAL, "").into_iter().filter(|(_, text)| text.contains("curl "));
    let lines: Vec<usize> = plain.map(|(line, _)| line).collect();
    assert!(lines.is_empty(), "blocks at lines {lines:?} have no answers: make them console blocks");
}

#[test]
fn every_route_has_an_example() {
    let shown: BTreeSet<(String, String)> =
        examples(MANUAL).iter().map(crate::documented::Example::request).collect();
    let missing: Vec<String> = routes()
        .into_iter()
        .filter(|(method, route)| {
            !shown.iter().any(|(by, path)| by == method && contract::is_of(path, route))
        })
        .map(|(method, route)| format!("{method} {route}"))
        .collect();
    assert!(missing.is_empty(), "docs/http-api.md has no example of {missing:#?}");
}

/// Method and path of every route.
fn routes() -> BTreeSet<(String, String)> {
    let mut routes = BTreeSet::new();
    for (path, item) in contract::DOCUMENT["paths"].as_object().unwrap() {
        for (method, _) in item.as_object().unwrap() {
            if method != "parameters" {
                routes.insert((method.to_uppercase(), path.clone()));
            }
        }
    }
    assert!(
        routes.contains(&("POST".to_owned(), "/v1/topics".to_owned())) && routes.len() >= 15,
        "{routes:?}"
    );
    routes
}

#[test]
fn an_answer_that_is_another_is_noticed() {
    let mut known = BTreeMap::new();
    let wanted = r#"{"name":"a<b","id":"<id>","at":<seconds>,"list":[1]}"#;
    let mut same = |found: &str| same_body(wanted, found, &mut known);
    assert_eq!(same(r#"{"list":[1],"at":7,"id":"x","name":"a<b"}"#), Ok(()));
    for other in [
        r#"{"list":[1],"at":7,"id":"x","name":"a<c"}"#,
        r#"{"list":[1],"at":7,"id":"x"}"#,
        r#"{"list":[1],"at":7,"id":"x","name":"a<b","more":1}"#,
        r#"{"list":[1,2],"at":7,"id":"x","name":"a<b"}"#,
        r#"{"list":[1],"at":{},"id":"x","name":"a<b"}"#,
        "",
        "text",
    ] {
        assert!(same(other).is_err(), "{other}");
    }
    assert_eq!((known["id"].as_str(), known["seconds"].as_str()), ("x", "7"));
    assert!(same_body("a 1\n...", "a 1\nb 2", &mut known).is_ok());
    assert!(same_body("a 2\n...", "a 1\nb 2", &mut known).is_err());
}
