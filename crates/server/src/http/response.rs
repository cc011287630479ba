//! Answers: a status, header fields and a complete body.

use std::fmt::Write as _;

use tidegate_model::time::CivilDate;
use tidegate_platform::brief;

use crate::json::push_string;

/// An answer to a request.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) fields: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

pub(crate) const JSON: &str = "application/json; charset=utf-8";
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

impl Response {
    pub(crate) fn new(status: u16, content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Response { status, content_type, fields: Vec::new(), body: body.into() }
    }

    /// Makes the answer 204.
    pub(crate) fn empty() -> Response {
        Response::new(204, TEXT, Vec::new())
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Response {
        self.fields.push((name, value.into()));
        self
    }

    /// Makes an error in the format of routes that have no format of their own.
    pub(crate) fn error(status: u16, message: &str, code: Option<&str>, id: &str) -> Response {
        let mut body = String::from("{\"error\":");
        push_string(&brief(message.to_owned()), &mut body);
        if let Some(code) = code {
            write!(body, ",\"code\":\"{code}\"").expect("a String takes everything");
        }
        write!(body, ",\"requestId\":\"{id}\"}}").expect("a String takes everything");
        Response::new(status, JSON, body)
    }
}

/// The continuation of a connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    KeepAlive,
    Close,
}

/// The way in which an answer gives the length of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Bytes(usize),
    Chunks,
    /// The body ends with the connection: HTTP/1.0 has no chunks.
    Close,
    /// 204 and 304 have no body.
    None,
}

/// Formats the head of an answer.
pub(crate) fn head(
    response: &Response,
    length: Length,
    after: After,
    request_id: &str,
    now_micros: i64,
) -> Vec<u8> {
    let Response { status, content_type, fields, .. } = response;
    let mut text = format!(
        "HTTP/1.1 {status} {}\r\nServer: tidegate/{}\r\nDate: {}\r\nX-Request-Id: {request_id}\r\n\
         X-Content-Type-Options: nosniff\r\n",
        reason(*status),
        env!("CARGO_PKG_VERSION"),
        http_date(now_micros),
    );
    let body = match length {
        Length::Bytes(bytes) => {
            format!("Content-Type: {content_type}\r\nContent-Length: {bytes}\r\n")
        }
        Length::Chunks => {
            format!("Content-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n")
        }
        Length::Close => format!("Content-Type: {content_type}\r\n"),
        Length::None => String::new(),
    };
    text.push_str(&body);
    for (name, value) in fields {
        write!(text, "{name}: {value}\r\n").expect("a String takes everything");
    }
    if after == After::Close {
        text.push_str("Connection: close\r\n");
    }
    text.push_str("\r\n");
    text.into_bytes()
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        411 => "Length Required",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        507 => "Insufficient Storage",
        _ => "Error",
    }
}

/// Formats `Sun, 22 Nov 2026 06:20:05 GMT`, by RFC 9110.
fn http_date(micros: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = micros.div_euclid(1_000_000);
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let CivilDate { year, month, day } = CivilDate::from_days(days);
    let weekday = usize::try_from(days.rem_euclid(7)).expect("0 to 6");
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    let month = MONTHS[usize::try_from(month).expect("1 to 12") - 1];
    format!("{}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT", DAYS[weekday])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_standard() {
        // The example of RFC 9110, section 5.6.7.
        assert_eq!(http_date(784_111_777_000_000), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
    }

    #[test]
    fn an_error_is_json() {
        let response = Response::error(429, "too many \"x\"", Some("53300"), "00c1");
        let expected = r#"{"error":"too many \"x\"","code":"53300","requestId":"00c1"}"#;
        assert_eq!(String::from_utf8(response.body).unwrap(), expected);
    }
}
