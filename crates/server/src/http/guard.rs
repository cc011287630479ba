//! Who sends a request, and from which page.
//!
//! - GD1. Where anybody is asked, every route asks but those that say only that there is a server.
//! - GD2. Whoever is unknown, has a wrong password or a token that is over is told the same, after
//!   the same work and the same wait (`auth` AU2, AU3).
//! - GD3. Passwords are checked on threads that may take long (`auth`), once for all requests that
//!   show the same.
//! - GD4. A page of another place may send requests if `http.cors_origins` names the place, and is
//!   refused otherwise, so that no web page writes to a server on the machine of whoever looks at
//!   it.
//!
//! Not here: what the sender may do (`query::rights`).

use std::net::IpAddr;

use tidegate_query::Deed;
use tokio::time::sleep;

use super::response::Response;
use super::{Exchange, Route, write};
use crate::auth::{Login, Role};
use crate::config::{Auth, HttpConfig};
use crate::shared::stopping;

/// Whoever sends a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sender {
    /// If he was asked.
    pub(super) user: Option<String>,
    pub(super) role: Role,
}

impl Sender {
    /// Whoever it is, where nobody is asked.
    pub(super) const ANYBODY: Sender = Sender { user: None, role: Role::Admin };
}

impl From<Login> for Sender {
    fn from(Login { user, role }: Login) -> Sender {
        Sender { user: Some(user), role }
    }
}

/// Why a request is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unknown {
    /// It does not say who sends it.
    Silent,
    /// What it shows is nobody's.
    Wrong,
}

/// Whether senders are asked who they are.
pub(super) fn asks(http: &HttpConfig) -> bool {
    match http.auth {
        Auth::Required => true,
        Auth::Off => false,
        Auth::Auto => http.listen.is_some_and(|address| !address.ip().is_loopback()),
    }
}

/// Finds out who sends a request, or says that nobody knows him.
pub(super) async fn sender(exchange: &Exchange<'_>, route: Route) -> Result<Sender, Response> {
    if !asks(&exchange.shared.config.http) {
        return Ok(Sender::ANYBODY);
    }
    match login(exchange).await {
        Ok(login) => Ok(login.into()),
        Err(unknown) => Err(refusal(exchange, route, unknown)),
    }
}

async fn login(exchange: &Exchange<'_>) -> Result<Login, Unknown> {
    let (shared, peer) = (exchange.shared, exchange.peer);
    let shown = exchange.head.field("authorization").ok_or(Unknown::Silent)?;
    let now = exchange.now().div_euclid(1_000_000);
    if let Some(login) = shared.users.known(shown, now) {
        return Ok(login); // GD3
    }
    if let Some(login) = shared.users.log_in(shown, now).await {
        shared.users.succeeded(peer.ip());
        shared.log.info("audit", format_args!("http: {peer}: `{}` has logged in", login.user));
        return Ok(login);
    }
    let delay = shared.users.failed(peer.ip());
    shared.log.warn_limited("audit", format_args!("http: {peer}: login: wrong name or password"));
    shared.metrics.auth_failures.add(1);
    let mut phase = shared.phase.clone();
    tokio::select! {
        () = sleep(delay) => {}
        () = stopping(&mut phase) => {}
    }
    Err(Unknown::Wrong)
}

fn refusal(exchange: &Exchange<'_>, route: Route, unknown: Unknown) -> Response {
    let (message, code) = match unknown {
        Unknown::Silent => ("a name and a password, or a token, is needed", "28000"),
        Unknown::Wrong => ("the name or the password is wrong, or the token is", "28P01"),
    };
    let response = match route {
        Route::Write => write::refused(exchange, (401, "unauthorized"), message),
        _ => Response::error(401, message, Some(code), &exchange.request_id),
    };
    response.with("WWW-Authenticate", "Basic realm=\"tidegate\"")
}

/// Where a page comes from that has sent a request, if it is not one of ours.
fn foreign_origin<'a>(exchange: &'a Exchange<'_>) -> Option<&'a str> {
    let origin = exchange.head.field("origin")?;
    let host = exchange.head.field("host").unwrap_or_default();
    let of_origin = origin.split_once("://").map_or(origin, |(_, rest)| rest);
    Some(origin).filter(|_| !of_origin.eq_ignore_ascii_case(host))
}

/// The place of a page that may send requests, as it has named it (GD4).
fn listed_origin<'a>(exchange: &'a Exchange<'_>) -> Option<&'a str> {
    let listed = &exchange.shared.config.http.cors_origins;
    foreign_origin(exchange).filter(|it| listed.iter().any(|known| it.eq_ignore_ascii_case(known)))
}

/// Whether a name leads here that this machine does not have, where nobody is asked who he is: the
/// page of whoever has made it lead here would be one of ours (GD4).
fn is_renamed(exchange: &Exchange<'_>) -> bool {
    let Some(host) = exchange.head.field("host") else { return false };
    let is_trusting = exchange.shared.config.http.auth == Auth::Auto;
    if asks(&exchange.shared.config.http) || !is_trusting {
        return false;
    }
    let name = match host.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let is_own = name.eq_ignore_ascii_case("localhost") || name.ends_with(".localhost");
    // A name without a point is one of the own network, and no page's.
    !is_own && name.contains(['.', ':']) && name.parse::<IpAddr>().is_err()
}

/// Whether a browser sent it for a page that may not (GD4).
pub(super) fn is_foreign(exchange: &Exchange<'_>) -> bool {
    // No `Origin` comes with a link, an image or a form that gets.
    let site = exchange.head.field("sec-fetch-site");
    let is_elsewhere = site.is_some_and(|site| !matches!(site, "same-origin" | "none"));
    let is_foreign = is_elsewhere || foreign_origin(exchange).is_some() || is_renamed(exchange);
    is_foreign && listed_origin(exchange).is_none()
}

/// What a browser is told before it lets a page of another place see an answer.
pub(super) fn cors_fields(exchange: &Exchange<'_>) -> Vec<(&'static str, String)> {
    let mut fields = Vec::new();
    if !exchange.shared.config.http.cors_origins.is_empty() {
        fields.push(("Vary", "Origin".to_owned()));
    }
    if let Some(origin) = listed_origin(exchange) {
        fields.push(("Access-Control-Allow-Origin", origin.to_owned()));
        fields.push(("Access-Control-Allow-Credentials", "true".to_owned()));
        fields.push(("Access-Control-Expose-Headers", "X-Request-Id".to_owned()));
    }
    fields
}

/// The answer to a browser that asks whether a page may send such a request; `None` if it does not
/// ask, or the page may not.
pub(super) fn preflight(exchange: &Exchange<'_>, route: Route) -> Option<Response> {
    let is_asked = exchange.head.method == "OPTIONS"
        && exchange.head.field("access-control-request-method").is_some();
    listed_origin(exchange).filter(|_| is_asked)?;
    let fields = "Authorization, Content-Type, Content-Encoding, Statement-Timeout, \
                  Idempotency-Key";
    let response = Response::empty()
        .with("Access-Control-Allow-Methods", route.methods().join(", "))
        .with("Access-Control-Allow-Headers", fields)
        .with("Access-Control-Max-Age", "600");
    Some(response)
}

impl Exchange<'_> {
    /// Whether the sender may do this; the sentence that says that he may not.
    pub(super) fn allow(&self, deed: Deed) -> Result<(), String> {
        super::exec::session(self).allow(deed).map_err(|error| {
            let peer = self.peer;
            self.shared.log.warn_limited("audit", format_args!("http: {peer}: {error}"));
            error.to_string()
        })
    }
}
