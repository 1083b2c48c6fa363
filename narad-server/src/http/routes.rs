//! The routes as a connection calls them.
//!
//! Single messages come and go by three of them. Those are found here, ahead of the router, which makes some thirty
//! allocations of its own for a request: more work than all else that is done for a message. The router has them too, and
//! answers for the methods that they do not take. Both ways lead through the same checks to the same handlers.

use std::{convert::Infallible, pin::Pin, task};

use axum::{
    Router,
    body::Body,
    extract::{MatchedPath, Request, State},
    http::{Method, request::Parts},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use tower_service::Service;

use super::{
    ACK, Access, ApiError, App, CONSUME, Link, PRODUCE, Peer, admit, body, counting, head,
    identity::Identity,
    messages,
    params::{Query, TopicPath},
    settle,
};
use crate::security::Caller;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The routes of a broker, and what others serve beside them. Cheap to clone.
///
/// As a [`Service`] it takes requests that carry the [`Peer`] as an extension, and the [`Link`] of their connection if a
/// client that leaves is to be noticed.
#[derive(Debug, Clone)]
pub struct Routes {
    app: App,
    access: Access,
    router: Router,
    /// Whether those of single messages are among them.
    carry_messages: bool,
}

/// A request that may be answered: its head, who sends it, and all of its body.
struct Admitted {
    parts: Parts,
    caller: Caller,
    body: Bytes,
}

/// The routes of single messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Single {
    Produce,
    Consume,
    Ack,
}

impl Routes {
    /// What `router` serves, for those that `access` names.
    pub(super) fn new(app: App, access: Access, router: Router<App>, carry_messages: bool) -> Self {
        // One layer for all that is done to a request on its way: each has a price.
        let router = router.layer(from_fn_with_state((app.clone(), access), pass)).with_state(app.clone());
        Self { app, access, router, carry_messages }
    }

    /// Answers a request that `peer` sends over `link`.
    pub async fn answer<B>(&self, mut request: Request<B>, peer: Peer, link: Link) -> Response
    where
        B: hyper::body::Body<Data = Bytes, Error: Into<BoxError>> + Unpin + Send + 'static,
    {
        let single =
            self.carry_messages.then(|| Single::find(request.method(), request.uri().path())).flatten();
        let Some((route, topic)) = single else {
            request.extensions_mut().insert(peer);
            request.extensions_mut().insert(link);
            let Ok(response) = self.router.clone().call(request.map(Body::new)).await;
            return response;
        };
        let path = Some(route.path());
        let answer = |request| async {
            match prepare(&self.app, self.access, path, request).await {
                Ok(admitted) => route.answer(self.app.clone(), topic, peer, link, admitted).await,
                Err(refusal) => refusal,
            }
        };
        counting::count(&self.app, path, request, answer).await
    }
}

impl Single {
    /// The route, and the topic as the path has it.
    fn find(method: &Method, path: &str) -> Option<(Self, TopicPath)> {
        let (topic, action) = path.strip_prefix("/v1/topics/")?.split_once('/')?;
        let route = match (method, action) {
            (&Method::POST, "produce") => Self::Produce,
            (&Method::GET, "consume") => Self::Consume,
            (&Method::POST, "ack") => Self::Ack,
            _ => return None,
        };
        (!topic.is_empty()).then(|| TopicPath::decode(topic)).flatten().map(|topic| (route, topic))
    }

    fn path(self) -> &'static str {
        match self {
            Self::Produce => PRODUCE,
            Self::Consume => CONSUME,
            Self::Ack => ACK,
        }
    }

    async fn answer(
        self,
        app: App,
        topic: TopicPath,
        peer: Peer,
        link: Link,
        admitted: Admitted,
    ) -> Response {
        let Admitted { parts, caller, body } = admitted;
        let (app, query) = (State(app), Query::parse(parts.uri.query().unwrap_or_default()));
        let identity = || Identity::of(&caller, peer);
        match self {
            Self::Produce => {
                let identity = identity();
                messages::produce(app, caller, identity, topic, query, body).await.into_response()
            }
            Self::Consume => {
                let identity = identity();
                // Large beside the others, and what an idle connection holds is made for the largest.
                Box::pin(messages::consume(app, caller, identity, link, topic, query)).await.into_response()
            }
            Self::Ack => settle::settle(app, caller, topic, query, body).await.into_response(),
        }
    }
}

/// Takes a request of the router to its handler, whatever that is: counted, and refused as early as it can be told.
async fn pass(State((app, access)): State<(App, Access)>, request: Request, next: Next) -> Response {
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let path = matched.as_ref().map(MatchedPath::as_str);
    let answer = |request| async {
        match prepare(&app, access, path, request).await {
            Ok(Admitted { mut parts, caller, body }) => {
                parts.extensions.insert(caller);
                next.run(Request::from_parts(parts, Body::from(body))).await
            }
            Err(refusal) => refusal,
        }
    };
    counting::count(&app, path, request, answer).await
}

/// The request as handlers take it: whoever sent it may, and its body is there; or the answer that refuses it.
async fn prepare<B>(
    app: &App,
    access: Access,
    path: Option<&str>,
    request: Request<B>,
) -> Result<Admitted, Response>
where
    B: hyper::body::Body<Data = Bytes> + Unpin,
{
    head::check(app, &request).map_err(ApiError::into_response)?;
    let (request, caller) = admit::check(app, access, path, request).await?;
    let (parts, body) = body::collect(app, path, request).await.map_err(ApiError::into_response)?;
    Ok(Admitted { parts, caller, body })
}

impl Service<Request> for Routes {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> task::Poll<Result<(), Infallible>> {
        task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let peer = request.extensions().get().copied().unwrap_or_default();
        let link = request.extensions().get().cloned().unwrap_or_default();
        let routes = self.clone();
        Box::pin(async move { Ok(routes.answer(request, peer, link).await) })
    }
}

/// Routes that layers can be put around.
impl From<Routes> for Router {
    fn from(routes: Routes) -> Self {
        Self::new().fallback_service(routes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_routes_of_single_messages_are_found_by_method_and_path_and_no_others() {
        let find = |method: Method, path: &str| {
            Single::find(&method, path).map(|(route, TopicPath(topic))| (route.path(), topic))
        };
        let found = |path, topic: &str| Some((path, topic.to_owned()));
        assert_eq!(find(Method::POST, "/v1/topics/t/produce"), found(PRODUCE, "t"));
        assert_eq!(find(Method::GET, "/v1/topics/a%2Fb%zz/consume"), found(CONSUME, "a/b%zz"));
        assert_eq!(find(Method::POST, "/v1/topics/.../ack"), found(ACK, "..."));
        for (method, path) in [
            (Method::GET, "/v1/topics/t/produce"),
            (Method::HEAD, "/v1/topics/t/consume"),
            (Method::POST, "/v1/topics/t/produce/"),
            (Method::POST, "/v1/topics/t/produce/batch"),
            (Method::POST, "/v1/topics/t/produce?key=k"),
            (Method::POST, "/v1/topics//produce"),
            (Method::POST, "/v1/topics/produce"),
            (Method::POST, "/v1/topics/%ff/produce"),
            (Method::POST, "/v1/topics/a/b/produce"),
            (Method::POST, "v1/topics/t/produce"),
        ] {
            assert_eq!(find(method.clone(), path), None, "{method} {path}");
        }
    }
}
