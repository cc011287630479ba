//! Values and types of SQL: literals, casts, decimals, the order of floats, intervals, times, and
//! texts of them.
//!
//! Functions over values and expressions; no module here knows a table or a plan as a whole.

pub(crate) mod tree_changes;
pub(crate) mod literal;
pub(crate) mod call_values;
pub(crate) mod expression_type;
pub(crate) mod coercion;
pub(crate) mod casts;
pub(crate) mod aggregate_cast_names;
pub(crate) mod list_types;
pub(crate) mod type_size;
pub(crate) mod expression_size;
pub(crate) mod list_texts;
pub(crate) mod decimal_constants;
pub(crate) mod decimals;
pub(crate) mod quotients;
pub(crate) mod wide_numbers;
pub(crate) mod float_order;
pub(crate) mod uuid_ipv4;
pub(crate) mod date_assignment;
pub(crate) mod time_text;
pub(crate) mod interval_text;
pub(crate) mod intervals;
pub(crate) mod day_lengths;
pub(crate) mod zone;
pub(crate) mod bucket;
