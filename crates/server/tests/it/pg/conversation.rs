//! Conversations with a server as lines of text.
//!
//! A line that begins with `>` is a message of the client, one with `<` the expected message of the
//! server; messages without an answer between them are sent at once. `##` begins a conversation on
//! a connection of its own, with a login unless the name begins with `raw`. A name of `-` is the
//! empty one, values stand between bars, `NULL` is no value, and bytes that are not printable are
//! escaped. An expected line that ends with `...` is the beginning of one.

use std::io::{Read, Write};

use crate::fixture::{Connection, Server, World};

/// Compares conversations with a server that has these keys in its configuration.
#[track_caller]
pub(super) fn converse(keys: &[&str], text: &str) {
    let world = World::new();
    let server = Server::start_with(&world, &[&["pg.auth_methods=trust"][..], keys].concat());
    let mut wrong = Vec::new();
    for conversation in text.split("##").skip(1) {
        let (name, lines) = conversation.split_once('\n').expect("a name in a line of its own");
        if let Err(difference) = follow(server.connect_pg(), name.trim(), lines) {
            wrong.push(format!("##{name}\n{difference}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    server.stop();
}

/// Returns the first difference between a conversation and the expected one.
fn follow(mut connection: Connection, name: &str, lines: &str) -> Result<(), String> {
    if !name.starts_with("raw") {
        connection.write_all(&encode("Start 3.0 user=admin")).map_err(|error| error.to_string())?;
        loop {
            match receive(&mut connection)?.as_str() {
                "ready I" => break,
                "end" => return Err("the login fails".to_owned()),
                _ => {}
            }
        }
    }
    // The settings that are told after a login are the same for all.
    let mut is_ready = !name.starts_with("raw");
    let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>();
    let mut rest = &lines[..];
    while !rest.is_empty() {
        let end = rest.iter().take_while(|line| line.starts_with('>')).count();
        let (sent, behind) = rest.split_at(end);
        let end = behind.iter().take_while(|line| line.starts_with('<')).count();
        let (expected, behind) = behind.split_at(end);
        assert!(0 < sent.len() + expected.len(), "no message: {:?}", rest[0]);
        rest = behind;
        let bytes = sent.iter().flat_map(|line| encode(line[1..].trim())).collect::<Vec<_>>();
        // The server may have ended the connection.
        let _ = connection.write_all(&bytes);
        let is_byte = matches!(sent.last(), Some(&("> SSL" | "> GSS")));
        for line in expected {
            let wanted = line.trim_start_matches('<').trim();
            let next = if is_byte { byte } else { receive };
            let mut found = next(&mut connection)?;
            while !is_ready && found.starts_with("setting ") {
                found = receive(&mut connection)?;
            }
            is_ready |= found.starts_with("ready");
            let is_same = match wanted.strip_suffix("...") {
                Some(beginning) => found.starts_with(beginning),
                None => found.trim_end() == wanted,
            };
            if !is_same {
                return Err(format!("{}\nexpected {wanted}\nfound    {found}", sent.join("\n")));
            }
        }
    }
    let _ = connection.write_all(&encode("Terminate"));
    match receive(&mut connection)?.as_str() {
        "end" => Ok(()),
        found => Err(format!("after the last line: {found}")),
    }
}

fn byte(connection: &mut Connection) -> Result<String, String> {
    let mut byte = [0];
    match connection.read(&mut byte) {
        Ok(0) => Ok("end".to_owned()),
        Ok(_) => Ok(format!("byte {}", char::from(byte[0]))),
        Err(error) => Err(error.to_string()),
    }
}

/// Receives a message, as a line.
fn receive(connection: &mut Connection) -> Result<String, String> {
    let mut head = [0; 5];
    match connection.read(&mut head[..1]) {
        Ok(0) => return Ok("end".to_owned()),
        Ok(_) => {}
        Err(error) => return Err(error.to_string()),
    }
    let failed = |error: std::io::Error| error.to_string();
    connection.read_exact(&mut head[1..]).map_err(failed)?;
    let [tag, length @ ..] = head;
    let length = usize::try_from(u32::from_be_bytes(length)).expect("a length");
    let mut body = vec![0; length - 4];
    connection.read_exact(&mut body).map_err(failed)?;
    Ok(shown(tag, &mut Fields(&body)))
}

/// The fields of a message of the server.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn u8(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn i16(&mut self) -> i16 {
        i16::from_be_bytes(self.take(2).try_into().expect("two bytes"))
    }

    fn i32(&mut self) -> i32 {
        i32::from_be_bytes(self.take(4).try_into().expect("four bytes"))
    }

    fn text(&mut self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0).expect("a text ends with NUL");
        let text = escape(self.take(end));
        self.take(1);
        text
    }

    fn rest(&mut self) -> String {
        escape(self.take(self.0.len()))
    }
}

fn shown(tag: u8, fields: &mut Fields<'_>) -> String {
    match tag {
        b'R' => match fields.i32() {
            0 => "login ok".to_owned(),
            code => format!("login {code} {}", fields.rest()),
        },
        b'S' => format!("setting {}={}", fields.text(), fields.text()),
        b'K' => "key".to_owned(),
        b'v' => {
            let (version, count) = (fields.i32(), fields.i32());
            let names = (0..count).map(|_| fields.text()).collect::<Vec<_>>();
            format!("protocol {}.{} {}", version >> 16, version & 0xffff, names.join(" "))
        }
        b'Z' => format!("ready {}", char::from(fields.u8())),
        b'T' => {
            let columns = (0..fields.i16()).map(|_| column(fields)).collect::<Vec<_>>();
            format!("columns {}", columns.join(" "))
        }
        b't' => {
            let types = (0..fields.i16()).map(|_| fields.i32().to_string()).collect::<Vec<_>>();
            format!("parameters {}", types.join(" "))
        }
        b'D' => {
            let value = |fields: &mut Fields<'_>| match usize::try_from(fields.i32()) {
                Ok(length) => escape(fields.take(length)),
                Err(_) => "NULL".to_owned(),
            };
            let values = (0..fields.i16()).map(|_| value(fields)).collect::<Vec<_>>();
            format!("row {}", values.join("|"))
        }
        b'C' => format!("done {}", fields.text()),
        b'E' | b'N' => error(fields),
        b'G' | b'H' => {
            let way = if tag == b'G' { "in" } else { "out" };
            format!("copy {way} {} {}", fields.u8(), fields.i16())
        }
        b'd' => format!("data {}", fields.rest()),
        _ => {
            let names = [
                (b'I', "empty"),
                (b'1', "parsed"),
                (b'2', "bound"),
                (b'3', "closed"),
                (b'n', "no data"),
                (b's', "suspended"),
                (b'c', "copied"),
            ];
            let name = names.iter().find(|(known, _)| *known == tag).map(|(_, name)| *name);
            name.map_or_else(|| format!("{} {}", char::from(tag), fields.rest()), str::to_owned)
        }
    }
}

/// A column: its name and type, its modifier if it has one, and `b` for the binary format.
fn column(fields: &mut Fields<'_>) -> String {
    let name = fields.text();
    fields.take(6);
    let oid = fields.i32();
    fields.take(2);
    let (modifier, format) = (fields.i32(), fields.i16());
    let modifier = if modifier == -1 { String::new() } else { format!("~{modifier}") };
    format!("{name}:{oid}{modifier}{}", if format == 1 { ":b" } else { "" })
}

fn error(fields: &mut Fields<'_>) -> String {
    let mut shown = String::new();
    loop {
        match fields.u8() {
            0 => return shown,
            b'S' => shown += &fields.text().to_lowercase(),
            b'C' | b'M' => shown += &format!(" {}", fields.text()),
            b'P' => shown += &format!(" [at {}]", fields.text()),
            b'V' | b't' | b'c' | b'R' => drop(fields.text()),
            _ => shown += &format!(" [{}]", fields.text()),
        }
    }
}

fn escape(bytes: &[u8]) -> String {
    let mut text = String::new();
    for &byte in bytes {
        match byte {
            b'\n' => text += "\\n",
            b'\t' => text += "\\t",
            b'\\' => text += "\\\\",
            b'|' => text += "\\x7c",
            0x20..=0x7e => text.push(char::from(byte)),
            _ => text += &format!("\\x{byte:02x}"),
        }
    }
    text
}

fn unescape(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let code = rest.as_bytes()[at + 1];
        rest = &rest[at + 2..];
        match code {
            b'n' => bytes.push(b'\n'),
            b't' => bytes.push(b'\t'),
            b'0' => bytes.push(0),
            b'x' => {
                bytes.push(u8::from_str_radix(&rest[..2], 16).expect("two digits"));
                rest = &rest[2..];
            }
            _ => bytes.push(code),
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// Encodes a message of the client.
#[track_caller]
fn encode(line: &str) -> Vec<u8> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let text = |text: &str| [&unescape(text)[..], b"\0"].concat();
    let name = |name: &str| text(if name == "-" { "" } else { name });
    let (first, behind) = rest.split_once(' ').unwrap_or((rest, ""));
    let tagged = |tag: u8, body: &[u8]| [&[tag][..], &sized(body)].concat();
    match word {
        "Raw" => unescape(rest),
        "SSL" => sized(&80_877_103_u32.to_be_bytes()),
        "GSS" => sized(&80_877_104_u32.to_be_bytes()),
        "Start" => {
            let (major, minor) = first.split_once('.').expect("a version");
            let number = |text: &str| text.parse::<u16>().expect("a number").to_be_bytes();
            let mut body = [number(major), number(minor)].concat();
            for (key, value) in behind.split(' ').filter_map(|pair| pair.split_once('=')) {
                body.extend([text(key), text(value)].concat());
            }
            sized(&[&body[..], b"\0"].concat())
        }
        "Query" => tagged(b'Q', &text(rest)),
        "Parse" => {
            let (types, sql) = bracketed(behind);
            let types = types.split_whitespace().map(|oid| oid.parse::<u32>().expect("a type"));
            let types = types.map(u32::to_be_bytes).collect::<Vec<_>>();
            tagged(b'P', &[name(first), text(sql), count(types.len()), types.concat()].concat())
        }
        "Bind" => {
            let (statement, behind) = behind.split_once(' ').expect("a portal and a statement");
            let (formats, behind) = bracketed(behind);
            let (values, behind) = bracketed(behind);
            let (results, _) = bracketed(behind);
            let parts = [name(first), name(statement), codes(formats), self::values(values)];
            tagged(b'B', &[parts.concat(), codes(results)].concat())
        }
        "Describe" => tagged(b'D', &[first.as_bytes(), &name(behind)].concat()),
        "Close" => tagged(b'C', &[first.as_bytes(), &name(behind)].concat()),
        "Execute" => {
            let rows = behind.parse::<u32>().expect("a number of rows");
            tagged(b'E', &[&name(first)[..], &rows.to_be_bytes()].concat())
        }
        "Sync" => tagged(b'S', b""),
        "Flush" => tagged(b'H', b""),
        "Terminate" => tagged(b'X', b""),
        "Password" => tagged(b'p', &text(rest)),
        "CopyData" => tagged(b'd', &unescape(rest)),
        "CopyDone" => tagged(b'c', b""),
        "CopyFail" => tagged(b'f', &text(rest)),
        "Call" => tagged(b'F', b""),
        _ => panic!("no message: {line}"),
    }
}

/// Puts the length in front of a message.
fn sized(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("a short message");
    [&length.to_be_bytes()[..], body].concat()
}

fn count(count: usize) -> Vec<u8> {
    u16::try_from(count).expect("few").to_be_bytes().to_vec()
}

/// Encodes formats.
fn codes(text: &str) -> Vec<u8> {
    let codes = text.split_whitespace().map(|code| code.parse::<u16>().expect("a format"));
    let codes = codes.map(u16::to_be_bytes).collect::<Vec<_>>();
    [count(codes.len()), codes.concat()].concat()
}

/// Encodes the values of parameters.
fn values(text: &str) -> Vec<u8> {
    if text.is_empty() {
        return count(0);
    }
    let values = text.split('|').map(|value| match value {
        "NULL" => u32::MAX.to_be_bytes().to_vec(),
        _ => {
            let value = unescape(value);
            let length = u32::try_from(value.len()).expect("a short value");
            [&length.to_be_bytes()[..], &value].concat()
        }
    });
    let values = values.collect::<Vec<_>>();
    [count(values.len()), values.concat()].concat()
}

/// Splits the text in brackets from the text behind it.
#[track_caller]
fn bracketed(text: &str) -> (&str, &str) {
    let inner = text.trim_start().strip_prefix('[').expect("an opening bracket");
    let (inside, behind) = inner.split_once(']').expect("a closing bracket");
    (inside, behind.trim_start())
}
