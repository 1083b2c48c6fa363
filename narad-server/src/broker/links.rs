//! Children of topics: attach, detach, list, and what the fan-out is told of them.
//!
//! The metastore decides what is linked. The fan-out learns of it here, after every change and once at the start, and
//! is never asked what is linked.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use narad_core::{format::Offset, plugin::PartitionId};

use super::{Broker, BrokerError, ChildOf, Inner, catalog::TopicEntry, to_the_end};
use crate::{
    fanout::Lag,
    meta::{Link, MetaError, NewLink, Topic, TopicName},
};

/// The longest delay of a child: a year, in milliseconds.
pub const MAX_DELAY_MS: u64 = 365 * 24 * 3_600_000;
/// How long an attach waits for produces that were begun before it.
const PRODUCES_WAIT: Duration = Duration::from_secs(10);
/// How long the broker waits before it asks again for links that could not be read.
const RETRY: Duration = Duration::from_secs(1);

/// A child of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Child {
    /// Its name.
    pub name: Arc<str>,
    /// How long a message waits before it is copied, in milliseconds.
    pub delay_ms: u64,
    /// What it has not got yet.
    pub lag: Lag,
}

impl Broker {
    /// Makes `child` a child of `parent`, and answers the parent. From here on each message that is committed to the
    /// parent is copied to the child once it is `delay_ms` old; so is every message that is acknowledged after this has
    /// been answered.
    ///
    /// # Errors
    /// `NoTopic` for either; `Invalid` for a delay of more than a year; `Link` when a rule forbids it; what kept a
    /// partition of the parent from being opened, since where copying begins is not known then.
    pub async fn attach(&self, parent: &Topic, child: &Topic, delay_ms: u64) -> Result<Topic, BrokerError> {
        check_delay("delay_ms", delay_ms)?;
        let parent = self.0.catalog.same(parent).await?;
        let (broker, child, child_id) = (self.clone(), Arc::clone(&child.name), child.id);
        to_the_end(async move {
            let _linking = broker.0.fanout.linking(parent.topic.id);
            let link = broker.new_link(&parent, delay_ms).await?;
            let catalog = &broker.0.catalog;
            let linked = catalog.meta().attach(&child, child_id, link).await?;
            broker.adopt([&linked.parent, &linked.child]).await?;
            broker.settle_links().await;
            tracing::info!(parent = %linked.parent.name, child = %linked.child.name, delay_ms, "child attached");
            Ok(linked.parent)
        })
        .await
    }

    /// Creates `child` as a child from its beginning.
    pub(super) async fn create_child(
        &self,
        child: Topic,
        schema: Option<Arc<str>>,
        of: ChildOf,
    ) -> Result<Topic, BrokerError> {
        check_delay("fanout_delay_ms", of.delay_ms)?;
        let parent = self.0.catalog.same(&of.parent).await?;
        let broker = self.clone();
        to_the_end(async move {
            let _linking = broker.0.fanout.linking(parent.topic.id);
            let link = broker.new_link(&parent, of.delay_ms).await?;
            let linked = broker.0.catalog.meta().create_child(child, schema, link).await?;
            broker.adopt([&linked.parent, &linked.child]).await?;
            broker.settle_links().await;
            let (topic, parent) = (&linked.child, &linked.parent.name);
            tracing::info!(topic = %topic.name, id = %topic.id, %parent, delay_ms = of.delay_ms, "child created");
            Ok(linked.child)
        })
        .await
    }

    /// Ends the link. The child keeps what it has, and gets nothing more once this was answered.
    ///
    /// # Errors
    /// `NoTopic` for the parent; `NoChild`, or `TopicName` when no topic can have that child's name.
    pub async fn detach(&self, parent: &str, child: &str) -> Result<(), BrokerError> {
        let entry = self.0.catalog.topic(parent).await?;
        let no_child = || match TopicName::new(child) {
            Ok(_) => BrokerError::NoChild { parent: parent.to_owned(), child: child.to_owned() },
            Err(_) => BrokerError::TopicName(child.to_owned()),
        };
        let link = entry.topic.children.iter().find(|link| &*link.name == child).ok_or_else(no_child)?;
        let (broker, epoch, name) = (self.clone(), link.epoch, Arc::clone(&link.name));
        let detached = to_the_end(async move {
            broker.0.catalog.meta().detach(&name, epoch).await?;
            let _turn = broker.0.links.lock().await;
            broker.0.fanout.remove(epoch).await;
            tracing::info!(parent = %entry.topic.name, child = %name, "child detached");
            Ok(())
        });
        match detached.await {
            Err(BrokerError::Meta(MetaError::NotLinked { .. })) => Err(no_child()),
            outcome => outcome,
        }
    }

    /// The topic and its children, by name, with what each has not got yet. Opens no log.
    ///
    /// # Errors
    /// `NoTopic`.
    pub async fn children(&self, parent: &str) -> Result<(Topic, Vec<Child>), BrokerError> {
        let entry = self.0.catalog.topic(parent).await?;
        let epochs: Vec<u64> = entry.topic.children.iter().map(|link| link.epoch).collect();
        let lags = self.0.fanout.lags(&epochs).await;
        let children = entry.topic.children.iter().zip(lags);
        let children = children.map(|(link, lag)| {
            let (name, delay_ms) = (Arc::clone(&link.name), link.delay_ms);
            Child { name, delay_ms, lag }
        });
        Ok((entry.topic.clone(), children.collect()))
    }

    async fn adopt(&self, topics: [&Topic; 2]) -> Result<(), BrokerError> {
        for topic in topics {
            self.0.catalog.adopt(topic.clone(), topic.version).await?;
        }
        Ok(())
    }

    /// A link that begins at the tail of `parent`.
    ///
    /// A message may be in its partition before its producer has been answered. So those who produce while the tail is
    /// looked at are waited for: whoever is answered after the attach has its message behind the tail.
    async fn new_link(&self, parent: &TopicEntry, delay_ms: u64) -> Result<NewLink, BrokerError> {
        let mut offsets: Vec<Offset> = Vec::new();
        for partition in (0..parent.topic.partitions).map(PartitionId) {
            offsets.push(self.0.store.log_async(parent.spec()?, partition).await?.high_watermark());
        }
        let produces = parent.life.in_flight.settled();
        tokio::time::timeout(PRODUCES_WAIT, produces).await.map_err(|_| BrokerError::Overloaded)?;
        let (name, parent_id) = (Arc::clone(&parent.topic.name), parent.topic.id);
        Ok(NewLink { parent: name, parent_id, delay_ms, offsets: offsets.into() })
    }

    /// Has the fan-out copy along the links that the metastore has, and no others; what it copied along others has
    /// ended when this returns. What cannot be read now is read again by [`follow_links`](Self::follow_links).
    pub(super) async fn settle_links(&self) {
        if let Err(error) = self.try_settle_links().await {
            tracing::warn!(%error, "the links between topics could not be read yet");
        }
    }

    async fn try_settle_links(&self) -> Result<(), MetaError> {
        let _turn = self.0.links.lock().await;
        let links: Vec<Link> =
            self.0.catalog.meta().links().await.inspect_err(|_| self.0.fanout.forget_certainty())?;
        self.0.fanout.set_links(links).await;
        Ok(())
    }

    /// Settles links whenever the metadata have changed, for as long as somebody has the broker.
    pub(super) fn follow_links(&self) {
        let mut version = self.0.catalog.meta().version();
        let broker: Weak<Inner> = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            loop {
                version.mark_unchanged();
                let settled = match broker.upgrade() {
                    Some(inner) => Self(inner).try_settle_links().await,
                    None => return,
                };
                match settled {
                    Ok(()) => {
                        if version.changed().await.is_err() {
                            return;
                        }
                    }
                    Err(MetaError::Closed) => return,
                    Err(error) => {
                        tracing::debug!(%error, "the links between topics could not be read yet");
                        tokio::time::sleep(RETRY).await;
                    }
                }
            }
        });
    }
}

fn check_delay(name: &'static str, delay_ms: u64) -> Result<(), BrokerError> {
    if delay_ms <= MAX_DELAY_MS {
        return Ok(());
    }
    Err(BrokerError::invalid(name, format!("at most {MAX_DELAY_MS}, a year")))
}
