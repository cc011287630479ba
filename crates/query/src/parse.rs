//! The text of statements: splitting it, telling our statements from queries, and parsing ours.
//!
//! - G1. Every error has the place of the token that caused it.
//! - G2. A statement that is not one of ours is a query, and is left to sqlparser as it is.
//!
//! The grammar is that of `CREATE TABLE`, `ALTER TABLE`, `SHOW`, `SET` and similar statements, and
//! of the parts of `INSERT`, `UPDATE` and `DELETE` around their queries and expressions; QuestDB's
//! clauses that change nothing here are accepted with a notice. Not here: executing statements
//! (`ddl`, `dml`, `show`), and queries (`plan`).

mod token;
mod cursor;
mod types;
mod create;
mod rows;
mod copy;
mod settings;
mod session;
mod views;
mod alter;
mod statement;

pub(crate) use copy::{Copy, CopyPlace, CopySource};
pub(crate) use create::{CreateAs, DefaultClause};
pub use create::{TableDefinition, parse_create_table};
pub use session::{is_cancel, is_copy};
pub(crate) use token::count_tokens;
pub use token::{Position, Token, TokenKind, first_token, next_token, split_statements, tokenize};

pub(crate) use alter::{AddColumns, TableChange};
pub(crate) use cursor::{Cursor, SYSTEM_SCHEMA};
pub(crate) use rows::{Delete, Insert, OnConflict, RowChange, Target, Update};
pub(crate) use session::{Set, Show};
pub(crate) use settings::shown as shown_ttl;
pub(crate) use statement::{Explain, Name, Statement, parse_statement};
pub(crate) use token::blanked;
pub(crate) use types::column_type;
pub use types::column_type as parse_column_type;
pub(crate) use views::{Comment, Commented, CreateView, IfExists, Readers};
