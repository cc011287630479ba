//! The bytes of all inputs as numbered input chunks, in order, from one thread that reads ahead.
//!
//! - Chunks are numbered from 0 through all files; the last one of each file is marked as such.
//! - input-1. A file stays as it was when it was opened: if its size or time of change differs
//!   after it was read, that is an error, since it is not known which of its states was read.
//! - At most `CHUNKS_AHEAD` chunks wait for a worker.
//!
//! Not here: the contents of the bytes.

use std::io::{BufRead, BufReader, Cursor, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flate2::bufread::GzDecoder;
use tidegate_model::ByteCount;
#[cfg(target_os = "linux")]
use tidegate_platform::PageWatch;
use tidegate_platform::{
    BufferPool, BufferPoolOptions, DiskFile, FileStamp, IoChoice, Piece, ReadAhead,
    available_memory_bytes,
};

use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::source::Magic;
use crate::utf16::Utf16Reader;

/// The bytes of a chunk: with its index and its parsed batches it stays in a core's L2 until it is
/// converted.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;
/// The bytes of a read: large because of disks and huge pages; a read consists of several chunks.
const READ_BYTES: usize = 2 << 20;
const _: () = assert!(READ_BYTES.is_multiple_of(CHUNK_BYTES));
/// The maximum number of chunks that wait for a worker.
const CHUNKS_AHEAD: usize = 32;
/// The number of chunks after which the pages of the memory are checked: every 16 MiB.
#[cfg(target_os = "linux")]
const CHUNKS_PER_MEASUREMENT: u64 = (16 << 20) / CHUNK_BYTES as u64;
/// The interval at which a waiting thread checks for cancellation.
const CANCEL_INTERVAL: Duration = Duration::from_millis(20);
/// The number of reads in flight.
const READ_DEPTH: usize = 4;

/// One input.
#[derive(Debug)]
pub(crate) struct InputFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: InputBytes,
    /// The decompressed bytes before the first record: byte order marks, skipped and blank lines.
    pub(crate) skip_bytes: u64,
    /// The number of lines in `skip_bytes`.
    pub(crate) skip_lines: u64,
}

/// The source of the bytes of an input.
pub(crate) enum InputBytes {
    File {
        file: Arc<dyn DiskFile>,
        /// The state of the file when it was opened (input-1).
        stamp: FileStamp,
        magic: Magic,
    },
    /// A pipe, already decompressed by its `magic`; it can be read once.
    Stream { stream: Mutex<Box<dyn Read + Send>>, magic: Magic },
}

impl std::fmt::Debug for InputBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            InputBytes::File { file, stamp, magic } => {
                write!(f, "File({file:?}, {stamp:?}, {magic:?})")
            }
            InputBytes::Stream { magic, .. } => write!(f, "Stream({magic:?})"),
        }
    }
}

impl InputFile {
    /// Checks that the file is unchanged (input-1); a pipe has no state to compare.
    pub(crate) fn check_unchanged(&self) -> Result<()> {
        match &self.bytes {
            InputBytes::File { file, stamp, .. } => check_unchanged(&**file, stamp),
            InputBytes::Stream { .. } => Ok(()),
        }
    }
}

/// Checks that a file is unchanged (input-1).
pub(crate) fn check_unchanged(file: &dyn DiskFile, opened: &FileStamp) -> Result<()> {
    let now = file.stamp().map_err(Error::Input)?;
    if now == *opened {
        return Ok(());
    }
    let path = file.path().to_owned();
    Err(Error::InputChanged { path, before: opened.bytes, after: now.bytes })
}

/// A chunk and its place.
#[derive(Debug)]
pub(crate) struct InputChunk {
    pub(crate) number: u64,
    /// The index of the input.
    pub(crate) file: usize,
    /// The offset of its first byte in the decompressed input.
    pub(crate) offset: u64,
    pub(crate) is_first: bool,
    pub(crate) is_last: bool,
    bytes: ChunkBytes,
}

#[derive(Debug)]
enum ChunkBytes {
    /// A part of a read.
    Shared(Arc<Piece>, Range<usize>),
    Owned(Vec<u8>),
}

impl InputChunk {
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.bytes {
            ChunkBytes::Shared(read, range) => &read.bytes()[range.clone()],
            ChunkBytes::Owned(bytes) => bytes,
        }
    }
}

/// The workers' end of the queue: chunks in order.
#[derive(Debug)]
pub(crate) struct ChunkQueue {
    receiver: Mutex<Receiver<Result<InputChunk>>>,
    pool: Arc<BufferPool>,
    spare: Mutex<Vec<Vec<u8>>>,
}

/// The reader's end of the queue.
#[derive(Debug)]
pub(crate) struct ChunkReader {
    sender: SyncSender<Result<InputChunk>>,
    pool: Arc<BufferPool>,
    next: u64,
    window_log_max: u32,
    /// A check of the memory pages: an import uses mostly fresh memory.
    #[cfg(target_os = "linux")]
    pages: PageWatch,
}

/// Creates both ends of the queue.
pub(crate) fn chunk_queue(workers: usize, window_log_max: u32) -> (ChunkReader, ChunkQueue) {
    let options = BufferPoolOptions {
        headroom: 0,
        piece_bytes: READ_BYTES,
        tailroom: 0,
        vacant_max: CHUNKS_AHEAD * CHUNK_BYTES / READ_BYTES + READ_DEPTH + workers,
    };
    let pool = Arc::new(BufferPool::new(options));
    let (sender, receiver) = sync_channel(CHUNKS_AHEAD);
    let reader = ChunkReader {
        sender,
        pool: Arc::clone(&pool),
        next: 0,
        window_log_max,
        #[cfg(target_os = "linux")]
        pages: PageWatch::new(),
    };
    let spare = Mutex::new(Vec::new());
    (reader, ChunkQueue { receiver: Mutex::new(receiver), pool, spare })
}

impl ChunkQueue {
    /// Returns the next chunk, `None` behind the last one. A pipe may be silent for long, so
    /// waiting ends as soon as `is_cancelled` returns true.
    pub(crate) fn next(&self, is_cancelled: impl Fn() -> bool) -> Result<Option<InputChunk>> {
        let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match receiver.recv_timeout(CANCEL_INTERVAL) {
                Ok(chunk) => return chunk.map(Some),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) if is_cancelled() => return Err(Error::Cancelled),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Takes back the memory of a chunk.
    pub(crate) fn recycle(&self, chunk: InputChunk) {
        match chunk.bytes {
            ChunkBytes::Shared(read, _) => {
                if let Some(read) = Arc::into_inner(read) {
                    self.pool.give(read.buffer);
                }
            }
            ChunkBytes::Owned(bytes) => {
                let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
                if spare.len() < CHUNKS_AHEAD {
                    spare.push(bytes);
                }
            }
        }
    }
}

impl ChunkReader {
    /// Sends the chunks of all files; ends early when the workers have closed the queue. Errors are
    /// sent as well.
    pub(crate) fn run(
        mut self,
        files: &[InputFile],
        queue: &ChunkQueue,
        io: IoChoice,
        progress: &Arc<Progress>,
    ) {
        for (index, file) in files.iter().enumerate() {
            let sent = self.send_file(index, file, queue, io, progress);
            // A change of the file explains any other error in it.
            if let Err(error) = file.check_unchanged().and(sent) {
                // The workers may have ended already, for a reason of their own.
                let _ = self.sender.send(Err(error));
                return;
            }
        }
    }

    fn send_file(
        &mut self,
        index: usize,
        input: &InputFile,
        queue: &ChunkQueue,
        io: IoChoice,
        progress: &Arc<Progress>,
    ) -> Result<()> {
        let place = FilePlace { index, path: &input.path, skip: input.skip_bytes, bytes: 0 };
        match &input.bytes {
            InputBytes::File { file, stamp, magic: Magic::Plain | Magic::Parquet } => {
                let place = FilePlace { bytes: stamp.bytes, ..place };
                self.send_plain(file, &place, io, progress)
            }
            InputBytes::File { file, stamp, magic } => {
                let source = SizedFile {
                    file: Arc::clone(file),
                    offset: 0,
                    bytes: stamp.bytes,
                    progress: Some(Arc::clone(progress)),
                };
                let kind = kind_of(*magic);
                let window = self.window_log_max;
                let fail = |offset, error| place.damaged(kind, window, offset, error);
                let stream =
                    decompressor(source, *magic, window).map_err(|error| fail(0, error))?;
                self.send_stream(stream, &place, queue, fail)
            }
            InputBytes::Stream { stream, magic } => {
                let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
                let counted = Counted { stream: &mut **stream, progress };
                let window = self.window_log_max;
                let fail =
                    |offset, source| broken_stream(&input.path, *magic, window, offset, source);
                self.send_stream(counted, &place, queue, fail)
            }
        }
    }

    fn send_plain(
        &mut self,
        file: &Arc<dyn DiskFile>,
        place: &FilePlace<'_>,
        io: IoChoice,
        progress: &Progress,
    ) -> Result<()> {
        let (read, bytes) = (Error::Input, place.bytes);
        progress.add_bytes_read(place.skip.min(bytes));
        if place.skip >= bytes {
            return Ok(());
        }
        let mut ahead = ReadAhead::new(
            io,
            Arc::clone(file),
            place.skip..bytes,
            READ_BYTES,
            READ_DEPTH,
            Arc::clone(&self.pool),
        )
        .map_err(read)?;
        let mut is_first = true;
        while let Some(read) = ahead.next().map_err(read)? {
            progress.add_bytes_read(read.len as u64);
            let read = Arc::new(read);
            for start in (0..read.len).step_by(CHUNK_BYTES) {
                let range = start..(start + CHUNK_BYTES).min(read.len);
                let chunk = InputChunk {
                    number: self.number(),
                    file: place.index,
                    offset: read.offset + start as u64,
                    is_first,
                    is_last: read.offset + range.end as u64 == bytes,
                    bytes: ChunkBytes::Shared(Arc::clone(&read), range),
                };
                if self.sender.send(Ok(chunk)).is_err() {
                    return Ok(());
                }
                is_first = false;
            }
        }
        Ok(())
    }

    /// Holds one chunk back, so that the last one can be marked as such.
    fn send_stream(
        &mut self,
        mut stream: impl Read,
        place: &FilePlace<'_>,
        queue: &ChunkQueue,
        fail: impl Fn(u64, std::io::Error) -> Error,
    ) -> Result<()> {
        let mut to_skip = place.skip;
        let (mut offset, mut is_first) = (0, true);
        let mut pending: Option<InputChunk> = None;
        loop {
            let mut bytes = queue
                .spare
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop()
                .unwrap_or_default();
            bytes.clear();
            let limit = CHUNK_BYTES as u64 + to_skip.min(CHUNK_BYTES as u64);
            (&mut stream)
                .take(limit)
                .read_to_end(&mut bytes)
                .map_err(|error| fail(offset + bytes.len() as u64, error))?;
            let is_end = bytes.is_empty();
            let start = offset;
            offset += bytes.len() as u64;
            let skipped = usize::try_from(to_skip).unwrap_or(usize::MAX).min(bytes.len());
            to_skip -= skipped as u64;
            bytes.drain(..skipped);
            if bytes.is_empty() && !is_end {
                continue;
            }
            if let Some(mut chunk) = pending.take() {
                chunk.is_last = is_end;
                if self.sender.send(Ok(chunk)).is_err() {
                    return Ok(());
                }
            }
            if is_end {
                return Ok(());
            }
            pending = Some(InputChunk {
                number: self.number(),
                file: place.index,
                offset: start + skipped as u64,
                is_first,
                is_last: false,
                bytes: ChunkBytes::Owned(bytes),
            });
            is_first = false;
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        #[cfg(target_os = "linux")]
        if self.next.is_multiple_of(CHUNKS_PER_MEASUREMENT) {
            self.pages.measure();
        }
        self.next - 1
    }
}

/// The input that is being read.
struct FilePlace<'a> {
    index: usize,
    path: &'a Path,
    skip: u64,
    /// The size of an uncompressed file.
    bytes: u64,
}

impl FilePlace<'_> {
    fn damaged(
        &self,
        kind: &'static str,
        window: u32,
        offset: u64,
        source: std::io::Error,
    ) -> Error {
        // A reader of a file wraps the error of `platform`, which names the file and the call.
        if source.get_ref().is_some_and(|inner| inner.is::<tidegate_platform::Error>()) {
            let inner = source.into_inner().expect("just seen");
            let inner = inner.downcast::<tidegate_platform::Error>().expect("just seen");
            return Error::Input(*inner);
        }
        damaged(self.path.to_owned(), kind, window, offset, source)
    }
}

/// A reader of a file up to the size that it had when it was opened (input-1).
#[derive(Debug)]
pub(crate) struct SizedFile {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) progress: Option<Arc<Progress>>,
}

impl Read for SizedFile {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let left = usize::try_from(self.bytes - self.offset).unwrap_or(usize::MAX);
        let wanted = into.len().min(left);
        let read = self.file.read_at(&mut into[..wanted], self.offset);
        let read = read.map_err(std::io::Error::other)?;
        if read == 0 && wanted > 0 {
            return Err(std::io::Error::other(tidegate_platform::Error::Shrank {
                path: self.file.path().to_owned(),
                expected: self.bytes,
                actual: self.offset,
            }));
        }
        self.offset += read as u64;
        if let Some(progress) = &self.progress {
            progress.add_bytes_read(read as u64);
        }
        Ok(read)
    }
}

/// A reader that counts the bytes of a stream.
struct Counted<'a> {
    stream: &'a mut (dyn Read + Send),
    progress: &'a Progress,
}

impl Read for Counted<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.stream.read(into)?;
        self.progress.add_bytes_read(read as u64);
        Ok(read)
    }
}

/// Opens a pipe: its kind, and its decompressed bytes.
pub(crate) fn open_pipe(
    path: &Path,
    mut pipe: Box<dyn Read + Send>,
    window_log_max: u32,
) -> Result<(Magic, Box<dyn Read + Send>)> {
    let fail = |source| Error::Pipe { path: path.to_owned(), source };
    let mut head = Vec::new();
    (&mut pipe).take(Magic::BYTES as u64).read_to_end(&mut head).map_err(fail)?;
    let magic = checked_magic(path, &head)?;
    let stream = decompressor(Cursor::new(head).chain(pipe), magic, window_log_max)
        .map_err(|source| broken_stream(path, magic, window_log_max, 0, source))?;
    Ok((magic, stream))
}

fn checked_magic(path: &Path, head: &[u8]) -> Result<Magic> {
    match Magic::foreign(head) {
        Some(kind) => Err(Error::ForeignFormat { path: path.to_owned(), kind }),
        None => Ok(Magic::of(head)),
    }
}

/// The error of a pipe that cannot be read on: its data is damaged, or the pipe itself is broken.
pub(crate) fn broken_stream(
    path: &Path,
    magic: Magic,
    window_log_max: u32,
    offset: u64,
    source: std::io::Error,
) -> Error {
    let path = path.to_owned();
    match magic {
        Magic::Gzip | Magic::Zstd => damaged(path, kind_of(magic), window_log_max, offset, source),
        Magic::Plain | Magic::Utf16 | Magic::Parquet => Error::Pipe { path, source },
    }
}

/// The error of a compressed stream that cannot be read.
fn damaged(
    path: PathBuf,
    kind: &'static str,
    window_log_max: u32,
    offset: u64,
    source: std::io::Error,
) -> Error {
    // The library reports it only by this message.
    if source.to_string().contains("too much memory") {
        return Error::ZstdWindow { path, max: ByteCount(1 << window_log_max) };
    }
    Error::Compression { path, kind, offset, source }
}

/// The decompressed bytes of a stream, all its members or frames, as UTF-8 if they are UTF-16. A
/// frame may refer back to at most `1 << window_log_max` bytes.
pub(crate) fn decompressor(
    stream: impl Read + Send + 'static,
    magic: Magic,
    window_log_max: u32,
) -> std::io::Result<Box<dyn Read + Send>> {
    Ok(match magic {
        Magic::Gzip => without_utf16(GzipMembers::new(stream))?,
        Magic::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::new(stream)?;
            decoder.window_log_max(window_log_max)?;
            without_utf16(decoder)?
        }
        Magic::Utf16 => Box::new(Utf16Reader::new(stream)),
        Magic::Plain | Magic::Parquet => Box::new(stream),
    })
}

fn without_utf16(mut stream: impl Read + Send + 'static) -> std::io::Result<Box<dyn Read + Send>> {
    let mut head = Vec::new();
    (&mut stream).take(2).read_to_end(&mut head)?;
    let magic = Magic::of(&head);
    let stream = Cursor::new(head).chain(stream);
    Ok(match magic {
        Magic::Utf16 => Box::new(Utf16Reader::new(stream)),
        _ => Box::new(stream),
    })
}

/// The first byte of each member.
const GZIP_FIRST: u8 = 0x1F;

/// A reader of the members of a gzip stream, one after the other; zeros behind the last one are
/// padding.
struct GzipMembers<R> {
    /// The present member; `None` behind the last one.
    member: Option<GzDecoder<BufReader<R>>>,
}

impl<R: Read> GzipMembers<R> {
    fn new(stream: R) -> GzipMembers<R> {
        GzipMembers { member: Some(GzDecoder::new(BufReader::new(stream))) }
    }
}

impl<R: Read> Read for GzipMembers<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        while let Some(mut member) = self.member.take() {
            let read = member.read(into)?;
            if read > 0 || into.is_empty() {
                self.member = Some(member);
                return Ok(read);
            }
            let mut stream = member.into_inner();
            match stream.fill_buf()?.first() {
                None => {}
                Some(&GZIP_FIRST) => self.member = Some(GzDecoder::new(stream)),
                Some(_) => skip_zeros(&mut stream)?,
            }
        }
        Ok(0)
    }
}

/// Reads to the end, where only zeros may be left.
fn skip_zeros(stream: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let bytes = stream.fill_buf()?;
        if bytes.is_empty() {
            return Ok(());
        }
        if bytes.iter().any(|&byte| byte != 0) {
            let message = "behind its end are bytes that are no gzip";
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, message));
        }
        let skipped = bytes.len();
        stream.consume(skipped);
    }
}

fn kind_of(magic: Magic) -> &'static str {
    match magic {
        Magic::Gzip => "gzip",
        Magic::Utf16 => "UTF-16",
        Magic::Zstd | Magic::Plain | Magic::Parquet => "zstd",
    }
}

/// Opens a file for import, its size fixed now. `direct` opens it without the page cache, where
/// that is possible.
pub(crate) fn open_input(
    file: Arc<dyn DiskFile>,
    direct: &dyn Fn() -> tidegate_platform::Result<Option<Arc<dyn DiskFile>>>,
) -> Result<InputFile> {
    let path = &file.path().to_path_buf();
    let stamp = file.stamp().map_err(Error::Input)?;
    let mut head = [0; Magic::BYTES];
    let read = file.read_at(&mut head, 0).map_err(Error::Input)?;
    let magic = checked_magic(path, &head[..read])?;
    // A file that does not fit the page cache would only evict other pages.
    let direct =
        if stamp.bytes > available_memory_bytes() { direct().map_err(Error::Input)? } else { None };
    let file = direct.unwrap_or(file);
    check_unchanged(&*file, &stamp)?;
    let bytes = InputBytes::File { file, stamp, magic };
    Ok(InputFile { path: path.to_owned(), bytes, skip_bytes: 0, skip_lines: 0 })
}

/// The first decompressed bytes of a file, at most `bytes_max`.
pub(crate) fn head_of(
    file: &Arc<dyn DiskFile>,
    bytes: u64,
    magic: Magic,
    window_log_max: u32,
    bytes_max: u64,
) -> Result<Vec<u8>> {
    let path = file.path().to_owned();
    let place = FilePlace { index: 0, path: &path, skip: 0, bytes: 0 };
    let damaged = |offset, source| place.damaged(kind_of(magic), window_log_max, offset, source);
    let source = SizedFile { file: Arc::clone(file), offset: 0, bytes, progress: None };
    let mut head = Vec::new();
    let stream =
        decompressor(source, magic, window_log_max).map_err(|source| damaged(0, source))?;
    let read = stream.take(bytes_max).read_to_end(&mut head);
    read.map_err(|source| damaged(head.len() as u64, source))?;
    Ok(head)
}
