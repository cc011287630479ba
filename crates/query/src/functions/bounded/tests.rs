//! Tests that the bounds of functions hold for their values, over the whole registry.

use std::collections::{BTreeMap, HashSet};

use datafusion::arrow::array::{
    BinaryViewArray, Float64Array, Int64Array, Int64Builder, ListBuilder, RecordBatch,
    StringBuilder, StringViewArray, TimestampMicrosecondArray,
};
use datafusion::arrow::datatypes::Field;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    LogicalPlanBuilder, Operator, binary_expr, cast, col, lit, try_cast,
};

use super::category::lines;
use super::*;
use crate::account::Account;
use crate::cancel::{CancelState, Timeout};
use crate::engine_functions::engine_functions;
use crate::functions::{AGGREGATES, SCALARS};
use crate::pg_catalog::catalog_functions;

fn state() -> SessionState {
    SessionStateBuilder::new().with_default_features().build()
}

fn function(state: &SessionState, name: &str) -> Arc<ScalarUDF> {
    let known = SCALARS.get(name).or(state.scalar_functions().get(name));
    bounded(known.expect(name)).expect(name)
}

#[test]
fn every_function_has_a_growth() {
    let state = state();
    let ours = SCALARS.values().chain(state.scalar_functions().values());
    let mut names = ours.map(|it| it.name().to_owned()).collect::<HashSet<_>>();
    names.extend(engine_functions().chain(catalog_functions()).map(str::to_owned));
    let missing = names.iter().filter(|name| growth_of(name).is_none()).collect::<Vec<_>>();
    assert!(missing.is_empty(), "category-1: {missing:?}");
    let all = lines();
    let distinct = all.iter().collect::<HashSet<_>>();
    assert_eq!(all.len(), distinct.len(), "category-1: a function has two lines");
    // The planner makes those that no statement can name.
    let is_operator = |name: &str| ["||", "LIKE", "ILIKE", "~", "bitwise xor"].contains(&name);
    let unnamed =
        |name: &&&str| !names.contains(**name) && !name.starts_with("cast ") && !is_operator(name);
    let unknown = all.iter().filter(unnamed).collect::<Vec<_>>();
    assert!(unknown.is_empty(), "category-1: {unknown:?}");
}

/// Aggregates that are not bounded, because they count their memory themselves and return it once:
/// those with values of a fixed width or one of their inputs, and those that keep all inputs.
const AGGREGATES_FIXED: &[&str] = &[
    "any_value",
    "approx_distinct",
    "approx_median",
    "approx_percentile_cont",
    "approx_percentile_cont_with_weight",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "first_value",
    "grouping",
    "last_value",
    "max",
    "median",
    "min",
    "nth_value",
    "percentile_cont",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "stddev",
    "stddev_pop",
    "sum",
    "var",
    "var_pop",
];

#[test]
fn every_aggregate_is_known() {
    let state = state();
    let names = state.aggregate_functions().values().map(|it| it.name().to_owned());
    let known = |name: &String| {
        AGGREGATES_FIXED.contains(&name.as_str()) || collecting::COLLECTING.contains(&name.as_str())
    };
    let missing = names.filter(|name| !known(name)).collect::<HashSet<_>>();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(!AGGREGATES.is_empty());
}

/// Texts that grow, lists of them, numbers and times, in four rows.
fn edges() -> RecordBatch {
    let long = "ab\u{130}".repeat(300);
    let texts =
        StringViewArray::from(vec![Some("\u{149}\u{390}\u{fb03}x"), Some(&long), Some(""), None]);
    let short = StringViewArray::from(vec![Some("a"), Some(""), Some("\u{130}"), Some("b")]);
    let news = StringViewArray::from(vec![Some("\u{1F600}yy"), Some(r"\0$0"), None, Some("")]);
    let globally = StringViewArray::from(vec!["g"; 4]);
    let counts = Int64Array::from(vec![Some(7), Some(-3), Some(40), None]);
    let ones = Int64Array::from(vec![1, 2, 1, 3]);
    let floats = Float64Array::from(vec![Some(f64::MIN), Some(5e-324), Some(1e300), None]);
    let bytes = BinaryViewArray::from(vec![Some(b"\xff\x00ab".as_slice()), Some(b""), None, None]);
    let times = TimestampMicrosecondArray::from(vec![Some(0), Some(i64::MAX / 2), Some(-1), None]);
    let mut lists = ListBuilder::new(StringBuilder::new());
    let mut numbers = ListBuilder::new(Int64Builder::new());
    for row in 0..4_i64 {
        for element in 0..row * 5 {
            lists.values().append_option((element % 3 != 0).then(|| "\u{149}long".repeat(4)));
            numbers.values().append_option((element % 4 != 0).then_some(element - 3));
        }
        lists.append(row != 2);
        numbers.append(true);
    }
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("text", Arc::new(texts)),
        ("short", Arc::new(short)),
        ("new", Arc::new(news)),
        ("flags", Arc::new(globally)),
        ("count", Arc::new(counts)),
        ("one", Arc::new(ones)),
        ("float", Arc::new(floats)),
        ("bytes", Arc::new(bytes)),
        ("time", Arc::new(times)),
        ("when", Arc::new(TimestampMicrosecondArray::from(vec![0, 1, 1 << 50, -1]))),
        ("hex", Arc::new(StringViewArray::from(vec!["0aff"; 4]))),
        ("list", Arc::new(lists.finish())),
        ("numbers", Arc::new(numbers.finish())),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Arguments with which each function makes large values; a name that is no column is a text.
const CALLS: &[(&str, &str)] = &[
    ("array_add", "numbers numbers"),
    ("array_any_value", "list"),
    ("array_append", "list text"),
    ("array_compact", "list"),
    ("array_concat", "list list"),
    ("array_distinct", "list"),
    ("array_element", "list one"),
    ("array_except", "list list"),
    ("array_intersect", "list list"),
    ("array_max", "list"),
    ("array_min", "list"),
    ("array_normalize", "numbers"),
    ("array_pop_back", "list"),
    ("array_pop_front", "list"),
    ("array_positions", "list short"),
    ("array_prepend", "text list"),
    ("array_remove", "list short"),
    ("array_remove_all", "list short"),
    ("array_remove_n", "list short one"),
    ("array_repeat", "text count"),
    ("array_repeat", "list count"),
    ("array_replace", "list short text"),
    ("array_replace_all", "numbers one count"),
    ("array_replace_n", "list short text count"),
    ("array_resize", "numbers one count"),
    ("array_reverse", "list"),
    ("array_scale", "numbers float"),
    ("array_slice", "list one count"),
    ("array_sort", "list"),
    ("array_subtract", "numbers numbers"),
    ("array_to_string", "list text new"),
    ("array_to_string", "numbers text"),
    ("array_union", "list list"),
    ("arrays_zip", "list numbers list"),
    ("btrim", "text short"),
    ("concat", "text short text"),
    ("concat", "text float time"),
    ("concat_ws", "text short text float"),
    ("decode", "hex =hex"),
    ("encode", "bytes =hex"),
    ("encode", "text =hex"),
    ("encode", "text =base64"),
    ("format", "=%s|%1$-50s text"),
    ("flatten", "list"),
    ("generate_series", "one count"),
    ("greatest", "text short"),
    ("initcap", "text"),
    ("least", "text short"),
    ("left", "text count"),
    ("lower", "text"),
    ("lpad", "short count new"),
    ("lpad", "text count"),
    ("rpad", "text count"),
    ("ltrim", "text short"),
    ("make_array", "text short text"),
    ("make_array", "list list"),
    ("nullif", "text short"),
    ("overlay", "text new one"),
    ("overlay", "text new one count"),
    ("range", "one count"),
    ("range", "count"),
    ("regexp_match", "text =((a)(b))?(.*)"),
    ("regexp_replace", "text short new flags"),
    ("regexp_replace", "text =(.)(.) =\\2\\1$2"),
    ("regexp_replace", "text =(.) =\\1\\1\\1\\1 flags"),
    ("repeat", "text count"),
    ("replace", "text short new"),
    ("reverse", "text"),
    ("right", "text count"),
    ("rpad", "short count new"),
    ("rtrim", "text short"),
    ("split_part", "text short one"),
    ("string_to_array", "text short"),
    ("string_to_array", "text short new"),
    ("substr", "text one one"),
    ("substr_index", "text short one"),
    ("to_char", "when =DAYMONTHDAY"),
    ("to_str", "time =yyyyMMMMEEEEEEE"),
    ("translate", "text short new"),
    ("upper", "text"),
];

fn argument(word: &str) -> Expr {
    match word.strip_prefix('=') {
        Some(text) => lit(text),
        None => col(word),
    }
}

/// Evaluates a call; `None` if the function does not take such arguments, or fails.
fn evaluated(state: &SessionState, batch: &RecordBatch, call: Expr) -> Option<ColumnarValue> {
    let schema = DFSchema::try_from(batch.schema()).unwrap();
    let expr = state.create_physical_expr(call, &schema).ok()?;
    expr.evaluate(batch).ok()
}

#[test]
fn no_function_makes_more_than_its_bound() {
    let (state, batch) = (state(), edges());
    let mut done = BTreeMap::<&str, usize>::new();
    for (name, args) in CALLS {
        let args = args.split(' ').map(argument).collect();
        let made = evaluated(&state, &batch, function(&state, name).call(args));
        *done.entry(name).or_default() += usize::from(made.is_some());
    }
    let never = done.iter().filter(|(_, times)| **times == 0).map(|(name, _)| name);
    assert_eq!(never.collect::<Vec<_>>(), Vec::<&&str>::new(), "growth-1: not one call is right");
    // Any arguments, which most functions do not take.
    let names = batch.schema().fields().iter().map(|it| it.name().clone()).collect::<Vec<_>>();
    let mut functions = state.scalar_functions().iter().collect::<Vec<_>>();
    functions.sort_by_key(|(name, _)| (*name).clone());
    let mut random = 1_u32;
    let mut next = |most: usize| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 16) as usize % most
    };
    for (name, function) in functions {
        let known = bounded(function).expect(name);
        if Arc::ptr_eq(&known, function) {
            continue;
        }
        for _ in 0..4 {
            let args = (0..1 + next(3)).map(|_| col(&names[next(names.len())])).collect();
            evaluated(&state, &batch, known.call(args));
        }
    }
}

#[test]
fn no_operator_makes_more_than_its_bound() {
    let (state, batch) = (state(), edges());
    let schema = Arc::new(DFSchema::try_from(batch.schema()).unwrap());
    let joined = |left: Expr, right: Expr| binary_expr(left, Operator::StringConcat, right);
    let texts = DataType::new_list(DataType::Utf8, true);
    let exprs = [
        joined(
            joined(col("text"), lit(ScalarValue::from("-").cast_to(&view()).unwrap())),
            col("new"),
        ),
        joined(col("bytes"), col("bytes")),
        joined(cast(col("text"), DataType::Utf8), cast(col("short"), DataType::Utf8)),
        cast(col("list"), view()),
        cast(col("numbers"), view()),
        cast(col("numbers"), texts.clone()),
        try_cast(col("list"), DataType::new_list(DataType::Int64, true)),
        cast(make_list(&state, "float"), view()),
        cast(make_list(&state, "time"), view()),
        cast(make_list(&state, "bytes"), view()),
        cast(make_list(&state, "list"), texts),
    ];
    for expr in exprs {
        let wrapped = bound_expr(expr.clone(), &schema).unwrap();
        let is_call =
            matches!(&wrapped, Expr::ScalarFunction(call) if call.func.inner().is::<Bounded>());
        assert!(is_call, "operators-1: {wrapped}");
        assert_eq!(
            wrapped.schema_name().to_string(),
            expr.schema_name().to_string(),
            "text_concat-1, value_cast-1"
        );
        let plain = state.create_physical_expr(expr, &schema).unwrap();
        let expected = plain.evaluate(&batch).unwrap().into_array(4).unwrap();
        let made = evaluated(&state, &batch, wrapped.clone()).expect("growth-1");
        assert_eq!(&made.into_array(4).unwrap(), &expected, "{wrapped}");
    }
}

fn view() -> DataType {
    DataType::Utf8View
}

fn make_list(state: &SessionState, column: &str) -> Expr {
    function(state, "make_array").call(vec![col(column), col(column)])
}

/// Returns the error of a call with these constants, if there is one.
fn refused(name: &str, args: &[ScalarValue]) -> Option<String> {
    let (state, batch) = (state(), edges());
    let schema = DFSchema::try_from(batch.schema()).unwrap();
    let args = args.iter().map(|arg| lit(arg.clone())).collect();
    let expr = state.create_physical_expr(function(&state, name).call(args), &schema).unwrap();
    expr.evaluate(&batch).err().map(|error| error.to_string())
}

#[test]
fn values_that_would_not_fit_are_refused_before_they_are_made() {
    let text = |text: &str| ScalarValue::from(text);
    let many = |count: usize| ScalarValue::from("a".repeat(count));
    let count = |count: i64| ScalarValue::Int64(Some(count));
    let list = |count: i64| {
        let numbers = (0..count).map(|number| ScalarValue::Int64(Some(number)));
        let list = ScalarValue::new_list_nullable(&numbers.collect::<Vec<_>>(), &DataType::Int64);
        ScalarValue::List(list)
    };
    let cases: Vec<(&str, Vec<ScalarValue>)> = vec![
        // Each of the first two exhausted the memory of a process.
        ("regexp_replace", vec![many(100_000), text("a"), many(6_000), text("g")]),
        ("concat_ws", [vec![many(60_000_000)], vec![text("x"); 10]].concat()),
        (
            "regexp_replace",
            vec![many(100_000), text("(.*)"), ScalarValue::from("$1".repeat(6_000))],
        ),
        (
            "regexp_match",
            vec![
                many(600_000),
                ScalarValue::from(format!("{}a*{}", "(".repeat(900), ")".repeat(900))),
            ],
        ),
        ("repeat", vec![text("abc"), count(i64::MAX)]),
        ("replace", vec![many(100_000), text(""), many(6_000)]),
        ("lpad", vec![text("a"), count(200_000_000), text("\u{1F600}")]),
        ("array_repeat", vec![many(1_000), count(1_000_000)]),
        ("array_resize", vec![list(2), count(100_000_000), count(1)]),
        ("array_to_string", vec![list(10_000), many(60_000)]),
        ("range", vec![count(0), count(i64::MAX), count(1)]),
        ("string_to_array", vec![many(23_000_000), text("a")]),
    ];
    for (name, args) in cases {
        let error = refused(name, &args);
        let is_said = error.as_ref().is_some_and(|it| it.contains("more than 512 MiB"));
        assert!(is_said, "bounded-1: {name}: {error:?}");
    }
    // One match is replaced without the flag `g`, and few are with it: the result is small.
    assert_eq!(refused("regexp_replace", &[many(100_000), text("a"), many(6_000)]), None);
    let few = [many(100_000), text("a{1000}"), many(6_000), text("g")];
    assert_eq!(refused("regexp_replace", &few), None, "matches are counted");
}

#[test]
fn texts_whose_comparison_takes_long_are_refused() {
    let text = ScalarValue::from("x".repeat(100_000));
    let error = refused("levenshtein", &[text.clone(), text]).expect("it takes a minute");
    assert!(error.contains("lengths multiplied"), "bounded-2: {error}");
    let short = ScalarValue::from("x".repeat(200));
    assert_eq!(refused("levenshtein", &[short.clone(), short]), None);
}

/// A call with constants.
fn constants(name: &str, args: &[ScalarValue]) -> ColumnarValue {
    let (state, batch) = (state(), edges().slice(0, 1));
    let args = args.iter().map(|arg| lit(arg.clone())).collect();
    evaluated(&state, &batch, function(&state, name).call(args)).expect(name)
}

#[test]
fn long_values_are_compared_in_linear_time() {
    let text = |text: String| ScalarValue::Utf8View(Some(text));
    let list = |numbers: std::ops::Range<i64>| {
        let texts = numbers.map(|number| text(number.to_string())).collect::<Vec<_>>();
        ScalarValue::List(ScalarValue::new_list_nullable(&texts, &DataType::Utf8View))
    };
    // The algorithm for short values would take minutes for each.
    let cases = [
        ("strpos", vec![text("a".repeat(4 << 20)), text("a".repeat(2 << 20) + "b")], "0"),
        (
            "strpos",
            vec![text("a".repeat(4 << 20) + "b"), text("a".repeat(2 << 20) + "b")],
            "2097153",
        ),
        ("btrim", vec![text("xyz".repeat(1 << 20)), text("abc".repeat(1 << 20) + "zyx")], ""),
        ("ltrim", vec![text("x".repeat(1 << 20) + "y"), text("abc".repeat(1 << 20) + "x")], "y"),
        ("array_has_any", vec![list(0..100_000), list(100_000..200_000)], "false"),
        ("array_has_all", vec![list(0..100_000), list(0..100_000)], "true"),
    ];
    for (name, args, expected) in cases {
        let ColumnarValue::Scalar(made) = constants(name, &args) else { panic!("{name}: work-2") };
        assert_eq!(made.to_string(), expected, "{name}: work-2");
    }
}

#[test]
fn rows_that_are_worked_on_apart_have_the_values_of_others() {
    let (state, batch) = (state(), edges());
    let nested = function(&state, "make_array").call(vec![col("list"), col("list")]);
    let calls = [
        ("strpos", vec![col("text"), col("short")]),
        ("strpos", vec![col("text"), col("new")]),
        ("btrim", vec![col("text"), col("short")]),
        ("ltrim", vec![col("text"), col("text")]),
        ("rtrim", vec![col("new"), col("text")]),
        ("array_has_any", vec![col("list"), col("list")]),
        ("array_has_any", vec![col("numbers"), make_list(&state, "one")]),
        ("array_has_all", vec![col("numbers"), make_list(&state, "count")]),
        ("array_has_all", vec![nested.clone(), nested]),
    ];
    for (name, args) in calls {
        let call = function(&state, name).call(args);
        let Expr::ScalarFunction(ScalarFunction { func, args }) = &call else { panic!("a call") };
        let plain = evaluated(&state, &batch, call.clone()).expect(name).into_array(4).unwrap();
        let Work::RowByRow { one_row, .. } = work_of(name) else { panic!("work-2: {name}") };
        let values = args.iter().map(|arg| evaluated(&state, &batch, arg.clone()).expect(name));
        let values = values.collect::<Vec<_>>();
        let schema = batch.schema();
        let field = |it: &ColumnarValue| Arc::new(Field::new("", it.data_type(), true));
        let arg_fields = values.iter().map(field).collect::<Vec<_>>();
        for row in 0..4 {
            let slice = |it: &ColumnarValue| match it {
                ColumnarValue::Array(values) => ColumnarValue::Array(values.slice(row, 1)),
                constant => constant.clone(),
            };
            let args = ScalarFunctionArgs {
                args: values.iter().map(slice).collect(),
                arg_fields: arg_fields.clone(),
                number_rows: 1,
                return_field: Arc::new(Field::new("", plain.data_type().clone(), true)),
                config_options: Arc::new(ConfigOptions::default()),
            };
            let inner = func.inner().downcast_ref::<Bounded>().expect("it is bounded");
            let made = one_row(&inner.inner, args).unwrap().into_array(1).unwrap();
            assert_eq!(&made, &plain.slice(row, 1), "work-2: {name} of row {row}, {schema:?}");
        }
    }
}

#[test]
fn a_row_with_many_steps_is_a_slice_of_its_own() {
    let sizes = [10, 5_000, 10, 3_000, 10];
    let texts = sizes.iter().map(|size| Some("x".repeat(*size)));
    let texts: ArrayRef = Arc::new(texts.collect::<StringViewArray>());
    let args = [ColumnarValue::Array(Arc::clone(&texts)), ColumnarValue::Array(texts)];
    let rows = |name: &str| {
        let found = slices(name, &Call::new(&args, 5, &DataType::Int32)).unwrap();
        found.into_iter().map(|it| (it.rows, it.is_row_by_row)).collect::<Vec<_>>()
    };
    let expected = [(0..1, false), (1..2, true), (2..3, false), (3..4, true), (4..5, false)];
    assert_eq!(rows("strpos"), expected, "work-2");
    assert_eq!(rows("levenshtein"), [(0..5, false)], "work-1: they are few together");
}

#[test]
fn constants_make_one_value_however_many_rows_there_are() {
    let (state, batch) = (state(), edges());
    let binary = lit(ScalarValue::BinaryView(Some(b"x".to_vec())));
    let call = function(&state, "lpad").call(vec![lit("a"), lit(1_000_i64), binary]);
    let made = evaluated(&state, &batch, call).expect("growth-1: it made one for each row");
    assert!(matches!(made, ColumnarValue::Scalar(_)), "{made:?}");
}

fn account(memory: usize) -> Arc<Account> {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(memory));
    Account::new(&Arc::new(CancelState::new(Timeout::Never)), &pool)
}

/// Returns `concat` of so many texts, each of which is made by a call.
fn nested(state: &SessionState, count: usize, bytes: i64) -> Expr {
    let repeat = function(state, "repeat");
    let texts = (0..count).map(|_| repeat.call(vec![col("short"), lit(bytes)]));
    function(state, "concat").call(texts.collect())
}

#[test]
fn values_that_are_alive_together_are_counted_together() {
    let (state, batch) = (state(), edges().slice(0, 1));
    let bytes = 8 << 20;
    let made = |count: usize, memory: usize| {
        let schema = DFSchema::try_from(batch.schema()).unwrap();
        let expr = state.create_physical_expr(nested(&state, count, bytes), &schema).unwrap();
        let _entered = account(memory).enter();
        expr.evaluate(&batch).map(|_| ()).map_err(|error| error.to_string())
    };
    made(2, 100 << 20).expect("two of them, and what they are together twice");
    let error = made(6, 100 << 20).expect_err("account-2");
    assert!(error.contains("ExpressionValues"), "account-2: {error}");
    // Calls one after the other: freed values are not counted any more.
    let schema = DFSchema::try_from(batch.schema()).unwrap();
    let one = state.create_physical_expr(nested(&state, 1, bytes), &schema).unwrap();
    let _entered = account(100 << 20).enter();
    for _ in 0..20 {
        one.evaluate(&batch).expect("account-2: it is the only one");
    }
}

#[test]
fn large_constants_stay_calls_while_a_query_is_planned() {
    let state = state();
    let planned = |bytes: i64| {
        let call = function(&state, "repeat").call(vec![lit("a"), lit(bytes)]);
        let plan = LogicalPlanBuilder::empty(true).project([call]).unwrap().build().unwrap();
        state.optimize(&plan).unwrap().to_string()
    };
    let _entered = account(1 << 30).enter_planning();
    let (small, large) = (planned(1_000), planned(65 << 10));
    assert!(small.contains("aaaa"), "{small}");
    assert!(large.len() < 1_000 && large.contains("repeat("), "account-1");
    // Nor is a call with large constants, however small its value is.
    let text = "a".repeat(65 << 10);
    let call = function(&state, "md5").call(vec![lit(text)]);
    let plan = LogicalPlanBuilder::empty(true).project([call]).unwrap().build().unwrap();
    let plan = state.optimize(&plan).unwrap().to_string();
    assert!(plan.contains("md5("), "account-1");
}

#[test]
fn a_statement_that_has_ended_evaluates_no_function() {
    let (state, batch) = (state(), edges());
    let schema = DFSchema::try_from(batch.schema()).unwrap();
    let call = function(&state, "upper").call(vec![col("text")]);
    let expr = state.create_physical_expr(call, &schema).unwrap();
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 20));
    let stop = Arc::new(CancelState::new(Timeout::Never));
    let account = Account::new(&stop, &pool);
    let _entered = account.enter();
    expr.evaluate(&batch).expect("it goes on");
    stop.cancel();
    let error = expr.evaluate(&batch).expect_err("account-1").to_string();
    assert!(error.contains("cancelled"), "account-1: {error}");
}

#[test]
fn patterns_that_differ_are_compiled_a_few_at_a_time() {
    let (state, rows) = (state(), 100);
    let texts = (0..rows).map(|row| Some(format!("x{row}")));
    let texts: ArrayRef = Arc::new(texts.collect::<StringViewArray>());
    let batch = RecordBatch::try_from_iter([("text", texts)]).unwrap();
    let call = function(&state, "regexp_replace").call(vec![col("text"), col("text"), lit("y")]);
    let schema = DFSchema::try_from(batch.schema()).unwrap();
    let expr = state.create_physical_expr(call, &schema).unwrap();
    let made = expr.evaluate(&batch).unwrap().into_array(rows).unwrap();
    let expected: ArrayRef = Arc::new(StringViewArray::from(vec!["y"; rows]));
    assert_eq!(&made, &expected, "bounded-2");
}
