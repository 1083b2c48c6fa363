//! One connection: HTTP/1.1, with the limits and times of the configuration in force.

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use hyper::{
    Request,
    body::{Frame, Incoming, SizeHint},
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
        let request = request.map(|body| Told { body, _end: BodyEnd(Arc::clone(&activity)) });
        let (routes, link, activity) = (Arc::clone(&routes), link.clone(), Arc::clone(&activity));
        async move {
            let response = routes.answer(request, client, link).await;
            Ok::<_, Infallible>(response.map(|body| Told { body, _end: RequestEnd(activity) }))
        }
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

/// A body with what is to be told when nobody holds it any more.
struct Told<B, E> {
    body: B,
    _end: E,
}

impl<B: hyper::body::Body + Unpin, E: Unpin> hyper::body::Body for Told<B, E> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The request's body has ended.
struct BodyEnd(Arc<Activity>);

impl Drop for BodyEnd {
    fn drop(&mut self) {
        self.0.body_ended();
    }
}

/// The response has ended, and the request with it.
struct RequestEnd(Arc<Activity>);

impl Drop for RequestEnd {
    fn drop(&mut self) {
        self.0.request_ended();
    }
}
