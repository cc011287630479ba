//! Results as a table for people: columns that line up, numbers to the right.
//!
//! - Memory is bounded: widths come from the first rows, at most `SAMPLE_ROWS` or
//!   `SAMPLE_BYTES` of them; a later cell that is wider pushes the rest of its line aside.
//! - output_table-1. The output cannot control a terminal: control characters are escaped.
//!
//! On a terminal that is too narrow, texts are cut; if that does not suffice, every row is written
//! as a record with one line per column. In a file or a pipe nothing is ever cut.

use std::fmt::Write as _;
use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{Layout, ResultWriter, WriteError};
use tidegate_server::value_text::{Column, Shape, plain};

const SAMPLE_ROWS: usize = 1_000;
const SAMPLE_BYTES: usize = 1 << 20;
/// Smallest width that a column of texts is cut to; a narrower one would be unreadable.
const CUT_WIDTH_MIN: usize = 8;
const SEPARATOR: &str = " | ";
const ELLIPSIS: char = '\u{2026}';
const NULL: &str = "NULL";

pub(super) struct TableWriter<'a> {
    out: &'a mut dyn Write,
    layout: Layout,
    fields: SchemaRef,
    heads: Vec<Head>,
    /// Rows that still determine the widths; `None` once the header is written.
    sample: Option<Vec<Vec<String>>>,
    sample_bytes: usize,
    arrangement: Arrangement,
    rows: u64,
    line: String,
}

/// Name, alignment and width of a column.
struct Head {
    name: String,
    is_number: bool,
    /// The width of the widest cell so far.
    width: usize,
}

/// Layout of the rows.
#[derive(Debug, PartialEq, Eq)]
enum Arrangement {
    /// One line per row, with these widths.
    Lines(Vec<usize>),
    /// One line per cell.
    Records,
}

impl<'a> TableWriter<'a> {
    pub(super) fn new(out: &'a mut dyn Write, fields: SchemaRef, layout: Layout) -> Self {
        let head = |field: &std::sync::Arc<arrow::datatypes::Field>| {
            let name = printable(field.name());
            Head { width: name.width(), name, is_number: Shape::of_field(field).is_number() }
        };
        let heads = fields.fields().iter().map(head).collect();
        TableWriter {
            out,
            layout,
            fields,
            heads,
            sample: Some(Vec::new()),
            sample_bytes: 0,
            arrangement: Arrangement::Records,
            rows: 0,
            line: String::new(),
        }
    }

    fn add(&mut self, cells: Vec<String>) -> Result<(), WriteError> {
        let Some(sample) = &mut self.sample else {
            return self.write_row(&cells);
        };
        for (head, cell) in self.heads.iter_mut().zip(&cells) {
            head.width = head.width.max(cell.width());
            self.sample_bytes += cell.len();
        }
        sample.push(cells);
        if sample.len() < SAMPLE_ROWS && self.sample_bytes < SAMPLE_BYTES {
            return Ok(());
        }
        self.write_sample()
    }

    /// Writes the header, and the rows that were held back for it.
    fn write_sample(&mut self) -> Result<(), WriteError> {
        let Some(sample) = self.sample.take() else {
            return Ok(());
        };
        self.arrangement = arrange(&self.heads, self.layout);
        if let Arrangement::Lines(widths) = &self.arrangement {
            let names = self.heads.iter().zip(widths).map(|(head, width)| cut(&head.name, *width));
            push_line(&names.collect::<Vec<_>>(), widths, &self.heads, &mut self.line);
            for (position, width) in widths.iter().enumerate() {
                self.line.push_str(if position > 0 { "-+-" } else { "-" });
                self.line.extend(std::iter::repeat_n('-', *width));
            }
            self.line.push_str("-\n");
            self.out.write_all(self.line.as_bytes())?;
        }
        for cells in sample {
            self.write_row(&cells)?;
        }
        Ok(())
    }

    fn write_row(&mut self, cells: &[String]) -> Result<(), WriteError> {
        self.line.clear();
        self.rows += 1;
        match &self.arrangement {
            Arrangement::Lines(widths) => {
                let is_cut = self.layout != Layout::Plain;
                let fit = |((cell, width), head): ((&String, &usize), &Head)| match head.is_number {
                    false if is_cut => cut(cell, *width),
                    _ => cell.clone(),
                };
                let cells: Vec<String> =
                    cells.iter().zip(widths).zip(&self.heads).map(fit).collect();
                push_line(&cells, widths, &self.heads, &mut self.line);
            }
            Arrangement::Records => push_record(self.rows, cells, &self.heads, &mut self.line),
        }
        self.out.write_all(self.line.as_bytes())?;
        Ok(())
    }
}

impl ResultWriter for TableWriter<'_> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteError> {
        let arrays = batch.columns().iter().map(plain).collect::<Result<Vec<_>, _>>()?;
        let fields = self.fields.fields().clone();
        let columns = fields
            .iter()
            .zip(&arrays)
            .map(|(field, array)| Column::new(field, array))
            .collect::<Result<Vec<_>, _>>()?;
        let mut text = String::new();
        for row in 0..batch.num_rows() {
            let cell = |column: &Column<'_>| {
                if column.is_null(row) {
                    return NULL.to_owned();
                }
                text.clear();
                column.push(row, &mut text);
                printable(&text)
            };
            let cells = columns.iter().map(cell).collect();
            self.add(cells)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), WriteError> {
        self.write_sample()
    }
}

/// Returns widths with which a line fits, or records if no widths do.
fn arrange(heads: &[Head], layout: Layout) -> Arrangement {
    let mut widths: Vec<usize> = heads.iter().map(|head| head.width).collect();
    let Layout::Terminal { columns } = layout else {
        return Arrangement::Lines(widths);
    };
    let separators = SEPARATOR.len() * widths.len().saturating_sub(1) + 2;
    while widths.iter().sum::<usize>() + separators > columns {
        let excess = widths.iter().sum::<usize>() + separators - columns;
        let texts = (0..widths.len()).filter(|&position| !heads[position].is_number);
        let Some(widest) = texts.max_by_key(|&position| widths[position]) else {
            return Arrangement::Records;
        };
        if widths[widest] <= CUT_WIDTH_MIN {
            return Arrangement::Records;
        }
        // The widest column shrinks at most to the next widest one, so that several columns share
        // the loss.
        let next = (0..widths.len())
            .filter(|&position| position != widest && !heads[position].is_number)
            .map(|position| widths[position])
            .filter(|&width| width < widths[widest])
            .max()
            .unwrap_or(0);
        let floor = next.max(CUT_WIDTH_MIN).min(widths[widest] - 1);
        widths[widest] = (widths[widest] - excess.min(widths[widest])).max(floor);
    }
    Arrangement::Lines(widths)
}

fn push_line(cells: &[String], widths: &[usize], heads: &[Head], line: &mut String) {
    line.push(' ');
    for (position, ((cell, width), head)) in cells.iter().zip(widths).zip(heads).enumerate() {
        if position > 0 {
            line.push_str(SEPARATOR);
        }
        let padding = width.saturating_sub(cell.width());
        let is_last = position + 1 == cells.len();
        if head.is_number {
            line.extend(std::iter::repeat_n(' ', padding));
        }
        line.push_str(cell);
        if !head.is_number && !is_last {
            line.extend(std::iter::repeat_n(' ', padding));
        }
    }
    line.push('\n');
}

fn push_record(row: u64, cells: &[String], heads: &[Head], line: &mut String) {
    let width = heads.iter().map(|head| head.name.width()).max().unwrap_or(0);
    writeln!(line, "-[ row {row} ]{:-<width$}", "").expect("a String takes everything");
    for (head, cell) in heads.iter().zip(cells) {
        line.push_str(&head.name);
        line.extend(std::iter::repeat_n(' ', width - head.name.width()));
        line.push_str(SEPARATOR);
        line.push_str(cell);
        line.push('\n');
    }
}

/// Returns the text, cut to fit with an ellipsis.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 0;
    for character in text.chars() {
        let wide = character.width().unwrap_or(0);
        if used + wide + 1 > width {
            break;
        }
        kept.push(character);
        used += wide;
    }
    kept.push(ELLIPSIS);
    kept
}

/// Escapes the characters that move the cursor or set colours (output_table-1).
pub(crate) fn printable(text: &str) -> String {
    if !text.contains(is_unprintable) {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            other if is_unprintable(other) => shown.extend(other.escape_unicode()),
            other => shown.push(other),
        }
    }
    shown
}

/// True for control characters, and for those that change the direction of the text after them.
fn is_unprintable(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::tests::{sample, texts, written};
    use super::*;

    #[test]
    fn columns_line_up_and_numbers_stand_on_the_right() {
        let expected = [
            "    n |    x | price | word     | ok",
            "------+------+-------+----------+-------",
            "    1 |  1.5 |  0.10 | a \"b\"\\n\\ | true",
            " NULL | NULL |  NULL | NULL     | NULL",
            "   -3 |  NaN | 12.00 |          | false",
            "",
        ];
        let shown = written(Format::Table, &[sample()], Layout::Plain);
        assert_eq!(shown, expected.join("\n"));
    }

    #[test]
    fn a_result_without_rows_is_a_header() {
        let shown = written(Format::Table, &[sample().slice(0, 0)], Layout::Plain);
        assert_eq!(shown, " n | x | price | word | ok\n---+---+-------+------+----\n");
    }

    #[test]
    fn texts_are_cut_to_fit_a_terminal_and_records_are_the_last_resort() {
        let batch = texts(&[("short", "abc"), ("long", &"x".repeat(60))]);
        let shown =
            written(Format::Table, std::slice::from_ref(&batch), Layout::Terminal { columns: 40 });
        let cells = format!(" abc   | {}\u{2026}\n", "x".repeat(29));
        assert!(shown.ends_with(&cells), "{shown}");
        assert!(shown.lines().all(|line| line.width() <= 40), "{shown}");
        let shown = written(Format::Table, &[batch], Layout::Terminal { columns: 15 });
        let expected = format!("-[ row 1 ]-----\nshort | abc\nlong  | {}\n", "x".repeat(60));
        assert_eq!(shown, expected);
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let batch = texts(&[("a", "\u{6f22}\u{5b57}"), ("b", "x")]);
        let shown = written(Format::Table, &[batch], Layout::Plain);
        assert_eq!(shown, " a    | b\n------+---\n \u{6f22}\u{5b57} | x\n");
        assert_eq!(cut("\u{6f22}\u{5b57}", 3), "\u{6f22}\u{2026}");
    }

    #[test]
    fn output_cannot_control_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\u{202e}"), "a\\u{1b}[2Jb\\u{202e}");
    }

    #[test]
    fn rows_after_the_sample_keep_its_widths() {
        let narrow = texts(&[("a", "x"), ("b", "y")]);
        let wide = texts(&[("a", "xxx"), ("b", "y")]);
        let mut batches = vec![narrow; SAMPLE_ROWS];
        batches.push(wide);
        let shown = written(Format::Table, &batches, Layout::Plain);
        assert!(shown.ends_with(" x | y\n xxx | y\n"));
    }
}
