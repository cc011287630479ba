//! Execution at a server over PostgreSQL's protocol, with the answers of an embedded engine: the
//! same batches, the same messages, errors at the same places.
//!
//! - Memory is bounded: rows become batches as they come (`rows`), and the connection is read
//!   no further than they are taken.
//! - sql_remote-1. A statement that is given up is cancelled at the server, and the next statement
//!   begins after it has ended, so that a cancel never hits another statement.
//! - sql_remote-2. A password is in no error, no line and no history: it goes from the address,
//!   PGPASSWORD or a terminal to the server.
//!
//! A connection that has ended is not made again, because the state of its session would be
//! missing. Values have the types of PostgreSQL (docs/server.md). Not here: COPY from and to this
//! side.

mod address;
mod rows;
mod tls;

use std::future::poll_fn;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::TryStreamExt;
use tidegate_query::Timeout;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, CancelToken, Client, Connection, Socket};

use self::address::Address;
use self::rows::Batches;
use self::tls::{ClientTls, TlsSocket};
use super::running::{Piece, QUEUE, Running};
use super::script::words;
use crate::error::{Error, RemoteError, Result, remote as error};
use crate::session::Session;
use crate::user::password;

/// Application name for the server's list of connections.
const NAME: &str = "tidegate sql";
/// Time limit for the connect, unless the address has one.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Time limit for a cancelled statement to end (sql_remote-1).
const CANCEL_TIME: Duration = Duration::from_secs(5);
/// Most notices that are kept for one statement.
const NOTICES_MAX: usize = 64;

/// A connection to a server, and the thread that reads from it.
pub(crate) struct Remote {
    /// `Some` until the drop.
    runtime: Option<Runtime>,
    client: Arc<Client>,
    tls: ClientTls,
    notices: Notices,
    /// Number of changes by this connection.
    changes: Arc<AtomicU64>,
    place: String,
}

/// Notices of the server that were not shown yet.
#[derive(Clone, Default)]
struct Notices(Arc<Mutex<Vec<String>>>);

impl Notices {
    fn push(&self, notice: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The server sends a notice of a statement twice: for its preparation and for its
        // execution.
        if all.len() < NOTICES_MAX && all.iter().all(|known| known != notice) {
            all.push(notice.to_owned());
        }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Remote {
    /// Connects to the server at an address; `time` limits each statement.
    pub(crate) fn connect(url: &str, time: Option<Timeout>, session: &Session) -> Result<Remote> {
        let mut address = Address::parse(url)?;
        let tls = ClientTls::new(address.authority.as_deref(), session.disk.as_ref())?;
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).thread_name("server").enable_all();
        let runtime = crate::build_runtime(&mut builder);
        let runtime = runtime.map_err(|source| Error::Threads { source })?;
        address.config.application_name(NAME);
        if address.config.get_connect_timeout().is_none() {
            address.config.connect_timeout(CONNECT_TIME);
        }
        if address.config.get_password().is_none()
            && let Some(password) = &session.environment.server_password
        {
            address.config.password(password);
        }
        let (client, connection) = log_in(&runtime, &mut address, &tls, session)?;
        let notices = Notices::default();
        runtime.spawn(listen(connection, notices.clone()));
        let remote = Remote {
            runtime: Some(runtime),
            client: Arc::new(client),
            tls,
            notices,
            changes: Arc::default(),
            place: address.place,
        };
        remote.limit(time)?;
        Ok(remote)
    }

    /// Returns host and port.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Returns a number that rises when a statement of this connection has changed something.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("taken only by drop")
    }

    fn limit(&self, time: Option<Timeout>) -> Result<()> {
        let millis = match time {
            None => return Ok(()),
            Some(Timeout::Never) => 0,
            Some(Timeout::After(time)) => time.as_millis(),
        };
        let sql = format!("SET statement_timeout = {millis}");
        let done = self.runtime().block_on(self.client.batch_execute(&sql));
        done.map_err(|error| error::of_statement(&error, &sql, 0).into())
    }

    /// Starts a statement.
    pub(super) fn start(&self, sql: &str) -> Running {
        let (sender, pieces) = channel(QUEUE);
        let statement = Statement {
            client: Arc::clone(&self.client),
            notices: self.notices.clone(),
            changes: Arc::clone(&self.changes),
            sql: sql.to_owned(),
        };
        let work = self.runtime().spawn(async move {
            if let Err(error) = statement.run(&sender).await {
                // The receiver is gone if the statement was cancelled.
                let _ = sender.send(Piece::Failed(error.into())).await;
            }
        });
        let cancel = Cancel {
            handle: self.runtime().handle().clone(),
            token: self.client.cancel_token(),
            tls: self.tls.clone(),
            client: Arc::clone(&self.client),
        };
        Running::new(pieces, work).with_cancel(|| cancel.now())
    }

    /// Returns two texts per row of a small query, for completion; none after the time limit.
    pub(crate) fn texts(&self, sql: &str, wait_max: Duration) -> Vec<[String; 2]> {
        let work = async {
            let rows = self.client.query(sql, &[]).await.ok()?;
            let text = |row: &tokio_postgres::Row, at| row.try_get::<usize, String>(at).ok();
            rows.iter().map(|row| Some([text(row, 0)?, text(row, 1)?])).collect::<Option<Vec<_>>>()
        };
        let rows = self.runtime().block_on(async { timeout(wait_max, work).await });
        rows.ok().flatten().unwrap_or_default()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // The end of the connection ends all statements on it.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

type Link = (Client, Connection<Socket, TlsSocket>);

/// Connects, and asks for the password if the server wants one and none was given (sql_remote-2).
fn log_in(
    runtime: &Runtime,
    address: &mut Address,
    tls: &ClientTls,
    session: &Session,
) -> Result<Link> {
    let error = match runtime.block_on(address.config.connect(tls.clone())) {
        Ok(link) => return Ok(link),
        Err(error) => error,
    };
    if !error::is_password_missing(&error) {
        return Err(error::of_connection(error, &address.place).into());
    }
    if !session.environment.stdin_is_terminal {
        return Err(RemoteError::NoPassword { place: address.place.clone() }.into());
    }
    address.config.password(password::read_password()?);
    let again = runtime.block_on(address.config.connect(tls.clone()));
    again.map_err(|error| error::of_connection(error, &address.place).into())
}

/// Reads from the connection until it ends; statements that wait for an answer then fail.
async fn listen(mut connection: Connection<Socket, TlsSocket>, notices: Notices) {
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notice(notice) = message {
            notices.push(notice.message());
        }
    }
}

/// A statement in execution at the server.
struct Statement {
    client: Arc<Client>,
    notices: Notices,
    changes: Arc<AtomicU64>,
    /// The text, with blanks in place of the part of the script before it.
    sql: String,
}

impl Statement {
    /// Returns the notices so far of the statement, which begins at byte `before` of its text.
    fn notices(&self, before: usize) -> Vec<String> {
        let notices = self.notices.take().into_iter();
        notices.map(|notice| error::relocated(&notice, &self.sql[..before])).collect()
    }

    /// Sends the answer piece by piece, until all is sent or the receiver is gone.
    async fn run(&self, sender: &Sender<Piece>) -> std::result::Result<(), RemoteError> {
        let text = self.sql.trim_start();
        let before = self.sql.len() - text.len();
        let failed = |error: tokio_postgres::Error| error::of_statement(&error, &self.sql, before);
        if copies_locally(text) {
            return Err(RemoteError::LocalCopy);
        }
        self.notices.take();
        let prepared = self.client.prepare(text).await.map_err(failed)?;
        if !prepared.params().is_empty() {
            // There are no values, and the server reports that as the engine does.
            self.client.simple_query(text).await.map_err(failed)?;
        }
        let no_values: [&(dyn ToSql + Sync); 0] = [];
        let stream = self.client.query_raw(&prepared, no_values).await.map_err(failed)?;
        let mut stream = std::pin::pin!(stream);
        let has_rows = !prepared.columns().is_empty();
        let mut batches = Batches::new(prepared.columns())?;
        if has_rows {
            let (fields, notices) = (batches.fields(), self.notices(before));
            if sender.send(Piece::Fields { fields, notices }).await.is_err() {
                return Ok(());
            }
        }
        while let Some(row) = stream.try_next().await.map_err(failed)? {
            if let Some(batch) = batches.push(&row)?
                && sender.send(Piece::Rows(batch)).await.is_err()
            {
                return Ok(());
            }
        }
        if let Some(batch) = batches.finish()?
            && sender.send(Piece::Rows(batch)).await.is_err()
        {
            return Ok(());
        }
        let tag = (!has_rows).then(|| tag(text, stream.rows_affected()));
        self.changes.fetch_add(u64::from(tag.is_some()), Relaxed);
        // The receiver is gone if the statement was cancelled.
        let _ = sender.send(Piece::Done { tag, notices: self.notices(before) }).await;
        Ok(())
    }
}

/// True if a statement copies from or to this side of the connection.
fn copies_locally(text: &str) -> bool {
    let mut words = text.split_whitespace().map(str::to_ascii_uppercase).peekable();
    let mut is_here = false;
    let is_copy = words.next().is_some_and(|word| word == "COPY");
    while let Some(word) = words.next() {
        let next = words.peek().map_or("", |word| word.trim_end_matches(';'));
        is_here |= matches!((word.as_str(), next), ("FROM", "STDIN") | ("TO", "STDOUT"));
    }
    is_copy && is_here
}

/// Returns the tag of a finished statement as the engine words it; the connection does not pass it
/// on.
fn tag(text: &str, rows: Option<u64>) -> String {
    let mut words = words(text).map(str::to_ascii_uppercase);
    let first = words.next().unwrap_or_default();
    match (first.as_str(), rows) {
        ("CREATE" | "DROP" | "ALTER" | "RENAME" | "TRUNCATE", _) => format!("{first} TABLE"),
        ("INSERT", Some(rows)) => format!("{first} 0 {rows}"),
        ("UPDATE" | "DELETE", Some(rows)) => format!("{first} {rows}"),
        _ => first,
    }
}

/// The means to cancel a statement at the server (sql_remote-1).
struct Cancel {
    handle: Handle,
    token: CancelToken,
    tls: ClientTls,
    client: Arc<Client>,
}

impl Cancel {
    /// Cancels the statement, and waits until it has ended, at most `CANCEL_TIME`.
    fn now(self) {
        let Cancel { handle, token, tls, client } = self;
        handle.block_on(async move {
            let ended = async {
                // If the cancel cannot be sent, the end of the connection ends the statement.
                let _ = token.cancel_query(tls).await;
                let _ = client.batch_execute("").await;
            };
            let _ = timeout(CANCEL_TIME, ended).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_remote_statements_are_those_of_the_engine() {
        for (sql, rows, expected) in [
            ("create table t (n INT)", Some(0), "CREATE TABLE"),
            ("-- x\nINSERT INTO t VALUES (1)", Some(1), "INSERT 0 1"),
            ("/* x */ delete from t", Some(7), "DELETE 7"),
            ("SET a.b = 1", None, "SET"),
        ] {
            assert_eq!(tag(sql, rows), expected, "{sql}");
        }
    }

    #[test]
    fn copies_of_this_side_are_known() {
        assert!(copies_locally("copy t from\n stdin with (format csv)"));
        assert!(copies_locally("COPY (SELECT 1) TO STDOUT;"));
        assert!(!copies_locally("COPY t FROM 'stdin.csv'"));
        assert!(!copies_locally("SELECT 1 FROM stdin"));
    }
}
