//! The write-ahead log of the database: durable before acknowledged, replayed when it is opened.
//!
//! - wal-1. For each table, `seq_txn` rises by exactly one from record to record, across files. All
//!   changes of one table in one record share it.
//! - wal-2. `append` returns only when its records are on disk; with `Durability::Async`, when the
//!   operating system has them, and a sync writes them to the disk.
//! - wal-3. A bad group ends the log if an interrupted write may have caused it, and no later
//!   group, header or beginning of another file counts it as durable. Otherwise it is corruption.
//! - A group begins at a page, so that writing it touches no byte of the groups before it.
//! - wal-4. A file begins where its predecessor ends, whatever else the predecessor contains: bytes
//!   after that place were never acknowledged, or are in the file that begins there.
//! - wal-5. After a failed write or sync nothing more is acknowledged from that file, and its
//!   records are in doubt until a file that begins before them is durable.
//! - wal-6. Groups that are acknowledged and not yet durable stay in memory, and every new file
//!   begins with them: a sync that fails loses nothing that was acknowledged.
//! - wal-7. If a repair has given up commits of a table, a record says up to which commit: the next
//!   commit continues there.
//! - wal-8. A file of its own names the newest file of the log (`head`).
//!
//! Bytes: docs/format.md, Log. Not here: the effect of records on tables (`manifest`, `database`),
//! and the checkpoints that make a part of the log obsolete (`database::maintenance::checkpoint`).

mod options;
mod record;
mod group;
mod files;
mod head;
mod replay;
mod log;
mod verify;
mod repair;
mod retained_file;

pub use group::{Group, decode_group};
pub(crate) use head::read_head;
pub use options::{Durability, LogOptions};
pub use record::Record;
pub(crate) use retained_file::{RetainedFile, read_retained, skim_retained, write_retained};

pub(crate) use files::list_files;
#[cfg(test)]
pub(crate) use group::FILE_HEADER_BYTES;
pub(crate) use group::RECORDS_BYTES_MAX;
pub(crate) use log::{CommitOutcome, Log, create};
pub(crate) use record::{SeemingChange, record_bytes_max};
pub(crate) use repair::{
    GivenUp, NewFile, RecordAfterDamage, aside_files, end_cut_off_repair, read_after_damage,
};
pub use replay::TornGroup;
pub(crate) use replay::{
    LogEnd, LogSpan, Progress, ReplayedRecord, is_unused, last_flushed, replay, replay_with,
};
pub(crate) use verify::{clear_unused, verify};
