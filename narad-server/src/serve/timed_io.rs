//! A connection that gives up on a client that stops: in the middle of a head, between two requests, or while it is
//! to read its answer. A request's body has a time of its own, where it is read.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::BytesMut;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep_until},
};

use crate::http::Link;

/// What is read ahead while a request runs, at most, so that a client that leaves behind more requests is missed.
const AHEAD: usize = 16 << 10;
/// How long the end of a connection waits for the client's to show whether its last answer was taken.
const LINGER: Duration = Duration::from_millis(500);
/// How long it takes to show, at most, that an answer came after the client was gone. Its end was seen by then.
const ECHO: Duration = Duration::from_millis(50);

/// A stream that knows how its connection broke.
pub(super) trait Broken {
    /// Whether the other end has refused what was sent to it.
    fn is_broken(&self) -> bool;
}

impl Broken for TcpStream {
    fn is_broken(&self) -> bool {
        !matches!(self.take_error(), Ok(None))
    }
}

/// How long a client may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// From the first byte of a head (for the first one, from the connection's start) to its last.
    pub(super) head: Duration,
    /// From the end of a request to the first byte of the next.
    pub(super) idle: Duration,
    /// To take more of an answer.
    pub(super) write: Duration,
}

/// What the connection is at. The service tells when a request begins and ends; the rest shows in the bytes.
#[derive(Debug)]
pub(super) struct Activity {
    times: Times,
    phase: Mutex<Phase>,
    link: Link,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// A head is arriving, and must be complete by then.
    Head(Instant),
    /// Nothing is under way; a head must begin by then.
    Idle(Instant),
    /// The request has its own times, and so has its body, which is arriving.
    Body,
    /// The body has arrived, or nobody wants more of it.
    Request,
}

impl Activity {
    pub(super) fn request_began(&self) {
        *self.phase.lock() = Phase::Body;
        self.link.request_began();
    }

    /// Nobody reads more of the request's body: what the client sends from here on belongs to its next request.
    pub(super) fn body_ended(&self) {
        let mut phase = self.phase.lock();
        if let Phase::Body = *phase {
            *phase = Phase::Request;
        }
    }

    pub(super) fn request_ended(&self) {
        *self.phase.lock() = Phase::Idle(Instant::now() + self.times.idle);
        self.link.request_ended();
    }

    fn bytes_arrived(&self) {
        let mut phase = self.phase.lock();
        if let Phase::Idle(_) = *phase {
            *phase = Phase::Head(Instant::now() + self.times.head);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match *self.phase.lock() {
            Phase::Head(by) | Phase::Idle(by) => Some(by),
            Phase::Body | Phase::Request => None,
        }
    }

    fn has_body(&self) -> bool {
        matches!(*self.phase.lock(), Phase::Body)
    }
}

/// A stream under the times of its [`Activity`].
#[derive(Debug)]
pub(super) struct TimedIo<S> {
    stream: S,
    activity: Arc<Activity>,
    read: Pin<Box<Sleep>>,
    /// Runs while a write waits for the client.
    write: Option<Pin<Box<Sleep>>>,
    /// Somebody has waited for bytes since the last flush, and sees for itself when the client leaves.
    is_awaited: bool,
    /// What was read ahead.
    ahead: BytesMut,
    /// The client sends no more than what is in `ahead`.
    at_end: bool,
    /// Runs while the end of the connection waits for the client's.
    linger: Option<Pin<Box<Sleep>>>,
}

impl<S> TimedIo<S> {
    /// The first head must be complete within its time from now. `link` is told of what shows of the client.
    pub(super) fn new(stream: S, times: Times, link: Link) -> (Self, Arc<Activity>) {
        let by = Instant::now() + times.head;
        let activity = Arc::new(Activity { times, phase: Mutex::new(Phase::Head(by)), link });
        let (of_io, read) = (Arc::clone(&activity), Box::pin(sleep_until(by)));
        let io = Self {
            stream,
            activity: of_io,
            read,
            write: None,
            is_awaited: false,
            ahead: BytesMut::new(),
            at_end: false,
            linger: None,
        };
        (io, activity)
    }

    /// Ready once the client has let its time for a head, or between two requests, run out.
    fn poll_overdue(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(by) = self.activity.deadline() else { return Poll::Pending };
        if self.read.deadline() != by {
            self.read.as_mut().reset(by);
        }
        self.read.as_mut().poll(cx)
    }

    /// What a write that answered `poll` is to answer.
    fn timed_write<T>(&mut self, cx: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let poll = if poll.is_ready() {
            self.write = None;
            poll
        } else {
            let limit = self.activity.times.write;
            let stalled = self.write.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + limit)));
            stalled.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
        };
        if let Poll::Ready(Err(_)) = poll {
            self.activity.link.cut_off();
        }
        poll
    }

    /// Tells what an error says of the last answer.
    fn noted<T>(&self, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(_)) = poll {
            self.activity.link.broke();
        }
        poll
    }
}

impl<S: AsyncRead + Unpin> TimedIo<S> {
    /// Reads what the client sends while nobody asks for it, to see it leave. Ready with an error when the connection
    /// breaks.
    fn look_ahead(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        while !self.at_end && self.ahead.len() < AHEAD {
            let mut bytes = [0; 1024];
            let mut buf = ReadBuf::new(&mut bytes);
            let read = Pin::new(&mut self.stream).poll_read(cx, &mut buf);
            match std::task::ready!(self.noted(read)) {
                Ok(()) if buf.filled().is_empty() => self.at_end = true,
                Ok(()) => self.ahead.extend_from_slice(buf.filled()),
                Err(error) => return Poll::Ready(error),
            }
        }
        if self.at_end {
            self.activity.link.client_left();
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Broken + Unpin> TimedIo<S> {
    /// Ready once it is as clear as it gets whether the client has taken its last answer.
    fn poll_taken(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.activity.link.is_in_doubt() {
            if self.stream.is_broken() {
                self.activity.link.broke();
                break;
            }
            if !self.at_end {
                let mut bytes = [0; 1024];
                let mut buf = ReadBuf::new(&mut bytes);
                let read = Pin::new(&mut self.stream).poll_read(cx, &mut buf);
                match self.noted(read) {
                    Poll::Ready(Ok(())) if buf.filled().is_empty() => {
                        self.at_end = true;
                        self.linger = None;
                    }
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => break,
                    Poll::Pending => return self.poll_linger(cx, LINGER),
                }
                continue;
            }
            std::task::ready!(self.poll_linger(cx, ECHO));
            if self.stream.is_broken() {
                self.activity.link.broke();
            }
            break;
        }
        Poll::Ready(())
    }

    fn poll_linger(&mut self, cx: &mut Context<'_>, time: Duration) -> Poll<()> {
        let linger = self.linger.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + time)));
        linger.as_mut().poll(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.is_awaited = false;
        if !this.ahead.is_empty() {
            let ready = this.ahead.split_to(this.ahead.len().min(buf.remaining()));
            buf.put_slice(&ready);
            this.activity.bytes_arrived();
            return Poll::Ready(Ok(()));
        }
        if this.at_end {
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buf);
        match this.noted(read) {
            Poll::Ready(Ok(())) => {
                if buf.filled().len() > before {
                    this.activity.bytes_arrived();
                } else if buf.remaining() > 0 {
                    this.at_end = true;
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                this.is_awaited = true;
                this.poll_overdue(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Broken + Unpin> AsyncWrite for TimedIo<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.timed_write(cx, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.timed_write(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_flush(cx);
        let flushed = std::task::ready!(self.timed_write(cx, poll));
        // hyper flushes at the end of each of its turns, and reads only while it wants bytes: not behind an answer
        // that it wrote at once, and not while a request runs whose successor it has read already. So here is where
        // the time after an answer begins, and where a client is missed that has left behind a second request.
        let is_awaited = std::mem::take(&mut self.is_awaited);
        let over = match self.activity.deadline() {
            Some(_) => self.poll_overdue(cx).map(|()| io::ErrorKind::TimedOut.into()),
            // Who reads the body sees for himself when it ends early.
            None if is_awaited || self.activity.has_body() => Poll::Pending,
            None => self.look_ahead(cx),
        };
        match over {
            Poll::Ready(error) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Ready(flushed),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        // Looked at first: a connection that broke refuses to be shut down.
        if this.activity.link.is_in_doubt() && this.stream.is_broken() {
            this.activity.link.broke();
        }
        let shut = Pin::new(&mut this.stream).poll_shutdown(cx);
        std::task::ready!(this.noted(shut))?;
        this.poll_taken(cx).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    impl Broken for tokio::io::DuplexStream {
        fn is_broken(&self) -> bool {
            false
        }
    }

    const TIMES: Times = Times {
        head: Duration::from_secs(10),
        idle: Duration::from_secs(60),
        write: Duration::from_secs(60),
    };

    async fn waited(io: &mut TimedIo<tokio::io::DuplexStream>) -> (Duration, io::Result<usize>) {
        let start = Instant::now();
        let outcome = io.read(&mut [0; 64]).await;
        (start.elapsed(), outcome)
    }

    fn close_to(waited: Duration, limit: Duration) -> bool {
        waited >= limit && waited < limit + Duration::from_millis(20)
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_client_and_a_slow_head_are_given_up() {
        let (mut client, server) = duplex(64);
        let (mut io, _) = TimedIo::new(server, TIMES, Link::default());
        tokio::time::advance(Duration::from_secs(4)).await;
        client.write_all(b"GET").await.unwrap();
        assert!(waited(&mut io).await.1.is_ok());
        let (time, outcome) = waited(&mut io).await;
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(close_to(time, Duration::from_secs(6)), "bytes that trickle in buy no time: {time:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn between_requests_the_idle_time_holds_and_then_the_heads() {
        let (mut client, server) = duplex(64);
        let (mut io, activity) = TimedIo::new(server, TIMES, Link::default());
        activity.request_began();
        activity.body_ended();
        let during = tokio::time::timeout(Duration::from_secs(3600), waited(&mut io)).await;
        assert!(during.is_err(), "a request under way is not timed here");
        activity.request_ended();
        tokio::time::advance(Duration::from_secs(50)).await;
        client.write_all(b"G").await.unwrap();
        assert!(waited(&mut io).await.1.is_ok());
        assert!(close_to(waited(&mut io).await.0, Duration::from_secs(10)));
        activity.request_began();
        activity.request_ended();
        assert!(close_to(waited(&mut io).await.0, Duration::from_secs(60)));
    }

    #[tokio::test]
    async fn a_body_is_left_to_who_reads_it_and_what_follows_is_read_ahead() {
        let (mut client, server) = duplex(64);
        let (mut io, activity) = TimedIo::new(server, TIMES, Link::default());
        activity.request_began();
        client.write_all(b"body").await.unwrap();
        io.flush().await.unwrap();
        assert!(io.ahead.is_empty(), "of a body it would be read piece by piece");
        assert_eq!(io.read(&mut [0; 64]).await.unwrap(), 4);
        activity.body_ended();
        client.write_all(b"next").await.unwrap();
        io.flush().await.unwrap();
        assert_eq!(io.ahead, "next");
        activity.request_ended();
        activity.body_ended();
        assert!(activity.deadline().is_some(), "a body that is dropped late changes nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_of_its_answer_is_given_up() {
        let (_client, server) = duplex(4);
        let (mut io, _) = TimedIo::new(server, TIMES, Link::default());
        let start = Instant::now();
        let error = io.write_all(b"more than fits").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(close_to(start.elapsed(), Duration::from_secs(60)));
    }
}
