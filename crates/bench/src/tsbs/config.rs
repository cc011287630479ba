//! Flags from a file, `--config FILE`: the file is read only if it is named, and a flag on the
//! command line overrides its flag.
//!
//! - tsbs_config-1. A flag of the file means the same as on the command line: one parser reads
//!   both.
//!
//! A file is an object of JSON, or lines `name: value` or `name = value`, which are YAML and TOML
//! without nesting.

use std::fs;
use std::path::Path;

use clap::error::{ErrorKind, Result};
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use serde_json::Value;

/// The flag that names the file: its id and its name on the command line.
const CONFIG: &str = "config";

/// Arguments of a command, some of which may come from the file that its `--config` names.
#[derive(Debug)]
pub struct Configured<A>(pub A);

impl<A: Args> Args for Configured<A> {
    fn augment_args(command: Command) -> Command {
        A::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        A::augment_args_for_update(command)
    }
}

impl<A: Args> FromArgMatches for Configured<A> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Configured<A>> {
        let Some(path) = matches.get_one::<String>(CONFIG) else {
            return A::from_arg_matches(matches).map(Configured);
        };
        let command = || A::augment_args(Command::new("tsbs").no_binary_name(true));
        let text = fs::read_to_string(path)
            .map_err(|error| Error::raw(ErrorKind::Io, format!("read {path}: {error}")))?;
        let settings = parse_settings(&text).map_err(|what| bad(path, &what))?;
        let words = words(&command(), matches, &settings).map_err(|what| bad(path, &what))?;
        let parsed = command().try_get_matches_from(words);
        parsed.and_then(|matches| A::from_arg_matches(&matches)).map(Configured).map_err(|error| {
            let text = error.render().to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            bad(path, text.split("\n\n").next().unwrap_or_default())
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<()> {
        *self = Configured::from_arg_matches(matches)?;
        Ok(())
    }
}

fn bad(path: impl AsRef<Path>, what: &str) -> Error {
    Error::raw(ErrorKind::InvalidValue, format!("{}: {what}", path.as_ref().display()))
}

/// Returns the command line with the flags of the file that were not typed (tsbs_config-1).
fn words(
    command: &Command,
    typed: &ArgMatches,
    settings: &[(String, String)],
) -> Result<Vec<String>, String> {
    let is_typed = |id: &str| typed.value_source(id) == Some(ValueSource::CommandLine);
    let mut words = Vec::new();
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        if id == CONFIG || !is_typed(id) {
            continue;
        }
        let values = typed.get_raw(id).into_iter().flatten();
        let values = values.map(|value| value.to_string_lossy().into_owned());
        match (argument.get_long(), argument.get_action()) {
            (None, _) => words.extend(values),
            (Some(long), ArgAction::SetTrue) => words.push(format!("--{long}")),
            (Some(long), _) => words.extend(values.map(|value| format!("--{long}={value}"))),
        }
    }
    for (name, value) in settings {
        let found = command.get_arguments().find(|argument| {
            let aliases = argument.get_all_aliases().unwrap_or_default();
            argument.get_long() == Some(name) || aliases.contains(&name.as_str())
        });
        let found = found.filter(|argument| argument.get_id().as_str() != CONFIG);
        let argument = found.ok_or_else(|| format!("there is no flag --{name}"))?;
        match (is_typed(argument.get_id().as_str()), argument.get_action(), value.as_str()) {
            (true, _, _) | (false, ArgAction::SetTrue, "false") => {}
            (false, ArgAction::SetTrue, "true") => words.push(format!("--{name}")),
            (false, _, _) => words.push(format!("--{name}={value}")),
        }
    }
    Ok(words)
}

/// Parses names and values, in the order of the file. A name may occur more than once.
fn parse_settings(text: &str) -> Result<Vec<(String, String)>, String> {
    if text.trim_start().starts_with('{') {
        return parse_object(text);
    }
    let mut settings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let bare = line.trim();
        if bare.is_empty() || bare.starts_with('#') || bare == "---" {
            continue;
        }
        let setting = parse_line(line).ok_or_else(|| {
            format!("line {} is not a flag and its value, such as scale: 10: `{bare}`", index + 1)
        })?;
        settings.push(setting);
    }
    Ok(settings)
}

/// Parses `name: value` or `name = value`; the value may be quoted, and a comment may follow.
fn parse_line(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once([':', '='])?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let name = name.trim_end();
    // An indented line belongs to a nested structure, which is not supported.
    if name.is_empty() || !name.bytes().all(is_name) {
        return None;
    }
    let value = value.trim();
    let value = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let (value, rest) = value[1..].split_once(quote)?;
            let rest = rest.trim_start();
            (rest.is_empty() || rest.starts_with('#')).then_some(value)?
        }
        Some('#') | None => return None,
        Some(_) => value.split(" #").next().unwrap_or_default().trim_end(),
    };
    Some((name.to_owned(), value.to_owned()))
}

fn parse_object(text: &str) -> Result<Vec<(String, String)>, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut settings = Vec::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for value in values {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                Value::Null | Value::Array(_) | Value::Object(_) => {
                    return Err(format!("{name} has a value that is not a text, number or bool"));
                }
            };
            settings.push((name.clone(), text));
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use clap::Parser;

    use super::*;
    use crate::tsbs::run::TsbsCommand;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: TsbsCommand,
    }

    /// Returns the arguments that a line leads to, as `Debug` shows them, or the error.
    fn parsed(line: &str, config: Option<&str>) -> Result<String, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(config.unwrap_or_default().as_bytes()).unwrap();
        let path = file.path().to_str().unwrap();
        let words = std::iter::once("tsbs").chain(line.split(' '));
        let named = config.map(|_| ["--config", path]).into_iter().flatten();
        let line = Line::try_parse_from(words.chain(named));
        let line = line.map_err(|error| error.to_string().replace(path, "FILE"))?;
        // Only the path may differ between the runs.
        let text = format!("{:?}", line.command);
        Ok(text.replace(&format!("Some({path:?})"), "None"))
    }

    #[test]
    fn flags_of_a_file_mean_what_they_mean_if_they_are_typed() {
        for (line, config, typed) in [
            (
                "generate",
                "# A comment\n---\nformat: questdb # and another\nseed: -5\nscale = 10\n\
                 use-case: \"iot\"\ntimestamp-end: '2016-01-01T01:00:00Z'\n",
                "generate --format questdb --seed -5 --scale 10 --use-case iot \
                 --timestamp-end 2016-01-01T01:00:00Z",
            ),
            (
                "load influx",
                r#"{"urls": "http://x", "file": ["a", "b"], "gzip": false, "workers": 3}"#,
                "load influx --url http://x --file a b --gzip false --workers 3",
            ),
            (
                "load questdb --workers 2 --hash-workers",
                "workers: 7\ngenerate: true\nfaithful: false\n",
                "load questdb --workers 2 --hash-workers --generate",
            ),
            ("load sink --file a b", "file: c\nlimit: 5", "load sink --file a b --limit 5"),
            ("sink", "count-rows: true\nhttp = 9000\n", "sink --count-rows --http 9000"),
        ] {
            assert_eq!(parsed(line, Some(config)), parsed(typed, None), "{config} (tsbs_config-1)");
            assert!(parsed(line, Some(config)).is_ok(), "{config}");
        }
    }

    #[test]
    fn errors_in_a_configuration_file_are_named() {
        for (line, config, expected) in [
            ("generate", "scale: 10", "FILE: the following required arguments were not provided"),
            ("generate", "format: xml", "FILE: invalid value 'xml' for '--format <FORMAT>'"),
            ("load sink", "scales: 10", "FILE: there is no flag --scales"),
            ("load sink", "config: x", "FILE: there is no flag --config"),
            ("load sink", "loader:\n  runner: x", "FILE: line 1 is not a flag and its value"),
            ("load sink", "[loader]", "FILE: line 1 is not a flag and its value"),
            ("load sink", "limit: 1\nseed: \"1", "FILE: line 2 is not a flag and its value"),
            ("load sink", "{\"a\": {}}", "FILE: a has a value that is not a text, number or bool"),
            ("load sink", "{", "FILE: EOF while parsing an object at line 1 column 1"),
            ("load sink --generate", "file: x", "FILE: the argument '--generate' cannot be used"),
        ] {
            let error = parsed(line, Some(config)).unwrap_err();
            assert!(error.starts_with(&format!("error: {expected}")), "{config}: {error}");
        }
        let error = parsed("generate --config /nowhere/at/all", None).unwrap_err();
        assert!(error.starts_with("error: read /nowhere/at/all: No such file"), "{error}");
    }
}
