//! An OTLP receiver over gRPC, in this process: it keeps what it is sent, or behaves as badly as it is told to.
#![allow(dead_code, unreachable_pub, reason = "the tests of the broker use all of it")]

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use opentelemetry_proto::tonic::{
    collector::{
        logs::v1::{
            ExportLogsServiceRequest, ExportLogsServiceResponse,
            logs_service_server::{LogsService, LogsServiceServer},
        },
        metrics::v1::{
            ExportMetricsServiceRequest, ExportMetricsServiceResponse,
            metrics_service_server::{MetricsService, MetricsServiceServer},
        },
        trace::v1::{
            ExportTraceServiceRequest, ExportTraceServiceResponse,
            trace_service_server::{TraceService, TraceServiceServer},
        },
    },
    logs::v1::LogRecord,
    metrics::v1::Metric,
    resource::v1::Resource,
    trace::v1::Span,
};
use tokio::net::TcpListener;
use tonic::{
    Request, Response, Status,
    transport::{Server, server::TcpIncoming},
};

/// How it answers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// It takes everything.
    #[default]
    Takes,
    /// It refuses everything.
    Refuses,
    /// It never answers.
    Hangs,
}

/// What came.
#[derive(Debug, Default, Clone)]
pub struct Received {
    /// Spans, in the order in which they ended.
    pub spans: Vec<Span>,
    /// Every metric of every request.
    pub metrics: Vec<Metric>,
    /// Events of the log.
    pub logs: Vec<LogRecord>,
    /// Who sent last.
    pub resource: Resource,
    /// Requests, those that were refused or never answered included.
    pub requests: usize,
}

/// A receiver on a port of its own.
#[derive(Debug, Clone)]
pub struct Receiver {
    /// Where it listens.
    pub addr: SocketAddr,
    received: Arc<Mutex<Received>>,
    manner: Manner,
}

impl Receiver {
    /// Listens on a free port, for as long as the process runs.
    ///
    /// # Errors
    /// When there is no port to be had.
    pub async fn start(manner: Manner) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let receiver = Self { addr: listener.local_addr()?, received: Arc::default(), manner };
        let server = Server::builder()
            .add_service(TraceServiceServer::new(receiver.clone()))
            .add_service(MetricsServiceServer::new(receiver.clone()))
            .add_service(LogsServiceServer::new(receiver.clone()));
        tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
        Ok(receiver)
    }

    /// What has come so far.
    pub fn received(&self) -> Received {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn take<T: Default>(&self, keep: impl FnOnce(&mut Received)) -> Result<Response<T>, Status> {
        {
            let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
            received.requests += 1;
            if self.manner == Manner::Takes {
                keep(&mut received);
            }
        }
        match self.manner {
            Manner::Takes => Ok(Response::new(T::default())),
            Manner::Refuses => Err(Status::unavailable("it was told to refuse")),
            Manner::Hangs => std::future::pending().await,
        }
    }
}

#[tonic::async_trait]
impl TraceService for Receiver {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.take(|received| {
            for of_resource in request.into_inner().resource_spans {
                received.resource = of_resource.resource.unwrap_or_default();
                received.spans.extend(of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
            }
        })
        .await
    }
}

#[tonic::async_trait]
impl MetricsService for Receiver {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.take(|received| {
            for of_resource in request.into_inner().resource_metrics {
                received.resource = of_resource.resource.unwrap_or_default();
                received
                    .metrics
                    .extend(of_resource.scope_metrics.into_iter().flat_map(|scope| scope.metrics));
            }
        })
        .await
    }
}

#[tonic::async_trait]
impl LogsService for Receiver {
    async fn export(
        &self,
        request: Request<ExportLogsServiceRequest>,
    ) -> Result<Response<ExportLogsServiceResponse>, Status> {
        self.take(|received| {
            for of_resource in request.into_inner().resource_logs {
                received.resource = of_resource.resource.unwrap_or_default();
                received.logs.extend(of_resource.scope_logs.into_iter().flat_map(|scope| scope.log_records));
            }
        })
        .await
    }
}
