//! Parser of a client's bytes into messages.
//!
//! - message_reader-1. A message is taken from the input as a whole, when it is complete; until
//!   then the input is not changed. The result does not depend on the pieces in which the bytes
//!   arrive.
//! - message_reader-2. It never waits or reserves memory for more bytes than the bound of the
//!   caller.
//! - message_reader-3. Any bytes are either a message or a `Breach`, after which nothing more can
//!   be read.
//!
//! Texts of messages may be invalid UTF-8: their readers report that, since the connection goes on.
//! Not here: the meaning of messages.

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;

/// The bytes of the length itself, which the length includes.
const LENGTH_BYTES: usize = 4;
/// The most bytes of a start-up message (PostgreSQL's own bound).
pub(crate) const OPENING_BYTES_MAX: usize = 10_000;

const CANCEL_CODE: u32 = 80_877_102;
const SSL_CODE: u32 = 80_877_103;
const GSS_CODE: u32 = 80_877_104;

/// The first message of a connection, which has no type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Starts a session with these parameters.
    Start { major: u16, minor: u16, parameters: Vec<(Bytes, Bytes)> },
    /// Asks for TLS first.
    Tls,
    /// Asks for GSSAPI first.
    Gss,
    /// Cancels a statement of another connection.
    Cancel { process: u32, secret: Bytes },
}

/// A message of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    Query(Bytes),
    Parse {
        name: Bytes,
        sql: Bytes,
        types: Vec<u32>,
    },
    Bind(Bind),
    Describe(Object),
    Execute {
        portal: Bytes,
        rows_max: u32,
    },
    Close(Object),
    Sync,
    Flush,
    Terminate,
    /// The answer to any authentication request.
    Password(Bytes),
    CopyData(Bytes),
    CopyDone,
    CopyFail(Bytes),
    FunctionCall,
}

/// The values for the parameters of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bind {
    pub(crate) portal: Bytes,
    pub(crate) statement: Bytes,
    /// The formats of the values: none, one for all, or one for each.
    pub(crate) formats: Vec<u16>,
    /// `None` is NULL.
    pub(crate) values: Vec<Option<Bytes>>,
    /// The formats of the columns of the answer, given like `formats`.
    pub(crate) results: Vec<u16>,
}

/// The object of Describe and Close.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Object {
    Statement(Bytes),
    Portal(Bytes),
}

/// The error of malformed bytes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum Breach {
    #[error("unknown message type {0:#04x}")]
    Type(u8),
    #[error("invalid message length {length}: it must be from 4 to {max} bytes")]
    Length { length: u64, max: usize },
    #[error("the length of a {message} message does not fit its content")]
    Shape { message: &'static str },
}

/// Takes the first message of a connection, if it is complete.
pub(crate) fn take_opening(input: &mut BytesMut) -> Result<Option<Opening>, Breach> {
    let Some(mut body) = take_body(input, 0, OPENING_BYTES_MAX)? else { return Ok(None) };
    let shape = Breach::Shape { message: "start-up" };
    let mut body = Reader { body: &mut body, shape };
    let code = body.u32()?;
    let opening = match code {
        SSL_CODE => Opening::Tls,
        GSS_CODE => Opening::Gss,
        CANCEL_CODE => {
            let (process, secret) = (body.u32()?, body.rest());
            Opening::Cancel { process, secret }
        }
        _ => {
            let [high, low, ..] = code.to_be_bytes();
            let [.., third, fourth] = code.to_be_bytes();
            let (major, minor) =
                (u16::from_be_bytes([high, low]), u16::from_be_bytes([third, fourth]));
            // Protocol 2 had another format, and is refused with any content.
            let parameters = if major == 3 { parameters(&mut body)? } else { Vec::new() };
            if major != 3 {
                body.rest();
            }
            Opening::Start { major, minor, parameters }
        }
    };
    body.end()?;
    Ok(Some(opening))
}

/// Reads pairs of texts, up to an empty one.
fn parameters(body: &mut Reader<'_>) -> Result<Vec<(Bytes, Bytes)>, Breach> {
    let mut parameters = Vec::new();
    loop {
        let name = body.text()?;
        if name.is_empty() {
            return Ok(parameters);
        }
        parameters.push((name, body.text()?));
    }
}

/// The first byte of a Sync.
pub(crate) const SYNC: u8 = b'S';

/// Takes the next message, if it is complete. None has more than `max` bytes.
pub(crate) fn take_message(input: &mut BytesMut, max: usize) -> Result<Option<Message>, Breach> {
    let Some(&tag) = input.first() else { return Ok(None) };
    let message = name_of(tag).ok_or(Breach::Type(tag))?;
    let Some(mut body) = take_body(input, 1, max)? else { return Ok(None) };
    let mut body = Reader { body: &mut body, shape: Breach::Shape { message } };
    let message = match tag {
        b'Q' => Message::Query(body.text()?),
        b'P' => Message::Parse {
            name: body.text()?,
            sql: body.text()?,
            types: body.counted(Reader::u32)?,
        },
        b'B' => Message::Bind(Bind {
            portal: body.text()?,
            statement: body.text()?,
            formats: body.counted(Reader::u16)?,
            values: body.counted(Reader::value)?,
            results: body.counted(Reader::u16)?,
        }),
        b'D' => Message::Describe(body.object()?),
        b'C' => Message::Close(body.object()?),
        b'E' => Message::Execute { portal: body.text()?, rows_max: body.u32()? },
        SYNC => Message::Sync,
        b'H' => Message::Flush,
        b'X' => Message::Terminate,
        b'p' => Message::Password(body.rest()),
        b'd' => Message::CopyData(body.rest()),
        b'c' => Message::CopyDone,
        b'f' => Message::CopyFail(body.text()?),
        _ => {
            body.rest();
            Message::FunctionCall
        }
    };
    body.end()?;
    Ok(Some(message))
}

fn name_of(tag: u8) -> Option<&'static str> {
    Some(match tag {
        b'Q' => "Query",
        b'P' => "Parse",
        b'B' => "Bind",
        b'D' => "Describe",
        b'C' => "Close",
        b'E' => "Execute",
        b'S' => "Sync",
        b'H' => "Flush",
        b'X' => "Terminate",
        b'p' => "password",
        b'd' => "CopyData",
        b'c' => "CopyDone",
        b'f' => "CopyFail",
        b'F' => "FunctionCall",
        _ => return None,
    })
}

/// Takes the bytes after a type of `tag` bytes and a length, if they are complete
/// (message_reader-1, message_reader-2).
fn take_body(input: &mut BytesMut, tag: usize, max: usize) -> Result<Option<Bytes>, Breach> {
    let Some(head) = input.get(tag..tag + LENGTH_BYTES) else { return Ok(None) };
    let length = u32::from_be_bytes(head.try_into().expect("four bytes"));
    let known = usize::try_from(length).ok().filter(|it| (LENGTH_BYTES..=max).contains(it));
    let length = known.ok_or(Breach::Length { length: length.into(), max })?;
    if input.len() < tag + length {
        return Ok(None);
    }
    let mut message = input.split_to(tag + length);
    message.advance(tag + LENGTH_BYTES);
    Ok(Some(message.freeze()))
}

/// A reader of the parts of a message.
struct Reader<'a> {
    body: &'a mut Bytes,
    /// The error for a missing part.
    shape: Breach,
}

impl Reader<'_> {
    fn take(&mut self, count: usize) -> Result<Bytes, Breach> {
        match count <= self.body.len() {
            true => Ok(self.body.split_to(count)),
            false => Err(self.shape.clone()),
        }
    }

    fn u16(&mut self) -> Result<u16, Breach> {
        self.body.try_get_u16().map_err(|_| self.shape.clone())
    }

    fn u32(&mut self) -> Result<u32, Breach> {
        self.body.try_get_u32().map_err(|_| self.shape.clone())
    }

    /// Reads a text up to its NUL.
    fn text(&mut self) -> Result<Bytes, Breach> {
        let end = memchr::memchr(0, self.body).ok_or_else(|| self.shape.clone())?;
        let text = self.take(end)?;
        self.body.advance(1);
        Ok(text)
    }

    /// Reads as many elements as two bytes say. Memory is reserved for those that fit into the
    /// message.
    fn counted<T>(
        &mut self,
        mut next: impl FnMut(&mut Self) -> Result<T, Breach>,
    ) -> Result<Vec<T>, Breach> {
        let count = usize::from(self.u16()?);
        let mut all = Vec::with_capacity(count.min(self.body.len() / 2));
        for _ in 0..count {
            all.push(next(self)?);
        }
        Ok(all)
    }

    /// Reads a value after its length; -1 is NULL.
    fn value(&mut self) -> Result<Option<Bytes>, Breach> {
        let length = self.u32()?.cast_signed();
        match usize::try_from(length) {
            Ok(length) => self.take(length).map(Some),
            Err(_) if length == -1 => Ok(None),
            Err(_) => Err(self.shape.clone()),
        }
    }

    fn object(&mut self) -> Result<Object, Breach> {
        let kind = self.take(1)?[0];
        let name = self.text()?;
        match kind {
            b'S' => Ok(Object::Statement(name)),
            b'P' => Ok(Object::Portal(name)),
            _ => Err(self.shape.clone()),
        }
    }

    fn rest(&mut self) -> Bytes {
        self.body.split_to(self.body.len())
    }

    fn end(&self) -> Result<(), Breach> {
        if self.body.is_empty() { Ok(()) } else { Err(self.shape.clone()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tag: u8, body: &[u8]) -> BytesMut {
        let mut bytes = BytesMut::from(&[tag][..]);
        bytes.extend_from_slice(&u32::try_from(body.len() + 4).unwrap().to_be_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    #[track_caller]
    fn check(tag: u8, body: &[u8], expected: Result<Message, Breach>) {
        let mut input = message(tag, body);
        assert_eq!(take_message(&mut input, 1_000).transpose(), Some(expected), "message_reader-3");
        assert!(input.is_empty(), "message_reader-1");
    }

    fn text(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    #[test]
    fn messages_have_their_parts() {
        check(b'Q', b"SELECT 1\0", Ok(Message::Query(text("SELECT 1"))));
        let types = vec![23, 0];
        check(
            b'P',
            b"s\0SELECT $1\0\0\x02\0\0\0\x17\0\0\0\0",
            Ok(Message::Parse { name: text("s"), sql: text("SELECT $1"), types }),
        );
        let bind = Bind {
            portal: text(""),
            statement: text("s"),
            formats: vec![1],
            values: vec![Some(text("ab")), None, Some(text(""))],
            results: vec![],
        };
        check(
            b'B',
            b"\0s\0\0\x01\0\x01\0\x03\0\0\0\x02ab\xff\xff\xff\xff\0\0\0\0\0\0",
            Ok(Message::Bind(bind)),
        );
        check(b'D', b"Px\0", Ok(Message::Describe(Object::Portal(text("x")))));
        check(b'E', b"\0\0\0\0\x05", Ok(Message::Execute { portal: text(""), rows_max: 5 }));
        check(b'S', b"", Ok(Message::Sync));
    }

    #[test]
    fn malformed_messages_are_breaches() {
        let shape = |message| Err(Breach::Shape { message });
        check(b'Q', b"SELECT 1", shape("Query"));
        check(b'Q', b"SELECT\x001\0", shape("Query"));
        check(b'B', b"\0s\0\0\0\0\x01\xff\xff\xff\xfe\0\0", shape("Bind"));
        check(b'B', b"\0s\0\xff\xff", shape("Bind"));
        check(b'D', b"Xx\0", shape("Describe"));
        check(b'S', b"x", shape("Sync"));
        let mut input = BytesMut::from(&b"\x01\0\0\0\x04"[..]);
        assert_eq!(take_message(&mut input, 1_000), Err(Breach::Type(1)));
        for length in [0_u32, 3, 1_001, u32::MAX] {
            let mut input = BytesMut::from(&b"Q"[..]);
            input.extend_from_slice(&length.to_be_bytes());
            let breach = Breach::Length { length: length.into(), max: 1_000 };
            assert_eq!(take_message(&mut input, 1_000), Err(breach), "message_reader-2");
        }
    }

    #[test]
    fn nothing_is_taken_before_all_is_there() {
        let whole = message(b'Q', b"SELECT 1\0");
        for cut in 0..whole.len() {
            let mut part = BytesMut::from(&whole[..cut]);
            assert_eq!(take_message(&mut part, 1_000), Ok(None), "message_reader-1");
            assert_eq!(part.len(), cut, "message_reader-1");
        }
    }

    #[test]
    fn connections_begin_in_four_ways() {
        let open = |body: &[u8]| {
            let mut input = message(b' ', body);
            input.advance(1);
            take_opening(&mut input)
        };
        let parameters = vec![(text("user"), text("ann"))];
        assert_eq!(
            open(b"\0\x03\0\0user\0ann\0\0"),
            Ok(Some(Opening::Start { major: 3, minor: 0, parameters }))
        );
        assert_eq!(open(&SSL_CODE.to_be_bytes()), Ok(Some(Opening::Tls)));
        assert_eq!(open(&GSS_CODE.to_be_bytes()), Ok(Some(Opening::Gss)));
        let cancel = [&CANCEL_CODE.to_be_bytes()[..], b"\0\0\0\x07abcd"].concat();
        let expected = Opening::Cancel { process: 7, secret: text("abcd") };
        assert_eq!(open(&cancel), Ok(Some(expected)));
        let old = Opening::Start { major: 2, minor: 0, parameters: Vec::new() };
        assert_eq!(open(b"\0\x02\0\0anything"), Ok(Some(old)));
        assert!(open(b"\0\x03\0\0user\0ann").is_err());
        assert!(open(&vec![0; OPENING_BYTES_MAX]).is_err());
    }
}
