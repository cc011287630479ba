//! The values of one column of a batch, while its lines are parsed.
//!
//! - A column has at most one value more than its table has rows: that of the present row.
//!   Columns with fewer values are filled up with NULL when their next value comes.
//! - line_column-1. A column that is not in the table has no type until its first value; if the row
//!   that gave it the type is rolled back, so is the type.
//! - line_column-2. Texts of symbols have numbers of the column's interner, which is kept from
//!   batch to batch. Rows that leave have their own numbers, for the texts of the batch only.

use tidegate_model::types::Physical;
use tidegate_model::{ColumnType, TextLength};
use tidegate_storage::segment::intern::Interner;
use tidegate_storage::{BatchColumn, BatchTexts, BatchValues};

use super::parse_error::Misfit;
use super::value_syntax::{Cell, RawValue};
use crate::parse::{self, CellError};

/// The number of a tag without text, and of a symbol that is NULL.
pub(super) const NULL_CODE: u32 = u32::MAX;

/// A column of a batch.
#[derive(Debug)]
pub(super) struct Column {
    /// Its name as the table has it, or as it was first written.
    pub(super) name: String,
    /// The type; `None` before the first value (line_column-1).
    pub(super) ty: Option<ColumnType>,
    /// The maximum length of its texts, if the table has one.
    length: Option<TextLength>,
    /// True if the table lacks it.
    pub(super) is_new: bool,
    pub(super) values: BatchValues,
    /// The number of rows, all NULL, while there is no type.
    untyped: usize,
    validity: Option<Vec<u64>>,
    interner: Option<Box<Interner>>,
    /// Scratch memory of `renumber`: at most one entry for each text of the interner, all
    /// `NULL_CODE`.
    numbers: Vec<u32>,
}

impl Column {
    pub(super) fn new(name: &str, ty: Option<ColumnType>) -> Column {
        Column {
            name: name.to_owned(),
            ty,
            length: None,
            is_new: ty.is_none(),
            values: ty.map_or(BatchValues::Bits(Vec::new()), empty),
            untyped: 0,
            validity: None,
            interner: None,
            numbers: Vec::new(),
        }
    }

    pub(super) fn with_length(self, length: Option<TextLength>) -> Column {
        Column { length, ..self }
    }

    pub(super) fn len(&self) -> usize {
        if self.ty.is_some() { self.values.len() } else { self.untyped }
    }

    /// Returns true if it is clear at once that `prepare` has nothing to do.
    #[inline]
    pub(super) fn is_ready(&self, rows: usize) -> bool {
        let len = match &self.values {
            BatchValues::I64(values) => values.len(),
            BatchValues::F64(values) => values.len(),
            _ => return false,
        };
        len == rows && self.validity.is_none()
    }

    /// Reserves room for this many rows.
    pub(super) fn reserve(&mut self, rows: usize) {
        match &mut self.values {
            BatchValues::I64(values) => values.reserve(rows),
            BatchValues::F64(values) => values.reserve(rows),
            BatchValues::Symbols { codes, .. } => codes.reserve(rows),
            _ => {}
        }
    }

    /// Returns true if the present row has no value yet; then the next push adds its value.
    pub(super) fn prepare(&mut self, rows: usize) -> bool {
        let len = self.len();
        if len != rows {
            if rows < len {
                return false;
            }
            self.pad(rows);
        }
        if let Some(words) = &mut self.validity {
            set(words, rows);
        }
        true
    }

    /// Appends NULL up to this row.
    #[cold]
    fn pad(&mut self, rows: usize) {
        if self.ty.is_none() {
            self.untyped = rows;
            return;
        }
        let len = self.values.len();
        self.validity.get_or_insert_with(|| ones(len));
        extend(&mut self.values, rows);
    }

    /// Sets the value of the present row to NULL. It counts as a value: a second one is ignored.
    pub(super) fn push_null(&mut self, rows: usize) {
        self.pad(rows + 1);
        if let Some(words) = &mut self.validity {
            clear(words, rows);
        }
    }

    /// Converts and appends a value, after `prepare`.
    pub(super) fn push(&mut self, raw: RawValue<'_>, ty: ColumnType) -> Result<(), Misfit> {
        let cell = raw.cell(ty)?;
        self.push_cell(cell, ty)
    }

    /// Appends a value of the type, after `prepare`.
    pub(super) fn push_cell(&mut self, cell: Cell<'_>, ty: ColumnType) -> Result<(), Misfit> {
        if self.ty.is_none() {
            self.become_type(ty);
        }
        let is_long = |length: TextLength| match &cell {
            Cell::Text(text) => length.is_exceeded_by(text),
            _ => false,
        };
        if self.length.is_some_and(is_long) {
            return Err(CellError::TooLong.into());
        }
        match (&mut self.values, cell) {
            (BatchValues::Symbols { codes, .. }, Cell::Text(text)) => {
                let code = self.interner.get_or_insert_default().intern(&text);
                codes.push(code.ok_or(CellError::TooLong)?);
                Ok(())
            }
            (values, cell) => push_value(values, cell),
        }
    }

    /// Gives the column its type (line_column-1).
    fn become_type(&mut self, ty: ColumnType) {
        self.ty = Some(ty);
        self.values = empty(ty);
        if 0 < self.untyped {
            let rows = self.untyped;
            self.pad(rows);
            let words = self.validity.get_or_insert_default();
            set(words, rows);
        }
    }

    /// The number of a tag's text, if the column can hold it.
    pub(super) fn tag_code(&mut self, text: &[u8], ty: ColumnType) -> Result<u32, Misfit> {
        RawValue::Tag(text).cell(ty)?;
        if self.length.is_some_and(|length| length.is_exceeded_by(text)) {
            return Err(CellError::TooLong.into());
        }
        let code = self.interner.get_or_insert_default().intern(text);
        Ok(code.ok_or(CellError::TooLong)?)
    }

    /// Appends a tag whose text was checked before.
    #[inline]
    pub(super) fn push_tag(&mut self, code: u32, rows: usize) {
        if let BatchValues::Symbols { codes, .. } = &mut self.values
            && codes.len() == rows
            && self.validity.is_none()
            && code != NULL_CODE
        {
            codes.push(code);
            return;
        }
        self.push_tag_slowly(code, rows);
    }

    #[inline(never)]
    fn push_tag_slowly(&mut self, code: u32, rows: usize) {
        if code == NULL_CODE {
            return if self.len() <= rows {
                self.push_null(rows)
            };
        }
        if !self.prepare(rows) {
            return;
        }
        if self.ty.is_none() {
            self.become_type(ColumnType::Symbol);
        }
        let interner = self.interner.as_deref().expect("tag_code");
        match &mut self.values {
            BatchValues::Symbols { codes, .. } => codes.push(code),
            BatchValues::Texts(texts) => texts.push(interner.text(code)),
            BatchValues::Fixed16(values) => {
                values.push(parse::parse_uuid(interner.text(code)).expect("tag_code"));
            }
            BatchValues::U32(values) => {
                values.push(parse::parse_ipv4(interner.text(code)).expect("tag_code"));
            }
            _ => unreachable!("tag_code"),
        }
    }

    /// Removes the value of the present row.
    pub(super) fn roll_back(&mut self, rows: usize) {
        if rows < self.len() {
            truncate(&mut self.values, rows);
            self.untyped = self.untyped.min(rows);
        }
        if let Some(words) = &mut self.validity {
            clear(words, rows);
        }
        // The type is removed, too, if only the removed row has given it.
        if self.is_new && self.ty.is_some() && !self.has_values(rows) {
            self.forget(rows);
        }
    }

    fn forget(&mut self, rows: usize) {
        self.ty = None;
        self.untyped = self.values.len().min(rows);
        self.values = BatchValues::Bits(Vec::new());
        self.validity = None;
    }

    /// Returns true if one of the first rows is not NULL.
    fn has_values(&self, rows: usize) -> bool {
        let rows = rows.min(self.len());
        match &self.validity {
            _ if self.ty.is_none() => false,
            None => 0 < rows,
            Some(words) => words.iter().any(|&word| word != 0),
        }
    }

    /// The bytes of memory that remain when the values are taken.
    pub(super) fn cache_bytes(&self) -> usize {
        let interner = self.interner.as_ref().map_or(0, |interner| interner.memory_bytes());
        size_of::<Column>() + self.name.len() + interner + self.numbers.capacity() * 4
    }

    /// The approximate number of bytes of the values when all rows have one, or a NULL.
    pub(super) fn value_bytes(&self, rows: usize) -> usize {
        match &self.values {
            values if values.is_empty() => 0,
            BatchValues::Texts(texts) => texts.bytes.len() + rows.max(texts.len()) * 4,
            values => rows.max(values.len()) * 8,
        }
    }

    /// Takes all values; `None` if all are NULL.
    pub(super) fn take(&mut self, rows: usize) -> Option<BatchColumn> {
        let has_values = self.has_values(rows);
        if has_values && self.values.len() < rows {
            self.pad(rows);
        }
        self.untyped = 0;
        let validity = self.validity.take().filter(|_| has_values).map(|mut words| {
            words.resize(rows.div_ceil(64), 0);
            words
        });
        let ty = self.ty?;
        let mut values = std::mem::replace(&mut self.values, empty(ty));
        if self.is_new {
            self.ty = None;
            self.values = BatchValues::Bits(Vec::new());
        }
        if !has_values {
            return None;
        }
        if let BatchValues::Symbols { codes, texts } = &mut values {
            let interner = self.interner.as_deref().expect("a symbol that is not NULL");
            *texts = renumber(codes, interner, &mut self.numbers); // line_column-2
        }
        Some(BatchColumn { name: self.name.clone(), ty, values, validity })
    }
}

/// Numbers in the order of first use, and their texts (line_column-2). The cost depends on the
/// number of codes, not on the size of the interner: batches may be small.
fn renumber(codes: &mut [u32], interner: &Interner, numbers: &mut Vec<u32>) -> BatchTexts {
    numbers.resize(interner.len(), NULL_CODE);
    let mut used = Vec::new();
    let mut texts = BatchTexts::default();
    for code in codes {
        if *code == NULL_CODE {
            *code = 0; // storage_batch-2: there is a text, since not all are NULL
            continue;
        }
        let number = &mut numbers[*code as usize];
        if *number == NULL_CODE {
            used.push(*code);
            *number = u32::try_from(texts.len()).expect("intern::INTERNED_MAX");
            texts.push(interner.text(*code));
        }
        *code = *number;
    }
    for code in used {
        numbers[code as usize] = NULL_CODE;
    }
    texts
}

/// Sets a bit, after making room for it.
#[inline]
fn set(words: &mut Vec<u64>, row: usize) {
    if words.len() <= row / 64 {
        words.resize(row / 64 + 1, 0);
    }
    words[row / 64] |= 1 << (row % 64);
}

fn clear(words: &mut [u64], row: usize) {
    if let Some(word) = words.get_mut(row / 64) {
        *word &= !(1 << (row % 64));
    }
}

fn ones(count: usize) -> Vec<u64> {
    let mut words = vec![u64::MAX; count.div_ceil(64)];
    if !count.is_multiple_of(64) {
        words[count / 64] = (1 << (count % 64)) - 1;
    }
    words
}

fn empty(ty: ColumnType) -> BatchValues {
    match ty.physical() {
        Physical::Bit => BatchValues::Bits(Vec::new()),
        Physical::Signed(1) => BatchValues::I8(Vec::new()),
        Physical::Signed(2) => BatchValues::I16(Vec::new()),
        Physical::Signed(4) => BatchValues::I32(Vec::new()),
        Physical::Signed(_) => BatchValues::I64(Vec::new()),
        Physical::Unsigned(1) => BatchValues::U8(Vec::new()),
        Physical::Unsigned(2) => BatchValues::U16(Vec::new()),
        Physical::Unsigned(4) => BatchValues::U32(Vec::new()),
        Physical::Unsigned(_) => BatchValues::U64(Vec::new()),
        Physical::Wide => BatchValues::I128(Vec::new()),
        Physical::Float32 => BatchValues::F32(Vec::new()),
        Physical::Float64 => BatchValues::F64(Vec::new()),
        Physical::Fixed16 => BatchValues::Fixed16(Vec::new()),
        Physical::Bytes if ty == ColumnType::Symbol => {
            BatchValues::Symbols { codes: Vec::new(), texts: BatchTexts::default() }
        }
        Physical::Bytes => BatchValues::Texts(BatchTexts::default()),
    }
}

/// Runs the same code on the values of every physical type except texts.
macro_rules! for_vectors {
    ($values:expr, $vector:ident => $work:expr, $texts:ident => $text_work:expr) => {
        match $values {
            BatchValues::Bits($vector) | BatchValues::U8($vector) => $work,
            BatchValues::I8($vector) => $work,
            BatchValues::I16($vector) => $work,
            BatchValues::I32($vector) => $work,
            BatchValues::I64($vector) => $work,
            BatchValues::U16($vector) => $work,
            BatchValues::U32($vector) => $work,
            BatchValues::U64($vector) => $work,
            BatchValues::I128($vector) => $work,
            BatchValues::F32($vector) => $work,
            BatchValues::F64($vector) => $work,
            BatchValues::Fixed16($vector) => $work,
            BatchValues::Symbols { codes: $vector, .. } => $work,
            BatchValues::Texts($texts) => $text_work,
        }
    };
}

/// Appends the value that stands for NULL, up to this row.
fn extend(values: &mut BatchValues, rows: usize) {
    match values {
        BatchValues::Symbols { codes, .. } => codes.resize(rows, NULL_CODE),
        values => for_vectors!(
            values,
            vector => vector.resize(rows, Default::default()),
            texts => {
                let end = texts.ends.last().copied().unwrap_or(0);
                texts.ends.resize(rows, end);
            }
        ),
    }
}

fn truncate(values: &mut BatchValues, rows: usize) {
    for_vectors!(
        values,
        vector => vector.truncate(rows),
        texts => {
            texts.ends.truncate(rows);
            let end = texts.ends.last().copied().unwrap_or(0);
            texts.bytes.truncate(end as usize);
        }
    );
}

fn push_value(values: &mut BatchValues, cell: Cell<'_>) -> Result<(), Misfit> {
    fn narrow<T: TryFrom<i128>>(values: &mut Vec<T>, value: i128) -> Result<(), Misfit> {
        values.push(T::try_from(value).map_err(|_| CellError::OutOfRange)?);
        Ok(())
    }
    match (values, cell) {
        (BatchValues::Bits(values), Cell::Bit(value)) => values.push(value.into()),
        (BatchValues::I8(values), Cell::Integer(value)) => narrow(values, value)?,
        (BatchValues::I16(values), Cell::Integer(value)) => narrow(values, value)?,
        (BatchValues::I32(values), Cell::Integer(value)) => narrow(values, value)?,
        (BatchValues::I64(values), Cell::Integer(value)) => narrow(values, value)?,
        (BatchValues::U8(values), Cell::Integer(value)) => narrow(values, value)?,
        (BatchValues::U16(values), Cell::Integer(value)) => narrow(values, value)?,
        (BatchValues::U32(values), Cell::Integer(value)) => narrow(values, value)?,
        (BatchValues::U64(values), Cell::Integer(value)) => narrow(values, value)?,
        (BatchValues::I128(values), Cell::Integer(value)) => values.push(value),
        (BatchValues::F32(values), Cell::Float32(value)) => values.push(value),
        (BatchValues::F64(values), Cell::Float64(value)) => values.push(value),
        (BatchValues::Fixed16(values), Cell::Fixed16(value)) => values.push(value),
        (BatchValues::Texts(texts), Cell::Text(text)) => {
            if u32::try_from(texts.bytes.len() + text.len()).is_err() {
                return Err(CellError::TooLong.into());
            }
            texts.push(&text);
        }
        (values, cell) => unreachable!("{cell:?} among {} values of another type", values.len()),
    }
    Ok(())
}
