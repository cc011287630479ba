//! A server without listeners, whose connections are pairs of buffers in memory.
//!
//! - Its connections have the places, limits, threads and handlers of those that a listener
//!   accepts.
//! - The owner does the maintenance of the database, as without a server.
//!
//! It has no TLS, and no line protocol over TCP. Not here: listeners and signals (`run`).

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_platform::Clock;
use tidegate_query::EngineOptions;
use tidegate_storage::Database;
use tokio::io::{DuplexStream, duplex};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::{Ending, LAST_WORDS, PgPlace, Ticking, end, end_jobs, runtime, serve_http, services};
use crate::auth::{User, Users};
use crate::config::Config;
use crate::connection_threads::ConnectionThreads;
use crate::error::Result;
use crate::http::ListenerKind;
use crate::ilp::write_rejects;
use crate::log::Log;
use crate::pg;
use crate::server_state::{Phase, ServerState, Setup, Tracker};
use crate::socket::Socket;

/// The bytes of each direction of a connection that wait to be read.
const PIPE_BYTES: usize = 64 << 10;

/// The environment of a server in memory.
pub struct InMemoryHost {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The log.
    pub log: Arc<Log>,
    /// The threads and the memory of queries.
    pub engine: EngineOptions,
    /// The file of users beside those of the configuration.
    pub users: PathBuf,
    /// The warnings that the administrator is shown.
    pub warnings: Vec<String>,
    /// The database, which the server closes at its end.
    pub database: Arc<Database>,
}

/// A running server without listeners.
pub struct InMemoryServer {
    parts: Ending,
    phase: watch::Sender<Phase>,
    tracker: Tracker,
    all_gone: mpsc::Receiver<()>,
}

impl InMemoryServer {
    /// Starts a server. The addresses of its configuration decide only on the need of a login.
    ///
    /// # Errors
    /// If the users cannot be read, or threads cannot be started.
    pub fn start(config: Config, host: InMemoryHost) -> Result<InMemoryServer> {
        let InMemoryHost { clock, log, engine, users, warnings, database } = host;
        let users = Users::new(User::configured(&config.auth), users, Arc::clone(&log))?;
        let retention = config.ilp.reject_retention;
        let (phase_sender, phase) = watch::channel(Phase::Running);
        let (keys, tls) = (None, None);
        let setup =
            Setup { config, warnings, users, keys, tls, clock, log: Arc::clone(&log), phase };
        let server = Arc::new(ServerState::new(setup));
        let (tracker, all_gone) = Tracker::new();
        let network = runtime("network", engine.threads, || {})?;
        network.spawn(pg::watch_users(Arc::clone(&server)));
        let backends = Arc::new(ConnectionThreads::new("backends", engine.threads)?);
        let streams = runtime("streams", NonZeroUsize::MIN, || {})?;
        let queries = runtime("query", engine.threads, || {})?;
        let jobs = runtime("jobs", engine.threads, || {})?;
        let (services, rejects) = services(&server, &database, &engine, &queries, &jobs)?;
        server.begin(Arc::clone(&services));
        let writing = network.spawn(write_rejects(rejects, Arc::clone(&database), retention, log));
        let ticking = vec![Ticking::lanes(&services)?];
        let (network, queries) = ((network, backends), [queries, jobs]);
        let parts =
            Ending { network, streams, queries, server, services, writing, ticking, database };
        Ok(InMemoryServer { parts, phase: phase_sender, tracker, all_gone })
    }

    /// Opens a connection of PostgreSQL's protocol from this address.
    #[must_use]
    pub fn connect_pg(&self, peer: SocketAddr) -> DuplexStream {
        let (client, socket) = connection();
        let server = Arc::clone(&self.parts.server);
        let (network, backends) = &self.parts.network;
        match PgPlace::find(&server, peer) {
            Some(PgPlace { counted, pending }) => {
                let tracker = self.tracker.clone();
                backends.spawn(async move {
                    pg::serve(server, socket, peer, pending, tracker).await;
                    drop(counted);
                });
            }
            None => drop(network.spawn(pg::refuse_connection(server, socket))),
        }
        client
    }

    /// Opens a connection of HTTP from this address.
    #[must_use]
    pub fn connect_http(&self, peer: SocketAddr) -> DuplexStream {
        self.connect(ListenerKind::Main, peer)
    }

    /// Opens a connection of the listener for health and metrics alone.
    #[must_use]
    pub fn connect_admin(&self, peer: SocketAddr) -> DuplexStream {
        self.connect(ListenerKind::Admin, peer)
    }

    fn connect(&self, kind: ListenerKind, peer: SocketAddr) -> DuplexStream {
        let (client, socket) = connection();
        let _context = self.parts.network.0.enter();
        serve_http(&self.parts.server, socket, peer, kind, self.tracker.clone());
        client
    }

    /// Begins the end: work in progress is completed, and nothing new is begun.
    pub fn drain(&self) {
        self.phase.send_replace(Phase::Draining);
    }

    /// Ends all work, and closes the database. It is not called within a runtime.
    ///
    /// # Errors
    /// If the database cannot be closed properly.
    pub fn stop(self) -> Result<()> {
        let InMemoryServer { parts, phase, tracker, mut all_gone } = self;
        phase.send_replace(Phase::Ending);
        drop(tracker);
        parts.services.engine.end_statements();
        let (network, _) = &parts.network;
        network.block_on(async {
            let _ = timeout(LAST_WORDS, all_gone.recv()).await;
            end_jobs(&parts.services).await;
        });
        end(parts)
    }
}

/// Makes both sides of a connection.
fn connection() -> (DuplexStream, Socket) {
    let (client, server) = duplex(PIPE_BYTES);
    (client, Socket::Memory(server))
}
