//! ST-06: `serve` raises its soft limit of open files to the hard one, and says so.

use std::process::Command;

use crate::real_broker::{Broker, serve};
use rustix::process::{Resource, getrlimit};

/// The broker as a shell starts it under a low soft limit.
fn serve_under(soft: u64, data_dir: &std::path::Path) -> Command {
    let narad = serve(data_dir);
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -S -n \"$0\" && exec \"$@\"", &soft.to_string()]);
    shell.arg(narad.get_program()).args(narad.get_args());
    shell
}

/// The soft and the hard limit of open files, as the system states them.
fn limits(pid: u32) -> (String, String) {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let mut words = line.split_whitespace().map(str::to_owned);
    (words.next().unwrap(), words.next().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn st_06_serve_raises_its_soft_descriptor_limit_to_the_hard_one() {
    let dir = tempfile::tempdir().unwrap();
    let hard = getrlimit(Resource::Nofile).maximum;
    assert!(hard.is_none_or(|hard| hard > 256), "there is room to raise it");
    let broker = Broker::spawn(serve_under(256, dir.path())).unwrap();
    let (soft, hard) = limits(broker.pid());
    assert_eq!(soft, hard);
    assert_ne!(soft, "256");
    let said = broker.said();
    let line = said.lines().find(|line| line.contains("limit of open files")).expect("it says so");
    assert!(line.contains("256") && line.contains(&hard), "old and new: {line}");
    assert!(broker.terminate().await.success());
}
