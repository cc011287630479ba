//! Ids: numbers that identify tables, columns, segments, symbols and commits. Paths and footers
//! contain ids; the names of tables are in the catalog.
//!
//! - ids-1. An id is never reused, not even after its object was dropped.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A table of the database.
    TableId, u64
);
id!(
    /// A column of its table. In a segment without this column, all its values are NULL.
    ColumnId, u32
);
id!(
    /// A segment of its table; the name of its file.
    SegmentId, u64
);
id!(
    /// The number of a commit in its table: rises by one, without gaps.
    SeqTxn, u64
);
id!(
    /// A position in the log, in bytes since its beginning.
    Lsn, u64
);
id!(
    /// A value of a symbol column's dictionary.
    SymbolId, u32
);
id!(
    /// The number of changes of a table's schema.
    SchemaVersion, u64
);

impl SeqTxn {
    /// The number of the commit after this one.
    #[must_use]
    pub fn next(self) -> SeqTxn {
        SeqTxn(self.0 + 1)
    }
}
