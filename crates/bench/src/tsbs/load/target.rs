//! Databases as targets of a load.
//!
//! - load_target-1. `send` adds to the acknowledged rows only those that the target has confirmed.
//! - load_target-2. A batch is repeated only if the target has said that it took none of it.

mod http;
mod influx;
mod line;
mod tagged;
mod postgres;
mod clickhouse;
mod cratedb;

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use self::clickhouse::ClickHouse;
use self::cratedb::CrateDb;
use self::http::Http;
use self::line::{LineHttp, LineTcp};
use self::postgres::Postgres;
use super::args::{LoadArguments, ProtocolArgument, TargetArgument};
use super::rows::{Header, RowLayout};
use crate::error::{Error, Result};

/// A database to load into.
pub(super) trait Target: Sync {
    /// Returns the name of the target for messages.
    fn place(&self) -> String;
    /// Returns the layout that the target takes.
    fn layout(&self) -> RowLayout;
    /// Returns true if the target confirms rows.
    fn acknowledges(&self) -> bool;
    /// Returns true if bytes are sent as they come, without batches.
    fn streams(&self) -> bool;
    /// Returns true if the target stores rows that can be counted, so that their tables must be
    /// known.
    fn keeps_rows(&self) -> bool;
    /// Creates databases and tables, if the target has them.
    fn prepare(&self, _header: Option<&Header>) -> Result<()> {
        Ok(())
    }
    /// Opens a connection for a worker.
    fn connect(&self) -> Result<Box<dyn Connection>>;
    /// Returns the time that connections waited because the target asked for a delay.
    fn waited(&self) -> Duration {
        Duration::ZERO
    }
    /// Counts the rows of a table that a query sees; 0 if there is no such table, `None` if the
    /// target cannot be queried.
    fn count(&self, table: &str) -> Result<Option<u64>>;
}

/// A connection of one worker.
pub(super) trait Connection {
    /// Sends complete rows, and adds the confirmed ones to `acked` (load_target-1).
    fn send(&mut self, rows: &[u8], row_count: u64, acked: &AtomicU64) -> Result<()>;
    /// Waits until the target has taken everything, if it did not confirm that before.
    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Returns the target that a command line names.
pub(super) fn connect_target(arguments: &LoadArguments) -> Result<Box<dyn Target>> {
    let place = &arguments.place;
    let name = arguments.target.name();
    let only = |expected| match place.protocol {
        None => Ok(()),
        Some(given) => Err(Error::Protocol {
            given: if given == ProtocolArgument::IlpTcp { "ilp-tcp" } else { "ilp-http" },
            target: name,
            expected,
        }),
    };
    let http = |port| Http::new(&place.url(port), arguments.timeout);
    Ok(match arguments.target {
        TargetArgument::Tidegate | TargetArgument::Questdb | TargetArgument::Sink => {
            let http = http(9_000)?.authorized(place);
            let can_query = arguments.target != TargetArgument::Sink;
            match place.protocol.unwrap_or(ProtocolArgument::IlpTcp) {
                ProtocolArgument::IlpTcp => {
                    Box::new(LineTcp::new(arguments, can_query.then_some(http)))
                }
                ProtocolArgument::IlpHttp => Box::new(LineHttp::questdb(http, can_query)),
            }
        }
        TargetArgument::Influx => {
            if place.protocol == Some(ProtocolArgument::IlpTcp) {
                only("ilp-http")?;
            }
            Box::new(LineHttp::influx(http(8_086)?, arguments))
        }
        TargetArgument::Timescaledb => {
            only("its own protocol")?;
            Box::new(Postgres::new(arguments))
        }
        TargetArgument::Clickhouse => {
            only("its own protocol")?;
            Box::new(ClickHouse::new(http(8_123)?.authorized(place), arguments)?)
        }
        TargetArgument::Cratedb => {
            only("its own protocol")?;
            Box::new(CrateDb::new(http(4_200)?.authorized(place), arguments))
        }
    })
}

/// Quotes a name for SQL.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns the error for an answer of an unexpected form.
fn bad_answer(expected: &'static str, text: String) -> Error {
    Error::BadValue { place: "an answer", expected, text }
}
