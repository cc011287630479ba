//! Names of WITH that hide others: each is made unique.
//!
//! - with_names-1. A name of WITH that is defined more than once in a statement gets a number. It
//!   stands for the same query as before, and stays the qualifier of its columns.
//! - Two queries of one name in one WITH stay as they are, which is an error.
//!
//! DataFusion refuses a name that a query further out has.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, ObjectNamePart, Query, TableAlias, TableFactor, VisitorMut, With,
};

use crate::sql::visit::visit_mut;

/// Makes the names of WITH in a query unique (with_names-1).
pub(super) fn number_hidden_names(query: &mut Query) {
    let mut definitions = Definitions::default();
    let ControlFlow::Continue(()) = visit_mut(query, &mut definitions);
    definitions.0.retain(|_, count| *count > 1);
    if !definitions.0.is_empty() {
        let mut numbering = Numbering { repeated: definitions.0, number: 0 };
        let ControlFlow::Continue(()) = visit_mut(query, &mut numbering);
    }
}

/// The number of definitions of each name.
#[derive(Default)]
struct Definitions(HashMap<String, usize>);

impl VisitorMut for Definitions {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            *self.0.entry(table.alias.name.value.clone()).or_default() += 1;
        }
        ControlFlow::Continue(())
    }
}

/// Numbers the names that are defined more than once, those of inner queries first: what is left of
/// a name in a query is that of the query itself, or of one further out.
struct Numbering {
    repeated: HashMap<String, usize>,
    number: usize,
}

impl VisitorMut for Numbering {
    type Break = std::convert::Infallible;

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        let Some(mut with) = query.with.take() else { return ControlFlow::Continue(()) };
        let mut names = HashSet::new();
        if with.cte_tables.iter().all(|table| names.insert(table.alias.name.value.clone())) {
            for at in 0..with.cte_tables.len() {
                self.number_one(query, &mut with, at);
            }
        }
        query.with = Some(with);
        ControlFlow::Continue(())
    }
}

impl Numbering {
    fn number_one(&mut self, query: &mut Query, with: &mut With, at: usize) {
        let name = &mut with.cte_tables[at].alias.name;
        if !self.repeated.contains_key(&name.value) {
            return;
        }
        self.number += 1;
        // No query can write such a name without quotes.
        let numbered = format!("{} {}", name.value, self.number);
        let from = std::mem::replace(&mut name.value, numbered.clone());
        let mut renaming = Renaming { from, to: numbered };
        let ControlFlow::Continue(()) = visit_mut(query, &mut renaming);
        // A query sees those before it, and itself if it is recursive.
        let first = if with.recursive { 0 } else { at + 1 };
        for table in &mut with.cte_tables[first..] {
            let ControlFlow::Continue(()) = visit_mut(&mut table.query, &mut renaming);
        }
    }
}

/// Gives another name to a table, which keeps the old one as its alias.
struct Renaming {
    from: String,
    to: String,
}

impl VisitorMut for Renaming {
    type Break = std::convert::Infallible;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        let TableFactor::Table { name: ObjectName(parts), alias, .. } = factor else {
            return ControlFlow::Continue(());
        };
        if let [ObjectNamePart::Identifier(name)] = parts.as_mut_slice()
            && name.value == self.from
        {
            if alias.is_none() {
                *alias = Some(TableAlias {
                    explicit: false,
                    name: name.clone(),
                    columns: Vec::new(),
                    at: None,
                });
            }
            *name = Ident { value: self.to.clone(), ..name.clone() };
        }
        ControlFlow::Continue(())
    }
}
