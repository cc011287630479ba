//! Evaluation: conjunct by conjunct over the zones of a page frame that have rows left.
//!
//! - evaluate-1. The rows selected are those, among the requested ones, for which the interpreter
//!   gives TRUE (lower-1).
//! - evaluate-2. Conjuncts that cannot fail run in the order of their recent benefit: rows removed
//!   for the bytes that they read. Those that can fail run behind them, in their own order.
//! - evaluate-3. `is_cancelled` is asked before each zone, or before each run of zones that one
//!   kernel takes at once: the delay is at most one slow zone, or one pass of a kernel over the
//!   codes of one page frame.
//!
//! A kernel takes neighbouring zones at once: a column is then read as one long stream, which makes
//! the best use of the memory, and the fixed cost of a zone is paid less often.
//!
//! Not here: the translation of a conjunct for a page frame (`lower`).

use std::ops::Range;

use tidegate_model::ColumnSlice;
use tidegate_model::layout::Zone;

use crate::code_automaton::CodeAutomaton;
use crate::column::{Column, fixed_value};
use crate::error::{Error, Result};
use crate::filter::Conjunct;
use crate::jit::JitPlan;
use crate::kernel::{self, SimdLevel, load_words};
use crate::lower::{FrameFilter, Kernel, Part, Plan, Select};
use crate::selection::{SELECTION_WORDS, Selection, ZONE_ROWS, ZONE_WORDS, bits};
use crate::statistics::{AdaptiveOrder, Method};
use crate::text::Texts;
use crate::zones::ZoneMatch;

/// The rows that are asked for.
#[derive(Clone, Copy)]
pub struct Request<'r> {
    /// The first row. The range `first..end` lies within the page frame.
    pub first: usize,
    /// The end of the range: one more than the last row.
    pub end: usize,
    /// The rows that a deletion vector has left: a bit a row, lowest bit first, at least as many as
    /// the page frame has. `None` means all rows.
    pub live: Option<&'r [u64]>,
    /// Returns true if the evaluation is to be cancelled.
    pub is_cancelled: &'r dyn Fn() -> bool,
}

impl std::fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Request({}..{}, masked: {})", self.first, self.end, self.live.is_some())
    }
}

/// The bits of a zone.
type Words = [u64; ZONE_WORDS];

/// The number of zones in a page frame.
const FRAME_ZONES: usize = SELECTION_WORDS / ZONE_WORDS;

/// The state of one evaluation: the rows of a page frame that are left, the statistics, and the
/// cancel check.
struct EvaluationState<'w> {
    words: &'w mut [u64; SELECTION_WORDS],
    /// The number of rows that each zone has left.
    counts: [usize; FRAME_ZONES],
    adaptive: &'w mut AdaptiveOrder,
    is_cancelled: &'w dyn Fn() -> bool,
}

impl EvaluationState<'_> {
    /// Returns an error if the evaluation was cancelled (evaluate-3).
    fn check_cancelled(&self) -> Result<()> {
        if (self.is_cancelled)() { Err(Error::Cancelled) } else { Ok(()) }
    }

    fn zone(&mut self, zone: usize) -> &mut Words {
        &mut self.words.as_chunks_mut().0[zone]
    }
}

impl FrameFilter<'_> {
    /// Replaces `selection` by the selected rows, and returns their number. `adaptive` belongs to
    /// the filter.
    ///
    /// # Errors If `is_cancelled` returns true, if a conjunct fails for a row (filter_filter-1), or
    /// if the page frame is damaged.
    ///
    /// # Panics
    /// If the request is beyond the page frame.
    pub fn evaluate(
        &self,
        request: &Request<'_>,
        adaptive: &mut AdaptiveOrder,
        selection: &mut Selection,
    ) -> Result<usize> {
        selection.clear();
        self.run(request, adaptive, selection.words_mut())
    }

    /// Counts the selected rows, without storing them.
    ///
    /// # Errors
    /// As `evaluate`.
    ///
    /// # Panics
    /// As `evaluate`.
    pub fn count(&self, request: &Request<'_>, adaptive: &mut AdaptiveOrder) -> Result<usize> {
        self.run(request, adaptive, &mut [0; SELECTION_WORDS])
    }

    /// Sets the bits of the selected rows; all of `words` are 0 at first.
    fn run(
        &self,
        request: &Request<'_>,
        adaptive: &mut AdaptiveOrder,
        words: &mut [u64; SELECTION_WORDS],
    ) -> Result<usize> {
        let Request { first, end, live, .. } = *request;
        assert!(first <= end && end <= self.rows, "a request is within its page frame");
        assert!(live.is_none_or(|live| live.len() * 64 >= self.rows), "a bit for every row");
        let zones = first / ZONE_ROWS..end.div_ceil(ZONE_ROWS);
        if self.is_none() || first == end {
            let none = self.plans.iter().position(|plan| matches!(plan, Plan::None));
            for zone in zones.filter(|_| first < end) {
                let rows = end.min((zone + 1) * ZONE_ROWS) - first.max(zone * ZONE_ROWS);
                adaptive.record(none.unwrap_or(0), Method::Skipped, rows, 0);
            }
            return Ok(0);
        }
        kernel::set_bits(words, first..end);
        if let Some(live) = live {
            words.iter_mut().zip(live).for_each(|(word, live)| *word &= live);
        }
        let order = self.conjunct_order(adaptive);
        let mut state = EvaluationState {
            words,
            counts: [0; FRAME_ZONES],
            adaptive,
            is_cancelled: request.is_cancelled,
        };
        for zone in zones {
            state.counts[zone] = count(state.zone(zone));
        }
        for at in order {
            match &self.plans[at] {
                Plan::Select(select) if select.kernel.is_fast() => {
                    self.select_runs(at, select, &mut state)?;
                }
                plan => self.each_zone(at, plan, &mut state)?,
            }
        }
        Ok(state.counts.iter().sum())
    }

    /// Keeps the rows for which conjunct `at` is TRUE, zone by zone.
    fn each_zone(&self, at: usize, plan: &Plan<'_>, state: &mut EvaluationState<'_>) -> Result<()> {
        let conjunct = &self.filter.conjuncts()[at];
        for zone in 0..FRAME_ZONES {
            let before = state.counts[zone];
            if before == 0 {
                continue;
            }
            state.check_cancelled()?;
            let words = state.zone(zone);
            let method = self.step(conjunct, plan, self.zone_rows(zone..zone + 1), words)?;
            let after = count(words);
            state.counts[zone] = after;
            state.adaptive.record(at, method, before, after);
        }
        Ok(())
    }

    /// The conjuncts that have to run, in their order (evaluate-2).
    fn conjunct_order(&self, adaptive: &AdaptiveOrder) -> Vec<usize> {
        let conjuncts = self.filter.conjuncts();
        let mut order: Vec<usize> =
            (0..self.plans.len()).filter(|&at| !matches!(self.plans[at], Plan::All)).collect();
        let rank = |at: usize| adaptive.rank(at, self.plans[at].cost());
        order.sort_by(|&a, &b| match (conjuncts[a].can_fail, conjuncts[b].can_fail) {
            (false, false) => rank(a).total_cmp(&rank(b)),
            (a_fails, b_fails) => (a_fails, a).cmp(&(b_fails, b)),
        });
        order
    }

    /// Does the work of `each_zone` by a kernel that takes neighbouring zones at once.
    fn select_runs(
        &self,
        at: usize,
        select: &Select<'_>,
        state: &mut EvaluationState<'_>,
    ) -> Result<()> {
        let slice = self.columns[select.column].slice;
        let mut zone = 0;
        while zone < FRAME_ZONES {
            let mut run = zone..zone;
            let mut decided = None;
            while decided.is_none() && run.end < FRAME_ZONES && state.counts[run.end] > 0 {
                match zone_match(select, slice, run.end) {
                    ZoneMatch::Unknown => run.end += 1,
                    ZoneMatch::NoRows => decided = Some((Method::Skipped, 0)),
                    ZoneMatch::AllRows => decided = Some((Method::Whole, state.counts[run.end])),
                }
            }
            if !run.is_empty() {
                state.check_cancelled()?;
                let before = state.counts;
                self.select_zones(select, run.clone(), state);
                for zone in run.clone() {
                    state.adaptive.record(at, Method::Kernel, before[zone], state.counts[zone]);
                }
            }
            if let Some((method, after)) = decided {
                state.adaptive.record(at, method, state.counts[run.end], after);
                state.counts[run.end] = after;
                if after == 0 {
                    state.zone(run.end).fill(0);
                }
            }
            zone = run.end + 1;
        }
        Ok(())
    }

    /// The rows of some zones.
    fn zone_rows(&self, zones: Range<usize>) -> Range<usize> {
        zones.start * ZONE_ROWS..(zones.end * ZONE_ROWS).min(self.rows)
    }

    /// Keeps the rows of some zones that match.
    fn select_zones(
        &self,
        select: &Select<'_>,
        zones: Range<usize>,
        state: &mut EvaluationState<'_>,
    ) {
        let rows = self.zone_rows(zones.clone());
        let words = &mut state.words[zones.start * ZONE_WORDS..][..rows.len().div_ceil(64)];
        let mut matching = [0; SELECTION_WORDS];
        let matching = &mut matching[..words.len()];
        self.matches(select, rows, words, matching);
        let zones = words.chunks_mut(ZONE_WORDS).zip(matching.chunks(ZONE_WORDS)).zip(zones);
        for ((words, matching), zone) in zones {
            state.counts[zone] = kernel::and(self.level, words, matching);
        }
    }

    /// Keeps the rows for which a conjunct is TRUE.
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

    /// Keeps the rows for which one of the parts is TRUE. A part is evaluated only for rows for
    /// which no earlier one was TRUE.
    fn any(&self, parts: &[Part<'_>], rows: Range<usize>, words: &mut Words) -> Result<Method> {
        let (mut left, mut slowest) = (*words, Method::Skipped);
        for part in parts {
            let mut matching = left;
            let method = self.step(part.conjunct, &part.plan, rows.clone(), &mut matching)?;
            slowest = slowest.max(method);
            left.iter_mut().zip(&matching).for_each(|(left, matching)| *left &= !matching);
            if count(&left) == 0 {
                break;
            }
        }
        words.iter_mut().zip(&left).for_each(|(word, left)| *word &= !left);
        Ok(slowest)
    }

    /// Does the work of `interpret` by compiled code.
    fn compiled(
        &self,
        conjunct: &Conjunct,
        plan: &JitPlan<'_>,
        rows: Range<usize>,
        words: &mut Words,
    ) -> Result<Method> {
        let mut matching = [0; ZONE_WORDS];
        if !plan.run(rows.clone(), &mut matching[..rows.len().div_ceil(64)]) {
            self.interpret(conjunct, rows.start, words)?;
            return Ok(Method::Interpreted);
        }
        let first = plan.exceptions.partition_point(|&row| row < rows.start);
        for &row in plan.exceptions[first..].iter().take_while(|&&row| row < rows.end) {
            let (word, bit) = ((row - rows.start) / 64, row % 64);
            matching[word] &= !(1 << bit);
            if words[word] >> bit & 1 == 1 {
                let selected = conjunct.selects(&self.columns, row)?;
                matching[word] |= u64::from(selected) << bit;
            }
        }
        words.iter_mut().zip(&matching).for_each(|(word, matching)| *word &= matching);
        Ok(Method::Compiled)
    }

    /// Keeps the rows for which a conjunct is TRUE, by the interpreter.
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

    /// Keeps the rows that match.
    fn select(&self, select: &Select<'_>, rows: Range<usize>, words: &mut Words) -> Method {
        match zone_match(select, self.columns[select.column].slice, rows.start / ZONE_ROWS) {
            ZoneMatch::NoRows => {
                words.fill(0);
                Method::Skipped
            }
            ZoneMatch::AllRows => Method::Whole,
            ZoneMatch::Unknown => {
                let words = &mut words[..rows.len().div_ceil(64)];
                let mut matching = [0; ZONE_WORDS];
                let matching = &mut matching[..words.len()];
                self.matches(select, rows, words, matching);
                kernel::and(self.level, words, matching);
                Method::Kernel
            }
        }
    }

    /// Writes a bit for each row that matches, NULL rows included. Slow kernels read only rows that
    /// are `wanted`.
    fn matches(
        &self,
        select: &Select<'_>,
        rows: Range<usize>,
        wanted: &[u64],
        matching: &mut [u64],
    ) {
        let column = &self.columns[select.column];
        if !select.kernel.is_fast() {
            matching.copy_from_slice(wanted);
        }
        run(self.level, &select.kernel, column, rows.clone(), matching);
        let Some(validity) = column.slice.validity else { return };
        let on_null = if select.on_null { u64::MAX } else { 0 };
        let mut valid = [0; ZONE_WORDS];
        for (index, matching) in matching.chunks_mut(ZONE_WORDS).enumerate() {
            let valid = &mut valid[..matching.len()];
            load_words(validity, rows.start + index * ZONE_ROWS, valid);
            for (matching, valid) in matching.iter_mut().zip(valid) {
                *matching = (*matching & *valid) | (on_null & !*valid);
            }
        }
    }
}

/// Writes a bit for each row that matches if it has a value. Slow kernels read only the rows that
/// are set in `out`.
fn run(
    level: SimdLevel,
    kernel: &Kernel<'_>,
    column: &Column<'_>,
    rows: Range<usize>,
    out: &mut [u64],
) {
    match kernel {
        Kernel::Fixed(matches) => kernel::fill(out, rows.len(), *matches),
        Kernel::Codes { codes, test, known } => {
            kernel::select(level, codes, rows.clone(), &test.test, out);
            let first = known.partition_point(|(row, _)| *row < rows.start);
            for &(row, matches) in known[first..].iter().take_while(|(row, _)| *row < rows.end) {
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
            retain_rows(out, rows.start, |row| {
                value(row).order_key().is_some_and(|key| yes.contains(&key))
            });
        }
        Kernel::Texts(yes) => retain_texts(out, rows.start, column, |text| yes.contains(text)),
        Kernel::Empty { matches } => {
            let texts = texts_of(column);
            retain_rows(out, rows.start, |row| texts.is_empty_at(row) == *matches);
        }
        Kernel::CompressedLike { automaton, negated } => {
            retain_matching(out, rows.start, texts_of(column), automaton, *negated);
        }
        Kernel::Like { pattern, negated } => {
            retain_texts(out, rows.start, column, |text| pattern.matches(text) != *negated);
        }
    }
}

/// The decision by the bounds of a zone; `Unknown` if there are no bounds.
fn zone_match(select: &Select<'_>, slice: &ColumnSlice<'_>, zone: usize) -> ZoneMatch {
    slice.zones.get(zone).map_or(ZoneMatch::Unknown, |bytes| {
        select.zones.zone_match(&Zone::decode(bytes), select.on_null)
    })
}

fn count(words: &Words) -> usize {
    words.iter().map(|word| word.count_ones() as usize).sum()
}

/// Keeps those of the set rows that match.
fn retain_rows(words: &mut [u64], start: usize, mut matches: impl FnMut(usize) -> bool) {
    for (index, word) in words.iter_mut().enumerate() {
        for bit in bits(*word) {
            if !matches(start + index * 64 + bit) {
                *word &= !(1 << bit);
            }
        }
    }
}

fn retain_texts(
    words: &mut [u64],
    start: usize,
    column: &Column<'_>,
    matches: impl Fn(&[u8]) -> bool,
) {
    let (texts, mut scratch) = (texts_of(column), Vec::new());
    retain_rows(words, start, |row| matches(texts.at(row, &mut scratch)));
}

/// Keeps those of the set rows whose compressed texts match a pattern.
fn retain_matching(
    words: &mut [u64],
    start: usize,
    texts: &Texts<'_>,
    automaton: &CodeAutomaton,
    negated: bool,
) {
    let wanted = words.to_vec();
    let set = wanted.iter().enumerate();
    let places = set.flat_map(|(index, word)| bits(*word).map(move |bit| index * 64 + bit));
    automaton.match_all(
        places.map(|place| (place, texts.stored(start + place))),
        |place, matches| {
            if matches == negated {
                words[place / 64] &= !(1 << (place % 64));
            }
        },
    );
}

fn texts_of<'c, 'a>(column: &'c Column<'a>) -> &'c Texts<'a> {
    column.texts().expect("`lower` asks texts only of columns that have them")
}
