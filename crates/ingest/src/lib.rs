//! Parsers of text, Parquet and the line protocol, and the parallel import of files into segments.
//!
//! The stages of an import of files: `input` (chunks of bytes, read ahead), `split` and `index`
//! (records and fields), `convert` (values, a parsed batch at a time), `scatter` (column buffers of
//! buckets of time), `segment_build` (sorted, encoded segments), commit. Every byte is parsed once,
//! whatever the order of the rows.
//!
//! Lines of the line protocol skip these stages: `line` parses them to rows, which the database
//! appends to its memtables.
//!
//! Not here: the format of a segment and the commit (`storage`). Work runs on threads with bounded
//! channels; there is no `async`.

pub mod timestamp;
pub mod parse;
pub mod sniff;
pub mod reject;
pub mod source;
pub mod options;
pub mod progress;
mod multiline;
pub mod index;
pub mod line;
mod split;
mod utf16;
mod pg_text;
mod input;
mod sample;
mod layout;
mod shares;
mod packed;
mod parsed_batch;
mod convert;
mod exact;
mod parse_errors;
mod tally;
mod excerpt;
mod scatter;
mod bucket;
mod target_schema;
mod context;
mod read;
mod parquet_file;
mod parquet_flaw;
mod split_buckets;
mod segment_build;
mod import;
mod error;

pub use error::{Error, Result};
pub use import::{ImportSummary, import};
pub use options::{
    ByteStream, ColumnSource, DialectOptions, EmptyFields, Existing, ExtraFields, FileFormat,
    Header, ImportOptions, MissingFields, OnError, Quote, RowReceiver, RowsRefused, RowsTo, Source,
};
pub use parquet_file::is_decoding_guarded;
pub use parquet_flaw::{Flaw, LibraryMessage};
pub use progress::{Phase, Progress, ProgressSample};
pub use reject::RejectList;
pub use source::{ExpandedPaths, expand_paths, left_out_note};
