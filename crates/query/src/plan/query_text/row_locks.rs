//! `FOR UPDATE`, `FOR SHARE` and their weaker forms: the tables whose rows a query reads for later
//! changes.
//!
//! - Nothing is locked: a transaction remembers these tables, and its COMMIT fails if others have
//!   changed their rows since (`plan::table_reads`). So NOWAIT and SKIP LOCKED have no effect, and
//!   all forms have the same one.
//! - row_locks-1. A table of the FROM, or of a subquery in it, is found even if a query of WITH has
//!   its name: a table too many makes a COMMIT fail that need not, and one too few loses changes.
//! - As in PostgreSQL, the rows must be those of tables: no groups, no set operations.
//!
//! sqlparser knows one name behind OF, and not the weaker forms. So the tokens get a clause for
//! each name, and a weaker form is marked with NOWAIT, which has no other meaning in the tree.

use datafusion::functions_aggregate::all_default_aggregate_functions;
use datafusion::sql::sqlparser::ast::{
    Distinct, Ident, LockClause, LockType, ObjectName, OrderByKind, Query, Select, SetExpr,
    TableFactor, TableWithJoins,
};
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use crate::error::{ClauseProblem, Error, SyntaxError};
use crate::functions::AGGREGATES;
use crate::position::position_at;
use crate::sql::blocks::{contains_aggregate, contains_window, is_grouped, item_expr};

type Checked<T> = Result<T, Box<Error>>;

/// The tables whose rows a query reads for later changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowLocks {
    /// The name of the statement, `SELECT FOR UPDATE` say; `None` without such a clause.
    pub(crate) statement: Option<&'static str>,
    /// The tables, as the query names them.
    pub(crate) tables: Vec<ObjectName>,
}

/// A clause, with what its checks need.
struct Clause<'a> {
    sql: &'a str,
    /// As PostgreSQL writes it: `FOR UPDATE`.
    text: &'static str,
}

impl RowLocks {
    /// Takes the clauses of a query out of its tree, which may not have been rewritten yet.
    pub(super) fn take(&mut self, sql: &str, query: &mut Query) -> Checked<()> {
        for lock in std::mem::take(&mut query.locks) {
            let statement = statement_of(&lock);
            self.statement.get_or_insert(statement);
            let clause = Clause { sql, text: statement.trim_start_matches("SELECT ") };
            let of = lock.of.as_ref().map(|name| clause.relation(name)).transpose()?;
            self.add(&clause, query, of)?;
        }
        Ok(())
    }

    /// Adds the tables in the FROM of a query, or only the one of this name.
    fn add(&mut self, clause: &Clause<'_>, query: &Query, of: Option<&Ident>) -> Checked<()> {
        let select = match query.body.as_ref() {
            SetExpr::Query(inner) => return self.add(clause, inner, of),
            SetExpr::Select(select) => select,
            SetExpr::SetOperation { .. } => {
                return Err(clause.problem("is not allowed with UNION/INTERSECT/EXCEPT"));
            }
            _ => return Err(clause.problem("cannot be applied to VALUES")),
        };
        clause.check(query, select)?;
        let mut relations = Vec::new();
        select.from.iter().for_each(|it| add_relations(it, &mut relations));
        let mut is_found = of.is_none();
        for relation in relations {
            let (alias, name) = match relation {
                TableFactor::Table { alias, name, .. } => (alias, last_part(name)),
                TableFactor::Derived { alias, .. } => (alias, None),
                _ => continue,
            };
            let known = alias.as_ref().map(|alias| &alias.name).or(name);
            if of.is_some_and(|of| known.is_none_or(|known| known.value != of.value)) {
                continue;
            }
            is_found = true;
            match relation {
                TableFactor::Derived { subquery, .. } => self.add(clause, subquery, None)?,
                TableFactor::Table { name, args: None, .. } => self.tables.push(name.clone()),
                // The rows of a function are of no table.
                _ if of.is_some() => return Err(clause.problem("cannot be applied to a function")),
                _ => {}
            }
        }
        match of.filter(|_| !is_found) {
            Some(of) => Err(clause.no_relation(of)),
            None => Ok(()),
        }
    }
}

impl Clause<'_> {
    /// Checks that the rows of a block are rows of its tables.
    fn check(&self, query: &Query, select: &Select) -> Checked<()> {
        let order = match query.order_by.as_ref().map(|order| &order.kind) {
            Some(OrderByKind::Expressions(keys)) => keys.as_slice(),
            _ => &[],
        };
        let items = select.projection.iter().filter_map(item_expr);
        let mut exprs = items.chain(order.iter().map(|key| &key.expr));
        let is_distinct = !matches!(select.distinct, None | Some(Distinct::All));
        let problem = if is_distinct {
            "is not allowed with DISTINCT clause"
        } else if is_grouped(select) {
            "is not allowed with GROUP BY clause"
        } else if select.having.is_some() {
            "is not allowed with HAVING clause"
        } else if exprs.clone().any(|expr| contains_aggregate(expr, &is_aggregate)) {
            "is not allowed with aggregate functions"
        } else if exprs.any(contains_window) {
            "is not allowed with window functions"
        } else {
            return Ok(());
        };
        Err(self.problem(problem))
    }

    /// Returns the relation that OF names.
    fn relation<'n>(&self, name: &'n ObjectName) -> Checked<&'n Ident> {
        let known = last_part(name).filter(|_| name.0.len() == 1);
        known.ok_or_else(|| {
            let start = last_part(name).map_or_else(Span::empty, |part| part.span).start;
            let expected = "the name of a relation without its schema".to_owned();
            let what = SyntaxError::Unexpected { expected, found: Some(name.to_string()) };
            Box::new(Error::Syntax { position: position_at(self.sql, start), what })
        })
    }

    fn problem(&self, problem: &'static str) -> Box<Error> {
        let what = ClauseProblem::RowLock { clause: self.text, problem };
        Box::new(Error::Clause { position: None, what })
    }

    fn no_relation(&self, name: &Ident) -> Box<Error> {
        let (clause, relation) = (self.text, name.value.clone());
        let position = Some(position_at(self.sql, name.span.start));
        let what = ClauseProblem::RowLockRelation { clause, relation };
        Box::new(Error::Clause { position, what })
    }
}

/// Adds the relations of an item of FROM, without the brackets around joins.
fn add_relations<'a>(item: &'a TableWithJoins, relations: &mut Vec<&'a TableFactor>) {
    let joined = item.joins.iter().map(|join| &join.relation);
    for relation in std::iter::once(&item.relation).chain(joined) {
        match relation {
            TableFactor::NestedJoin { table_with_joins, .. } => {
                add_relations(table_with_joins, relations);
            }
            relation => relations.push(relation),
        }
    }
}

fn last_part(name: &ObjectName) -> Option<&Ident> {
    name.0.last().and_then(|part| part.as_ident())
}

fn is_aggregate(name: &str) -> bool {
    let is_it = |alias: &String| alias == name;
    let defaults = all_default_aggregate_functions();
    AGGREGATES.contains_key(name)
        || defaults.iter().any(|it| it.name() == name || it.aliases().iter().any(is_it))
}

/// Returns the name of a SELECT with a clause, as PostgreSQL writes it.
fn statement_of(lock: &LockClause) -> &'static str {
    match (&lock.lock_type, &lock.nonblock) {
        (LockType::Update, None) => "SELECT FOR UPDATE",
        (LockType::Update, Some(_)) => "SELECT FOR NO KEY UPDATE",
        (LockType::Share, None) => "SELECT FOR SHARE",
        (LockType::Share, Some(_)) => "SELECT FOR KEY SHARE",
    }
}

/// Rewrites the clauses in tokens for sqlparser: a clause for each name behind OF, and NOWAIT as
/// the mark of the weaker forms.
pub(super) fn write_out_row_locks(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at < tokens.len() {
        let mut reader = Reader { tokens: tokens.as_slice(), at };
        at += match clause(&mut reader) {
            Some(clauses) => {
                let (end, length) = (reader.at, clauses.len());
                tokens.splice(at..end, clauses);
                length
            }
            None => 1,
        };
    }
}

/// Reads `FOR {[NO KEY] UPDATE | [KEY] SHARE} [OF names] [NOWAIT | SKIP LOCKED]`, and returns it
/// rewritten. `substring(a FOR share)` stays as it is.
fn clause(reader: &mut Reader<'_>) -> Option<Vec<TokenWithSpan>> {
    let start = reader.word("FOR")?;
    let has_no = reader.word("NO").is_some();
    let is_weak = reader.word("KEY").is_some();
    let words: &[&str] = match (has_no, is_weak) {
        (true, true) => &["UPDATE"],
        (true, false) => return None,
        (false, true) => &["SHARE"],
        (false, false) => &["UPDATE", "SHARE"],
    };
    let strength = words.iter().find_map(|word| reader.word(word))?;
    let head = [start.clone(), strength.clone()];
    let mark = TokenWithSpan::new(Token::make_keyword("NOWAIT"), strength.span);
    let mark = is_weak.then_some(mark);
    let mut clauses = Vec::new();
    match reader.word("OF") {
        Some(of) => loop {
            clauses.extend(head.iter().chain([of]).cloned());
            clauses.extend_from_slice(reader.name()?);
            clauses.extend(mark.clone());
            if reader.sign(&Token::Comma).is_none() {
                break;
            }
        },
        None => clauses.extend(head.into_iter().chain(mark)),
    }
    if reader.word("NOWAIT").is_none() && reader.word("SKIP").is_some() {
        reader.word("LOCKED")?;
    }
    Some(clauses)
}

/// Reads tokens, without the blanks between them.
struct Reader<'a> {
    tokens: &'a [TokenWithSpan],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Takes the next token, if it is such a one.
    fn take(&mut self, is_it: impl Fn(&Token) -> bool) -> Option<&'a TokenWithSpan> {
        let rest = self.tokens.get(self.at..)?;
        let blanks = rest.iter().take_while(|it| matches!(it.token, Token::Whitespace(_))).count();
        let token = rest.get(blanks).filter(|token| is_it(&token.token))?;
        self.at += blanks + 1;
        Some(token)
    }

    fn word(&mut self, text: &str) -> Option<&'a TokenWithSpan> {
        self.take(|token| {
            matches!(token, Token::Word(word)
                if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text))
        })
    }

    fn sign(&mut self, sign: &Token) -> Option<&'a TokenWithSpan> {
        self.take(|token| token == sign)
    }

    /// Takes a name, with all of its parts.
    fn name(&mut self) -> Option<&'a [TokenWithSpan]> {
        let is_part = |token: &Token| matches!(token, Token::Word(_));
        let start = self.at;
        self.take(is_part)?;
        while self.sign(&Token::Period).is_some() {
            self.take(is_part)?;
        }
        self.tokens.get(start..self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse_query;

    /// Checks the statement and the tables of a query.
    #[track_caller]
    fn check(sql: &str, expected: &str) {
        let shown = match parse_query(sql, &[]) {
            Ok(query) => {
                let tables = query.locks.tables.iter().map(ToString::to_string);
                let tables = tables.collect::<Vec<_>>().join(", ");
                format!("{}: {tables}", query.locks.statement.unwrap_or("SELECT"))
            }
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(shown, expected, "{sql}");
    }

    #[test]
    fn a_clause_names_the_tables_of_its_block() {
        check("SELECT a FROM t", "SELECT: ");
        check("SELECT a FROM T FOR UPDATE", "SELECT FOR UPDATE: t");
        check("SELECT a FROM t LIMIT 1 FOR NO KEY UPDATE NOWAIT", "SELECT FOR NO KEY UPDATE: t");
        check("SELECT a FROM t, (u JOIN v USING (k)) FOR SHARE", "SELECT FOR SHARE: t, u, v");
        check("SELECT a FROM t FOR KEY SHARE SKIP LOCKED", "SELECT FOR KEY SHARE: t");
        check("SELECT a FROM t AS x JOIN u ON true FOR UPDATE OF x", "SELECT FOR UPDATE: t");
        check(
            "SELECT a FROM t, u, v FOR UPDATE OF T, v NOWAIT FOR SHARE OF u",
            "SELECT FOR UPDATE: t, v, u",
        );
        check("SELECT a FROM (SELECT * FROM t, u) s FOR UPDATE", "SELECT FOR UPDATE: t, u");
        check("(SELECT a FROM t) FOR UPDATE", "SELECT FOR UPDATE: t");
        check("SELECT a FROM t WHERE a IN (SELECT a FROM u) FOR UPDATE", "SELECT FOR UPDATE: t");
        check("SELECT a FROM t WHERE a = (SELECT a FROM u FOR UPDATE)", "SELECT FOR UPDATE: u");
        check("SELECT a FROM t, generate_series(1, 3) FOR UPDATE", "SELECT FOR UPDATE: t");
        // FOR was taken for a name of the last column.
        check("SELECT 1 FOR UPDATE", "SELECT FOR UPDATE: ");
        check("SELECT 1, now() FOR NO KEY UPDATE SKIP LOCKED", "SELECT FOR NO KEY UPDATE: ");
        check("SELECT (SELECT 1 FOR SHARE)", "SELECT FOR SHARE: ");
        // row_locks-1: the name of the outer query is one of WITH, the other one a table.
        check("WITH t AS (SELECT * FROM t FOR SHARE) SELECT * FROM t", "SELECT FOR SHARE: t");
    }

    #[test]
    fn words_of_clauses_elsewhere_are_no_clauses() {
        check("SELECT substring(share FROM 1 FOR share) FROM t", "SELECT: ");
        check("SELECT substring(a FOR key) FROM t", "SELECT: ");
        check("SELECT a AS update, 'FOR UPDATE' FROM share", "SELECT: ");
        check("SELECT 1 AS for", "SELECT: ");
    }

    #[test]
    fn rows_must_be_those_of_tables() {
        for (sql, expected) in [
            ("SELECT DISTINCT a FROM t", "is not allowed with DISTINCT clause"),
            ("SELECT DISTINCT ON (a) a FROM t", "is not allowed with DISTINCT clause"),
            ("SELECT a FROM t GROUP BY a", "is not allowed with GROUP BY clause"),
            ("SELECT 1 FROM t HAVING true", "is not allowed with HAVING clause"),
            ("SELECT max(a) + 1 FROM t", "is not allowed with aggregate functions"),
            ("SELECT a, rank() OVER (ORDER BY a) FROM t", "is not allowed with window functions"),
            ("SELECT a FROM t UNION SELECT a FROM u", "is not allowed with UNION/INTERSECT/EXCEPT"),
            ("SELECT * FROM (SELECT DISTINCT a FROM t) s", "is not allowed with DISTINCT clause"),
            ("SELECT 1 UNION SELECT 1", "is not allowed with UNION/INTERSECT/EXCEPT"),
            ("VALUES (1)", "cannot be applied to VALUES"),
        ] {
            check(&format!("{sql} FOR UPDATE"), &format!("error: FOR UPDATE {expected}"));
            check(&format!("{sql} FOR KEY SHARE"), &format!("error: FOR KEY SHARE {expected}"));
        }
        // Groups of other queries are none of the rows.
        check(
            "SELECT a FROM t WHERE a = (SELECT max(a) FROM u) FOR UPDATE",
            "SELECT FOR UPDATE: t",
        );
        check(
            "SELECT a FROM t FOR UPDATE OF u",
            "error: line 1, column 31: relation \"u\" in FOR UPDATE clause not found in FROM \
             clause",
        );
        check(
            "SELECT a FROM t FOR UPDATE OF public.t",
            "error: line 1, column 38: expected the name of a relation without its schema, found \
             `public.t`",
        );
        check(
            "SELECT a FROM generate_series(1, 3) AS t FOR UPDATE OF t",
            "error: FOR UPDATE cannot be applied to a function",
        );
    }
}
