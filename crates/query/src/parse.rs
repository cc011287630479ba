//! The text of statements: splitting it, telling our statements from queries, and parsing ours.
//!
//! - Every error has the place of the token that caused it.
//! - A statement that is not one of ours is a query, and is left to sqlparser as it is.
//!
//! The grammar is that of `CREATE TABLE`, `ALTER TABLE`, `SHOW`, `SET` and similar statements, and
//! of the parts of `INSERT`, `UPDATE` and `DELETE` before their queries and expressions; QuestDB's
//! clauses that change nothing here are accepted with a notice. Not here: executing statements
//! (`ddl`, `dml`, `system_tables`), and queries (`plan`).

mod token;
mod cursor;
mod types;
pub(crate) mod create;
pub(crate) mod copy_options;
pub(crate) mod rows;
mod settings;
pub(crate) mod statement;

pub(crate) use create::{CreateAs, DefaultClause};
pub use create::{TableDefinition, parse_create_table};
pub(crate) use token::count_tokens;
pub use token::{Token, TokenKind, first_token, next_token, split_statements, tokenize};

pub(crate) use cursor::Cursor;
pub(crate) use rows::{Insert, Modification, OnConflict, RowChange, Target};
pub(crate) use settings::shown as shown_ttl;
pub(crate) use statement::{Explain, Name, Statement, parse_statement};
pub(crate) use token::blanked;
pub(crate) use types::column_type;
pub use types::column_type as parse_column_type;
