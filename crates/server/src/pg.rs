//! PostgreSQL's protocol, version 3.0, for unmodified PostgreSQL clients.
//!
//! - A client can break its own connection and no other: messages, and the state kept between them,
//!   are bounded (message_reader-2, connection-3), and each connection is a task of its own.
//! - Before the login a client can execute nothing, and learns nothing about the database.
//! - A text in the protocol is read and written as PostgreSQL does; a statement has the same
//!   meaning as over HTTP, since the same engine executes it.
//!
//! The path of a connection: bytes (`wire`) become messages (`message_reader`), the first of which
//! lead to a login (`login`), and the others to statements (`connection`), whose rows (`portal`)
//! become bytes (`encode`, `message_writer`). COPY has a binary format of its own (`copy_fields`,
//! `binary_copy`). Messages, values and SCRAM are our own code: values are written straight from
//! Arrow's arrays into the connection's buffer, and bounds are checked before memory is reserved.
//! Not here: SQL and the catalog (`query`), users (`auth`), TLS (`tls`).

mod message_reader;
mod types;
mod encode;
mod error_response;
mod message_writer;
mod wire;
mod login;
mod value;
mod copy_fields;
mod binary_copy;
mod command;
mod portal;
mod connection;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
#[path = "../../../fuzz/src/targets/pg.rs"]
mod fuzz_target;
#[cfg(test)]
#[path = "../../../fuzz/src/targets/pg_copy.rs"]
mod fuzz_copy_target;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use crate::auth::CHECK_INTERVAL;
use crate::log::LogKind;
use crate::replaceable::ReplaceableSocket;
use crate::server_state::{Phase, ServerState, Tracker, stopping};
use crate::socket::Socket;
use connection::{Connection, End};
use error_response::ErrorResponse;
use login::{CLOSE_TIMEOUT, LoginOutcome, log_in};
use wire::Wire;

/// The most sockets before their login, beyond the allowed number of connections.
pub(crate) const PENDING_MAX: usize = 128;

/// Serves a connection until it ends, or the server does.
pub(crate) async fn serve(
    server: Arc<ServerState>,
    socket: Socket,
    peer: SocketAddr,
    pending: ReplaceableSocket,
    tracker: Tracker,
) {
    let mut ending = server.phase.clone();
    tokio::select! {
        () = Box::pin(attend(&server, Wire::new(socket), peer, pending)) => {}
        // Running work is dropped.
        _ = async { ending.wait_for(|phase| *phase == Phase::Ending).await.map(drop) } => {}
    }
    drop(tracker);
}

async fn attend(
    server: &Arc<ServerState>,
    wire: Wire,
    peer: SocketAddr,
    pending: ReplaceableSocket,
) {
    let outcome = tokio::select! {
        biased;
        outcome = Box::pin(log_in(server, wire, peer)) => outcome,
        () = pending.dropped() => return,
    };
    drop(pending);
    let (mut wire, client) = match outcome {
        LoginOutcome::LoggedIn(wire, client) => (wire, client),
        LoginOutcome::Cancel { process, secret } => {
            return server.backends.cancel(process, &secret);
        }
        LoginOutcome::Refused(wire) => return close(wire).await,
        LoginOutcome::Disconnected => return,
    };
    let services = match server.services() {
        Ok(services) => services,
        Err(unready) => {
            wire.writer.error_response(&ErrorResponse::fatal(unready.code(), unready.to_string()));
            return close(wire).await;
        }
    };
    let max = server.config.pg.max_connections;
    let Some(backend) = server.backends.enter(&client.grant, max) else {
        wire.writer.error_response(&too_many(max));
        return close(wire).await;
    };
    // A later change of the user finds the connection in the list and ends it.
    if !server.users.holds(&client.grant) {
        wire.writer.error_response(&ErrorResponse::user_changed());
        return close(wire).await;
    }
    let user = client.grant.name();
    let kind = LogKind::of_user("audit", "login", Some(user));
    server.log.info_limited(kind, format_args!("pg: {peer}: `{user}` has logged in"));
    let connection = Connection::new(server, services, wire, client, backend);
    let (wire, end) = Box::pin(connection.serve()).await;
    if end == End::Notified {
        close(wire).await;
    }
}

/// Ends the connections of users that have been removed or changed, until the server stops
/// (auth-5).
pub(crate) async fn watch_users(server: Arc<ServerState>) {
    let (mut changes, mut phase) = (server.users.changes(), server.phase.clone());
    loop {
        tokio::select! {
            _ = changes.changed() => end_changed(&server),
            () = sleep(CHECK_INTERVAL) => {
                let task = Arc::clone(&server);
                // A panic has already been printed to standard error.
                let _ = spawn_blocking(move || task.users.refresh()).await;
            }
            () = stopping(&mut phase) => return,
        }
    }
}

fn end_changed(server: &ServerState) {
    let mut ended = server.backends.end_those(|grant| server.users.holds(grant));
    ended.sort();
    for same in ended.chunk_by(|one, next| one == next) {
        let (user, count) = (&same[0], same.len());
        server
            .log
            .info("audit", format_args!("pg: open connections of `{user}` are ended: {count}"));
    }
}

/// Answers that there are too many connections.
pub(crate) async fn refuse_connection(server: Arc<ServerState>, socket: Socket) {
    let mut wire = Wire::new(socket);
    // A client that asks for TLS first reads one byte only, and closes: a handshake would cost too
    // much.
    wire.writer.error_response(&too_many(server.config.pg.max_connections));
    close(wire).await;
}

fn too_many(max: usize) -> ErrorResponse {
    ErrorResponse::fatal("53300", format!("sorry, too many clients already [limit={max}]"))
}

/// Sends the last messages of a connection, and closes it.
async fn close(wire: Wire) {
    let _ = timeout(CLOSE_TIMEOUT, wire.close()).await;
}
