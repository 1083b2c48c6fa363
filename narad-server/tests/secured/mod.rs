//! A server with security on, whose root has a known password.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use narad_server::{config::Config, serve::Server};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::http_support::{Answer, Narad, answer};

pub const ROOT_PASSWORD: &str = "root's own";

pub struct Secured(pub Narad);

/// Makes a test's configuration one with security on.
pub fn secure(config: &mut Config) {
    config.dev = false;
    config.security.enabled = true;
    config.admin_password = Some(ROOT_PASSWORD.into());
}

impl Secured {
    pub async fn start() -> Self {
        Self::start_with(|_| ()).await
    }

    pub async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), change).await
    }

    pub async fn start_in(dir: tempfile::TempDir, change: impl FnOnce(&mut Config)) -> Self {
        let narad = Narad::start_in(dir, |config| {
            secure(config);
            change(config);
        });
        Self(narad.await)
    }

    pub fn server(&self) -> &Server {
        &self.0.server
    }

    /// A request without credentials.
    pub fn request(&self, method: Method, path: &str, body: &Value) -> RequestBuilder {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.0.client.request(method, self.0.url(path)).body(body)
    }

    pub async fn open(&self, method: Method, path: &str, body: &Value) -> Answer {
        answer(self.request(method, path, body)).await
    }

    pub async fn ask(&self, user: &str, password: &str, method: Method, path: &str, body: &Value) -> Answer {
        answer(self.request(method, path, body).basic_auth(user, Some(password))).await
    }

    pub async fn root(&self, method: Method, path: &str, body: &Value) -> Answer {
        self.ask("admin", ROOT_PASSWORD, method, path, body).await
    }

    /// Creates a user.
    pub async fn user(&self, name: &str, password: &str, grants: Value) {
        let body = json!({"username": name, "password": password, "grants": grants});
        self.root(Method::POST, "/v1/users", &body).await.is(201);
    }

    pub async fn stop(self) -> tempfile::TempDir {
        self.0.stop().await
    }
}
