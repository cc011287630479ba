//! COPY whose rows come or go over the connection.
//!
//! - CY1. Bytes go to the import as they come, which takes them at its own pace, and the client
//!   waits with them: nothing of them is kept here.
//! - CY2. CopyDone makes all rows one commit. Whatever else ends it, an error, CopyFail, a cancel
//!   or a client that goes away, leaves the table as it was.
//! - CY3. Each row that goes out is a message of its own, as clients expect it. They are written on
//!   the engine's threads, a part at a time.
//!
//! Not here: what the options say, and what rows look like (`copy`, `results`).

use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use futures::StreamExt;
use tidegate_platform::sentence;
use tidegate_query::{
    BulkSink, Canceler, CopyOptions, CopyStream, Error as QueryError, SendableRecordBatchStream,
    StatementOptions,
};
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::timeout;

use super::run::{Ending, code_of, panicked};
use super::{Connection, End, Stopped};
use crate::copy::form_of;
use crate::pg::fault::Fault;
use crate::pg::frame::Message;
use crate::pg::login::PARTING;
use crate::pg::out::Status;
use crate::results::{Delimited, ResultForm};
use crate::shared::CountedQuery;

/// Parts that wait for the client.
const QUEUE: usize = 2;
/// Bytes of a part.
const PART_BYTES: usize = 256 << 10;

/// What the engine's threads have written.
enum Part {
    /// Messages, and how many rows they are.
    Rows(BytesMut, u64),
    End,
    Failed(Box<Fault>),
}

impl Connection {
    /// Does a COPY FROM STDIN or TO STDOUT.
    pub(super) async fn copy(&mut self, sql: &str) -> Result<(), Stopped> {
        let counted = CountedQuery::begin(&self.shared, "pg");
        let done = self.copy_rows(sql).await;
        counted.end(done.as_ref().map_or_else(code_of, |()| "00000"));
        done
    }

    async fn copy_rows(&mut self, sql: &str) -> Result<(), Stopped> {
        let canceler = Canceler::default();
        let _cancelable = self.backend.begin(&canceler);
        let options = StatementOptions {
            timeout: None,
            session: self.session.clone(),
            canceler: Some(canceler.clone()),
        };
        let (services, text) = (Arc::clone(&self.services), sql.to_owned());
        let begun = self
            .services
            .query_threads
            .spawn(async move { services.engine.copy_stream(&text, &options).await });
        let _ending = Ending(begun.abort_handle());
        let stream = tokio::select! {
            biased;
            stream = begun => stream.map_err(|_| Stopped::from(panicked()))?,
            () = self.wire.closed() => return Err(Stopped::Gone),
        };
        match stream.map_err(|error| Fault::of_query(&error, sql, 0))? {
            Some(CopyStream::In { sink, columns, .. }) => {
                if self.status == Status::InTransaction {
                    let warning = "COPY is committed at once, and not with the transaction";
                    self.wire.out.fault(&Fault::warning(warning));
                }
                self.wire.out.copy(b'G', columns);
                self.copy_in(sink, &canceler).await
            }
            Some(CopyStream::Out { schema, stream, options, .. }) => {
                let _turn = self.turn(&canceler).await?;
                self.wire.out.copy(b'H', schema.fields().len());
                self.copy_out(stream, &options).await
            }
            None => Err(Fault::new("42601", "COPY has neither STDIN nor STDOUT").into()),
        }
    }

    async fn copy_in(
        &mut self,
        mut sink: Box<dyn BulkSink>,
        canceler: &Canceler,
    ) -> Result<(), Stopped> {
        let failed = |error: tidegate_query::BulkError| Fault::new(error.code, error.message);
        loop {
            let message = match self.next().await {
                Ok(message) => message,
                Err(End::Gone) => return Err(Stopped::Gone),
                Err(End::Told) => {
                    // A client that does not listen is not waited for.
                    let _ = timeout(PARTING, self.wire.flush()).await;
                    return Err(Stopped::Gone);
                }
            };
            if canceler.is_canceled() {
                return Err(Fault::canceled().into());
            }
            match message {
                Message::CopyData(bytes) => sink.push(&bytes).await.map_err(failed)?,
                Message::CopyDone => break,
                Message::CopyFail(reason) => {
                    let reason = String::from_utf8_lossy(&reason);
                    let message = format!("COPY from stdin failed: {reason}");
                    return Err(Fault::new("57014", message).into());
                }
                // They may stand between the others, and mean nothing.
                Message::Flush | Message::Sync => {}
                Message::Terminate => return Err(Stopped::Gone),
                _ => {
                    let message = "a message that is no part of a COPY";
                    return Err(Fault::fatal("08P01", message).into());
                }
            }
        }
        let outcome = sink.finish().await.map_err(failed)?;
        if 0 < outcome.errors {
            let warning = format!("{} rows or values were left out", outcome.errors);
            self.wire.out.fault(&Fault::warning(warning));
        }
        self.wire.out.complete(&format!("COPY {}", outcome.rows_imported));
        Ok(())
    }

    async fn copy_out(
        &mut self,
        stream: SendableRecordBatchStream,
        options: &CopyOptions,
    ) -> Result<(), Stopped> {
        let form =
            form_of(options).map_err(|fault| Fault::new(fault.error.code, fault.error.message))?;
        let ResultForm::Delimited(form) = form else {
            return Err(Fault::not_supported("COPY TO STDOUT but as csv and text").into());
        };
        let rows = Delimited::new(form, stream.schema());
        let (sender, mut parts) = channel(QUEUE);
        let work = self.services.query_threads.spawn(write(stream, rows, sender));
        let mut count = 0;
        let ended = loop {
            let part = tokio::select! {
                biased;
                part = parts.recv() => part,
                () = self.wire.closed() => break Err(Stopped::Gone),
            };
            match part {
                Some(Part::Rows(bytes, rows)) => {
                    count += rows;
                    self.wire.out.bytes.extend_from_slice(&bytes);
                    if let Err(error) = self.wire.flush().await {
                        break Err(error.into());
                    }
                }
                Some(Part::End) => break Ok(()),
                Some(Part::Failed(fault)) => break Err(Stopped::Fault(fault)),
                None => break Err(panicked().into()),
            }
        };
        work.abort();
        ended?;
        self.wire.out.empty(b'c');
        self.wire.out.complete(&format!("COPY {count}"));
        Ok(())
    }
}

/// Writes the rows of a stream as messages (CY3).
async fn write(mut stream: SendableRecordBatchStream, rows: Delimited, sender: Sender<Part>) {
    let mut text = String::new();
    let mut part = BytesMut::with_capacity(2 * PART_BYTES);
    let mut count = 0;
    rows.header(&mut text);
    if !text.is_empty() {
        push(&mut part, text.as_bytes());
    }
    while let Some(batch) = stream.next().await {
        text.clear();
        let mut ends = Vec::new();
        let written = batch.map_err(|error| {
            let error = QueryError::from(error);
            Fault::new(crate::sqlstate::of_query(&error), sentence(&error))
        });
        let written = written.and_then(|batch| {
            let written = rows.rows_with_ends(&batch, &mut text, |end| ends.push(end));
            written.map_err(|error| Fault::new("0A000", error.to_string()))
        });
        if let Err(fault) = written {
            // If nobody waits for it any more, nobody needs to know.
            let _ = sender.send(Part::Failed(Box::new(fault))).await;
            return;
        }
        let mut start = 0;
        for end in ends {
            push(&mut part, &text.as_bytes()[start..end]);
            start = end;
            count += 1;
            if PART_BYTES <= part.len() {
                let full = std::mem::replace(&mut part, BytesMut::with_capacity(2 * PART_BYTES));
                if sender.send(Part::Rows(full, count)).await.is_err() {
                    return;
                }
                count = 0;
            }
        }
    }
    if sender.send(Part::Rows(part, count)).await.is_ok() {
        let _ = sender.send(Part::End).await;
    }
}

/// A CopyData message.
fn push(part: &mut BytesMut, row: &[u8]) {
    part.put_u8(b'd');
    part.put_u32(u32::try_from(row.len() + 4).expect("rows are shorter than 4 GiB"));
    part.put_slice(row);
}
