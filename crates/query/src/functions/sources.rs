//! The list of all functions: their usage, their result, and the database that defines them.
//!
//! - sources-1. Every function that a statement can call has a line in `functions.txt`, and every
//!   line is about one. `docs/functions.md` is made of it; with `TIDEGATE_DOCS_COMPLETE=1` in the
//!   environment the test writes it.
//! - sources-2. The source of a function defines its correct result: PostgreSQL 15, DuckDB,
//!   QuestDB, DataFusion where no other has it, or Tidegate. Functions of the first two are
//!   compared with their source on edge values, in the tests of the program.

use std::sync::LazyLock;

/// A line of the list.
#[derive(Debug)]
pub(crate) struct Listed {
    /// `SCALAR`, `AGGREGATE`, `WINDOW`, `TABLE` or `OPERATOR`.
    pub(crate) kind: &'static str,
    pub(crate) name: &'static str,
    /// The database or the library that defines it.
    pub(crate) source: &'static str,
    pub(crate) usage: &'static str,
    pub(crate) sentence: &'static str,
}

/// All lines, by kind and name.
pub(crate) static LISTED: LazyLock<Vec<Listed>> =
    LazyLock::new(|| include_str!("functions.txt").lines().map(line).collect());

fn line(line: &'static str) -> Listed {
    let mut parts = line.split('\t');
    let mut part = || parts.next().expect("a line has five parts");
    Listed { kind: part(), name: part(), source: part(), usage: part(), sentence: part() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write as _;
    use std::path::Path;

    use datafusion::execution::SessionStateBuilder;

    use super::*;
    use crate::engine_functions::engine_functions;
    use crate::functions::{
        AGGREGATES, AT_TIME_ZONE, LIST_CONTAINS, LIST_LENGTH, LIST_OVERLAPS, SCALARS,
        SIMILAR_PATTERN,
    };
    use crate::pg_catalog::catalog_functions;
    use crate::plan::query_text::REWRITTEN_CALLS;
    use crate::sql::rewritten::REWRITTEN_AGGREGATES;
    use crate::system_tables::TABLE_FUNCTIONS;
    use crate::types::date_assignment::WHOLE_DAY;

    /// Returns the functions of the registry, by kind and name.
    fn registered() -> BTreeSet<(&'static str, String)> {
        let state = SessionStateBuilder::new().with_default_features().build();
        let unnamed =
            [AT_TIME_ZONE, WHOLE_DAY, SIMILAR_PATTERN, LIST_CONTAINS, LIST_LENGTH, LIST_OVERLAPS];
        let named = |name: &&String| !unnamed.contains(&name.as_str());
        let scalars = SCALARS.keys().filter(named).chain(state.scalar_functions().keys());
        let scalars = scalars.cloned().chain(engine_functions().map(str::to_owned));
        let scalars = scalars.chain(catalog_functions().map(str::to_owned));
        let scalars = scalars.chain(REWRITTEN_CALLS.iter().map(|it| (*it).to_owned()));
        let aggregates = AGGREGATES.keys().chain(state.aggregate_functions().keys()).cloned();
        let aggregates = aggregates.chain(REWRITTEN_AGGREGATES.iter().map(|it| (*it).to_owned()));
        let windows = state.window_functions().keys().cloned();
        let tables = TABLE_FUNCTIONS
            .iter()
            .map(|(usage, _)| usage.split('(').next().unwrap_or(usage).to_owned());
        let of = |kind| move |name| (kind, name);
        scalars
            .map(of("SCALAR"))
            .chain(aggregates.map(of("AGGREGATE")))
            .chain(windows.map(of("WINDOW")))
            .chain(tables.map(of("TABLE")))
            .collect()
    }

    #[test]
    fn every_function_has_its_line() {
        let listed = LISTED.iter().filter(|it| it.kind != "OPERATOR");
        let listed = listed.map(|it| (it.kind, it.name.to_owned())).collect::<Vec<_>>();
        let names = listed.iter().cloned().collect::<BTreeSet<_>>();
        assert_eq!(names.len(), listed.len(), "sources-1: a function has two lines");
        let registered = registered();
        let missing = registered.difference(&names).collect::<Vec<_>>();
        assert!(missing.is_empty(), "sources-1: without a line in functions.txt: {missing:?}");
        let unknown = names.difference(&registered).collect::<Vec<_>>();
        assert!(unknown.is_empty(), "sources-1: in functions.txt, and no function: {unknown:?}");
        for it in LISTED.iter() {
            let known = ["PostgreSQL", "DuckDB", "QuestDB", "DataFusion", "Tidegate"];
            assert!(known.contains(&it.source), "sources-2: {it:?}");
            assert!(it.sentence.ends_with('.') && !it.usage.is_empty(), "sources-1: {it:?}");
        }
    }

    fn page() -> String {
        let mut page = String::from(
            "# Functions\n\n\
             Every function that a statement can call, with its source of truth: the database \
             whose result is the correct one.\n\
             Remaining differences are listed, with reasons, beside the tests that compare \
             Tidegate with PostgreSQL and DuckDB on edge values.\n\
             [sql.md](sql.md#functions) describes functions that need more than a sentence.\n\
             This page is generated from `functions.txt` of the crate `query` by \
             `TIDEGATE_DOCS_COMPLETE=1 cargo test`.\n",
        );
        for (kind, title) in [
            ("SCALAR", "Functions of a value"),
            ("AGGREGATE", "Aggregates"),
            ("WINDOW", "Window functions"),
            ("TABLE", "Tables"),
            ("OPERATOR", "Operators"),
        ] {
            let _ = write!(page, "\n## {title}\n\n| name | call | source | result |\n");
            page.push_str("|---|---|---|---|\n");
            for it in LISTED.iter().filter(|it| it.kind == kind) {
                let cell = |text: &str| text.replace('|', "\\|");
                let (name, usage, sentence) = (cell(it.name), cell(it.usage), cell(it.sentence));
                let _ = writeln!(page, "| `{name}` | `{usage}` | {} | {sentence} |", it.source);
            }
        }
        page
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the page is a file on a real disk")]
    fn the_page_of_functions_is_that_of_the_list() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/functions.md");
        if std::env::var_os("TIDEGATE_DOCS_COMPLETE").is_some_and(|value| value == "1") {
            std::fs::write(&path, page()).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(written == page(), "sources-1: docs/functions.md is stale: see its first lines");
    }
}
