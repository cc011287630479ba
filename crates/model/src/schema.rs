//! A table's columns and how it is ordered and partitioned.
//!
//! - model_schema-1. Two columns may not differ only in case.
//! - model_schema-2. The designated timestamp is a TIMESTAMP or TIMESTAMP_NS column and never NULL.
//! - model_schema-3. A table is partitioned only by its designated timestamp.
//! - model_schema-4. Keys of DEDUP are columns of the table, each once, with the designated
//!   timestamp among them. Rows are kept for a time only in a table that has partitions.
//! - model_schema-5. A length counts characters, is at least one, and is of a VARCHAR column, which
//!   has one at most.
//! - model_schema-6. Comments are not empty. The table and each of its columns have at most one.
//! - model_schema-7. A view is a schema with a query in place of rows: it has no partitions, no
//!   keys of DEDUP, no TTL, no lengths, and no defaults.
//! - model_schema-8. Defaults are of columns of the table, at most one for each. Only integer
//!   columns have numbers, and the text of an expression has a length limit.
//! - model_schema-9. The names of the tables of the system, those of the schema `sys`, begin with
//!   `sys.`, and no other names do.

use std::sync::Arc;

use crate::ids::{ColumnId, SchemaVersion};
use crate::limits;
use crate::partition::PartitionUnit;
use crate::schema_error::SchemaError;
use crate::time::TimeUnit;
use crate::types::ColumnType;
use crate::view::{ColumnDefault, Comments, View};

/// The prefix of the names of system tables (model_schema-9).
pub const SYSTEM_PREFIX: &str = "sys.";

/// The name of the column of row numbers in statements that change rows.
pub const ROW_ID: &str = "tidegate.row";

/// Returns true if a table of this name is a system table (model_schema-9).
#[must_use]
pub fn is_system_table(name: &str) -> bool {
    let start = name.as_bytes().get(..SYSTEM_PREFIX.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(SYSTEM_PREFIX.as_bytes()))
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The name of the column in segments.
    pub id: ColumnId,
    /// The name that users see, in the case it was created with.
    pub name: String,
    /// The type.
    pub ty: ColumnType,
}

/// The columns of a table in their order, its designated timestamp and partitioning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    version: SchemaVersion,
    columns: Vec<Column>,
    designated: Option<ColumnId>,
    partition_by: PartitionUnit,
    next_column: ColumnId,
    dedup: Vec<ColumnId>,
    ttl: Option<Ttl>,
    lengths: Vec<TextLength>,
    comments: Comments,
    view: Option<Arc<View>>,
    defaults: Vec<(ColumnId, ColumnDefault)>,
}

/// The maximal number of characters of a column's values, as in `VARCHAR(20)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextLength {
    /// The column.
    pub column: ColumnId,
    /// Characters, at least one (model_schema-5).
    pub max: u32,
}

impl TextLength {
    /// Returns true if a UTF-8 text has more characters.
    #[must_use]
    pub fn is_exceeded_by(self, text: &[u8]) -> bool {
        let is_first = |byte: &&u8| **byte & 0xC0 != 0x80;
        let max = usize::try_from(self.max).unwrap_or(usize::MAX);
        max < text.len() && max < text.iter().filter(is_first).count()
    }
}

/// The time for which rows are kept (TTL).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ttl {
    /// Number of units; at least one.
    pub count: u32,
    /// Not NONE.
    pub unit: PartitionUnit,
}

impl Schema {
    /// A schema of new columns, numbered in order. `designated` is a column's name.
    ///
    /// # Errors
    /// If model_schema-1, model_schema-2 or model_schema-3 do not hold, or a limit is passed.
    pub fn new(
        columns: &[(String, ColumnType)],
        designated: Option<&str>,
        partition_by: PartitionUnit,
    ) -> Result<Schema, SchemaError> {
        if columns.is_empty() {
            return Err(SchemaError::NoColumns);
        }
        let mut schema = Schema {
            version: SchemaVersion(0),
            columns: Vec::new(),
            designated: None,
            partition_by,
            next_column: ColumnId(0),
            dedup: Vec::new(),
            ttl: None,
            lengths: Vec::new(),
            comments: Comments::default(),
            view: None,
            defaults: Vec::new(),
        };
        for (name, ty) in columns {
            schema.push(name, *ty)?;
        }
        schema.version = SchemaVersion(1);
        if let Some(name) = designated {
            schema.designated = Some(schema.timestamp_column(name)?);
        }
        schema.checked()
    }

    /// A placeholder for the schema of a table whose files cannot be read. It has no columns, and
    /// no other schema is made from it.
    #[must_use]
    pub fn unknown() -> Schema {
        Schema {
            version: SchemaVersion(0),
            columns: Vec::new(),
            designated: None,
            partition_by: PartitionUnit::None,
            next_column: ColumnId(0),
            dedup: Vec::new(),
            ttl: None,
            lengths: Vec::new(),
            comments: Comments::default(),
            view: None,
            defaults: Vec::new(),
        }
    }

    /// A schema as it was stored.
    ///
    /// # Errors If the parts do not make a schema: model_schema-1, model_schema-2, model_schema-3,
    /// ids below `next_column`.
    pub fn from_parts(parts: SchemaParts) -> Result<Schema, SchemaError> {
        let SchemaParts { version, columns, designated, partition_by, next_column, .. } = parts;
        let SchemaParts { dedup, ttl, lengths, comments, view, defaults, .. } = parts;
        if columns.is_empty() {
            return Err(SchemaError::NoColumns);
        }
        let mut schema = Schema {
            version,
            columns: Vec::new(),
            designated,
            partition_by,
            next_column,
            dedup,
            ttl,
            lengths,
            comments,
            view,
            defaults,
        };
        for column in columns {
            schema.check_new(&column.name)?;
            let id_is_new = schema.columns.iter().all(|other| other.id != column.id);
            if column.id >= next_column || !id_is_new {
                return Err(SchemaError::DuplicateColumn { name: column.name });
            }
            schema.columns.push(column);
        }
        schema.checked()
    }

    fn checked(self) -> Result<Schema, SchemaError> {
        if let Some(id) = self.designated {
            let column = self.column(id).ok_or_else(|| no_such(&format!("#{id}")))?;
            if column.ty.time_unit().is_none() {
                return Err(SchemaError::NotATimestamp {
                    name: column.name.clone(),
                    ty: column.ty,
                });
            }
        } else if self.partition_by != PartitionUnit::None {
            return Err(SchemaError::PartitionWithoutTimestamp { unit: self.partition_by });
        }
        let is_once = |at: usize| !self.dedup[..at].contains(&self.dedup[at]);
        let are_keys = self.dedup.is_empty()
            || self.designated.is_some_and(|id| self.dedup.contains(&id))
                && self.dedup.iter().all(|&id| self.column(id).is_some())
                && (0..self.dedup.len()).all(is_once);
        if !are_keys {
            return Err(SchemaError::BadKeys);
        }
        let is_ttl = |ttl: Ttl| {
            let is_time = ttl.count > 0 && ttl.unit != PartitionUnit::None;
            is_time && self.partition_by != PartitionUnit::None
        };
        if !self.ttl.is_none_or(is_ttl) {
            return Err(SchemaError::BadTtl);
        }
        let is_length = |(at, length): (usize, &TextLength)| {
            let column = self.column(length.column);
            let is_new = self.lengths[..at].iter().all(|other| other.column != length.column);
            length.max > 0 && is_new && column.is_some_and(|it| it.ty == ColumnType::Varchar)
        };
        if !self.lengths.iter().enumerate().all(is_length) {
            return Err(SchemaError::BadLength);
        }
        self.check_comments_and_view()?;
        Ok(self)
    }

    /// Checks model_schema-6 and model_schema-7.
    fn check_comments_and_view(&self) -> Result<(), SchemaError> {
        self.comments.check()?;
        let commented = &self.comments.columns;
        let is_comment = |(at, (id, _)): (usize, &(ColumnId, String))| {
            let is_new = commented[..at].iter().all(|(other, _)| other != id);
            is_new && self.column(*id).is_some()
        };
        if !commented.iter().enumerate().all(is_comment) {
            return Err(SchemaError::BadComment);
        }
        self.check_defaults()?;
        let Some(view) = &self.view else { return Ok(()) };
        let is_plain = self.partition_by == PartitionUnit::None && self.ttl.is_none();
        if !is_plain || !self.dedup.is_empty() || self.says_of_values() {
            return Err(SchemaError::ViewOfRows);
        }
        view.check()
    }

    /// Returns true if the schema declares lengths or defaults of columns.
    fn says_of_values(&self) -> bool {
        !self.lengths.is_empty() || !self.defaults.is_empty()
    }

    /// Checks model_schema-8.
    fn check_defaults(&self) -> Result<(), SchemaError> {
        for (at, (id, default)) in self.defaults.iter().enumerate() {
            let column = self.column(*id).ok_or(SchemaError::BadDefault)?;
            if self.defaults[..at].iter().any(|(other, _)| other == id) {
                return Err(SchemaError::BadDefault);
            }
            match default {
                ColumnDefault::NextNumber if !column.ty.is_integer() => {
                    let (name, ty) = (column.name.clone(), column.ty);
                    return Err(SchemaError::NotOfNumbers { name, ty });
                }
                ColumnDefault::Expression(text)
                    if text.is_empty() || limits::DEFAULT_BYTES < text.len() =>
                {
                    return Err(SchemaError::DefaultText { bytes: text.len() });
                }
                ColumnDefault::NextNumber | ColumnDefault::Expression(_) => {}
            }
        }
        Ok(())
    }

    fn timestamp_column(&self, name: &str) -> Result<ColumnId, SchemaError> {
        let column = self.find(name).ok_or_else(|| no_such(name))?;
        match column.ty.time_unit() {
            Some(_) => Ok(column.id),
            None => Err(SchemaError::NotATimestamp { name: column.name.clone(), ty: column.ty }),
        }
    }

    fn check_new(&self, name: &str) -> Result<(), SchemaError> {
        if name.is_empty() || name.len() > limits::NAME_BYTES || name.contains('\0') {
            return Err(SchemaError::BadName { name: name.to_owned() });
        }
        if same_name(name, ROW_ID) {
            return Err(SchemaError::ReservedName { name: name.to_owned() });
        }
        if self.find(name).is_some() {
            return Err(SchemaError::DuplicateColumn { name: name.to_owned() });
        }
        if self.columns.len() == limits::TABLE_COLUMNS {
            return Err(SchemaError::TooManyColumns { count: self.columns.len() + 1 });
        }
        Ok(())
    }

    fn push(&mut self, name: &str, ty: ColumnType) -> Result<(), SchemaError> {
        self.check_new(name)?;
        let id = self.next_column;
        self.columns.push(Column { id, name: name.to_owned(), ty });
        self.next_column = ColumnId(id.0 + 1);
        Ok(())
    }

    fn changed(mut self) -> Schema {
        self.version = SchemaVersion(self.version.0 + 1);
        self
    }

    /// This schema with one more column at its end.
    ///
    /// # Errors
    /// If the name is taken or bad, or the table is full.
    pub fn with_column(mut self, name: &str, ty: ColumnType) -> Result<Schema, SchemaError> {
        self.push(name, ty)?;
        Ok(self.changed())
    }

    /// This schema without a column. Its id is not used again (ids-1).
    ///
    /// # Errors
    /// If there is no such column, it is the designated timestamp, or the last one.
    pub fn without_column(mut self, name: &str) -> Result<Schema, SchemaError> {
        let column = self.find(name).ok_or_else(|| no_such(name))?;
        let id = column.id;
        if self.designated == Some(id) {
            return Err(SchemaError::DesignatedDropped { name: column.name.clone() });
        }
        if self.dedup.contains(&id) {
            return Err(SchemaError::KeyDropped { name: column.name.clone() });
        }
        self.columns.retain(|column| column.id != id);
        self.lengths.retain(|length| length.column != id);
        self.comments.columns.retain(|(column, _)| *column != id);
        self.defaults.retain(|(column, _)| *column != id);
        if self.columns.is_empty() {
            return Err(SchemaError::NoColumns);
        }
        Ok(self.changed())
    }

    /// This schema with a column under another name.
    ///
    /// # Errors
    /// If there is no such column, or the new name is taken by another one.
    pub fn with_renamed_column(mut self, name: &str, to: &str) -> Result<Schema, SchemaError> {
        let id = self.find(name).ok_or_else(|| no_such(name))?.id;
        let position = self.columns.iter().position(|column| column.id == id).expect("found above");
        let mut column = self.columns.remove(position);
        self.check_new(to)?;
        to.clone_into(&mut column.name);
        self.columns.insert(position, column);
        Ok(self.changed())
    }

    /// This schema with other keys of DEDUP; without keys, rows with the same values may coexist.
    ///
    /// # Errors
    /// If a column does not exist, or model_schema-4 does not hold.
    pub fn with_dedup(mut self, keys: &[&str]) -> Result<Schema, SchemaError> {
        let ids = keys.iter().map(|name| Ok(self.find(name).ok_or_else(|| no_such(name))?.id));
        self.dedup = ids.collect::<Result<_, SchemaError>>()?;
        self.changed().checked()
    }

    /// This schema with another TTL; `None` keeps rows for ever.
    ///
    /// # Errors
    /// If model_schema-4 does not hold.
    pub fn with_ttl(mut self, ttl: Option<Ttl>) -> Result<Schema, SchemaError> {
        self.ttl = ttl;
        self.changed().checked()
    }

    /// This schema with lengths for columns that have none yet, by name.
    ///
    /// # Errors
    /// If a column does not exist, or model_schema-5 does not hold.
    pub fn with_lengths(mut self, lengths: &[(String, u32)]) -> Result<Schema, SchemaError> {
        for (name, max) in lengths {
            let column = self.find(name).ok_or_else(|| no_such(name))?.id;
            self.lengths.push(TextLength { column, max: *max });
        }
        let is_changed = !lengths.is_empty();
        if is_changed { self.changed().checked() } else { Ok(self) }
    }

    /// This schema with another length of a column, or none.
    ///
    /// # Errors
    /// If there is no such column, or model_schema-5 does not hold.
    pub fn with_length(mut self, name: &str, max: Option<u32>) -> Result<Schema, SchemaError> {
        let column = self.find(name).ok_or_else(|| no_such(name))?.id;
        self.lengths.retain(|length| length.column != column);
        self.lengths.extend(max.map(|max| TextLength { column, max }));
        self.changed().checked()
    }

    /// This schema with defaults for columns that have none yet, by name.
    ///
    /// # Errors
    /// If a column does not exist, or model_schema-8 does not hold.
    pub fn with_defaults(
        mut self,
        defaults: &[(String, ColumnDefault)],
    ) -> Result<Schema, SchemaError> {
        for (name, default) in defaults {
            let column = self.find(name).ok_or_else(|| no_such(name))?.id;
            self.defaults.push((column, default.clone()));
        }
        let is_changed = !defaults.is_empty();
        if is_changed { self.changed().checked() } else { Ok(self) }
    }

    /// This schema with another default of a column, or none.
    ///
    /// # Errors
    /// If there is no such column, or model_schema-8 does not hold.
    pub fn with_default(
        mut self,
        name: &str,
        default: Option<ColumnDefault>,
    ) -> Result<Schema, SchemaError> {
        let column = self.find(name).ok_or_else(|| no_such(name))?.id;
        self.defaults.retain(|(id, _)| *id != column);
        self.defaults.extend(default.map(|default| (column, default)));
        self.changed().checked()
    }

    /// The schema of a view: the columns of its query, and the query.
    ///
    /// # Errors
    /// As [`new`](Self::new), and if the query is too large.
    pub fn of_view(
        columns: &[(String, ColumnType)],
        designated: Option<&str>,
        view: View,
    ) -> Result<Schema, SchemaError> {
        let mut schema = Schema::new(columns, designated, PartitionUnit::None)?;
        schema.view = Some(Arc::new(view));
        schema.checked()
    }

    /// The schema of this view with the columns, the designated timestamp and the query of `new`.
    /// Columns that keep their name keep their id and their comments.
    ///
    /// # Errors
    /// If there would be more columns than can be numbered.
    pub fn replaced_by(self, new: &Schema) -> Result<Schema, SchemaError> {
        let mut replaced = Schema { columns: Vec::new(), view: new.view.clone(), ..self.clone() };
        for column in &new.columns {
            match self.find(&column.name) {
                Some(known) => replaced.columns.push(Column { id: known.id, ..column.clone() }),
                None => replaced.push(&column.name, column.ty)?,
            }
        }
        let named = new.designated_column().map(|(column, _)| column.name.as_str());
        replaced.designated = named.and_then(|name| replaced.find(name)).map(|column| column.id);
        let is_there = |id: ColumnId| replaced.columns.iter().any(|column| column.id == id);
        replaced.comments.columns.retain(|(id, _)| is_there(*id));
        replaced.changed().checked()
    }

    /// This schema with another comment on a column, or on the table itself; `None` and an empty
    /// text remove it.
    ///
    /// # Errors
    /// If there is no such column, or the comments are too long.
    pub fn with_comment(
        mut self,
        column: Option<&str>,
        text: Option<&str>,
    ) -> Result<Schema, SchemaError> {
        let text = text.filter(|text| !text.is_empty()).map(str::to_owned);
        match column {
            None => self.comments.table = text,
            Some(name) => {
                let id = self.find(name).ok_or_else(|| no_such(name))?.id;
                self.comments.columns.retain(|(column, _)| *column != id);
                self.comments.columns.extend(text.map(|text| (id, text)));
            }
        }
        self.changed().checked()
    }

    /// Comments on the table and its columns.
    #[must_use]
    pub fn comments(&self) -> &Comments {
        &self.comments
    }

    /// The query of a view; `None` for a table.
    #[must_use]
    pub fn view(&self) -> Option<&Arc<View>> {
        self.view.as_ref()
    }

    /// The lengths of all columns that have one, in no order.
    #[must_use]
    pub fn lengths(&self) -> &[TextLength] {
        &self.lengths
    }

    /// The length of a column, if it has one.
    #[must_use]
    pub fn length(&self, column: ColumnId) -> Option<TextLength> {
        self.lengths.iter().copied().find(|length| length.column == column)
    }

    /// The defaults of columns, in no order.
    #[must_use]
    pub fn defaults(&self) -> &[(ColumnId, ColumnDefault)] {
        &self.defaults
    }

    /// A column with a default for which `is_known` is false.
    #[must_use]
    pub fn unknown_default(&self, is_known: impl Fn(&Column) -> bool) -> Option<&Column> {
        let mut filled = self.defaults.iter().filter_map(|(id, _)| self.column(*id));
        filled.find(|column| !is_known(column))
    }

    /// The default of a column, if it has one.
    #[must_use]
    pub fn default_of(&self, column: ColumnId) -> Option<&ColumnDefault> {
        self.defaults.iter().find(|(id, _)| *id == column).map(|(_, default)| default)
    }

    /// The type of a column as SQL writes it, with its length.
    #[must_use]
    pub fn sql_type(&self, column: &Column) -> String {
        match self.length(column.id) {
            Some(length) => format!("{}({})", column.ty.sql(), length.max),
            None => column.ty.sql(),
        }
    }

    /// The keys of DEDUP: rows with the same values in these columns replace each other. Empty
    /// without DEDUP.
    #[must_use]
    pub fn dedup(&self) -> &[ColumnId] {
        &self.dedup
    }

    /// The TTL of rows; `None` if they are kept for ever.
    #[must_use]
    pub fn ttl(&self) -> Option<Ttl> {
        self.ttl
    }

    /// The version of this schema, counted from 1.
    #[must_use]
    pub fn version(&self) -> SchemaVersion {
        self.version
    }

    /// The columns in the order users see.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The designated timestamp's id.
    #[must_use]
    pub fn designated(&self) -> Option<ColumnId> {
        self.designated
    }

    /// The designated timestamp and its unit.
    #[must_use]
    pub fn designated_column(&self) -> Option<(&Column, TimeUnit)> {
        let column = self.column(self.designated?).expect("model_schema-2");
        Some((column, column.ty.time_unit().expect("model_schema-2")))
    }

    /// The unit of the designated timestamp; microseconds for a table that has none.
    #[must_use]
    pub fn time_unit(&self) -> TimeUnit {
        self.designated_column().map_or(TimeUnit::Micros, |(_, unit)| unit)
    }

    /// The width of partitions.
    #[must_use]
    pub fn partition_by(&self) -> PartitionUnit {
        self.partition_by
    }

    /// The id that the next new column gets.
    #[must_use]
    pub fn next_column(&self) -> ColumnId {
        self.next_column
    }

    /// The column with this name, in any case.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| same_name(&column.name, name))
    }

    /// The column with this id.
    #[must_use]
    pub fn column(&self, id: ColumnId) -> Option<&Column> {
        self.columns.iter().find(|column| column.id == id)
    }
}

/// The parts of a schema, as they are stored.
#[derive(Debug, Clone)]
pub struct SchemaParts {
    /// Number of changes of the schema.
    pub version: SchemaVersion,
    /// The columns in the order users see.
    pub columns: Vec<Column>,
    /// The designated timestamp.
    pub designated: Option<ColumnId>,
    /// The width of partitions.
    pub partition_by: PartitionUnit,
    /// The id that the next new column gets.
    pub next_column: ColumnId,
    /// The keys of DEDUP.
    pub dedup: Vec<ColumnId>,
    /// The TTL of rows.
    pub ttl: Option<Ttl>,
    /// Lengths of VARCHAR columns.
    pub lengths: Vec<TextLength>,
    /// Comments on the table and its columns.
    pub comments: Comments,
    /// The query of a view.
    pub view: Option<Arc<View>>,
    /// Defaults of columns.
    pub defaults: Vec<(ColumnId, ColumnDefault)>,
}

/// Returns true if two names are equal without regard to case.
#[must_use]
pub fn same_name(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.eq_ignore_ascii_case(b) || a.to_lowercase() == b.to_lowercase()
}

fn no_such(name: &str) -> SchemaError {
    SchemaError::NoSuchColumn { name: name.to_owned() }
}

#[cfg(test)]
mod tests;
