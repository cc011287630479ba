//! The interpreter agrees with the values, and every fast path with the interpreter.

use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};
use proptest::test_runner::TestCaseError;
use tidegate_filter::{
    AdaptiveOrder, CompareOp, Context, Error, Expr, Filter, JitCache, LowerCache, Request,
    Selection, SimdLevel, SymbolText,
};
use tidegate_model::{ColumnType, PageFrame, SymbolId, Value};

use crate::expressions::Author;
use crate::frames::{OwnedColumn, Symbols, TYPES, frame, symbols};
use crate::random::Random;

const NOT_CANCELLED: &dyn Fn() -> bool = &|| false;

fn some_rows(random: &mut Random) -> usize {
    match random.below(5) {
        0 => random.below(130),
        1 => 4_096,
        2 => 4_096 * 2 + random.below(200),
        _ => random.below(3_000),
    }
}

/// The rows that are asked for: a range, and perhaps a deletion vector.
struct Part {
    first: usize,
    end: usize,
    live: Option<Vec<u64>>,
}

impl Part {
    fn random(random: &mut Random, rows: usize) -> Part {
        let (a, b) = (random.below(rows + 1), random.below(rows + 1));
        let live =
            random.once_in(2).then(|| (0..rows.div_ceil(64)).map(|_| random.word()).collect());
        Part { first: a.min(b), end: a.max(b), live }
    }

    fn request(&self) -> Request<'_> {
        Request {
            first: self.first,
            end: self.end,
            live: self.live.as_deref(),
            is_cancelled: NOT_CANCELLED,
        }
    }

    fn has(&self, row: usize) -> bool {
        let is_live = |live: &Vec<u64>| live[row / 64] >> (row % 64) & 1 == 1;
        self.first <= row && row < self.end && self.live.as_ref().is_none_or(is_live)
    }
}

/// Checks all levels, twice each, so that statistics and caches are used too.
fn check_filter(
    filter: &Filter,
    frame: &PageFrame<'_>,
    symbols: &Symbols,
    parts: &[Part],
) -> Result<(), TestCaseError> {
    let expected = filter.interpret(frame, symbols);
    let (cache, compiled) = (LowerCache::new(), JitCache::new());
    let levels = SimdLevel::available().into_iter().map(|level| (level, Some(&compiled)));
    for (level, jit) in levels.chain([(SimdLevel::PLAIN, None)]) {
        let context = Context { symbols, cache: &cache, level, jit };
        let lowered = filter.lower(frame, &context);
        prop_assert!(lowered.is_ok(), "{:?}", lowered.err());
        let lowered = lowered.expect("asserted");
        let (mut adaptive, mut selection) = (AdaptiveOrder::new(), Selection::new());
        for part in parts {
            let count = lowered.evaluate(&part.request(), &mut adaptive, &mut selection);
            let Ok(expected) = &expected else {
                let is_whole = part.first == 0 && part.end == frame.rows() && part.live.is_none();
                prop_assert!(!is_whole || count.is_err(), "no error: {}", filter.expr());
                continue;
            };
            let wanted: Vec<usize> =
                (0..frame.rows()).filter(|&row| expected[row] && part.has(row)).collect();
            let given: Vec<usize> = selection.rows().collect();
            prop_assert_eq!(&given, &wanted, "{} at {}", filter.expr(), level.name());
            prop_assert_eq!(count, Ok(wanted.len()));
            prop_assert_eq!(lowered.count(&part.request(), &mut adaptive), Ok(wanted.len()));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// Checks lower-1 and evaluate-1 for conditions of every shape on columns of every shape.
    #[test]
    fn every_path_selects_what_the_interpreter_selects(seed in any::<u64>()) {
        let random = &mut Random::new(seed);
        let (symbols, rows) = (symbols(), some_rows(random));
        let columns: Vec<OwnedColumn> = (0..1 + random.below(4))
            .map(|_| {
                let ty = *random.choose(&TYPES);
                OwnedColumn::random(random, ty, rows, &symbols)
            })
            .collect();
        let frame = frame(&columns, rows);
        let types: Vec<ColumnType> = columns.iter().map(|column| column.ty).collect();
        for _ in 0..4 {
            let expr = Author { random, columns: &columns }.condition();
            let filter = Filter::new(types.clone(), expr.clone());
            prop_assert!(filter.is_ok(), "{expr}: {:?}", filter.err());
            let whole = || Part { first: 0, end: rows, live: None };
            let parts = [whole(), Part::random(random, rows), whole()];
            check_filter(&filter.expect("asserted"), &frame, &symbols, &parts)?;
        }
    }

    /// Checks that the interpreter reads the values that the format defines.
    #[test]
    fn every_row_equals_its_own_value_and_no_other(seed in any::<u64>()) {
        let random = &mut Random::new(seed);
        let (symbols, ty) = (symbols(), *random.choose(&TYPES));
        let rows = 1 + random.below(300);
        let columns = [OwnedColumn::random(random, ty, rows, &symbols)];
        let frame = frame(&columns, rows);
        for value in columns[0].values.iter().step_by(17) {
            let expr = match value {
                Value::Null => Expr::IsNull(Box::new(Expr::Column(0))),
                value => Expr::compare(
                    CompareOp::Eq,
                    Expr::Column(0),
                    Expr::literal(ty, value.clone()),
                ),
            };
            let filter = Filter::new(vec![ty], expr).expect("types fit");
            let expected: Vec<bool> =
                columns[0].values.iter().map(|other| same(value, other)).collect();
            prop_assert_eq!(filter.interpret(&frame, &symbols), Ok(expected), "{:?}", value);
        }
    }
}

/// Compares two values of one column by ir-3.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => a == b || (a.is_nan() && b.is_nan()),
        (a, b) => a == b,
    }
}

#[test]
fn a_stop_ends_at_the_next_zone_or_run_of_zones() {
    let column = || Box::new(Expr::Column(0));
    let like = Expr::Like {
        expr: column(),
        pattern: "%o%".into(),
        negated: false,
        case_insensitive: false,
    };
    // Texts are looked at zone by zone; a kernel takes all three zones at once.
    check_stop(ColumnType::Varchar, like, 2);
    let bound = Expr::literal(ColumnType::Float64, Value::Float(0.5));
    check_stop(ColumnType::Float64, Expr::compare(CompareOp::Lt, *column(), bound), 0);
}

/// A filter whose `is_cancelled` returns true after some calls asks it at most once more.
#[track_caller]
fn check_stop(ty: ColumnType, expr: Expr, after: usize) {
    let (symbols, rows) = (symbols(), 3 * 4_096);
    let columns = [OwnedColumn::random(&mut Random::new(3), ty, rows, &symbols)];
    let frame = frame(&columns, rows);
    let filter = Filter::new(vec![ty], expr).expect("types fit");
    let cache = LowerCache::new();
    let context =
        Context { symbols: &symbols, cache: &cache, level: SimdLevel::detect(), jit: None };
    let lowered = filter.lower(&frame, &context).expect("whole");
    let asked = std::cell::Cell::new(0);
    let is_cancelled = || asked.replace(asked.get() + 1) == after;
    let request = Request { first: 0, end: rows, live: None, is_cancelled: &is_cancelled };
    let count = lowered.count(&request, &mut AdaptiveOrder::new());
    assert_eq!(count, Err(Error::Cancelled), "evaluate-3");
    assert_eq!(asked.get(), after + 1, "evaluate-3");
}

#[test]
fn zones_decide_without_looking() {
    let (symbols, rows) = (symbols(), 4 * 4_096);
    // The code is the number of the row, so each zone has its own values.
    let column = (0_u64..)
        .map(|seed| OwnedColumn::random(&mut Random::new(seed), ColumnType::Int64, rows, &symbols))
        .find(|column| {
            let slice = column.slice();
            let value = |row: usize| column.values[row].clone();
            let ascends = (1..rows).all(|row| match (value(row - 1), value(row)) {
                (Value::Integer(a), Value::Integer(b)) => a < b,
                _ => false,
            });
            ascends && !slice.zones.is_empty()
        })
        .expect("some seed gives a sequence");
    let middle = column.values[rows / 2].clone();
    let columns = [column];
    let frame = frame(&columns, rows);
    let expr =
        Expr::compare(CompareOp::Ge, Expr::Column(0), Expr::literal(ColumnType::Int64, middle));
    let filter = Filter::new(vec![ColumnType::Int64], expr).expect("types fit");
    let cache = LowerCache::new();
    let context =
        Context { symbols: &symbols, cache: &cache, level: SimdLevel::detect(), jit: None };
    let lowered = filter.lower(&frame, &context).expect("whole");
    let mut adaptive = AdaptiveOrder::new();
    let request = Request { first: 0, end: rows, live: None, is_cancelled: NOT_CANCELLED };
    assert_eq!(lowered.count(&request, &mut adaptive), Ok(rows / 2));
    let statistics = *adaptive.statistics().next().expect("one conjunct");
    assert_eq!((statistics.zones_skipped, statistics.zones_whole), (2, 2));
    assert_eq!((statistics.rows_in, statistics.rows_out), (4 * 4_096, 2 * 4_096));
}

#[test]
fn a_dictionary_is_asked_once_for_all_frames_of_a_segment() {
    struct Counting(Symbols, std::sync::atomic::AtomicUsize);
    impl SymbolText for Counting {
        fn text(&self, column: usize, id: SymbolId) -> Option<&[u8]> {
            self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.0.text(column, id)
        }
    }
    let texts = Counting(symbols(), std::sync::atomic::AtomicUsize::new(0));
    let asked = || texts.1.load(std::sync::atomic::Ordering::Relaxed);
    let column = (0_u64..)
        .map(|seed| OwnedColumn::random(&mut Random::new(seed), ColumnType::Symbol, 100, &texts.0))
        .find(|column| column.has_codes())
        .expect("some seed gives codes");
    let columns = [column];
    let frame = frame(&columns, 100);
    let expr = Expr::Like {
        expr: Box::new(Expr::Column(0)),
        pattern: "%0%1".to_owned(),
        negated: false,
        case_insensitive: false,
    };
    let filter = Filter::new(vec![ColumnType::Symbol], expr).expect("types fit");
    let cache = LowerCache::new();
    let context = Context { symbols: &texts, cache: &cache, level: SimdLevel::PLAIN, jit: None };
    filter.lower(&frame, &context).expect("whole");
    let once = asked();
    assert!(once > 0);
    filter.lower(&frame, &context).expect("whole");
    assert_eq!(asked(), once, "lower-2");
}
