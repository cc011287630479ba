//! The HTTP/1.1 server of a sink: reads and discards bodies with a length or in chunks, and keeps
//! connections open between requests.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::net::TcpStream;
use std::sync::atomic::Ordering::Relaxed;

use super::discard::Discard;
use super::{READ_BYTES, Shared, write_status};

/// The maximum bytes of a line of the head, or of a line between chunks.
const LINE_BYTES_MAX: u64 = 64 * 1024;

enum Body {
    Length(u64),
    Chunked,
}

/// Answers 204 to every request, after its last byte.
pub(super) fn serve(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(READ_BYTES, &stream);
    let mut discard = Discard::new();
    while let Some(body) = read_head(&mut reader, &stream)? {
        match body {
            Body::Length(length) => discard_body(&mut reader, length, shared, &mut discard)?,
            Body::Chunked => loop {
                let length = read_chunk_length(&mut reader)?;
                discard_body(&mut reader, length, shared, &mut discard)?;
                // Each chunk ends with a line break, and so does the body after the last one.
                read_line(&mut reader)?;
                if length == 0 {
                    break;
                }
            },
        }
        shared.requests.fetch_add(1, Relaxed);
        write_status(&stream, "204 No Content")?;
    }
    Ok(())
}

/// Reads the head of a request; `None` when the client has closed.
fn read_head(reader: &mut BufReader<&TcpStream>, stream: &TcpStream) -> io::Result<Option<Body>> {
    if read_line(reader)?.is_empty() {
        return Ok(None);
    }
    let mut body = Body::Length(0);
    loop {
        let line = read_line(reader)?.trim_ascii_end().to_ascii_lowercase();
        let Some((name, value)) = line.split_once(':') else { break };
        match (name, value.trim()) {
            ("content-length", length) => {
                body = Body::Length(length.parse().map_err(|_| ErrorKind::InvalidData)?);
            }
            ("transfer-encoding", "chunked") => body = Body::Chunked,
            ("expect", _) => write_status(stream, "100 Continue")?,
            _ => {}
        }
    }
    Ok(Some(body))
}

fn read_chunk_length(reader: &mut BufReader<&TcpStream>) -> io::Result<u64> {
    let line = read_line(reader)?;
    let digits = line.split(';').next().unwrap_or_default().trim();
    u64::from_str_radix(digits, 16).map_err(|_| ErrorKind::InvalidData.into())
}

fn read_line(reader: &mut BufReader<&TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    reader.by_ref().take(LINE_BYTES_MAX).read_line(&mut line)?;
    Ok(line)
}

/// Reads and discards a body, or a chunk of one, and counts its bytes and rows.
fn discard_body(
    reader: &mut BufReader<&TcpStream>,
    mut length: u64,
    shared: &Shared,
    discard: &mut Discard,
) -> io::Result<()> {
    while 0 < length {
        if !shared.count_rows && reader.buffer().is_empty() {
            let dropped = discard.discard_up_to(length, reader.get_ref())?;
            if dropped == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            shared.count_bytes(dropped);
            length -= dropped;
            continue;
        }
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let count = bytes.len().min(usize::try_from(length).unwrap_or(usize::MAX));
        shared.take(&bytes[..count]);
        reader.consume(count);
        length -= count as u64;
    }
    Ok(())
}
