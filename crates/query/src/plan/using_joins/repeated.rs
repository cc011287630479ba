//! Columns of a SELECT list beside `*` that have a name of `*`, and columns that several `*` give.
//!
//! - repeated-1. An alias that is the name of a column of `*` gets a name that no statement can
//!   write, as do the columns that a `*` before has given. The answer shows them under their own
//!   names, and statements around a subquery find the column of `*`.
//! - repeated-2. An alias keeps its name if it is a whole key of ORDER BY or DISTINCT ON: the key
//!   has two meanings, and is refused, as in PostgreSQL.
//!
//! DataFusion requires names to differ. Tables whose columns are not known are left as they are.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{
    Distinct, ExcludeSelectItem, Expr, Ident, OrderBy, OrderByKind, Select, SelectItem,
    SelectItemQualifiedWildcardKind, WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::scope::{Leaf, Piece, Scope, placed};
use super::single_name;
use crate::names::hidden_name;

/// Returns true for a list of items that may need another name.
pub(super) fn may_repeat(items: &[SelectItem]) -> bool {
    let has_alias = items.iter().any(|item| matches!(item, SelectItem::ExprWithAlias { .. }));
    match items.iter().filter(|item| is_wildcard(item)).count() {
        0 => false,
        1 => has_alias,
        _ => true,
    }
}

fn is_wildcard(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

/// Returns the names that are whole keys of ORDER BY and DISTINCT ON.
pub(super) fn sort_names(select: &Select, order_by: Option<&OrderBy>) -> HashSet<String> {
    let mut keys: Vec<&Expr> = Vec::new();
    if let Some(Distinct::On(on)) = &select.distinct {
        keys.extend(on);
    }
    if let Some(OrderBy { kind: OrderByKind::Expressions(by), .. }) = order_by {
        keys.extend(by.iter().map(|key| &key.expr));
    }
    keys.into_iter().filter_map(lone_name).collect()
}

fn lone_name(key: &Expr) -> Option<String> {
    match key {
        Expr::Identifier(name) => Some(name.value.clone()),
        Expr::Nested(inner) => lone_name(inner),
        _ => None,
    }
}

/// The names of a SELECT list while it is written out.
pub(super) struct ListNames {
    /// The names of the columns of all `*`, without those that are keys (repeated-2).
    of_wildcards: HashSet<String>,
    /// The columns that the `*` before have given, each by the parts of its name.
    given: HashSet<Vec<String>>,
    /// The aliases of the list.
    aliases: HashSet<String>,
    wildcards: usize,
}

impl ListNames {
    pub(super) fn of(items: &[SelectItem], scope: &Scope, keys: &HashSet<String>) -> ListNames {
        let mut names = ListNames {
            of_wildcards: HashSet::new(),
            given: HashSet::new(),
            aliases: HashSet::new(),
            wildcards: items.iter().filter(|item| is_wildcard(item)).count(),
        };
        for item in items {
            match item {
                SelectItem::Wildcard(options) => {
                    let merged = scope.pieces().iter().filter_map(|piece| match piece {
                        Piece::Merged { name, .. } => Some(name.clone()),
                        Piece::Rest(_) => None,
                    });
                    let leaves = scope.pieces().iter().filter_map(|piece| match piece {
                        Piece::Rest(at) => scope.leaf(*at).rest(),
                        Piece::Merged { .. } => None,
                    });
                    let all = merged.chain(leaves.flatten().flatten());
                    names.add_wildcard(all, options);
                }
                SelectItem::QualifiedWildcard(of, options) => {
                    let columns =
                        leaf_of_wildcard(scope, of).and_then(|leaf| leaf.columns().clone());
                    names.add_wildcard(columns.into_iter().flatten().flatten(), options);
                }
                SelectItem::ExprWithAlias { alias, .. } => {
                    names.aliases.insert(alias.value.clone());
                }
                _ => {}
            }
        }
        names.of_wildcards.retain(|name| !keys.contains(name));
        names
    }

    fn add_wildcard(
        &mut self,
        columns: impl Iterator<Item = String>,
        options: &WildcardAdditionalOptions,
    ) {
        let excluded = excluded(options);
        let is_kept = |name: &String| excluded.iter().all(|it| it.value != *name);
        self.of_wildcards.extend(columns.filter(is_kept));
    }

    /// Returns the alias of the item at a place, and true if no statement can write it
    /// (repeated-1).
    pub(super) fn alias(&mut self, at: usize, alias: Ident) -> (Ident, bool) {
        if !self.of_wildcards.contains(&alias.value) {
            return (alias, false);
        }
        let name = self.unseen(at, &alias.value);
        (Ident::with_quote_and_span('"', alias.span, name), true)
    }

    fn unseen(&mut self, at: usize, name: &str) -> String {
        let mut names = (at..).map(|at| hidden_name(at, name));
        let unseen = names.find(|name| self.aliases.insert(name.clone()));
        unseen.expect("there are more numbers than aliases")
    }

    /// Returns the columns of a `*` as items from a place on, if one before it gives some of them,
    /// and all are known.
    pub(super) fn repeated(
        &mut self,
        at: usize,
        scope: &Scope,
        item: &SelectItem,
    ) -> Option<Vec<SelectItem>> {
        if self.wildcards < 2 {
            return None;
        }
        let listed = match item {
            SelectItem::Wildcard(options) => listed_by_all(scope, options)?,
            SelectItem::QualifiedWildcard(of, options) => listed_by_one(scope, of, options)?,
            _ => return None,
        };
        let is_new = listed.iter().map(|column| self.given.insert(column.path()));
        let is_new = is_new.collect::<Vec<_>>();
        if is_new.iter().all(|is_new| *is_new) {
            return None;
        }
        let mut items = Vec::with_capacity(listed.len());
        for (column, is_new) in listed.into_iter().zip(is_new) {
            let Listed { name, expr } = column;
            let is_column = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
            items.push(match (is_new, is_column) {
                (true, true) => SelectItem::UnnamedExpr(expr),
                (true, false) => {
                    let alias = Ident::with_quote('"', name);
                    SelectItem::ExprWithAlias { expr, alias }
                }
                (false, _) => {
                    let alias = Ident::with_quote('"', self.unseen(at + items.len(), &name));
                    SelectItem::ExprWithAlias { expr, alias }
                }
            });
        }
        Some(items)
    }
}

/// A column of `*`.
struct Listed {
    name: String,
    expr: Expr,
}

impl Listed {
    /// Returns the parts of its name, with its table.
    fn path(&self) -> Vec<String> {
        match &self.expr {
            Expr::CompoundIdentifier(path) => path.iter().map(|part| part.value.clone()).collect(),
            _ => vec![self.name.clone()],
        }
    }
}

/// Returns the columns of `*`; `None` if they are not known.
fn listed_by_all(scope: &Scope, options: &WildcardAdditionalOptions) -> Option<Vec<Listed>> {
    let span = options.wildcard_token.0.span;
    let mut listed = Vec::new();
    for piece in scope.pieces() {
        match piece {
            Piece::Merged { name, expr } => {
                listed.push(Listed { name: name.clone(), expr: placed(expr, span) });
            }
            Piece::Rest(at) => {
                let leaf = scope.leaf(*at);
                add_columns(leaf, leaf.rest()?, span, &mut listed)?;
            }
        }
    }
    kept(listed, options)
}

/// Returns the columns of `t.*`; `None` if they are not known.
fn listed_by_one(
    scope: &Scope,
    of: &SelectItemQualifiedWildcardKind,
    options: &WildcardAdditionalOptions,
) -> Option<Vec<Listed>> {
    let leaf = leaf_of_wildcard(scope, of)?;
    let mut listed = Vec::new();
    add_columns(leaf, leaf.columns().clone()?, options.wildcard_token.0.span, &mut listed)?;
    kept(listed, options)
}

/// Returns the table of `t.*`.
pub(super) fn leaf_of_wildcard<'s>(
    scope: &'s Scope,
    of: &SelectItemQualifiedWildcardKind,
) -> Option<&'s Leaf> {
    match of {
        SelectItemQualifiedWildcardKind::ObjectName(name) => scope.leaf_named(name),
        SelectItemQualifiedWildcardKind::Expr(_) => None,
    }
}

fn add_columns(
    leaf: &Leaf,
    columns: Vec<Option<String>>,
    span: Span,
    listed: &mut Vec<Listed>,
) -> Option<()> {
    for column in columns {
        let name = column?;
        let column = Ident::with_quote_and_span('"', span, name.as_str());
        let is_bare = leaf.path().0.is_empty();
        let expr = if is_bare { Expr::Identifier(column) } else { leaf.column(&column) };
        listed.push(Listed { name, expr });
    }
    Some(())
}

/// Returns the columns that EXCLUDE leaves; `None` if there is not one that it names, and beside
/// other options.
fn kept(mut listed: Vec<Listed>, options: &WildcardAdditionalOptions) -> Option<Vec<Listed>> {
    let has_others = options.opt_ilike.is_some()
        || options.opt_replace.is_some()
        || options.opt_rename.is_some()
        || options.opt_alias.is_some();
    if has_others {
        return None;
    }
    let excluded = excluded(options);
    let is_listed = |name: &Ident| listed.iter().any(|column| column.name == name.value);
    if !excluded.iter().all(is_listed) {
        return None;
    }
    listed.retain(|column| excluded.iter().all(|it| it.value != column.name));
    Some(listed)
}

/// Returns the names behind EXCLUDE and EXCEPT.
pub(super) fn excluded(options: &WildcardAdditionalOptions) -> Vec<Ident> {
    let names = match &options.opt_exclude {
        None => &[][..],
        Some(ExcludeSelectItem::Single(name)) => std::slice::from_ref(name),
        Some(ExcludeSelectItem::Multiple(names)) => names,
    };
    let except = options.opt_except.iter();
    let except =
        except.flat_map(|it| std::iter::once(&it.first_element).chain(&it.additional_elements));
    names.iter().filter_map(single_name).chain(except.cloned()).collect()
}
