//! Status routes: version, settings, health, metrics, warnings and the existence of tables.

use std::fmt::Write as _;
use std::sync::Arc;

use tidegate_model::limits;
use tokio::task::spawn_blocking;

use super::params::Params;
use super::response::{JSON, Response, TEXT};
use super::route::{ParameterPlace, ParameterSpec, ParameterType};
use super::wire::Head;
use super::{Flow, RequestContext};
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
pub(super) fn ready(context: &RequestContext<'_>) -> Response {
    let reasons = context.server.reasons_not_ready();
    let response = match wants_json(context.head) {
        true => Response::new(200, JSON, health_object(&reasons)),
        false => Response::new(200, TEXT, health_lines(&reasons)),
    };
    let response = response.with("Vary", "Accept");
    match reasons.is_empty() {
        true => response,
        false => Response { status: 503, ..response.with("Retry-After", "1") },
    }
}

/// Returns true if a client names JSON in `Accept`, as those of InfluxDB do.
fn wants_json(head: &Head) -> bool {
    let accepted = head.field("accept").unwrap_or_default();
    let mut types = accepted.split(',').filter_map(|choice| choice.split(';').next());
    types.any(|ty| ty.trim().eq_ignore_ascii_case("application/json"))
}

/// Returns the health in QuestDB's form, with a line for each reason.
fn health_lines(reasons: &[&str]) -> String {
    let status = if reasons.is_empty() { "Healthy" } else { "Unhealthy" };
    let mut text = format!("Status: {status}\n");
    for reason in reasons {
        writeln!(text, "{reason}").expect("a String takes everything");
    }
    text
}

/// Returns the health in InfluxDB's form, with a check for each reason.
fn health_object(reasons: &[&str]) -> String {
    let (status, message) = match reasons.is_empty() {
        true => ("pass", "ready for queries and writes".to_owned()),
        false => ("fail", reasons.join(", ")),
    };
    let check = |reason: &&str| format!("{{\"name\":\"{reason}\",\"status\":\"fail\"}}");
    let checks = reasons.iter().map(check).collect::<Vec<_>>().join(",");
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "{{\"name\":\"tidegate\",\"message\":\"{message}\",\"status\":\"{status}\",\
         \"checks\":[{checks}],\"version\":\"{version}\"}}"
    )
}

/// Returns the metrics for Prometheus. Those of tables may have to be read from the disk first.
pub(super) async fn metrics(context: &mut RequestContext<'_>) -> Flow {
    let server = Arc::clone(context.server);
    match spawn_blocking(move || server.metrics_text()).await {
        Ok(text) => {
            let content_type = "text/plain; version=0.0.4; charset=utf-8";
            context.respond(Response::new(200, content_type, text)).await
        }
        Err(_) => {
            context.refuse(500, "internal error: the metrics have panicked", Some("XX000")).await
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

/// The parameters of `/chk`.
pub(super) const CHECK_PARAMETERS: &[ParameterSpec] = &[
    ParameterSpec {
        place: ParameterPlace::RequiredQuery,
        ..ParameterSpec::query("j", ParameterType::Text, "The table.")
    },
    ParameterSpec::query("f", ParameterType::Text, "json: answer in JSON."),
];

/// The table of a request to `/chk`, and the format of the answer.
struct TableCheck<'a> {
    table: Option<&'a str>,
    is_json: bool,
}

impl TableCheck<'_> {
    fn of(params: &Params) -> TableCheck<'_> {
        let table = params.find("j").filter(|table| !table.is_empty());
        TableCheck { table, is_json: params.find("f") == Some("json") }
    }
}

/// Answers a request to `/chk`: `Exists` or `Does not exist`.
pub(super) fn check(context: &RequestContext<'_>) -> Response {
    let id = &context.request_id;
    let Ok(params) = Params::parse(&context.head.query, CHECK_PARAMETERS) else {
        return Response::error(400, "the address is not UTF-8, or not encoded", None, id);
    };
    let TableCheck { table, is_json } = TableCheck::of(&params);
    let Some(table) = table else {
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
    match is_json {
        true => Response::new(200, JSON, format!("{{\"status\":\"{status}\"}}")),
        false => Response::new(200, TEXT, status),
    }
}

/// The parameters of `/query`.
pub(super) const INFLUX_PARAMETERS: &[ParameterSpec] =
    &[ParameterSpec::query("q", ParameterType::Text, "A statement of InfluxQL.")];
/// The most bytes of a form with a statement of InfluxQL.
const FORM_BYTES: u64 = 64 << 10;

/// Answers the one statement of InfluxQL that agents send before they write, in the query string or
/// in a form.
pub(super) async fn influx_query(context: &mut RequestContext<'_>) -> Flow {
    let params = Params::parse(&context.head.query, INFLUX_PARAMETERS);
    let mut params = params.unwrap_or_else(|_| Params::none(INFLUX_PARAMETERS));
    if context.body.length().is_some_and(|bytes| bytes <= FORM_BYTES) {
        let mut form = Vec::new();
        while let Ok(Some(piece)) = context.body.next(context.wire).await {
            form.extend_from_slice(&piece);
        }
        // A body that is no form has no statement.
        let _ = params.add(&String::from_utf8_lossy(&form));
    }
    if creates_database(&params) {
        let body = "{\"results\":[{\"statement_id\":0}]}";
        return context.respond(Response::new(200, JSON, body)).await;
    }
    context.refuse(400, "InfluxQL is not supported; /exec takes SQL", Some("0A000")).await
}

fn creates_database(params: &Params) -> bool {
    let statement = params.find("q").unwrap_or_default().to_ascii_lowercase();
    let mut words = statement.split_whitespace();
    (words.next(), words.next()) == (Some("create"), Some("database"))
}

#[cfg(test)]
mod tests {
    use super::super::params::tests::check_read;
    use super::*;

    #[test]
    fn all_parameters_are_read() {
        check_read(CHECK_PARAMETERS, &[""], |params| {
            assert!(TableCheck::of(params).table.is_none())
        });
        check_read(INFLUX_PARAMETERS, &[""], |params| assert!(!creates_database(params)));
    }

    #[test]
    fn reasons_are_lines_or_checks() {
        let reasons = ["memory", "disk_full"];
        assert_eq!(health_lines(&reasons), "Status: Unhealthy\nmemory\ndisk_full\n");
        let object = health_object(&reasons);
        let expected = concat!(
            r#"{"name":"tidegate","message":"memory, disk_full","status":"fail","#,
            r#""checks":[{"name":"memory","status":"fail"},"#,
            r#"{"name":"disk_full","status":"fail"}],"version":""#,
        );
        assert!(object.starts_with(expected) && object.ends_with("\"}"), "{object}");
        assert!(health_object(&[]).contains(r#""status":"pass","checks":[],"#));
    }
}
