//! Authentication of requests, and checks of the pages and hosts that they come from.
//!
//! - guard-1. If a login is required, every route requires it except those that reveal only that
//!   the server exists.
//! - guard-2. An unknown user, a wrong password and an expired token get the same answer, after the
//!   same work and the same wait (auth-2, auth-3).
//! - guard-3. Passwords are checked on blocking threads (`auth`), once for all requests with the
//!   same credentials.
//! - guard-4. A page of another origin may send requests if `http.cors_origins` lists the origin,
//!   and is refused otherwise, with or without a login: no web page reads or writes a server that
//!   its viewer can reach. A new route is guarded (routes-1).
//! - guard-5. A `Host` that is no name of this server is refused: a page whose name was made to
//!   resolve to this server (DNS rebinding) would count as one of ours. Names are addresses,
//!   `localhost`, names without a point, and those of `http.hosts`; a server for other machines
//!   that requires a login may have any name, because no browser sends a password to a page under a
//!   name that it was not entered for.
//! - guard-6. GET and HEAD only read: a browser sends them for any link, with the password that it
//!   remembers.
//! - guard-7. A request that a proxy has forwarded counts as one from another machine, whatever its
//!   peer.
//!
//! Not here: authorization (`query::authorization`).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::time::sleep;

use super::response::Response;
use super::route::{ErrorForm, Reach, Route};
use super::wire::Head;
use super::{ListenerKind, RequestContext};
use crate::admission::Claimant;
use crate::auth::{Credentials, Login, Role};
use crate::config::{Auth, Config};
use crate::log::LogKind;
use crate::server_state::stopping;

/// The sender of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sender {
    /// The user name; `None` without a login.
    pub(super) user: Option<String>,
    pub(super) role: Role,
}

impl Sender {
    /// The sender of all requests where no login is required.
    pub(super) const ANYBODY: Sender = Sender { user: None, role: Role::Admin };

    /// Returns the user that the limits of users are about.
    pub(super) fn claimant(&self) -> Claimant {
        let user = self.user.as_deref().map(Arc::from);
        Claimant { user, is_admin: self.role == Role::Admin }
    }
}

impl From<Login> for Sender {
    fn from(Login { user, role }: Login) -> Sender {
        Sender { user: Some(user), role }
    }
}

/// The reason why a sender is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unknown {
    /// The request has no credentials.
    Silent,
    /// The credentials are wrong.
    Wrong,
}

/// Header fields that proxies add.
const FORWARDED: [&str; 6] =
    ["forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"];
const FORWARDED_PREFIX: &str = "x-forwarded-";

/// Returns true if every request needs a login, forwarded or not.
pub(crate) fn needs_login(config: &Config) -> bool {
    match config.http.auth {
        Auth::Required => true,
        Auth::Off => false,
        Auth::Auto => is_for_others(config.http.listen) || config.has_own_password(),
    }
}

fn is_for_others(listen: Option<SocketAddr>) -> bool {
    listen.is_some_and(|address| !address.ip().is_loopback())
}

/// Returns true if header fields say that a proxy has forwarded the request (guard-7).
fn is_forwarded(head: &Head) -> bool {
    head.field_names().any(|name| FORWARDED.contains(&name) || name.starts_with(FORWARDED_PREFIX))
}

/// Returns the sender of a request, or the answer to an unknown sender.
pub(super) async fn sender(
    context: &RequestContext<'_>,
    form: ErrorForm,
) -> Result<Sender, Response> {
    let config = &context.server.config;
    let is_forwarded = config.http.auth == Auth::Auto && is_forwarded(context.head);
    if !needs_login(config) && !is_forwarded {
        return Ok(Sender::ANYBODY);
    }
    if !needs_login(config) && !config.auth.allow_default_password {
        let message = "the request came through a proxy, and the password of this server is the \
                       well-known one: set auth.admin_password (TIDEGATE_AUTH_ADMIN_PASSWORD)";
        return Err(context.error(form, 403, message, "42501"));
    }
    match login(context).await {
        Ok(login) => Ok(login.into()),
        Err(unknown) => Err(refusal(context, form, unknown)),
    }
}

async fn login(context: &RequestContext<'_>) -> Result<Login, Unknown> {
    let (server, peer) = (context.server, context.peer);
    let authorization = context.head.field("authorization").ok_or(Unknown::Silent)?;
    let now = context.now().div_euclid(1_000_000);
    if let Some(login) = server.users.cached_login(authorization, now) {
        return Ok(login); // guard-3
    }
    if let Some(login) = server.users.log_in(authorization, now).await {
        let user = &login.user;
        server.users.succeeded(peer.ip(), user);
        let kind = LogKind::of_user("audit", "login", Some(user.as_str()));
        server.log.info_limited(kind, format_args!("http: {peer}: `{user}` has logged in"));
        return Ok(login);
    }
    let delay = server.users.failed(peer.ip(), &Credentials::name_in(authorization));
    let kind = ("audit", "login failed");
    server.log.warn_limited(kind, format_args!("http: {peer}: login: wrong name or password"));
    server.metrics.auth_failures.add(1);
    let mut phase = server.phase.clone();
    tokio::select! {
        () = sleep(delay) => {}
        () = stopping(&mut phase) => {}
    }
    Err(Unknown::Wrong)
}

fn refusal(context: &RequestContext<'_>, form: ErrorForm, unknown: Unknown) -> Response {
    let (message, code) = match unknown {
        Unknown::Silent => ("a name and a password, or a token, is needed", "28000"),
        Unknown::Wrong => ("the name or the password is wrong, or the token is", "28P01"),
    };
    let response = context.error(form, 401, message, code);
    response.with("WWW-Authenticate", "Basic realm=\"tidegate\"")
}

/// Returns the origin of the page that has sent a request, if it is not a page of this server.
fn foreign_origin<'a>(context: &'a RequestContext<'_>) -> Option<&'a str> {
    let origin = context.head.field("origin")?;
    let host = context.head.field("host").unwrap_or_default();
    let of_origin = origin.split_once("://").map_or(origin, |(_, rest)| rest);
    Some(origin).filter(|_| !of_origin.eq_ignore_ascii_case(host))
}

/// Returns the foreign origin of a request if it is one of `http.cors_origins` (guard-4).
fn listed_origin<'a>(context: &'a RequestContext<'_>) -> Option<&'a str> {
    let listed = &context.server.config.http.cors_origins;
    foreign_origin(context).filter(|it| listed.iter().any(|known| it.eq_ignore_ascii_case(known)))
}

/// Returns the name in a `Host` or an origin, without its port.
fn without_port(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

/// Returns true if a name is one of this server (guard-5).
fn is_own_name(name: &str, listed: &[String]) -> bool {
    let name = name.to_ascii_lowercase();
    let is_local = name == "localhost" || name.ends_with(".localhost");
    // A name without a point belongs to the local network; no public page has one.
    let is_short = !name.contains(['.', ':']);
    let is_listed = listed.iter().any(|known| known == "*" || *known == name);
    is_local || is_short || is_listed || name.parse::<IpAddr>().is_ok()
}

/// Returns true if the request names a host that is not this server (guard-5).
fn is_renamed(context: &RequestContext<'_>, kind: ListenerKind) -> bool {
    let config = &context.server.config;
    let is_any_name_fine = match kind {
        ListenerKind::Main => {
            is_for_others(config.http.listen) && needs_login(config) && config.http.hosts.is_empty()
        }
        // No login is ever required there; other machines and all pages may read the same.
        ListenerKind::Admin => is_for_others(config.http.admin_listen),
    };
    let host = context.head.field("host").unwrap_or_default();
    !is_any_name_fine && !is_own_name(without_port(host), &config.http.hosts)
}

/// Returns true if a browser has sent a request for a page of another origin (guard-4).
fn is_foreign(context: &RequestContext<'_>, reach: Reach) -> bool {
    // A link, an image or a form with GET has no `Origin`.
    let site = context.head.field("sec-fetch-site");
    let is_elsewhere = site.is_some_and(|site| !matches!(site, "same-origin" | "none"));
    let is_link = reach == Reach::Linked && context.head.only_reads();
    foreign_origin(context).is_some() || is_elsewhere && !is_link
}

/// Returns the reason to refuse a request that a page of another origin may have sent (guard-4,
/// guard-5).
pub(super) fn foreign_page(
    context: &RequestContext<'_>,
    reach: Reach,
    kind: ListenerKind,
) -> Option<&'static str> {
    if reach == Reach::All || listed_origin(context).is_some() {
        return None;
    }
    if is_renamed(context, kind) {
        return Some("the Host of the request is not a name of this server; http.hosts lists them");
    }
    is_foreign(context, reach).then_some("requests of web pages from elsewhere are refused")
}

/// Returns true if a request must change nothing (guard-6). With `http.get_readonly = false`, a GET
/// of a program may change data, and one of a browser may not.
pub(super) fn only_reads(context: &RequestContext<'_>) -> bool {
    let (head, config) = (context.head, &context.server.config);
    head.only_reads() && (config.http.get_readonly || may_be_browser(head))
}

/// Returns true if a browser may have sent a request by itself, or with a password that it
/// remembers.
fn may_be_browser(head: &Head) -> bool {
    let starts = |name: &str, start: &str| {
        let value = head.field(name).unwrap_or_default();
        value.get(..start.len()).is_some_and(|it| it.eq_ignore_ascii_case(start))
    };
    let has_own_fields = head.field_names().any(|name| {
        name.starts_with("sec-")
            || matches!(name, "origin" | "cookie" | "upgrade-insecure-requests")
    });
    has_own_fields || starts("authorization", "basic") || starts("user-agent", "mozilla/")
}

/// Returns the fields that let a page of another origin see an answer.
pub(super) fn cors_fields(context: &RequestContext<'_>) -> Vec<(&'static str, String)> {
    let mut fields = Vec::new();
    if !context.server.config.http.cors_origins.is_empty() {
        fields.push(("Vary", "Origin".to_owned()));
    }
    if let Some(origin) = listed_origin(context) {
        fields.push(("Access-Control-Allow-Origin", origin.to_owned()));
        fields.push(("Access-Control-Allow-Credentials", "true".to_owned()));
        fields.push(("Access-Control-Expose-Headers", "X-Request-Id".to_owned()));
    }
    fields
}

/// Returns the answer to a browser that asks whether a page may send a request; `None` if it is no
/// such question, or the page is not allowed to.
pub(super) fn preflight(context: &RequestContext<'_>, route: &Route) -> Option<Response> {
    let is_asked = context.head.method == "OPTIONS"
        && context.head.field("access-control-request-method").is_some();
    listed_origin(context).filter(|_| is_asked)?;
    let fields = "Authorization, Content-Type, Content-Encoding, Statement-Timeout, \
                  Idempotency-Key";
    let response = Response::empty()
        .with("Access-Control-Allow-Methods", route.methods.join(", "))
        .with("Access-Control-Allow-Headers", fields)
        .with("Access-Control-Max-Age", "600");
    Some(response)
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;

    fn head(fields: &str) -> Head {
        let text = format!("GET /exec HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
        Head::of_text(&mut BytesMut::from(text.as_str()))
    }

    #[test]
    fn names_of_this_server_are_addresses_local_names_and_listed_ones() {
        let listed = ["db.example".to_owned()];
        for (host, expected) in [
            ("127.0.0.1:9000", true),
            ("[::1]:9000", true),
            ("localhost", true),
            ("LOCALHOST:1", true),
            ("a.localhost", true),
            ("tidegate:9000", true),
            ("", true),
            ("DB.example:443", true),
            ("evil.example", false),
            ("evil.example.:9000", false),
            ("127.0.0.1.evil.example", false),
            ("db.example.evil.example", false),
            ("localhost.evil.example", false),
            ("127.1", false),
        ] {
            assert_eq!(is_own_name(without_port(host), &listed), expected, "guard-5: {host}");
        }
        assert!(is_own_name("evil.example", &["*".to_owned()]));
    }

    #[test]
    fn a_browser_is_known_by_what_no_page_can_leave_out() {
        for (fields, expected) in [
            ("", false),
            ("User-Agent: curl/8.5.0\r\n", false),
            ("Authorization: Bearer tg_x\r\n", false),
            ("Authorization: Token a:b\r\n", false),
            ("Authorization: Basic eDp5\r\n", true),
            ("Authorization: basic eDp5\r\n", true),
            ("User-Agent: Mozilla/5.0 (X11)\r\n", true),
            ("Sec-Fetch-Mode: navigate\r\n", true),
            ("Origin: http://x\r\n", true),
            ("Cookie: a=b\r\n", true),
        ] {
            assert_eq!(may_be_browser(&head(fields)), expected, "guard-6: {fields}");
        }
    }

    #[test]
    fn proxies_name_themselves() {
        let fields = ["Via: 1.1 x", "X-Forwarded-For: 10.0.0.9", "x-forwarded-proto: https"];
        for field in fields.into_iter().chain(["Forwarded: for=10.0.0.9", "X-Real-IP: 10.0.0.9"]) {
            assert!(is_forwarded(&head(&format!("{field}\r\n"))), "guard-7: {field}");
        }
        assert!(!is_forwarded(&head("Accept: */*\r\n")), "guard-7");
    }
}
