//! The options of the log: durability and bounds.

/// The moment at which a commit is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The record of the commit is on disk.
    Sync,
    /// The operating system has the record: it survives a crash of the process, but not of the
    /// machine, until `Database::sync` is called. Such a crash loses only the latest commits.
    Async,
}

/// The bounds of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOptions {
    /// The moment at which a commit is acknowledged.
    pub durability: Durability,
    /// Bytes of records that may be acknowledged and not durable; the next commit syncs the log.
    pub unsynced_bytes_max: u64,
    /// Bytes that are filled with zeros ahead of use, at a time.
    pub step_bytes: u64,
    /// Bytes after which another file is started.
    pub file_bytes: u64,
    /// Bytes after which a commit makes a checkpoint.
    pub checkpoint_bytes: u64,
    /// Bytes after which commits fail if there cannot be a checkpoint.
    pub bytes_max: u64,
}

impl LogOptions {
    /// Space for some thousand commits at a step, and a replay of less than a second.
    pub const STANDARD: LogOptions = LogOptions {
        durability: Durability::Sync,
        unsynced_bytes_max: 64 << 20,
        step_bytes: 4 << 20,
        file_bytes: 64 << 20,
        checkpoint_bytes: 64 << 20,
        bytes_max: 8 << 30,
    };
}
