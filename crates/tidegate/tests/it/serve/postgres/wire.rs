//! Messages as bytes, for answers that no client shows.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::super::server::Server;
use crate::world::World;

pub(super) fn open(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.pg).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    stream
}

/// Returns all bytes up to the end of the connection.
fn answer(mut stream: TcpStream, bytes: &[u8]) -> Vec<u8> {
    // The server may close the connection before all is sent.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
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

/// Returns the first bytes of all messages.
fn tags(mut answer: &[u8]) -> String {
    let mut tags = String::new();
    while let [tag, a, b, c, d, ..] = *answer {
        tags.push(char::from(tag));
        let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap();
        answer = &answer[1 + length..];
    }
    tags
}

// A COPY between a file and a table answers a row, and was described as a statement without one:
// drivers ended with an error after the rows had been imported.
#[test]
fn a_copy_of_a_file_describes_the_columns_of_its_answer() {
    let world = World::new();
    std::fs::create_dir_all(world.path("db/import")).unwrap();
    world.file("db/import/n.csv", "n\n1\n2\n");
    let server = Server::start_with(&world, &["pg.auth_methods=trust"]);
    assert_eq!(server.exec("CREATE TABLE n (n INT)").status, 200);
    let step = |sql: &str| {
        let parse = [b"\0", sql.as_bytes(), b"\0\0\0"].concat();
        let parts = [
            (b'P', &parse[..]),
            (b'D', b"S\0"),
            (b'B', b"\0\0\0\0\0\0\0\0"),
            (b'D', b"P\0"),
            (b'E', b"\0\0\0\0\0"),
            (b'S', b""),
        ];
        parts.map(|(tag, body)| message(tag, body)).concat()
    };
    let bytes = [
        start("admin"),
        step("COPY n FROM 'n.csv' WITH (HEADER, WAIT)"),
        step("COPY n TO 'a.csv' WITH (FORMAT csv, WAIT)"),
        step("COPY n TO 'b.csv' WITH (FORMAT csv)"),
        step("COPY '00000000000000ab' CANCEL"),
        message(b'X', b""),
    ];
    let answer = answer(open(&server), &bytes.concat());
    let tags = tags(&answer);
    let (_, behind) = tags.split_once('Z').expect("the login succeeds");
    assert_eq!(behind, "1tT2TDCZ".repeat(4), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(server.count("n"), Some(2), "one import");
    server.stop();
}
