//! Lowering: the translation of each conjunct of a filter into the codes of one page frame.
//!
//! - lower-1. A lowered conjunct selects the rows for which the interpreter says TRUE, bit for bit,
//!   or is the interpreter. Constants are translated into codes by the function that decodes them.
//! - lower-2. A condition on the values of a dictionary is evaluated once for a segment, not for
//!   each of its page frames: `LowerCache` keeps the result.
//!
//! Not here: the walk over rows (`evaluate`), the loops (`kernel`).

mod codes;
mod dictionary;

pub use dictionary::LowerCache;

use std::sync::Arc;

use tidegate_model::types::Physical;
use tidegate_model::{Codes, ColumnType, Encoded, PageFrame};

use crate::code_automaton::CodeAutomaton;
use crate::code_set::CodeSet;
use crate::column::{Column, constant};
use crate::error::Result;
use crate::filter::{Conjunct, Filter, Kind};
use crate::interpret::Node;
use crate::ir::CompareOp;
use crate::jit::{JitCache, JitPlan};
use crate::kernel::{CodeTest, FloatTest, SimdLevel};
use crate::pattern::Pattern;
use crate::ranges::Ranges;
use crate::scalar::Scalar;
use crate::text::SymbolText;
use crate::zones::ZoneTest;

/// The inputs of lowering beside the page frame.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The texts of symbols.
    pub symbols: &'a dyn SymbolText,
    /// The cached results for the dictionaries of this segment and for this filter.
    pub cache: &'a LowerCache,
    /// The instructions that kernels may use.
    pub level: SimdLevel,
    /// Compiled conditions; with `None`, conditions without a kernel are interpreted.
    pub jit: Option<&'a JitCache>,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("level", &self.level).finish_non_exhaustive()
    }
}

/// A filter lowered to one page frame.
pub struct FrameFilter<'a> {
    pub(crate) filter: &'a Filter,
    pub(crate) rows: usize,
    pub(crate) columns: Vec<Column<'a>>,
    pub(crate) plans: Vec<Plan<'a>>,
    pub(crate) level: SimdLevel,
}

impl std::fmt::Debug for FrameFilter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FrameFilter({} conjuncts, {} rows)", self.plans.len(), self.rows)
    }
}

/// The way in which a conjunct is evaluated in a page frame.
pub(crate) enum Plan<'a> {
    /// Every row matches.
    All,
    /// No row matches.
    None,
    /// Rows of one column are selected by their codes or values.
    Select(Select<'a>),
    /// Rows for which one of these parts matches.
    Any(Vec<Part<'a>>),
    /// Rows for which all of these parts match.
    Every(Vec<Part<'a>>),
    /// Compiled code evaluates every row.
    Compiled(JitPlan<'a>),
    /// The interpreter evaluates every row that is left.
    Interpret,
}

/// A part of a conjunct.
pub(crate) struct Part<'a> {
    /// The condition of the part.
    pub(crate) conjunct: &'a Conjunct,
    /// The way in which it is evaluated.
    pub(crate) plan: Plan<'a>,
}

/// A selection by the codes or values of one column.
pub(crate) struct Select<'a> {
    /// The column, by its position.
    pub(crate) column: usize,
    /// The test of the bounds of its zones.
    pub(crate) zones: ZoneTest<'a>,
    /// The test of rows that have a value.
    pub(crate) kernel: Kernel<'a>,
    /// True if NULL rows match.
    pub(crate) on_null: bool,
}

/// The test of rows that have a value.
pub(crate) enum Kernel<'a> {
    /// No test: all rows match, or none.
    Fixed(bool),
    /// Tests codes; for the rows in `known` the result is known already.
    Codes { codes: Codes<'a>, test: Arc<CodeSet>, known: Vec<(usize, bool)> },
    /// Tests bits: `on` says for a clear and for a set one if it matches.
    Bits { bits: &'a [u8], on: [bool; 2] },
    /// DOUBLE values.
    Doubles { values: &'a [[u8; 8]], test: FloatTest },
    /// FLOAT values.
    Floats { values: &'a [[u8; 4]], test: FloatTest },
    /// Tests values of `width` bytes by their keys.
    Keyed { width: usize, bytes: &'a [u8], yes: &'a Ranges<i128> },
    /// Tests texts by ranges.
    Texts(&'a Ranges<Vec<u8>>),
    /// Tests whether a text is empty; such texts match, or all others.
    Empty { matches: bool },
    /// Tests texts by a pattern.
    Like { pattern: &'a Pattern, negated: bool },
    /// Tests compressed texts by a pattern, without decompressing them.
    CompressedLike { automaton: CodeAutomaton, negated: bool },
}

impl Kernel<'_> {
    /// Returns true if all rows are tested in about the time that reading them takes.
    pub(crate) fn is_fast(&self) -> bool {
        match self {
            Kernel::Fixed(_) | Kernel::Bits { .. } => true,
            Kernel::Codes { .. } | Kernel::Doubles { .. } | Kernel::Floats { .. } => true,
            Kernel::Keyed { .. } | Kernel::Texts(_) | Kernel::Empty { .. } => false,
            Kernel::Like { .. } | Kernel::CompressedLike { .. } => false,
        }
    }

    /// The cost of a row: bytes that are read, or the number of bytes whose reading takes as long.
    pub(crate) fn cost(&self) -> f64 {
        match self {
            Kernel::Fixed(_) => 0.1,
            Kernel::Codes { codes, test, .. } => {
                let bytes = match codes {
                    Codes::Same(_) | Codes::Sequence | Codes::Bits(_) => 0.2,
                    Codes::U8(_) => 1.0,
                    Codes::U16(_) => 2.0,
                    Codes::U32(_) => 4.0,
                    Codes::U64(_) => 8.0,
                };
                let is_lookup = matches!(test.test, CodeTest::Bitmap(_) | CodeTest::Sorted(_));
                if is_lookup { bytes + 8.0 } else { bytes }
            }
            Kernel::Bits { .. } => 0.2,
            Kernel::Doubles { .. } => 8.0,
            Kernel::Floats { .. } => 4.0,
            Kernel::Keyed { .. } => 32.0,
            Kernel::Texts(_) => 64.0,
            Kernel::Empty { .. } => 12.0,
            Kernel::Like { .. } => 128.0,
            Kernel::CompressedLike { .. } => 48.0,
        }
    }
}

impl Plan<'_> {
    /// The cost of a row: bytes that are read, or the number of bytes whose reading takes as long.
    pub(crate) fn cost(&self) -> f64 {
        match self {
            Plan::Any(parts) | Plan::Every(parts) => {
                parts.iter().map(|part| part.plan.cost()).sum()
            }
            Plan::All | Plan::None => 0.0,
            Plan::Select(select) => select.kernel.cost(),
            Plan::Compiled(_) => 50.0,
            Plan::Interpret => 1_000.0,
        }
    }
}

impl FrameFilter<'_> {
    /// Returns true if no row of the page frame is selected, as far as this is known without
    /// reading rows.
    #[must_use]
    pub fn is_none(&self) -> bool {
        // Conjuncts before it that may fail have to run, since they may report an error
        // (filter_filter-1).
        let may_fail = |plan: &Plan<'_>| matches!(plan, Plan::Compiled(_) | Plan::Interpret);
        self.filter
            .conjuncts()
            .iter()
            .zip(&self.plans)
            .take_while(|(conjunct, plan)| !(conjunct.can_fail && may_fail(plan)))
            .any(|(_, plan)| matches!(plan, Plan::None))
    }

    /// Returns true if all rows of the page frame are selected, as far as this is known without
    /// reading rows.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.plans.iter().all(|plan| matches!(plan, Plan::All))
    }
}

impl Filter {
    /// Lowers the filter to one page frame, whose columns are those of the filter, in its order.
    ///
    /// # Errors
    /// If the columns are not those of the filter, or are damaged.
    pub fn lower<'a>(
        &'a self,
        frame: &'a PageFrame<'a>,
        context: &Context<'a>,
    ) -> Result<FrameFilter<'a>> {
        let columns = self.columns_of(frame, context.symbols)?;
        let plans = self
            .conjuncts()
            .iter()
            .map(|conjunct| plan(conjunct, &columns, context))
            .collect::<Result<Vec<_>>>()?;
        Ok(FrameFilter { filter: self, rows: frame.rows(), columns, plans, level: context.level })
    }
}

fn plan<'a>(
    conjunct: &'a Conjunct,
    columns: &[Column<'a>],
    context: &Context<'a>,
) -> Result<Plan<'a>> {
    match &conjunct.kind {
        Kind::Constant => Ok(match conjunct.selects_value(&Scalar::Null) {
            Ok(true) => Plan::All,
            Ok(false) => Plan::None,
            Err(_) => Plan::Interpret, // An error only if there is a row.
        }),
        Kind::Keys(truth) => {
            let column = &columns[conjunct.columns[0]];
            let on_null = truth.on_null == Some(true);
            let Some(kernel) = keys(column, &truth.yes) else {
                return Ok(row_by_row(conjunct, columns, context));
            };
            let zones = ZoneTest::Keys(column.slice.ty, &truth.yes);
            Ok(select(column, zones, kernel, on_null))
        }
        Kind::Texts(truth) => {
            let column = &columns[conjunct.columns[0]];
            let on_null = truth.on_null == Some(true);
            if let Some((codes, entries)) = dictionary::of(column) {
                let set = context.cache.get_or_find(conjunct.id, column, || {
                    dictionary::ranges_of_texts(entries, &truth.yes)
                })?;
                return Ok(by_codes(column, codes, &set, on_null));
            }
            let kernel = match column.slice.encoded {
                Encoded::Strings(_) => of_texts(&truth.yes),
                _ => Kernel::Fixed(false),
            };
            Ok(select(column, ZoneTest::Texts(&truth.yes), kernel, on_null))
        }
        Kind::One => plan_of_one(conjunct, &columns[conjunct.columns[0]], context)
            .map(|plan| plan.unwrap_or_else(|| row_by_row(conjunct, columns, context))),
        Kind::Any(parts) => {
            let parts = plans(parts, columns, context)?;
            if parts.iter().any(|part| matches!(part.plan, Plan::All)) {
                return Ok(Plan::All);
            }
            let is_none = |part: &Part<'_>| matches!(part.plan, Plan::None);
            let parts: Vec<_> = parts.into_iter().filter(|part| !is_none(part)).collect();
            Ok(if parts.is_empty() { Plan::None } else { Plan::Any(parts) })
        }
        Kind::Every(parts) => {
            let parts = plans(parts, columns, context)?;
            if parts.iter().any(|part| matches!(part.plan, Plan::None)) {
                return Ok(Plan::None);
            }
            let is_all = |part: &Part<'_>| matches!(part.plan, Plan::All);
            let parts: Vec<_> = parts.into_iter().filter(|part| !is_all(part)).collect();
            Ok(if parts.is_empty() { Plan::All } else { Plan::Every(parts) })
        }
        Kind::Many => Ok(row_by_row(conjunct, columns, context)),
    }
}

fn plans<'a>(
    parts: &'a [Conjunct],
    columns: &[Column<'a>],
    context: &Context<'a>,
) -> Result<Vec<Part<'a>>> {
    let part = |conjunct| Ok(Part { conjunct, plan: plan(conjunct, columns, context)? });
    let mut parts = parts.iter().map(part).collect::<Result<Vec<_>>>()?;
    parts.sort_by(|a, b| a.plan.cost().total_cmp(&b.plan.cost()));
    Ok(parts)
}

/// The plan of a condition without a kernel: compiled if possible, else interpreted.
fn row_by_row<'a>(conjunct: &Conjunct, columns: &[Column<'a>], context: &Context<'a>) -> Plan<'a> {
    let compiled = context.jit.and_then(|jit| jit.plan(&conjunct.node, &conjunct.columns, columns));
    compiled.map_or(Plan::Interpret, Plan::Compiled)
}

/// The plan of a condition on one column that is evaluated for every possible value, where these
/// are few. `None` if there are too many, or if it fails for one of them.
fn plan_of_one<'a>(
    conjunct: &'a Conjunct,
    column: &Column<'a>,
    context: &Context<'a>,
) -> Result<Option<Plan<'a>>> {
    // An error for NULL counts only if a row is NULL.
    let on_null = conjunct.selects_value(&Scalar::Null);
    let Ok(on_null) = (if column.has_nulls() { on_null } else { Ok(false) }) else {
        return Ok(None);
    };
    if let Some((codes, entries)) = dictionary::of(column) {
        let set = context
            .cache
            .get_or_find(conjunct.id, column, || dictionary::ranges_of_values(entries, conjunct));
        // The value for which it fails may be in no row of this page frame.
        return Ok(match set {
            Ok(set) => Some(by_codes(column, codes, &set, on_null)),
            Err(_) => None,
        });
    }
    let kernel = match &column.slice.encoded {
        Encoded::Strings(_) => like_of(conjunct).map(|(pattern, negated)| {
            match column.texts().and_then(|texts| CodeAutomaton::of(pattern, texts)) {
                Some(automaton) => Kernel::CompressedLike { automaton, negated },
                None => Kernel::Like { pattern, negated },
            }
        }),
        _ => codes::of_values(column, &|value| conjunct.selects_value(value)),
    };
    Ok(kernel.map(|kernel| select(column, ZoneTest::Blind, kernel, on_null)))
}

/// The kernel of a set of texts.
fn of_texts(yes: &Ranges<Vec<u8>>) -> Kernel<'_> {
    let empty = Ranges::comparing(CompareOp::Eq, &Vec::new());
    match () {
        () if *yes == empty => Kernel::Empty { matches: true },
        () if *yes == empty.complement() => Kernel::Empty { matches: false },
        () => Kernel::Texts(yes),
    }
}

/// The plan of a set of dictionary codes.
fn by_codes<'a>(
    column: &Column<'a>,
    codes: Codes<'a>,
    set: &Arc<CodeSet>,
    on_null: bool,
) -> Plan<'a> {
    let kernel = codes::kernel(codes, Arc::clone(set), column.slice.rows, Vec::new());
    let zones = ZoneTest::Codes(Arc::clone(set));
    select(column, zones, kernel, on_null)
}

/// The plan of a selection, simplified if all rows match or none.
fn select<'a>(
    column: &Column<'a>,
    zones: ZoneTest<'a>,
    kernel: Kernel<'a>,
    on_null: bool,
) -> Plan<'a> {
    let all_null = matches!(column.slice.encoded, Encoded::Null);
    match kernel {
        _ if all_null => {
            if on_null {
                Plan::All
            } else {
                Plan::None
            }
        }
        Kernel::Fixed(true) if on_null || !column.has_nulls() => Plan::All,
        Kernel::Fixed(false) if !on_null || !column.has_nulls() => Plan::None,
        kernel => Plan::Select(Select { column: column.position, zones, kernel, on_null }),
    }
}

/// The kernel of a set of keys; `None` if it cannot be expressed in codes.
fn keys<'a>(column: &Column<'a>, yes: &'a Ranges<i128>) -> Option<Kernel<'a>> {
    let slice = column.slice;
    match &slice.encoded {
        Encoded::Null => Some(Kernel::Fixed(false)),
        Encoded::Constant(value) => {
            let key = constant(slice.ty, *value).order_key()?;
            Some(Kernel::Fixed(yes.contains(&key)))
        }
        Encoded::Bits(bits) => {
            let on = [yes.contains(&0), yes.contains(&1)];
            Some(if on[0] == on[1] { Kernel::Fixed(on[0]) } else { Kernel::Bits { bits, on } })
        }
        Encoded::Narrow { .. } | Encoded::Decimal { .. } => codes::of_keys(column, yes),
        Encoded::Fixed { bytes, .. } => Some(fixed(slice.ty, bytes, slice.rows, yes)),
        Encoded::Dictionary { .. } | Encoded::Strings(_) => None,
    }
}

/// The maximum number of float ranges that are compared one by one; in a larger set each value is
/// searched.
const FLOAT_RANGES_MAX: usize = 8;

fn fixed<'a>(ty: ColumnType, bytes: &'a [u8], rows: usize, yes: &'a Ranges<i128>) -> Kernel<'a> {
    let few = yes.iter().count() <= FLOAT_RANGES_MAX;
    match ty.physical() {
        Physical::Float64 if few => {
            let values = &bytes.as_chunks().0[..rows];
            Kernel::Doubles { values, test: codes::float_test(yes) }
        }
        Physical::Float32 if few => {
            let values = &bytes.as_chunks().0[..rows];
            Kernel::Floats { values, test: codes::float_test(yes) }
        }
        Physical::Float32 => Kernel::Keyed { width: 4, bytes, yes },
        Physical::Float64 => Kernel::Keyed { width: 8, bytes, yes },
        _ => Kernel::Keyed { width: 16, bytes, yes },
    }
}

/// The pattern of a LIKE on the column itself, and whether it is NOT LIKE.
fn like_of(conjunct: &Conjunct) -> Option<(&Pattern, bool)> {
    let (node, negated) = match &conjunct.node {
        Node::Not(node) => (&**node, true),
        node => (node, false),
    };
    match node {
        Node::Like { expr, pattern } if matches!(**expr, Node::Column(_)) => {
            Some((pattern, negated))
        }
        _ => None,
    }
}
