//! The tables that a SELECT sees, with their merged columns.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, ObjectName, ObjectNamePart, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::{Columns, Passed, ambiguous};
use crate::error::Error;
use crate::position;
use crate::position::position_at;
use crate::sql::call::call_of;
use crate::sql::visit::visit_mut;

/// The side of a join whose values its merged columns have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Left,
    Right,
    Full,
    /// A SEMI or ANTI JOIN: one side is not seen behind it.
    LeftOnly,
    RightOnly,
}

/// A table, or a query in its place.
#[derive(Debug, Clone)]
pub(super) struct Leaf {
    /// The name of the table, as columns are qualified with it.
    path: Vec<Ident>,
    columns: Columns,
    /// The columns that are part of a merged one.
    absorbed: Vec<String>,
}

impl Leaf {
    pub(super) fn new(path: Vec<Ident>, columns: Columns) -> Leaf {
        Leaf { path, columns, absorbed: Vec::new() }
    }

    pub(super) fn path(&self) -> ObjectName {
        ObjectName(self.path.iter().cloned().map(ObjectNamePart::Identifier).collect())
    }

    pub(super) fn absorbed(&self) -> &[String] {
        &self.absorbed
    }

    /// Returns the columns that are no part of a merged one.
    pub(super) fn rest(&self) -> Columns {
        let is_seen = |column: &&Option<String>| {
            column.as_ref().is_none_or(|column| !self.absorbed.contains(column))
        };
        Some(self.columns.as_ref()?.iter().filter(is_seen).cloned().collect())
    }

    pub(super) fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Returns true if the name without a table can be this column; `None` if it is not known.
    pub(super) fn has(&self, name: &str) -> Option<bool> {
        if self.absorbed.iter().any(|absorbed| absorbed == name) {
            return Some(false);
        }
        let columns = self.columns.as_ref()?;
        Some(columns.iter().any(|column| column.as_deref() == Some(name)))
    }

    pub(super) fn column(&self, name: &Ident) -> Expr {
        let path = self.path.iter().map(|part| Ident { span: name.span, ..part.clone() });
        Expr::CompoundIdentifier(path.chain([name.clone()]).collect())
    }
}

/// A part of what `*` gives.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a query has as many as columns of USING")]
pub(super) enum Piece {
    Merged {
        name: String,
        expr: Expr,
    },
    /// The other columns of a table, by its number.
    Rest(usize),
}

/// The meaning of a name without a table.
pub(super) enum Resolution<'s> {
    Nothing,
    /// It is a column of a table, or may be one.
    Column,
    Merged(&'s Expr),
    /// It has several meanings; true if one is a merged column.
    Several {
        is_merged: bool,
    },
}

#[derive(Debug, Clone, Default)]
pub(super) struct Scope {
    leaves: Vec<Leaf>,
    pieces: Vec<Piece>,
}

impl Scope {
    pub(super) fn of(leaf: Leaf) -> Scope {
        Scope { leaves: vec![leaf], pieces: vec![Piece::Rest(0)] }
    }

    pub(super) fn of_all(scopes: &[&Scope]) -> Scope {
        scopes.iter().fold(Scope::default(), |all, scope| all.beside((*scope).clone()))
    }

    /// Returns the tables of both sides, without a column that is merged anew.
    pub(super) fn beside(mut self, right: Scope) -> Scope {
        let split = self.leaves.len();
        self.leaves.extend(right.leaves);
        self.pieces.extend(right.pieces.into_iter().map(|piece| match piece {
            Piece::Rest(leaf) => Piece::Rest(split + leaf),
            merged @ Piece::Merged { .. } => merged,
        }));
        self
    }

    /// Returns the tables of both sides of a join that merges columns.
    pub(super) fn merged(columns: Vec<(String, Expr)>, left: Scope, right: Scope) -> Scope {
        let mut both = left.beside(right);
        let is_other = |piece: &Piece| match piece {
            Piece::Merged { name, .. } => columns.iter().all(|(column, _)| column != name),
            Piece::Rest(_) => true,
        };
        both.pieces.retain(is_other);
        let columns = columns.into_iter().map(|(name, expr)| Piece::Merged { name, expr });
        both.pieces = columns.chain(both.pieces).collect();
        both
    }

    pub(super) fn leaf_count(&self) -> usize {
        self.leaves.len()
    }

    pub(super) fn piece_count(&self) -> usize {
        self.pieces.len()
    }

    /// Returns the part that is visible after a join with ON. `split` and `pieces` are those of the
    /// left side.
    pub(super) fn after_join(mut self, kind: Kind, split: usize, pieces: usize) -> Scope {
        match kind {
            Kind::Left | Kind::Right | Kind::Full => {}
            Kind::LeftOnly => {
                self.leaves.truncate(split);
                self.pieces.truncate(pieces);
            }
            Kind::RightOnly => {
                self.leaves.drain(..split);
                self.pieces.drain(..pieces);
                for piece in &mut self.pieces {
                    if let Piece::Rest(leaf) = piece {
                        *leaf -= split;
                    }
                }
            }
        }
        self
    }

    /// Returns the side that is visible after a SEMI or ANTI JOIN: its keys are merged with none.
    pub(super) fn seen_alone(mut self) -> Scope {
        let pieces = &self.pieces;
        let is_merged = |name: &String| {
            pieces
                .iter()
                .any(|it| matches!(it, Piece::Merged { name: merged, .. } if merged == name))
        };
        for leaf in &mut self.leaves {
            leaf.absorbed.retain(&is_merged);
        }
        self
    }

    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    pub(super) fn leaf(&self, at: usize) -> &Leaf {
        &self.leaves[at]
    }

    /// Returns the table with this name.
    pub(super) fn leaf_named(&self, name: &ObjectName) -> Option<&Leaf> {
        let last = |path: &ObjectName| path.0.last().map(ToString::to_string);
        self.leaves.iter().find(|leaf| leaf.path() == *name).or_else(|| {
            self.leaves
                .iter()
                .find(|leaf| last(&leaf.path()).is_some_and(|it| it == name.to_string()))
        })
    }

    pub(super) fn has_merged(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Merged { .. }))
    }

    pub(super) fn merged_expr(&self, column: &str) -> Option<&Expr> {
        self.pieces.iter().find_map(|piece| match piece {
            Piece::Merged { name, expr } if name == column => Some(expr),
            _ => None,
        })
    }

    pub(super) fn find(&self, name: &str) -> Resolution<'_> {
        let merged = self.merged_expr(name);
        let known = self.leaves.iter().map(|leaf| leaf.has(name));
        let count = known.clone().filter(|has| *has == Some(true)).count();
        let merged_count = self
            .pieces
            .iter()
            .filter(|piece| matches!(piece, Piece::Merged { name: merged, .. } if merged == name));
        match (merged_count.count() + count, merged) {
            (0, _) if known.clone().any(|has| has.is_none()) => Resolution::Column,
            (0, _) => Resolution::Nothing,
            (1, Some(expr)) => Resolution::Merged(expr),
            (1, None) => Resolution::Column,
            (_, merged) => Resolution::Several { is_merged: merged.is_some() },
        }
    }

    /// Returns this side's expression of a merged column, and takes the column out of the rest.
    pub(super) fn key(&mut self, sql: &str, key: &Ident) -> Passed<Expr> {
        let position = || (key.span.start.line > 0).then(|| position_at(sql, key.span.start));
        match self.find(&key.value) {
            Resolution::Merged(expr) => return Ok(placed(expr, key.span)),
            Resolution::Several { .. } => return Err(ambiguous(sql, key)),
            Resolution::Column => {}
            Resolution::Nothing => {
                let column = super::written_name_at(sql, position(), &key.value);
                let error = Error::NoSuchColumn { position: position(), column, similar: None };
                return Err(Box::new(error));
            }
        }
        let mut may_have =
            self.leaves.iter_mut().filter(|leaf| leaf.has(&key.value) != Some(false));
        match (may_have.next(), may_have.next()) {
            (Some(leaf), None) => {
                leaf.absorbed.push(key.value.clone());
                Ok(leaf.column(key))
            }
            _ => Err(unknown(position())),
        }
    }
}

/// Returns the error of a join beside a table whose columns are not known.
fn unknown(position: Option<position::Position>) -> Box<Error> {
    let feature = "USING or NATURAL beside a table whose columns are not known (name them with AS)";
    Box::new(Error::NotSupported { position, feature })
}

/// Returns the names that both sides of a NATURAL JOIN have, in the order of the left one.
pub(super) fn natural_names(sql: &str, left: &Scope, right: &Scope) -> Passed<Vec<Ident>> {
    let mut names: Vec<Ident> = Vec::new();
    let of_left = left.columns().ok_or_else(|| unknown(None))?;
    let of_right = right.columns().ok_or_else(|| unknown(None))?;
    for name in of_left.into_iter().flatten() {
        let name = Ident::with_quote('"', name);
        if names.contains(&name) {
            return Err(ambiguous(sql, &name));
        }
        if of_right.iter().flatten().any(|it| *it == name.value) {
            names.push(name);
        }
    }
    Ok(names)
}

impl Scope {
    /// Returns the columns in the order of `*`.
    pub(super) fn columns(&self) -> Columns {
        let mut columns = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Merged { name, .. } => columns.push(Some(name.clone())),
                Piece::Rest(leaf) => columns.extend(self.leaves[*leaf].rest()?),
            }
        }
        Some(columns)
    }
}

/// Returns `condition AND left = right`.
pub(super) fn and_equal(condition: Option<Expr>, left: &Expr, right: &Expr) -> Expr {
    let binary = |left: Expr, op, right: Expr| Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    };
    let equal = binary(left.clone(), BinaryOperator::Eq, right.clone());
    match condition {
        Some(condition) => binary(condition, BinaryOperator::And, equal),
        None => equal,
    }
}

/// Returns the expression of a merged column.
pub(super) fn merge(kind: Kind, left: Expr, right: Expr) -> Expr {
    match kind {
        Kind::Left | Kind::LeftOnly => left,
        Kind::Right | Kind::RightOnly => right,
        Kind::Full => call_of("coalesce", [left, right]),
    }
}

/// Returns an expression whose names have another place.
pub(super) fn placed(expr: &Expr, span: Span) -> Expr {
    struct Placer(Span);

    impl VisitorMut for Placer {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::CompoundIdentifier(path) = expr {
                path.iter_mut().for_each(|part| part.span = self.0);
            }
            ControlFlow::Continue(())
        }
    }

    let mut expr = expr.clone();
    // The visitor never breaks off.
    let _ = visit_mut(&mut expr, &mut Placer(span));
    expr
}
