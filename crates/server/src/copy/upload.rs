//! An import whose bytes are handed over: the body of a request, say.
//!
//! - UL1. At most `PIECES` pieces wait for the import: whoever hands them over is as fast as it is.
//! - UL2. Only bytes whose end was said are imported: an upload that is dropped, or cut, fails.
//! - UL3. It waits for its turn before anything is taken.

use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Buf, Bytes, BytesMut};
use tidegate_ingest::{ByteStream, ImportOptions, RejectList, Source};
use tidegate_query::{BulkOutcome, BulkResult, BulkSink, Session};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::fault::CopyFault;
use super::job::{Ended, Job, JobHandle, Kind, NewJob};
use super::log::Rejects;
use super::{Inner, run_import};

/// UL1.
const PIECES: usize = 8;
/// Small pieces are put together to so many bytes.
const PIECE_BYTES: usize = 256 << 10;

enum Piece {
    Bytes(Bytes),
    End,
}

/// The import, for whoever hands its bytes over.
pub(crate) struct Upload {
    sender: Sender<Piece>,
    handle: JobHandle,
    /// Pieces that are too small to be handed over.
    small: BytesMut,
}

impl Upload {
    pub(super) async fn begin(
        inner: &Arc<Inner>,
        (table, file): (String, String),
        session: &Session,
        options: impl FnOnce(&Inner, Source, RejectList) -> Result<ImportOptions, CopyFault>
        + Send
        + 'static,
    ) -> Result<Upload, CopyFault> {
        let (sender, pieces) = channel(PIECES);
        let job = Job::new(NewJob {
            kind: Kind::Upload,
            table,
            file: file.clone(),
            session: session.clone(),
            now: inner.database.now_micros(),
        });
        let reader = Reader { pieces, piece: Bytes::new(), is_over: false };
        let source = Source::Stream(ByteStream::new(PathBuf::from(file), Box::new(reader)));
        let (shared, submitted) = (Arc::clone(inner), Arc::clone(&job));
        let handle = super::blocking(move || {
            let rejects = Rejects::new(&shared, &submitted);
            let list = RejectList::Taken(Arc::clone(&rejects) as _);
            let options = options(&shared, source, list)?;
            shared.submit(submitted, move |inner, job| run_import(inner, job, (&options, &rejects)))
        });
        Ok(Upload { sender, handle: handle.await?, small: BytesMut::new() })
    }

    /// 16 hex digits.
    pub(crate) fn id(&self) -> &str {
        &self.handle.job().id
    }

    /// Hands bytes over.
    pub(crate) async fn push(&mut self, bytes: Bytes) -> Result<(), CopyFault> {
        if bytes.len() + self.small.len() < PIECE_BYTES {
            self.small.extend_from_slice(&bytes);
            return Ok(());
        }
        let small = self.small.split().freeze();
        for piece in [small, bytes] {
            if !piece.is_empty() {
                self.send(Piece::Bytes(piece)).await?;
            }
        }
        Ok(())
    }

    async fn send(&mut self, piece: Piece) -> Result<(), CopyFault> {
        let job = Arc::clone(self.handle.job());
        tokio::select! {
            biased;
            sent = self.sender.send(piece) => if sent.is_ok() { return Ok(()) },
            () = job.stopped() => {}
            // Whoever reads may not have noticed yet, and never take it.
            _ = job.ended() => {}
        }
        // The import takes nothing more: it has ended, or will.
        let (closed, _) = channel(1);
        self.sender = closed;
        match job.ended().await {
            Err(fault) => Err(fault),
            Ok(_) => {
                Err(CopyFault::new("XX000", "internal error: an import ended before its input"))
            }
        }
    }

    /// That was all: commits, and says what came of it.
    pub(crate) async fn finish(mut self) -> Result<Arc<Ended>, CopyFault> {
        let small = self.small.split().freeze();
        if !small.is_empty() {
            self.send(Piece::Bytes(small)).await?;
        }
        self.send(Piece::End).await?;
        self.handle.job().ended().await
    }
}

#[async_trait]
impl BulkSink for Upload {
    async fn push(&mut self, bytes: &[u8]) -> BulkResult<()> {
        if bytes.len() + self.small.len() < PIECE_BYTES {
            self.small.extend_from_slice(bytes);
            return Ok(());
        }
        Ok(Upload::push(self, Bytes::copy_from_slice(bytes)).await?)
    }

    async fn finish(self: Box<Self>) -> BulkResult<BulkOutcome> {
        let ended = Upload::finish(*self).await?;
        Ok(ended.outcome.clone())
    }
}

/// The import's end.
struct Reader {
    pieces: Receiver<Piece>,
    piece: Bytes,
    is_over: bool,
}

impl Read for Reader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() && !self.is_over {
            match self.pieces.blocking_recv() {
                Some(Piece::Bytes(bytes)) => self.piece = bytes,
                Some(Piece::End) => self.is_over = true,
                // UL2.
                None => {
                    let why = "the upload ended before its end";
                    return Err(io::Error::new(ErrorKind::UnexpectedEof, why));
                }
            }
        }
        let count = self.piece.len().min(into.len());
        self.piece.copy_to_slice(&mut into[..count]);
        Ok(count)
    }
}
