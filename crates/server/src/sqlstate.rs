//! SQLSTATE and HTTP status of errors (docs/server.md has the table).

use tidegate_platform::Class;
use tidegate_query::{Condition, Error as QueryError};
use tidegate_storage::Error as StorageError;

/// Returns the SQLSTATE of an error of a statement.
pub(crate) fn of_query(error: &QueryError) -> &'static str {
    if let QueryError::Storage(source) = error {
        match of_storage(source) {
            "XX000" => {}
            known => return known,
        }
    }
    if let QueryError::Bulk { source, .. } = error {
        return source.code;
    }
    match error.condition() {
        Condition::SyntaxError => "42601",
        Condition::FeatureNotSupported => "0A000",
        Condition::InvalidDatetime => "22007",
        Condition::DatetimeOverflow => "22008",
        Condition::InvalidText => "22P02",
        Condition::TextTooLong => "22001",
        Condition::OutOfRange => "22003",
        Condition::UndefinedTable => "42P01",
        Condition::UndefinedColumn => "42703",
        Condition::UndefinedFunction => "42883",
        Condition::AmbiguousFunction => "42725",
        Condition::DuplicateTable => "42P07",
        Condition::DependentObjects => "2BP01",
        Condition::UndefinedParameter => "42P02",
        Condition::DuplicateColumn => "42701",
        Condition::AmbiguousName => "42702",
        Condition::InvalidTableDefinition => "42P16",
        Condition::InvalidObjectDefinition => "42P17",
        Condition::Grouping => "42803",
        Condition::Cardinality => "21000",
        Condition::InvalidPattern => "2201B",
        Condition::InvalidEscape => "22019",
        Condition::InvalidFrameSize => "22013",
        Condition::InvalidColumnReference => "42P10",
        Condition::DuplicateAlias => "42712",
        Condition::InvalidStatement => "42000",
        Condition::InvalidParameter => "22023",
        Condition::WrongObjectType => "42809",
        Condition::DivisionByZero => "22012",
        Condition::NotNull => "23502",
        Condition::Conflict => "40001",
        Condition::UndefinedObject => "42704",
        Condition::NotAllowed => "42501",
        Condition::ReadOnly => "25006",
        Condition::ActiveTransaction => "25001",
        Condition::CannotChange => "55P02",
        Condition::NotReady => "55000",
        Condition::OutOfMemory => "53200",
        Condition::DiskFull => "53100",
        Condition::LimitExceeded => "54000",
        Condition::TooManyColumns => "54011",
        Condition::Environment => "58030",
        Condition::Corruption => "XX001",
        Condition::QueryCanceled => "57014",
        Condition::Stopping => "57P01",
        _ => "XX000",
    }
}

/// Returns the SQLSTATE of an error of the storage; `XX000` if it has none of its own.
pub(crate) fn of_storage(error: &StorageError) -> &'static str {
    match error {
        error if error.is_no_space() => "53100",
        StorageError::ReadOnly { .. } | StorageError::OpenedReadOnly => "25006",
        StorageError::TableDropped { .. }
        | StorageError::TableTruncated { .. }
        | StorageError::ColumnDropped { .. }
        | StorageError::ColumnAdded { .. } => "40001",
        StorageError::CommitTooLarge { .. } => "54000",
        StorageError::SymbolMemory { .. } => "53200",
        other => match other.class() {
            Class::Environment => "58030",
            Class::Corruption => "XX001",
            Class::Caller => "XX000",
        },
    }
}

/// Returns the HTTP status of an SQLSTATE.
pub(crate) fn status(code: &str) -> u16 {
    match code {
        "53100" => 507,
        "53000" | "53200" | "53400" | "40001" | "57P01" | "57P03" => 503,
        "28000" | "28P01" => 401,
        "25006" | "42501" => 403,
        "58030" => 500,
        _ if code.starts_with("XX") => 500,
        _ => 400,
    }
}

#[cfg(test)]
mod tests {
    use tidegate_model::ByteCount;

    use super::*;

    #[test]
    fn symbols_beyond_their_memory_are_out_of_memory() {
        let (bytes, limit) = (ByteCount(2), ByteCount(1));
        let error = StorageError::SymbolMemory { column: "host".to_owned(), bytes, limit };
        assert_eq!((of_storage(&error), error.class()), ("53200", Class::Environment));
        let error = QueryError::from(error);
        assert_eq!((of_query(&error), error.condition()), ("53200", Condition::OutOfMemory));
    }

    #[test]
    fn http_statuses_follow_the_class_of_the_error() {
        for (code, expected) in [
            ("42601", 400),
            ("22012", 400),
            ("57014", 400),
            ("53200", 503),
            ("53100", 507),
            ("58030", 500),
            ("XX001", 500),
            ("25006", 403),
        ] {
            assert_eq!(status(code), expected, "{code}");
        }
    }
}
