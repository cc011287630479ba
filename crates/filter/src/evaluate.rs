//! Evaluation: zone by zone, conjunct by conjunct, until a zone is empty.
//!
//! - E1. The rows selected are those for which the interpreter says so (W1), among those asked for.
//! - E2. Conjuncts that cannot fail run in the order in which they have lately removed most rows
//!   for the bytes that they touch; those that can fail run behind them, in their own order.
//! - E3. `stop` is asked before each zone, so what it waits for is one zone of one page frame.
//!
//! Not here: what a conjunct is for this page frame (`lower`).

use std::ops::Range;

use tidegate_model::ColumnSlice;
use tidegate_model::layout::Zone;

use crate::column::{Column, fixed_value};
use crate::error::{Error, Result};
use crate::filter::{Conjunct, Filter};
use crate::jit::JitPlan;
use crate::kernel::{self, Level, load_words};
use crate::lower::{Kernel, Part, Plan, Select};
use crate::selection::{Selection, ZONE_ROWS, ZONE_WORDS, bits};
use crate::statistics::{Adapt, Method};
use crate::zones::Verdict;

/// A filter for one page frame.
pub struct FrameFilter<'a> {
    filter: &'a Filter,
    rows: usize,
    columns: Vec<Column<'a>>,
    plans: Vec<Plan<'a>>,
    level: Level,
}

/// Which rows are asked for.
#[derive(Clone, Copy)]
pub struct Request<'r> {
    /// The first row, and the row behind the last one; at most those of the page frame.
    pub first: usize,
    /// See `first`.
    pub end: usize,
    /// Rows that a row mask has left: a bit a row, least first, at least as many as the page frame
    /// has. `None`: all.
    pub live: Option<&'r [u64]>,
    /// Whether to give up.
    pub stop: &'r dyn Fn() -> bool,
}

impl std::fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Request({}..{}, masked: {})", self.first, self.end, self.live.is_some())
    }
}

impl std::fmt::Debug for FrameFilter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FrameFilter({} conjuncts, {} rows)", self.plans.len(), self.rows)
    }
}

/// The bits of a zone.
type Words = [u64; ZONE_WORDS];

impl<'a> FrameFilter<'a> {
    pub(crate) fn new(
        filter: &'a Filter,
        rows: usize,
        columns: Vec<Column<'a>>,
        plans: Vec<Plan<'a>>,
        level: Level,
    ) -> FrameFilter<'a> {
        FrameFilter { filter, rows, columns, plans, level }
    }

    /// Whether no row of the page frame is selected, known without looking at rows.
    #[must_use]
    pub fn is_none(&self) -> bool {
        // Not behind a conjunct that may fail before (F1).
        let may_fail = |plan: &Plan<'_>| matches!(plan, Plan::Compiled(_) | Plan::Interpret);
        self.filter
            .conjuncts()
            .iter()
            .zip(&self.plans)
            .take_while(|(conjunct, plan)| !(conjunct.can_fail && may_fail(plan)))
            .any(|(_, plan)| matches!(plan, Plan::None))
    }

    /// Whether all rows of the page frame are selected, known without looking at rows.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.plans.iter().all(|plan| matches!(plan, Plan::All))
    }

    /// Replaces `selection` by the rows that are selected, and returns how many they are. `adapt`
    /// is that of the filter.
    ///
    /// # Errors
    /// If `stop` says so, if a conjunct fails for a row (F1), or if the page frame is damaged.
    ///
    /// # Panics
    /// If the request is beyond the page frame.
    pub fn evaluate(
        &self,
        request: &Request<'_>,
        adapt: &mut Adapt,
        selection: &mut Selection,
    ) -> Result<usize> {
        selection.clear();
        self.each_zone(request, adapt, |zone, words| *selection.zone_mut(zone) = *words)
    }

    /// How many rows are selected, without keeping which.
    ///
    /// # Errors
    /// As `evaluate`.
    ///
    /// # Panics
    /// As `evaluate`.
    pub fn count(&self, request: &Request<'_>, adapt: &mut Adapt) -> Result<usize> {
        self.each_zone(request, adapt, |_, _| {})
    }

    fn each_zone(
        &self,
        request: &Request<'_>,
        adapt: &mut Adapt,
        mut take: impl FnMut(usize, &Words),
    ) -> Result<usize> {
        let Request { first, end, live, .. } = *request;
        assert!(first <= end && end <= self.rows, "a request is within its page frame");
        assert!(live.is_none_or(|live| live.len() * 64 >= self.rows), "a bit for every row");
        let zones = first / ZONE_ROWS..end.div_ceil(ZONE_ROWS);
        if self.is_none() || first == end {
            let none = self.plans.iter().position(|plan| matches!(plan, Plan::None));
            for zone in zones.filter(|_| first < end) {
                let rows = end.min((zone + 1) * ZONE_ROWS) - first.max(zone * ZONE_ROWS);
                adapt.note(none.unwrap_or(0), Method::Skipped, rows, 0);
            }
            return Ok(0);
        }
        let order = self.order(adapt);
        let mut count = 0;
        for zone in zones {
            if (request.stop)() {
                return Err(Error::Stopped); // E3
            }
            let start = zone * ZONE_ROWS;
            let rows = start..(start + ZONE_ROWS).min(self.rows);
            let mut words = wanted(&rows, first..end, live);
            if self.zone(rows, &order, &mut words, adapt)? {
                take(zone, &words);
                count += words.iter().map(|word| word.count_ones() as usize).sum::<usize>();
            }
        }
        Ok(count)
    }

    /// The conjuncts that are to be run, in their order (E2).
    fn order(&self, adapt: &Adapt) -> Vec<usize> {
        let conjuncts = self.filter.conjuncts();
        let mut order: Vec<usize> =
            (0..self.plans.len()).filter(|&at| !matches!(self.plans[at], Plan::All)).collect();
        let rank = |at: usize| adapt.rank(at, self.plans[at].cost());
        order.sort_by(|&a, &b| match (conjuncts[a].can_fail, conjuncts[b].can_fail) {
            (false, false) => rank(a).total_cmp(&rank(b)),
            (a_fails, b_fails) => (a_fails, a).cmp(&(b_fails, b)),
        });
        order
    }

    /// Leaves of `words` the rows of a zone that are selected; false if there is none.
    fn zone(
        &self,
        rows: Range<usize>,
        order: &[usize],
        words: &mut Words,
        adapt: &mut Adapt,
    ) -> Result<bool> {
        let mut before = count(words);
        for &at in order {
            if before == 0 {
                break;
            }
            let conjunct = &self.filter.conjuncts()[at];
            let method = self.step(conjunct, &self.plans[at], rows.clone(), words)?;
            let after = count(words);
            adapt.note(at, method, before, after);
            before = after;
        }
        Ok(before > 0)
    }

    /// Leaves the rows for which a conjunct is TRUE.
    fn step(
        &self,
        conjunct: &Conjunct,
        plan: &Plan<'_>,
        rows: Range<usize>,
        words: &mut Words,
    ) -> Result<Method> {
        Ok(match plan {
            Plan::All => Method::Whole,
            Plan::None => {
                words.fill(0);
                Method::Skipped
            }
            Plan::Select(select) => self.select(select, rows, words),
            Plan::Any(parts) => self.any(parts, rows, words)?,
            Plan::Every(parts) => {
                let mut slowest = Method::Skipped;
                for part in parts.iter() {
                    if count(words) == 0 {
                        break;
                    }
                    let method = self.step(part.conjunct, &part.plan, rows.clone(), words)?;
                    slowest = slowest.max(method);
                }
                slowest
            }
            Plan::Compiled(plan) => self.compiled(conjunct, plan, rows, words)?,
            Plan::Interpret => {
                self.interpret(conjunct, rows.start, words)?;
                Method::Interpreted
            }
        })
    }

    /// Leaves the rows for which one of the parts is TRUE. A part is asked only about rows for
    /// which no earlier one was.
    fn any(&self, parts: &[Part<'_>], rows: Range<usize>, words: &mut Words) -> Result<Method> {
        let (mut left, mut slowest) = (*words, Method::Skipped);
        for part in parts {
            let mut found = left;
            let method = self.step(part.conjunct, &part.plan, rows.clone(), &mut found)?;
            slowest = slowest.max(method);
            left.iter_mut().zip(&found).for_each(|(left, found)| *left &= !found);
            if count(&left) == 0 {
                break;
            }
        }
        words.iter_mut().zip(&left).for_each(|(word, left)| *word &= !left);
        Ok(slowest)
    }

    /// As `interpret`, with compiled code.
    fn compiled(
        &self,
        conjunct: &Conjunct,
        plan: &JitPlan<'_>,
        rows: Range<usize>,
        words: &mut Words,
    ) -> Result<Method> {
        let mut found = [0; ZONE_WORDS];
        if !plan.run(rows.clone(), &mut found[..rows.len().div_ceil(64)]) {
            self.interpret(conjunct, rows.start, words)?;
            return Ok(Method::Interpreted);
        }
        let first = plan.apart.partition_point(|&row| row < rows.start);
        for &row in plan.apart[first..].iter().take_while(|&&row| row < rows.end) {
            let (word, bit) = ((row - rows.start) / 64, row % 64);
            found[word] &= !(1 << bit);
            if words[word] >> bit & 1 == 1 {
                let selected = conjunct.selects(&self.columns, row)?;
                found[word] |= u64::from(selected) << bit;
            }
        }
        words.iter_mut().zip(&found).for_each(|(word, found)| *word &= found);
        Ok(Method::Compiled)
    }

    /// Leaves the rows for which a conjunct is TRUE.
    fn interpret(&self, conjunct: &Conjunct, start: usize, words: &mut Words) -> Result<()> {
        for (index, word) in words.iter_mut().enumerate() {
            for bit in bits(*word) {
                if !conjunct.selects(&self.columns, start + index * 64 + bit)? {
                    *word &= !(1 << bit);
                }
            }
        }
        Ok(())
    }

    /// Leaves the rows that match.
    fn select(&self, select: &Select<'_>, rows: Range<usize>, words: &mut Words) -> Method {
        let column = &self.columns[select.column];
        match verdict(select, column.slice, rows.start / ZONE_ROWS) {
            Verdict::Skip => {
                words.fill(0);
                Method::Skipped
            }
            Verdict::Whole => Method::Whole,
            Verdict::Look => {
                self.look(select, column, rows, words);
                Method::Kernel
            }
        }
    }

    fn look(
        &self,
        select: &Select<'_>,
        column: &Column<'_>,
        rows: Range<usize>,
        words: &mut Words,
    ) {
        let mut found = *words;
        let used = rows.len().div_ceil(64);
        self.run(&select.kernel, column, rows.clone(), &mut found);
        match column.slice.validity {
            None => {
                words.iter_mut().zip(&found[..used]).for_each(|(word, found)| *word &= found);
            }
            Some(validity) => {
                let mut valid = [0; ZONE_WORDS];
                load_words(validity, rows.start, &mut valid[..used]);
                let on_null = if select.on_null { u64::MAX } else { 0 };
                for (word, (found, valid)) in words.iter_mut().zip(found.iter().zip(&valid)) {
                    *word &= (found & valid) | (on_null & !valid);
                }
            }
        }
    }

    /// Writes which rows match if they have a value. `found` holds the rows that are still
    /// wanted: slow kernels look at no others.
    fn run(&self, kernel: &Kernel<'_>, column: &Column<'_>, rows: Range<usize>, found: &mut Words) {
        let out = &mut found[..rows.len().div_ceil(64)];
        match kernel {
            Kernel::Fixed(matches) => kernel::fill(out, rows.len(), *matches),
            Kernel::Codes { codes, test, known } => {
                kernel::select(self.level, codes, rows.clone(), &test.test, out);
                let first = known.partition_point(|(row, _)| *row < rows.start);
                for &(row, matches) in known[first..].iter().take_while(|(row, _)| *row < rows.end)
                {
                    let (word, bit) = ((row - rows.start) / 64, row % 64);
                    out[word] = out[word] & !(1 << bit) | u64::from(matches) << bit;
                }
            }
            Kernel::Bits { bits, on } => kernel::select_bits(bits, rows, *on, out),
            Kernel::Doubles { values, test } => kernel::select_doubles(&values[rows], test, out),
            Kernel::Floats { values, test } => kernel::select_floats(&values[rows], test, out),
            Kernel::Keyed { width, bytes, yes } => {
                let ty = column.slice.ty;
                let value = |row: usize| fixed_value(ty, &bytes[row * width..][..*width]);
                refine(out, rows.start, |row| {
                    value(row).order_key().is_some_and(|key| yes.contains(&key))
                });
            }
            Kernel::Texts(yes) => refine_texts(out, rows.start, column, |text| yes.contains(text)),
            Kernel::Like { pattern, negated } => {
                refine_texts(out, rows.start, column, |text| pattern.matches(text) != *negated);
            }
        }
    }
}

impl Plan<'_> {
    /// Bytes that are touched for a row, or what takes about as long.
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

/// What the bounds of a zone say; `Look` where there are none.
fn verdict(select: &Select<'_>, slice: &ColumnSlice<'_>, zone: usize) -> Verdict {
    slice
        .zones
        .get(zone)
        .map_or(Verdict::Look, |bytes| select.zones.verdict(&Zone::decode(bytes), select.on_null))
}

/// The rows of a zone that are asked for.
fn wanted(zone: &Range<usize>, rows: Range<usize>, live: Option<&[u64]>) -> Words {
    let mut words = [0; ZONE_WORDS];
    let (first, end) = (rows.start.max(zone.start), rows.end.min(zone.end));
    kernel::set_bits(&mut words, first - zone.start..end - zone.start);
    if let Some(live) = live {
        for (word, live) in words.iter_mut().zip(&live[zone.start / 64..]) {
            *word &= live;
        }
    }
    words
}

fn count(words: &Words) -> usize {
    words.iter().map(|word| word.count_ones() as usize).sum()
}

/// Leaves the rows that match, of those that are set.
fn refine(words: &mut [u64], start: usize, mut matches: impl FnMut(usize) -> bool) {
    for (index, word) in words.iter_mut().enumerate() {
        for bit in bits(*word) {
            if !matches(start + index * 64 + bit) {
                *word &= !(1 << bit);
            }
        }
    }
}

fn refine_texts(
    words: &mut [u64],
    start: usize,
    column: &Column<'_>,
    matches: impl Fn(&[u8]) -> bool,
) {
    let texts = column.texts().expect("`lower` asks texts only of columns that have them");
    let mut scratch = Vec::new();
    refine(words, start, |row| matches(texts.at(row, &mut scratch)));
}
