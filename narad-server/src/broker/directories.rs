//! Directories that no topic has: reclaimed once the metastore says that their topic was deleted, and given to a topic
//! when somebody asks for that.
//!
//! Whatever the metastore does not know for sure stays: data may have come from another installation, or the registry
//! from an old backup.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use narad_core::{plugin::Incarnation, store::TopicDirectory};

use super::{Broker, BrokerError, Inner, NewTopic, blocking, to_the_end};
use crate::{config::MIN_PARTITIONS, meta::Topic};

/// How often quarantined directories are looked at.
const RECLAIM_INTERVAL: Duration = Duration::from_secs(5 * 60);

impl Broker {
    /// The directories below `topics/` that no topic has, by name: some came from elsewhere, some were set aside.
    ///
    /// # Errors
    /// A failure of the disk or the metastore.
    pub async fn directories(&self) -> Result<Vec<TopicDirectory>, BrokerError> {
        let store = self.0.store.clone();
        let mut found = Vec::new();
        for directory in blocking(move || store.directories()).await?? {
            let topic = self.0.catalog.meta().topic(&directory.topic).await?;
            let is_served = !directory.quarantined
                && topic.is_some_and(|topic| directory.incarnation.is_none_or(|id| id == topic.id));
            if !is_served {
                found.push(directory);
            }
        }
        Ok(found)
    }

    /// Makes a topic of a directory that none has, with the messages and consumer positions in it. What `settings` leave
    /// open takes the default, but partitions, which are those of the directory and at least 3 (keys keep their places
    /// if that is how many there were), and retention, which is for ever: nothing goes because nobody thought of it.
    ///
    /// A crash before this is answered leaves the directory to be adopted again.
    ///
    /// # Errors
    /// `NoDirectory`; `NameTaken` when another topic has the name; `Invalid` for settings that do not fit.
    pub async fn adopt_topic(&self, entry: &str, settings: NewTopic) -> Result<Topic, BrokerError> {
        let (broker, entry) = (self.clone(), entry.to_owned());
        to_the_end(async move {
            let found = broker.directories().await?.into_iter().find(|directory| directory.entry == entry);
            let Some(directory) = found else { return Err(BrokerError::NoDirectory(entry)) };
            let catalog = &broker.0.catalog;
            if let Some(topic) = catalog.meta().topic(&directory.topic).await? {
                return Err(BrokerError::NameTaken { existing: topic.name, directory: entry });
            }
            let id = directory.incarnation.unwrap_or_else(|| Incarnation::new(rand::random()));
            let topic = broker.checked(fitting(settings, &directory)?, id).await?;
            let (store, adopted) = (broker.0.store.clone(), directory.clone());
            blocking(move || store.adopt(&adopted, id)).await??;
            let topic = catalog.meta().create_topic(topic).await?;
            catalog.adopt(topic.clone(), topic.version).await?;
            tracing::info!(topic = %topic.name, %id, directory = %directory.entry, "adopted a directory");
            Ok(topic)
        })
        .await
    }

    /// Removes the quarantined directories that `which` names and whose incarnation the metastore knows as deleted.
    pub(super) async fn reclaim(&self, which: impl Fn(&TopicDirectory) -> bool) {
        let store = self.0.store.clone();
        let directories = match blocking(move || store.quarantined()).await {
            Ok(Ok(directories)) => directories,
            Ok(Err(error)) => return tracing::warn!(%error, "quarantined directories could not be listed"),
            Err(_) => return,
        };
        for directory in directories.into_iter().filter(|one| which(one)) {
            let Some(id) = directory.incarnation else { continue };
            match self.0.catalog.meta().is_deleted(id).await {
                Ok(true) => {
                    let store = self.0.store.clone();
                    if let Ok(Err(error)) = blocking(move || store.reclaim(&directory)).await {
                        tracing::warn!(%id, %error, "a quarantined directory could not be reclaimed");
                    }
                }
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%id, %error, "whether a quarantined topic was deleted is not known")
                }
            }
        }
    }

    /// Reclaims now and then, for as long as somebody has the broker.
    pub(super) fn reclaim_from_time_to_time(&self) {
        let broker: Weak<Inner> = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            while let Some(inner) = broker.upgrade() {
                Self(inner).reclaim(|_| true).await;
                tokio::time::sleep(RECLAIM_INTERVAL).await;
            }
        });
    }
}

fn fitting(mut settings: NewTopic, directory: &TopicDirectory) -> Result<NewTopic, BrokerError> {
    settings.name = directory.topic.as_ref().to_owned();
    if settings.retention.is_none() {
        settings.retention_ms = Some(settings.retention_ms.unwrap_or(0));
    }
    let partitions = settings.partitions.filter(|&partitions| partitions > 0);
    if partitions.is_some_and(|partitions| partitions < directory.partitions) {
        let reason = format!("the directory has {}", directory.partitions);
        return Err(BrokerError::invalid("partitions", reason));
    }
    settings.partitions = Some(partitions.unwrap_or(directory.partitions.max(MIN_PARTITIONS)));
    Ok(settings)
}
