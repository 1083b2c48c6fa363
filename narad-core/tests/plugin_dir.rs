//! What a plugin keeps beside the data: durable when it was written, whole whatever fails, and nowhere else.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a test"
)]

mod store_support;

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use narad_core::{
    Error,
    disk::Disk,
    format::Batch,
    plugin::{
        Codec, Incarnation, LogIdentity, MAX_PLUGIN_FILE_BYTES, MAX_PLUGIN_FILES, PluginContext, PluginDir,
        PluginPlace, Registry,
    },
    store::Store,
    testkit::{Failure, Fault, SimDisk, seed},
};
use store_support::{Bench, Verbatim, p, topic};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct NoKeys {}

/// The directory that a constructor of the plugin "keeper" is handed.
fn dir_in(context: &PluginContext<'_>) -> Option<PluginDir> {
    let handed = Arc::new(Mutex::new(None));
    let mut registry = Registry::new();
    let seen = Arc::clone(&handed);
    let number = Verbatim.number();
    let build = move |_: NoKeys, context: &PluginContext<'_>| {
        *seen.lock().unwrap() = context.dir().cloned();
        Ok(Arc::new(Verbatim) as Arc<dyn Codec>)
    };
    registry.codec(narad_core::origin!(), "keeper", number, build).unwrap();
    registry.build_codec(&"keeper".into(), context).unwrap();
    handed.lock().unwrap().take()
}

fn names_in(disk: &SimDisk, dir: &str) -> Vec<String> {
    let entries = disk.list(Path::new(dir)).unwrap();
    entries.into_iter().map(|entry| entry.name.into_string().unwrap()).collect()
}

fn context() -> PluginContext<'static> {
    PluginContext::new(LogIdentity::named("orders"))
}

fn alone(disk: &SimDisk) -> PluginDir {
    dir_in(&context().in_dir(Arc::new(disk.clone()), "/data/plugins")).unwrap()
}

fn of_topic(store: &Store, id: u64) -> PluginDir {
    dir_in(&context().in_place(store.plugin_place("orders", Incarnation::new(id)))).unwrap()
}

#[test]
fn without_a_place_there_is_no_directory() {
    assert!(dir_in(&context()).is_none());
}

#[test]
fn what_was_written_survives_a_power_loss_and_what_was_removed_stays_away() {
    let disk = SimDisk::new(seed());
    disk.plant_dir("/data");
    let dir = alone(&disk);
    assert_eq!((dir.list().unwrap(), dir.read("a").unwrap()), (vec![], None));
    assert!(names_in(&disk, "/data").is_empty(), "looking creates nothing");
    dir.write("b", b"first").unwrap();
    dir.write("a", b"").unwrap();
    dir.write("b", b"second").unwrap();
    dir.remove("gone").unwrap();
    disk.power_loss();
    let dir = alone(&disk);
    assert_eq!(dir.list().unwrap(), ["a", "b"]);
    assert_eq!(dir.read("b").unwrap().unwrap(), b"second");
    assert_eq!(dir.read("a").unwrap().unwrap(), b"");
    assert_eq!(disk.contents("/data/plugins/keeper/b").unwrap(), b"second");
    dir.remove("b").unwrap();
    disk.power_loss();
    assert_eq!(alone(&disk).list().unwrap(), ["a"]);
}

#[test]
fn a_name_that_is_a_path_is_refused_before_the_disk_is_asked() {
    let disk = SimDisk::new(1);
    disk.plant_dir("/data");
    disk.plant("/data/secret", b"not a plugin's");
    let dir = alone(&disk);
    let long = "x".repeat(101);
    for name in ["", ".", "..", "../secret", "/data/secret", "a/b", "a\\b", ".a", "a.tmp", "a\0", "ä", &long]
    {
        for refused in [dir.read(name).map(drop), dir.write(name, b""), dir.remove(name)] {
            assert!(matches!(refused, Err(Error::InvalidArgument { .. })), "{name:?}: {refused:?}");
        }
    }
    assert!(disk.calls().is_empty());
}

#[test]
fn sizes_and_numbers_are_bounded() {
    let disk = SimDisk::new(1);
    disk.plant_dir("/data");
    let dir = alone(&disk);
    let largest = vec![7; MAX_PLUGIN_FILE_BYTES];
    dir.write("0", &largest).unwrap();
    assert_eq!(dir.read("0").unwrap().unwrap(), largest);
    let refused = dir.write("1", &vec![7; MAX_PLUGIN_FILE_BYTES + 1]).unwrap_err();
    assert!(refused.to_string().contains("1 has 4194305 bytes"), "{refused}");
    for number in 1..MAX_PLUGIN_FILES {
        dir.write(&number.to_string(), b"").unwrap();
    }
    let refused = dir.write("one-more", b"").unwrap_err();
    assert!(refused.to_string().contains("256"), "{refused}");
    dir.write("0", b"replaced").unwrap();
    disk.plant("/data/plugins/keeper/1", vec![0; MAX_PLUGIN_FILE_BYTES + 1]);
    assert!(matches!(dir.read("1"), Err(Error::Unusable { .. })));
}

#[test]
fn whatever_call_fails_or_is_the_last_one_there_is_the_old_or_the_new_content() {
    let seed = seed();
    for (call, power) in (1..60).flat_map(|call| [(call, false), (call, true)]) {
        let disk = SimDisk::new(seed + call);
        disk.plant_dir("/data");
        alone(&disk).write("dictionary", b"old").unwrap();
        let fault = Fault::fail_all(Failure::Io).at(call);
        disk.inject(if power { fault.onwards() } else { fault });
        let written = alone(&disk).write("dictionary", b"new, and longer");
        disk.clear_faults();
        disk.power_loss();
        let found = alone(&disk).read("dictionary").unwrap().unwrap();
        match written {
            Ok(()) => assert_eq!(found, b"new, and longer", "call {call}"),
            Err(_) => {
                assert!([&b"old"[..], b"new, and longer"].contains(&&found[..]), "call {call}: {found:?}")
            }
        }
        assert_eq!(alone(&disk).list().unwrap(), ["dictionary"], "call {call}");
        alone(&disk).write("dictionary", b"again").unwrap();
        assert_eq!(names_in(&disk, "/data/plugins/keeper"), ["dictionary"], "nothing unfinished stays");
    }
}

#[test]
fn a_full_disk_is_said_and_takes_nothing_away() {
    let disk = SimDisk::new(1);
    disk.plant_dir("/data");
    let dir = alone(&disk);
    dir.write("dictionary", b"old").unwrap();
    disk.set_capacity(Some(disk.used_bytes() + 10));
    assert!(matches!(dir.write("dictionary", &[0; 100]), Err(Error::DiskFull { .. })));
    assert_eq!(dir.read("dictionary").unwrap().unwrap(), b"old");
    dir.write("dictionary", b"small").unwrap();
}

#[test]
fn a_topics_plugins_lie_in_its_directory_and_go_with_it() {
    let bench = Bench::new(1);
    let store = bench.open();
    let dir = of_topic(&store, 1);
    assert_eq!(
        (dir.list().unwrap(), bench.names("/data/topics")),
        (vec![], vec![]),
        "looking creates nothing"
    );
    dir.write("dictionary", b"of the first").unwrap();
    assert_eq!(bench.names("/data/topics/orders/plugins/keeper"), ["dictionary"]);
    store.log(&topic("orders", 1), p(0)).unwrap().commit(Batch::of(b"", b"x")).unwrap();
    store.close().unwrap();
    assert!(matches!(dir.list(), Err(Error::Closed)));

    let store = bench.open();
    assert_eq!(of_topic(&store, 1).read("dictionary").unwrap().unwrap(), b"of the first");
    store.delete_topic("orders", Incarnation::new(1)).unwrap();
    assert!(bench.names("/data/topics").is_empty());
    for gone in [of_topic(&store, 1).write("dictionary", b"late"), of_topic(&store, 1).list().map(drop)] {
        assert!(matches!(gone, Err(Error::InvalidArgument { .. })), "{gone:?}");
    }
    assert!(bench.names("/data/topics").is_empty(), "a late write makes no directory");
}

#[test]
fn in_04_another_incarnation_sees_nothing_of_it() {
    let bench = Bench::new(1);
    let store = bench.open();
    of_topic(&store, 1).write("dictionary", b"of the first").unwrap();
    let second = of_topic(&store, 2);
    assert_eq!((second.list().unwrap(), second.read("dictionary").unwrap()), (vec![], None));
    second.write("other", b"of the second").unwrap();
    assert_eq!(second.list().unwrap(), ["other"]);
    assert!(of_topic(&store, 1).write("dictionary", b"late").is_err());
    let aside = "/data/topics/orders.stale-0000000000000001/plugins/keeper/dictionary";
    assert_eq!(bench.disk.contents(aside).unwrap(), b"of the first");
}

#[test]
fn a_link_in_the_directorys_place_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let store =
        Store::open(&narad_core::runtime::Runtime::default(), root.path(), Default::default()).unwrap();
    of_topic(&store, 1).write("a", b"1").unwrap();
    let (elsewhere, own) = (root.path().join("elsewhere"), root.path().join("topics/orders/plugins/keeper"));
    std::fs::rename(&own, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &own).unwrap();
    let dir = of_topic(&store, 1);
    for refused in [dir.read("a").map(drop), dir.write("a", b""), dir.remove("a"), dir.list().map(drop)] {
        assert!(matches!(refused, Err(Error::Unusable { .. })), "{refused:?}");
    }
    assert_eq!(std::fs::read(elsewhere.join("a")).unwrap(), b"1");
    store.close().unwrap();
}

#[test]
fn files_are_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    let disk = Arc::new(narad_core::disk::OsDisk);
    dir_in(&context().in_dir(disk, root.path().join("plugins"))).unwrap().write("key", b"1").unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&root.path().join("plugins/keeper")), 0o700);
    assert_eq!(mode(&root.path().join("plugins/keeper/key")), 0o600);
}

#[test]
fn a_place_of_somebodys_own_will_do() {
    #[derive(Debug)]
    struct Shut;
    impl PluginPlace for Shut {
        fn look(&self, _: narad_core::plugin::Visit<'_>) -> narad_core::Result<()> {
            Err(Error::Closed)
        }
        fn change(&self, _: narad_core::plugin::Visit<'_>) -> narad_core::Result<()> {
            Err(Error::Closed)
        }
    }
    let dir = dir_in(&context().in_place(Arc::new(Shut))).unwrap();
    assert!(matches!(dir.list(), Err(Error::Closed)));
}
