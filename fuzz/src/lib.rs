//! The bodies of the fuzz targets, with the plain readers of the tests that they are compared with.
//!
//! Not here: the corpora, and the tests that replay them in every check (`ingest/tests/it/fuzz.rs`,
//! and `server/src/{http,pg}/fuzz.rs` for `http`, `pg` and `pg_copy`).

#![expect(dead_code, reason = "the modules that are shared with the tests have more than is used")]

#[path = "../../crates/ingest/tests/it/slow.rs"]
mod slow;
#[path = "../../crates/ingest/tests/it/plain.rs"]
mod plain;
#[path = "../../crates/ingest/tests/it/world.rs"]
mod world;
#[path = "../../crates/ingest/tests/it/slow_line.rs"]
mod slow_line;
mod http;
mod pg;
#[path = "targets/all.rs"]
mod targets;
#[path = "targets/server.rs"]
mod server_targets;
#[path = "targets/pg.rs"]
mod pg_target;
#[path = "targets/pg_copy.rs"]
mod pg_copy_target;

/// Lets a run go on after a panic within the libraries that read Parquet: `ingest::parquet_file`
/// turns it into an error with the place in the file. All other panics end the run.
pub fn let_libraries_panic() {
    let ending = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map_or("", |place| place.file());
        let is_theirs = ["/parquet-", "/arrow-", "/thrift-", "/bytes-"];
        if !is_theirs.iter().any(|part| place.contains(part)) {
            ending(panic);
        }
    }));
}

macro_rules! run {
    ($($target:ident),* $(,)?) => {
        $(
            /// Runs the target on any bytes; panics if an invariant is broken.
            pub fn $target(bytes: &[u8]) {
                targets::$target::check(bytes);
            }
        )*
    };
}

/// Runs the target `http`; the function cannot have the name of the module.
pub fn http_request(bytes: &[u8]) {
    server_targets::http::check(bytes);
}

/// Runs the target `pg`, which has its own copy of a part of the server.
pub fn pg_messages(bytes: &[u8]) {
    pg_target::check(bytes);
}

/// Runs the target `pg_copy`, as `pg_messages`.
pub fn pg_copy(bytes: &[u8]) {
    pg_copy_target::check(bytes);
}

run!(
    catalog, cell, csv, footer, index, line, manifest, mask, parquet, segment, sniff, symbols,
    timestamp, wal_group,
);
