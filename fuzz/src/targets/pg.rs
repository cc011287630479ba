//! message_reader-1, message_reader-2, message_reader-3 of `server::pg::message_reader`: a message
//! is the same wherever its bytes are split, and any bytes are messages or a protocol error.
//!
//! The first byte says whether the rest begins a connection or continues one, the second how it is
//! split.

use bytes::BytesMut;

use crate::pg::message_reader::{Breach, Message, Opening, take_message, take_opening};

/// Longer messages are refused, as a server would.
const MESSAGE_BYTES_MAX: usize = 1 << 12;

/// The messages that were read, up to the first protocol error.
#[derive(Debug, PartialEq, Eq)]
enum Read {
    Opening(Opening),
    Message(Message),
    Breach(Breach),
}

pub(crate) fn check(bytes: &[u8]) {
    let (Some(&form), Some(&cut)) = (bytes.first(), bytes.get(1)) else { return };
    let (opens, rest) = (form % 2 == 1, &bytes[2..]);
    let whole = read(&[rest], opens);
    let pieces = rest.chunks(1 + usize::from(cut) % 37).collect::<Vec<_>>();
    assert_eq!(read(&pieces, opens), whole, "message_reader-1");
}

fn read(pieces: &[&[u8]], mut opens: bool) -> Vec<Read> {
    let (mut input, mut found) = (BytesMut::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            let before = input.len();
            let next = match opens {
                true => take_opening(&mut input).map(|it| it.map(Read::Opening)),
                false => {
                    take_message(&mut input, MESSAGE_BYTES_MAX).map(|it| it.map(Read::Message))
                }
            };
            match next {
                Ok(None) => {
                    assert_eq!(input.len(), before, "message_reader-1");
                    break;
                }
                Ok(Some(read)) => {
                    assert!(input.len() < before, "a message has bytes");
                    opens = matches!(read, Read::Opening(Opening::Tls | Opening::Gss));
                    found.push(read);
                }
                Err(breach) => {
                    found.push(Read::Breach(breach));
                    return found;
                }
            }
        }
    }
    found
}
