//! The metastore of a single node: a redb file in the data directory.
//!
//! Every transaction runs on tokio's blocking threads; each write is synced before it is answered.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use narad_core::{disk::Disk, plugin::Incarnation};
use parking_lot::{Mutex, RwLock};
use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable, StorageError, WriteTransaction};
use tokio::sync::watch;

use super::{
    Link, Linked, MetaError, MetaStore, NewLink, SchemaVersion, Topic, TopicChange, User, UserChange,
    failure::Failure,
    file,
    link::check_retention,
    linking::{self, expect_topic, put},
    record,
    reserve::Reserve,
    schemas,
    tables::{DELETED, FOLDED, NUMBERS, TOPICS, USERS, open_if_there},
    users,
};

/// How often a reserve that was used up is tried to be set aside again.
const REFILL_INTERVAL: Duration = Duration::from_secs(5);

/// The embedded metastore. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RedbMetaStore(Arc<Inner>);

struct Inner {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    reserve: Reserve,
    /// Whether a task waits for room to set aside again what was used up.
    refilling: AtomicBool,
    /// `None` once closed, and after a failure: redb refuses everything once a file operation of its own has failed, also after the
    /// cause is gone, so the next call opens the file anew.
    database: RwLock<Option<Database>>,
    /// Writers wait here and not inside redb, so that the version moves in the order of the commits.
    writer: Mutex<()>,
    version: watch::Sender<u64>,
    closed: AtomicBool,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedbMetaStore").field("path", &self.path).finish_non_exhaustive()
    }
}

impl RedbMetaStore {
    /// Whether `dir` holds no metadata, not even damaged ones.
    ///
    /// # Errors
    /// When that cannot be found out.
    pub fn is_missing(disk: &dyn Disk, dir: &Path) -> io::Result<bool> {
        file::is_missing(disk, &file::path_in(dir))
    }

    /// Opens `meta.redb` in `dir`, creating both durably. The caller holds the data directory's lock. Blocks.
    ///
    /// # Errors
    /// The directory or the file cannot be used: it is damaged, cut short, or something else than a registry. It is
    /// never replaced by an empty one.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path) -> Result<Self, MetaError> {
        let path = file::path_in(dir);
        let open = || {
            let database = file::open_or_create(&*disk, &path)?;
            let version = read(&database, stored_version)?;
            Ok((database, version))
        };
        let (database, version) = open().map_err(|failure: Failure| failure.of_open(&path))?;
        let (version, _) = watch::channel(version);
        let reserve = Reserve::new(Arc::clone(&disk), dir);
        let _ = reserve.fill();
        Ok(Self(Arc::new(Inner {
            disk,
            path,
            reserve,
            refilling: AtomicBool::new(false),
            database: RwLock::new(Some(database)),
            writer: Mutex::new(()),
            version,
            closed: AtomicBool::new(false),
        })))
    }

    /// Runs `work` in a transaction that only reads.
    async fn reading<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ReadTransaction) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, MetaError> {
        self.on_database(|_, database| read(database, work).map_err(Failure::of_read)).await
    }

    /// Runs `work` in a transaction of its own, syncs it, and moves the version. `work` gets the new version.
    async fn writing<T: Send + 'static>(
        &self,
        work: impl Fn(&WriteTransaction, u64) -> Result<T, Failure> + Send + Sync + 'static,
    ) -> Result<T, MetaError> {
        self.writing_once(Arc::new(work)).await
    }

    /// The same for a change that makes room: on a full disk it is written into the reserve.
    async fn making_room<T: Send + 'static>(
        &self,
        work: impl Fn(&WriteTransaction, u64) -> Result<T, Failure> + Send + Sync + 'static,
    ) -> Result<T, MetaError> {
        let work = Arc::new(work);
        loop {
            let outcome = self.writing_once(Arc::clone(&work)).await;
            if !matches!(outcome, Err(MetaError::DiskFull { .. })) || !self.release_reserve().await {
                return outcome;
            }
        }
    }

    /// Gives back a part of what is set aside, and sees to it that it is set aside again once there is room. Answers
    /// whether there was any.
    async fn release_reserve(&self) -> bool {
        let inner = Arc::clone(&self.0);
        let released = tokio::task::spawn_blocking(move || inner.reserve.release()).await.unwrap_or(false);
        if released && !self.0.refilling.swap(true, Ordering::AcqRel) {
            let store = Arc::downgrade(&self.0);
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(REFILL_INTERVAL).await;
                    let Some(inner) = store.upgrade().filter(|inner| !inner.closed.load(Ordering::Acquire))
                    else {
                        return;
                    };
                    if Self(inner).refill_reserve().await {
                        return;
                    }
                }
            });
        }
        released
    }

    /// Sets aside again what a full disk has used up. Answers whether all of it is.
    async fn refill_reserve(&self) -> bool {
        let inner = Arc::clone(&self.0);
        let fill = move || {
            let filled = inner.reserve.fill();
            if filled {
                inner.refilling.store(false, Ordering::Release);
            }
            filled
        };
        tokio::task::spawn_blocking(fill).await.unwrap_or(false)
    }

    async fn writing_once<T: Send + 'static>(
        &self,
        work: Arc<impl Fn(&WriteTransaction, u64) -> Result<T, Failure> + Send + Sync + 'static>,
    ) -> Result<T, MetaError> {
        self.on_database(move |inner, database| {
            let _one_at_a_time = inner.writer.lock();
            let transaction = file::begin_write(database)?;
            let version = {
                let mut numbers = transaction.open_table(NUMBERS)?;
                let version = numbers.get("version")?.map_or(0, |stored| stored.value()).saturating_add(1);
                numbers.insert("version", version)?;
                version
            };
            let answer = work(&transaction, version)?;
            transaction.commit()?;
            inner.version.send_replace(version);
            Ok(answer)
        })
        .await
    }

    async fn on_database<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner, &Database) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, MetaError> {
        let inner = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || {
            inner.reopen_if_failed()?;
            let outcome = match inner.database.read().as_ref() {
                Some(database) => work(&inner, database),
                None => Err(Failure::NotBegun(StorageError::PreviousIo.into())),
            };
            if let Err(Failure::Store(_) | Failure::NotBegun(_)) = &outcome {
                // Whoever still reads finishes first; then the file is closed, and opened again: at once, as the
                // change may have been made after all. When that fails, by the next call.
                *inner.database.write() = None;
                let _ = inner.reopen_if_failed();
            }
            outcome.map_err(MetaError::from)
        });
        match done.await {
            Ok(outcome) => outcome,
            Err(stopped) => Err(MetaError::Failed { source: Arc::new(stopped) }),
        }
    }
}

impl Inner {
    /// Opens the file again after a failure; never makes a new one.
    ///
    /// After a failed sync this reads what the system has in memory and perhaps not on the disk. No part of that
    /// counts: a commit does only once a first sync of all its pages has succeeded.
    fn reopen_if_failed(&self) -> Result<(), MetaError> {
        if self.database.read().is_some() {
            return Ok(());
        }
        let mut slot = self.database.write();
        // Under the lock, so that a close does not come in between.
        if self.closed.load(Ordering::Acquire) {
            return Err(MetaError::Closed);
        }
        if slot.is_none() {
            let reopen = || {
                let database = file::open(&*self.disk, &self.path)?;
                let version = read(&database, stored_version)?;
                Ok((database, version))
            };
            let (database, version) = reopen().map_err(|failure: Failure| failure.of_open(&self.path))?;
            *slot = Some(database);
            // A change that was answered as failed may be there.
            self.version.send_if_modified(|known| {
                let is_new = *known < version;
                *known = version.max(*known);
                is_new
            });
            tracing::info!(path = %self.path.display(), "opened the metastore again after a failure");
        }
        Ok(())
    }
}

fn read<T>(
    database: &Database,
    work: impl FnOnce(&ReadTransaction) -> Result<T, Failure>,
) -> Result<T, Failure> {
    work(&database.begin_read()?)
}

fn stored_version(transaction: &ReadTransaction) -> Result<u64, Failure> {
    let stored = transaction.open_table(NUMBERS)?.get("version")?;
    Ok(stored.map_or(0, |stored| stored.value()))
}

/// Takes the name of a topic that is about to be added.
fn take_name(transaction: &WriteTransaction, topic: &Topic) -> Result<(), Failure> {
    let folded_name = topic.name.to_ascii_lowercase();
    let mut folded = transaction.open_table(FOLDED)?;
    if let Some(existing) = folded.get(folded_name.as_str())? {
        return Err(Failure::Refused(MetaError::Exists {
            existing: existing.value().into(),
            wanted: Arc::clone(&topic.name),
        }));
    }
    if let Some(owner) = &topic.owner {
        // Deleted since it asked: the next user of the name must not find a topic of its own.
        users::expect(&transaction.open_table(USERS)?, owner)?;
    }
    folded.insert(folded_name.as_str(), &*topic.name)?;
    transaction.open_table(DELETED)?.remove(topic.id.to_string().as_str())?;
    Ok(())
}

/// Gives a topic that is about to be added the first version of its schema.
fn first_schema(
    transaction: &WriteTransaction,
    topic: &mut Topic,
    schema: Option<&str>,
) -> Result<(), Failure> {
    if let Some(text) = schema {
        topic.schema_version = 1;
        schemas::put(transaction, topic.id, 1, text)?;
    }
    Ok(())
}

#[async_trait]
impl MetaStore for RedbMetaStore {
    fn version(&self) -> watch::Receiver<u64> {
        self.0.version.subscribe()
    }

    async fn create_topic_with_schema(
        &self,
        topic: Topic,
        schema: Option<Arc<str>>,
    ) -> Result<Topic, MetaError> {
        let _ = self.refill_reserve().await;
        self.writing(move |transaction, version| {
            let mut topic = topic.clone();
            take_name(transaction, &topic)?;
            first_schema(transaction, &mut topic, schema.as_deref())?;
            put(&mut transaction.open_table(TOPICS)?, &mut topic, version)?;
            Ok(topic)
        })
        .await
    }

    async fn create_child(
        &self,
        child: Topic,
        schema: Option<Arc<str>>,
        link: NewLink,
    ) -> Result<Linked, MetaError> {
        let _ = self.refill_reserve().await;
        self.writing(move |transaction, version| {
            let mut child = child.clone();
            take_name(transaction, &child)?;
            first_schema(transaction, &mut child, schema.as_deref())?;
            linking::attach(transaction, child, &link, version)
        })
        .await
    }

    async fn attach(&self, child: &str, child_id: Incarnation, link: NewLink) -> Result<Linked, MetaError> {
        let child = child.to_owned();
        self.writing(move |transaction, version| {
            let child = expect_topic(&transaction.open_table(TOPICS)?, &child, child_id)?;
            linking::attach(transaction, child, &link, version)
        })
        .await
    }

    async fn detach(&self, child: &str, epoch: u64) -> Result<(), MetaError> {
        let child = child.to_owned();
        let was_there = AtomicBool::new(false);
        self.making_room(move |transaction, version| {
            match linking::detach(transaction, &child, epoch, version) {
                Ok(()) => was_there.store(true, Ordering::Release),
                // As with a delete.
                Err(Failure::Refused(MetaError::NotLinked { .. })) if was_there.load(Ordering::Acquire) => {}
                Err(failure) => return Err(failure),
            }
            Ok(())
        })
        .await
    }

    async fn links(&self) -> Result<Vec<Link>, MetaError> {
        self.reading(linking::links).await
    }

    async fn topic(&self, name: &str) -> Result<Option<Topic>, MetaError> {
        let name = name.to_owned();
        self.reading(move |transaction| {
            let stored = transaction.open_table(TOPICS)?.get(name.as_str())?;
            Ok(stored.map(|bytes| record::decode(&name, bytes.value())).transpose()?)
        })
        .await
    }

    async fn topics(&self, after: Option<&str>, limit: usize) -> Result<Vec<Topic>, MetaError> {
        use std::ops::Bound::{Excluded, Unbounded};
        let after = after.map(str::to_owned);
        self.reading(move |transaction| {
            let start = after.as_deref().map_or(Unbounded, Excluded);
            transaction
                .open_table(TOPICS)?
                .range::<&str>((start, Unbounded))?
                .take(limit)
                .map(|entry| {
                    let (name, bytes) = entry?;
                    Ok(record::decode(name.value(), bytes.value())?)
                })
                .collect()
        })
        .await
    }

    async fn update_topic(
        &self,
        name: &str,
        id: Incarnation,
        change: TopicChange,
    ) -> Result<Topic, MetaError> {
        let name = name.to_owned();
        let takes_room = change.schema.is_some();
        let work = move |transaction: &WriteTransaction, version| {
            let mut topics = transaction.open_table(TOPICS)?;
            let mut topic = expect_topic(&topics, &name, id)?;
            if let Some(schema) = &change.schema {
                if schema.after != topic.schema_version {
                    let current = topic.schema_version;
                    return Err(Failure::Refused(MetaError::SchemaMoved { name: name.clone(), current }));
                }
                schemas::put(transaction, id, schema.after.saturating_add(1), &schema.text)?;
                linking::pass_schema_on(transaction, &mut topics, &topic, schema, version)?;
            }
            change.apply(&mut topic);
            check_retention(&topic).map_err(MetaError::Link)?;
            put(&mut topics, &mut topic, version)?;
            Ok(topic)
        };
        if takes_room { self.writing(work).await } else { self.making_room(work).await }
    }

    async fn delete_topic(&self, name: &str, id: Incarnation) -> Result<(), MetaError> {
        let name = name.to_owned();
        let was_there = AtomicBool::new(false);
        self.making_room(move |transaction, version| {
            let mut topics = transaction.open_table(TOPICS)?;
            let mut topic = match expect_topic(&topics, &name, id) {
                Ok(topic) => topic,
                // An attempt that a full disk has failed at its last sync was made after all.
                Err(Failure::Refused(MetaError::NotFound { .. })) if was_there.load(Ordering::Acquire) => {
                    return Ok(());
                }
                Err(failure) => return Err(failure),
            };
            was_there.store(true, Ordering::Release);
            if topic.schema_version > 0 {
                schemas::remove(transaction, id)?;
            }
            linking::unlink(transaction, &mut topics, &mut topic, version)?;
            topics.remove(name.as_str())?;
            transaction.open_table(FOLDED)?.remove(name.to_ascii_lowercase().as_str())?;
            transaction.open_table(DELETED)?.insert(id.to_string().as_str(), name.as_str())?;
            Ok(())
        })
        .await
    }

    async fn schemas(&self, id: Incarnation) -> Result<Vec<SchemaVersion>, MetaError> {
        self.reading(move |transaction| schemas::all(transaction, id)).await
    }

    async fn schema(&self, id: Incarnation, version: u32) -> Result<Option<Arc<str>>, MetaError> {
        self.reading(move |transaction| schemas::one(transaction, id, version)).await
    }

    async fn is_deleted(&self, id: Incarnation) -> Result<bool, MetaError> {
        self.reading(move |transaction| {
            let Some(deleted) = open_if_there(transaction, DELETED)? else { return Ok(false) };
            Ok(deleted.get(id.to_string().as_str())?.is_some())
        })
        .await
    }

    async fn create_user(&self, user: User) -> Result<User, MetaError> {
        self.writing(move |transaction, version| users::create(transaction, &user, version)).await
    }

    async fn user(&self, name: &str) -> Result<Option<User>, MetaError> {
        let name = name.to_owned();
        self.reading(move |transaction| users::find(transaction, &name)).await
    }

    async fn users(&self) -> Result<Vec<User>, MetaError> {
        self.reading(users::all).await
    }

    async fn update_user(&self, name: &str, change: UserChange) -> Result<User, MetaError> {
        let name = name.to_owned();
        // A password that others know must be changeable on a full disk too.
        self.making_room(move |transaction, version| users::update(transaction, &name, &change, version))
            .await
    }

    async fn delete_user(&self, name: &str) -> Result<(), MetaError> {
        let (name, was_there) = (name.to_owned(), AtomicBool::new(false));
        self.making_room(move |transaction, version| {
            match users::delete(transaction, &name, version) {
                Ok(()) => was_there.store(true, Ordering::Release),
                // As for a topic.
                Err(Failure::Refused(MetaError::NoUser { .. })) if was_there.load(Ordering::Acquire) => {}
                Err(failure) => return Err(failure),
            }
            Ok(())
        })
        .await
    }

    async fn close(&self) {
        let inner = Arc::clone(&self.0);
        inner.closed.store(true, Ordering::Release);
        // Waits for whoever is at it.
        let _ = tokio::task::spawn_blocking(move || *inner.database.write() = None).await;
    }
}
