//! What a broker tells of itself.

use reqwest::{Method, StatusCode};

use super::{
    Client, ClientError, Result,
    model::{Members, Readiness},
};

impl Client {
    /// Whether it is alive: false while it shuts down.
    pub(crate) async fn is_alive(&self) -> Result<bool> {
        match self.send(self.outside_v1(Method::GET, "healthz")?).await {
            Ok(_) => Ok(true),
            Err(ClientError::Refused { status: StatusCode::SERVICE_UNAVAILABLE, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// How ready it is; the error of one that is not yet says why.
    pub(crate) async fn readiness(&self) -> Result<Readiness> {
        self.json(self.outside_v1(Method::GET, "readyz")?).await
    }

    /// The nodes.
    pub(crate) async fn members(&self) -> Result<Members> {
        self.json(self.request(Method::GET, &["cluster", "members"])?).await
    }

    /// The metrics, as Prometheus text.
    pub(crate) async fn metrics(&self) -> Result<String> {
        let response = self.send(self.outside_v1(Method::GET, "metrics")?).await?;
        self.text(response).await.map(|(text, _)| text)
    }
}
