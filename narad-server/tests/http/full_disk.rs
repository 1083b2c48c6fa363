//! Deletes and a shorter retention work on a full disk: the metadata have space set aside.
//!
//! Needs to mount a small tmpfs; where that is not allowed the test says so and is skipped.

use std::{io::Write, path::Path, process::Command};

use crate::http_support::Narad;
use reqwest::Method;

/// A tmpfs over `dir`, unmounted when dropped.
struct Mounted(std::path::PathBuf);

impl Mounted {
    fn on(dir: &Path) -> Option<Self> {
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"]).arg(dir).output();
        mount.is_ok_and(|output| output.status.success()).then(|| Self(dir.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_room_is_written_on_a_full_disk() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_mounted) = Mounted::on(dir.path()) else {
        eprintln!("notice: no tmpfs can be mounted here; the full-disk test is skipped");
        return;
    };
    let ballast = dir.path().join("ballast");
    let narad = Narad::start_in(dir, |config| {
        config.storage.data_dir.push("data");
    })
    .await;
    for name in ["a", "b"] {
        narad.create(name).await;
    }
    let mut file = std::fs::File::create(&ballast).unwrap();
    while file.write(&[0; 4096]).is_ok() {}
    let refused = narad.post("/v1/topics", r#"{"name":"c"}"#).await;
    assert!(refused.headers.contains_key("retry-after"));
    refused.error(503);
    narad.send(Method::PATCH, "/v1/topics/b", r#"{"retention_ms":3600000}"#).await.is(200);
    narad.send(Method::DELETE, "/v1/topics/a", "").await.is(204);
    narad.get("/v1/topics/a").await.error(404);
    narad.get("/v1/topics/b").await.is(200);
    std::fs::remove_file(&ballast).unwrap();
    drop(file);
    narad.create("c").await;
    let dir = narad.stop().await;
    drop(_mounted);
    drop(dir);
}
