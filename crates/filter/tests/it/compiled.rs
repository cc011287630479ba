//! Compiled conditions: they are compiled, and their results are right.

use tidegate_filter::{
    AdaptiveOrder, ArithmeticOp, CompareOp, Context, Error, Expr, Filter, JitCache, LowerCache,
    NoSymbols, Request, SimdLevel,
};
use tidegate_model::{Codes, ColumnSlice, ColumnType, Encoded, PageFrame, Value};

const ROWS: usize = 4_096 + 70;

fn int(value: i128) -> Expr {
    Expr::literal(ColumnType::Int64, Value::Integer(value))
}

fn calculate(op: ArithmeticOp, left: Expr, right: Expr) -> Expr {
    Expr::Arithmetic { op, left: Box::new(left), right: Box::new(right) }
}

/// The number of rows that match, of zones for compiled code, and of zones for the interpreter.
fn run(expr: &Expr, jit: &JitCache) -> Result<(usize, u64, u64), Error> {
    let bytes: Vec<u8> = (0..ROWS).map(|row| u8::try_from(row % 200).expect("small")).collect();
    let column = |base, codes| ColumnSlice {
        ty: ColumnType::Int64,
        rows: ROWS,
        validity: None,
        encoded: Encoded::Narrow { base, step: 1, codes },
        zones: &[],
    };
    let columns = vec![column(-1, Codes::U8(&bytes)), column(5, Codes::Sequence)];
    let frame = PageFrame::new(ROWS, columns);
    let filter = Filter::new(vec![ColumnType::Int64; 2], expr.clone()).expect("types fit");
    let cache = LowerCache::new();
    let context =
        Context { symbols: &NoSymbols, cache: &cache, level: SimdLevel::PLAIN, jit: Some(jit) };
    let lowered = filter.lower(&frame, &context).expect("whole");
    let mut adaptive = AdaptiveOrder::new();
    let request = Request { first: 0, end: ROWS, live: None, is_cancelled: &|| false };
    let count = lowered.count(&request, &mut adaptive)?;
    let (compiled, interpreted) = adaptive
        .statistics()
        .fold((0, 0), |(a, b), of| (a + of.zones_compiled, b + of.zones_interpreted));
    Ok((count, compiled, interpreted))
}

#[test]
fn arithmetic_across_columns_is_compiled_once_for_all_constants() {
    let jit = JitCache::new();
    for constant in [0, 100, 5_000] {
        let sum = calculate(ArithmeticOp::Add, Expr::Column(0), Expr::Column(1));
        let expr = Expr::compare(CompareOp::Lt, sum, int(constant));
        let expected = (0..ROWS).filter(|row| row % 200 + 4 + row < constant as usize).count();
        assert_eq!(run(&expr, &jit), Ok((expected, 2, 0)));
    }
    assert_eq!(jit.len(), 1);
}

#[test]
fn a_division_whose_result_is_unused_does_not_fail() {
    let jit = JitCache::new();
    let quotient = || calculate(ArithmeticOp::Div, Expr::Column(1), Expr::Column(0));
    let is_one = || Expr::compare(CompareOp::Eq, quotient(), int(1));
    let is_zero = || Expr::compare(CompareOp::Eq, Expr::Column(0), int(0));
    // Column 0 is 0 in each 200th row.
    assert_eq!(run(&is_one(), &jit), Err(Error::DivideByZero));
    let guarded = Expr::Case {
        branches: vec![(is_zero(), Expr::literal(ColumnType::Boolean, Value::Bit(false)))],
        otherwise: Some(Box::new(is_one())),
    };
    let (count, compiled, interpreted) = run(&guarded, &jit).expect("guarded");
    assert_eq!((compiled, interpreted), (2, 0), "no error is seen where none counts");
    let either = Expr::Not(Box::new(Expr::Or(vec![is_zero(), Expr::Not(Box::new(is_one()))])));
    assert_eq!(run(&either, &jit), Ok((count, 2, 0)));
    // The conjunct before it removes these rows. The code still reads all of them: in the first
    // zone it leaves the result to the interpreter, in the second one no divisor is 0.
    let nonzero = Expr::Not(Box::new(is_zero()));
    assert_eq!(run(&Expr::And(vec![is_one(), nonzero]), &jit), Ok((count, 1, 1)));
}
