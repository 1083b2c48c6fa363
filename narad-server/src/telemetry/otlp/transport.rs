//! One signal's way to its collector: requests as protobuf, over gRPC or HTTP.
//!
//! Nothing here is traced, whatever the filters say of others: spans of the program are those of its own crates.

use opentelemetry_proto::tonic::collector::{
    logs::v1::{ExportLogsServiceRequest, logs_service_client::LogsServiceClient},
    metrics::v1::{ExportMetricsServiceRequest, metrics_service_client::MetricsServiceClient},
    trace::v1::{ExportTraceServiceRequest, trace_service_client::TraceServiceClient},
};
use tonic::{
    metadata::{Ascii, MetadataKey, MetadataMap, MetadataValue},
    transport::{Channel, Endpoint},
};

use super::settings::Target;
use crate::config::OtlpProtocol;

/// The way of one signal. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) enum Transport {
    Grpc {
        channel: Channel,
        headers: MetadataMap,
    },
    #[cfg(feature = "otlp-http")]
    Http {
        client: reqwest::Client,
        url: String,
        headers: axum::http::HeaderMap,
    },
}

impl Transport {
    /// A way to `target`; nothing is connected yet. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Says what cannot be used.
    pub(super) fn new(target: &Target) -> Result<Self, String> {
        match target.protocol {
            OtlpProtocol::Grpc => {
                let endpoint =
                    Endpoint::from_shared(target.endpoint.clone()).map_err(|error| error.to_string())?;
                let mut headers = MetadataMap::new();
                for (name, value) in &target.headers {
                    let name: MetadataKey<Ascii> =
                        name.parse().map_err(|_| format!("{name} is no header"))?;
                    let value: MetadataValue<Ascii> =
                        value.parse().map_err(|_| format!("the value of {name} is none of a header"))?;
                    headers.insert(name, value);
                }
                let channel = endpoint.connect_timeout(target.timeout).timeout(target.timeout).connect_lazy();
                Ok(Self::Grpc { channel, headers })
            }
            #[cfg(feature = "otlp-http")]
            OtlpProtocol::Http => http::new(target),
            #[cfg(not(feature = "otlp-http"))]
            OtlpProtocol::Http => Err("this build does not speak OTLP over HTTP".to_owned()),
        }
    }

    /// Sends spans.
    pub(super) async fn traces(&self, request: ExportTraceServiceRequest) -> Result<(), String> {
        match self {
            Self::Grpc { channel, headers } => {
                let answer = TraceServiceClient::new(channel.clone()).export(with(request, headers)).await;
                let partial = answer.map_err(said)?.into_inner().partial_success;
                accepted(partial.map(|partial| (partial.rejected_spans, partial.error_message)))
            }
            #[cfg(feature = "otlp-http")]
            Self::Http { .. } => self.post(&request).await,
        }
    }

    /// Sends series.
    pub(super) async fn metrics(&self, request: ExportMetricsServiceRequest) -> Result<(), String> {
        match self {
            Self::Grpc { channel, headers } => {
                let answer = MetricsServiceClient::new(channel.clone()).export(with(request, headers)).await;
                let partial = answer.map_err(said)?.into_inner().partial_success;
                accepted(partial.map(|partial| (partial.rejected_data_points, partial.error_message)))
            }
            #[cfg(feature = "otlp-http")]
            Self::Http { .. } => self.post(&request).await,
        }
    }

    /// Sends events of the log.
    pub(super) async fn logs(&self, request: ExportLogsServiceRequest) -> Result<(), String> {
        match self {
            Self::Grpc { channel, headers } => {
                let answer = LogsServiceClient::new(channel.clone()).export(with(request, headers)).await;
                let partial = answer.map_err(said)?.into_inner().partial_success;
                accepted(partial.map(|partial| (partial.rejected_log_records, partial.error_message)))
            }
            #[cfg(feature = "otlp-http")]
            Self::Http { .. } => self.post(&request).await,
        }
    }
}

fn with<T>(request: T, headers: &MetadataMap) -> tonic::Request<T> {
    let mut request = tonic::Request::new(request);
    *request.metadata_mut() = headers.clone();
    request
}

fn said(status: tonic::Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}

fn accepted(partial: Option<(i64, String)>) -> Result<(), String> {
    match partial {
        Some((rejected, message)) if rejected > 0 => Err(format!("{rejected} were rejected: {message}")),
        _ => Ok(()),
    }
}

#[cfg(feature = "otlp-http")]
mod http {
    use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

    use super::{Target, Transport};

    pub(super) fn new(target: &Target) -> Result<Transport, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in &target.headers {
            let known: HeaderName = name.parse().map_err(|_| format!("{name} is no header"))?;
            let value = HeaderValue::from_str(value)
                .map_err(|_| format!("the value of {name} is none of a header"))?;
            headers.insert(known, value);
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let client =
            reqwest::Client::builder().timeout(target.timeout).build().map_err(|error| error.to_string())?;
        Ok(Transport::Http { client, url: target.endpoint.clone(), headers })
    }

    impl Transport {
        pub(super) async fn post(&self, request: &impl prost::Message) -> Result<(), String> {
            let Self::Http { client, url, headers } = self else { return Ok(()) };
            let sent = client.post(url).headers(headers.clone()).body(request.encode_to_vec()).send().await;
            let answer = sent.map_err(|error| error.without_url().to_string())?;
            if answer.status().is_success() {
                Ok(())
            } else {
                Err(format!("the answer is {}", answer.status()))
            }
        }
    }
}
