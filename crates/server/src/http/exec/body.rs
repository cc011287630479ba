//! The parameters of `/exec`, `/exp` and `/api/v1/sql/validate`: from the query string and from the
//! body, which is a form, JSON, or a statement alone.
//!
//! - exec_body-1. The bytes of a body, and of the parameters made from it, are counted in the
//!   memory budget of connections, before they are held and until the request ends.
//! - A slow body is refused while the sender's share of that budget is scarce (pace-1).
//!
//! Not here: the meaning of the parameters (`request`).

use tidegate_query::Parameter;

use super::{Refusal, Stopped, too_large};
use crate::budget::OverBudget;
use crate::http::RequestContext;
use crate::http::decompression::{BodyEncoding, DecompressError, Decompressor, Encoding};
use crate::http::pace::BodyPace;
use crate::http::params::Params;
use crate::http::route::ParameterSpec;
use crate::http::wire::BodyError;

/// The most parameters of a statement, as in PostgreSQL's protocol.
const PARAMETERS_MAX: usize = 65_535;
/// The bytes of a JSON value in memory, besides its text.
const JSON_NODE_BYTES: usize = 48;

/// Reads the parameters of the query string and of the body.
pub(in crate::http) async fn read_params(
    context: &mut RequestContext<'_>,
    specs: &'static [ParameterSpec],
) -> Result<Params, Stopped> {
    let not_text = || Refusal::new("22021", "the request is not UTF-8, or not encoded").at(0);
    let mut params = Params::parse(&context.head.query, specs).map_err(|_| not_text())?;
    if context.head.method != "POST" {
        return Ok(params);
    }
    let body = read_body(context).await?;
    let body = String::from_utf8(body).map_err(|_| not_text())?;
    // The parameters are copies of the body, and parsed JSON is larger.
    let is_json = context.head.content_type() == "application/json";
    let nodes = if is_json { json_nodes(&body) } else { 0 };
    let reserved = context.reserve((2 * body.capacity()).saturating_add(nodes * JSON_NODE_BYTES));
    reserved.map_err(|error| over_budget(&error))?;
    match context.head.content_type().as_str() {
        "application/x-www-form-urlencoded" => params.add(&body).map_err(|_| not_text())?,
        "application/json" => add_json(&body, &mut params)?,
        "application/sql" | "text/plain" => params.set("query", body),
        "" if body.is_empty() => {}
        other => {
            let message = format!("a body of type '{other}' is no statement");
            return Err(Refusal::new("0A000", message).with_status(415).into());
        }
    }
    // Only the parameters are left, until the request ends.
    context.reserve(params.bytes()).map_err(|error| over_budget(&error))?;
    Ok(params)
}

/// Adds the fields of `{"query":"...","limit":"1,10"}`.
fn add_json(body: &str, params: &mut Params) -> Result<(), Refusal> {
    let bad = |what: &str| Refusal::new("22P02", format!("the body is not a JSON object: {what}"));
    let value = serde_json::from_str(body).map_err(|error| bad(&error.to_string()))?;
    let serde_json::Value::Object(fields) = value else { return Err(bad("it is another value")) };
    for (name, value) in fields {
        match value {
            serde_json::Value::Null => {}
            serde_json::Value::Array(values) if name == "params" => {
                params.bound = bound(values)?;
            }
            _ if name == "params" => return Err(Refusal::new("22P02", "`params` is not a list")),
            serde_json::Value::String(text) => params.set(&name, text),
            serde_json::Value::Number(number) => params.set(&name, number.to_string()),
            serde_json::Value::Bool(is) => params.set(&name, is.to_string()),
            _ => return Err(bad(&format!("`{name}` is a list or an object"))),
        }
    }
    Ok(())
}

/// Converts the values of `$1`, `$2`, ...: a text takes the type of its place.
fn bound(values: Vec<serde_json::Value>) -> Result<Vec<Parameter>, Refusal> {
    if PARAMETERS_MAX < values.len() {
        let message = format!("a statement has at most {PARAMETERS_MAX} parameters");
        return Err(Refusal::new("54000", message));
    }
    let parameter = |value| match value {
        serde_json::Value::Null => Ok(Parameter::Null),
        serde_json::Value::Bool(is) => Ok(Parameter::Boolean(is)),
        serde_json::Value::String(text) => Ok(Parameter::Text(text)),
        serde_json::Value::Number(number) => Ok(match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Parameter::Integer(integer),
            // A large unsigned number, for example, which a text keeps exactly.
            (None, _) if number.is_u64() => Parameter::Text(number.to_string()),
            (None, Some(double)) => Parameter::Double(double),
            (None, None) => Parameter::Text(number.to_string()),
        }),
        serde_json::Value::Array(_) | serde_json::Value::Object(_) => {
            Err(Refusal::new("22P02", "a parameter is a list or an object"))
        }
    };
    values.into_iter().map(parameter).collect()
}

/// Reads and decompresses the body; its memory is counted (exec_body-1).
async fn read_body(context: &mut RequestContext<'_>) -> Result<Vec<u8>, Stopped> {
    // A form needs up to three bytes for one.
    let max = context.server.config.http.max_sql_bytes;
    let is_form = context.head.content_type() == "application/x-www-form-urlencoded";
    let max = if is_form { max.saturating_mul(3) } else { max };
    let encoding = Encoding::named(context.head.field("content-encoding").unwrap_or_default())
        .ok_or_else(|| {
            let message = "the Content-Encoding of the body is none of gzip, zstd and identity";
            Refusal::new("0A000", message).with_status(415)
        })?;
    let decoder_bytes = encoding.memory_bytes();
    context.reserve(decoder_bytes).map_err(|error| over_budget(&error))?;
    let body_encoding = BodyEncoding { encoding, parts: None };
    let decompressor = Decompressor::new(&body_encoding, max)
        .map_err(|error| decompress_refusal(context, &error))?;
    let mut reading = Reading { decompressor, bytes: Vec::new(), decoder_bytes };
    let (pace, server, sender) = (BodyPace::begin(), context.server, context.sender.claimant());
    loop {
        let is_scarce = || server.budget.is_scarce_for(&sender);
        let next = pace.next(context, reading.bytes.len(), is_scarce).await;
        let Some(mut piece) = next.map_err(|error| unread(&error))? else { break };
        while !piece.is_empty() {
            let text = reading.decompressor.next(&mut piece);
            reading.push(context, &text.map_err(|error| decompress_refusal(context, &error))?)?;
        }
    }
    let rest =
        reading.decompressor.finish().map_err(|error| decompress_refusal(context, &error))?;
    reading.push(context, &rest)?;
    Ok(reading.bytes)
}

/// A body that is being read.
struct Reading {
    decompressor: Decompressor,
    bytes: Vec<u8>,
    /// The memory of the decoder.
    decoder_bytes: usize,
}

impl Reading {
    fn push(&mut self, context: &mut RequestContext<'_>, text: &[u8]) -> Result<(), Stopped> {
        let needed = self.bytes.len() + text.len();
        if self.bytes.capacity() < needed {
            // The capacity that the vector will have.
            let capacity = needed.max(2 * self.bytes.capacity());
            let reserved = context.reserve(self.decoder_bytes.saturating_add(capacity));
            reserved.map_err(|error| over_budget(&error))?;
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(text);
        Ok(())
    }
}

fn over_budget(error: &OverBudget) -> Refusal {
    Refusal::new("53200", error.to_string()).with_status(503)
}

fn unread(error: &BodyError) -> Stopped {
    match error {
        BodyError::Cut | BodyError::Io(_) => Stopped::Disconnected,
        BodyError::Slow | BodyError::TooSlow => {
            Refusal::new("08006", error.to_string()).with_status(408).into()
        }
        BodyError::Malformed(_) => Refusal::new("08P01", error.to_string()).into(),
    }
}

fn decompress_refusal(context: &RequestContext<'_>, error: &DecompressError) -> Stopped {
    match error {
        DecompressError::TooLarge { .. } => too_large(context).into(),
        _ => Refusal::new("08P01", error.to_string()).into(),
    }
}

/// Returns an upper bound of the values, names and lists in a JSON text: the separators outside of
/// its strings, and one.
fn json_nodes(text: &str) -> usize {
    let (mut nodes, mut in_string, mut is_escaped) = (1, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            b',' | b':' | b'[' | b'{' if !in_string => nodes += 1,
            _ => {}
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::exec::PARAMETERS;

    #[test]
    fn nodes_of_json_are_counted_outside_of_strings() {
        for (text, expected) in
            [("1", 1), ("[1,2,3]", 4), (r#"{"a":"b,c[{","d\\":[]}"#, 6), (r#"{"a\",":1}"#, 3)]
        {
            assert_eq!(json_nodes(text), expected, "{text}");
        }
    }

    #[test]
    fn bodies_of_json_are_parameters() {
        let mut params = Params::none(PARAMETERS);
        add_json(r#"{"query":"select 1","limit":5,"count":true,"nm":null}"#, &mut params).unwrap();
        assert_eq!(params.find("query"), Some("select 1"));
        assert_eq!((params.find("limit"), params.find("nm")), (Some("5"), None));
        assert!(params.is_on("count"));
        assert_eq!(add_json("[1]", &mut params).unwrap_err().status, 400);
        add_json(r#"{"params":[1, -0.5, "a", true, null]}"#, &mut params).unwrap();
        let expected = [
            Parameter::Integer(1),
            Parameter::Double(-0.5),
            Parameter::Text("a".to_owned()),
            Parameter::Boolean(true),
            Parameter::Null,
        ];
        assert_eq!(params.bound, expected);
        assert_eq!(add_json(r#"{"params":[[1]]}"#, &mut params).unwrap_err().code, "22P02");
        for params_text in ["1", "\"a\"", "true", "{\"a\":1}"] {
            let text = format!("{{\"query\":\"SELECT 1\",\"params\":{params_text}}}");
            let refusal = add_json(&text, &mut params).unwrap_err();
            assert_eq!((refusal.status, refusal.code), (400, "22P02"), "{text}");
        }
        add_json(r#"{"params":null}"#, &mut params).unwrap();
        let many = format!("{{\"params\":[{}0]}}", "0,".repeat(PARAMETERS_MAX));
        assert_eq!(add_json(&many, &mut params).unwrap_err().code, "54000");
    }
}
