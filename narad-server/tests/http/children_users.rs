//! Who may link topics: attaching takes both topics' owner, detaching one of either.

use crate::http_support::Answer;
use crate::secured::Secured;
use reqwest::Method;
use serde_json::{Value, json};

async fn ask(narad: &Secured, user: &str, method: Method, path: &str, body: &Value) -> Answer {
    narad.ask(user, "secret", method, &format!("/v1/topics{path}"), body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn links_take_their_topics_owners() {
    let narad = Secured::start().await;
    let all = json!([{"action": "create", "patterns": ["*"]}]);
    narad.user("ann", "secret", all.clone()).await;
    narad.user("bob", "secret", all).await;
    narad.user("eve", "secret", json!([])).await;
    for (user, topic) in [("ann", "hers"), ("ann", "hers-too"), ("bob", "his")] {
        ask(&narad, user, Method::POST, "", &json!({"name": topic})).await.is(201);
    }
    let attach = async |user: &str, parent: &str, child: &str| {
        ask(&narad, user, Method::POST, &format!("/{parent}/children"), &json!({"child": child})).await
    };
    let detach = async |user: &str, parent: &str, child: &str| {
        ask(&narad, user, Method::DELETE, &format!("/{parent}/children/{child}"), &Value::Null).await
    };
    attach("ann", "hers", "his").await.error(403);
    attach("bob", "hers", "his").await.error(403);
    attach("eve", "hers", "hers-too").await.error(403);
    attach("ann", "hers", "hers-too").await.is(200);
    ask(&narad, "ann", Method::POST, "", &json!({"name": "born", "parent": "his"})).await.error(403);
    ask(&narad, "ann", Method::GET, "/born", &Value::Null).await.error(404);
    ask(&narad, "eve", Method::GET, "/hers/children", &Value::Null).await.error(403);
    ask(&narad, "bob", Method::GET, "/hers/children", &Value::Null).await.is(200);
    detach("bob", "hers", "hers-too").await.error(403);
    detach("ann", "hers", "hers-too").await.is(204);
    // An admin links what belongs to others; either owner may end it.
    for user in ["ann", "bob"] {
        narad.root(Method::POST, "/v1/topics/hers/children", &json!({"child": "his"})).await.is(200);
        detach("eve", "hers", "his").await.error(403);
        detach(user, "hers", "his").await.is(204);
    }
    narad.stop().await;
}
