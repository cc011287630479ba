//! The bodies of the fuzz targets, with the plain readers of the tests that they compare with.
//!
//! Not here: the corpora, and the tests that run them in every check (`ingest/tests/it/fuzz.rs`,
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

/// Panics within the libraries that read Parquet are errors with the place in the file
/// (`ingest::parquet_file`): a run goes on. All others end it.
pub fn let_libraries_panic() {
    let ending = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map_or("", |place| place.file());
        let is_theirs = ["/parquet-", "/arrow-", "/thrift-"];
        if !is_theirs.iter().any(|part| place.contains(part)) {
            ending(panic);
        }
    }));
}

macro_rules! run {
    ($($target:ident),* $(,)?) => {
        $(
            /// Any bytes are fine; it panics if a promise is broken.
            pub fn $target(bytes: &[u8]) {
                targets::$target::check(bytes);
            }
        )*
    };
}

/// As the others; it cannot have the name of the module.
pub fn http_request(bytes: &[u8]) {
    server_targets::http::check(bytes);
}

/// As the others; it has a part of the server of its own.
pub fn pg_messages(bytes: &[u8]) {
    pg_target::check(bytes);
}

/// As `pg_messages`.
pub fn pg_copy(bytes: &[u8]) {
    pg_copy_target::check(bytes);
}

run!(
    catalog, cell, csv, footer, index, line, manifest, mask, parquet, segment, sniff, symbols,
    timestamp, wal_group,
);
