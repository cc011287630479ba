//! `tidegate serve`: the server on a database directory.
//!
//! Not here: assembling the configuration (`config`), and the server itself (`tidegate_server`).

use std::io;
use std::path::Path;
use std::sync::Arc;

use tidegate_model::{ByteCount, limits};
use tidegate_platform::disk_bytes;
use tidegate_query::{EngineOptions, Timeout};
use tidegate_server::{Host, Log};
use tidegate_storage::Access;

use crate::args::ServeArguments;
use crate::config;
use crate::error::{Exit, Result, sentence};
use crate::session::Session;

pub(crate) fn run(arguments: &ServeArguments, session: &Session) -> Result<Exit> {
    crate::end_with_a_panic();
    let environment = &session.environment;
    let config = config::read(&arguments.config, session)?;
    let clock = Arc::clone(&session.clock);
    let log = Arc::new(Log::new(Arc::clone(&clock), Box::new(io::stderr())));
    let threads = arguments.threads.unwrap_or(environment.cores);
    let spill_dir = session.db.join("scratch").join("query");
    let engine = EngineOptions {
        statement_memory_max: config.statement_memory(),
        timeout: Timeout::After(config.query.timeout),
        timeout_max: Timeout::After(config.query.timeout_max),
        spill_max: config.query.spill_max,
        fill_rows_max: config.query.fill_rows_max,
        ..EngineOptions::standard(threads, config.query_memory(), spill_dir)
    };
    let mut options = session.open_options(config.memory_limit);
    options.symbol_bytes_max = config.symbol_memory();
    options.log.durability = config.durability;
    let purge_after = u64::try_from(config.purge_after.as_nanos());
    options.maintenance.delete_compaction_after_nanos = purge_after.unwrap_or(u64::MAX);
    match config.read_only {
        true => options.access = Access::ReadOnly,
        false => options.ballast_bytes = ballast_bytes(&session.db),
    }
    let users = session.db.join("conf").join("users.toml");
    let reread = || config::read(&arguments.config, session).map_err(|error| sentence(&error));
    let reread: &dyn Fn() -> _ = &reread;
    let mut open = || session.open_with(&options);
    tidegate_server::serve(config, Host { clock, log, engine, users, reread, open: &mut open })?;
    Ok(Exit::Done)
}

/// Returns the size of the ballast: the share of the disk that the server holds back for work that
/// frees space.
fn ballast_bytes(db: &Path) -> ByteCount {
    // The directory may not exist yet.
    let disk = db.ancestors().find_map(|dir| disk_bytes(dir).ok());
    let part = disk.map_or(u64::MAX, |(_, all)| all / limits::BALLAST_PART);
    ByteCount(limits::BALLAST_BYTES.0.min(part))
}
