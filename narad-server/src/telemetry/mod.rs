//! The program's own log, and everything that is measured: names, series, spans, and how they leave. Decides nothing; must
//! never hold up a request.

pub mod exposition;
pub mod failures;
pub mod families;
mod logging;
pub mod names;
#[cfg(feature = "otlp")]
mod otlp;
pub mod spans;

use std::sync::Arc;

use async_trait::async_trait;
use tokio::time::Instant;
use tracing_subscriber::{layer::SubscriberExt, util::SubscriberInitExt};

use self::families::Families;
use crate::config::Config;

/// Where series come from.
#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// Every series, as it is now.
    async fn collect(&self) -> Families;
}

/// What leaves the process besides the log on standard error.
#[derive(Debug)]
pub struct Telemetry {
    #[cfg(feature = "otlp")]
    otlp: Option<otlp::Otlp>,
}

/// Installs the log for the process and, if a collector is named, the way there: by the configuration or the `OTEL_`
/// variables. A second call in a process changes nothing: the first log stays, and the collector that it had. Must be called
/// within a tokio runtime.
pub fn start(config: &Config) -> Telemetry {
    let (lines, repeated) = logging::layer(&config.log);
    let mut layers = vec![lines];
    #[cfg(feature = "otlp")]
    let (otlp, unusable) = {
        let mut unusable = Vec::new();
        let variable = |name: &str| std::env::var(name).ok();
        let targets = otlp::targets(&config.telemetry, &variable, &mut unusable);
        let (otlp, more) = otlp::Otlp::start(targets, &config.node.id, &mut unusable);
        layers.extend(more);
        (otlp, unusable)
    };
    let is_first = tracing_subscriber::registry().with(layers).try_init().is_ok();
    if is_first {
        logging::keep_saying(repeated);
    }
    #[cfg(feature = "otlp")]
    otlp::tell(&unusable);
    Telemetry {
        #[cfg(feature = "otlp")]
        otlp: is_first.then_some(otlp),
    }
}

impl Telemetry {
    /// Sends the series of `source` to the collector from time to time.
    #[cfg_attr(not(feature = "otlp"), expect(unused_variables, reason = "this build sends nothing"))]
    pub fn send_series(&mut self, source: Arc<dyn Source>) {
        #[cfg(feature = "otlp")]
        if let Some(otlp) = &mut self.otlp {
            otlp.send_series(source);
        }
    }

    /// Sends what waits, until `deadline` at most: a collector that does not answer costs no more.
    #[cfg_attr(not(feature = "otlp"), expect(unused_variables, reason = "this build sends nothing"))]
    pub async fn shutdown(self, deadline: Instant) {
        #[cfg(feature = "otlp")]
        if let Some(otlp) = self.otlp {
            otlp.shutdown(deadline).await;
        }
    }
}
