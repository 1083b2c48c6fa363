//! A file that is damaged, cut short or something else: an error that names it, never a registry with fewer topics.

use std::sync::Arc;

use crate::support::{DIR, FILE, ID, disk, names, open, open_on, topic};
use narad_core::testkit::{CallKind, Fault, Garbled, SimDisk};
use narad_server::meta::{MetaError, MetaStore, TopicChange};

const PAGE: usize = 4096;
const TOPICS: usize = 20;
/// redb's byte that says which of its two newest commits counts; nothing guards it.
const CURRENT_COMMIT: usize = 9;

/// The file of a store with 20 topics, closed well or left by a process that was killed.
async fn image(closed: bool) -> Vec<u8> {
    let disk = disk(1);
    let store = open(&disk).unwrap();
    for number in 0..TOPICS {
        store.create_topic(topic(&format!("t{number}"))).await.unwrap();
    }
    // The newest commit is a small one: to go back by it would bring a retention back.
    let change = TopicChange { retention_ms: Some(9), ..TopicChange::default() };
    store.update_topic("t7", ID, change).await.unwrap();
    if closed {
        store.close().await;
    }
    disk.contents(FILE).unwrap()
}

fn with_file(bytes: Vec<u8>) -> SimDisk {
    let disk = disk(1);
    disk.plant(FILE, bytes);
    disk
}

/// Opens a store over `bytes`: refused by name, or nothing is missing.
async fn refused_or_whole(bytes: Vec<u8>, context: &str) -> bool {
    match open(&with_file(bytes)) {
        Ok(store) => {
            assert_eq!(names(&store).await.len(), TOPICS, "{context}");
            let newest = store.topic("t7").await.unwrap().unwrap();
            assert_eq!(newest.retention_ms, 9, "{context}: an older commit is served");
            false
        }
        Err(error) => {
            let named = matches!(&error, MetaError::CannotOpen { path, .. } if path.ends_with("meta.redb"));
            assert!(named && error.to_string().contains(FILE), "{context}: {error}");
            true
        }
    }
}

#[tokio::test]
async fn a_damaged_page_is_refused_and_never_answered_by_going_back_a_commit() {
    for closed in [true, false] {
        let (good, mut refused) = (image(closed).await, 0);
        assert!(!refused_or_whole(good.clone(), "undamaged").await);
        for page in (PAGE..good.len()).step_by(PAGE) {
            for (damage, change) in [("zeroed", None), ("flipped", Some(0xff)), ("a bit", Some(1))] {
                let mut bad = good.clone();
                match change {
                    None => bad[page..page + PAGE].fill(0),
                    Some(1) => bad[page + 1] ^= 1,
                    Some(mask) => bad[page..page + PAGE].iter_mut().for_each(|byte| *byte ^= mask),
                }
                let context = format!("closed {closed}, page at {page}, {damage}");
                refused += usize::from(refused_or_whole(bad, &context).await);
            }
        }
        assert!(refused > 3, "some page counts");
    }
}

#[tokio::test]
async fn a_damaged_header_is_refused_or_harmless() {
    for closed in [true, false] {
        let good = image(closed).await;
        for at in (0..512).filter(|at| *at != CURRENT_COMMIT) {
            let mut bad = good.clone();
            bad[at] ^= 0xff;
            refused_or_whole(bad, &format!("closed {closed}, header byte {at}")).await;
        }
    }
}

#[tokio::test]
async fn a_file_of_another_length_is_refused_or_has_lost_nothing() {
    for closed in [true, false] {
        let good = image(closed).await;
        for len in (0..good.len()).step_by(PAGE).flat_map(|len| [len, len + 1, len + 2000]) {
            let refused =
                refused_or_whole(good[..len].to_vec(), &format!("closed {closed}, {len} bytes")).await;
            assert!(refused || (len > good.len() / 4 && !closed), "{len} of {} bytes", good.len());
        }
        // What a growth that the power cut short leaves.
        for more in [1, 512, PAGE - 1, PAGE, 3 * PAGE + 512] {
            let mut longer = good.clone();
            longer.resize(good.len() + more, 0);
            let refused = refused_or_whole(longer, &format!("closed {closed}, {more} bytes more")).await;
            assert!(!refused, "closed {closed}, {more} bytes more");
        }
    }
}

#[tokio::test]
async fn what_is_no_registry_is_refused_and_left_as_it_is() {
    let no_registries = [
        vec![],
        vec![0; 10],
        vec![0; PAGE],
        vec![0; 18 * PAGE],
        vec![0xab; PAGE],
        b"not a database".to_vec(),
    ];
    for bytes in no_registries {
        let disk = with_file(bytes.clone());
        for _ in 0..2 {
            let error = open(&disk).unwrap_err();
            assert!(matches!(error, MetaError::CannotOpen { .. }), "{error}");
            assert!(error.to_string().contains(FILE), "{error}");
            assert!(disk.contents(FILE) == Some(bytes.clone()), "{} bytes were changed", bytes.len());
        }
    }
}

#[tokio::test]
async fn a_database_without_the_tables_of_a_registry_is_refused() {
    let real = tempfile::tempdir().unwrap();
    let path = real.path().join("other.redb");
    redb::Database::create(&path).unwrap();
    let error = open(&with_file(std::fs::read(&path).unwrap())).unwrap_err();
    assert!(error.to_string().contains(FILE), "{error}");
}

#[tokio::test]
async fn a_directory_or_link_in_the_place_of_the_file_is_refused() {
    let (dir, link) = (disk(1), disk(1));
    dir.plant_dir(FILE);
    link.plant_other(FILE);
    for disk in [dir, link] {
        let error = open(&disk).unwrap_err();
        assert!(error.to_string().contains(FILE), "{error}");
    }
    let file = SimDisk::new(1);
    file.plant(DIR, vec![1]);
    let error = open(&file).unwrap_err();
    assert!(error.to_string().contains(DIR), "{error}");
    assert_eq!(file.contents(DIR), Some(vec![1]));
}

#[tokio::test]
async fn a_file_that_is_open_is_not_opened_again() {
    let disk = disk(1);
    let store = open(&disk).unwrap();
    let error = open(&disk).unwrap_err();
    assert!(error.to_string().contains("in use"), "{error}");
    store.close().await;
    open(&disk).unwrap();
}

#[tokio::test]
async fn what_an_interrupted_creation_left_is_made_anew() {
    let disk = disk(1);
    disk.plant("/data/meta/meta.redb.new", vec![7; 9000]);
    let store = open(&disk).unwrap();
    store.create_topic(topic("t")).await.unwrap();
    assert_eq!(disk.contents("/data/meta/meta.redb.new"), None);
}

#[tokio::test]
async fn short_reads_and_writes_are_gone_on_with() {
    let disk = disk(1);
    disk.inject(Fault::shorten(CallKind::Read, 100).onwards());
    disk.inject(Fault::shorten(CallKind::Write, 100).onwards());
    let store = open(&disk).unwrap();
    store.create_topic(topic("t")).await.unwrap();
    disk.power_loss();
    assert_eq!(names(&open(&disk).unwrap()).await, ["t"]);
}

#[tokio::test]
async fn every_byte_goes_through_the_seam() {
    let disk = disk(1);
    // The reserve is there already: to write it a byte a call takes long.
    disk.plant("/data/meta/reserve", vec![0; 1 << 20]);
    for expected in [&[][..], &["t".to_owned()]] {
        let store = open_on(Arc::new(Garbled::new(disk.clone()))).unwrap();
        assert_eq!(names(&store).await, expected);
        if expected.is_empty() {
            store.create_topic(topic("t")).await.unwrap();
        }
        store.close().await;
    }
    let stored = disk.contents(FILE).unwrap();
    assert_ne!(&stored[..4], b"redb");
    assert_eq!(&Garbled::<SimDisk>::clear(&stored[..4]), b"redb");
}
