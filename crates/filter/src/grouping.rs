//! Grouping by hash: keys of any number of distinct values, numbered densely as they appear.
//!
//! ```text
//! texts of a column --TextTable--> numbers --\
//! integers, codes ---------------------------+--packed words--KeyTable--> groups
//! groups of many small tables --PartitionOrder--> partitions --KeyTable, HashedTable--> groups
//! ```
//!
//! - grouping-1. A key has one number in its table, and a number one key. Texts are looked up as
//!   they are stored; NULL is a text of its own.
//! - Hashes are for tables in memory: they are never stored, and nothing that a caller sees depends
//!   on them but the order of groups.
//! - Rows are looked up in blocks: first the slots of a block are read, then the keys that they
//!   name, so that the cache misses of many rows are waited for at the same time.
//!
//! Not here: the folds of groups (`aggregate`), and when tables are full and merged (`query`).

mod hash;
mod slots;
mod keys;
mod hashed;
mod radix;
mod text_table;

pub use hash::{hash_of_key, mix};
pub use hashed::HashedTable;
pub use keys::KeyTable;
pub use radix::{PARTITIONS, PartitionOrder};
pub use text_table::{DecompressedTexts, TextPiece, TextTable, TextZone, WholeTexts};

/// Rows that are looked up at the same time.
const BLOCK: usize = 256;
