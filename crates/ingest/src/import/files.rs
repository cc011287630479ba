//! All text files of an import together: the columns that they have, and the dialect of each.
//!
//! - Delimiter, quotes, line ends and header are those of each file. An option of the user
//!   holds for all of them.
//! - files-2. Columns with names are united by name, and their evidence adds up: the type of a
//!   column of a new table fits the samples of all files. Files without names have the same columns
//!   in the same order: those of the last file with a header before them, if there is one.
//! - A record is only taken for a header if there is evidence for it (`sniff::columns`);
//!   if a file has other names than those before, or names that those lack, or seems to, the import
//!   fails.
//!
//! Not here: the samples (`setup`), and reading (`text`).

use std::path::Path;

use tidegate_model::schema::same_name;
use tidegate_model::{Column, ColumnType, Schema};

use super::setup::SampledFile;
use crate::context::ImportContext;
use crate::error::{Error, Result};
use crate::excerpt::shown;
use crate::index::Structure;
use crate::multiline::{Kind, LineShape};
use crate::options::{ColumnSource, ExtraFields, FileFormat, ImportOptions, MissingFields, Quote};
use crate::parse_errors::{Lines, TextPlace};
use crate::read::TextFile;
use crate::sniff::{
    self, Dialect, Evidence, FirstLine, Header, HeaderDecision, Inferred, Like, LineEnd, Look,
    NoTimes, Orders, SniffError, SniffOptions, Surroundings,
};
use crate::target_schema::{TargetSchema, existing_table, new_schema, require_designated};
use crate::timestamp::TimestampFormat;

/// The decisions on how all files are read.
pub(super) struct Reading {
    pub(super) target: TargetSchema,
    pub(super) files: Vec<TextFile>,
    /// For each column of the table, the format of its timestamps.
    pub(super) formats: Vec<Option<TimestampFormat>>,
    /// For each column of the table, true if its type is a guess (exact-1).
    pub(super) guesses: Vec<bool>,
    /// For each column of the table, true if its dates can be read in two ways.
    pub(super) ambiguous: Vec<bool>,
    pub(super) null_text: Option<Vec<u8>>,
    /// The names in the header of the first text, if it has one.
    pub(super) header: Option<Vec<String>>,
    pub(super) notes: Vec<String>,
}

/// The decision on how the cells of a column of the table are read.
struct ReadColumn {
    format: Option<TimestampFormat>,
    is_guess: bool,
    is_ambiguous: bool,
}

/// The maximum number of notes on files after the first, since a thousand files may have a thousand
/// notes.
const FILE_NOTES_MAX: usize = 20;
/// The maximum number of names in a note.
const NAMES_SHOWN: usize = 10;

/// The files with the results of sniffing.
struct Files<'a> {
    context: &'a ImportContext<'a>,
    inputs: &'a [SampledFile],
    /// The index of the first file with records, or of the file before it with only its header.
    first: usize,
    first_line: FirstLine,
    looks: Vec<Look>,
}

/// Sniffs all files, and decides on the table's columns and on how each file is read.
pub(super) fn prepare(context: &ImportContext<'_>, inputs: &[SampledFile]) -> Result<Reading> {
    let options = context.options;
    let existing = existing_table(context.database, options)?;
    // A file without rows gives no evidence for the others.
    let first = (inputs.iter().position(|file| !file.has_one_line()))
        .or_else(|| inputs.iter().position(|file| !file.is_empty()))
        .unwrap_or(0);
    let path = &inputs[first].input.path;
    let given = match (&existing, &options.columns) {
        (None, ColumnSource::Given(columns)) => Some(new_schema(columns.clone(), options, path)?),
        _ => None,
    };
    let exists = existing.is_some();
    let table = existing.as_ref().and_then(|existing| existing.id);
    let expected = existing.map(|existing| existing.schema).or(given);
    let first_line = first_line(inputs);
    let mut files = Files { context, inputs, first, first_line, looks: Vec::new() };
    files.look_at_all(expected.as_ref())?;
    let (first, path) = (files.first, &inputs[files.first].input.path);
    files.take_blank_lines(expected.as_ref());
    if files.looks[first].names.is_empty() {
        let sample = &inputs[first].sample;
        if !sample.is_whole && !sample.head.is_empty() {
            let (path, bytes) = (path.clone(), sample.head.len() as u64);
            return Err(Error::LongFirstRecord { path, bytes });
        }
        return Err(Error::NoRecords { path: path.clone() });
    }
    files.check_skipped()?;
    let is_inferred = expected.is_none();
    let schema = match expected {
        Some(schema) => schema,
        None => new_schema(files.new_columns()?, options, path)?,
    };
    let text_files = files.map(&schema)?;
    let mut notes = files.notes(&text_files, &schema);
    let mut of_columns = Vec::new();
    let columns = files.columns(&text_files, &schema, is_inferred, &mut of_columns)?;
    notes.extend(capped(of_columns, "columns"));
    let Look { dialect, names, .. } = files.looks[first].clone();
    let Dialect { null_text, has_header, .. } = dialect;
    let target = TargetSchema { schema, exists, table };
    Ok(Reading {
        target,
        files: text_files,
        formats: columns.iter().map(|column| column.format.clone()).collect(),
        guesses: columns.iter().map(|column| column.is_guess).collect(),
        ambiguous: columns.iter().map(|column| column.is_ambiguous).collect(),
        null_text,
        header: has_header.then_some(names),
        notes,
    })
}

/// The first lines of the files, those without a record excluded.
fn first_line(inputs: &[SampledFile]) -> FirstLine {
    let line = |file: &'_ SampledFile| -> Vec<u8> {
        let head = &file.sample.head;
        head[..memchr::memchr2(b'\n', b'\r', head).unwrap_or(head.len())].to_vec()
    };
    let mut lines = inputs.iter().filter(|file| !file.is_empty()).map(line);
    let first = lines.next();
    let Some(second) = lines.next() else { return FirstLine::Unknown };
    let is_same = |line: Vec<u8>| Some(&line) == first.as_ref();
    if is_same(second) && lines.all(is_same) { FirstLine::Repeats } else { FirstLine::Differs }
}

impl Files<'_> {
    fn look_at_all(&mut self, expected: Option<&Schema>) -> Result<()> {
        let mut first = self.look_at(self.first, expected, None)?;
        if let Some((at, look)) = self.lone_header(&first, expected)? {
            (self.first, first) = (at, look);
        }
        let mut names = first.names.clone();
        let mut looks = Vec::with_capacity(self.inputs.len());
        for at in 0..self.inputs.len() {
            if at == self.first {
                looks.push(first.clone());
                continue;
            }
            let like = Like {
                delimiter: first.dialect.delimiter,
                columns: first.names.len(),
                has_header: first.dialect.has_header,
                names: &names,
            };
            let look = self.look_at(at, expected, Some(like))?;
            let is_other = look.header == HeaderDecision::OtherNames
                || first.dialect.has_header && self.has_other_names(&look, &names, expected);
            if is_other {
                let (path, first) = (self.path(at).to_owned(), self.path(self.first).to_owned());
                return Err(Error::OtherHeader { path, first, names: look.names });
            }
            let is_late = look.header == HeaderDecision::LateNames
                || self.inputs[at].has_one_line() && self.is_named_row(&look, &first, expected);
            if is_late {
                let (path, first) = (self.path(at).to_owned(), self.path(self.first).to_owned());
                return Err(Error::LateHeader { path, first });
            }
            if first.dialect.has_header && look.dialect.has_header {
                let new = look.names.iter().filter(|name| !has_name(&names, name));
                let new: Vec<String> = new.cloned().collect();
                names.extend(new);
            }
            looks.push(look);
        }
        self.looks = looks;
        self.hand_on_names()
    }

    /// Returns true if a file has a header with none of the names of the files before and of the
    /// table.
    fn has_other_names(&self, look: &Look, names: &[String], expected: Option<&Schema>) -> bool {
        let is_known = |name: &String| {
            has_name(names, name) || expected.is_some_and(|schema| schema.find(name).is_some())
        };
        look.dialect.has_header && !look.names.is_empty() && !look.names.iter().any(is_known)
    }

    /// The file with only a header before the first file with rows, which has none: its names stand
    /// above typed columns there, so a row would be as unlikely as in one file.
    fn lone_header(
        &self,
        first: &Look,
        expected: Option<&Schema>,
    ) -> Result<Option<(usize, Look)>> {
        for at in (0..self.first).filter(|&at| !self.inputs[at].is_empty()) {
            let like = Like {
                delimiter: first.dialect.delimiter,
                columns: first.names.len(),
                has_header: false,
                names: &[],
            };
            let look = self.look_at(at, expected, Some(like))?;
            if !self.is_named_row(&look, first, expected) {
                continue;
            }
            let options = SniffOptions { header: Header::Present, ..self.options(at, expected) };
            let sample = &self.inputs[at].sample;
            let look = sniff::look(&sample.head, &sample.window_slices(), &options);
            return Ok(Some((at, look.map_err(|source| self.sniff_error(at, source))?)));
        }
        Ok(None)
    }

    /// Returns true if the first record of a file is read as a row, but looks like names, and the
    /// first file has no names and a column of another type than text.
    fn is_named_row(&self, look: &Look, first: &Look, expected: Option<&Schema>) -> bool {
        let options = self.context.options;
        options.dialect.header == Header::Auto
            && options.fields.is_none()
            && expected.is_none()
            && look.has_words
            && !first.has_names
            && look.names.len() == first.names.len()
            && first.evidence.iter().any(Evidence::is_typed)
    }

    /// Gives a file without a header the columns of the last file with a header before it: the
    /// files are parts of one.
    fn hand_on_names(&mut self) -> Result<()> {
        if self.context.options.fields.is_some() {
            return Ok(()); // The list says what the fields are.
        }
        let mut named: Option<usize> = None;
        for at in 0..self.looks.len() {
            let look = &self.looks[at];
            match named {
                _ if look.names.is_empty() => {}
                _ if look.has_names => named = Some(at),
                None => {}
                Some(before) => {
                    let names = self.looks[before].names.clone();
                    let (columns, expected) = (look.names.len(), names.len());
                    if columns != expected {
                        let (path, other) = (self.path(at), self.path(before));
                        let (path, other) = (path.to_owned(), other.to_owned());
                        return Err(Error::OtherCount { path, columns, other, expected });
                    }
                    (self.looks[at].names, self.looks[at].has_names) = (names, true);
                }
            }
        }
        Ok(())
    }

    fn look_at(
        &self,
        at: usize,
        expected: Option<&Schema>,
        like: Option<Like<'_>>,
    ) -> Result<Look> {
        let sample = &self.inputs[at].sample;
        let options = SniffOptions { like, ..self.options(at, expected) };
        let looked = sniff::look(&sample.head, &sample.window_slices(), &options);
        looked.map_err(|source| self.sniff_error(at, source))
    }

    fn options<'a>(&'a self, at: usize, expected: Option<&'a Schema>) -> SniffOptions<'a> {
        let options = self.context.options;
        SniffOptions {
            first_line: self.first_line,
            ..sniff_options(options, &self.inputs[at], expected)
        }
    }

    fn path(&self, at: usize) -> &Path {
        &self.inputs[at].input.path
    }

    fn sniff_error(&self, at: usize, source: SniffError) -> Error {
        Error::Sniff { path: self.path(at).to_owned(), source }
    }

    /// Makes blank lines rows, if the table is known to have one column.
    fn take_blank_lines(&mut self, expected: Option<&Schema>) {
        let options = self.context.options;
        let columns = match &options.fields {
            Some(fields) => Some(fields.len()),
            None => expected.map(|schema| schema.columns().len()),
        };
        let (look, input) = (&mut self.looks[self.first], &self.inputs[self.first]);
        if columns == Some(1) && look.names.is_empty() && input.blank_lines > 0 {
            look.names = vec!["f0".to_owned()];
            look.evidence = vec![Evidence::new(options.timestamp_format.as_ref())];
        }
    }

    /// Checks that each column to be left out exists in a file.
    fn check_skipped(&self) -> Result<()> {
        for skipped in &self.context.options.skip_columns {
            if !self.looks.iter().any(|look| has_name(&look.names, skipped)) {
                let place = self.path(self.first).display().to_string();
                return Err(Error::NoSuchColumn { name: skipped.clone(), place });
            }
        }
        Ok(())
    }

    /// The columns of a table that the import creates (files-2).
    fn new_columns(&self) -> Result<Vec<(String, ColumnType)>> {
        let options = self.context.options;
        let mut united = self.united()?;
        if let Some(fields) = &options.fields {
            united.iter_mut().zip(fields).for_each(|(column, name)| column.0.clone_from(name));
        }
        let designated = options.timestamp.as_deref();
        let is_designated = |name: &str| designated.is_some_and(|own| same_name(own, name));
        if let Some(name) = designated
            && !united.iter().any(|(own, _)| is_designated(own))
        {
            let source = SniffError::NoDesignated { name: name.to_owned() };
            return Err(self.sniff_error(self.first, source));
        }
        let has_commas = united.iter().any(|(_, evidence)| evidence.has_commas());
        let mut columns = Vec::with_capacity(united.len());
        for (name, evidence) in &united {
            let ty = match is_designated(name) && !is_hinted(options, name) {
                true => self.designated_type(name, evidence)?,
                false => sniff::inferred(evidence, has_commas).ty,
            };
            columns.push((name.clone(), ty));
        }
        let has_header = self.looks[self.first].dialect.has_header;
        with_hints(columns, options, has_header)
    }

    /// The columns of all files, each with the evidence of all files.
    fn united(&self) -> Result<Vec<(String, Evidence)>> {
        let mut united: Vec<(String, Evidence)> = Vec::new();
        let order =
            std::iter::once(self.first).chain((0..self.looks.len()).filter(|&at| at != self.first));
        for at in order {
            let look = &self.looks[at];
            let columns = sniff::imported_evidence(look, &self.options(at, None));
            let columns = columns.map_err(|source| self.sniff_error(at, source))?;
            for (position, (name, evidence)) in columns.into_iter().enumerate() {
                let found = match look.has_names {
                    true => united.iter().position(|(own, _)| same_name(own, name)),
                    false => Some(position).filter(|&position| position < united.len()),
                };
                match found {
                    Some(found) => united[found].1.merge(evidence),
                    // For a file without names, `map` reports the surplus columns.
                    None if at == self.first || look.has_names => {
                        united.push((name.clone(), evidence.clone()));
                    }
                    None => {}
                }
            }
        }
        Ok(united)
    }

    fn designated_type(&self, name: &str, evidence: &Evidence) -> Result<ColumnType> {
        let given = self.context.options.timestamp_format.as_ref();
        if let Some(Inferred { ty, .. }) = evidence.infer_designated(given) {
            return Ok(ty);
        }
        let format = evidence.best_format();
        let (mut all, mut example) = (NoTimes::default(), None);
        for (at, look) in self.looks.iter().enumerate() {
            let field = look.names.iter().position(|own| same_name(own, name));
            let Some(field) = field else { continue };
            let head = &self.inputs[at].sample.head;
            let counts = sniff::no_times(head, look, field, format, &self.options(at, None));
            all.add(&counts);
            example = example.or_else(|| counts.example.map(|example| (at, example)));
        }
        if all.are_integers() {
            return Ok(ColumnType::Int64);
        }
        let at = example.as_ref().map_or(self.first, |(at, _)| *at);
        let example = example.map(|(at, (text, record))| {
            (line_of(&self.inputs[at], &self.looks[at], record), shown(&text))
        });
        let (path, column) = (self.path(at).to_owned(), name.to_owned());
        Err(Error::NotTimestamps { path, column, example })
    }

    /// The mapping of the fields of each file to columns of the table.
    fn map(&self, schema: &Schema) -> Result<Vec<TextFile>> {
        let first = self.text_file(self.first, schema)?;
        let mut files = Vec::with_capacity(self.looks.len());
        for (at, look) in self.looks.iter().enumerate() {
            if at == self.first || look.names.is_empty() {
                // An empty file among others has no records and is accepted.
                files.push(first.clone());
                continue;
            }
            let file = self.text_file(at, schema)?;
            if !look.has_names || !self.looks[self.first].has_names {
                self.check_same_columns(at, &file, &first, schema)?;
            }
            files.push(file);
        }
        self.check_order(&files)?;
        Ok(files)
    }

    /// Checks that no header behind files without names contradicts the order in which the fields
    /// of those were mapped.
    fn check_order(&self, files: &[TextFile]) -> Result<()> {
        if self.context.options.fields.is_some() {
            return Ok(());
        }
        let has_rows = |at: &usize| !self.looks[*at].names.is_empty();
        let mut unnamed = (0..files.len()).filter(has_rows).filter(|&at| !self.looks[at].has_names);
        let Some(unnamed) = unnamed.next() else { return Ok(()) };
        let is_other = |at: &usize| {
            let fields: Vec<usize> = files[*at].sources.iter().flatten().copied().collect();
            self.looks[*at].has_names && !fields.is_sorted()
        };
        match (unnamed..files.len()).filter(has_rows).find(is_other) {
            None => Ok(()),
            Some(other) => {
                let (path, other) = (self.path(unnamed), self.path(other));
                Err(Error::OtherOrder { path: path.to_owned(), other: other.to_owned() })
            }
        }
    }

    /// The field of a record for each column of the table.
    fn text_file(&self, at: usize, schema: &Schema) -> Result<TextFile> {
        let (look, input) = (&self.looks[at], &self.inputs[at].input);
        let map = sniff::map_look(look, schema, &self.options(at, Some(schema)))
            .map_err(|source| self.sniff_error(at, source))?;
        let mut sources = vec![None; schema.columns().len()];
        for (field, target) in map.targets.iter().enumerate() {
            if let Some(column) = *target {
                sources[column] = Some(field);
            }
        }
        if !look.names.is_empty() {
            require_designated(schema, &sources, &input.path)?;
        }
        Ok(TextFile {
            line_shape: self.line_shape(look, &map.targets, schema),
            sources,
            fields: map.targets.len(),
            has_header: look.dialect.has_header,
            skip_lines: input.skip_lines,
            blank_is_record: self.context.options.format == FileFormat::PgText
                || map.targets.len() == 1,
            structure: Structure {
                delimiter: look.dialect.delimiter,
                quote: look.dialect.quote,
                line_end: line_end_byte(look),
            },
        })
    }

    /// The typical shape of a line that is a record, to tell it from a line of text where quotes
    /// are a guess.
    fn line_shape(
        &self,
        look: &Look,
        targets: &[Option<usize>],
        schema: &Schema,
    ) -> Option<LineShape> {
        let options = self.context.options;
        let is_guess = options.dialect.quote == Quote::Standard && look.dialect.quote.is_some();
        if !is_guess || options.format == FileFormat::PgText {
            return None;
        }
        let kind = |target: &Option<usize>| {
            let ty = schema.columns()[(*target)?].ty;
            match ty {
                ColumnType::Boolean => Some(Kind::Boolean),
                ColumnType::Timestamp(_) | ColumnType::Date => Some(Kind::Time),
                ColumnType::Float32 | ColumnType::Float64 | ColumnType::Decimal { .. } => {
                    Some(Kind::Number)
                }
                ty => ty.is_integer().then_some(Kind::Number),
            }
        };
        let typed = targets.iter().enumerate();
        let typed = typed.filter_map(|(field, target)| Some((field, kind(target)?)));
        Some(LineShape {
            delimiter: look.dialect.delimiter,
            line_end: line_end_byte(look),
            fields: targets.len(),
            typed: typed.collect(),
        })
    }

    /// Checks that files without names have the same columns of the table.
    fn check_same_columns(
        &self,
        at: usize,
        file: &TextFile,
        first: &TextFile,
        schema: &Schema,
    ) -> Result<()> {
        let differing: Vec<String> = schema
            .columns()
            .iter()
            .zip(file.sources.iter().zip(&first.sources))
            .filter(|(_, (own, first))| own.is_some() != first.is_some())
            .map(|(column, _)| column.name.clone())
            .collect();
        if differing.is_empty() {
            return Ok(());
        }
        let (path, first) = (self.path(at).to_owned(), self.path(self.first).to_owned());
        Err(Error::OtherColumns { path, first, names: differing })
    }

    /// The decision on how each column of the table is read, from the evidence of all files.
    fn columns(
        &self,
        files: &[TextFile],
        schema: &Schema,
        is_inferred: bool,
        notes: &mut Vec<String>,
    ) -> Result<Vec<ReadColumn>> {
        let options = self.context.options;
        let given = options.timestamp_format.as_ref();
        let mut orders = Orders::default();
        self.looks.iter().flat_map(|look| &look.evidence).for_each(|it| orders.merge(it.orders()));
        let evidence: Vec<_> =
            (0..schema.columns().len()).map(|column| self.evidence(column, files)).collect();
        let has_commas = evidence.iter().any(|(evidence, _)| evidence.has_commas());
        let has_semicolons = self.looks[self.first].dialect.delimiter == b';';
        let is_month_first = orders.day_first.is_none() && orders.month_first.is_some();
        let of_column = |(column, (evidence, is_there)): (&Column, &(Evidence, bool))| {
            let is_there = *is_there;
            let is_designated = Some(column.id) == schema.designated();
            let mut of_column = options.column_formats.iter();
            let requested = of_column
                .find(|(name, _)| same_name(name, &column.name))
                .map(|(_, format)| format)
                .or_else(|| given.filter(|_| is_designated))
                .filter(|_| is_there);
            let mut sniffed = sniff::expected_column(column, is_designated, evidence, given);
            if requested.is_none()
                && sniffed.format.as_ref().is_some_and(TimestampFormat::has_order)
            {
                self.check_one_order(&column.name, evidence.orders())?;
            }
            let is_guess = is_inferred && !is_hinted(options, &column.name);
            let ambiguity = sniff::ambiguity(&column.name, &sniffed, evidence);
            let mut ambiguity = ambiguity.filter(|_| requested.is_none());
            if ambiguity.is_some() && is_month_first {
                sniffed.format = Some(TimestampFormat::MonthFirst);
                ambiguity = Some(format!(
                    "column `{}` could be day first; read as month first, as other columns are",
                    column.name
                ));
            }
            let is_ambiguous = ambiguity.is_some();
            notes.extend(ambiguity);
            let surroundings = Surroundings { has_commas, has_semicolons, is_guess };
            notes.extend(sniff::remarks(&column.name, &sniffed, evidence, surroundings));
            notes.extend(
                is_guess.then(|| sniff::spoiled(&column.name, &sniffed, evidence)).flatten(),
            );
            let format = requested.cloned().or(sniffed.format.filter(|_| is_there));
            Ok(ReadColumn { format, is_guess, is_ambiguous })
        };
        schema.columns().iter().zip(&evidence).map(of_column).collect()
    }

    /// The evidence of all samples for a column of the table, and true if a file has the column.
    fn evidence(&self, column: usize, files: &[TextFile]) -> (Evidence, bool) {
        let mut evidence = Evidence::new(self.context.options.timestamp_format.as_ref());
        let mut is_there = false;
        for (look, file) in self.looks.iter().zip(files) {
            let field = file.sources[column].filter(|_| !look.names.is_empty());
            if let Some(found) = field.and_then(|field| look.evidence.get(field)) {
                evidence.merge(found);
                is_there = true;
            }
        }
        (evidence, is_there)
    }

    /// Checks the order of dates: dates of both orders prove that one format reads some of them
    /// wrongly (decision 0007).
    fn check_one_order(&self, column: &str, orders: &Orders) -> Result<()> {
        let Some((day_first, month_first)) = orders.both() else { return Ok(()) };
        let with = |wanted: &[u8], of: fn(&Orders) -> Option<&[u8]>| {
            let has = |look: &Look| look.evidence.iter().any(|it| of(it.orders()) == Some(wanted));
            self.looks.iter().position(has).unwrap_or(self.first)
        };
        let first = with(day_first, |orders| orders.day_first.as_deref());
        let second = with(month_first, |orders| orders.month_first.as_deref());
        Err(Error::MixedDates {
            path: self.path(first).to_owned(),
            column: column.to_owned(),
            day_first: shown(day_first),
            month_first: shown(month_first),
            other: (first != second).then(|| self.path(second).to_owned()),
        })
    }

    /// The notes on the files, those on the first one before all others.
    fn notes(&self, files: &[TextFile], schema: &Schema) -> Vec<String> {
        let first = &self.looks[self.first];
        let mut notes = first.notes.clone();
        if let Some(delimiter) = self.inputs[self.first].delimiter {
            let delimiter = char::from(delimiter).escape_default();
            notes.insert(0, format!("the first line says that the delimiter is `{delimiter}`"));
        }
        notes.extend(first.preamble.clone());
        notes.extend(self.map_notes(schema));
        let mut of_others: Vec<String> = Vec::new();
        let is_somewhere = |column: usize| files.iter().any(|file| file.sources[column].is_some());
        let somewhere: Vec<bool> = (0..schema.columns().len()).map(is_somewhere).collect();
        notes.extend(self.missing(self.first, files, schema, &somewhere));
        for (at, look) in self.looks.iter().enumerate() {
            if at == self.first || look.names.is_empty() {
                continue;
            }
            let path = self.path(at).display();
            of_others.extend(self.late_header(at));
            let own = look.notes.iter().filter(|note| !first.notes.contains(note));
            of_others.extend(own.map(|note| format!("{path}: {note}")));
            let differing = other_dialect(&look.dialect, &first.dialect);
            of_others.extend(differing.map(|how| format!("{path}: {how}, unlike the first file")));
            if let (false, Some(before)) = (look.dialect.has_header, self.named_by(at)) {
                let before = self.path(before).display();
                of_others.push(format!("{path}: its columns are those of {before}"));
            }
            of_others.extend(self.missing(at, files, schema, &somewhere));
        }
        notes.extend(capped(of_others, "files"));
        notes
    }

    /// The note on columns that a file lacks and another file has.
    fn missing(
        &self,
        at: usize,
        files: &[TextFile],
        schema: &Schema,
        somewhere: &[bool],
    ) -> Option<String> {
        let columns = schema.columns().iter().zip(&files[at].sources).zip(somewhere);
        let missing = columns.filter(|((_, source), is_there)| source.is_none() && **is_there);
        let missing: Vec<&str> = missing.map(|((column, _), _)| column.name.as_str()).collect();
        let shown = missing[..missing.len().min(NAMES_SHOWN)].join("`, `");
        let more = match missing.len().saturating_sub(NAMES_SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let path = self.path(at).display();
        (!missing.is_empty())
            .then(|| format!("{path}: there is no column `{shown}`{more}, which is NULL"))
    }

    /// The note on a row that may be the header which the first file does not have.
    fn late_header(&self, at: usize) -> Option<String> {
        let (look, first) = (&self.looks[at], &self.looks[self.first]);
        let is_late = look.has_words && !look.has_names && !first.has_names;
        let has_types = first.evidence.iter().any(Evidence::is_typed);
        (is_late && has_types && look.names.len() == first.names.len()).then(|| {
            let (path, first) = (self.path(at).display(), self.path(self.first).display());
            format!(
                "{path}: the first record looks like names, and is read as a row, since {first} \
                 has no header: --header makes it one"
            )
        })
    }

    /// The file before with a header, if a file has its columns from that header.
    fn named_by(&self, at: usize) -> Option<usize> {
        let is_named = |file: &usize| self.looks[*file].dialect.has_header;
        (0..at).rev().filter(|_| self.looks[at].has_names).find(is_named)
    }

    fn map_notes(&self, schema: &Schema) -> Vec<String> {
        let options = self.options(self.first, Some(schema));
        let map = sniff::map_look(&self.looks[self.first], schema, &options);
        map.map_or_else(|_| Vec::new(), |map| map.notes)
    }
}

/// The first notes on files or columns, and the number of further ones.
pub(super) fn capped(mut notes: Vec<String>, of: &str) -> Vec<String> {
    let more = notes.len().saturating_sub(FILE_NOTES_MAX);
    notes.truncate(FILE_NOTES_MAX);
    notes.extend((more > 0).then(|| format!("{more} more notes on {of}")));
    notes
}

/// The difference between the dialect of a file and that of the first, for a note.
fn other_dialect(own: &Dialect, first: &Dialect) -> Option<String> {
    let mut how = Vec::new();
    if own.delimiter != first.delimiter {
        how.push(format!("the delimiter is `{}`", own.delimiter.escape_ascii()));
    }
    if own.line_end != first.line_end {
        let ends = if own.line_end == LineEnd::Cr { "CR" } else { "LF or CRLF" };
        how.push(format!("lines end with {ends}"));
    }
    if own.has_header != first.has_header {
        how.push(
            if own.has_header { "there is a header" } else { "there is no header" }.to_owned(),
        );
    }
    (!how.is_empty()).then(|| how.join(", "))
}

fn line_end_byte(look: &Look) -> u8 {
    match look.dialect.line_end {
        LineEnd::Cr => b'\r',
        LineEnd::LfOrCrlf => b'\n',
    }
}

fn has_name(names: &[String], wanted: &str) -> bool {
    names.iter().any(|name| same_name(name, wanted))
}

/// Returns true if the caller has given the type of a column.
fn is_hinted(options: &ImportOptions, name: &str) -> bool {
    hints_of(options).iter().any(|(own, _)| same_name(own, name))
}

/// The columns that the caller has given.
fn hints_of(options: &ImportOptions) -> &[(String, ColumnType)] {
    match &options.columns {
        ColumnSource::Hinted(hints) => hints,
        ColumnSource::Infer | ColumnSource::Given(_) => &[],
    }
}

/// The columns as found, changed to the names and types that are given.
fn with_hints(
    mut columns: Vec<(String, ColumnType)>,
    options: &ImportOptions,
    has_header: bool,
) -> Result<Vec<(String, ColumnType)>> {
    let ColumnSource::Hinted(hints) = &options.columns else { return Ok(columns) };
    for (position, (name, ty)) in hints.iter().enumerate() {
        let named = columns.iter().position(|(own, _)| same_name(own, name));
        let at = match has_header {
            true => named,
            false => Some(position).filter(|&at| at < columns.len()),
        };
        let at = at.ok_or_else(|| Error::NoSuchColumn {
            name: name.clone(),
            place: "the file".to_owned(),
        })?;
        columns[at] = (if named.is_some() { columns[at].0.clone() } else { name.clone() }, *ty);
    }
    Ok(columns)
}

/// The options of sniffing a file.
pub(super) fn sniff_options<'a>(
    options: &'a ImportOptions,
    file: &SampledFile,
    expected: Option<&'a Schema>,
) -> SniffOptions<'a> {
    let dialect = &options.dialect;
    SniffOptions {
        delimiter: dialect.delimiter.or(file.delimiter),
        quote: dialect.quote,
        header: dialect.header,
        timestamp_format: options.timestamp_format.as_ref(),
        null_text: dialect.null_text.as_deref(),
        expected,
        // A list of names refers to an existing table.
        columns: options.fields.as_deref().filter(|_| expected.is_some()),
        designated: options.timestamp.as_deref(),
        symbols: &options.symbols,
        hints: hints_of(options),
        skip: &options.skip_columns,
        like: None,
        first_line: FirstLine::Unknown,
        blank_is_record: options.format == FileFormat::PgText,
        ragged_is_row: dialect.missing_fields == MissingFields::Null
            || dialect.extra_fields == ExtraFields::Ignore,
        head_is_whole: file.sample.is_whole,
    }
}

/// The line of a byte of the sample's head.
fn line_of(file: &SampledFile, look: &Look, position: usize) -> u64 {
    let start =
        TextPlace { file: 0, line: 1 + file.input.skip_lines, offset: file.input.skip_bytes };
    Lines::new(&file.sample.head, line_end_byte(look), start).at(position).line
}
