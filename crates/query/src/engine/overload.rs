//! Cancellation of statements when the process has too little memory or disk space.
//!
//! Not here: monitoring both, which the server does.

use tidegate_model::ByteCount;

use super::Engine;

impl Engine {
    /// Cancels the largest statement of the user who has most memory, those of administrators last,
    /// because the process is over this limit. Returns its id and its bytes.
    pub fn end_largest(&self, limit: ByteCount) -> Option<(u64, ByteCount)> {
        self.system.running_queries.end_largest(limit)
    }

    /// The same among the users whose stopped statements have not released much memory yet.
    pub fn end_largest_of_stopped(&self, limit: ByteCount) -> Option<(u64, ByteCount)> {
        self.system.running_queries.end_largest_of_stopped(limit)
    }

    /// The bytes of statements that were stopped and whose threads have not released them yet.
    #[must_use]
    pub fn ending_bytes(&self) -> ByteCount {
        self.system.running_queries.ending_bytes()
    }

    /// Cancels the statement that has spilled most, because the disk is nearly full. Returns its id
    /// and the bytes that it has spilled; `None` if nothing is spilled.
    pub fn end_largest_spill(&self) -> Option<(u64, ByteCount)> {
        match self.has_spilled() {
            true => self.system.running_queries.end_largest_spill(),
            false => None,
        }
    }

    /// Returns true if queries have spilled files on the disk.
    #[must_use]
    pub fn has_spilled(&self) -> bool {
        0 < self.system.spill.bytes().0
    }
}
