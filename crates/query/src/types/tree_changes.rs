//! Changes of all parts of an expression or a plan, compiled once for all changes.
//!
//! DataFusion's methods are generic in the function that changes a part, and compile the walk
//! through all kinds of expressions and nodes for each.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, LogicalPlan};

pub(crate) trait ChangeParts: Sized {
    /// Changes the parts of an expression, and then itself.
    fn change_parts(
        self,
        change: &mut dyn FnMut(Expr) -> Result<Transformed<Expr>>,
    ) -> Result<Transformed<Self>>;
}

impl ChangeParts for Expr {
    fn change_parts(
        self,
        change: &mut dyn FnMut(Expr) -> Result<Transformed<Expr>>,
    ) -> Result<Transformed<Expr>> {
        self.transform_up(change)
    }
}

pub(crate) trait ChangePlan: Sized {
    /// Changes the expressions of one node.
    fn change_exprs(
        self,
        change: &mut dyn FnMut(Expr) -> Result<Transformed<Expr>>,
    ) -> Result<Transformed<Self>>;

    /// Changes the inputs of a node and the plans of its subqueries, and then itself.
    fn change_nodes(
        self,
        change: &mut dyn FnMut(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
    ) -> Result<Transformed<Self>>;
}

impl ChangePlan for LogicalPlan {
    fn change_exprs(
        self,
        change: &mut dyn FnMut(Expr) -> Result<Transformed<Expr>>,
    ) -> Result<Transformed<LogicalPlan>> {
        self.map_expressions(change)
    }

    fn change_nodes(
        self,
        change: &mut dyn FnMut(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
    ) -> Result<Transformed<LogicalPlan>> {
        self.transform_up_with_subqueries(change)
    }
}
