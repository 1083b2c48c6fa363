//! System calls made to fail from outside, by strace.
//!
//! A fault concerns the calls on the paths it names alone; without any it concerns all of them. Strace counts the
//! calls of each thread for itself, so "the second" is the second of some thread.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::Duration,
};

use tempfile::NamedTempFile;

use super::{Broker, add_arguments};

/// Whether strace is there and may trace. Says so when not.
pub fn can_trace() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| {
        // Attached, which needs more than tracing an own child.
        let Ok(mut sleeper) = Command::new("sleep").arg("10").spawn() else { return false };
        let attached = attach(sleeper.id(), &["fdatasync:error=EIO"], &[], Path::new("/dev/null"));
        let allowed = attached.is_some();
        if let Some(strace) = attached {
            detach(strace);
        }
        _ = sleeper.kill();
        _ = sleeper.wait();
        if !allowed {
            eprintln!(
                "notice: strace is not here or may not trace; the tests of failing system calls are skipped"
            );
        }
        allowed
    })
}

/// A broker's system calls fail as long as this is there.
pub struct Attached {
    strace: Option<Child>,
    trace: NamedTempFile,
}

impl Attached {
    /// Lets calls fail: each of `injections` is one of strace's, such as `fdatasync:error=EIO:when=2`.
    pub fn to(broker: &Broker, injections: &[&str], paths: &[PathBuf]) -> Self {
        let trace = NamedTempFile::new().unwrap();
        let strace = attach(broker.pid(), injections, paths, trace.path());
        let strace = strace.unwrap_or_else(|| panic!("strace does not attach with {injections:?}"));
        Self { strace: Some(strace), trace }
    }

    /// Waits until a call has failed or was delayed.
    pub async fn has_injected(&self) {
        has_injected(self.trace.path()).await;
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(strace) = self.strace.take() {
            detach(strace);
        }
    }
}

/// `narad serve --dev` whose system calls fail from its start on. The process that is started is the broker itself.
/// What strace sees goes to `trace`.
pub fn under_strace(data_dir: &Path, injections: &[&str], paths: &[PathBuf], trace: &Path) -> Command {
    let mut command = Command::new("strace");
    command.arg("-D").args(options(injections, paths)).arg("-o").arg(trace).arg(env!("CARGO_BIN_EXE_narad"));
    add_arguments(&mut command, data_dir);
    command
}

/// Waits until a call in `trace` has failed or was delayed: without one a case shows nothing.
pub async fn has_injected(trace: &Path) {
    for _ in 0..100 {
        let trace = std::fs::read(trace).unwrap();
        let trace = String::from_utf8_lossy(&trace);
        if trace.contains("INJECTED") || trace.contains("DELAYED") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("nothing was injected: the case shows nothing");
}

fn options(injections: &[&str], paths: &[PathBuf]) -> Vec<String> {
    let calls: Vec<&str> = injections.iter().filter_map(|injection| injection.split(':').next()).collect();
    let mut options = vec!["-f".to_owned(), "-e".to_owned(), format!("trace={}", calls.join(","))];
    for injection in injections {
        options.extend(["-e".to_owned(), format!("inject={injection}")]);
    }
    for path in paths {
        options.extend(["-P".to_owned(), path.display().to_string()]);
    }
    options
}

/// Returns once it traces every thread; `None` when it does not.
fn attach(pid: u32, injections: &[&str], paths: &[PathBuf], trace: &Path) -> Option<Child> {
    let mut strace = Command::new("strace")
        .args(options(injections, paths))
        .arg("-o")
        .arg(trace)
        .args(["-p", &pid.to_string()])
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let mut lines = BufReader::new(strace.stderr.take()?).lines().map_while(Result::ok);
    let attached = lines.any(|line| line.contains(" attached"));
    std::thread::spawn(move || lines.for_each(drop));
    if !attached {
        _ = strace.wait();
    }
    attached.then_some(strace)
}

/// Ends the tracing; the traced process goes on.
fn detach(mut strace: Child) {
    _ = Command::new("kill").arg(strace.id().to_string()).status();
    for _ in 0..100 {
        if !matches!(strace.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // It waits for a thread that it delays and whose process has exited.
    _ = strace.kill();
    _ = strace.wait();
}
