//! Setup of an import: opens and samples the inputs.

use std::io::{Cursor, Read};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tidegate_model::limits;
use tidegate_platform::{Disk, DiskFile, OpenMode};

use crate::error::{Error, Result};
use crate::input::{
    InputBytes, InputFile, SizedFile, broken_stream, head_of, open_input, open_pipe,
};
use crate::options::{FileFormat, ImportOptions, Source};
use crate::pg_text::{self, PgTextReader};
use crate::sample::Sample;
use crate::shares::Shares;
use crate::sniff::{self, LineEnd};
use crate::source::{Magic, undelimited};

/// The inputs of an import.
pub(super) enum Inputs {
    Text(Vec<SampledFile>),
    Parquet(Vec<Arc<dyn DiskFile>>),
}

/// A text input and its sample.
pub(super) struct SampledFile {
    pub(super) input: InputFile,
    pub(super) sample: Sample,
    /// The blank lines at its beginning, which are not in the sample.
    pub(super) blank_bytes: u64,
    pub(super) blank_lines: u64,
    /// The delimiter that its first line names, as spreadsheets write it: `sep=;`.
    pub(super) delimiter: Option<u8>,
}

impl SampledFile {
    fn new(input: InputFile, sample: Sample) -> SampledFile {
        SampledFile { input, sample, blank_bytes: 0, blank_lines: 0, delimiter: None }
    }

    /// Returns true if the file has no record.
    pub(super) fn is_empty(&self) -> bool {
        self.sample.head.is_empty()
    }

    /// Returns true if the file has one line or none: if that is a header, it shows no types.
    pub(super) fn has_one_line(&self) -> bool {
        let head = &self.sample.head;
        let text = head.strip_suffix(b"\n").unwrap_or(head);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        self.sample.is_whole && memchr::memchr2(b'\n', b'\r', text).is_none()
    }

    /// The end of a quote that opens at byte `opened` and is open where the head of the file ends;
    /// `None` if it is closed.
    pub(super) fn end_of_quote(&self, quote: u8, opened: u64) -> Option<QuoteEnd> {
        if self.sample.is_whole {
            return Some(QuoteEnd::Never);
        }
        let InputBytes::File { file, magic: Magic::Plain, .. } = &self.input.bytes else {
            return Some(QuoteEnd::Unknown);
        };
        let mut offset = self.input.skip_bytes + self.sample.head.len() as u64;
        let mut bytes = vec![0; LOOK_BYTES];
        while offset - opened <= limits::CSV_ROW_BYTES as u64 {
            let read = file.read_at(&mut bytes, offset).ok()?;
            if read == 0 {
                return Some(QuoteEnd::Never);
            }
            if memchr::memchr(quote, &bytes[..read]).is_some() {
                return None;
            }
            offset += read as u64;
        }
        Some(QuoteEnd::TooLate)
    }
}

/// The end of a quote that hides the text behind it.
pub(super) enum QuoteEnd {
    /// It is not closed up to the end of the file.
    Never,
    /// It is closed behind more bytes than a record may have, if at all.
    TooLate,
    /// It is not known: the input can be read only once, front to back, and the head has no end of
    /// it.
    Unknown,
}

/// The bytes that are read at a time to find the end of a quote.
const LOOK_BYTES: usize = 1 << 20;

/// The name of standard input in messages.
const STDIN: &str = "standard input";

/// Opens all inputs. The first one with records is sampled throughout, the others only at their
/// beginning.
pub(super) fn open_inputs(disk: &dyn Disk, options: &ImportOptions) -> Result<Inputs> {
    let files = match &options.source {
        Source::Files(paths) => paths.len(),
        Source::Opened(files) => files.len(),
        Source::Stdin | Source::Stream(_) => 1,
    };
    let head_bytes = Sample::head_bytes(files);
    let mut opened = Opened { options, head_bytes, text: Vec::new(), parquet: Vec::new() };
    match &options.source {
        Source::Stdin => opened.pipe(PathBuf::from(STDIN), Box::new(std::io::stdin()))?,
        Source::Stream(stream) => {
            let path = stream.name().to_path_buf();
            let bytes = stream.take();
            opened.pipe(path.clone(), bytes.ok_or(Error::AlreadyRead { path })?)?;
        }
        Source::Files(paths) => {
            for (opened_count, path) in paths.iter().enumerate() {
                let failed = |error| not_opened(opened_count, error);
                match disk.open_stream(path).map_err(failed)? {
                    Some(stream) => opened.pipe(path.clone(), stream)?,
                    None => {
                        let file = disk.open(path, OpenMode::Read).map_err(failed)?;
                        opened.file(file, &|| disk.open_direct(path))?;
                    }
                }
            }
        }
        Source::Opened(files) => {
            for file in files {
                // Another file may have its name by now.
                opened.file(Arc::clone(file), &|| Ok(None))?;
            }
        }
    }
    let Opened { text, mut parquet, .. } = opened;
    match (text.is_empty(), parquet.is_empty()) {
        (_, true) => Ok(Inputs::Text(text)),
        (true, false) => Ok(Inputs::Parquet(parquet)),
        (false, false) => {
            Err(Error::MixedFormats { path: parquet.swap_remove(0).path().to_path_buf() })
        }
    }
}

/// The error of a file that cannot be opened after so many others.
fn not_opened(opened: usize, source: tidegate_platform::Error) -> Error {
    match source.is_too_many_files() {
        true => Error::TooManyFiles { opened, source },
        false => Error::Input(source),
    }
}

/// The inputs that are open so far.
struct Opened<'a> {
    options: &'a ImportOptions,
    /// The bytes of the head that is sampled of each file but the first.
    head_bytes: u64,
    text: Vec<SampledFile>,
    parquet: Vec<Arc<dyn DiskFile>>,
}

impl Opened<'_> {
    fn pipe(&mut self, path: PathBuf, stream: Box<dyn Read + Send>) -> Result<()> {
        let is_first = self.is_first();
        self.text.push(pipe(path, stream, self.options, self.head_bytes(is_first))?);
        Ok(())
    }

    /// Opens a file. `direct` opens the same file without the page cache, where that is possible.
    fn file(
        &mut self,
        file: Arc<dyn DiskFile>,
        direct: &dyn Fn() -> tidegate_platform::Result<Option<Arc<dyn DiskFile>>>,
    ) -> Result<()> {
        if self.options.format == FileFormat::PgText {
            // The text is converted to CSV before records are searched in it.
            let (path, bytes) = (file.path().to_path_buf(), file.len().map_err(Error::Input)?);
            return self.pipe(path, Box::new(SizedFile { file, offset: 0, bytes, progress: None }));
        }
        let input = open_input(Arc::clone(&file), direct)?;
        let is_parquet = match (self.options.format, &input.bytes) {
            (FileFormat::Parquet, _) => true,
            (FileFormat::Auto, InputBytes::File { magic, .. }) => *magic == Magic::Parquet,
            _ => false,
        };
        if is_parquet {
            self.parquet.push(file);
            return Ok(());
        }
        let is_first = self.is_first();
        let head_bytes = self.head_bytes(is_first);
        let window = window_log_max(self.options);
        let sample = sample_of(&input, is_first, head_bytes, window)?;
        self.text.push(skipped(SampledFile::new(input, sample), self.options, head_bytes)?);
        Ok(())
    }

    /// Returns true if the next file is the first with records.
    fn is_first(&self) -> bool {
        self.text.iter().all(SampledFile::has_one_line)
    }

    fn head_bytes(&self, is_first: bool) -> u64 {
        if is_first { Sample::first_head_bytes() } else { self.head_bytes }
    }
}

fn window_log_max(options: &ImportOptions) -> u32 {
    Shares::new(options.memory_max, options.workers).window_log_max()
}

fn sample_of(input: &InputFile, is_first: bool, head_bytes: u64, window: u32) -> Result<Sample> {
    let InputBytes::File { file, stamp, magic } = &input.bytes else {
        unreachable!("pipes are sampled where they are opened")
    };
    match magic {
        Magic::Plain | Magic::Parquet if is_first => Sample::of_file(&**file, stamp.bytes),
        Magic::Plain | Magic::Parquet => Sample::of_ends(&**file, stamp.bytes, head_bytes),
        magic => {
            let head = head_of(file, stamp.bytes, *magic, window, head_bytes)?;
            Ok(Sample::of_head(head, head_bytes))
        }
    }
}

/// Opens standard input, or a path that is not a file.
fn pipe(
    path: PathBuf,
    pipe: Box<dyn Read + Send>,
    options: &ImportOptions,
    head_bytes: u64,
) -> Result<SampledFile> {
    if options.format == FileFormat::Parquet {
        return Err(Error::ParquetFromPipe { path });
    }
    let window = window_log_max(options);
    let (magic, mut stream) = open_pipe(&path, pipe, window)?;
    if magic == Magic::Parquet && options.format == FileFormat::Auto {
        return Err(Error::ParquetFromPipe { path });
    }
    if options.format == FileFormat::PgText {
        let delimiter = options.dialect.delimiter.unwrap_or(pg_text::DELIMITER);
        let null_text = options.dialect.null_text.as_deref().unwrap_or(pg_text::NULL);
        stream = Box::new(PgTextReader::new(stream, delimiter, null_text.as_bytes()));
    }
    let mut head = Vec::new();
    let read = (&mut stream).take(head_bytes).read_to_end(&mut head);
    read.map_err(|source| broken_stream(&path, magic, window, head.len() as u64, source))?;
    let rest = Cursor::new(head.clone()).chain(stream);
    let bytes = InputBytes::Stream { stream: Mutex::new(Box::new(rest)), magic };
    let input = InputFile { path, bytes, skip_bytes: 0, skip_lines: 0 };
    skipped(SampledFile::new(input, Sample::of_head(head, head_bytes)), options, head_bytes)
}

/// The byte order mark in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Skips byte order marks, the lines that the options skip, and blank ones behind them. Programs
/// that add a mark to a text with one make two, and a name must not begin with the second.
fn skipped(mut file: SampledFile, options: &ImportOptions, head_bytes: u64) -> Result<SampledFile> {
    let head = &mut file.sample.head;
    let mut skip = 0;
    while head[skip..].starts_with(BYTE_ORDER_MARK) {
        skip += BYTE_ORDER_MARK.len();
    }
    // CR alone ends lines only where there is no LF.
    let line_end = if memchr::memchr(b'\n', head).is_some() { b'\n' } else { b'\r' };
    for skipped in 0..options.dialect.skip_lines {
        let end = memchr::memchr(line_end, &head[skip..]);
        if end.is_none() && !file.sample.is_whole {
            let (path, wanted) = (file.input.path.clone(), options.dialect.skip_lines);
            return Err(Error::SkipTooFar { path, wanted, skipped, bytes: head_bytes });
        }
        file.input.skip_lines += u64::from(end.is_some());
        skip += end.map_or(head.len() - skip, |at| at + 1);
    }
    let line_end = match sniff::line_end(&head[skip..], &[], options.dialect.quote.byte()) {
        LineEnd::Cr => b'\r',
        LineEnd::LfOrCrlf => b'\n',
    };
    let may_skip = options.format != FileFormat::PgText; // pg_text-3
    if let Some((delimiter, bytes)) =
        declared_delimiter(&head[skip..], line_end).filter(|_| may_skip)
    {
        skip += bytes;
        file.input.skip_lines += 1;
        file.delimiter = Some(delimiter);
    }
    while let Some(bytes) = blank_line(&head[skip..], line_end).filter(|_| may_skip) {
        skip += bytes;
        file.blank_bytes += bytes as u64;
        file.blank_lines += 1;
    }
    file.input.skip_lines += file.blank_lines;
    file.input.skip_bytes = skip as u64;
    head.drain(..skip);
    if options.format == FileFormat::Auto {
        let path = || file.input.path.clone();
        if let Some(kind) = Magic::foreign(head) {
            return Err(Error::ForeignFormat { path: path(), kind });
        }
        // If the user names a delimiter, the text is delimited.
        let is_guessed = options.dialect.delimiter.is_none();
        if let Some(kind) = undelimited(head).filter(|_| is_guessed) {
            return Err(Error::NotDelimited { path: path(), kind });
        }
    }
    if let Some(at) = memchr::memchr(0, head)
        && is_binary(head)
    {
        let path = file.input.path.clone();
        return Err(Error::Binary { path, offset: (skip + at) as u64 });
    }
    Ok(file)
}

/// Returns true if bytes with a NUL among them are not text; else the NUL is in a bad cell like any
/// other. Of compressed, compiled or encrypted bytes far more than an eighth are neither a
/// character nor a line end.
fn is_binary(head: &[u8]) -> bool {
    const PART: usize = 8;
    let mut strange = 0;
    for part in head.utf8_chunks() {
        let is_control = |byte: &u8| *byte < b' ' && !matches!(byte, b'\t' | b'\r' | b'\n');
        strange += part.invalid().len();
        strange += part.valid().bytes().filter(|byte| is_control(byte)).count();
    }
    strange * PART > head.len()
}

/// The delimiter that a first line such as `sep=;` names, and the number of bytes of that line.
fn declared_delimiter(text: &[u8], line_end: u8) -> Option<(u8, usize)> {
    let (word, rest) = text.split_at_checked("sep=".len())?;
    let (&delimiter, rest) = rest.split_first()?;
    let is_one =
        delimiter.is_ascii_punctuation() && delimiter != b'"' || b"\t ".contains(&delimiter);
    let is_declared = word.eq_ignore_ascii_case(b"sep=") && is_one;
    is_declared.then_some(())?;
    Some((delimiter, word.len() + 1 + blank_line(rest, line_end)?))
}

/// The number of bytes of a blank line, if the text begins with one.
fn blank_line(text: &[u8], line_end: u8) -> Option<usize> {
    match text {
        [first, ..] if *first == line_end => Some(1),
        [b'\r', second, ..] if *second == line_end => Some(2),
        _ => None,
    }
}
