//! How a run goes, while it goes: a line that is written over on a terminal, a line a second elsewhere, nothing for
//! programs. On standard error, so that results stay alone on standard output.

use std::{
    convert::Infallible,
    io::IsTerminal,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;

use super::figures::Figures;
use crate::cli::output::Output;

/// Tells of `figures` once a second, until dropped.
pub(super) async fn tell(
    phase: &str,
    figures: &Mutex<Figures>,
    started: Instant,
    out: &Output,
) -> Infallible {
    let terminal = std::io::stderr().is_terminal();
    // A template that does not parse would cost the looks, not the figures.
    let style =
        ProgressStyle::with_template("{spinner} {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
    let bar = ProgressBar::new_spinner().with_style(style);
    let pause = if terminal { Duration::from_millis(200) } else { Duration::from_secs(1) };
    let _clear = Clear(&bar);
    loop {
        tokio::time::sleep(pause).await;
        let line = format!("{phase}, {}", figures.lock().so_far(started.elapsed()));
        if terminal && !out.is_json() {
            bar.set_message(line);
            bar.tick();
        } else {
            out.remark(line);
        }
    }
}

/// Takes the line away when the run ends, however it does.
struct Clear<'a>(&'a ProgressBar);

impl Drop for Clear<'_> {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
