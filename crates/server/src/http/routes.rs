//! The table of all HTTP routes.
//!
//! - routes-1. A new route is guarded: only routes that reveal nothing but the presence of a server
//!   are open to pages of other origins, or need no login (guard-1, guard-4).
//!
//! Not here: reading parameters and answering, which the modules of the handlers do.

mod openapi;

use futures::FutureExt as _;

use super::response::{Response, TEXT};
use super::route::{Access, AnswerSpec, ErrorForm, Handler, LoginRule, Reach, Route};
use super::{ListenerKind, console, exec, exp, imp, status, validate, write};

/// The common fields of routes that only read; a row has its own paths and handler.
const READING: Route = Route {
    paths: &[],
    methods: &["GET", "HEAD"],
    access: Access::GUARDED,
    parameters: &[],
    handler: Handler::Immediate(|_| Response::empty()),
    error_form: ErrorForm::Sql,
    summary: "",
    body: None,
    answers: &[],
    errors: &[],
};
/// The common fields of routes that take a statement.
const STATEMENT: Route =
    Route { methods: READS_AND_POST, body: Some("Statement"), errors: &[413], ..READING };
/// The common fields of routes that take rows.
const UPLOAD: Route = Route { methods: &["POST"], ..READING };

const READS_AND_POST: &[&str] = &["GET", "HEAD", "POST"];
const JSON: &[&str] = &["application/json"];
const PLAIN: &[&str] = &["text/plain"];
const PLAIN_OR_JSON: &[&str] = &["text/plain", "application/json"];

/// The position in `ROUTES` of the console, which also has the files below its page.
const CONSOLE: usize = 0;
/// The position in `ROUTES` of health, the answer to all other paths of the admin listener.
const HEALTH: usize = 1;

pub(super) static ROUTES: [Route; 15] = [
    Route {
        paths: &["/"],
        access: Access { reach: Reach::Linked, ..Access::GUARDED },
        handler: Handler::Immediate(|context| console::page(context.head)),
        summary: "The console",
        answers: &[answer(200, "A page.", &["text/html"], None)],
        ..READING
    },
    Route {
        paths: &["/health", "/health/ready"],
        access: Access::OPEN,
        handler: Handler::Immediate(status::ready),
        summary: "The health of the server, in JSON if `Accept` names it",
        answers: &[
            answer(200, "The server is ready.", PLAIN_OR_JSON, None),
            answer(503, "It is not ready, with the reasons.", PLAIN_OR_JSON, None),
        ],
        ..READING
    },
    Route {
        paths: &["/health/live"],
        access: Access::OPEN,
        handler: Handler::Immediate(|_| Response::new(200, TEXT, "Status: Healthy\n")),
        summary: "The liveness of the process",
        answers: &[answer(200, "The process responds.", PLAIN, None)],
        ..READING
    },
    Route {
        paths: &["/metrics"],
        access: Access { on_admin: true, ..Access::GUARDED },
        handler: Handler::Streaming(|context| status::metrics(context).boxed()),
        summary: "Metrics for Prometheus",
        answers: &[answer(200, "Lines of text.", PLAIN, None)],
        ..READING
    },
    Route {
        paths: &["/exec", "/api/v1/sql/execute"],
        parameters: exec::PARAMETERS,
        handler: Handler::Streaming(|context| exec::exec(context).boxed()),
        summary: "Execute one statement",
        answers: &[answer(200, "Rows, or the outcome of a change.", JSON, Some("Answer"))],
        errors: &[405, 413],
        ..STATEMENT
    },
    Route {
        paths: &["/api/v1/sql/validate"],
        parameters: validate::PARAMETERS,
        handler: Handler::Streaming(|context| validate::validate(context).boxed()),
        summary: "Describe the result of a statement without executing it",
        answers: &[answer(200, "The statement is valid.", JSON, Some("Validated"))],
        ..STATEMENT
    },
    Route {
        paths: &["/exp"],
        parameters: exp::PARAMETERS,
        handler: Handler::Streaming(|context| exp::export(context).boxed()),
        summary: "Export the rows of a query as a file",
        answers: &[answer(
            200,
            "A file.",
            &[
                "text/csv",
                "application/x-ndjson",
                "application/vnd.apache.parquet",
                "application/vnd.apache.arrow.stream",
            ],
            None,
        )],
        ..STATEMENT
    },
    Route {
        paths: &["/imp"],
        parameters: imp::PARAMETERS,
        handler: Handler::Streaming(|context| imp::import(context).boxed()),
        summary: "Import a file into a table with one commit",
        body: Some("File"),
        answers: &[answer(
            200,
            "All rows are durable and readable.",
            &["application/json", "text/plain"],
            None,
        )],
        errors: &[411, 413, 415, 507],
        ..UPLOAD
    },
    Route {
        paths: &["/write", "/api/v2/write"],
        parameters: write::PARAMETERS,
        handler: Handler::Streaming(|context| write::write(context).boxed()),
        error_form: ErrorForm::Lines,
        summary: "Commit lines of the line protocol with one commit",
        body: Some("Lines"),
        answers: &[
            answer(200, "With on_error=skip: bad lines were skipped.", JSON, None),
            answer(204, "All rows are durable and readable.", &[], None),
        ],
        errors: &[411, 413, 415, 421, 422, 507],
        ..UPLOAD
    },
    Route {
        paths: &["/query"],
        methods: READS_AND_POST,
        parameters: status::INFLUX_PARAMETERS,
        handler: Handler::Streaming(|context| status::influx_query(context).boxed()),
        summary: "Accept CREATE DATABASE, which agents send before they write",
        answers: &[answer(200, "The statement is accepted.", JSON, None)],
        ..READING
    },
    Route {
        paths: &["/chk"],
        parameters: status::CHECK_PARAMETERS,
        handler: Handler::Immediate(status::check),
        summary: "Check whether a table exists",
        answers: &[answer(200, "Exists, or Does not exist.", PLAIN_OR_JSON, None)],
        ..READING
    },
    Route {
        paths: &["/ping"],
        access: Access { on_admin: false, ..Access::OPEN },
        handler: Handler::Immediate(|_| status::ping()),
        summary: "The presence of a server, for clients of InfluxDB",
        answers: &[answer(204, "There is a server.", &[], None)],
        ..READING
    },
    Route {
        paths: &["/settings"],
        access: Access { login: LoginRule::Never, ..Access::GUARDED },
        handler: Handler::Immediate(|_| status::settings()),
        summary: "The supported protocols, for clients of QuestDB",
        answers: &[answer(200, "Versions and limits.", JSON, None)],
        ..READING
    },
    Route {
        paths: &["/warnings"],
        handler: Handler::Immediate(|context| status::warnings(context.server)),
        summary: "The warnings of the start, for the administrator",
        answers: &[answer(200, "An object for each warning.", JSON, Some("Warnings"))],
        ..READING
    },
    Route {
        paths: &["/openapi.json"],
        handler: Handler::Immediate(|_| openapi::description()),
        summary: "This description",
        answers: &[answer(200, "OpenAPI 3.1.", JSON, None)],
        ..READING
    },
];

const fn answer(
    status: u16,
    about: &'static str,
    media_types: &'static [&'static str],
    schema: Option<&'static str>,
) -> AnswerSpec {
    AnswerSpec { status, about, media_types, schema }
}

/// Returns the route of a path on a listener.
pub(super) fn find(path: &str, kind: ListenerKind) -> Option<&'static Route> {
    let found = ROUTES.iter().find(|route| route.paths.contains(&path) && route.is_on(kind));
    found.or(match kind {
        ListenerKind::Admin => Some(&ROUTES[HEALTH]),
        ListenerKind::Main => console::has(path).then_some(&ROUTES[CONSOLE]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_routes() {
        let path = |path, kind| find(path, kind).map(|route| route.paths[0]);
        assert_eq!(path("/api/v2/write", ListenerKind::Main), Some("/write"));
        assert_eq!(path("/api/v1/sql/execute", ListenerKind::Main), Some("/exec"));
        assert_eq!(path("/exec/", ListenerKind::Main), None);
        assert_eq!(path("/", ListenerKind::Main), Some("/"));
        assert_eq!(path("/", ListenerKind::Admin), Some("/health"));
        assert_eq!(path("/exec", ListenerKind::Admin), Some("/health"));
        assert_eq!(path("/ping", ListenerKind::Admin), Some("/health"));
        assert_eq!(path("/metrics", ListenerKind::Admin), Some("/metrics"));
    }

    #[test]
    fn rows_of_tables_come_by_post_and_all_else_can_be_read() {
        let takes = |methods: &[&str]| {
            let routes = ROUTES.iter().filter(|route| route.methods == methods);
            routes.flat_map(|route| route.paths).copied().collect::<Vec<_>>()
        };
        assert_eq!(takes(&["POST"]), ["/imp", "/write", "/api/v2/write"]);
        let statements = ["/exec", "/api/v1/sql/execute", "/api/v1/sql/validate", "/exp", "/query"];
        assert_eq!(takes(READS_AND_POST), statements);
        let all = ROUTES.iter().map(|route| route.paths.len()).sum::<usize>();
        assert_eq!(takes(READING.methods).len() + statements.len() + 3, all);
    }

    #[test]
    fn routes_are_guarded_unless_they_reveal_only_that_the_server_exists() {
        let paths = |is: fn(&Access) -> bool| {
            let routes = ROUTES.iter().filter(|route| is(&route.access));
            routes.flat_map(|route| route.paths).copied().collect::<Vec<_>>()
        };
        let health = ["/health", "/health/ready", "/health/live"];
        let reached = paths(|access| access.reach != Reach::Own);
        assert_eq!(reached, [&["/"], &health[..], &["/ping"]].concat(), "routes-1");
        let open = paths(|access| access.login == LoginRule::Never);
        assert_eq!(open, [&health[..], &["/ping", "/settings"]].concat(), "routes-1");
        for route in &ROUTES {
            let takes = |method| route.methods.contains(&method);
            assert_eq!(takes("GET"), takes("HEAD"), "{}", route.paths[0]);
        }
    }
}
