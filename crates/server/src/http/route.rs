//! A route: its paths, methods and access, its parameters, and its handler.
//!
//! `routes` has the table of all routes, from which `routes::openapi` makes the description for
//! programs.

use futures::future::BoxFuture;

use super::response::Response;
use super::{Flow, ListenerKind, RequestContext};

/// A row of the table of routes.
pub(super) struct Route {
    pub(super) paths: &'static [&'static str],
    /// The methods, in the order of the field `Allow`.
    pub(super) methods: &'static [&'static str],
    pub(super) access: Access,
    /// The parameters that the handler reads; `Params` returns no others.
    pub(super) parameters: &'static [ParameterSpec],
    pub(super) handler: Handler,
    pub(super) error_form: ErrorForm,
    pub(super) summary: &'static str,
    /// The body of a POST, by its name in `openapi.json`.
    pub(super) body: Option<&'static str>,
    pub(super) answers: &'static [AnswerSpec],
    /// The statuses of errors, besides those that all guarded routes have.
    pub(super) errors: &'static [u16],
}

/// The requests that a route is open to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) reach: Reach,
    pub(super) login: LoginRule,
    /// True if the listener for health and metrics has the route, too.
    pub(super) on_admin: bool,
}

impl Access {
    /// Pages of this server, after a login if the server requires one (guard-1, guard-4).
    pub(super) const GUARDED: Access =
        Access { reach: Reach::Own, login: LoginRule::AsConfigured, on_admin: false };
    /// All requests, on both listeners.
    pub(super) const OPEN: Access =
        Access { reach: Reach::All, login: LoginRule::Never, on_admin: true };
}

/// The pages that may request a route (guard-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Pages of this server and those of `http.cors_origins`.
    Own,
    /// The same, and links on other pages.
    Linked,
    /// All pages: it reveals only that the server exists.
    All,
}

/// The need for a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoginRule {
    AsConfigured,
    /// It reveals only that the server exists, and its health (guard-1).
    Never,
}

/// A function that answers the requests of a route.
pub(super) enum Handler {
    /// A handler that has its answer at once.
    Immediate(fn(&RequestContext<'_>) -> Response),
    /// A handler that reads the body, waits, or sends its answer in parts.
    Streaming(for<'a> fn(&'a mut RequestContext<'_>) -> BoxFuture<'a, Flow>),
}

/// The format of errors that are found before the handler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorForm {
    /// `{"error":...,"code":...,"requestId":...}`
    Sql,
    /// `{"code":...,"message":...,"errorId":...}`, as clients of the line protocol expect it.
    Lines,
}

/// A parameter of a route.
#[derive(Debug)]
pub(super) struct ParameterSpec {
    pub(super) name: &'static str,
    pub(super) place: ParameterPlace,
    pub(super) ty: ParameterType,
    pub(super) about: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParameterPlace {
    /// The query string, or a body that is a form.
    Query,
    /// A query string that is wrong without it.
    RequiredQuery,
    Header,
    /// The query string of other servers' clients; it has no effect and is not described.
    Ignored,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ParameterType {
    Text,
    Flag,
    Integer,
    Number,
    OneOf(&'static [&'static str]),
}

impl ParameterSpec {
    pub(super) const fn query(
        name: &'static str,
        ty: ParameterType,
        about: &'static str,
    ) -> ParameterSpec {
        ParameterSpec { name, place: ParameterPlace::Query, ty, about }
    }

    pub(super) const fn header(
        name: &'static str,
        ty: ParameterType,
        about: &'static str,
    ) -> ParameterSpec {
        ParameterSpec { name, place: ParameterPlace::Header, ty, about }
    }

    pub(super) const fn ignored(name: &'static str) -> ParameterSpec {
        ParameterSpec { name, place: ParameterPlace::Ignored, ty: ParameterType::Text, about: "" }
    }

    /// Returns true if it stands in the query string.
    pub(super) fn is_query(&self) -> bool {
        self.place != ParameterPlace::Header
    }
}

/// An answer that is no error.
pub(super) struct AnswerSpec {
    pub(super) status: u16,
    pub(super) about: &'static str,
    pub(super) media_types: &'static [&'static str],
    /// The schema of JSON, by its name in `openapi.json`.
    pub(super) schema: Option<&'static str>,
}

impl Route {
    /// Returns true if a listener has the route.
    pub(super) fn is_on(&self, kind: ListenerKind) -> bool {
        kind == ListenerKind::Main || self.access.on_admin
    }

    /// Returns true if all of its requests have a body.
    pub(super) fn needs_body(&self) -> bool {
        self.methods == ["POST"]
    }
}
