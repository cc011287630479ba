//! Damaged page frames give errors or no match, and never a panic.

use tidegate_filter::{
    AdaptiveOrder, Class, CompareOp, Context, Expr, Filter, JitCache, LowerCache, NoSymbols,
    Request, Selection, SimdLevel,
};
use tidegate_model::frame::{Dictionary, Strings};
use tidegate_model::{Codes, ColumnSlice, ColumnType, Encoded, PageFrame, Value};

const ROWS: usize = 100;

/// Runs a filter on a damaged column; any result is right except a panic. Returns the class of the
/// error of lowering, if there is one.
fn check(ty: ColumnType, encoded: Encoded<'_>, validity: Option<&[u8]>) -> Option<Class> {
    let slice = ColumnSlice { ty, rows: ROWS, validity, encoded, zones: &[] };
    let frame = PageFrame::new(ROWS, vec![slice]);
    let text = |text: &[u8]| Expr::literal(ty, Value::Bytes(text.to_vec()));
    let exprs = match ty {
        ColumnType::Varchar | ColumnType::Symbol => vec![
            Expr::compare(CompareOp::Ge, Expr::Column(0), text(b"b")),
            Expr::compare(CompareOp::Ne, Expr::Column(0), text(b"b")),
            Expr::Like {
                expr: Box::new(Expr::Column(0)),
                pattern: "%b%".to_owned(),
                negated: true,
                case_insensitive: false,
            },
        ],
        ty => vec![Expr::compare(
            CompareOp::Gt,
            Expr::Column(0),
            Expr::literal(
                ty,
                if ty == ColumnType::Float64 { Value::Float(1.0) } else { Value::Integer(1) },
            ),
        )],
    };
    let mut class = None;
    for expr in exprs {
        let filter = Filter::new(vec![ty], expr).expect("types fit");
        let (cache, jit) = (LowerCache::new(), JitCache::new());
        for level in SimdLevel::available() {
            let context = Context { symbols: &NoSymbols, cache: &cache, level, jit: Some(&jit) };
            match filter.lower(&frame, &context) {
                Err(error) => class = Some(error.class()),
                Ok(lowered) => {
                    let request =
                        Request { first: 0, end: ROWS, live: None, is_cancelled: &|| false };
                    let _ = lowered.evaluate(
                        &request,
                        &mut AdaptiveOrder::new(),
                        &mut Selection::new(),
                    );
                }
            }
        }
        let _ = filter.interpret(&frame, &NoSymbols);
    }
    class
}

#[test]
fn columns_that_end_early_are_corrupt() {
    let narrow = |codes| Encoded::Narrow { base: 0, step: 1, codes };
    let corrupt = Some(Class::Corruption);
    assert_eq!(check(ColumnType::Int32, narrow(Codes::U8(&[0; 99])), None), corrupt);
    assert_eq!(check(ColumnType::Int32, narrow(Codes::Bits(&[0; 12])), None), corrupt);
    assert_eq!(check(ColumnType::Int32, narrow(Codes::U8(&[0; 100])), Some(&[0; 12])), corrupt);
    assert_eq!(check(ColumnType::Int32, narrow(Codes::U8(&[0; 100])), Some(&[7; 13])), None);
    let fixed = |width, bytes| Encoded::Fixed { width, bytes };
    assert_eq!(check(ColumnType::Float64, fixed(8, &[0; 799]), None), corrupt);
    assert_eq!(check(ColumnType::Float64, fixed(4, &[0; 800]), None), corrupt);
    assert_eq!(check(ColumnType::Int32, fixed(4, &[0; 400]), None), corrupt);
    assert_eq!(check(ColumnType::Varchar, Encoded::Constant(1), None), corrupt);
}

#[test]
fn codes_beyond_the_dictionary_match_nothing() {
    let offsets = [0_u32, 1, 2].map(u32::to_le_bytes);
    let strings = Strings { offsets: &offsets, bytes: b"ab", table: None };
    let codes: Vec<u8> = (0..100).collect();
    let dictionary = Dictionary::Strings(strings);
    let encoded = Encoded::Dictionary { codes: Codes::U8(&codes), dictionary };
    assert_eq!(check(ColumnType::Varchar, encoded.clone(), None), None);
    let slice =
        ColumnSlice { ty: ColumnType::Varchar, rows: ROWS, validity: None, encoded, zones: &[] };
    let frame = PageFrame::new(ROWS, vec![slice]);
    let literal = Expr::literal(ColumnType::Varchar, Value::Bytes(b"x".to_vec()));
    let expr = Expr::compare(CompareOp::Ne, Expr::Column(0), literal);
    let filter = Filter::new(vec![ColumnType::Varchar], expr).expect("types fit");
    let cache = LowerCache::new();
    let context =
        Context { symbols: &NoSymbols, cache: &cache, level: SimdLevel::detect(), jit: None };
    let lowered = filter.lower(&frame, &context).expect("the shape is fine");
    let request = Request { first: 0, end: ROWS, live: None, is_cancelled: &|| false };
    assert_eq!(lowered.count(&request, &mut AdaptiveOrder::new()), Ok(2));
    assert!(filter.interpret(&frame, &NoSymbols).is_err());
}

#[test]
fn dictionaries_and_strings_with_wild_contents_give_no_panic() {
    let wild = [9_u32, 0, u32::MAX].map(u32::to_le_bytes);
    let strings = Strings { offsets: &wild, bytes: b"abc", table: None };
    let codes = [1; ROWS];
    let encoded = |dictionary| Encoded::Dictionary { codes: Codes::U8(&codes), dictionary };
    check(ColumnType::Varchar, encoded(Dictionary::Strings(strings)), None);
    let corrupt = Some(Class::Corruption);
    let no_table = Strings { table: Some(&[2, 1]), ..strings };
    assert_eq!(check(ColumnType::Varchar, encoded(Dictionary::Strings(no_table)), None), corrupt);
    let symbols = Dictionary::Symbols(&wild);
    assert_eq!(check(ColumnType::Symbol, encoded(symbols), None), corrupt);
    let offsets: Vec<[u8; 4]> =
        (0..=ROWS).map(|i| u32::try_from(i * 77 % 50).expect("small").to_le_bytes()).collect();
    for table in [None, Some(&[0_u8][..])] {
        let strings = Strings { offsets: &offsets, bytes: &[255; 40], table };
        check(ColumnType::Varchar, Encoded::Strings(strings), None);
    }
}

#[test]
fn exceptions_out_of_place_give_no_panic() {
    let rows = [7_u32, 3, 4_000_000].map(u32::to_le_bytes);
    let values = [5.0_f64.to_le_bytes(); 2];
    for base in [0, i64::MAX, i64::MIN] {
        let encoded = Encoded::Decimal {
            base,
            scale: 15,
            codes: Codes::U8(&[200; ROWS]),
            exception_rows: &rows,
            exception_values: &values,
        };
        check(ColumnType::Float64, encoded, None);
    }
}
