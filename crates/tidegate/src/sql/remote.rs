//! A server that is asked over PostgreSQL's protocol, and answers as an engine of our own would:
//! the same batches, the same words, errors at the same places.
//!
//! - RE1. Memory is bounded: rows become batches as they come (`rows`), and the connection is read
//!   no further than they are taken.
//! - RE2. What is given up is cancelled at the server, and the next statement begins when it has
//!   ended, so that a cancel never meets another one.
//! - RE3. A password is in no error, no line and no history: it goes from the address, PGPASSWORD
//!   or a terminal to the server.
//!
//! A connection that has ended is not made again: what its session had would be missing. Values
//! have the types of PostgreSQL (docs/server.md). Not here: COPY from and to this side.

mod address;
mod fault;
mod rows;
mod tls;

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
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
use crate::error::{Error, Result};
use crate::session::Session;
use crate::user::password;

pub(crate) use self::fault::RemoteError;

/// What the server calls us in lists of who is connected.
const NAME: &str = "tidegate sql";
/// Until somebody answers at the address, unless it says otherwise.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Until what is given up has ended (RE2).
const CANCEL_TIME: Duration = Duration::from_secs(5);
/// Notices that are kept of one statement.
const NOTICES_MAX: usize = 64;

/// A connection, and the thread that reads from it.
pub(crate) struct Remote {
    /// There until it is dropped.
    runtime: Option<Runtime>,
    client: Arc<Client>,
    tls: ClientTls,
    notices: Notices,
    /// How often something was changed by this connection.
    changes: Arc<AtomicU64>,
    place: String,
}

/// What the server has said besides, and nobody has shown yet.
#[derive(Clone, Default)]
struct Notices(Arc<Mutex<Vec<String>>>);

impl Notices {
    fn push(&self, notice: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A statement is looked at twice, to prepare and to do it.
        if all.len() < NOTICES_MAX && all.iter().all(|known| known != notice) {
            all.push(notice.to_owned());
        }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Remote {
    /// Connects to the server at an address, whose statements have so much time.
    pub(crate) fn connect(url: &str, time: Option<Timeout>, session: &Session) -> Result<Remote> {
        let mut address = Address::parse(url)?;
        let tls = ClientTls::new(address.authority.as_deref(), session.disk.as_ref())?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("server")
            .enable_all()
            .build()
            .map_err(|source| Error::Threads { source })?;
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

    /// Host and port.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Rises when a statement of this connection has changed something.
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
        done.map_err(|error| fault::of_statement(&error, &sql, 0).into())
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
                // If nobody waits for it any more, nobody needs to know.
                let _ = sender.send(Piece::Failed(error.into())).await;
            }
        });
        Running::new(pieces, work).with_cancel(Cancel {
            handle: self.runtime().handle().clone(),
            token: self.client.cancel_token(),
            tls: self.tls.clone(),
            client: Arc::clone(&self.client),
        })
    }

    /// Two texts a row of a small query, for completion; none if that takes so long.
    pub(crate) fn texts(&self, sql: &str, patience: Duration) -> Vec<[String; 2]> {
        let work = async {
            let rows = self.client.query(sql, &[]).await.ok()?;
            let text = |row: &tokio_postgres::Row, at| row.try_get::<usize, String>(at).ok();
            rows.iter().map(|row| Some([text(row, 0)?, text(row, 1)?])).collect::<Option<Vec<_>>>()
        };
        let rows = self.runtime().block_on(async { timeout(patience, work).await });
        rows.ok().flatten().unwrap_or_default()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // The end of the connection is the end of whatever it was asked.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

type Link = (Client, Connection<Socket, TlsSocket>);

/// Connects, and asks for the password if the server wants one that nobody has given (RE3).
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
    if !fault::is_password_missing(&error) {
        return Err(fault::of_connection(error, &address.place).into());
    }
    if !session.environment.stdin_is_terminal {
        return Err(RemoteError::NoPassword { place: address.place.clone() }.into());
    }
    address.config.password(password::ask_once()?);
    let again = runtime.block_on(address.config.connect(tls.clone()));
    again.map_err(|error| fault::of_connection(error, &address.place).into())
}

/// Reads from the connection until it ends; what waits for an answer then is told so.
async fn listen(mut connection: Connection<Socket, TlsSocket>, notices: Notices) {
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notice(notice) = message {
            notices.push(notice.message());
        }
    }
}

/// A statement on its way.
struct Statement {
    client: Arc<Client>,
    notices: Notices,
    changes: Arc<AtomicU64>,
    /// With blanks in place of what stands before it in its script.
    sql: String,
}

impl Statement {
    /// What the server has said so far of the statement, which begins so many bytes into its text.
    fn notices(&self, before: usize) -> Vec<String> {
        let notices = self.notices.take().into_iter();
        notices.map(|notice| fault::relocated(&notice, &self.sql[..before])).collect()
    }

    /// Sends the answer piece by piece, until all is sent or nobody takes it any more.
    async fn run(&self, sender: &Sender<Piece>) -> std::result::Result<(), RemoteError> {
        let text = self.sql.trim_start();
        let before = self.sql.len() - text.len();
        let failed = |error: tokio_postgres::Error| fault::of_statement(&error, &self.sql, before);
        if copies_here(text) {
            return Err(RemoteError::CopyHere);
        }
        self.notices.take();
        let prepared = self.client.prepare(text).await.map_err(failed)?;
        if !prepared.params().is_empty() {
            // There are no values, which the server says as the engine does.
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
        // If nobody waits for it any more, nobody needs to know.
        let _ = sender.send(Piece::Done { tag, notices: self.notices(before) }).await;
        Ok(())
    }
}

/// Whether a statement wants rows from this side of the connection, or sends them here.
fn copies_here(text: &str) -> bool {
    let mut words = text.split_whitespace().map(str::to_ascii_uppercase).peekable();
    let mut is_here = false;
    let is_copy = words.next().is_some_and(|word| word == "COPY");
    while let Some(word) = words.next() {
        let next = words.peek().map_or("", |word| word.trim_end_matches(';'));
        is_here |= matches!((word.as_str(), next), ("FROM", "STDIN") | ("TO", "STDOUT"));
    }
    is_copy && is_here
}

/// What was done: the words that the engine has for it, which the connection does not hand on.
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

/// How the server is told that a statement is given up (RE2).
pub(super) struct Cancel {
    handle: Handle,
    token: CancelToken,
    tls: ClientTls,
    client: Arc<Client>,
}

impl Cancel {
    /// Tells it, and waits until the statement has ended, or for as long as that may take.
    pub(super) fn now(self) {
        let Cancel { handle, token, tls, client } = self;
        handle.block_on(async move {
            let ended = async {
                // Who cannot be told ends the statement when the connection ends.
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
    fn what_was_done_is_said_as_the_engine_says_it() {
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
        assert!(copies_here("copy t from\n stdin with (format csv)"));
        assert!(copies_here("COPY (SELECT 1) TO STDOUT;"));
        assert!(!copies_here("COPY t FROM 'stdin.csv'"));
        assert!(!copies_here("SELECT 1 FROM stdin"));
    }
}
