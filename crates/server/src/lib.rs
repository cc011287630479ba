//! The server: SQL over PostgreSQL's protocol and HTTP, the line protocol over HTTP and TCP.
//!
//! - Listeners are bound before anything else, so that a taken port fails at once.
//! - Connections have threads apart from those of statements; each statement runs in a lane with
//!   threads of its own (`lanes`), except those that are known to be quick; commits run on threads
//!   that may block. No connection delays the answers of another.
//! - server-1. A server that is told to stop accepts nothing new, finishes the work in progress,
//!   flushes the memtables and writes a checkpoint: the next start has nothing to replay.
//!
//! Values as text are here too (`value_text`, `json`), since every protocol and output needs them.
//! Not here: parsing lines (`ingest`), storing (`storage`), SQL (`query`), reading configuration
//! (`tidegate`).

#![forbid(unsafe_code)]

pub mod value_text;
pub mod results;
pub mod config;
mod error;
mod log;
mod metrics;
mod claimant;
mod budget;
mod server_state;
mod host;
mod sqlstate;
mod verifier;
mod auth;
mod backends;
mod replaceable;
mod tls;
mod socket;
mod connection_threads;
mod admission;
mod lanes;
mod execution_slot;
mod http;
mod pg;
mod ilp;
mod ilp_tcp;
mod system_rows;
mod watchdog;
pub mod copy;
mod run;

pub use auth::{StoredToken, StoredUser, UserFile, UserFileError};
pub use error::{Error, Result};
pub use ilp::KeyFileError;
pub use log::{Log, LogLevels};
pub use run::{Host, InMemoryHost, InMemoryServer, check, serve};
pub use tls::TlsError;
pub use value_text::json;
