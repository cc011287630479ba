//! A request to `/imp`, parsed from its parameters.
//!
//! - imp_request-1. A known parameter with an invalid value is an error; an unknown parameter is a
//!   warning, as clients send some that have no meaning here.

use std::sync::Arc;

use tidegate_ingest::timestamp::TimestampFormat;
use tidegate_ingest::{
    ColumnSource, Existing, ExtraFields, Header, ImportOptions, OnError, RejectList, Source,
};
use tidegate_model::schema::same_name;
use tidegate_model::{ColumnType, PartitionUnit, Schema};
use tidegate_platform::sentence;
use tidegate_query::parse_column_type;

use crate::copy::{CopyError, Inner, defaults};
use crate::http::params::Params;
use crate::http::route::ParameterSpec;
use crate::http::route::ParameterType::{Flag, OneOf, Text};

/// The parameters of `/imp`.
pub(in crate::http) const PARAMETERS: &[ParameterSpec] = &[
    ParameterSpec::query("name", Text, "The table; by default, the name of the file."),
    ParameterSpec::query("overwrite", Flag, "Replace the table; for administrators."),
    ParameterSpec::query("create", Flag, "Create a missing table."),
    ParameterSpec::query(
        "partitionBy",
        OneOf(&["NONE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR"]),
        "The partitioning of a new table.",
    ),
    ParameterSpec::query("timestamp", Text, "The designated timestamp of a new table."),
    ParameterSpec::query("forceHeader", Flag, "The first line is a header; detected by default."),
    ParameterSpec::query("delimiter", Text, "One ASCII character; detected by default."),
    ParameterSpec::query(
        "skipLev",
        Flag,
        "Skip lines with more fields than columns, instead of only those fields.",
    ),
    ParameterSpec::query(
        "skipColumns",
        Text,
        "The columns to leave out, by their names in the file, separated by commas.",
    ),
    ParameterSpec::query(
        "atomicity",
        OneOf(&["skipCol", "skipRow", "abort"]),
        "The effect of a bad value.",
    ),
    ParameterSpec::query("fmt", OneOf(&["text", "json"]), "The format of the answer."),
    ParameterSpec::ignored("maxUncommittedRows"),
    ParameterSpec::ignored("o3MaxLag"),
    ParameterSpec::ignored("commitLag"),
    ParameterSpec::ignored("durable"),
];

/// The format of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerForm {
    Text,
    Json,
}

impl AnswerForm {
    pub(super) fn of(params: &Params) -> Result<AnswerForm, CopyError> {
        match params.find("fmt") {
            None | Some("" | "text") => Ok(AnswerForm::Text),
            Some("json") => Ok(AnswerForm::Json),
            Some(other) => Err(bad(&format!("fmt is text or json, not '{other}'"))),
        }
    }
}

/// A column, as described by the part `schema`.
#[derive(Clone, Debug, PartialEq)]
struct Described {
    name: String,
    ty: Option<ColumnType>,
    pattern: Option<TimestampFormat>,
}

/// An import and the options of its answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ImportRequest {
    pub(super) table: String,
    pub(super) import_id: String,
    pub(super) warnings: Vec<String>,
    columns: Vec<Described>,
    existing: Existing,
    timestamp: Option<String>,
    partition_by: Option<PartitionUnit>,
    skip_columns: Vec<String>,
    header: Header,
    delimiter: Option<u8>,
    extra_fields: ExtraFields,
    on_error: OnError,
}

impl ImportRequest {
    pub(super) fn new(
        params: &Params,
        schema: &[u8],
        file_name: Option<&str>,
    ) -> Result<ImportRequest, CopyError> {
        let find = |name: &str| params.find(name).filter(|text| !text.is_empty());
        let table = find("name")
            .or(file_name)
            .ok_or_else(|| bad("the parameter name is missing: which table do the rows go to?"))?;
        let delimiter = match find("delimiter").map(str::as_bytes) {
            None => None,
            Some(&[byte]) if byte.is_ascii() => Some(byte),
            Some(_) => return Err(bad("delimiter is one ASCII character")),
        };
        let on_error = match find("atomicity") {
            None => OnError::Null,
            Some(text) if text.eq_ignore_ascii_case("skipcol") => OnError::Null,
            Some(text) if text.eq_ignore_ascii_case("skiprow") => OnError::SkipRow,
            Some(text) if text.eq_ignore_ascii_case("abort") => OnError::Abort,
            Some(text) => {
                return Err(bad(&format!("atomicity is skipCol, skipRow or abort, not '{text}'")));
            }
        };
        let partition_by = match find("partitionBy") {
            None => None,
            Some(text) => Some(
                PartitionUnit::parse(text)
                    .ok_or_else(|| bad(&format!("partitionBy cannot be '{text}'")))?,
            ),
        };
        let flag = |name: &str, default: bool| match find(name) {
            None => Ok(default),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(text) => Err(bad(&format!("{name} is true or false, not '{text}'"))),
        };
        let skip_columns = match find("skipColumns") {
            None => Vec::new(),
            Some(text) => names(text).ok_or_else(|| {
                bad(&format!("skipColumns is a list of names with commas between, not '{text}'"))
            })?,
        };
        let existing = match (flag("overwrite", false)?, flag("create", true)?) {
            (true, _) => Existing::Replace,
            (false, true) => Existing::Add,
            (false, false) => Existing::Require,
        };
        Ok(ImportRequest {
            table: table.to_owned(),
            import_id: String::new(),
            warnings: unknown(params),
            columns: described(schema)?,
            existing,
            timestamp: find("timestamp").map(str::to_owned),
            partition_by: partition_by.filter(|unit| *unit != PartitionUnit::None),
            skip_columns,
            header: if flag("forceHeader", false)? { Header::Present } else { Header::Auto },
            delimiter,
            extra_fields: match flag("skipLev", false)? {
                true => ExtraFields::Reject,
                false => ExtraFields::Ignore,
            },
            on_error,
        })
    }

    /// Adapts the request to an existing table, which is not changed: options without effect become
    /// warnings.
    pub(super) fn for_table(mut self, schema: Option<Arc<Schema>>) -> ImportRequest {
        let Some(schema) = schema.filter(|_| self.existing != Existing::Replace) else {
            return self;
        };
        let own = schema.designated_column().map(|(column, _)| column.name.as_str());
        if let Some(given) = self.timestamp.take()
            && !own.is_some_and(|own| same_name(own, &given))
        {
            let own = own.unwrap_or("none");
            self.warnings.push(format!("the designated timestamp is {own}, timestamp ignored"));
        }
        let own = schema.partition_by();
        if self.partition_by.take().is_some_and(|given| given != own) {
            let own = own.sql();
            self.warnings.push(format!("table is partitioned by {own}, partitionBy ignored"));
        }
        self
    }

    pub(super) fn options(
        &self,
        inner: &Inner,
        source: Source,
        rejects: RejectList,
    ) -> Result<ImportOptions, CopyError> {
        if self.partition_by.is_some() && self.timestamp.is_none() {
            return Err(bad("partitionBy needs timestamp, the column that it goes by"));
        }
        let mut options = defaults(inner, &self.table, source, rejects)?;
        let typed = self.columns.iter().filter_map(|it| Some((it.name.clone(), it.ty?)));
        let typed: Vec<_> = typed.collect();
        if !typed.is_empty() {
            options.columns = ColumnSource::Hinted(typed);
        }
        let formats =
            self.columns.iter().filter_map(|it| Some((it.name.clone(), it.pattern.clone()?)));
        options.column_formats = formats.collect();
        let is_designated = |name: &String| {
            self.timestamp.as_ref().is_some_and(|designated| same_name(designated, name))
        };
        let of_designated = options.column_formats.iter().find(|(name, _)| is_designated(name));
        options.timestamp_format = of_designated.map(|(_, format)| format.clone());
        options.existing = self.existing.clone();
        options.timestamp.clone_from(&self.timestamp);
        options.partition_by = self.partition_by;
        options.skip_columns.clone_from(&self.skip_columns);
        options.on_error = self.on_error;
        options.dialect.header = self.header;
        options.dialect.delimiter = self.delimiter;
        options.dialect.extra_fields = self.extra_fields;
        Ok(options)
    }
}

/// Makes warnings about unknown parameters, which may be misspelt.
fn unknown(params: &Params) -> Vec<String> {
    let names = params.undeclared().into_iter();
    names.map(|name| format!("there is no parameter `{name}`, ignored")).collect()
}

/// Splits `a,b`.
fn names(text: &str) -> Option<Vec<String>> {
    text.split(',').map(|name| (!name.is_empty()).then(|| name.to_owned())).collect()
}

fn bad(message: &str) -> CopyError {
    CopyError::new("22023", message)
}

/// Parses `[{"name":"ts","type":"TIMESTAMP","pattern":"yyyy-MM-dd"}]`.
fn described(schema: &[u8]) -> Result<Vec<Described>, CopyError> {
    if schema.is_empty() {
        return Ok(Vec::new());
    }
    let bad_schema = |what: &str| CopyError::new("22P02", format!("the part `schema`: {what}"));
    let list: serde_json::Value =
        serde_json::from_slice(schema).map_err(|error| bad_schema(&error.to_string()))?;
    let serde_json::Value::Array(list) = list else { return Err(bad_schema("it is no list")) };
    let column = |value: serde_json::Value| {
        let text = |key: &str| match &value[key] {
            serde_json::Value::Null => Ok(None),
            serde_json::Value::String(text) => Ok(Some(text.clone())),
            _ => Err(bad_schema(&format!("`{key}` is no text"))),
        };
        let name = text("name")?.ok_or_else(|| bad_schema("a column has no name"))?;
        let ty = match text("type")? {
            None => None,
            Some(ty) => Some(
                parse_column_type(&ty)
                    .ok_or_else(|| bad_schema(&format!("there is no type `{ty}`")))?,
            ),
        };
        let pattern = match text("pattern")? {
            None => None,
            Some(pattern) => Some(
                TimestampFormat::parse(&pattern).map_err(|error| bad_schema(&sentence(&error)))?,
            ),
        };
        Ok(Described { name, ty, pattern })
    };
    list.into_iter().map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::params::tests::check_read;

    #[test]
    fn all_parameters_are_read() {
        check_read(PARAMETERS, &[""], |params| {
            AnswerForm::of(params).unwrap();
            ImportRequest::new(params, b"", Some("a.csv")).unwrap();
        });
    }

    fn request(params: &str, schema: &str) -> Result<ImportRequest, String> {
        let params = Params::parse(params, PARAMETERS).unwrap();
        let request = ImportRequest::new(&params, schema.as_bytes(), Some("a.csv"));
        request.map_err(|error| error.cause.message)
    }

    #[test]
    fn a_request_without_a_word_is_an_import_of_its_file() {
        let request = request("", "").unwrap();
        assert_eq!(request.table, "a.csv");
        assert_eq!((request.existing, request.on_error), (Existing::Add, OnError::Null));
        assert_eq!((request.header, request.extra_fields), (Header::Auto, ExtraFields::Ignore));
    }

    #[test]
    fn all_that_is_said_is_heard() {
        let text = "name=t&overwrite=true&atomicity=abort&forceHeader=true&skipLev=TRUE\
                    &delimiter=;&partitionBy=day&timestamp=ts&maxUncommittedRows=5\
                    &skipColumns=a,b%20c";
        let schema = r#"[{"name":"ts","type":"TIMESTAMP","pattern":"yyyy","locale":"en"}]"#;
        let request = request(text, schema).unwrap();
        assert_eq!((request.existing, request.on_error), (Existing::Replace, OnError::Abort));
        assert_eq!((request.header, request.extra_fields), (Header::Present, ExtraFields::Reject));
        assert_eq!(
            (request.delimiter, request.partition_by),
            (Some(b';'), Some(PartitionUnit::Day))
        );
        assert_eq!(request.skip_columns, ["a", "b c"]);
        assert_eq!(request.columns.len(), 1);
        assert!(request.columns[0].pattern.is_some());
    }

    #[test]
    fn invalid_parameters_of_an_import_are_refused() {
        for (params, schema, expected) in [
            ("atomicity=x", "", "atomicity is skipCol, skipRow or abort, not 'x'"),
            ("overwrite=1", "", "overwrite is true or false, not '1'"),
            ("delimiter=ab", "", "delimiter is one ASCII character"),
            ("partitionBy=x", "", "partitionBy cannot be 'x'"),
            (
                "skipColumns=a,,b",
                "",
                "skipColumns is a list of names with commas between, not 'a,,b'",
            ),
            ("", "{}", "the part `schema`: it is no list"),
            ("", "[{\"name\":\"a\",\"type\":\"x\"}]", "the part `schema`: there is no type `x`"),
            ("", "[{\"type\":\"INT\"}]", "the part `schema`: a column has no name"),
        ] {
            assert_eq!(request(params, schema).unwrap_err(), expected, "imp_request-1");
        }
        let misspelt = request("skiplev=true&fmt=json&o3MaxLag=1&bogus=1", "").unwrap();
        let ignored =
            ["bogus", "skiplev"].map(|it| format!("there is no parameter `{it}`, ignored"));
        assert_eq!(misspelt.warnings, ignored);
        assert!(
            AnswerForm::of(&Params::parse("fmt=xml", PARAMETERS).unwrap()).is_err(),
            "imp_request-1"
        );
    }
}
