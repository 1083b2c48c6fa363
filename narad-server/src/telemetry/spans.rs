//! The spans of the broker, named as OpenTelemetry's conventions for HTTP and for messaging name them.
//!
//! All are at level DEBUG: without a collector a span costs a look at a static. Labels of messages (keys, payloads,
//! receipts) never become attributes.

use axum::http::HeaderMap;
use opentelemetry::{
    Context,
    trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState},
};
use tracing::{Span, field::Empty};
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// What is done with messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// They are appended to the produce log.
    Send,
    /// They go from there to their partition.
    Commit,
    /// A consumer gets them.
    Receive,
    /// A lease is acked, renewed or given back.
    Settle,
}

impl Operation {
    const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Commit => "commit",
            Self::Receive => "receive",
            Self::Settle => "settle",
        }
    }

    const fn kind(self) -> &'static str {
        match self {
            Self::Commit => "process",
            other => other.name(),
        }
    }
}

/// The span of a request: of the trace that its `traceparent` names, if it has one. A `route` that is not known yet is
/// said later, by [`routed`].
pub fn request(method: &'static str, route: Option<&str>, path: &str, headers: &HeaderMap) -> Span {
    let span = tracing::debug_span!(
        parent: None,
        "request",
        otel.name = Empty,
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method,
        http.route = Empty,
        url.path = path,
        http.response.status_code = Empty,
    );
    if !span.is_disabled() {
        if let Some(route) = route {
            span.record("otel.name", format!("{method} {route}").as_str());
            span.record("http.route", route);
        }
        if let Some(parent) = parent(headers) {
            // Refused only for a span that has begun already.
            let _ = span.set_parent(Context::new().with_remote_span_context(parent));
        }
    }
    span
}

/// The request, which runs, is one of `route`: what its [`request`] could not know.
pub fn routed(span: &Span, method: &'static str, route: &str) {
    if !span.is_disabled() {
        // The name of a span that has begun is no field of it any more.
        span.context().span().update_name(format!("{method} {route}"));
        span.record("http.route", route);
    }
}

/// The request was answered.
pub fn answered(span: &Span, status: u16) {
    if span.is_disabled() {
        return;
    }
    span.record("http.response.status_code", status);
    if status >= 500 {
        span.record("otel.status_code", "ERROR");
    }
}

/// The span of an operation on messages of `topic`.
pub fn messaging(operation: Operation, topic: &str) -> Span {
    let span = tracing::debug_span!(
        "messaging",
        otel.name = Empty,
        messaging.system = "narad",
        messaging.destination.name = topic,
        messaging.operation.name = operation.name(),
        "messaging.operation.type" = operation.kind(),
        messaging.destination.partition.id = Empty,
        messaging.message.body.size = Empty,
        messaging.batch.message_count = Empty,
    );
    if !span.is_disabled() {
        span.record("otel.name", format!("{} {topic}", operation.name()).as_str());
    }
    span
}

/// Says which messages the span is about: their partition when it is one, the size when it is one message, and their
/// number.
pub fn messages(span: &Span, messages: impl IntoIterator<Item = (u32, usize)>) {
    if span.is_disabled() {
        return;
    }
    let (mut partition, mut is_one, mut bytes, mut count) = (None, true, 0usize, 0u64);
    for (of, size) in messages {
        is_one &= partition.is_none_or(|before| before == of);
        partition = Some(of);
        (bytes, count) = (bytes.saturating_add(size), count.saturating_add(1));
    }
    if let Some(partition) = partition.filter(|_| is_one) {
        span.record("messaging.destination.partition.id", partition.to_string().as_str());
    }
    if count == 1 {
        span.record("messaging.message.body.size", bytes);
    }
    span.record("messaging.batch.message_count", count);
}

/// Where the code that runs now belongs, if that is a trace which is kept.
pub fn current() -> Option<SpanContext> {
    let context = Context::current();
    let span = context.span();
    let span = span.span_context();
    (span.is_valid() && span.is_sampled()).then(|| span.clone())
}

/// Names another trace as a cause.
pub fn link(span: &Span, cause: SpanContext) {
    span.add_link(cause);
}

/// The parent that a request names, by W3C Trace Context; nothing for what is malformed.
fn parent(headers: &HeaderMap) -> Option<SpanContext> {
    let text = headers.get("traceparent")?.to_str().ok()?.trim();
    let mut parts = text.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, len: usize| {
        text.len() == len && text.bytes().all(|byte| b"0123456789abcdef".contains(&byte))
    };
    let is_known = version == "00" && parts.next().is_none();
    let is_later = is_hex(version, 2) && version != "00" && version != "ff";
    if !(is_known || is_later) || !is_hex(trace, 32) || !is_hex(span, 16) || !is_hex(flags, 2) {
        return None;
    }
    let state = headers.get("tracestate").and_then(|state| state.to_str().ok()?.parse().ok());
    let context = SpanContext::new(
        TraceId::from_hex(trace).ok()?,
        SpanId::from_hex(span).ok()?,
        TraceFlags::new(u8::from_str_radix(flags, 16).ok()? & 1),
        true,
        state.unwrap_or(TraceState::NONE),
    );
    context.is_valid().then_some(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(traceparent: &str) -> Option<SpanContext> {
        let mut headers = HeaderMap::new();
        headers.insert("traceparent", traceparent.parse().unwrap());
        parent(&headers)
    }

    #[test]
    fn a_traceparent_is_taken_as_the_standard_says_and_otherwise_left_alone() {
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        let found = of(&format!("00-{trace}-{span}-01")).unwrap();
        assert_eq!(
            (found.trace_id().to_string().as_str(), found.span_id().to_string().as_str()),
            (trace, span)
        );
        assert!(found.is_sampled() && found.is_remote());
        assert!(!of(&format!("00-{trace}-{span}-00")).unwrap().is_sampled());
        assert!(of(&format!("cc-{trace}-{span}-01-what-comes-later")).is_some());
        for bad in [
            String::new(),
            "00".to_owned(),
            format!("ff-{trace}-{span}-01"),
            format!("00-{trace}-{span}-01-more"),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{trace}-{span}-1"),
            format!("00-{trace}{trace}-{span}-01"),
        ] {
            assert!(of(&bad).is_none(), "{bad}");
        }
    }
}
