//! `/v1/openapi.json`: served to anybody, and the routes are those that are served.

use crate::http_support::{Narad, contract};
use reqwest::Method;

#[tokio::test(flavor = "multi_thread")]
async fn the_document_is_served_without_credentials() {
    let narad = Narad::start().await;
    let answer = narad.get("/v1/openapi.json").await.is(200);
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(&answer.json(), &*contract::DOCUMENT);
    assert_eq!(answer.json()["openapi"], "3.1.0");
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_takes_the_methods_that_are_documented_and_no_others() {
    let narad = Narad::start().await;
    let mut documented = 0;
    for (route, item) in contract::DOCUMENT["paths"].as_object().unwrap() {
        let path = route.replace(['{', '}'], "");
        for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            let has = item.get(method.as_str().to_ascii_lowercase()).is_some();
            let answer = narad.send(method.clone(), &path, "").await;
            assert_eq!(answer.status != 405, has, "{method} {route}: {answer:?}");
            documented += usize::from(has);
        }
    }
    assert!(documented >= 20);
    narad.stop().await;
}
