//! Clients of PostgreSQL's protocol: messages as bytes, and `tokio_postgres` over a connection in
//! memory.

use std::io::{Read, Write};

use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config, Error, NoTls, SimpleQueryMessage};

use crate::fixture::{Connection, Server};

pub(super) const SECRET: &str = "auth.admin_password=a better one";

/// Runs a future on a runtime for a client; the server has its own threads.
pub(super) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(work)
}

/// A client, and the task of its connection.
pub(super) struct Connected {
    pub(super) client: Client,
    pub(super) connection: JoinHandle<Result<(), Error>>,
}

/// Connects with options such as `user=admin password=x dbname=test`.
pub(super) async fn connect_as(server: &Server, options: &str) -> Result<Connected, Error> {
    let config = options.parse::<Config>()?;
    let (client, connection) = config.connect_raw(server.stream_pg(), NoTls).await?;
    Ok(Connected { client, connection: tokio::spawn(connection) })
}

/// Connects as the administrator.
pub(super) async fn connect(server: &Server) -> Client {
    let options = "user=admin password='a better one' dbname=test";
    connect_as(server, options).await.expect("it connects").client
}

/// Returns rows as texts, from the simple protocol.
pub(super) async fn rows(client: &Client, sql: &str) -> Vec<String> {
    let messages = client.simple_query(sql).await.expect(sql);
    let text = |message: SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => {
            let cells = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL").to_owned());
            Some(cells.collect::<Vec<_>>().join("|"))
        }
        _ => None,
    };
    messages.into_iter().filter_map(text).collect()
}

pub(super) async fn code(client: &Client, sql: &str) -> (String, Option<u32>) {
    let error = client.simple_query(sql).await.expect_err(sql);
    let error = error.as_db_error().expect("the server says so");
    let position = match error.position() {
        Some(tokio_postgres::error::ErrorPosition::Original(position)) => Some(*position),
        _ => None,
    };
    (error.code().code().to_owned(), position)
}

pub(super) fn open(server: &Server) -> Connection {
    server.connect_pg()
}

/// Returns all bytes up to the end of the connection.
pub(super) fn answer(stream: Connection, bytes: &[u8]) -> Vec<u8> {
    stream.answer(bytes)
}

pub(super) fn has(answer: &[u8], text: &str) -> bool {
    answer.windows(text.len()).any(|window| window == text.as_bytes())
}

pub(super) fn start(user: &str) -> Vec<u8> {
    let body = [&[0, 3, 0, 0][..], b"user\0", user.as_bytes(), b"\0\0"].concat();
    let length = u32::try_from(body.len() + 4).unwrap();
    [&length.to_be_bytes()[..], &body].concat()
}

pub(super) fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[tag][..], &length.to_be_bytes(), body].concat()
}

pub(super) fn query(sql: &str) -> Vec<u8> {
    message(b'Q', format!("{sql}\0").as_bytes())
}

/// Returns a connection that has logged in, and its number.
pub(super) fn enter(server: &Server, user: &str) -> (Connection, u32) {
    let mut stream = open(server);
    stream.write_all(&start(user)).unwrap();
    let (mut seen, mut byte) = (Vec::new(), [0]);
    while !seen.ends_with(b"Z\0\0\0\x05I") {
        stream.read_exact(&mut byte).unwrap();
        seen.push(byte[0]);
    }
    let key = seen.windows(5).rposition(|it| it == b"K\0\0\0\x0c").expect("a key") + 5;
    (stream, u32::from_be_bytes(seen[key..key + 4].try_into().unwrap()))
}
