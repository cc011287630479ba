//! Server information for statements: the configuration, memory use, connections that send lines,
//! and the audit log.
//!
//! - host-1. A `ServerHost` has a weak reference to the server: the server owns the engine, which
//!   owns the host.

use std::fmt;
use std::sync::{Arc, Weak};

use tidegate_platform::{rss_anon_bytes, sentence};
use tidegate_query::{ConfigEntry, Error, LineConnection, MemoryUse, Origin, ServerInfo, Session};

use crate::log::{LogKind, shortened};
use crate::server_state::ServerState;

/// The most bytes of a statement that are logged.
const SQL_BYTES: usize = 1_024;

/// The server as seen by its engine (host-1).
pub(crate) struct ServerHost(Weak<ServerState>);

impl ServerHost {
    pub(crate) fn new(server: &Arc<ServerState>) -> ServerHost {
        ServerHost(Arc::downgrade(server))
    }
}

impl fmt::Debug for ServerHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerHost")
    }
}

impl ServerInfo for ServerHost {
    fn parameters(&self) -> Vec<ConfigEntry> {
        self.0.upgrade().map_or_else(Vec::new, |server| server.config.entries())
    }

    fn memory(&self) -> Vec<MemoryUse> {
        let Some(server) = self.0.upgrade() else { return Vec::new() };
        let config = &server.config;
        let ingest = server.services().map_or(0, |services| services.ingest.memory_used());
        vec![
            MemoryUse { tag: "process", bytes: rss_anon_bytes() },
            MemoryUse { tag: "process_limit", bytes: config.memory_limit.0 },
            MemoryUse { tag: "ingest", bytes: ingest },
            MemoryUse { tag: "ingest_limit", bytes: config.ingest_limit.0 },
        ]
    }

    fn audit(&self, session: &Session, sql: &str, error: Option<&Error>) {
        let Some(server) = self.0.upgrade() else { return };
        let Origin { protocol, peer, user, .. } = session.origin();
        let peer = peer.as_deref().unwrap_or("local");
        let kind = LogKind::of_user("audit", "statement failed", user.as_deref());
        let user = user.as_deref().map_or_else(String::new, |user| format!("`{user}`: "));
        let sql = shortened(sql, SQL_BYTES);
        match error {
            // Statements that change something are not so many that they need a limit.
            None => server.log.info("audit", format_args!("{protocol}: {peer}: {user}{sql}")),
            Some(error) => {
                let error = sentence(error);
                let text = format_args!("{protocol}: {peer}: {user}{sql}: {error}");
                server.log.warn_limited(kind, text);
            }
        }
    }

    fn line_connections(&self) -> Vec<LineConnection> {
        let Some(server) = self.0.upgrade() else { return Vec::new() };
        let services = server.services();
        services.map_or_else(|_| Vec::new(), |services| services.ingest.connections.list())
    }

    fn end_connection(&self, process: u32) -> bool {
        self.0.upgrade().is_some_and(|server| server.backends.end(process))
    }
}
