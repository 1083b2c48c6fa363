//! One connection: HTTP/1.1, with the limits and times of the configuration in force.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use axum::body::Body;
use hyper::{
    Request, Response,
    body::{Bytes, Frame, Incoming, SizeHint},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, sync::watch};

use super::timed_io::{Activity, TimedIo, Times};
use crate::{
    config::Http,
    http::{Link, Peer, Routes},
};

/// Serves `stream` until the client leaves, a time runs out, or `finishing` turns true and the request under way is
/// answered.
pub(super) async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    routes: Arc<Routes>,
    http: Arc<Http>,
    mut finishing: watch::Receiver<bool>,
) {
    let times = Times {
        head: http.read_header_timeout.0,
        idle: http.idle_timeout.0,
        // A client that takes nothing of its answer for so long has gone.
        write: http.idle_timeout.0,
    };
    let link = Link::default();
    let (io, activity) = TimedIo::new(stream, times, link.clone());
    let client = Peer(peer.ip().to_canonical());
    let service = service_fn(move |request: Request<Incoming>| {
        activity.request_began();
        let request = request.map(|body| Received { body, _end: BodyEnd(Arc::clone(&activity)) });
        let (routes, link, activity) = (Arc::clone(&routes), link.clone(), Arc::clone(&activity));
        async move { Ok::<_, Infallible>(tracked(routes.answer(request, client, link).await, activity)) }
    });
    let late = *finishing.borrow();
    let mut builder = http1::Builder::new();
    // `TimedIo` holds the times: hyper has one for the head alone, and would close idle connections by it.
    builder.header_read_timeout(None).max_buf_size(http.max_header_bytes as usize).keep_alive(!late);
    // Who closes its side and waits for the answer gets it; `TimedIo` tells those who wait for something else.
    builder.half_close(true);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(io), service));
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = turns_true(&mut finishing), if !late => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "a connection ended early");
    }
}

async fn turns_true(value: &mut watch::Receiver<bool>) {
    // Its sender lives as long as the connections do.
    let _ = value.wait_for(|&value| value).await;
}

/// The response, whose end is the end of the request.
fn tracked(response: Response<Body>, activity: Arc<Activity>) -> Response<Tracked> {
    response.map(|body| Tracked { body, _end: RequestEnd(activity) })
}

/// A request's body, which has ended once nobody holds it.
struct Received {
    body: Incoming,
    _end: BodyEnd,
}

struct BodyEnd(Arc<Activity>);

impl Drop for BodyEnd {
    fn drop(&mut self) {
        self.0.body_ended();
    }
}

impl hyper::body::Body for Received {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        std::pin::Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

struct Tracked {
    body: Body,
    _end: RequestEnd,
}

struct RequestEnd(Arc<Activity>);

impl Drop for RequestEnd {
    fn drop(&mut self) {
        self.0.request_ended();
    }
}

impl hyper::body::Body for Tracked {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        std::pin::Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
