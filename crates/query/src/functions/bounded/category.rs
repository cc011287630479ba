//! The growth of each function, that is, the size of its values: each has one entry, and a test
//! checks that none is missing.
//!
//! - category-1. Every function that a statement can call has exactly one growth here. A function
//!   without one cannot be called.

use std::collections::HashMap;
use std::sync::LazyLock;

use Growth::{Fixed, Grows, Input, Measured};
use datafusion::common::Result;

use super::call::Call;
use super::growth;

/// The size of the values of a function.
#[derive(Clone, Copy)]
pub(crate) enum Growth {
    /// Of a fixed width: a number, a time, a name of the system, or one of its arguments unchanged.
    Fixed,
    /// The same, made of texts or lists.
    Measured,
    /// At most so many times the size of its arguments together.
    Input(u64),
    /// The bound that this function computes.
    Grows(fn(&Call<'_>) -> Result<u64>),
}

/// Prefixes of the catalog's functions, which return names of tables, columns and users.
const OF_CATALOG: [&str; 6] = ["pg_", "has_", "tidegate_", "current_", "to_reg", "session_"];

/// Names, with `, ` between them, as in `MEASURED`.
const FIXED: [&str; 4] = [
    // Numbers.
    "abs, acos, acosh, asin, asinh, atan, atan2, atanh, cbrt, ceil, cos, cosh, cot, degrees, \
     exp, factorial, floor, gcd, isnan, iszero, lcm, ln, log, log10, log2, nanvl, pi, power, \
     radians, random, rnd_boolean, rnd_byte, rnd_char, rnd_date, rnd_double, rnd_float, \
     rnd_int, rnd_long, rnd_short, rnd_timestamp, round, signum, sin, sinh, sqrt, tan, tanh, \
     trunc",
    // Times.
    "current_date, current_time, date_bin, date_part, date_trunc, dateadd, date_diff, \
     datediff, clock_timestamp, nextval, setval, currval, lastval, bpchar, \
     getdatabaseencoding, host, oidvectortypes, inet_client_addr, inet_server_addr, \
     row_security_active, timeofday, day, day_of_week, day_of_week_sunday_first, \
     days_in_month, from_unixtime, hour, is_leap_year, justify_days, justify_hours, \
     justify_interval, make_date, make_time, micros, millis, \
     minute, month, nanos, now, current_timestamp, transaction_timestamp, \
     statement_timestamp, localtimestamp, make_timestamp, div, width_bucket, bitwise xor, \
     overlaps, \
     second, sysdate, systimestamp, systimestamp_ns, timestamp_ceil, timestamp_floor, \
     to_local_time, today, to_timezone, tomorrow, to_utc, week_of_year, year, yesterday, \
     whole day, at time zone",
    // Texts of a few bytes.
    "arrow_typeof, arrow_field, arrow_metadata, build, cancel_query, chr, to_hex, uuid, \
     version, wait_wal_table, input_file_name, file_row_index, union_tag, age, \
     obj_description, col_description, shobj_description, format_type, user, txid_current, \
     array_lower, array_upper, list length",
    // Their arguments unchanged.
    "get_field, named_struct, struct, union_extract, with_metadata",
];

const MEASURED: &str = "\
    LIKE, ILIKE, ~, list @>, list &&, array_avg, array_dims, array_distance, array_has, \
    array_has_all, array_has_any, array_length, array_ndims, array_position, array_product, \
    array_sum, ascii, bit_length, cardinality, character_length, contains, cosine_distance, \
    digest, empty, ends_with, find_in_set, inner_product, levenshtein, md5, octet_length, \
    regexp_count, regexp_instr, regexp_like, sha224, sha256, sha384, sha512, starts_with, \
    strpos, to_date, to_time, to_timestamp, to_timestamp_micros, to_timestamp_millis, \
    to_timestamp_nanos, to_timestamp_ns, to_timestamp_seconds, to_unixtime, set_config";

/// The functions whose values may grow.
const GROWING: &[(&str, Growth)] = &[
    ("array_add", Input(16)),
    ("array_any_value", Input(1)),
    ("array_append", Input(1)),
    ("array_compact", Input(1)),
    ("array_concat", Input(1)),
    ("array_distinct", Input(1)),
    ("array_element", Input(1)),
    ("array_except", Input(1)),
    ("array_intersect", Input(1)),
    ("array_max", Input(1)),
    ("array_min", Input(1)),
    ("array_normalize", Input(16)),
    ("array_pop_back", Input(1)),
    ("array_pop_front", Input(1)),
    ("array_positions", Input(16)),
    ("array_prepend", Input(1)),
    ("array_remove", Input(1)),
    ("array_remove_all", Input(1)),
    ("array_remove_n", Input(1)),
    ("array_repeat", Grows(growth::repeated_in_list)),
    ("array_replace", Grows(growth::replaced_elements)),
    ("array_replace_all", Grows(growth::replaced_elements)),
    ("array_replace_n", Grows(growth::replaced_elements)),
    ("array_resize", Grows(growth::resized)),
    ("array_reverse", Input(1)),
    ("array_scale", Input(16)),
    ("array_slice", Input(1)),
    ("array_sort", Input(1)),
    ("array_subtract", Input(16)),
    ("array_to_string", Grows(growth::joined_elements)),
    // The evaluated function has its own bounds.
    ("array_union", Input(1)),
    ("arrays_zip", Grows(growth::zipped)),
    // These become casts before they are evaluated (bounded-4).
    ("arrow_cast", Input(64)),
    ("arrow_try_cast", Input(64)),
    ("btrim", Input(1)),
    // Texts joined, without NULL.
    ("||", Input(1)),
    ("cast as varchar(n)", Input(1)),
    ("cast list", Grows(growth::written)),
    ("cast text", Input(1)),
    ("cast binary as varchar", Input(4)),
    ("cast varchar as binary", Input(1)),
    ("cast_to_type", Input(64)),
    ("coalesce", Input(1)),
    ("concat", Input(1)),
    ("concat_ws", Grows(growth::joined)),
    ("decode", Input(2)),
    // As hexadecimal digits.
    ("encode", Input(2)),
    ("flatten", Input(1)),
    ("format", Grows(growth::formatted)),
    ("generate_series", Grows(growth::steps)),
    ("greatest", Input(1)),
    // Some characters have longer ones in the other case: one becomes three.
    ("initcap", Input(3)),
    ("least", Input(1)),
    ("left", Input(1)),
    // A date of four bytes becomes a view and a text.
    ("cast list as texts", Input(8)),
    ("lower", Input(3)),
    ("lpad", Grows(growth::padded)),
    ("ltrim", Input(1)),
    ("make_array", Input(1)),
    ("map", Input(1)),
    ("map_entries", Input(1)),
    ("map_extract", Input(1)),
    ("map_keys", Input(1)),
    ("map_values", Input(1)),
    ("nullif", Input(1)),
    ("nvl", Input(1)),
    ("nvl2", Input(1)),
    // A negative length gives a part of the text twice.
    ("overlay", Input(2)),
    ("parse_ident", Input(16)),
    ("quote_ident", Input(2)),
    ("quote_literal", Input(2)),
    ("range", Grows(growth::steps)),
    ("regexp_match", Grows(growth::matched_groups)),
    ("regexp_matches", Grows(growth::all_matched_groups)),
    ("regexp_replace", Grows(growth::replaced_by_pattern)),
    // The parts between matches, each a value of its own, as in `string_to_array`.
    ("regexp_split_to_array", Input(24)),
    ("regexp_substr", Input(1)),
    ("repeat", Grows(growth::repeated)),
    ("replace", Grows(growth::replaced)),
    ("reverse", Input(1)),
    ("right", Input(1)),
    ("rnd_str", Grows(growth::random_texts)),
    ("rnd_symbol", Grows(growth::random_texts)),
    ("rnd_varchar", Grows(growth::random_texts)),
    ("rpad", Grows(growth::padded)),
    ("rtrim", Input(1)),
    // A character becomes two, and twelve more surround them.
    ("similar pattern", Input(16)),
    ("split_part", Input(1)),
    // Each character becomes a value of its own.
    ("string_to_array", Input(24)),
    ("substr", Input(1)),
    ("substr_index", Input(1)),
    // `D` of a pattern becomes a day of nine letters, `%c` of `date_format` a whole date.
    ("to_char", Input(64)),
    ("to_str", Input(16)),
    // A character of one byte may become one of four.
    ("translate", Input(4)),
    ("try_cast_to_type", Input(64)),
    ("upper", Input(3)),
];

static GROWTHS: LazyLock<HashMap<&str, Growth>> = LazyLock::new(|| {
    let fixed = FIXED.into_iter().flat_map(names).map(|name| (name, Fixed));
    let measured = names(MEASURED).map(|name| (name, Measured));
    fixed.chain(measured).chain(GROWING.iter().copied()).collect()
});

fn names(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.split(", ")
}

/// Returns the growth of a function, if it has one (category-1).
pub(crate) fn growth_of(name: &str) -> Option<Growth> {
    let of_catalog = || OF_CATALOG.iter().any(|start| name.starts_with(start)).then_some(Fixed);
    GROWTHS.get(name).copied().or_else(of_catalog)
}

/// Returns the names of all entries.
#[cfg(test)]
pub(super) fn lines() -> Vec<&'static str> {
    let growing = GROWING.iter().map(|(name, _)| *name);
    FIXED.into_iter().flat_map(names).chain(names(MEASURED)).chain(growing).collect()
}
