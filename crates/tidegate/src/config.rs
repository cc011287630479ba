//! The configuration of a server, assembled from its sources: `tidegate serve` uses it, and
//! `tidegate config` checks and prints it.
//!
//! - tidegate_config-1. Arguments override the environment, the environment overrides the file, and
//!   the file overrides the defaults.
//! - tidegate_config-2. A variable `TIDEGATE_...` or a key of the file that is not a key of the
//!   configuration is an error, because it was meant to change something. All errors are reported
//!   at once.
//! - tidegate_config-3. Printed output contains no secret, and no text that could be read back as
//!   one.
//! - tidegate_config-4. The file is `conf/tidegate.toml` in the directory of the database, if it
//!   exists, or the one that `--config` names. `TIDEGATE_..._FILE` names a file with the value of a
//!   key, so that no secret needs to be in the environment.
//!
//! Not here: the keys and their values (`tidegate_server::config`).

use std::fs::read_to_string;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tidegate_model::ByteCount;
use tidegate_query::ConfigEntry;
use tidegate_server::config::{Config, KEYS, Key, Source};
use toml::de::{DeTable, DeValue};

use crate::args::{ConfigArguments, ConfigCommand};
use crate::error::{Error, Exit, Problems, Result};
use crate::output::{STDOUT, Target};
use crate::session::Session;

/// Prefix of the environment variables.
const PREFIX: &str = "TIDEGATE_";
/// Variables that are not keys: the first is for every command, the second for `sql`, the last for
/// this module.
const NO_KEYS: [&str; 3] = ["TIDEGATE_DB", "TIDEGATE_URL", CONFIG];
/// The variable that names the file, if `--config` does not.
const CONFIG: &str = "TIDEGATE_CONFIG";
/// Suffix of a variable that names a file with a value (tidegate_config-4).
const FILE_SUFFIX: &str = "_FILE";
/// Largest size of the file in bytes; all keys together take a few thousand.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Runs `tidegate config check` and `tidegate config print`.
pub(crate) fn run(command: &ConfigCommand, session: &Session) -> Result<Exit> {
    let arguments = match command {
        ConfigCommand::Check(arguments) | ConfigCommand::Print(arguments) => arguments,
    };
    let config = read(arguments, session)?;
    let text = match command {
        ConfigCommand::Check(_) => {
            let warnings = tidegate_server::check(&config)?;
            let warned = warnings.iter().map(|warning| format!("warning: {warning}\n"));
            warned.collect::<String>() + "the configuration is sound\n"
        }
        ConfigCommand::Print(_) => printed(&config),
    };
    let mut target = Target::stdout();
    match target.write_all(text.as_bytes()).and_then(|()| target.flush()) {
        Err(_) if target.is_closed() => Ok(Exit::Done),
        Err(source) => Err(Error::Output { place: STDOUT.to_owned(), source: source.into() }),
        Ok(()) => Ok(Exit::Done),
    }
}

/// Formats all keys as a configuration file; secrets become comments (tidegate_config-3).
fn printed(config: &Config) -> String {
    let line = |entry: ConfigEntry| match entry.is_sensitive {
        true => format!("# {} is not shown # {}\n", entry.property_path, entry.value_source),
        false => {
            let value = quoted(&entry.value);
            format!("{} = {value} # {}\n", entry.property_path, entry.value_source)
        }
    };
    config.entries().into_iter().map(line).collect()
}

/// Quotes a text as a TOML string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Reads the configuration from all its sources (tidegate_config-1).
pub(crate) fn read(arguments: &ConfigArguments, session: &Session) -> Result<Config> {
    let environment = &session.environment;
    let variable = environment.variables.iter().find(|(name, _)| name == CONFIG);
    let named = arguments.config.clone().or_else(|| variable.map(|(_, path)| PathBuf::from(path)));
    let path = named.clone().unwrap_or_else(|| session.db.join("conf").join("tidegate.toml"));
    let file = match read_bounded(&path) {
        Ok(text) => Some((path, text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => None,
        Err(source) => return Err(Error::ConfigFile { path, source }),
    };
    let mut reading = Reading::new(environment.memory);
    if let Some((path, text)) = &file {
        reading.file(path, text);
    }
    reading.environment(&environment.variables);
    reading.arguments(arguments);
    reading.finish()
}

#[expect(clippy::disallowed_methods, reason = "the file of a user, not of the database")]
fn read_bounded(path: &Path) -> io::Result<String> {
    if path.metadata()?.len() > FILE_BYTES_MAX {
        let what = format!("it is larger than {FILE_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    read_to_string(path)
}

/// A configuration during assembly, with the errors so far.
struct Reading {
    config: Config,
    problems: Problems,
}

impl Reading {
    fn new(memory: ByteCount) -> Reading {
        Reading { config: Config::standard(memory), problems: Problems::default() }
    }

    fn finish(mut self) -> Result<Config> {
        self.problems.0.extend(self.config.check().err().map(|error| error.to_string()));
        match self.problems.0.is_empty() {
            true => Ok(self.config),
            false => Err(Error::Configuration(self.problems)),
        }
    }

    /// Sets a key; `place` is the file and line of the value, and empty for arguments and
    /// variables.
    fn set(&mut self, key: &str, value: &str, source: Source, place: &str) {
        if let Err(error) = self.config.set_from(key, value, source) {
            self.problems.0.push(format!("{place}{error}"));
        }
    }

    fn file(&mut self, path: &Path, text: &str) {
        let place = |offset: usize| {
            let line = text[..offset.min(text.len())].matches('\n').count() + 1;
            format!("{}, line {line}: ", path.display())
        };
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            let place = place(error.span().map_or(0, |span| span.start));
            self.problems.0.push(format!("{place}{}", error.message()));
        }
        let mut values = Vec::new();
        flatten("", table.get_ref(), &mut values);
        for (key, value, offset) in values {
            let place = place(offset);
            match value {
                Some(value) => self.set(&key, &value, Source::File, &place),
                None => self.problems.0.push(format!("{place}`{key}` takes a text or a number")),
            }
        }
    }

    fn environment(&mut self, variables: &[(String, String)]) {
        for (variable, value) in variables {
            if !variable.starts_with(PREFIX) || NO_KEYS.contains(&variable.as_str()) {
                continue;
            }
            let in_file = variable.strip_suffix(FILE_SUFFIX).and_then(key_of);
            match (key_of(variable), in_file) {
                (Some(key), _) => self.set(key.name, value, Source::Environment, ""),
                (None, Some(key)) => match read_bounded(Path::new(value)) {
                    Ok(value) => {
                        let value = value.trim_end_matches(['\r', '\n']);
                        self.set(key.name, value, Source::Environment, "");
                    }
                    Err(error) => {
                        self.problems.0.push(format!("read {value}, for {variable}: {error}"));
                    }
                },
                (None, None) => {
                    let problem = "there is no configuration key for the variable";
                    self.problems.0.push(format!("{problem} {variable}"));
                }
            }
        }
    }

    fn arguments(&mut self, arguments: &ConfigArguments) {
        let pairs = arguments.set.iter().map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        for (key, value) in pairs {
            self.set(key.trim(), value.trim(), Source::Arguments, "");
        }
        for (key, value) in [
            ("http.listen", &arguments.http),
            ("ilp.tcp.listen", &arguments.ilp),
            ("http.admin_listen", &arguments.admin),
            ("memory.limit", &arguments.memory),
        ] {
            if let Some(value) = value {
                self.set(key, value, Source::Arguments, "");
            }
        }
    }
}

fn key_of(variable: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.variable() == variable)
}

/// Collects the values of a table with their keys and offsets; `None` for a value that no key
/// takes.
fn flatten(prefix: &str, table: &DeTable<'_>, values: &mut Vec<(String, Option<String>, usize)>) {
    for (name, value) in table {
        let key = format!("{prefix}{}", name.get_ref());
        match value.get_ref() {
            DeValue::Table(inner) => flatten(&format!("{key}."), inner, values),
            other => values.push((key, text_of(other), name.span().start)),
        }
    }
}

/// Returns a value as the command line writes it: a list as its elements with commas between them.
fn text_of(value: &DeValue<'_>) -> Option<String> {
    Some(match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Array(parts) => {
            let parts = parts.iter().map(|part| match part.get_ref() {
                DeValue::Array(_) => None,
                part => text_of(part),
            });
            parts.collect::<Option<Vec<_>>>()?.join(",")
        }
        DeValue::Integer(_) | DeValue::Datetime(_) | DeValue::Table(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: ByteCount = ByteCount(1 << 30);

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    fn problems(reading: Reading) -> Vec<String> {
        reading.problems.0
    }

    #[test]
    fn arguments_override_the_environment_which_overrides_the_file() {
        let mut reading = Reading::new(MEMORY);
        let file = "durability = \"async\"\n[http]\nlisten = \"127.0.0.1:1\"\nmax_connections = 9\n\
                    [ilp]\nmax_columns = 4\ntcp.commit_rows = 1_000\n";
        // A number counts as it is written.
        reading.file(Path::new("a.toml"), &file.replace("1_000", "6"));
        reading.environment(&[
            pair("TIDEGATE_HTTP_LISTEN", "127.0.0.1:2"),
            pair("TIDEGATE_ILP_MAX_COLUMNS", "7"),
            pair("TIDEGATE_DB", "d"),
            pair("PATH", "/bin"),
        ]);
        reading.arguments(&ConfigArguments {
            http: Some("127.0.0.1:3".to_owned()),
            set: vec!["ilp.max_columns = 5".to_owned()],
            ..ConfigArguments::default()
        });
        let config = reading.finish().unwrap();
        assert_eq!(config.http.listen.unwrap().port(), 3, "tidegate_config-1");
        assert_eq!((config.tcp.commit_rows, config.ilp.max_columns), (6, 5), "tidegate_config-1");
        assert_eq!(config.http.max_connections, 9, "tidegate_config-1");
    }

    #[test]
    fn all_that_means_nothing_is_said_at_once() {
        let mut reading = Reading::new(MEMORY);
        let file = "[htpp]\nlisten = \"x\"\n\n[http]\nlisten = 5\nauth = { a = [[1]] }\nbad\n";
        reading.file(Path::new("a.toml"), file);
        reading.environment(&[pair("TIDEGATE_HTPP_LISTEN", "x")]);
        let problems = problems(reading);
        let starts = [
            "a.toml, line 7: ",
            "a.toml, line 2: configuration key `htpp.listen` does not exist",
            "a.toml, line 5: the configuration key `http.listen` cannot be `5`",
            "a.toml, line 6: `http.auth.a` takes a text or a number",
            "there is no configuration key for the variable TIDEGATE_HTPP_LISTEN",
        ];
        for start in starts {
            assert!(
                problems.iter().any(|it| it.starts_with(start)),
                "tidegate_config-2: {start}: {problems:?}"
            );
        }
        assert_eq!(problems.len(), starts.len(), "tidegate_config-2: {problems:?}");
        let error = Error::Configuration(Problems(problems));
        assert_eq!(error.exit(), Exit::Usage, "tidegate_config-2");
    }

    #[test]
    fn the_memory_of_rows_on_their_way_follows_that_of_all() {
        let parts = |set: &[&str]| {
            let mut reading = Reading::new(ByteCount(100 << 30));
            let set = set.iter().map(|&pair| pair.to_owned()).collect();
            reading.arguments(&ConfigArguments { set, ..ConfigArguments::default() });
            reading.finish().map(|config| (config.memory_limit.0, config.ingest_limit.0))
        };
        assert_eq!(parts(&["memory.limit=1000MiB"]).unwrap(), (1_000 << 20, 200 << 20));
        let both = parts(&["memory.ingest_limit=100MiB", "memory.limit=1GiB"]).unwrap();
        assert_eq!(both, (1 << 30, 100 << 20));
        let error = parts(&["memory.limit=1GiB", "memory.ingest_limit=2GiB"]).unwrap_err();
        let expected = "the configuration key `memory.ingest_limit` cannot be `2.0 GiB`: it is a \
                        part of memory.limit, and queries need the rest";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the file of a user, not of the database")]
    fn a_secret_can_be_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "127.0.0.1:77\n").unwrap();
        let mut reading = Reading::new(MEMORY);
        reading.environment(&[pair("TIDEGATE_HTTP_LISTEN_FILE", path.to_str().unwrap())]);
        assert_eq!(reading.config.http.listen.unwrap().port(), 77, "tidegate_config-4");
        reading.environment(&[pair("TIDEGATE_HTTP_LISTEN_FILE", "/nothing/there")]);
        assert!(
            problems(reading)[0].starts_with("read /nothing/there, for TIDEGATE_HTTP"),
            "tidegate_config-4"
        );
    }

    // The printed file had `auth.admin_password = "****"`, which was then taken as the password; it
    // is not the well-known default, so the server listened for other machines with it.
    #[test]
    fn a_printed_configuration_has_no_password() {
        let mut config = Config::standard(MEMORY);
        config.set("auth.admin_password", "a better one").unwrap();
        config.set("auth.readonly_enabled", "true").unwrap();
        let text = printed(&config);
        assert!(
            !text.contains("a better one") && !text.contains("****"),
            "tidegate_config-3: {text}"
        );
        assert!(
            text.contains("# auth.admin_password is not shown # command line\n"),
            "tidegate_config-3: {text}"
        );
        let mut reading = Reading::new(MEMORY);
        reading.file(Path::new("a.toml"), &text);
        let read = reading.finish().unwrap();
        let value = |key: &str| {
            let entries = read.entries().into_iter();
            let found = entries.filter(|it| it.property_path == key).map(|it| it.value_source);
            found.collect::<String>()
        };
        assert_eq!((value("auth.admin_password"), value("http.auth")), texts("default", "file"));
        let mut reading = Reading::new(MEMORY);
        reading.environment(&[pair("TIDEGATE_AUTH_ADMIN_PASSWORD", "****")]);
        assert!(problems(reading)[0].contains("auth.admin_password"), "tidegate_config-3");
    }

    fn texts(one: &str, other: &str) -> (String, String) {
        (one.to_owned(), other.to_owned())
    }

    #[test]
    fn a_printed_configuration_reads_back_equal() {
        let mut config = Config::standard(MEMORY);
        config.set("ilp.timestamp_name", "a \"b\" #c").unwrap();
        let text = printed(&config);
        let mut reading = Reading::new(MEMORY);
        reading.file(Path::new("a.toml"), &text);
        let read = reading.finish().unwrap();
        let values = |config: &Config| {
            config.entries().into_iter().map(|entry| entry.value).collect::<Vec<_>>()
        };
        assert_eq!(values(&read), values(&config));
    }
}
