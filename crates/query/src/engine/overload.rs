//! The end of statements that take more memory or disk than the process has.
//!
//! Not here: the looks at both, which are the server's.

use tidegate_model::ByteCount;

use super::Engine;

impl Engine {
    /// Ends the largest statement of the user who has most memory, for this limit of the process:
    /// its id, its bytes.
    pub fn end_largest(&self, limit: ByteCount) -> Option<(u64, ByteCount)> {
        self.system.activity.end_largest(limit)
    }

    /// Ends the statement that has spilled most, as the disk has little room left: its id, and the
    /// bytes that it has spilled. `None` if nothing is spilled.
    pub fn end_largest_spill(&self) -> Option<(u64, ByteCount)> {
        match self.has_spilled() {
            true => self.system.activity.end_largest_spill(),
            false => None,
        }
    }

    /// True if files of queries are on the disk.
    #[must_use]
    pub fn has_spilled(&self) -> bool {
        0 < self.system.runtime.disk_manager.used_disk_space()
    }
}
