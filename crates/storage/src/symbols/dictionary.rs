//! The growing side of a symbol column: the first import with a string assigns its id, and the next
//! commit makes it durable.
//!
//! - symbols-1, symbols-3 as in `symbols`. Two imports share one dictionary, so that their ids
//!   never clash.
//! - dictionary-1. After a failed sync the file is written anew under its name; the durable bytes
//!   are copied, so that every watermark in a record stays the end of a symbol range, and every
//!   saved part has the same place in it (symbols-5). Parts that map the old file keep it.
//! - dictionary-2. A save that fails after its sync, because the new symbol ranges cannot be
//!   mapped, has saved nothing: the next one writes them again.
//! - dictionary-3. The parts of all dictionaries of a database, also those that only snapshots
//!   have, are counted in one budget. A new string is refused while it is exceeded; strings of a
//!   file or of the log never are.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_model::{ByteCount, ColumnId, SymbolId, limits};
use tidegate_platform::{Disk, DiskFile, MemoryBudget, OpenMode};

use super::file::{self, SymbolColumn, encode_header, encode_symbol_range};
use super::part::{Part, SavedRange};
use super::{PART_BYTES, SymbolTable, SymbolTexts, SymbolWatermark, is_reserved};
use crate::checksummed_file;
use crate::error::{Corruption, Error, Result};

/// Bytes copied at a time when a file is written anew.
const COPY_BYTES: usize = 1 << 20;

/// Bytes of new strings from which on a save, with its sync, is worth the room that it makes.
const UNSAVED_BYTES_MIN: usize = 1 << 20;

/// The dictionary of one symbol column, growing. Threads share it.
#[derive(Debug)]
pub(crate) struct Dictionary {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    of: SymbolColumn,
    memory: Arc<MemoryBudget>,
    values: Mutex<Values>,
    /// Code that locks both locks this one before `values`.
    file: Mutex<SymbolFile>,
}

#[derive(Debug)]
struct Values {
    frozen: Arc<SymbolTable>,
    fresh: Part,
}

#[derive(Debug)]
struct SymbolFile {
    /// The end of the values that are on disk.
    durable: SymbolWatermark,
    handle: Option<Arc<dyn DiskFile>>,
    /// True if the file cannot be appended to: there is none, or a sync of it has failed
    /// (dictionary-1).
    is_unusable: bool,
    /// True if the column was dropped; commits with newly interned strings will fail.
    is_dropped: bool,
}

impl Dictionary {
    /// Reads the dictionary as it was committed; without values there is no file.
    pub(crate) fn open(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        of: SymbolColumn,
        watermark: SymbolWatermark,
        memory: &Arc<MemoryBudget>,
    ) -> Result<Dictionary> {
        let path = dir.join(file_name(of.column));
        let empty = SymbolTable::counted(memory);
        let frozen = file::read(disk.as_ref(), &path, of, watermark, empty)?;
        let fresh = Part::fresh(watermark.count);
        let is_unusable = watermark.bytes == 0;
        Ok(Dictionary {
            disk: Arc::clone(disk),
            path,
            of,
            memory: Arc::clone(memory),
            values: Mutex::new(Values { frozen: Arc::new(frozen), fresh }),
            file: Mutex::new(SymbolFile {
                durable: watermark,
                handle: None,
                is_unusable,
                is_dropped: false,
            }),
        })
    }

    /// The ids of strings; new strings get new ids.
    pub(crate) fn intern(&self, texts: &[&[u8]]) -> Result<Vec<SymbolId>> {
        loop {
            let mut values = lock(&self.values);
            let ids = texts.iter().map(|text| self.intern_one(&mut values, text));
            let ids: Result<Vec<SymbolId>> = ids.collect();
            drop(values);
            let is_over = matches!(ids, Err(Error::SymbolMemory { .. }));
            if !is_over || !self.has_made_room() {
                return ids;
            }
        }
    }

    /// The id of a string. A new one is refused if dictionaries have too much memory
    /// (dictionary-3).
    fn intern_one(&self, values: &mut Values, text: &[u8]) -> Result<SymbolId> {
        if self.memory.is_over() && values.find(text).is_none() {
            return Err(Error::SymbolMemory {
                column: format!("#{}", self.of.column.0),
                bytes: ByteCount(self.memory.used_bytes()),
                limit: ByteCount(self.memory.max_bytes()),
            });
        }
        values.intern(text, self.of.column)
    }

    /// Moves new strings to the file, if they are worth it. They are harmless there if they are
    /// never committed (symbols-4); after an error they stay in memory.
    fn has_made_room(&self) -> bool {
        let is_dropped = lock(&self.file).is_dropped;
        let fresh_bytes = lock(&self.values).fresh_bytes();
        !is_dropped && UNSAVED_BYTES_MIN <= fresh_bytes && self.save().is_ok()
    }

    /// As `intern`, and returns a table that contains all of them.
    pub(crate) fn intern_and_freeze(
        &self,
        texts: &[&[u8]],
    ) -> Result<(Vec<SymbolId>, Arc<SymbolTable>)> {
        // Most strings are in the frozen part, which is read without a lock.
        let known = Arc::clone(&lock(&self.values).frozen);
        let ids: Option<Vec<SymbolId>> = texts.iter().map(|text| known.find(text)).collect();
        if let Some(ids) = ids {
            return Ok((ids, known));
        }
        let ids = self.intern(texts)?;
        Ok((ids, self.table()))
    }

    /// Appends strings from a record of the log, which were assigned ids by an earlier process.
    ///
    /// # Errors
    /// If they do not follow the existing ones.
    pub(crate) fn replay(&self, texts: &SymbolTexts) -> Result<()> {
        let mut values = lock(&self.values);
        values.freeze();
        let count = values.frozen.len;
        let damaged = |value: u32| {
            let what = Corruption::Impossible { what: "a symbol of the log", value: value.into() };
            Error::Corrupt { path: self.path.clone(), offset: 0, what }
        };
        if texts.first > count {
            let (expected, actual) = (count.into(), texts.first.into());
            let what = Corruption::Differs { what: "the first new symbol", expected, actual };
            return Err(Error::Corrupt { path: self.path.clone(), offset: 0, what });
        }
        for (at, id) in (texts.first..texts.end()).enumerate() {
            let text = texts.texts.get(at);
            if id < count {
                // The file may have the text that a repair did not find.
                if values.frozen.text(SymbolId(id)) != text && !is_reserved(id, text) {
                    return Err(damaged(id));
                }
            } else if values.intern(text, self.of.column)? != SymbolId(id) {
                return Err(damaged(id));
            }
        }
        values.freeze();
        Ok(())
    }

    /// All values so far.
    pub(crate) fn table(&self) -> Arc<SymbolTable> {
        let mut values = lock(&self.values);
        values.freeze();
        Arc::clone(&values.frozen)
    }

    /// Makes all values so far durable, and returns their watermark (symbols-3).
    pub(crate) fn save(&self) -> Result<SymbolWatermark> {
        let mut file = lock(&self.file);
        let table = self.table();
        if table.len == file.durable.count || file.is_dropped {
            return Ok(file.durable);
        }
        let (handle, bytes) = if file.is_unusable {
            self.rewrite(&file, &table).map_err(Error::disk("write symbols anew"))?
        } else {
            self.append(&mut file, &table).map_err(Error::disk("append symbols"))?
        };
        let durable = SymbolWatermark { count: table.len, bytes };
        let saved = self.read_back(handle.as_ref(), &table, durable)?;
        // After a rewrite, the next append opens the file again, under its own name.
        file.handle = (!file.is_unusable).then_some(handle);
        (file.durable, file.is_unusable) = (durable, false);
        let mut values = lock(&self.values);
        // Strings that were interned meanwhile stay in memory.
        values.frozen = Arc::new(saved.continued(&values.frozen));
        Ok(durable)
    }

    /// The same values, all of them in parts of the file (symbols-5, dictionary-2).
    fn read_back(
        &self,
        file: &dyn DiskFile,
        table: &SymbolTable,
        durable: SymbolWatermark,
    ) -> Result<SymbolTable> {
        let (kept, offset) = table.kept(durable);
        let bytes = file::load(file, offset..durable.bytes).map_err(Error::disk("map symbols"))?;
        let saved = SavedRange { symbol_ranges: 0..bytes.len(), bytes, offset };
        let saved = file::append_symbol_ranges(kept, &saved).map_err(Error::decode(&self.path))?;
        assert_eq!(saved.len, durable.count, "symbols-3: each of them was written");
        Ok(saved)
    }

    /// Removes the file of a dropped column. Values in memory stay.
    pub(crate) fn drop_file(&self) {
        let mut file = lock(&self.file);
        file.is_dropped = true;
        file.handle = None;
        // If this fails, the next open removes it.
        let _ = self.disk.remove(&self.path);
    }

    fn append(
        &self,
        file: &mut SymbolFile,
        table: &SymbolTable,
    ) -> tidegate_platform::Result<(Arc<dyn DiskFile>, u64)> {
        let handle = match &file.handle {
            Some(handle) => Arc::clone(handle),
            None => self.disk.open(&self.path, OpenMode::ReadWrite)?,
        };
        // Bytes of an attempt that failed are after the watermark, and are overwritten.
        let end = write_symbol_ranges(handle.as_ref(), table, file.durable)?;
        if let Err(error) = handle.sync_data() {
            file.is_unusable = true;
            file.handle = None;
            return Err(error);
        }
        Ok((handle, end))
    }

    fn rewrite(
        &self,
        file: &SymbolFile,
        table: &SymbolTable,
    ) -> tidegate_platform::Result<(Arc<dyn DiskFile>, u64)> {
        let dir = self.path.parent().expect("symbol files lie in a directory");
        self.disk.create_dir_all(dir)?;
        let written = checksummed_file::temporary(&self.path);
        let handle = self.disk.open(&written, OpenMode::CreateOrTruncate)?;
        let mut start = file.durable;
        if start.bytes == 0 {
            let header = encode_header(self.of);
            handle.write_all_at(&header, 0)?;
            start.bytes = header.len() as u64;
        } else {
            let old = self.disk.open(&self.path, OpenMode::Read)?;
            copy(old.as_ref(), handle.as_ref(), start.bytes)?;
        }
        let end = write_symbol_ranges(handle.as_ref(), table, start)?;
        handle.sync_data()?;
        self.disk.rename(&written, &self.path)?;
        self.disk.sync_dir(dir)?;
        // Messages about the mapping give the name of the file.
        Ok((self.disk.open(&self.path, OpenMode::Read)?, end))
    }
}

impl Values {
    /// Bytes of the strings that are in memory.
    fn fresh_bytes(&self) -> usize {
        self.frozen.fresh_bytes() + self.fresh.text_bytes()
    }

    fn find(&self, text: &[u8]) -> Option<SymbolId> {
        self.find_hashed(self.frozen.hash(text), text)
    }

    fn find_hashed(&self, hash: u64, text: &[u8]) -> Option<SymbolId> {
        self.frozen.find_hashed(hash, text).or_else(|| self.fresh.find(hash, text))
    }

    fn intern(&mut self, text: &[u8], column: ColumnId) -> Result<SymbolId> {
        let hash = self.frozen.hash(text);
        if let Some(id) = self.find_hashed(hash, text) {
            return Ok(id);
        }
        if text.len() > limits::SYMBOL_BYTES {
            return Err(Error::SymbolTooLong { bytes: text.len() });
        }
        if let Err(error) = std::str::from_utf8(text) {
            return Err(Error::SymbolNotText { valid: error.valid_up_to() });
        }
        if self.fresh.text_bytes() + text.len() > PART_BYTES {
            self.freeze();
        }
        let id = SymbolId(self.fresh.end());
        if id.0 >= limits::SYMBOLS {
            return Err(Error::TooManySymbols { column: column.0 });
        }
        self.fresh.push(hash, text, &self.frozen.hasher);
        self.fresh.count_in(self.frozen.memory.as_ref());
        Ok(id)
    }

    fn freeze(&mut self) {
        if self.fresh.is_empty() {
            return;
        }
        let next = Part::fresh(self.fresh.end());
        let fresh = std::mem::replace(&mut self.fresh, next);
        self.frozen = Arc::new(self.frozen.extended(fresh));
    }
}

/// The name of a column's file in the directory of symbols.
pub(crate) fn file_name(column: ColumnId) -> String {
    format!("{column}.sym")
}

/// The column whose file has this name.
pub(crate) fn parse_file_name(name: &str) -> Option<ColumnId> {
    let column = ColumnId(name.strip_suffix(".sym")?.parse().ok()?);
    (file_name(column) == name).then_some(column)
}

/// Writes the values after `start`, and returns their end.
fn write_symbol_ranges(
    handle: &dyn DiskFile,
    table: &SymbolTable,
    start: SymbolWatermark,
) -> tidegate_platform::Result<u64> {
    let (mut first, mut end) = (start.count, start.bytes);
    while first < table.len {
        let symbol_range = encode_symbol_range(table, &mut first);
        handle.write_all_at(&symbol_range, end)?;
        end += symbol_range.len() as u64;
    }
    Ok(end)
}

fn copy(from: &dyn DiskFile, to: &dyn DiskFile, bytes: u64) -> tidegate_platform::Result<()> {
    let mut buffer = vec![0; COPY_BYTES];
    let mut offset = 0;
    while offset < bytes {
        let left = usize::try_from(bytes - offset).map_or(COPY_BYTES, |left| left.min(COPY_BYTES));
        from.read_exact_at(&mut buffer[..left], offset)?;
        to.write_all_at(&buffer[..left], offset)?;
        offset += left as u64;
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Values are appended as a whole, and the watermark of a file moves last: a panic leaves both
    // usable.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
