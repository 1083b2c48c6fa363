//! Accepts connections, up to the limit, until it is told to stop.

use std::{io, sync::Arc, time::Duration};

use narad_core::error::is_out_of_descriptors;
use parking_lot::Mutex;
use tokio::{
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::{JoinHandle, JoinSet},
    time::Instant,
};

use super::connection;
use crate::{broker::Broker, config::Http, http::Routes};

/// How long the loop rests when the system has no descriptor to give, so that it does not spin.
const REST: Duration = Duration::from_millis(100);

/// The loop that accepts.
#[derive(Debug)]
pub(super) struct Acceptor {
    task: JoinHandle<()>,
}

/// The connections that are open.
#[derive(Debug, Clone)]
pub(super) struct Connections(Arc<Open>);

#[derive(Debug)]
struct Open {
    slots: Arc<Semaphore>,
    count: watch::Sender<usize>,
    finishing: watch::Sender<bool>,
    tasks: Mutex<JoinSet<()>>,
}

impl Connections {
    /// At most `limit` at once.
    pub(super) fn new(limit: u32) -> Self {
        Self(Arc::new(Open {
            slots: Arc::new(Semaphore::new(usize::try_from(limit).unwrap_or(Semaphore::MAX_PERMITS))),
            count: watch::Sender::new(0),
            finishing: watch::Sender::new(false),
            tasks: Mutex::default(),
        }))
    }

    /// Closes idle connections and lets the others finish the request they are at, until `deadline`. New ones are
    /// served one request.
    pub(super) async fn finish(&self, deadline: Instant) {
        self.0.finishing.send_replace(true);
        let mut count = self.0.count.subscribe();
        let _ = tokio::time::timeout_at(deadline, count.wait_for(|&count| count == 0)).await;
    }

    /// Waits until `deadline` for those that came meanwhile, then cuts what is left.
    pub(super) async fn abort(&self, deadline: Instant) {
        self.finish(deadline).await;
        let mut left = std::mem::take(&mut *self.0.tasks.lock());
        left.shutdown().await;
    }

    fn track(&self, slot: OwnedSemaphorePermit, serving: impl Future<Output = ()> + Send + 'static) {
        let entry = Entry::new(slot, &self.0.count);
        let mut tasks = self.0.tasks.lock();
        tasks.spawn(async move {
            serving.await;
            drop(entry);
        });
        // Those that have ended are forgotten here, so the set holds little more than the open ones.
        while tasks.try_join_next().is_some() {}
    }
}

/// An open connection, as it is counted.
struct Entry {
    _slot: OwnedSemaphorePermit,
    count: watch::Sender<usize>,
}

impl Entry {
    fn new(slot: OwnedSemaphorePermit, count: &watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self { _slot: slot, count: count.clone() }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.count.send_modify(|count| *count -= 1);
    }
}

impl Acceptor {
    pub(super) fn start(
        listener: TcpListener,
        routes: Routes,
        http: Http,
        connections: Connections,
        broker: Broker,
    ) -> Self {
        Self { task: tokio::spawn(accept(listener, routes, http, connections, broker)) }
    }

    /// Accepts no more.
    pub(super) async fn stop(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

async fn accept(listener: TcpListener, routes: Routes, http: Http, connections: Connections, broker: Broker) {
    let (routes, http) = (Arc::new(routes), Arc::new(http));
    loop {
        let slots = Arc::clone(&connections.0.slots);
        // The semaphore is never closed.
        let Ok(slot) = slots.acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Answers are small and a client waits for each: delay costs more than packets.
                let _ = stream.set_nodelay(true);
                let finishing = connections.0.finishing.subscribe();
                let serving =
                    connection::serve(stream, peer, Arc::clone(&routes), Arc::clone(&http), finishing);
                connections.track(slot, serving);
            }
            // The client left before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                if is_out_of_descriptors(&error) {
                    // Idle logs may have taken the last ones, and would keep them for a minute.
                    broker.spare_descriptors().await;
                }
                tokio::time::sleep(REST).await;
            }
        }
    }
}
