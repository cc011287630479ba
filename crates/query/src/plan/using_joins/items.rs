//! The clauses of a SELECT: its list with `*`, its ORDER BY, and the others.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{
    Distinct, ExcludeSelectItem, Expr, Ident, ObjectName, OrderBy, OrderByKind, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, WildcardAdditionalOptions,
};

use super::repeated::{ListNames, excluded, leaf_of_wildcard, sort_names};
use super::scope::{Piece, Resolution, Scope, placed};
use super::{Columns, Pass, Passed};
use crate::error::Error;
use crate::names::INTERNAL_PREFIX;
use crate::position;

impl Pass<'_> {
    pub(super) fn select(
        &mut self,
        select: &mut Select,
        order_by: Option<&mut OrderBy>,
    ) -> Passed<Columns> {
        let scope = self.from(&mut select.from)?;
        self.scopes.push(scope);
        let columns = self.clauses_of(select, order_by);
        self.scopes.pop();
        columns
    }

    fn clauses_of(
        &mut self,
        select: &mut Select,
        order_by: Option<&mut OrderBy>,
    ) -> Passed<Columns> {
        let keys = sort_names(select, order_by.as_deref());
        let columns = self.items(&mut select.projection, &keys)?;
        self.names_in(&mut select.selection)?;
        self.names_in(&mut select.prewhere)?;
        self.names_in(&mut select.group_by)?;
        self.names_in(&mut select.having)?;
        self.names_in(&mut select.named_window)?;
        self.names_in(&mut select.qualify)?;
        let place = select.select_token.0.span.start;
        self.keys_of_latest(place)?;
        // The rows behind a clause of ours have the names of the list alone.
        let is_ours = self.clauses.has(place);
        if let Some(Distinct::On(keys)) = &mut select.distinct {
            for key in keys {
                self.output_name(&select.projection, is_ours, key)?;
            }
        }
        if let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = order_by {
            for key in keys {
                self.output_name(&select.projection, is_ours, &mut key.expr)?;
            }
        }
        Ok(columns)
    }

    fn keys_of_latest(
        &mut self,
        place: datafusion::sql::sqlparser::tokenizer::Location,
    ) -> Passed<()> {
        let Some(mut latest) = self.clauses.take_latest(place) else { return Ok(()) };
        let position = Some(latest.position());
        for column in latest.columns_mut() {
            self.names_in(column)?;
            if !matches!(column, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) {
                let feature = "LATEST ON of a column that a FULL JOIN merges";
                return Err(Box::new(Error::NotSupported { position, feature }));
            }
        }
        self.clauses.put_latest(place, latest);
        Ok(())
    }

    /// Writes out an expression of ORDER BY or DISTINCT ON: a name alone is that of an item first.
    fn output_name(&mut self, items: &[SelectItem], is_ours: bool, expr: &mut Expr) -> Passed<()> {
        let Expr::Identifier(name) = &*expr else { return self.names_in(expr) };
        let scope = self.scopes.last().expect("it is in a SELECT");
        let is_merged = matches!(scope.find(&name.value), Resolution::Merged(_));
        match items.iter().find_map(|item| item_named(item, name, scope)) {
            None => self.names_in(expr),
            Some(Some(column)) if is_merged && !is_ours => {
                *expr = column;
                Ok(())
            }
            Some(_) => Ok(()),
        }
    }

    /// Writes out a SELECT list, and returns the names of its columns. `keys` are the names that
    /// are keys of ORDER BY and DISTINCT ON.
    pub(super) fn items(
        &mut self,
        items: &mut Vec<SelectItem>,
        keys: &HashSet<String>,
    ) -> Passed<Columns> {
        let scope = self.scopes.last().expect("it is in a SELECT");
        let mut names = ListNames::of(items, scope, keys);
        let mut columns: Columns = Some(Vec::new());
        let mut written = Vec::with_capacity(items.len());
        for item in std::mem::take(items) {
            let scope = self.scopes.last().expect("it is in a SELECT");
            if let Some(repeated) = names.repeated(written.len(), scope, &item) {
                add(&mut columns, Some(repeated.iter().map(listed_name).collect()));
                written.extend(repeated);
                continue;
            }
            match item {
                SelectItem::UnnamedExpr(mut expr) => {
                    let name = column_name(&expr).cloned();
                    self.names_in(&mut expr)?;
                    add(&mut columns, Some(vec![name.as_ref().map(|name| name.value.clone())]));
                    written.push(match name {
                        Some(alias) if column_name(&expr).is_none() => {
                            SelectItem::ExprWithAlias { expr, alias }
                        }
                        _ => SelectItem::UnnamedExpr(expr),
                    });
                }
                SelectItem::ExprWithAlias { mut expr, alias } => {
                    self.names_in(&mut expr)?;
                    let (alias, is_hidden) = names.alias(written.len(), alias);
                    let column = (!is_hidden).then(|| alias.value.clone());
                    add(&mut columns, Some(vec![column]));
                    written.push(SelectItem::ExprWithAlias { expr, alias });
                }
                SelectItem::Wildcard(mut options) => {
                    self.names_in(&mut options)?;
                    let scope = self.scopes.last().expect("it is in a SELECT");
                    add(&mut columns, without(&scope.columns(), &excluded(&options)));
                    match scope.has_merged() {
                        true => written.extend(self.wildcard(scope, &options)?),
                        false => written.push(SelectItem::Wildcard(options)),
                    }
                }
                SelectItem::QualifiedWildcard(of, mut options) => {
                    self.names_in(&mut options)?;
                    let scope = self.scopes.last().expect("it is in a SELECT");
                    let leaf = leaf_of_wildcard(scope, &of);
                    let excluded = excluded(&options);
                    add(&mut columns, leaf.and_then(|leaf| without(leaf.columns(), &excluded)));
                    written.push(SelectItem::QualifiedWildcard(of, options));
                }
                other => {
                    columns = None;
                    written.push(other);
                }
            }
        }
        *items = written;
        Ok(columns)
    }

    /// Returns the items of `*`.
    fn wildcard(
        &self,
        scope: &Scope,
        options: &WildcardAdditionalOptions,
    ) -> Passed<Vec<SelectItem>> {
        let has_others = options.opt_ilike.is_some()
            || options.opt_replace.is_some()
            || options.opt_rename.is_some()
            || options.opt_alias.is_some();
        if has_others {
            let feature = "* with REPLACE or ILIKE over merged columns (USING, NATURAL)";
            return Err(Box::new(Error::NotSupported { position: None, feature }));
        }
        let span = options.wildcard_token.0.span;
        let excluded = excluded(options);
        if let Some(name) =
            excluded.iter().find(|it| matches!(scope.find(&it.value), Resolution::Nothing))
        {
            let position = position::position_at(self.sql, name.span.start);
            let (position, column) = (Some(position), name.value.clone());
            return Err(Box::new(Error::NoSuchColumn { position, column, similar: None }));
        }
        let mut items = Vec::new();
        for piece in scope.pieces() {
            match piece {
                Piece::Merged { name, .. } if excluded.iter().any(|it| it.value == *name) => {}
                Piece::Merged { name, expr } => {
                    let expr = placed(expr, span);
                    items.push(match column_name(&expr) {
                        Some(_) => SelectItem::UnnamedExpr(expr),
                        None => {
                            let alias = Ident::with_quote('"', name.clone());
                            SelectItem::ExprWithAlias { expr, alias }
                        }
                    });
                }
                Piece::Rest(at) => {
                    let leaf = scope.leaf(*at);
                    let of = SelectItemQualifiedWildcardKind::ObjectName(leaf.path());
                    let own = excluded.iter().filter(|it| leaf.has(&it.value) != Some(false));
                    let own = own.cloned();
                    let absorbed = leaf.absorbed().iter().map(|it| Ident::with_quote('"', it));
                    let names = absorbed.chain(own).map(|name| ObjectName::from(vec![name]));
                    let names = names.collect::<Vec<_>>();
                    let exclude = (!names.is_empty()).then_some(ExcludeSelectItem::Multiple(names));
                    let options = WildcardAdditionalOptions {
                        wildcard_token: options.wildcard_token.clone(),
                        opt_exclude: exclude,
                        ..WildcardAdditionalOptions::default()
                    };
                    items.push(SelectItem::QualifiedWildcard(of, options));
                }
            }
        }
        Ok(items)
    }
}

/// Returns the name by which a written column of `*` is found.
fn listed_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(expr) => column_name(expr).map(|name| name.value.clone()),
        SelectItem::ExprWithAlias { alias, .. } if !alias.value.starts_with(INTERNAL_PREFIX) => {
            Some(alias.value.clone())
        }
        _ => None,
    }
}

fn add(columns: &mut Columns, more: Columns) {
    match (columns.as_mut(), more) {
        (Some(columns), Some(more)) => columns.extend(more),
        _ => *columns = None,
    }
}

fn without(columns: &Columns, excluded: &[Ident]) -> Columns {
    let is_kept = |column: &&Option<String>| {
        column.as_ref().is_none_or(|column| excluded.iter().all(|it| it.value != *column))
    };
    Some(columns.as_ref()?.iter().filter(is_kept).cloned().collect())
}

/// Returns the name of a column, also in brackets.
fn column_name(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(path) => path.last(),
        Expr::Nested(inner) => column_name(inner),
        _ => None,
    }
}

/// Returns `Some` if an item has a name: with the column that it is, or `None` if the name alone
/// finds it.
fn item_named(item: &SelectItem, name: &Ident, scope: &Scope) -> Option<Option<Expr>> {
    match item {
        SelectItem::UnnamedExpr(expr) if column_name(expr)?.value == name.value => {
            Some(Some(placed(expr, name.span)))
        }
        SelectItem::ExprWithAlias { alias, .. } if alias.value == name.value => Some(None),
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(of), options) => {
            let is_out = excluded(options).iter().any(|it| it.value == name.value);
            let leaf = scope.leaf_named(of).filter(|_| !is_out)?;
            let is_it = |column: &Option<String>| column.as_ref() == Some(&name.value);
            leaf.columns().as_ref()?.iter().any(is_it).then(|| Some(leaf.column(name)))
        }
        _ => None,
    }
}

/// Returns the names that a query gives its columns, as far as its text tells them.
pub(super) fn written_names(body: &SetExpr) -> Columns {
    match body {
        SetExpr::Select(select) => {
            let name = |item: &SelectItem| match item {
                SelectItem::UnnamedExpr(expr) => {
                    Some(column_name(expr).map(|name| name.value.clone()))
                }
                SelectItem::ExprWithAlias { alias, .. } => Some(Some(alias.value.clone())),
                _ => None,
            };
            select.projection.iter().map(name).collect()
        }
        SetExpr::SetOperation { left, .. } => written_names(left),
        SetExpr::Query(query) => written_names(&query.body),
        _ => None,
    }
}
