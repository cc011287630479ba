//! Databases, as a loader sees them.
//!
//! - A1. `send` adds to the acknowledged rows what the target has confirmed, and nothing before.
//! - A2. A batch is repeated only where the target has said that it took none of it.

mod http;
mod influx;
mod line;
mod tagged;
mod postgres;
mod clickhouse;
mod crates;

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use self::clickhouse::ClickHouse;
use self::crates::Crate;
use self::http::Http;
use self::line::{LineHttp, LineTcp};
use self::postgres::Postgres;
use super::args::{LoadArguments, ProtocolArgument, TargetArgument};
use super::rows::{Header, RowLayout};
use crate::error::{Error, Result};

/// A database to load into.
pub(super) trait Target: Sync {
    /// What messages call it.
    fn place(&self) -> String;
    /// What it takes.
    fn layout(&self) -> RowLayout;
    /// Whether it confirms rows.
    fn acknowledges(&self) -> bool;
    /// Whether bytes go out as they come, without batches.
    fn streams(&self) -> bool;
    /// Whether rows can be asked for afterwards, so that it matters which tables there are.
    fn keeps_rows(&self) -> bool;
    /// Makes databases and tables, where the target has them.
    fn prepare(&self, _header: Option<&Header>) -> Result<()> {
        Ok(())
    }
    /// Opens a connection for a worker.
    fn connect(&self) -> Result<Box<dyn Connection>>;
    /// What connections waited because the target asked for patience.
    fn waited(&self) -> Duration {
        Duration::ZERO
    }
    /// Rows of a table that a query sees; 0 if there is no such table, `None` if it cannot tell.
    fn count(&self, table: &str) -> Result<Option<u64>>;
}

/// A connection of one worker.
pub(super) trait Connection {
    /// Sends complete rows, and adds those confirmed to `acked` (A1).
    fn send(&mut self, rows: &[u8], acked: (u64, &AtomicU64)) -> Result<()>;
    /// Waits until the target has taken everything, if it has not said so before.
    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// The target of a command line.
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
            let asks = arguments.target != TargetArgument::Sink;
            match place.protocol.unwrap_or(ProtocolArgument::IlpTcp) {
                ProtocolArgument::IlpTcp => Box::new(LineTcp::new(arguments, asks.then_some(http))),
                ProtocolArgument::IlpHttp => Box::new(LineHttp::questdb(http, asks)),
            }
        }
        TargetArgument::Influx => {
            if place.protocol == Some(ProtocolArgument::IlpTcp) {
                only("ilp-http")?;
            }
            Box::new(LineHttp::influx(http(8_086)?, arguments))
        }
        TargetArgument::Timescaledb => {
            only("its own")?;
            Box::new(Postgres::new(arguments))
        }
        TargetArgument::Clickhouse => {
            only("its own")?;
            Box::new(ClickHouse::new(http(8_123)?.authorized(place), arguments)?)
        }
        TargetArgument::Cratedb => {
            only("its own")?;
            Box::new(Crate::new(http(4_200)?.authorized(place), arguments))
        }
    })
}

/// A name as SQL has it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// An answer that is not what was asked for.
fn bad_answer(expected: &'static str, text: String) -> Error {
    Error::BadValue { place: "an answer", expected, text }
}
