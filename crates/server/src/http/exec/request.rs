//! A request to `/exec`, parsed from its parameters.
//!
//! - exec_request-1. A parameter with an invalid value is an error, and is never ignored.

use std::time::Duration;

use tidegate_query::{Parameter, Timeout};

use super::Refusal;
use crate::http::params::Params;
use crate::http::route::ParameterSpec;
use crate::http::route::ParameterType::{Flag, Integer, Number, OneOf, Text};
use crate::http::wire::Head;

/// The parameters of `/exec`.
pub(in crate::http) const PARAMETERS: &[ParameterSpec] = &[
    ParameterSpec::query("query", Text, "One statement; it may end with a semicolon."),
    ParameterSpec::query("limit", Text, "The first n rows, or rows lo,hi from 1, both included."),
    ParameterSpec::query("count", Flag, "Count all rows, beyond the limit too."),
    ParameterSpec::query("nm", Flag, "Leave out query, columns and timestamp."),
    ParameterSpec::query("timings", Flag, "Add the durations of the phases, in nanoseconds."),
    ParameterSpec::query("explain", Flag, "Add how the statement was executed."),
    ParameterSpec::query("quoteLargeNum", Flag, "Write 64-bit integers as strings."),
    ParameterSpec::query("src", Text, "con: like quoteLargeNum."),
    ParameterSpec::query("cols", Text, "The columns of the answer, in order, separated by commas."),
    ParameterSpec::query(
        "nonfinite",
        OneOf(&["null", "string"]),
        "The form of NaN and infinities.",
    ),
    TIMEOUT,
    ParameterSpec::query("version", Integer, "From 2 on, an empty statement is a notice."),
    STATEMENT_TIMEOUT,
];
pub(in crate::http) const TIMEOUT: ParameterSpec =
    ParameterSpec::query("timeout", Number, "The most seconds of the statement.");
pub(in crate::http) const STATEMENT_TIMEOUT: ParameterSpec = ParameterSpec::header(
    "Statement-Timeout",
    Integer,
    "The most milliseconds of the statement; the parameter timeout takes precedence.",
);

/// A statement and the options of its answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExecRequest {
    pub(crate) sql: String,
    /// The values of `$1`, `$2`, ...
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) window: RowWindow,
    /// The columns of the answer; `None` for all.
    pub(crate) columns: Option<Vec<String>>,
    pub(crate) form: ExecForm,
    pub(crate) timeout: Option<Timeout>,
    /// The version of the answer: from 2 on, an empty statement is a notice and no error.
    pub(crate) version: u32,
}

/// The rows of an answer that are sent, and the choice to count the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowWindow {
    /// The number of rows that are skipped first.
    pub(crate) skip: u64,
    /// The most rows that are sent after those.
    pub(crate) take: u64,
    /// True if all rows are counted.
    pub(crate) counts_all: bool,
}

/// The format of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "as the parameters of the protocol")]
pub(crate) struct ExecForm {
    /// True for an answer without `query`, `columns` and `timestamp`.
    pub(crate) rows_only: bool,
    pub(crate) timings: bool,
    pub(crate) explain: bool,
    /// True if integers of 64 bits are strings.
    pub(crate) quotes_large: bool,
    /// True if NaN and the infinities are strings.
    pub(crate) nonfinite_text: bool,
}

impl ExecRequest {
    /// Reads the parameters. `rows_max` is the most rows without a limit in the request, 0 for all;
    /// `timeout_max` is the longest timeout that may be requested.
    pub(crate) fn new(
        head: &Head,
        params: &Params,
        rows_max: u64,
        timeout_max: Duration,
    ) -> Result<Self, Refusal> {
        let sql = params.find("query").unwrap_or_default().to_owned();
        let refuse = |code, message: String| Refusal::new(code, message).of(&sql);
        let counts_all = params.is_on("count");
        let (skip, take) = match params.find("limit") {
            None if rows_max == 0 => (0, u64::MAX),
            None => (0, rows_max),
            Some(text) => limit(text).ok_or_else(|| {
                refuse("22023", format!("limit '{text}' is neither a number nor two, like 1,10"))
            })?,
        };
        let nonfinite_text = match params.find("nonfinite") {
            None | Some("null") => false,
            Some("string") => true,
            Some(other) => {
                return Err(refuse("22023", format!("nonfinite is null or string, not '{other}'")));
            }
        };
        let form = ExecForm {
            rows_only: params.is_on("nm"),
            timings: params.is_on("timings"),
            explain: params.is_on("explain"),
            quotes_large: params.is_on("quoteLargeNum") || params.find("src") == Some("con"),
            nonfinite_text,
        };
        let columns = params.find("cols").filter(|text| !text.is_empty());
        let columns = columns.map(|text| text.split(',').map(|name| name.trim().to_owned()));
        Ok(ExecRequest {
            parameters: params.bound.clone(),
            window: RowWindow { skip, take, counts_all },
            columns: columns.map(Iterator::collect),
            form,
            timeout: timeout(head, params, timeout_max)
                .map_err(|message| refuse("22023", message))?,
            version: params.find("version").and_then(|text| text.parse().ok()).unwrap_or(1),
            sql,
        })
    }
}

/// Parses `n`, the first rows, or `lo,hi`, rows from 1 on with both ends included.
fn limit(text: &str) -> Option<(u64, u64)> {
    let number = |text: &str| {
        let text = text.trim();
        if text.starts_with('+') { None } else { text.parse::<u64>().ok() }
    };
    match text.split_once(',') {
        None => Some((0, number(text)?)),
        Some((low, high)) => {
            let (low, high) = (number(low)?, number(high)?);
            let skip = low.saturating_sub(1);
            Some((skip, high.saturating_sub(skip)))
        }
    }
}

/// Returns the timeout, from the parameter in seconds or from the header field in milliseconds; or
/// the reason why it is invalid.
pub(in crate::http) fn timeout(
    head: &Head,
    params: &Params,
    max: Duration,
) -> Result<Option<Timeout>, String> {
    let (text, unit_ms) = match (params.find("timeout"), head.field("statement-timeout")) {
        (Some(text), _) => (text, 1_000.0),
        (None, Some(text)) => (text, 1.0),
        (None, None) => return Ok(None),
    };
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && 0.0 < *number);
    let seconds = number.map(|number| number * unit_ms / 1_000.0);
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match duration {
        Some(duration) if duration <= max => Ok(Some(Timeout::After(duration))),
        _ => Err(format!("'{text}' is not a timeout of up to {} s", max.as_secs_f64())),
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::http::params::tests::check_read;

    fn request(fields: &str, params: &str) -> Result<ExecRequest, String> {
        let text = format!("GET /exec HTTP/1.0\r\n{fields}\r\n");
        let head = Head::of_text(&mut BytesMut::from(text.as_str()));
        let params = Params::parse(params, PARAMETERS).unwrap();
        ExecRequest::new(&head, &params, 0, Duration::from_hours(48))
            .map_err(|refusal| refusal.message)
    }

    #[test]
    fn all_parameters_are_read() {
        let head = Head::of_text(&mut BytesMut::from("GET /exec HTTP/1.0\r\n\r\n"));
        check_read(PARAMETERS, &[""], |params| {
            ExecRequest::new(&head, params, 0, Duration::from_hours(48)).unwrap();
        });
    }

    #[track_caller]
    fn check_limit(text: &str, expected: Option<(u64, u64)>) {
        assert_eq!(limit(text), expected, "{text}");
    }

    #[test]
    fn limits_are_rows_from_one_on() {
        check_limit("10", Some((0, 10)));
        check_limit("0", Some((0, 0)));
        check_limit("2,5", Some((1, 4)));
        check_limit("1, 3", Some((0, 3)));
        check_limit("0,3", Some((0, 3)));
        check_limit("5,2", Some((4, 0)));
        for bad in ["x", "-1", "", "1,", ",1", "+1", "1,2,3", "18446744073709551616"] {
            check_limit(bad, None);
        }
    }

    #[test]
    fn the_parameter_wins_over_the_field() {
        let after = |millis| Some(Timeout::After(Duration::from_millis(millis)));
        let field = "Statement-Timeout: 50\r\n";
        assert_eq!(request(field, "query=x").unwrap().timeout, after(50));
        assert_eq!(request(field, "query=x&timeout=0.25").unwrap().timeout, after(250));
        assert_eq!(request("", "query=x").unwrap().timeout, None);
        // More than 24 hours, the default of `query.max_timeout`, were refused whatever its value
        // was.
        assert_eq!(request("", "query=x&timeout=100000").unwrap().timeout, after(100_000_000));
        for bad in ["0", "-1", "NaN", "x", "172801", "1e300"] {
            let expected = format!("'{bad}' is not a timeout of up to 172800 s");
            assert_eq!(request("", &format!("timeout={bad}")), Err(expected), "exec_request-1");
        }
    }

    #[test]
    fn parameters_of_the_answer_are_parsed() {
        let text = "query=x&nm=true&count=true&limit=3&cols=a,%20b&src=con&nonfinite=string";
        let request = request("", text).unwrap();
        assert_eq!(request.columns, Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(request.window, RowWindow { skip: 0, take: 3, counts_all: true });
        let form = ExecForm {
            rows_only: true,
            quotes_large: true,
            nonfinite_text: true,
            ..ExecForm::default()
        };
        assert_eq!(request.form, form);
    }
}
