//! Reading a password from a terminal or from standard input.
//!
//! - password-1. A password is never shown on the terminal, and never a command line argument,
//!   which other users of the machine could see.
//! - password-2. The terminal settings are restored in every case, also after Ctrl-C or an error.

use std::io::{self, BufRead, Read, Write};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::error::{Error, Result};
use crate::session::Session;

/// The maximum bytes of a password.
const BYTES_MAX: usize = 4 << 10;
const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
const BACKSPACE: u8 = 8;
const DELETE: u8 = 0x7f;

/// Reads a password: the first line of standard input, or two equal inputs on a terminal.
pub(super) fn read_new_password(session: &Session) -> Result<String> {
    if !session.environment.stdin_is_terminal {
        let line = read_line(&mut io::stdin().lock());
        return text(line.map_err(|source| Error::Stdin { source })?);
    }
    let first = read_hidden("Password: ")?;
    if read_hidden("Once more: ")? == first { Ok(first) } else { Err(Error::PasswordsDiffer) }
}

/// Reads a password once from a terminal, for a server that checks it.
pub(crate) fn read_password() -> Result<String> {
    read_hidden("Password: ")
}

fn text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| Error::PasswordNotText)
}

fn read_line(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    // One byte more is read, so that a password that is too long is refused and not cut.
    for byte in input.bytes().take(BYTES_MAX + 1) {
        match byte? {
            b'\n' => break,
            byte => line.push(byte),
        }
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(line)
}

/// Turns off the echo of the terminal until it is dropped (password-2). The value is the settings
/// before.
struct EchoOff(Termios);

impl EchoOff {
    fn new() -> io::Result<EchoOff> {
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        // Without ISIG, Ctrl-C is read as a byte: no signal ends the process before the terminal is
        // restored.
        let shown = LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        hidden.local_modes.remove(shown);
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(EchoOff(before))
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        // There is no way to report this error.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// Reads a line from the terminal without showing it (password-1).
fn read_hidden(prompt: &str) -> Result<String> {
    let failed = |source| Error::Stdin { source };
    let say = |text: &str| {
        let mut terminal = io::stderr().lock();
        let _ = terminal.write_all(text.as_bytes()).and_then(|()| terminal.flush());
    };
    let echo_off = EchoOff::new().map_err(failed)?;
    say(prompt);
    let line = read_keys(&mut io::stdin().lock());
    drop(echo_off);
    say("\n");
    text(line.map_err(failed)?.ok_or(Error::Interrupted { consequence: "" })?)
}

/// Reads a line key by key, with backspace; `None` after Ctrl-C, Ctrl-D or the end of the input.
fn read_keys(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line: Vec<u8> = Vec::new();
    for byte in input.bytes() {
        match byte? {
            b'\n' | b'\r' => return Ok(Some(line)),
            CTRL_C | CTRL_D => return Ok(None),
            BACKSPACE | DELETE => {
                // The character may have several bytes.
                while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            byte if line.len() <= BYTES_MAX => line.push(byte),
            _ => {}
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_key_by_key() {
        let typed = |bytes: &[u8]| read_keys(&mut &bytes[..]).unwrap();
        assert_eq!(typed(b"secret\r"), Some(b"secret".to_vec()));
        assert_eq!(typed("a\u{e9}\u{7f}b\n".as_bytes()), Some(b"ab".to_vec()));
        assert_eq!(typed(b"\x7f\x08x\n"), Some(b"x".to_vec()));
        assert_eq!((typed(b"secret\x03\n"), typed(b"")), (None, None));
    }

    #[test]
    fn a_line_is_read_with_its_blanks_up_to_the_line_end() {
        let line = |bytes: &[u8]| read_line(&mut &bytes[..]).unwrap();
        assert_eq!(line(b" a b \r\nc"), b" a b ");
        assert_eq!(line(b"x"), b"x");
        assert_eq!(line(&[b'x'; 10_000]).len(), BYTES_MAX + 1);
    }
}
