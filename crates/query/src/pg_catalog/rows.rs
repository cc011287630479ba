//! Catalog rows before they become arrays: they contain only values that differ from the default.

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cell {
    Null,
    Flag(bool),
    Number(i64),
    Text(String),
}

/// Values by the names of their columns.
#[derive(Debug, Clone, Default)]
pub(super) struct Row(Vec<(&'static str, Cell)>);

impl Row {
    pub(super) fn new() -> Row {
        Row::default()
    }

    pub(super) fn with(mut self, column: &'static str, value: impl Into<Cell>) -> Row {
        self.0.push((column, value.into()));
        self
    }

    pub(super) fn find(&self, column: &str) -> Option<&Cell> {
        self.0.iter().find(|(name, _)| *name == column).map(|(_, cell)| cell)
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Cell {
        Cell::Flag(value)
    }
}

impl From<u32> for Cell {
    fn from(value: u32) -> Cell {
        Cell::Number(value.into())
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Cell {
        Cell::Number(value)
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Cell {
        Cell::Text(value.to_owned())
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Cell {
        Cell::Text(value)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Null, Into::into)
    }
}
