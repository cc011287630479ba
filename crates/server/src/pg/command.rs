//! Statements about the connection itself, told apart from those of the engine: transactions,
//! prepared statements, cursors, and the resets that connection pools send.
//!
//! - command-1. All other statements are passed to the engine unchanged.
//! - command-2. PREPARE takes queries, INSERT, UPDATE and DELETE, and DECLARE takes queries. None
//!   of them contains a statement about the connection, so a prepared statement never runs another
//!   one.
//!
//! Not here: executing them (`connection::session`).

use tidegate_model::limits;
use tidegate_query::{Access, Parameter, Token, TokenKind, first_token, next_token};

use super::error_response::ErrorResponse;
use super::value::{bytes_of, number};

/// A statement, as far as the connection has to parse it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Command {
    /// A statement of the engine (command-1).
    Statement,
    Empty,
    Begin(Option<Access>),
    Commit,
    Rollback,
    Savepoint(String),
    Release(String),
    RollBackTo(String),
    /// Sets the access mode of the open transaction.
    SetTransaction(Option<Access>),
    Prepare {
        name: String,
        types: Vec<String>,
        sql: String,
    },
    Execute {
        name: String,
        values: Vec<Parameter>,
    },
    /// `None` for all.
    Deallocate(Option<String>),
    DiscardAll,
    DiscardSequences,
    DiscardTemp,
    Declare {
        name: String,
        sql: String,
        is_binary: bool,
        /// True for WITH HOLD: it outlives its transaction.
        holds: bool,
    },
    /// A `count` of `None` is up to the end.
    Fetch {
        name: String,
        count: Option<u32>,
        moves: bool,
    },
    /// `None` for all.
    CloseCursor(Option<String>),
    /// COPY whose rows go over the connection.
    Copy(String),
    /// A statement without effect, with the tag of its success.
    Nothing(&'static str),
}

impl Command {
    /// Returns the bytes that it takes besides the text that it was parsed from.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Command::Prepare { types, sql, .. } => {
                sql.len() + types.iter().map(|name| size_of::<String>() + name.len()).sum::<usize>()
            }
            Command::Execute { values, .. } => bytes_of(values),
            Command::Declare { sql, .. } | Command::Copy(sql) => sql.len(),
            _ => 0,
        }
    }
}

/// The first words of the statements that PREPARE refuses (command-2), as PostgreSQL does. A query
/// may begin with the name of a table.
const NOT_PREPARED: [&str; 42] = [
    "ABORT",
    "ALTER",
    "ANALYZE",
    "BEGIN",
    "CALL",
    "CANCEL",
    "CHECKPOINT",
    "CLOSE",
    "CLUSTER",
    "COMMENT",
    "COMMIT",
    "COPY",
    "CREATE",
    "DEALLOCATE",
    "DECLARE",
    "DISCARD",
    "DO",
    "DROP",
    "END",
    "EXECUTE",
    "EXPLAIN",
    "FETCH",
    "GRANT",
    "LISTEN",
    "LOCK",
    "MERGE",
    "MOVE",
    "NOTIFY",
    "PREPARE",
    "REFRESH",
    "REINDEX",
    "RELEASE",
    "RENAME",
    "RESET",
    "REVOKE",
    "ROLLBACK",
    "SAVEPOINT",
    "SET",
    "SHOW",
    "TRUNCATE",
    "UNLISTEN",
    "VACUUM",
];
/// The first words of statements that change rows: no cursor reads them.
const CHANGES: [&str; 3] = ["INSERT", "UPDATE", "DELETE"];

/// Checks the length of a name: connections keep names.
pub(super) fn check_name(name: &str) -> Result<(), ErrorResponse> {
    match limits::NAME_BYTES {
        max if max < name.len() => {
            Err(ErrorResponse::new("42622", format!("a name has at most {max} bytes")))
        }
        _ => Ok(()),
    }
}

/// Parses a statement as far as the connection has to know it.
pub(super) fn command(sql: &str) -> Result<Command, ErrorResponse> {
    let mut words = Words { sql, at: 0 };
    let command = words.command();
    // The engine, which reads the whole statement, reports unclosed quotes.
    match next_token(sql, words.at) {
        Ok(_) => command,
        Err(_) => Ok(Command::Statement),
    }
}

/// Returns true if a statement can be part of an implicit transaction: not if it commits by itself.
pub(super) fn is_held_back(sql: &str) -> bool {
    let changes =
        ["CREATE", "DROP", "ALTER", "TRUNCATE", "RENAME", "REINDEX", "EXPLAIN", "COMMENT"];
    let first = first_token(sql);
    !first.is_some_and(|first| changes.iter().any(|word| first.is_word(word)))
}

/// Returns true if a statement changes rows, or may do so.
pub(super) fn changes_rows(sql: &str) -> bool {
    let words = ["INSERT", "UPDATE", "DELETE", "COPY", "WITH", "EXPLAIN", "TRUNCATE"];
    first_token(sql).is_some_and(|first| words.iter().any(|word| first.is_word(word)))
}

/// The words of a statement, one after the other. They are read on demand: most of the text is for
/// the engine, and may be long.
struct Words<'a> {
    sql: &'a str,
    /// The byte offset of the next word.
    at: usize,
}

impl<'a> Words<'a> {
    /// Parses the command, from its first word.
    fn command(&mut self) -> Result<Command, ErrorResponse> {
        let Some(first) = self.next() else { return Ok(Command::Empty) };
        if first.kind != TokenKind::Word {
            return Ok(Command::Statement);
        }
        match first.text.to_ascii_uppercase().as_str() {
            "BEGIN" => self.begin(),
            "START" if self.take("TRANSACTION") => self.begin(),
            "COMMIT" | "END" => self.end("COMMIT PREPARED", Command::Commit),
            "ROLLBACK" | "ABORT" => self.roll_back(),
            "SAVEPOINT" => self.savepoint(Command::Savepoint),
            "RELEASE" => {
                self.take("SAVEPOINT");
                self.savepoint(Command::Release)
            }
            "SET" if self.take("TRANSACTION") => self.modes().map(Command::SetTransaction),
            "PREPARE" => self.prepare(),
            "EXECUTE" => self.execute(),
            "DEALLOCATE" => {
                self.take("PREPARE");
                self.all_or_name().map(Command::Deallocate)
            }
            "DISCARD" if self.take("ALL") => Ok(Command::DiscardAll),
            "DISCARD" if self.take("TEMP") || self.take("TEMPORARY") => Ok(Command::DiscardTemp),
            "DISCARD" if self.take("PLANS") => Ok(Command::Nothing("DISCARD PLANS")),
            "DISCARD" if self.take("SEQUENCES") => Ok(Command::DiscardSequences),
            "DISCARD" => Err(self.unexpected("ALL, PLANS, SEQUENCES or TEMP")),
            "DECLARE" => self.declare(),
            "FETCH" => self.fetch(false),
            "MOVE" => self.fetch(true),
            "CLOSE" => self.all_or_name().map(Command::CloseCursor),
            "UNLISTEN" => Ok(Command::Nothing("UNLISTEN")),
            "LISTEN" => Err(ErrorResponse::not_supported("LISTEN")),
            "NOTIFY" => Err(ErrorResponse::not_supported("NOTIFY")),
            "LOCK" => Err(ErrorResponse::not_supported("LOCK TABLE")),
            "COPY" if self.is_over_the_wire() => Ok(Command::Copy(self.sql.to_owned())),
            _ => Ok(Command::Statement),
        }
    }

    /// Returns the next token; `None` also within an unclosed quote.
    fn peek(&self) -> Option<Token<'a>> {
        let token = next_token(self.sql, self.at).ok().flatten();
        token.filter(|token| !token.is_sign(';'))
    }

    fn next(&mut self) -> Option<Token<'a>> {
        let token = self.peek()?;
        self.at = token.end();
        Some(token)
    }

    fn take_if(&mut self, is_it: impl FnOnce(&Token<'a>) -> bool) -> bool {
        let token = self.peek().filter(is_it);
        self.at = token.map_or(self.at, |token| token.end());
        token.is_some()
    }

    fn take(&mut self, word: &str) -> bool {
        self.take_if(|token| token.is_word(word))
    }

    fn take_sign(&mut self, sign: char) -> bool {
        self.take_if(|token| token.is_sign(sign))
    }

    fn unexpected(&self, expected: &str) -> ErrorResponse {
        let (found, offset) = match self.peek() {
            Some(token) => (format!("`{}`", token.text), token.offset),
            None => ("the end".to_owned(), self.sql.trim_end().len()),
        };
        let position = self.sql[..offset].chars().count();
        ErrorResponse::new("42601", format!("expected {expected}, found {found}")).at(position)
    }

    fn finish<T>(&self, value: T) -> Result<T, ErrorResponse> {
        match self.peek() {
            None => Ok(value),
            Some(_) => Err(self.unexpected("the end of the statement")),
        }
    }

    /// Parses a name, which is in lower case unless it is quoted, as in PostgreSQL.
    fn name(&mut self, what: &str) -> Result<String, ErrorResponse> {
        let name = match self.peek() {
            Some(token) if token.kind == TokenKind::Word => token.text.to_lowercase(),
            Some(token) if token.kind == TokenKind::QuotedName => token.unquoted(),
            _ => return Err(self.unexpected(what)),
        };
        check_name(&name)?;
        self.next();
        Ok(name)
    }

    fn begin(&mut self) -> Result<Command, ErrorResponse> {
        let _ = self.take("WORK") || self.take("TRANSACTION");
        self.modes().map(Command::Begin)
    }

    /// Parses `ISOLATION LEVEL ..`, `READ ONLY`, ..: only the last access mode matters, since every
    /// statement sees the commits before its beginning.
    fn modes(&mut self) -> Result<Option<Access>, ErrorResponse> {
        let mut access = None;
        while self.peek().is_some() {
            self.take_sign(',');
            if self.take("ISOLATION") {
                let is_level = self.take("LEVEL")
                    && (self.take("SERIALIZABLE")
                        || self.take("REPEATABLE") && self.take("READ")
                        || self.take("READ")
                            && (self.take("COMMITTED") || self.take("UNCOMMITTED")));
                if !is_level {
                    return Err(self.unexpected("a level of isolation"));
                }
            } else if self.take("READ") {
                access = Some(match (self.take("ONLY"), self.take("WRITE")) {
                    (true, _) => Access::ReadOnly,
                    (_, true) => Access::ReadWrite,
                    _ => return Err(self.unexpected("ONLY or WRITE")),
                });
            } else {
                self.take("NOT");
                if !self.take("DEFERRABLE") {
                    return Err(self.unexpected("the end of the statement"));
                }
            }
        }
        Ok(access)
    }

    fn end(&mut self, two_phases: &str, command: Command) -> Result<Command, ErrorResponse> {
        let _ = self.take("WORK") || self.take("TRANSACTION");
        if self.take("PREPARED") {
            return Err(ErrorResponse::not_supported(two_phases));
        }
        if self.take("AND") && !(self.take("NO") && self.take("CHAIN")) {
            return Err(ErrorResponse::not_supported("AND CHAIN"));
        }
        self.finish(command)
    }

    fn roll_back(&mut self) -> Result<Command, ErrorResponse> {
        let _ = self.take("WORK") || self.take("TRANSACTION");
        if self.take("TO") {
            self.take("SAVEPOINT");
            return self.savepoint(Command::RollBackTo);
        }
        self.end("ROLLBACK PREPARED", Command::Rollback)
    }

    fn savepoint(&mut self, command: fn(String) -> Command) -> Result<Command, ErrorResponse> {
        let name = self.name("the name of a savepoint")?;
        self.finish(command(name))
    }

    /// Parses `name [(types)] AS statement`.
    fn prepare(&mut self) -> Result<Command, ErrorResponse> {
        if self.take("TRANSACTION") {
            return Err(ErrorResponse::not_supported("PREPARE TRANSACTION"));
        }
        let name = self.name("the name of a statement")?;
        let mut types = Vec::new();
        if self.take_sign('(') {
            loop {
                types.push(self.type_name()?);
                if !self.take_sign(',') {
                    break;
                }
            }
            if !self.take_sign(')') {
                return Err(self.unexpected("`)`"));
            }
        }
        if !self.take("AS") {
            return Err(self.unexpected("AS"));
        }
        if self.is_at_one_of(&NOT_PREPARED) || self.is_at_transaction() {
            return Err(self.unexpected("SELECT, VALUES, TABLE, INSERT, UPDATE or DELETE"));
        }
        let sql = self.rest("a statement")?;
        Ok(Command::Prepare { name, types, sql })
    }

    fn is_at_one_of(&self, words: &[&str]) -> bool {
        self.peek().is_some_and(|token| words.iter().any(|word| token.is_word(word)))
    }

    /// Returns true if `START TRANSACTION` follows: `START` alone may be a table.
    fn is_at_transaction(&self) -> bool {
        let mut ahead = Words { ..*self };
        ahead.take("START") && ahead.take("TRANSACTION")
    }

    /// Parses words and numbers up to a comma or the closing bracket.
    fn type_name(&mut self) -> Result<String, ErrorResponse> {
        let mut text = self.name("a type")?;
        while let Some(token) = self.peek().filter(|token| token.kind == TokenKind::Word) {
            self.next();
            text.push(' ');
            text.push_str(&token.text.to_lowercase());
        }
        if self.take_sign('(') {
            while self.next().is_some_and(|token| !token.is_sign(')')) {}
        }
        Ok(text)
    }

    /// Parses `name [(values)]`.
    fn execute(&mut self) -> Result<Command, ErrorResponse> {
        let name = self.name("the name of a statement")?;
        let mut values = Vec::new();
        if self.take_sign('(') {
            loop {
                values.push(self.constant()?);
                if !self.take_sign(',') {
                    break;
                }
            }
            if !self.take_sign(')') {
                return Err(self.unexpected("`)`"));
            }
        }
        self.finish(Command::Execute { name, values })
    }

    fn constant(&mut self) -> Result<Parameter, ErrorResponse> {
        let is_negative = self.take_sign('-');
        let Some(token) = self.peek() else { return Err(self.unexpected("a value")) };
        let signed =
            |text: &str| number(if is_negative { format!("-{text}") } else { text.to_owned() });
        let value = match token.kind {
            TokenKind::Number => signed(token.text),
            _ if is_negative => None,
            TokenKind::Text => Some(Parameter::Text(token.unquoted())),
            TokenKind::Word if token.is_word("NULL") => Some(Parameter::Null),
            TokenKind::Word if token.is_word("TRUE") => Some(Parameter::Boolean(true)),
            TokenKind::Word if token.is_word("FALSE") => Some(Parameter::Boolean(false)),
            _ => None,
        };
        let value = value.ok_or_else(|| self.unexpected("a constant"))?;
        self.next();
        Ok(value)
    }

    /// Parses `name [BINARY] [INSENSITIVE] [[NO] SCROLL] CURSOR [WITH | WITHOUT HOLD] FOR query`.
    fn declare(&mut self) -> Result<Command, ErrorResponse> {
        let name = self.name("the name of a cursor")?;
        let mut is_binary = false;
        while !self.take("CURSOR") {
            if self.take("BINARY") {
                is_binary = true;
            } else if self.take("SCROLL") {
                return Err(ErrorResponse::not_supported("a cursor that goes backward"));
            } else if !(self.take("INSENSITIVE")
                || self.take("ASENSITIVE")
                || self.take("NO") && self.take("SCROLL"))
            {
                return Err(self.unexpected("CURSOR"));
            }
        }
        let holds = self.take("WITH");
        if (holds || self.take("WITHOUT")) && !self.take("HOLD") {
            return Err(self.unexpected("HOLD"));
        }
        if !self.take("FOR") {
            return Err(self.unexpected("FOR"));
        }
        let is_other = self.is_at_one_of(&NOT_PREPARED) || self.is_at_one_of(&CHANGES);
        if is_other || self.is_at_transaction() {
            return Err(self.unexpected("a query"));
        }
        let sql = self.rest("a query")?;
        Ok(Command::Declare { name, sql, is_binary, holds })
    }

    /// Returns true if rows of a COPY go over the connection.
    fn is_over_the_wire(&self) -> bool {
        let mut ahead = Words { ..*self };
        while let Some(token) = ahead.next() {
            let is_it = token.is_word("FROM") && ahead.take("STDIN")
                || token.is_word("TO") && ahead.take("STDOUT");
            if is_it {
                return true;
            }
        }
        false
    }

    /// Parses `[direction] [FROM | IN] name`.
    fn fetch(&mut self, moves: bool) -> Result<Command, ErrorResponse> {
        let count = if self.take("NEXT") { Some(1) } else { self.direction()? };
        let _ = self.take("FROM") || self.take("IN");
        let name = self.name("the name of a cursor")?;
        self.finish(Command::Fetch { name, count, moves })
    }

    /// Parses a forward number of rows; `None` is up to the end.
    fn direction(&mut self) -> Result<Option<u32>, ErrorResponse> {
        let backward = ["PRIOR", "FIRST", "LAST", "ABSOLUTE", "BACKWARD"];
        let is_backward = backward.iter().any(|word| self.take(word));
        let _ = self.take("FORWARD") || self.take("RELATIVE");
        if is_backward || self.take_sign('-') {
            return Err(ErrorResponse::new("55000", "a cursor goes forward only"));
        }
        if self.take("ALL") {
            return Ok(None);
        }
        let Some(token) = self.peek().filter(|it| it.kind == TokenKind::Number) else {
            return Ok(Some(1));
        };
        let count = token.text.parse().map_err(|_| self.unexpected("a number of rows"))?;
        self.next();
        Ok(Some(count))
    }

    fn all_or_name(&mut self) -> Result<Option<String>, ErrorResponse> {
        if self.take("ALL") {
            return self.finish(None);
        }
        let name = self.name("a name, or ALL")?;
        self.finish(Some(name))
    }

    /// Returns the rest of the statement, with blanks in place of the text before it, so that
    /// positions in it stay right.
    fn rest(&mut self, what: &str) -> Result<String, ErrorResponse> {
        let Some(token) = self.peek() else { return Err(self.unexpected(what)) };
        let blank = |c: char| if c == '\n' { '\n' } else { ' ' };
        let mut text = self.sql[..token.offset].chars().map(blank).collect::<String>();
        text.push_str(&self.sql[token.offset..]);
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sql: &str, expected: Command) {
        assert_eq!(command(sql), Ok(expected), "{sql}");
    }

    #[track_caller]
    fn check_error(sql: &str, code: &str, message: &str) {
        let error = command(sql).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (code, message), "{sql}");
    }

    #[test]
    fn transactions_are_ours() {
        check("BEGIN", Command::Begin(None));
        check("begin work;", Command::Begin(None));
        let only = Some(Access::ReadOnly);
        check("START TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY", Command::Begin(only));
        check("BEGIN READ WRITE NOT DEFERRABLE", Command::Begin(Some(Access::ReadWrite)));
        check("END TRANSACTION", Command::Commit);
        check("ROLLBACK AND NO CHAIN", Command::Rollback);
        check("SET TRANSACTION READ ONLY", Command::SetTransaction(only));
        check("ROLLBACK WORK TO SAVEPOINT \"A\"", Command::RollBackTo("A".to_owned()));
        check("RELEASE a", Command::Release("a".to_owned()));
        check_error("PREPARE TRANSACTION 'a'", "0A000", "PREPARE TRANSACTION is not supported yet");
        check_error("BEGIN NOW", "42601", "expected the end of the statement, found `NOW`");
    }

    #[test]
    fn prepared_statements_and_cursors_are_ours() {
        let (name, types) = ("a".to_owned(), vec!["int".to_owned(), "double precision".to_owned()]);
        let sql = "                                      SELECT $1".to_owned();
        check(
            "PREPARE A (int, double precision) AS  SELECT $1",
            Command::Prepare { name, types, sql },
        );
        let values = vec![
            Parameter::Integer(-1),
            Parameter::Text("x'y".to_owned()),
            Parameter::Null,
            Parameter::Double(0.5),
        ];
        check(
            "EXECUTE \"A\" (-1, 'x''y', NULL, 0.5)",
            Command::Execute { name: "A".to_owned(), values },
        );
        check_error("EXECUTE a (b)", "42601", "expected a constant, found `b`");
        check("DEALLOCATE PREPARE ALL", Command::Deallocate(None));
        let fetch = |count, moves| Command::Fetch { name: "c".to_owned(), count, moves };
        check("FETCH c", fetch(Some(1), false));
        check("FETCH FORWARD 100 FROM c", fetch(Some(100), false));
        check("MOVE ALL IN c", fetch(None, true));
        check_error("FETCH BACKWARD 1 FROM c", "55000", "a cursor goes forward only");
        let sql = format!("{}SELECT 1", " ".repeat(38));
        let declare = Command::Declare { name: "c".to_owned(), sql, is_binary: true, holds: false };
        check("DECLARE c BINARY NO SCROLL CURSOR FOR SELECT 1", declare.clone());
        check("CLOSE ALL", Command::CloseCursor(None));
    }

    // `PREPARE p AS EXECUTE p` and then `EXECUTE p` overflowed the stack of the server, which ended
    // for all its clients. Any statement could be prepared within another one.
    #[test]
    fn nothing_but_queries_and_changes_of_rows_is_prepared() {
        for inner in NOT_PREPARED.into_iter().chain(["START TRANSACTION"]) {
            for sql in [
                format!("PREPARE p AS {inner} x"),
                format!("PREPARE p (int) AS /* c */ {} x", inner.to_lowercase()),
                format!("DECLARE c CURSOR FOR {inner} x"),
            ] {
                assert_eq!(command(&sql).unwrap_err().code, "42601", "command-2: {sql}");
            }
        }
        for change in CHANGES {
            let sql = format!("DECLARE c CURSOR FOR {change} x");
            assert_eq!(command(&sql).unwrap_err().code, "42601", "command-2: {sql}");
        }
        let queries =
            ["SELECT 1", "VALUES (1)", "TABLE t", "FROM t", "(SELECT 1)", "WITH a AS ..", "t"];
        for inner in queries.into_iter().chain(["start WHERE x", "INSERT INTO t VALUES (1)"]) {
            let sql = format!("PREPARE p AS {inner}");
            assert!(matches!(command(&sql), Ok(Command::Prepare { .. })), "{sql}");
        }
    }

    #[test]
    fn rows_of_a_copy_are_told_from_files() {
        for sql in [
            "COPY t FROM STDIN CSV HEADER",
            "copy t (a) from stdin with delimiter ',' csv",
            "COPY (SELECT 1) TO STDOUT BINARY;",
        ] {
            check(sql, Command::Copy(sql.to_owned()));
        }
        check("COPY t FROM 'stdin' CSV HEADER", Command::Statement);
    }

    #[test]
    fn everything_else_is_for_the_engine() {
        for sql in ["SELECT 1", "SET a = 1", "SET LOCAL a = 1", "start WHERE x", "'open", "(x)"] {
            check(sql, Command::Statement);
        }
        check(" -- nothing", Command::Empty);
        check(";", Command::Empty);
    }
}
