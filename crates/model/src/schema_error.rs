//! The reasons why a schema, a view, a default or a comment is invalid.

use thiserror::Error;

use crate::limits;
use crate::partition::PartitionUnit;
use crate::types::ColumnType;

/// The reason why a schema is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "a message is the doc of its error")]
#[non_exhaustive]
pub enum SchemaError {
    #[error("a table needs at least one column")]
    NoColumns,
    #[error("{count} columns are more than the {} a table may have", limits::TABLE_COLUMNS)]
    TooManyColumns { count: usize },
    #[error("column `{name}` is there twice (names are compared without case)")]
    DuplicateColumn { name: String },
    #[error("column `{name}` does not exist")]
    NoSuchColumn { name: String },
    #[error("a name must have 1 to {} bytes, `{name}` has {}", limits::NAME_BYTES, .name.len())]
    BadName { name: String },
    #[error(
        "column `{name}` is {}, but a designated timestamp is TIMESTAMP or TIMESTAMP_NS", .ty.sql()
    )]
    NotATimestamp { name: String, ty: ColumnType },
    #[error("PARTITION BY {} needs a designated timestamp", .unit.sql())]
    PartitionWithoutTimestamp { unit: PartitionUnit },
    #[error("column `{name}` is the designated timestamp and cannot be dropped")]
    DesignatedDropped { name: String },
    #[error("column `{name}` is a key of DEDUP and cannot be dropped")]
    KeyDropped { name: String },
    #[error("DEDUP UPSERT KEYS needs the designated timestamp among its keys, each of them once")]
    BadKeys,
    #[error("the column name `{name}` is reserved for statements that change rows")]
    ReservedName { name: String },
    #[error("TTL needs a table with partitions, and at least one unit of time")]
    BadTtl,
    #[error("only a VARCHAR column has a length, at least 1, and only one")]
    BadLength,
    #[error("the query of a view has 1 to {} bytes, and not {bytes}", limits::VIEW_BYTES)]
    ViewText { bytes: usize },
    #[error("the tables of a view have {count} columns, more than {}", limits::VIEW_COLUMNS)]
    ViewColumns { count: usize },
    #[error("a view cannot have partitions, keys, lengths, defaults or a TTL")]
    ViewOfRows,
    #[error("column `{name}` is {}, and an identity needs an integer type", .ty.sql())]
    NotOfNumbers { name: String, ty: ColumnType },
    #[error("a DEFAULT has 1 to {} bytes, and not {bytes}", limits::DEFAULT_BYTES)]
    DefaultText { bytes: usize },
    #[error("a DEFAULT needs a column of the table that has none yet")]
    BadDefault,
    #[error("a comment has 1 to {} bytes, and not {bytes}", limits::COMMENT_BYTES)]
    CommentText { bytes: usize },
    #[error(
        "the comments on a table and its columns have {bytes} bytes, more than {}",
        limits::COMMENTS_BYTES
    )]
    CommentTexts { bytes: usize },
    #[error("a comment needs a column of the table that has none yet")]
    BadComment,
}
