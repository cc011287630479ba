//! Status routes: version, settings, health, metrics, warnings and the existence of tables.

use std::fmt::Write as _;
use std::sync::Arc;

use tidegate_model::limits;
use tokio::task::spawn_blocking;

use super::RequestContext;
use super::params::Params;
use super::response::{JSON, Response, TEXT};
use crate::json::push_string;
use crate::server_state::ServerState;

/// The version that InfluxDB's clients look for.
const INFLUX_VERSION: &str = "v2.7.4";

pub(super) fn ping() -> Response {
    Response::empty()
        .with("X-Influxdb-Version", INFLUX_VERSION)
        .with("X-Tidegate-Version", env!("CARGO_PKG_VERSION"))
}

/// Returns the settings that QuestDB's clients read before they choose a protocol.
pub(super) fn settings() -> Response {
    let body = format!(
        "{{\"config\":{{\"release.type\":\"OSS\",\"release.version\":\"Tidegate {}\",\
         \"line.proto.support.versions\":[1],\"ilp.proto.transports\":[\"tcp\",\"http\"],\
         \"cairo.max.file.name.length\":{},\"acl.enabled\":false}},\
         \"preferences.version\":0,\"preferences\":{{}}}}",
        env!("CARGO_PKG_VERSION"),
        limits::NAME_BYTES,
    );
    Response::new(200, JSON, body)
}

/// Describes the health of the server.
pub(super) fn ready(server: &ServerState) -> Response {
    let reasons = server.reasons_not_ready();
    if reasons.is_empty() {
        return Response::new(200, TEXT, "Status: Healthy\n");
    }
    let mut text = String::from("Status: Unhealthy\n");
    for reason in reasons {
        writeln!(text, "{reason}").expect("a String takes everything");
    }
    Response::new(503, TEXT, text).with("Retry-After", "1")
}

/// Returns the metrics for Prometheus. Those of tables may have to be read from the disk first.
pub(super) async fn metrics(context: &RequestContext<'_>) -> Response {
    let server = Arc::clone(context.server);
    match spawn_blocking(move || server.metrics_text()).await {
        Ok(text) => Response::new(200, "text/plain; version=0.0.4; charset=utf-8", text),
        Err(_) => {
            let message = "internal error: the metrics have panicked";
            Response::error(500, message, Some("XX000"), &context.request_id)
        }
    }
}

/// Returns the warnings found at the start.
pub(super) fn warnings(server: &ServerState) -> Response {
    let mut text = String::from("[");
    for (at, warning) in server.warnings.iter().enumerate() {
        text.push_str(if at == 0 { "{\"warning\":" } else { ",{\"warning\":" });
        push_string(warning, &mut text);
        text.push('}');
    }
    text.push(']');
    Response::new(200, JSON, text)
}

/// Returns whether a table exists.
pub(super) fn check(context: &RequestContext<'_>) -> Response {
    let id = &context.request_id;
    let Ok(params) = Params::parse(&context.head.query) else {
        return Response::error(400, "the address is not UTF-8, or not encoded", None, id);
    };
    let Some(table) = params.find("j").filter(|table| !table.is_empty()) else {
        return Response::error(400, "parameter `j` names no table", None, id);
    };
    let services = match context.server.services() {
        Ok(services) => services,
        Err(unready) => {
            let response = Response::error(503, &unready.to_string(), Some(unready.code()), id);
            return response.with("Retry-After", "1");
        }
    };
    let exists = services.database.table_id(table).is_some();
    let status = if exists { "Exists" } else { "Does not exist" };
    match params.find("f") {
        Some("json") => Response::new(200, JSON, format!("{{\"status\":\"{status}\"}}")),
        _ => Response::new(200, TEXT, status),
    }
}

/// The most bytes of a form with a statement of InfluxQL.
const FORM_BYTES: u64 = 64 << 10;

/// Answers the one statement of InfluxQL that agents send before they write, in the query string or
/// in a form.
pub(super) async fn influx_query(context: &mut RequestContext<'_>) -> Response {
    let mut params = Params::parse(&context.head.query).unwrap_or_default();
    if context.body.length().is_some_and(|bytes| bytes <= FORM_BYTES) {
        let mut form = Vec::new();
        while let Ok(Some(piece)) = context.body.next(context.wire).await {
            form.extend_from_slice(&piece);
        }
        // A body that is no form has no statement.
        let _ = params.add(&String::from_utf8_lossy(&form));
    }
    let statement = params.find("q").unwrap_or_default().trim().to_ascii_lowercase();
    let mut words = statement.split_whitespace();
    if (words.next(), words.next()) == (Some("create"), Some("database")) {
        return Response::new(200, JSON, "{\"results\":[{\"statement_id\":0}]}");
    }
    let message = "InfluxQL is not supported; /exec takes SQL";
    Response::error(400, message, Some("0A000"), &context.request_id)
}
