//! What every command has: the database's place, the disk, the clock, and Ctrl-C.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tidegate_model::ByteCount;
use tidegate_platform::{Clock, Disk, RealDisk, SystemClock, install_interrupt_handler};
use tidegate_storage::{Database, OpenOptions};

use crate::environment::Environment;
use crate::error::{Error, Result};

/// The part of RAM that a command takes unless told otherwise.
const MEMORY_PART: u64 = 4;

/// The wiring of one command.
pub(crate) struct Session {
    pub(crate) db: PathBuf,
    pub(crate) environment: Environment,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Session {
    pub(crate) fn new(db: PathBuf, environment: Environment) -> Session {
        Session { db, environment, disk: Arc::new(RealDisk), clock: Arc::new(SystemClock) }
    }

    /// Opens the database, and makes it if there is none.
    pub(crate) fn open(&self) -> Result<Arc<Database>> {
        self.open_within(None)
    }

    /// The same for a command that may use so much memory: `--memory`.
    pub(crate) fn open_within(&self, memory: Option<ByteCount>) -> Result<Arc<Database>> {
        let memory = memory.unwrap_or(ByteCount(self.environment.memory.0 / MEMORY_PART));
        Ok(self.open_with(&self.open_options(memory))?)
    }

    /// The options of a process that may use so much memory.
    pub(crate) fn open_options(&self, memory: ByteCount) -> OpenOptions {
        let mut options = OpenOptions::new(Arc::clone(&self.clock));
        options.tail = options.tail.within(memory);
        options
    }

    /// Opens it in another way, for who needs to know what of the storage went wrong.
    pub(crate) fn open_with(
        &self,
        options: &OpenOptions,
    ) -> tidegate_storage::Result<Arc<Database>> {
        Database::open(Arc::clone(&self.disk), &self.db, options)
    }

    /// Opens the database, which must be there: a command that only looks makes none.
    pub(crate) fn open_existing(&self) -> Result<Arc<Database>> {
        if !self.has_database()? {
            return Err(Error::NoDatabase { dir: self.db.clone() });
        }
        self.open()
    }

    /// Whether the directory has a database.
    pub(crate) fn has_database(&self) -> Result<bool> {
        let inside = self.db.join("data");
        self.disk.exists(&inside).map_err(Error::disk("open the database"))
    }

    /// From now on the first Ctrl-C sets the flag, and the second ends the process.
    pub(crate) fn catch_interrupts(&self) -> Arc<AtomicBool> {
        install_interrupt_handler()
    }
}
