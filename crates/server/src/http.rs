//! HTTP/1.1: connections, routes, and the parts that all routes share.
//!
//! - http-1. A connection answers its requests one after the other, in their order, even if several
//!   arrive at once.
//! - http-2. A request whose body was not read to its end is the last of its connection.
//! - Every answer has an id that the log has too.
//! - http-3. A connection whose first byte is that of TLS uses TLS; with `tls.mode = require`,
//!   others get an error, except on the listener for health and metrics alone.
//!
//! The table of routes is in `routes`, and authentication in `guard`. Handlers: `/exec` (`exec`),
//! `/exp` (`exp`), `/imp` (`imp`), `/write` (`write`), `/` (`console`), the description of a
//! statement's result (`validate`), that of all routes (`routes::openapi`), and the status
//! routes (`status`). Not here: bytes (`wire`), and compression (`decompression`, `compression`).

mod route;
mod routes;
mod wire;
mod params;
mod guard;
mod response;
mod pace;
mod multipart;
mod decompression;
mod compression;
mod exec;
mod streaming_slot;
mod exp;
mod validate;
mod imp;
mod write;
mod console;
mod status;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
#[path = "../../../fuzz/src/targets/server.rs"]
mod fuzz_targets;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Buf;
use tokio::time::{Instant, timeout};

use crate::budget::{OverBudget, Reservation};
use crate::ilp::RejectLimit;
use crate::server_state::{ServerState, Tracker, stopping};
use crate::socket::Socket;
use crate::tls::TLS_HANDSHAKE;
use guard::Sender;
pub(crate) use guard::needs_login;
use response::{After, Length, Response};
use route::{ErrorForm, Handler, LoginRule, Route};
use wire::{Body, Framing, Head, HeadError, Wire, WireLimits};

/// The longest time for the head of a request for health or metrics: it is short, and places for it
/// are few.
const ADMIN_HEAD_TIME: Duration = Duration::from_secs(2);

/// The kind of a listener, which decides on its routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerKind {
    /// All routes.
    Main,
    /// Health and metrics.
    Admin,
}

/// The context of one request: its head and body, its connection, and its sender.
pub(crate) struct RequestContext<'a> {
    server: &'a Arc<ServerState>,
    head: &'a Head,
    wire: &'a mut Wire,
    body: Body,
    request_id: String,
    peer: SocketAddr,
    /// The sender, once it is known.
    sender: Sender,
    /// The limit of logged rejects of the connection.
    reject_limit: &'a mut RejectLimit,
    /// The memory of the request that is counted in the budget of connections.
    reservation: Option<Reservation>,
}

/// The continuation of a connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    /// The connection is closed, after the client has received what was written.
    Close,
    /// The client has gone.
    Disconnected,
}

/// Answers the requests of a connection until it ends, or the server stops.
pub(crate) async fn serve(
    server: Arc<ServerState>,
    socket: Socket,
    peer: SocketAddr,
    kind: ListenerKind,
    tracker: Tracker,
) {
    let http = &server.config.http;
    let limits = WireLimits {
        head_bytes: http.max_header_bytes,
        idle: http.idle_timeout,
        head_time: match kind {
            ListenerKind::Main => http.head_timeout,
            ListenerKind::Admin => http.head_timeout.min(ADMIN_HEAD_TIME),
        },
        body_idle: http.body_idle_timeout,
    };
    let Some(socket) = open(&server, socket, kind, limits).await else { return };
    let mut wire = Wire::new(socket, limits);
    let mut reject_limit = RejectLimit::new(server.config.ilp.reject_rate, Instant::now());
    let mut phase = server.phase.clone();
    loop {
        let head = tokio::select! {
            biased;
            head = wire.head() => head,
            () = stopping(&mut phase) => {
                // Requests that arrived before the stop are still answered.
                if wire.is_idle() { return } else { wire.head().await }
            }
        };
        let flow = match head {
            Ok(None) => return,
            Ok(Some(head)) => {
                let body = Body::new(&head);
                let request_id = server.ids.request();
                let mut context = RequestContext {
                    server: &server,
                    head: &head,
                    wire: &mut wire,
                    body,
                    request_id,
                    peer,
                    sender: Sender::ANYBODY,
                    reject_limit: &mut reject_limit,
                    reservation: None,
                };
                context.answer(kind).await
            }
            Err(error) => refuse_head(&server, &mut wire, error).await,
        };
        match flow {
            Flow::Next => {}
            Flow::Disconnected => return,
            Flow::Close => break,
        }
    }
    wire.linger().await;
    drop(tracker);
}

/// Opens the socket in plain text or TLS, as the client begins (http-3); `None` if the connection
/// has ended.
async fn open(
    server: &ServerState,
    socket: Socket,
    kind: ListenerKind,
    limits: WireLimits,
) -> Option<Socket> {
    let Some(tls) = &server.tls else { return Some(socket) };
    let stream = match socket {
        Socket::Plain(stream) => stream,
        Socket::Tls(_) | Socket::Memory(_) => return Some(socket),
    };
    let (mut first, mut phase) = ([0], server.phase.clone());
    let peeked = tokio::select! {
        peeked = timeout(limits.idle, stream.peek(&mut first)) => peeked,
        () = stopping(&mut phase) => return None,
    };
    match peeked {
        Ok(Ok(1)) if first[0] == TLS_HANDSHAKE => {
            let accepted = timeout(limits.head_time, tls.http_acceptor().accept(stream)).await;
            Some(Socket::Tls(Box::new(accepted.ok()?.ok()?)))
        }
        Ok(Ok(1)) if tls.is_required() && kind == ListenerKind::Main => {
            let mut wire = Wire::new(Socket::Plain(stream), limits);
            let id = server.ids.request();
            let response = Response::error(400, "this port speaks TLS: https://", None, &id);
            if let Flow::Close = last_words(server, &mut wire, &response, &id).await {
                wire.linger().await;
            }
            None
        }
        Ok(Ok(1)) => Some(Socket::Plain(stream)),
        _ => None,
    }
}

/// Sends the last answer of a connection.
async fn last_words(server: &ServerState, wire: &mut Wire, response: &Response, id: &str) -> Flow {
    let (length, now) = (Length::Bytes(response.body.len()), server.clock.now_micros());
    let head = response::head(response, length, After::Close, id, now);
    match wire.write(&mut head.chain(&response.body[..])).await {
        Ok(()) => Flow::Close,
        Err(_) => Flow::Disconnected,
    }
}

/// Answers that there are too many connections, in plain text: a handshake would cost too much.
pub(crate) async fn refuse_connection(server: Arc<ServerState>, socket: Socket, max: usize) {
    let http = &server.config.http;
    let (idle, head_time) = (http.head_timeout, http.head_timeout);
    let limits = WireLimits { head_bytes: 0, idle, head_time, body_idle: idle };
    let mut wire = Wire::new(socket, limits);
    let id = server.ids.request();
    let message = format!("too many connections [limit={max}]");
    let response = Response::error(429, &message, Some("53300"), &id).with("Retry-After", "1");
    if let Flow::Close = last_words(&server, &mut wire, &response, &id).await {
        wire.linger().await;
    }
}

async fn refuse_head(server: &ServerState, wire: &mut Wire, error: HeadError) -> Flow {
    let status = match error {
        HeadError::TooLarge => 431,
        HeadError::Malformed(_) => 400,
        HeadError::Slow => 408,
    };
    let id = server.ids.request();
    let response = Response::error(status, &error.to_string(), None, &id);
    last_words(server, wire, &response, &id).await
}

impl RequestContext<'_> {
    async fn answer(&mut self, kind: ListenerKind) -> Flow {
        let Some(route) = routes::find(&self.head.path, kind) else {
            return self.refuse(404, "there is nothing at this path", None).await;
        };
        if let Some(response) = guard::preflight(self, route) {
            return self.respond(response).await;
        }
        if let Some(message) = guard::foreign_page(self, route.access.reach, kind) {
            return self.refuse(403, message, Some("42501")).await;
        }
        if !route.methods.contains(&self.head.method.as_str()) {
            return self.refuse_method(route).await;
        }
        // Treated as an empty one, the body would be lost.
        if route.needs_body() && self.head.framing == Framing::Absent {
            let message = "the request has neither Content-Length nor Transfer-Encoding: chunked";
            return self.respond(self.error(route.error_form, 411, message, "08P01")).await;
        }
        if kind == ListenerKind::Main && route.access.login == LoginRule::AsConfigured {
            match guard::sender(self, route.error_form).await {
                Ok(sender) => self.sender = sender,
                Err(response) => return self.respond(response).await,
            }
        }
        match route.handler {
            Handler::Immediate(answer) => self.respond(answer(self)).await,
            Handler::Streaming(answer) => answer(self).await,
        }
    }

    /// Makes an error that is found before the handler runs.
    fn error(&self, form: ErrorForm, status: u16, message: &str, code: &str) -> Response {
        match form {
            ErrorForm::Sql => Response::error(status, message, Some(code), &self.request_id),
            ErrorForm::Lines => write::refused(self, status, message),
        }
    }

    async fn refuse(&mut self, status: u16, message: &str, code: Option<&str>) -> Flow {
        let response = Response::error(status, message, code, &self.request_id);
        self.respond(response).await
    }

    /// Answers that the path does not have this method.
    async fn refuse_method(&mut self, route: &Route) -> Flow {
        let message = format!("{} does not take {}", self.head.path, self.head.method);
        let response = match route.error_form {
            ErrorForm::Lines => write::refused(self, 404, &message),
            ErrorForm::Sql => Response::error(405, &message, None, &self.request_id)
                .with("Allow", route.methods.join(", ")),
        };
        self.respond(response).await
    }

    /// Returns true if another request can follow (http-2).
    fn after(&self) -> After {
        let is_stopping = self.server.phase.borrow().is_stopping();
        let goes_on = self.head.keeps_alive && self.body.is_done() && !is_stopping;
        if goes_on { After::KeepAlive } else { After::Close }
    }

    /// Sends an answer as a whole.
    async fn respond(&mut self, mut response: Response) -> Flow {
        response.fields.extend(guard::cors_fields(self));
        let after = self.after();
        let length = match response.status {
            204 | 304 => Length::None,
            _ => Length::Bytes(response.body.len()),
        };
        let head = response::head(&response, length, after, &self.request_id, self.now());
        let body = if self.is_head() { &[][..] } else { &response.body[..] };
        match self.wire.write(&mut head.chain(body)).await {
            Ok(()) => flow(after),
            Err(_) => Flow::Disconnected,
        }
    }

    /// Begins an answer in parts; the body of `response` is not sent.
    async fn start_chunks(&mut self, response: &Response) -> io::Result<()> {
        let Response { status, content_type, ref fields, .. } = *response;
        let fields = fields.iter().cloned().chain(guard::cors_fields(self)).collect();
        let response = &Response { status, content_type, fields, body: Vec::new() };
        let length = if self.head.is_old { Length::Close } else { Length::Chunks };
        let head = response::head(response, length, self.after(), &self.request_id, self.now());
        self.wire.write(&mut &head[..]).await
    }

    async fn chunk(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        // An empty chunk would end the answer (http-1).
        if bytes.is_empty() || self.is_head() {
            return Ok(());
        }
        if self.head.is_old {
            return self.wire.write(&mut &bytes[..]).await;
        }
        let size = format!("{:x}\r\n", bytes.len());
        self.wire.write(&mut size.as_bytes().chain(&bytes[..]).chain(&b"\r\n"[..])).await
    }

    async fn end_chunks(&mut self, after: After) -> Flow {
        if self.head.is_old {
            return Flow::Close;
        }
        let last = if self.is_head() { &b""[..] } else { &b"0\r\n\r\n"[..] };
        match self.wire.write(&mut &last[..]).await {
            Ok(()) if after == After::KeepAlive => flow(self.after()),
            Ok(()) => Flow::Close,
            Err(_) => Flow::Disconnected,
        }
    }

    /// Cuts an answer off, so that the client does not treat it as complete.
    fn cut(&self) -> Flow {
        if self.head.is_old {
            // Without chunks, a cut looks like a regular end.
            self.wire.reset_at_end();
        }
        Flow::Disconnected
    }

    /// Counts the memory that the request holds now.
    fn reserve(&mut self, bytes: usize) -> Result<(), OverBudget> {
        match &mut self.reservation {
            Some(reservation) => reservation.try_resize(bytes),
            None => {
                self.reservation =
                    Some(self.server.budget.account(self.sender.claimant()).reserve(bytes)?);
                Ok(())
            }
        }
    }

    /// Returns true if only the head of the answer is requested.
    fn is_head(&self) -> bool {
        self.head.method == "HEAD"
    }

    fn now(&self) -> i64 {
        self.server.clock.now_micros()
    }
}

fn flow(after: After) -> Flow {
    match after {
        After::KeepAlive => Flow::Next,
        After::Close => Flow::Close,
    }
}
