//! The context of every command: the database directory, the disk, the clock, and Ctrl-C.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tidegate_model::ByteCount;
use tidegate_platform::{Clock, Disk, RealDisk, SystemClock, install_interrupt_handler};
use tidegate_storage::{Database, OpenOptions};

use crate::environment::Environment;
use crate::error::{Error, Result};

/// Share of RAM for a command without `--memory`: one part in this many.
const MEMORY_PART: u64 = 4;

/// The context of one command.
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

    /// Opens the database, and creates it if there is none.
    pub(crate) fn open(&self) -> Result<Arc<Database>> {
        self.open_within(None)
    }

    /// Opens the database with a memory limit, from `--memory`.
    pub(crate) fn open_within(&self, memory: Option<ByteCount>) -> Result<Arc<Database>> {
        let memory = memory.unwrap_or(ByteCount(self.environment.memory.0 / MEMORY_PART));
        Ok(self.open_with(&self.open_options(memory))?)
    }

    /// Returns the options to open a database within a memory limit.
    pub(crate) fn open_options(&self, memory: ByteCount) -> OpenOptions {
        let mut options = OpenOptions::new(Arc::clone(&self.clock));
        options.maintenance = options.maintenance.within(memory);
        options
    }

    /// Opens the database with options, and returns the error of the storage unchanged.
    pub(crate) fn open_with(
        &self,
        options: &OpenOptions,
    ) -> tidegate_storage::Result<Arc<Database>> {
        Database::open(Arc::clone(&self.disk), &self.db, options)
    }

    /// Opens an existing database: a command that only reads does not create one.
    pub(crate) fn open_existing(&self) -> Result<Arc<Database>> {
        if !self.has_database()? {
            return Err(Error::NoDatabase { dir: self.db.clone() });
        }
        self.open()
    }

    /// Returns true if the directory has a database.
    pub(crate) fn has_database(&self) -> Result<bool> {
        let inside = self.db.join("data");
        self.disk.exists(&inside).map_err(Error::disk("open the database"))
    }

    /// Installs a handler: the first Ctrl-C sets the flag, and the second ends the process.
    pub(crate) fn catch_interrupts(&self) -> Arc<AtomicBool> {
        install_interrupt_handler()
    }
}
