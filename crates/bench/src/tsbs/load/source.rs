//! Sources of rows: ranges of files, a stream, or the simulation.
//!
//! - source-1. `append` adds only complete rows. Bytes after the last complete row are an error,
//!   and are never dropped.
//! - Ranges are handed out in the order of the file, so that the target gets rows about in this
//!   order; after `split_evenly`, each worker gets the ranges of its own part in order.

use std::borrow::Borrow;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::rows::{Header, RowLayout, Tally, parse_header};
use super::shift;
use crate::error::{Error, Result};
use crate::tsbs::format::{Cursor, Scratch};
use crate::tsbs::options::{Format, Options};
use crate::tsbs::pipeline::{Rows, lock};
use crate::tsbs::simulate::Stretch;

/// Bytes of a file that a worker takes at a time: few enough to be in the cache when they are sent,
/// and enough that workers seldom wait for the shared cursor.
const RANGE_BYTES: u64 = 512 * 1024;
/// Bytes read past a range, up to the end of its last row.
const LOOK_AHEAD: usize = 8 * 1024;
/// The maximum bytes of a row.
pub(crate) const ROW_BYTES_MAX: usize = 16 << 20;
/// Bytes that are checked before anything is sent: a malformed row there means a file of another
/// kind.
const FIRST_BYTES: usize = 64 * 1024;
/// Bytes at the end of a file that are first searched for its last row.
const TAIL_BYTES: u64 = 32 * 1024;
/// The maximum bytes of a header.
const HEADER_BYTES_MAX: usize = 1 << 20;

/// A source of rows for workers.
pub(crate) enum Source {
    Files(Files),
    Stream(Mutex<Stream>),
    Generated { rows: Box<Rows>, limit: Mutex<u64> },
}

/// The result of `append`.
pub(crate) enum Appended {
    /// The end of the source.
    End,
    /// Rows that were not counted.
    Rows,
    /// Rows that the simulation counted.
    Counted(Tally),
}

/// Files on disk, read by all workers at once.
pub(crate) struct Files {
    files: Vec<DataFile>,
    layout: RowLayout,
    /// One range for all workers, or one for each.
    stretches: Vec<FileStretch>,
}

/// A range of the concatenated files.
struct FileStretch {
    /// The next byte to hand out.
    cursor: AtomicU64,
    end: u64,
}

struct DataFile {
    path: PathBuf,
    file: File,
    /// End of the header.
    begin: u64,
    end: u64,
}

/// A stream that one worker at a time reads, in order; also files if the number of rows is limited.
pub(crate) struct Stream {
    inputs: Vec<(String, Box<dyn Read + Send>)>,
    layout: RowLayout,
    /// Bytes that were read but not yet handed out: less than a row.
    rest: Vec<u8>,
    /// Rows that may still be handed out.
    limit: u64,
    offset: u64,
    /// The error for bytes after the last complete row.
    truncated: Option<Error>,
}

impl Source {
    /// Opens files as a source. With a limit they are read in order.
    pub(crate) fn from_files(
        paths: &[PathBuf],
        layout: RowLayout,
        limit: u64,
    ) -> Result<(Source, Option<Header>)> {
        let mut files = Vec::new();
        let mut header: Option<Header> = None;
        for path in paths {
            let (file, found) = DataFile::open(path, layout)?;
            if header.as_ref().zip(found.as_ref()).is_some_and(|(a, b)| a.tags != b.tags) {
                return Err(foreign(&path.display().to_string(), 0, layout));
            }
            header = header.or(found);
            files.push(file);
        }
        if limit == 0 {
            let end = files.iter().map(DataFile::ranges_bytes).sum();
            let stretches = vec![FileStretch { cursor: AtomicU64::new(0), end }];
            return Ok((Source::Files(Files { files, layout, stretches }), header));
        }
        let mut inputs: Vec<(String, Box<dyn Read + Send>)> = Vec::new();
        for file in files {
            let place = file.path.display().to_string();
            inputs.push((place, Box::new(FileReader { at: file.begin, file: file.file })));
        }
        Ok((Source::Stream(Mutex::new(Stream::new(inputs, layout, limit))), header))
    }

    /// Opens a stream as a source, with its header if the layout has one.
    pub(crate) fn from_stream(
        mut input: Box<dyn Read + Send>,
        layout: RowLayout,
        limit: u64,
    ) -> Result<(Source, Option<Header>)> {
        let place = "standard input".to_owned();
        let mut begin = Vec::new();
        let header = loop {
            let before = begin.len();
            let read = input.by_ref().take(FIRST_BYTES as u64).read_to_end(&mut begin);
            read.map_err(|source| Error::Input { place: place.clone(), source })?;
            let header = parse_header(&begin);
            if layout == RowLayout::Line || header.is_some() {
                break header.filter(|_| layout != RowLayout::Line);
            }
            if begin.len() == before || HEADER_BYTES_MAX < begin.len() {
                return Err(foreign(&place, 0, layout));
            }
        };
        let skipped = header.as_ref().map_or(0, |header| header.bytes);
        check_first_rows(layout, &begin[skipped..], &place, skipped as u64)?;
        let mut stream = Stream::new(vec![(place, input)], layout, limit);
        stream.rest = begin.split_off(skipped);
        stream.offset = skipped as u64;
        Ok((Source::Stream(Mutex::new(stream)), header))
    }

    /// Creates a source from the simulation.
    pub(crate) fn generated(
        options: &Options,
        layout: RowLayout,
        limit: u64,
    ) -> Result<(Source, Option<Header>)> {
        let format = match layout {
            RowLayout::Line => Format::Line,
            RowLayout::TwoLines => Format::TwoLines,
            RowLayout::Tabs => Format::Crate,
        };
        let rows = Box::new(Rows::new(options, format)?);
        let header = parse_header(&rows.formatter.header());
        let limit = if limit == 0 { u64::MAX } else { limit };
        Ok((Source::Generated { rows, limit: Mutex::new(limit) }, header))
    }

    /// Gives each worker a part of the files. Returns false if the source cannot be divided.
    pub(crate) fn split_evenly(&mut self, workers: usize) -> bool {
        let Source::Files(files) = self else { return false };
        let end: u64 = files.files.iter().map(DataFile::ranges_bytes).sum();
        let part = (end / RANGE_BYTES).div_ceil(workers as u64) * RANGE_BYTES;
        let stretch = |worker: u64| FileStretch {
            cursor: AtomicU64::new(end.min(worker * part)),
            end: end.min((worker + 1) * part),
        };
        files.stretches = (0..workers as u64).map(stretch).collect();
        true
    }

    /// Appends some rows (source-1).
    pub(crate) fn append(&self, reader: &mut Reader, out: &mut Cursor) -> Result<Appended> {
        match self {
            Source::Files(files) => files.append(reader.worker, out),
            Source::Stream(stream) => lock(stream).append(out),
            Source::Generated { rows, limit } => {
                let mut left = lock(limit);
                if *left == 0 || rows.next(&mut reader.stretch).is_none() {
                    return Ok(Appended::End);
                }
                reader.stretch.truncate(*left);
                *left -= reader.stretch.rows.len() as u64;
                drop(left);
                let metrics = rows.formatter.write(&reader.stretch, &mut reader.scratch, out);
                let mut tally = Tally { metrics, ..Tally::default() };
                let measurements = &rows.formatter.schema().measurements;
                for rows in reader.stretch.rows.chunk_by(|a, b| a.measurement == b.measurement) {
                    let count = rows.len() as u64;
                    tally.rows += count;
                    tally.count(measurements[usize::from(rows[0].measurement)].name, count);
                }
                Ok(Appended::Counted(tally))
            }
        }
    }

    /// Returns the origin of the rows, for messages.
    pub(crate) fn place(&self) -> String {
        match self {
            Source::Files(files) => {
                files.files.first().map_or_else(String::new, |file| file.path.display().to_string())
            }
            Source::Stream(stream) => {
                lock(stream).inputs.first().map_or_else(String::new, |(place, _)| place.clone())
            }
            Source::Generated { .. } => "generated rows".to_owned(),
        }
    }
}

/// State that a worker keeps between calls.
#[derive(Default)]
pub(crate) struct Reader {
    worker: usize,
    stretch: Stretch,
    scratch: Scratch,
}

impl Reader {
    pub(crate) fn of_worker(worker: usize) -> Reader {
        Reader { worker, ..Reader::default() }
    }
}

/// Returns the timestamp of the last row of a file.
pub(crate) fn last_timestamp(path: &PathBuf, layout: RowLayout) -> Result<i64> {
    let (file, _) = DataFile::open(path, layout)?;
    let place = path.display().to_string();
    let mut text = Vec::new();
    let mut wanted = TAIL_BYTES;
    loop {
        let window = file.begin.max(file.end.saturating_sub(wanted));
        text.resize(usize::try_from(file.end - window).expect("a window"), 0);
        let read = read_up_to(&file.file, &mut text, window);
        read.map_err(|source| Error::Input { place: place.clone(), source })?;
        let is_whole = window == file.begin;
        // The byte before a row shows that the row begins there.
        let first = layout.first_row(&text, usize::from(!is_whole)).filter(|&at| at < text.len());
        if let Some(time) = first.and_then(|at| shift::last_timestamp(layout, &text[at..])) {
            return Ok(time);
        }
        if is_whole || ROW_BYTES_MAX as u64 * 2 < wanted {
            return Err(Error::NoLastTime { place });
        }
        wanted *= 4;
    }
}

impl DataFile {
    fn open(path: &PathBuf, layout: RowLayout) -> Result<(DataFile, Option<Header>)> {
        let place = path.display().to_string();
        let input = |source| Error::Input { place: place.clone(), source };
        let file = File::open(path).map_err(input)?;
        let metadata = file.metadata().map_err(input)?;
        if !metadata.is_file() {
            return Err(Error::NoFile { path: path.clone() });
        }
        let end = metadata.len();
        let mut header = None;
        if layout != RowLayout::Line {
            let mut begin = vec![0; HEADER_BYTES_MAX];
            let count = read_up_to(&file, &mut begin, 0).map_err(input)?;
            header = parse_header(&begin[..count]);
            if header.is_none() {
                return Err(foreign(&place, 0, layout));
            }
        }
        let begin = header.as_ref().map_or(0, |header| header.bytes as u64);
        let file = DataFile { path: path.clone(), file, begin, end };
        file.check_ends(layout)?;
        Ok((file, header))
    }

    /// Checks that the file begins with a row and ends with one.
    fn check_ends(&self, layout: RowLayout) -> Result<()> {
        let place = self.path.display().to_string();
        let mut text = vec![0; FIRST_BYTES];
        let mut read = |at: u64| {
            let count = read_up_to(&self.file, &mut text, at);
            let count = count.map_err(|source| Error::Input { place: place.clone(), source })?;
            Ok::<_, Error>(text[..count].to_vec())
        };
        check_first_rows(layout, &read(self.begin)?, &place, self.begin)?;
        let window = self.begin.max(self.end.saturating_sub(TAIL_BYTES));
        let last = read(window)?;
        let complete = layout.complete(&last);
        if complete != last.len() {
            return Err(Error::TruncatedInput { place, offset: window + complete as u64 });
        }
        Ok(())
    }
}

impl Files {
    fn append(&self, worker: usize, out: &mut Cursor) -> Result<Appended> {
        let stretch = &self.stretches[worker % self.stretches.len()];
        let at = stretch.cursor.fetch_add(RANGE_BYTES, Relaxed);
        if stretch.end <= at {
            return Ok(Appended::End);
        }
        let mut before = 0;
        for file in &self.files {
            // A range never spans two files.
            let length = file.ranges_bytes();
            if at < before + length {
                let from = file.begin + (at - before);
                return file.append_range(self.layout, from, out).map(|()| Appended::Rows);
            }
            before += length;
        }
        Ok(Appended::End)
    }
}

impl DataFile {
    /// Returns the bytes of the file's ranges, the last one counted in full.
    fn ranges_bytes(&self) -> u64 {
        (self.end - self.begin).next_multiple_of(RANGE_BYTES)
    }

    /// Appends the rows that begin in a range (load_rows-1).
    fn append_range(&self, layout: RowLayout, from: u64, out: &mut Cursor) -> Result<()> {
        let to = (from + RANGE_BYTES).min(self.end);
        // The byte before the range shows whether a row begins with the range.
        let window = if from == self.begin { from } else { from - 1 };
        let mut wanted = usize::try_from(to - window).expect("a range") + LOOK_AHEAD;
        loop {
            out.make_room(wanted);
            let place = || self.path.display().to_string();
            let read = read_up_to(&self.file, out.room(wanted), window);
            let count = read.map_err(|source| Error::Input { place: place(), source })?;
            let is_whole = self.end <= window + count as u64;
            let text = &out.room(wanted)[..count];
            let skipped = usize::try_from(from - window).expect("at most one");
            let end = usize::try_from(to - window).expect("a range");
            // The file was checked when it was opened, but it may have changed since.
            let nothing_more = (is_whole && layout.complete(text) == count).then_some(count);
            let first = layout.first_row(text, skipped).or(nothing_more);
            let last = match to == self.end {
                true => nothing_more,
                false if end <= count => layout.first_row(text, end).or(nothing_more),
                false => None,
            };
            if let (Some(first), Some(last)) = (first, last) {
                out.keep(first.min(last), last);
                return Ok(());
            }
            if is_whole {
                let offset = window + layout.complete(text) as u64;
                return Err(Error::TruncatedInput { place: place(), offset });
            }
            if count < wanted {
                return Err(Error::TruncatedInput {
                    place: place(),
                    offset: window + count as u64,
                });
            }
            if ROW_BYTES_MAX < wanted {
                return Err(Error::RowTooLong { place: place(), offset: window });
            }
            wanted *= 2;
        }
    }
}

impl Stream {
    fn new(inputs: Vec<(String, Box<dyn Read + Send>)>, layout: RowLayout, limit: u64) -> Stream {
        let limit = if limit == 0 { u64::MAX } else { limit };
        Stream { inputs, layout, rest: Vec::new(), limit, offset: 0, truncated: None }
    }

    fn append(&mut self, out: &mut Cursor) -> Result<Appended> {
        loop {
            let Some((place, input)) = self.inputs.first_mut() else { return Ok(Appended::End) };
            if self.limit == 0 {
                return Ok(Appended::End);
            }
            if let Some(error) = self.truncated.take() {
                return Err(error);
            }
            let held = self.rest.len();
            let range = usize::try_from(RANGE_BYTES).expect("a range");
            let wanted = range.max(2 * held);
            out.make_room(wanted);
            let text = out.room(wanted);
            text[..held].copy_from_slice(&self.rest);
            let count = held
                + read_fully(input, &mut text[held..])
                    .map_err(|source| Error::Input { place: place.clone(), source })?;
            let complete = self.layout.complete(&text[..count]);
            let is_over = count < wanted;
            if is_over && complete < count {
                let offset = self.offset + complete as u64;
                self.truncated = Some(Error::TruncatedInput { place: place.clone(), offset });
            } else if complete == 0 && ROW_BYTES_MAX < count {
                let offset = self.offset;
                return Err(Error::RowTooLong { place: place.clone(), offset });
            }
            self.rest.clear();
            self.rest.extend_from_slice(&text[complete..count]);
            if is_over && self.truncated.is_none() {
                self.inputs.remove(0);
                self.offset = 0;
            } else {
                self.offset += complete as u64;
            }
            if 0 < complete {
                let end = self.layout.cut(&text[..complete], self.limit).unwrap_or(complete);
                self.limit -= self.layout.rows(&text[..end]);
                out.keep(0, end);
                return Ok(Appended::Rows);
            }
        }
    }
}

/// A file as a stream, from a given offset.
struct FileReader<F> {
    file: F,
    at: u64,
}

fn read_up_to(file: &File, out: &mut [u8], at: u64) -> io::Result<usize> {
    read_fully(&mut FileReader { file, at }, out)
}

impl<F: Borrow<File>> Read for FileReader<F> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.file.borrow().read_at(out, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Reads as many bytes as fit; fewer only at the end of the input.
fn read_fully(input: &mut (impl Read + ?Sized), out: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < out.len() {
        match input.read(&mut out[count..]) {
            Ok(0) => break,
            Ok(read) => count += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// Checks that a text, of which the header is cut off, begins with rows.
fn check_first_rows(layout: RowLayout, text: &[u8], place: &str, offset: u64) -> Result<()> {
    let checked = layout.tally(&text[..layout.complete(text)]);
    checked.map(drop).map_err(|no_row| foreign(place, offset + no_row.offset as u64, layout))
}

pub(crate) fn foreign(place: &str, offset: u64, layout: RowLayout) -> Error {
    let expected = match layout {
        RowLayout::Line => "line protocol (--format questdb)",
        RowLayout::TwoLines => "two lines a row behind a header (--format timescaledb)",
        RowLayout::Tabs => "tabs and JSON behind a header (--format cratedb)",
    };
    Error::ForeignInput { place: place.to_owned(), offset, expected }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::tsbs::options::UseCase;
    use crate::tsbs::pipeline::generate;

    const LAYOUTS: [(RowLayout, Format); 3] = [
        (RowLayout::Line, Format::Line),
        (RowLayout::TwoLines, Format::TwoLines),
        (RowLayout::Tabs, Format::Crate),
    ];

    /// Returns several ranges of rows, with their header.
    fn text(format: Format) -> Vec<u8> {
        let mut bytes = Vec::new();
        let options = Options::small(UseCase::Devops);
        generate(&options, format, NonZeroUsize::MIN, |text| {
            bytes.extend_from_slice(text);
            Ok(())
        })
        .unwrap();
        assert!(8 * RANGE_BYTES < bytes.len() as u64);
        bytes
    }

    fn read_all(source: &Source) -> Result<Vec<u8>> {
        let (mut reader, mut out) = (Reader::default(), Cursor::default());
        let mut bytes = Vec::new();
        while !matches!(source.append(&mut reader, &mut out)?, Appended::End) {
            bytes.extend_from_slice(out.written());
            out.clear();
        }
        Ok(bytes)
    }

    #[test]
    fn files_streams_and_the_simulation_give_the_same_rows() {
        for (layout, format) in LAYOUTS {
            let text = text(format);
            let (stream, header) =
                Source::from_stream(Box::new(io::Cursor::new(text.clone())), layout, 0).unwrap();
            let body = &text[header.as_ref().map_or(0, |header| header.bytes)..];
            assert!(read_all(&stream).unwrap() == body, "{layout:?}, stream");

            let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
            std::fs::write(&path, &text).unwrap();
            for limit in [0, u64::MAX] {
                let paths = [path.to_path_buf()];
                let (files, found) = Source::from_files(&paths, layout, limit).unwrap();
                assert_eq!(found, header);
                assert!(read_all(&files).unwrap() == body, "{layout:?}, file");
            }
            let options = Options::small(UseCase::Devops);
            let (generated, found) = Source::generated(&options, layout, 0).unwrap();
            assert_eq!(found, header);
            assert!(read_all(&generated).unwrap() == body, "{layout:?}, generated");
        }
    }

    #[test]
    fn a_stream_that_ends_within_a_row_is_an_error_after_the_last_complete_row() {
        for (layout, format) in LAYOUTS {
            let mut text = text(format);
            text.pop();
            let whole = text.len() as u64;
            let (stream, _) =
                Source::from_stream(Box::new(io::Cursor::new(text)), layout, 0).unwrap();
            let (mut reader, mut out) = (Reader::default(), Cursor::default());
            let error = loop {
                match stream.append(&mut reader, &mut out) {
                    Ok(Appended::End) => panic!("a row is missing"),
                    Ok(_) => {}
                    Err(error) => break error,
                }
            };
            assert_eq!(layout.rows(out.written()), 32_399, "{layout:?}");
            let behind = matches!(error, Error::TruncatedInput { offset, .. }
                if whole - 1_000 < offset && offset < whole);
            assert!(behind, "{error}");
        }
    }

    #[test]
    fn a_stream_that_begins_with_something_else_is_refused() {
        let line = b"cpu,a=b x=1 1\n".repeat(100);
        for (layout, text) in [
            (RowLayout::TwoLines, line.as_slice()),
            (RowLayout::Tabs, &line),
            (RowLayout::Line, b"nonsense\n"),
            (RowLayout::Line, b"\x1f\x8b\x08\n\0\n"),
        ] {
            let stream = Box::new(io::Cursor::new(text.to_vec()));
            let error = Source::from_stream(stream, layout, 0).err().unwrap();
            assert!(matches!(error, Error::ForeignInput { offset: 0, .. }), "{error}");
        }
    }

    #[test]
    fn no_row_is_lost_at_any_border_of_ranges() {
        let range = usize::try_from(RANGE_BYTES).unwrap();
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        for (layout, header, row) in [
            (RowLayout::Line, "", "cpu,a=bcd x=1 1234567\n"),
            (RowLayout::TwoLines, "tags,a string\ncpu,x\n\n", "tags,a=bcd\ncpu,1234567,1\n"),
            (RowLayout::Tabs, "tags,a string\ncpu,x\n\n", "cpu\t{\"a\":\"b\"}\t1234567\t1\n"),
        ] {
            // The border between the two ranges moves through the last two rows.
            for shift in 0..2 * row.len() {
                let first = row.replacen('1', &"1".repeat(1 + shift), 1);
                let rows = (range - 8) / row.len();
                let body = first + &row.repeat(rows);
                std::fs::write(&path, format!("{header}{body}")).unwrap();
                let (files, _) = Source::from_files(&[path.to_path_buf()], layout, 0).unwrap();
                let read = read_all(&files).unwrap();
                assert!(read == body.as_bytes(), "{layout:?}, {shift} (load_rows-1)");
            }
        }
    }

    #[test]
    fn a_row_without_an_end_is_refused() {
        let stream = Box::new(io::repeat(b'x'));
        let (stream, _) = Source::from_stream(stream, RowLayout::Line, 0).unwrap();
        let error = read_all(&stream).unwrap_err();
        assert!(matches!(error, Error::RowTooLong { .. }), "{error}");

        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        let mut text = b"cpu,a=b x=1 1\n".to_vec();
        text.resize(40 << 20, b'x');
        text.extend_from_slice(b"\ncpu,a=b x=1 1\n");
        std::fs::write(&path, &text).unwrap();
        let paths = [path.to_path_buf()];
        let (files, _) = Source::from_files(&paths, RowLayout::Line, 0).unwrap();
        let error = read_all(&files).unwrap_err();
        assert!(matches!(error, Error::RowTooLong { .. }), "{error}");
    }
}
