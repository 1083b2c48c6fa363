//! `/v1/users` and what grants let a user do, over real sockets.

use crate::http_support::Answer;
use crate::secured::{ROOT_PASSWORD, Secured};
use reqwest::Method;
use serde_json::{Value, json};

const PASSWORD: &str = "correct horse";

#[tokio::test(flavor = "multi_thread")]
async fn a_user_is_created_looked_at_changed_and_deleted() {
    let narad = Secured::start().await;
    let grants = json!([{"action": "produce", "patterns": ["orders", "eu-*"]}]);
    let body = json!({"username": "ann", "password": PASSWORD, "grants": grants});
    let created = narad.root(Method::POST, "/v1/users", &body).await.is(201).json();
    assert_eq!((&created["username"], &created["grants"]), (&json!("ann"), &grants));
    let keys: Vec<&String> = created.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["created_at_ms", "grants", "updated_at_ms", "username"], "no root, no password");
    assert!(created["created_at_ms"].as_i64().unwrap() > 1_600_000_000_000);
    assert!(narad.root(Method::POST, "/v1/users", &body).await.error(409).contains("ann"));

    let list = narad.root(Method::GET, "/v1/users", &Value::Null).await.is(200).json();
    assert_eq!(list.as_array().unwrap().len(), 2);
    assert_eq!((&list[0]["username"], &list[0]["root"]), (&json!("admin"), &json!(true)));
    assert_eq!(list[0].get("grants"), None);
    assert_eq!(list[1], created);
    assert_eq!(narad.root(Method::GET, "/v1/users/ann", &Value::Null).await.is(200).json(), created);

    let grants = json!([{"action": "consume", "patterns": ["*"]}, {"action": "admin"}]);
    let changed =
        narad.root(Method::PUT, "/v1/users/ann/grants", &json!({"grants": grants})).await.is(200).json();
    assert_eq!(changed["grants"], grants);
    assert!(changed["updated_at_ms"].as_i64() >= created["updated_at_ms"].as_i64());
    let none = narad.root(Method::PUT, "/v1/users/ann/grants", &json!({"grants": []})).await.is(200).json();
    assert_eq!(none.get("grants"), None);

    narad.root(Method::PUT, "/v1/users/ann/password", &json!({"new_password": "other"})).await.is(204);
    narad.root(Method::DELETE, "/v1/users/ann", &Value::Null).await.is(204);
    for (method, path, body) in [
        (Method::GET, "/v1/users/ann", Value::Null),
        (Method::DELETE, "/v1/users/ann", Value::Null),
        (Method::PUT, "/v1/users/ann/grants", json!({"grants": []})),
        (Method::PUT, "/v1/users/ann/password", json!({"new_password": "x"})),
    ] {
        assert!(narad.root(method, path, &body).await.error(404).contains("ann"), "{path}");
    }
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_user_is_refused_and_named() {
    let narad = Secured::start().await;
    let user = |name: &str, password: &str, grants: Value| json!({"username": name, "password": password, "grants": grants});
    for (body, named) in [
        (user("", "p", json!([])), "username"),
        (user(&"x".repeat(65), "p", json!([])), "username"),
        (user("a b", "p", json!([])), "username"),
        (user("a:b", "p", json!([])), "username"),
        (user("..", "p", json!([])), "username"),
        (user("ann", "", json!([])), "password"),
        (user("ann", &"x".repeat(73), json!([])), "password"),
        (user("ann", "p", json!([{"action": "delete", "patterns": ["*"]}])), "delete"),
        (user("ann", "p", json!([{"action": "produce"}])), "grants"),
        (user("ann", "p", json!([{"action": "produce", "patterns": ["a*b"]}])), "a*b"),
        (user("ann", "p", json!([{"action": "produce", "patterns": ["a"], "topic": 1}])), "topic"),
        (json!({"username": "ann"}), "password"),
        (json!({"username": "ann", "password": "p", "root": true}), "root"),
    ] {
        let error = narad.root(Method::POST, "/v1/users", &body).await.error(400);
        assert!(error.contains(named), "{body}: {error}");
        assert!(!error.contains(&"x".repeat(73)), "no password in an error: {error}");
    }
    narad.root(Method::POST, "/v1/users", &user(&"x".repeat(64), &"y".repeat(72), json!([]))).await.is(201);
    narad.root(Method::PUT, "/v1/users/admin/password", &json!({})).await.error(400);
    narad.root(Method::PUT, "/v1/users/admin/password", &json!({"new_password": ""})).await.error(400);
    narad.root(Method::GET, "/v1/users/%20", &Value::Null).await.error(400);
    narad.stop().await;
}

/// Everything that must be 403 for somebody who is no admin, or is one but not root.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_more_than_they_were_given() {
    let narad = Secured::start().await;
    narad.user("plain", PASSWORD, json!([{"action": "produce", "patterns": ["*"]}])).await;
    narad.user("boss", PASSWORD, json!([{"action": "admin"}])).await;
    narad.user("other", PASSWORD, json!([])).await;
    let new = |grants: Value| json!({"username": "new", "password": "p", "grants": grants});
    let admin = json!([{"action": "admin"}]);
    for (who, method, path, body) in [
        ("plain", Method::GET, "/v1/users", Value::Null),
        ("plain", Method::POST, "/v1/users", new(json!([]))),
        ("plain", Method::GET, "/v1/users/plain", Value::Null),
        ("plain", Method::DELETE, "/v1/users/other", Value::Null),
        ("plain", Method::DELETE, "/v1/users/plain", Value::Null),
        ("plain", Method::PUT, "/v1/users/plain/grants", json!({"grants": admin})),
        ("plain", Method::PUT, "/v1/users/other/password", json!({"new_password": "x"})),
        ("plain", Method::PUT, "/v1/users/nobody/password", json!({"new_password": "x"})),
        ("plain", Method::PUT, "/v1/users/plain/password", json!({"new_password": "x"})),
        (
            "plain",
            Method::PUT,
            "/v1/users/plain/password",
            json!({"new_password": "x", "current_password": "y"}),
        ),
        ("plain", Method::GET, "/v1/directories", Value::Null),
        ("plain", Method::POST, "/v1/directories/d/adopt", Value::Null),
        ("boss", Method::POST, "/v1/users", new(admin.clone())),
        ("boss", Method::PUT, "/v1/users/other/grants", json!({"grants": admin})),
        ("boss", Method::PUT, "/v1/users/boss/grants", json!({"grants": []})),
        ("boss", Method::PUT, "/v1/users/admin/grants", json!({"grants": []})),
        ("boss", Method::PUT, "/v1/users/admin/password", json!({"new_password": "x"})),
        ("boss", Method::DELETE, "/v1/users/admin", Value::Null),
        ("boss", Method::DELETE, "/v1/users/boss", Value::Null),
        ("admin", Method::DELETE, "/v1/users/admin", Value::Null),
        ("admin", Method::PUT, "/v1/users/admin/grants", json!({"grants": []})),
    ] {
        let password = if who == "admin" { ROOT_PASSWORD } else { PASSWORD };
        let answer = narad.ask(who, password, method.clone(), path, &body).await;
        assert_eq!(answer.status, 403, "{who} {method} {path}: {answer:?}");
        answer.error(403);
    }
    let list = narad.root(Method::GET, "/v1/users", &Value::Null).await.json();
    assert_eq!(list.as_array().unwrap().len(), 4, "{list}");

    // What they may.
    narad
        .ask(
            "boss",
            PASSWORD,
            Method::POST,
            "/v1/users",
            &new(json!([{"action": "consume", "patterns": ["*"]}])),
        )
        .await
        .is(201);
    narad
        .ask("boss", PASSWORD, Method::PUT, "/v1/users/new/password", &json!({"new_password": "n"}))
        .await
        .is(204);
    narad.ask("boss", PASSWORD, Method::DELETE, "/v1/users/new", &Value::Null).await.is(204);
    narad.ask("boss", PASSWORD, Method::GET, "/v1/directories", &Value::Null).await.is(200);
    let own = json!({"new_password": "mine", "current_password": PASSWORD});
    narad.ask("plain", PASSWORD, Method::PUT, "/v1/users/plain/password", &own).await.is(204);
    narad.ask("plain", "mine", Method::GET, "/v1/topics", &Value::Null).await.is(200);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_route_of_a_topic_takes_its_own_grant_or_its_owner() {
    let narad = Secured::start().await;
    let grant = |action: &str, patterns: Value| json!([{"action": action, "patterns": patterns}]);
    narad.user("owner", PASSWORD, grant("create", json!(["own*"]))).await;
    for action in ["produce", "consume", "create"] {
        narad.user(&format!("{action}-it"), PASSWORD, grant(action, json!(["own"]))).await;
        narad.user(&format!("{action}-all"), PASSWORD, grant(action, json!(["o*"]))).await;
        narad.user(&format!("{action}-else"), PASSWORD, grant(action, json!(["other", "own-*"]))).await;
    }
    narad.user("none", PASSWORD, json!([])).await;
    let ask = async |who: &str, method: Method, path: &str, body: Value| -> Answer {
        narad.ask(who, PASSWORD, method, path, &body).await
    };
    let made = ask("owner", Method::POST, "/v1/topics", json!({"name": "own"})).await.is(201).json();
    assert_eq!(made["owner"], "owner");
    ask("owner", Method::POST, "/v1/topics", json!({"name": "foreign"})).await.error(403);

    let routes = [
        ("produce", Method::POST, "/v1/topics/own/produce", json!({"a": 1}), 202),
        ("produce", Method::POST, "/v1/topics/own/produce/batch", json!({"messages": [{"payload": 1}]}), 202),
        ("consume", Method::GET, "/v1/topics/own/consume", Value::Null, 0),
        ("consume", Method::GET, "/v1/topics/own/consume?partition=0&offset=99", Value::Null, 204),
        ("consume", Method::POST, "/v1/topics/own/ack?receipt_handle=none", Value::Null, 400),
        ("see", Method::GET, "/v1/topics/own", Value::Null, 200),
        ("own", Method::PATCH, "/v1/topics/own", json!({"retention_ms": 0}), 200),
    ];
    let mut who = vec!["admin".to_owned(), "owner".to_owned(), "none".to_owned()];
    for action in ["produce", "consume", "create"] {
        who.extend(["it", "all", "else"].map(|what| format!("{action}-{what}")));
    }
    for (needs, method, path, body, good) in &routes {
        for user in &who {
            let (granted, about) = user.split_once('-').unwrap_or((user, ""));
            let matching = about == "it" || about == "all";
            let may = user == "admin"
                || match *needs {
                    "see" => user == "owner" || matching,
                    "own" => user == "owner",
                    action => granted == action && matching,
                };
            let password = if user == "admin" { ROOT_PASSWORD } else { PASSWORD };
            let answer = narad.ask(user, password, method.clone(), path, body).await;
            let status = answer.status.as_u16();
            if may {
                assert!(
                    status == *good || (*good == 0 && [200, 204].contains(&status)),
                    "{user} {path}: {answer:?}"
                );
            } else {
                assert!(answer.error(403).len() > 8, "{user} {path}");
            }
        }
    }
    // The list shows what one may see.
    for (user, names) in
        [("owner", vec!["own"]), ("none", vec![]), ("produce-it", vec!["own"]), ("create-else", vec![])]
    {
        let page = ask(user, Method::GET, "/v1/topics", Value::Null).await.is(200).json();
        let found: Vec<&str> =
            page["topics"].as_array().unwrap().iter().map(|topic| topic["name"].as_str().unwrap()).collect();
        assert_eq!(found, names, "{user}");
        assert_eq!(page["next_page_token"], "");
    }
    // A topic that is not there.
    ask("none", Method::GET, "/v1/topics/missing", Value::Null).await.error(404);
    ask("none", Method::DELETE, "/v1/topics/missing", Value::Null).await.error(404);
    ask("none", Method::POST, "/v1/topics/missing/produce", json!(1)).await.error(403);
    // Of all of them only the owner deletes it.
    for user in ["none", "produce-all", "consume-it", "create-all"] {
        ask(user, Method::DELETE, "/v1/topics/own", Value::Null).await.error(403);
    }
    ask("owner", Method::DELETE, "/v1/topics/own", Value::Null).await.is(204);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_the_list_is_filled_with_what_one_may_see() {
    let narad = Secured::start().await;
    narad.user("ann", PASSWORD, json!([{"action": "consume", "patterns": ["b*"]}])).await;
    for name in ["a1", "b1", "b2", "c1", "b3", "d1"] {
        narad.root(Method::POST, "/v1/topics", &json!({"name": name})).await.is(201);
    }
    let (mut token, mut pages) = (String::new(), Vec::new());
    loop {
        let path = format!("/v1/topics?limit=2&page_token={token}");
        let page = narad.ask("ann", PASSWORD, Method::GET, &path, &Value::Null).await.is(200).json();
        pages.push(page["topics"].as_array().unwrap().len());
        token = page["next_page_token"].as_str().unwrap().to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(pages, [2, 1]);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_users_topics_have_no_owner_and_its_successor_no_claim() {
    let narad = Secured::start().await;
    let grants = json!([{"action": "create", "patterns": ["*"]}]);
    narad.user("ann", PASSWORD, grants.clone()).await;
    narad.ask("ann", PASSWORD, Method::POST, "/v1/topics", &json!({"name": "t"})).await.is(201);
    narad.root(Method::DELETE, "/v1/users/ann", &Value::Null).await.is(204);
    narad.ask("ann", PASSWORD, Method::GET, "/v1/topics", &Value::Null).await.error(401);
    narad.user("ann", "another", json!([])).await;
    narad.ask("ann", PASSWORD, Method::GET, "/v1/topics", &Value::Null).await.error(401);
    narad.ask("ann", "another", Method::DELETE, "/v1/topics/t", &Value::Null).await.error(403);
    narad.ask("ann", "another", Method::GET, "/v1/topics/t", &Value::Null).await.error(403);
    let topic = narad.root(Method::GET, "/v1/topics/t", &Value::Null).await.is(200).json();
    assert_eq!(topic.get("owner"), None);
    narad.root(Method::DELETE, "/v1/topics/t", &Value::Null).await.is(204);
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn users_and_their_topics_are_there_after_a_restart() {
    let narad = Secured::start().await;
    narad.user("ann", PASSWORD, json!([{"action": "create", "patterns": ["t"]}])).await;
    narad.ask("ann", PASSWORD, Method::POST, "/v1/topics", &json!({"name": "t"})).await.is(201);
    narad.root(Method::PUT, "/v1/users/admin/password", &json!({"new_password": "changed"})).await.is(204);
    let dir = narad.stop().await;
    // The variable is of the first start alone.
    let narad = Secured::start_in(dir, |_| ()).await;
    assert!(narad.server().generated_password().is_none());
    narad.root(Method::GET, "/v1/users", &Value::Null).await.error(401);
    narad.ask("admin", "changed", Method::GET, "/v1/users/ann", &Value::Null).await.is(200);
    let topic = narad.ask("ann", PASSWORD, Method::GET, "/v1/topics/t", &Value::Null).await.is(200).json();
    assert_eq!(topic["owner"], "ann");
    narad.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_security_off_anybody_manages_users_and_a_lost_root_password_is_replaced() {
    let narad = Secured::start().await;
    let dir = narad.stop().await;
    let open = Secured::start_in(dir, |config| config.security.enabled = false).await;
    open.open(Method::PUT, "/v1/users/admin/password", &json!({"new_password": "found again"})).await.is(204);
    let topic = open.open(Method::POST, "/v1/topics", &json!({"name": "t"})).await.is(201).json();
    assert_eq!(topic.get("owner"), None);
    open.open(Method::POST, "/v1/users", &json!({"username": "admin", "password": "p"})).await.error(409);
    let dir = open.stop().await;
    let narad = Secured::start_in(dir, |_| ()).await;
    narad.root(Method::GET, "/v1/topics", &Value::Null).await.error(401);
    narad.ask("admin", "found again", Method::GET, "/v1/topics/t", &Value::Null).await.is(200);
    narad.stop().await;
}
