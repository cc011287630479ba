//! Settings, which `SET` changes and `SHOW` shows.
//!
//! - An accepted setting has an effect, unless it is in the list `QUIET`: clients of PostgreSQL
//!   send those settings to every server, and they need no effect here.
//! - settings-1. Values are stored as they are shown.
//! - settings-2. The settings of a session are bounded: `limits::SESSION_SETTINGS` of
//!   `limits::SETTING_BYTES`, and `limits::SESSION_SETTING_BYTES` in all.
//!
//! Names are compared without regard to case. An unknown name with a point in it is stored, as in
//! PostgreSQL. Not here: configuration keys of a server, which `SHOW` shows too (`host`).

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_model::limits;

use super::Session;
use crate::cancel::Timeout;
use crate::error::SettingProblem;
use crate::role::Role;
use crate::types::zone::Zone;

/// The version of PostgreSQL that is reported to clients.
pub(crate) const SERVER_VERSION: &str = "16.0";
/// The same as a number.
const SERVER_VERSION_NUM: &str = "160000";

/// The maximal timeout of a statement; a server's limit for its clients is the same.
const TIMEOUT_MAX: Duration = Duration::from_hours(24);

/// A setting.
struct Setting {
    /// The name in PostgreSQL's spelling.
    name: &'static str,
    kind: Kind,
    /// A description of its purpose.
    about: &'static str,
}

/// The values that a setting takes.
enum Kind {
    /// The maximal run time of a statement.
    StatementTimeout,
    /// On or off; off by default.
    Switch,
    /// Any text, with this default.
    Text(&'static str),
    /// One value, in any of these spellings; the first one is shown.
    Only(&'static [&'static str]),
    /// One of these, the first by default.
    OneOf(&'static [&'static str]),
    /// A time zone.
    Zone,
    /// An integer between the first two, with the third as default.
    Number(i32, i32, &'static str),
    /// A value that cannot be changed.
    Fixed(fn(&Session) -> String),
}

const SETTINGS: &[Setting] = &[
    Setting {
        name: "application_name",
        kind: Kind::Text(""),
        about: "The name of the program that gives statements.",
    },
    Setting {
        name: "block_size",
        kind: Kind::Fixed(|_| "8192".to_owned()),
        about: "Bytes of a block of PostgreSQL's files, which its clients ask for.",
    },
    Setting {
        name: "client_encoding",
        kind: Kind::Only(&["UTF8", "UTF-8", "UNICODE"]),
        about: "The encoding of texts.",
    },
    Setting {
        name: "DateStyle",
        kind: Kind::Only(&["ISO, MDY", "ISO", "ISO, DMY", "ISO, YMD", "ISO,MDY"]),
        about: "The form of dates and times.",
    },
    Setting {
        name: "default_transaction_read_only",
        kind: Kind::Switch,
        about: "Whether statements that change something are refused.",
    },
    Setting {
        name: "extra_float_digits",
        kind: Kind::Number(-15, 3, "1"),
        about: "Digits of floats; all that are needed are always shown.",
    },
    Setting {
        name: "integer_datetimes",
        kind: Kind::Fixed(|_| "on".to_owned()),
        about: "Whether times are integers.",
    },
    Setting {
        name: "IntervalStyle",
        kind: Kind::OneOf(&["postgres", "iso_8601"]),
        about: "The form of intervals that clients of PostgreSQL get.",
    },
    Setting {
        name: "is_superuser",
        kind: Kind::Fixed(is_superuser),
        about: "Whether the user may do everything.",
    },
    Setting {
        name: "lc_collate",
        kind: Kind::Fixed(|_| "C".to_owned()),
        about: "The order of texts: that of their bytes.",
    },
    Setting {
        name: "lc_ctype",
        kind: Kind::Fixed(|_| "C".to_owned()),
        about: "What letters are, for clients of PostgreSQL.",
    },
    Setting {
        name: "max_identifier_length",
        kind: Kind::Fixed(|_| limits::NAME_BYTES.to_string()),
        about: "Bytes of a name.",
    },
    Setting {
        name: "max_index_keys",
        kind: Kind::Fixed(|_| "32".to_owned()),
        about: "Columns of an index of PostgreSQL, which its clients ask for.",
    },
    Setting {
        name: "search_path",
        kind: Kind::Text("\"$user\", public"),
        about: "Schemas; names without one are those of `public`.",
    },
    Setting {
        name: "server_encoding",
        kind: Kind::Fixed(|_| "UTF8".to_owned()),
        about: "The encoding of stored texts.",
    },
    Setting {
        name: "server_version",
        kind: Kind::Fixed(|_| SERVER_VERSION.to_owned()),
        about: "The version of PostgreSQL that clients are to expect.",
    },
    Setting {
        name: "server_version_num",
        kind: Kind::Fixed(|_| SERVER_VERSION_NUM.to_owned()),
        about: "The same as a number.",
    },
    Setting {
        name: "standard_conforming_strings",
        kind: Kind::Only(&["on"]),
        about: "Whether a backslash in a text is a backslash.",
    },
    Setting {
        name: "statement_timeout",
        kind: Kind::StatementTimeout,
        about: "How long a statement may work; 0 for ever.",
    },
    Setting {
        name: "tidegate_version",
        kind: Kind::Fixed(|_| env!("CARGO_PKG_VERSION").to_owned()),
        about: "The version of Tidegate.",
    },
    Setting {
        name: "TimeZone",
        kind: Kind::Zone,
        about: "The time zone that times are read and shown in, which is UTC.",
    },
    Setting {
        name: "transaction_isolation",
        kind: Kind::Fixed(|_| "read committed".to_owned()),
        about: "What a statement sees of others: what they have committed before it began.",
    },
];

/// Settings that are stored without effect, with their defaults.
const QUIET: &[(&str, &str)] = &[
    ("bytea_output", "hex"),
    ("check_function_bodies", "on"),
    ("client_min_messages", "notice"),
    ("default_table_access_method", "heap"),
    ("default_tablespace", ""),
    ("default_transaction_deferrable", "off"),
    ("default_transaction_isolation", "read committed"),
    ("default_with_oids", "off"),
    ("enable_nestloop", "on"),
    ("enable_seqscan", "on"),
    ("force_parallel_mode", "off"),
    ("geqo", "on"),
    ("gin_fuzzy_search_limit", "0"),
    ("idle_in_transaction_session_timeout", "0"),
    ("idle_session_timeout", "0"),
    ("jit", "off"),
    ("lc_messages", "C"),
    ("lc_monetary", "C"),
    ("lc_numeric", "C"),
    ("lc_time", "C"),
    ("lock_timeout", "0"),
    ("quote_all_identifiers", "off"),
    ("row_security", "on"),
    ("session_replication_role", "origin"),
    ("synchronize_seqscans", "on"),
    ("synchronous_commit", "on"),
    ("temp_tablespaces", ""),
    ("transaction_timeout", "0"),
    ("work_mem", "4MB"),
    ("xmloption", "content"),
];

/// A setting as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) name: String,
    pub(crate) value: String,
    /// A description of its purpose.
    pub(crate) about: &'static str,
}

fn is_superuser(session: &Session) -> String {
    switch_text(session.origin().role == Role::Admin)
}

fn switch_text(is_on: bool) -> String {
    if is_on { "on".to_owned() } else { "off".to_owned() }
}

fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name.eq_ignore_ascii_case(name))
}

fn find_quiet(name: &str) -> Option<&'static (&'static str, &'static str)> {
    QUIET.iter().find(|(quiet, _)| quiet.eq_ignore_ascii_case(name))
}

/// Sets a setting of a session, or resets it.
pub(crate) fn set(
    session: &Session,
    name: &str,
    value: Option<&str>,
) -> Result<(), SettingProblem> {
    // settings-2.
    if value.is_some_and(|value| name.len() + value.len() > limits::SETTING_BYTES) {
        return Err(SettingProblem::TooLong { name: name.to_owned() });
    }
    let unknown = || SettingProblem::Unknown { name: name.to_owned() };
    let (key, value) = match (find(name), value) {
        (Some(setting), Some(value)) => {
            let value = checked(session, setting, value)?;
            (setting.name.to_owned(), Some(value))
        }
        (Some(setting), None) => (setting.name.to_owned(), None),
        (None, value) => {
            let quiet = find_quiet(name).map(|(quiet, _)| (*quiet).to_owned());
            let own = name.contains('.').then(|| name.to_ascii_lowercase());
            (quiet.or(own).ok_or_else(unknown)?, value.map(str::to_owned))
        }
    };
    let value = value.or_else(|| session.0.first.get()?.get(&key).cloned());
    let mut values = session.values();
    // settings-2.
    if value.is_some() && values.len() >= limits::SESSION_SETTINGS && !values.contains_key(&key) {
        return Err(SettingProblem::TooMany);
    }
    if let Some(value) = &value {
        let others = values.iter().filter(|(other, _)| **other != key);
        let bytes = others.map(|(key, value)| key.len() + value.len()).sum::<usize>();
        if limits::SESSION_SETTING_BYTES < bytes + key.len() + value.len() {
            return Err(SettingProblem::TooManyBytes);
        }
    }
    match value {
        Some(value) => values.insert(key, value),
        None => values.remove(&key),
    };
    Ok(())
}

/// Resets all settings of a session.
pub(crate) fn reset(session: &Session) {
    *session.values() = session.0.first.get().cloned().unwrap_or_default();
}

/// Returns the value as it is stored (settings-1).
fn checked(session: &Session, setting: &Setting, value: &str) -> Result<String, SettingProblem> {
    let refused = |expected: &str| SettingProblem::Value {
        name: setting.name.to_owned(),
        value: value.to_owned(),
        expected: expected.to_owned(),
    };
    match &setting.kind {
        Kind::StatementTimeout => {
            let span = parse_span(value).filter(|span| *span <= TIMEOUT_MAX);
            span.map(shown_span).ok_or_else(|| {
                refused("milliseconds, or a time like 5s, of at most 24 hours, or 0 for none")
            })
        }
        Kind::Switch => parse_switch(value).map(switch_text).ok_or_else(|| refused("on or off")),
        Kind::Text(_) => Ok(value.to_owned()),
        Kind::Only(known) => {
            let is_it = |text: &&&str| text.eq_ignore_ascii_case(value.trim());
            known.iter().find(is_it).map(|_| known[0].to_owned()).ok_or_else(|| refused(known[0]))
        }
        Kind::OneOf(known) => {
            let is_it = |text: &&&str| text.eq_ignore_ascii_case(value.trim());
            let found = known.iter().find(is_it).map(|text| (*text).to_owned());
            found.ok_or_else(|| refused(&known.join(" or ")))
        }
        Kind::Zone => match Zone::parse(value).or_else(|| posix_zone(value)) {
            Some(zone) if is_utc(zone) => Ok("UTC".to_owned()),
            Some(_) => Err(SettingProblem::NotUtc { zone: value.to_owned() }),
            None => Err(refused("a time zone")),
        },
        Kind::Number(low, high, _) => {
            let number = value.trim().parse::<i32>().ok().filter(|it| (*low..=*high).contains(it));
            let expected = format!("a number from {low} to {high}");
            number.map(|number| number.to_string()).ok_or_else(|| refused(&expected))
        }
        Kind::Fixed(known) if known(session).eq_ignore_ascii_case(value) => Ok(known(session)),
        Kind::Fixed(_) => Err(SettingProblem::Fixed { name: setting.name.to_owned() }),
    }
}

/// Parses `0`, `GMT`, `LOCAL` and similar names of UTC.
fn posix_zone(value: &str) -> Option<Zone> {
    let value = value.trim();
    let is_utc = ["0", "GMT", "LOCAL", "DEFAULT", "Zulu", "UCT"];
    is_utc.iter().any(|it| it.eq_ignore_ascii_case(value)).then_some(Zone::Fixed(0))
}

/// Returns true for a zone whose local time was and will be UTC, as far as its rules tell.
fn is_utc(zone: Zone) -> bool {
    const HALF_YEAR: i64 = 15_778_800;
    (0..140).all(|halves| zone.offset_at(halves * HALF_YEAR) == 0)
}

/// Returns a setting of a session; `None` if there is none of this name. `timeout` is that of a
/// statement without a setting.
pub(crate) fn shown(session: &Session, timeout: Timeout, name: &str) -> Option<Shown> {
    if let Some(setting) = find(name) {
        return Some(shown_setting(session, timeout, setting));
    }
    let values = session.values();
    if let Some((quiet, first)) = find_quiet(name) {
        let value = values.get(*quiet).map_or(*first, String::as_str).to_owned();
        let about = "It has no effect here.";
        return Some(Shown { name: (*quiet).to_owned(), value, about });
    }
    let key = name.to_ascii_lowercase();
    let value = values.get(&key)?.clone();
    Some(Shown { name: key, value, about: "Set by the client." })
}

fn shown_setting(session: &Session, timeout: Timeout, setting: &Setting) -> Shown {
    let set = session.values().get(setting.name).cloned();
    let first = || match &setting.kind {
        Kind::StatementTimeout => match timeout {
            Timeout::Never => "0".to_owned(),
            Timeout::After(span) => shown_span(span),
        },
        Kind::Switch => switch_text(false),
        Kind::Text(first) | Kind::Number(_, _, first) => (*first).to_owned(),
        Kind::Only(known) | Kind::OneOf(known) => known[0].to_owned(),
        Kind::Zone => "UTC".to_owned(),
        Kind::Fixed(value) => value(session),
    };
    let value = set.unwrap_or_else(first);
    Shown { name: setting.name.to_owned(), value, about: setting.about }
}

/// Returns all settings that have an effect here, and others that were set.
pub(crate) fn all_settings(session: &Session, timeout: Timeout) -> Vec<Shown> {
    let known = SETTINGS.iter().map(|setting| shown_setting(session, timeout, setting));
    let mut all = known.collect::<Vec<_>>();
    let set = session.values().keys().cloned().collect::<Vec<_>>();
    let others = set.iter().filter(|name| find(name).is_none());
    all.extend(others.filter_map(|name| shown(session, timeout, name)));
    all.sort_by_key(|it| it.name.to_ascii_lowercase());
    all
}

pub(super) fn timeout(values: &BTreeMap<String, String>) -> Option<Timeout> {
    let span = parse_span(values.get("statement_timeout")?).expect("settings-1: it was checked");
    Some(if span.is_zero() { Timeout::Never } else { Timeout::After(span) })
}

pub(super) fn is_read_only(values: &BTreeMap<String, String>) -> bool {
    values.get("default_transaction_read_only").is_some_and(|value| value == "on")
}

fn parse_switch(value: &str) -> Option<bool> {
    let is_one_of = |words: &[&str]| words.iter().any(|word| word.eq_ignore_ascii_case(value));
    if is_one_of(&["on", "true", "yes", "1"]) {
        Some(true)
    } else {
        is_one_of(&["off", "false", "no", "0"]).then_some(false)
    }
}

/// Units of spans, the longest first, with their microseconds.
const UNITS: [(&str, u64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

/// Parses `250`, `250ms`, `1.5 s`: milliseconds without a unit.
fn parse_span(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = if unit.trim().is_empty() { "ms" } else { unit.trim() };
    let (_, micros) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let number = number.parse::<f64>().ok()?;
    let span = Duration::try_from_secs_f64(number * *micros as f64 / 1e6).ok()?;
    // A time below a microsecond is refused: rounded to 0 it would have another meaning.
    (number == 0.0 || 0 < span.as_micros()).then_some(span)
}

/// Formats `1500ms`, `5s`: in the longest unit of which it is a whole number.
fn shown_span(span: Duration) -> String {
    let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    if micros == 0 {
        return "0".to_owned();
    }
    let (unit, worth) = UNITS
        .iter()
        .find(|(_, worth)| micros.is_multiple_of(*worth))
        .expect("every span is a whole number of microseconds");
    format!("{}{unit}", micros / worth)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Timeout = Timeout::After(Duration::from_mins(1));

    #[track_caller]
    fn check(name: &str, value: &str, expected: &str) {
        let session = Session::default();
        let actual = match set(&session, name, Some(value)) {
            Ok(()) => shown(&session, MINUTE, name).expect("it was set").value,
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(actual, expected, "{name} = {value}");
        set(&session, name, None).unwrap();
    }

    #[test]
    fn values_are_kept_as_they_are_shown() {
        check("statement_timeout", "50", "50ms");
        check("STATEMENT_TIMEOUT", "1500 ms", "1500ms");
        check("statement_timeout", "0.5s", "500ms");
        check("statement_timeout", "120000", "2min");
        check("statement_timeout", "0", "0");
        check("client_encoding", "utf-8", "UTF8");
        check("datestyle", "iso", "ISO, MDY");
        check("timezone", "Etc/UTC", "UTC");
        check("default_transaction_read_only", "TRUE", "on");
        check("server_encoding", "utf8", "UTF8");
        check("my.own", "Anything", "Anything");
        check("jit", "off", "off");
    }

    #[test]
    fn a_refused_value_of_a_setting_names_the_allowed_ones() {
        check(
            "statement_timeout",
            "25h",
            "error: statement_timeout cannot be '25h': it takes milliseconds, or a time like 5s, \
             of at most 24 hours, or 0 for none",
        );
        check(
            "statement_timeout",
            "0.1us",
            "error: statement_timeout cannot be '0.1us': it takes milliseconds, or a time like 5s, \
             of at most 24 hours, or 0 for none",
        );
        check(
            "client_encoding",
            "LATIN1",
            "error: client_encoding cannot be 'LATIN1': it takes UTF8",
        );
        check(
            "timezone",
            "Mars/Olympus",
            "error: TimeZone cannot be 'Mars/Olympus': it takes a time zone",
        );
        check(
            "extra_float_digits",
            "9",
            "error: extra_float_digits cannot be '9': it takes a number from -15 to 3",
        );
    }

    #[test]
    fn fixed_and_unknown_settings_cannot_be_set() {
        let session = Session::default();
        let error = |name| set(&session, name, Some("x")).unwrap_err().to_string();
        assert_eq!(error("server_version"), "server_version cannot be changed");
        assert_eq!(error("tiemzone"), "there is no setting `tiemzone`");
        assert_eq!(shown(&session, MINUTE, "tiemzone"), None);
    }

    #[test]
    fn a_session_keeps_no_more_than_it_may() {
        let session = Session::default();
        let long = "x".repeat(limits::SETTING_BYTES);
        let error = set(&session, "my.own", Some(&long)).unwrap_err().to_string();
        assert_eq!(error, "my.own is longer than 2048 bytes, with its value");
        let own = |number: usize| format!("my.setting_{number}");
        for number in 0..limits::SESSION_SETTINGS {
            set(&session, &own(number), Some("on")).expect("settings-2");
        }
        let error = set(&session, "my.last", Some("on")).unwrap_err().to_string();
        assert_eq!(error, "256 settings are set, the maximum of a session");
        set(&session, &own(7), Some("off")).expect("it is there already");
        set(&session, &own(8), None).expect("one is less");
        set(&session, "my.last", Some("on")).expect("settings-2");
        for number in 0..limits::SESSION_SETTINGS {
            set(&session, &own(number), None).expect("nothing is needed to reset one");
        }
        let long = "x".repeat(limits::SETTING_BYTES - 20);
        let of_long = (0..20).map(|number| set(&session, &own(number), Some(&long)));
        assert_eq!(of_long.filter(|set| set.is_ok()).count(), 8, "settings-2");
        let error = set(&session, "my.last", Some(&long)).unwrap_err().to_string();
        assert_eq!(error, "the settings of the session exceed 16384 bytes, with their names");
        set(&session, &own(3), Some("on")).expect("it is shorter than before");
    }

    #[test]
    fn a_timeout_of_a_session_is_that_of_its_statements() {
        let session = Session::default();
        assert_eq!(session.timeout(), None);
        assert_eq!(shown(&session, MINUTE, "statement_timeout").unwrap().value, "1min");
        for (value, expected) in
            [("250", Timeout::After(Duration::from_millis(250))), ("0", Timeout::Never)]
        {
            set(&session, "statement_timeout", Some(value)).unwrap();
            assert_eq!(session.timeout(), Some(expected));
        }
        assert!(all_settings(&session, MINUTE).iter().any(|it| it.value == "0"));
        reset(&session);
        assert_eq!(session.timeout(), None);
    }

    #[test]
    fn reset_restores_the_settings_that_a_session_began_with() {
        let session = Session::default();
        let name = || shown(&session, MINUTE, "application_name").unwrap().value;
        set(&session, "application_name", Some("one")).unwrap();
        session.keep_first();
        set(&session, "application_name", Some("two")).unwrap();
        set(&session, "jit", Some("on")).unwrap();
        session.keep_first();
        reset(&session);
        assert_eq!((name().as_str(), session.setting("jit").unwrap().as_str()), ("one", "off"));
        set(&session, "application_name", Some("two")).unwrap();
        set(&session, "application_name", None).unwrap();
        assert_eq!(name(), "one");
    }

    #[test]
    fn every_setting_has_one_name() {
        let names = SETTINGS.iter().map(|setting| setting.name);
        let names = names.chain(QUIET.iter().map(|(name, _)| *name));
        let mut names = names.map(str::to_ascii_lowercase).collect::<Vec<_>>();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
