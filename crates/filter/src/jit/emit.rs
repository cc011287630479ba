//! Instructions of a condition for one row.
//!
//! Integers, dates and timestamps are `I64`, extended by the rule of their type; floats are `F64`;
//! a BOOLEAN is `I8`, 0 or 1. There are no branches: every part is calculated, and an error counts
//! only where the interpreter would have evaluated the part; `active` is set there.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32, F64, I8, I16, I32, I64};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value};
use cranelift_frontend::FunctionBuilder;
use tidegate_model::types::Physical;
use tidegate_model::{ColumnType, TimeUnit};

use super::{Argument, ColumnShape, Source, Stored};
use crate::interpret::Node;
use crate::ir::{ArithmeticOp, CompareOp, integer_range};
use crate::scalar::units_per_day;

/// A value of the present row.
#[derive(Clone, Copy)]
struct Typed {
    ty: ColumnType,
    value: Value,
    /// A bit that is set if the value is not NULL; `None` if it never is NULL.
    valid: Option<Value>,
}

/// Emits instructions for a condition.
pub(super) struct Emitter<'f, 'b> {
    pub(super) builder: &'f mut FunctionBuilder<'b>,
    columns: Vec<(ColumnShape, Fields)>,
    constants: Value,
    /// The next constant, counted as `write_shape` counts them.
    constant: i32,
    row: Value,
    error: Value,
}

/// The fields of an argument, read before the loop.
#[derive(Clone, Copy)]
struct Fields {
    codes: Value,
    validity: Value,
    base: Value,
    step: Value,
    power: Value,
}

/// Flags of a memory access that is always valid, at any alignment.
fn flags() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

pub(super) fn is_float(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Float32 | ColumnType::Float64)
}

fn is_unsigned(ty: ColumnType) -> bool {
    matches!(ty.physical(), Physical::Unsigned(_))
}

impl<'f, 'b> Emitter<'f, 'b> {
    pub(super) fn new(
        builder: &'f mut FunctionBuilder<'b>,
        shapes: &[ColumnShape],
        arguments: Value,
        constants: Value,
    ) -> Emitter<'f, 'b> {
        let mut columns = Vec::with_capacity(shapes.len());
        for (index, shape) in shapes.iter().enumerate() {
            let mut field = |ty, offset: usize| {
                let offset = index * size_of::<Argument>() + offset;
                let offset = i32::try_from(offset).expect("few columns");
                builder.ins().load(ty, flags(), arguments, offset)
            };
            let fields = Fields {
                codes: field(I64, std::mem::offset_of!(Argument, codes)),
                validity: field(I64, std::mem::offset_of!(Argument, validity)),
                base: field(I64, std::mem::offset_of!(Argument, base)),
                step: field(I64, std::mem::offset_of!(Argument, step)),
                power: field(F64, std::mem::offset_of!(Argument, power)),
            };
            columns.push((*shape, fields));
        }
        let (row, error) = (arguments, arguments); // Set by `begin_row`.
        Emitter { builder, columns, constants, constant: 0, row, error }
    }

    pub(super) fn begin_row(&mut self, row: Value, error: Value) {
        (self.row, self.error) = (row, error);
    }

    /// A bit that is set if this row or an earlier one has failed.
    pub(super) fn error(&self) -> Value {
        self.error
    }

    /// Emits a condition and returns a bit that is set if it is TRUE; `None` if it cannot be
    /// compiled.
    pub(super) fn condition(&mut self, node: &Node, active: Value) -> Option<Value> {
        let whole = self.value(node, active)?;
        Some(self.is_true(whole))
    }

    fn value(&mut self, node: &Node, active: Value) -> Option<Typed> {
        Some(match node {
            Node::Column(position) => self.column(*position)?,
            Node::Literal(ty, value) => self.literal(*ty, value)?,
            Node::Compare { op, left, right } => {
                let (left, right) = (self.value(left, active)?, self.value(right, active)?);
                self.compare(*op, left, right)
            }
            Node::And(list) => self.joined(list, active, false)?,
            Node::Or(list) => self.joined(list, active, true)?,
            Node::Not(expr) => {
                let truth = self.value(expr, active)?;
                let value = self.not(truth.value);
                Typed { value, ..truth }
            }
            Node::IsNull(expr) => {
                let valid = self.value(expr, active)?.valid;
                let value = match valid {
                    Some(valid) => self.not(valid),
                    None => self.bit(false),
                };
                self.boolean(value, None)
            }
            Node::In { expr, list } => self.is_in(expr, list, active)?,
            Node::Like { .. } => return None,
            Node::Arithmetic { op, ty, left, right } => {
                let (left, right) = (self.value(left, active)?, self.value(right, active)?);
                let valid = self.both(left.valid, right.valid);
                let value = match is_float(*ty) {
                    true => self.of_floats(*op, *ty, left.value, right.value)?,
                    false => {
                        let counts = self.both(valid, Some(active)).unwrap_or(active);
                        self.of_integers(*op, *ty, [left.value, right.value], counts)
                    }
                };
                Typed { ty: *ty, value, valid }
            }
            Node::Negate { ty, expr } => {
                let of = self.value(expr, active)?;
                let value = match is_float(*ty) {
                    true => self.builder.ins().fneg(of.value),
                    false => {
                        let negative = self.builder.ins().ineg(of.value);
                        self.wrap(negative, *ty)
                    }
                };
                Typed { value, ..of }
            }
            Node::Cast { to, is_try, expr, .. } => {
                let from = self.value(expr, active)?;
                self.cast(from, *to, *is_try, active)?
            }
            Node::Case { branches, otherwise } => {
                self.case(branches, otherwise.as_deref(), active)?
            }
        })
    }

    fn bit(&mut self, bit: bool) -> Value {
        self.builder.ins().iconst(I8, i64::from(bit))
    }

    fn number(&mut self, number: i64) -> Value {
        self.builder.ins().iconst(I64, number)
    }

    fn boolean(&self, value: Value, valid: Option<Value>) -> Typed {
        Typed { ty: ColumnType::Boolean, value, valid }
    }

    /// The negation of a bit.
    fn not(&mut self, bit: Value) -> Value {
        let one = self.bit(true);
        self.builder.ins().bxor(bit, one)
    }

    fn both(&mut self, a: Option<Value>, b: Option<Value>) -> Option<Value> {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.builder.ins().band(a, b)),
            (one, None) | (None, one) => one,
        }
    }

    fn is_true(&mut self, truth: Typed) -> Value {
        match truth.valid {
            None => truth.value,
            Some(valid) => self.builder.ins().band(truth.value, valid),
        }
    }

    fn is_false(&mut self, truth: Typed) -> Value {
        let value = self.not(truth.value);
        self.is_true(Typed { value, ..truth })
    }

    fn fail_if(&mut self, failed: Value, counts: Value) {
        let failed = self.builder.ins().band(failed, counts);
        self.error = self.builder.ins().bor(self.error, failed);
    }

    /// An integer cut to the bytes of its type and extended again.
    fn wrap(&mut self, value: Value, ty: ColumnType) -> Value {
        let cut: Type = match ty.physical() {
            Physical::Signed(1) | Physical::Unsigned(1) => I8,
            Physical::Signed(2) | Physical::Unsigned(2) => I16,
            Physical::Signed(4) | Physical::Unsigned(4) => I32,
            _ => return value,
        };
        let cut = self.builder.ins().ireduce(cut, value);
        match is_unsigned(ty) {
            true => self.builder.ins().uextend(I64, cut),
            false => self.builder.ins().sextend(I64, cut),
        }
    }

    /// A float rounded to its type.
    fn round(&mut self, value: Value, ty: ColumnType) -> Value {
        if ty == ColumnType::Float64 {
            return value;
        }
        let rounded = self.builder.ins().fdemote(F32, value);
        self.builder.ins().fpromote(F64, rounded)
    }

    fn literal(&mut self, ty: ColumnType, value: &tidegate_model::Value) -> Option<Typed> {
        let class = class(ty)?;
        if *value == tidegate_model::Value::Null {
            return Some(self.null(ty, class));
        }
        let offset = self.constant * 8;
        self.constant += 1;
        let value = self.builder.ins().load(I64, flags(), self.constants, offset);
        Some(Typed { ty, value: self.of_word(value, class), valid: None })
    }

    fn null(&mut self, ty: ColumnType, class: Type) -> Typed {
        let value = if class == F64 {
            self.builder.ins().f64const(0.0)
        } else {
            self.builder.ins().iconst(class, 0)
        };
        let valid = Some(self.bit(false));
        Typed { ty, value, valid }
    }

    /// The value of a 64-bit word of bits.
    fn of_word(&mut self, word: Value, class: Type) -> Value {
        match class {
            F64 => self.builder.ins().bitcast(F64, MemFlagsData::new(), word),
            I8 => self.builder.ins().ireduce(I8, word),
            _ => word,
        }
    }

    fn column(&mut self, position: usize) -> Option<Typed> {
        let at = self.columns.iter().position(|(shape, _)| shape.position == position)?;
        let (shape, fields) = self.columns[at];
        let class = class(shape.ty)?;
        let value = match shape.source {
            Source::Null => return Some(self.null(shape.ty, class)),
            Source::Constant => self.of_word(fields.base, class),
            Source::Bits => self.bit_of_row(fields.codes),
            Source::Narrow(stored) => {
                let code = self.code(stored, fields.codes);
                let distance = self.builder.ins().imul(code, fields.step);
                let sum = self.builder.ins().iadd(fields.base, distance);
                self.wrap(sum, shape.ty)
            }
            Source::Decimal(stored) => {
                let code = self.code(stored, fields.codes);
                let scaled = self.builder.ins().iadd(fields.base, code);
                let scaled = self.builder.ins().fcvt_from_sint(F64, scaled);
                let value = self.builder.ins().fdiv(scaled, fields.power);
                self.round(value, shape.ty)
            }
            Source::Float(width) => {
                let place = self.place(fields.codes, width);
                match width {
                    4 => {
                        let value = self.builder.ins().load(F32, flags(), place, 0);
                        self.builder.ins().fpromote(F64, value)
                    }
                    _ => self.builder.ins().load(F64, flags(), place, 0),
                }
            }
        };
        let valid = shape.has_validity.then(|| self.bit_of_row(fields.validity));
        Some(Typed { ty: shape.ty, value, valid })
    }

    /// The address of the value of the present row, whose values have this many bytes.
    fn place(&mut self, start: Value, width: u8) -> Value {
        let shift = i64::from(width.trailing_zeros());
        let shift = self.number(shift);
        let offset = self.builder.ins().ishl(self.row, shift);
        self.builder.ins().iadd(start, offset)
    }

    fn bit_of_row(&mut self, bits: Value) -> Value {
        let three = self.number(3);
        let byte = self.builder.ins().ushr(self.row, three);
        let place = self.builder.ins().iadd(bits, byte);
        let byte = self.builder.ins().load(I8, flags(), place, 0);
        let low = self.builder.ins().ireduce(I8, self.row);
        let seven = self.builder.ins().iconst(I8, 7);
        let shift = self.builder.ins().band(low, seven);
        let bit = self.builder.ins().ushr(byte, shift);
        let one = self.bit(true);
        self.builder.ins().band(bit, one)
    }

    fn code(&mut self, stored: Stored, codes: Value) -> Value {
        let width = match stored {
            Stored::Row => return self.row,
            Stored::Bit => {
                let bit = self.bit_of_row(codes);
                return self.builder.ins().uextend(I64, bit);
            }
            Stored::Bytes(width) => width,
        };
        let place = self.place(codes, width);
        let class = match width {
            1 => I8,
            2 => I16,
            4 => I32,
            _ => return self.builder.ins().load(I64, flags(), place, 0),
        };
        let code = self.builder.ins().load(class, flags(), place, 0);
        self.builder.ins().uextend(I64, code)
    }

    fn compare(&mut self, op: CompareOp, left: Typed, right: Typed) -> Typed {
        let valid = self.both(left.valid, right.valid);
        let (a, b) = (left.value, right.value);
        let value = if is_float(left.ty) {
            match op {
                CompareOp::Eq => self.same_floats(a, b),
                CompareOp::Ne => {
                    let same = self.same_floats(a, b);
                    self.not(same)
                }
                CompareOp::Lt => self.less(a, b),
                CompareOp::Gt => self.less(b, a),
                CompareOp::Le => {
                    let greater = self.less(b, a);
                    self.not(greater)
                }
                CompareOp::Ge => {
                    let less = self.less(a, b);
                    self.not(less)
                }
            }
        } else {
            let is_unsigned = is_unsigned(left.ty) || left.ty == ColumnType::Boolean;
            self.builder.ins().icmp(condition_of(op, is_unsigned), a, b)
        };
        self.boolean(value, valid)
    }

    /// True if two floats are equal, or both NaN.
    fn same_floats(&mut self, a: Value, b: Value) -> Value {
        let equal = self.builder.ins().fcmp(FloatCC::Equal, a, b);
        let a_is_nan = self.builder.ins().fcmp(FloatCC::Unordered, a, a);
        let b_is_nan = self.builder.ins().fcmp(FloatCC::Unordered, b, b);
        let nan = self.builder.ins().band(a_is_nan, b_is_nan);
        self.builder.ins().bor(equal, nan)
    }

    /// True if the first float is less, or is a number and the second one NaN.
    fn less(&mut self, a: Value, b: Value) -> Value {
        let less = self.builder.ins().fcmp(FloatCC::LessThan, a, b);
        let a_is_number = self.builder.ins().fcmp(FloatCC::Ordered, a, a);
        let b_is_nan = self.builder.ins().fcmp(FloatCC::Unordered, b, b);
        let beside = self.builder.ins().band(a_is_number, b_is_nan);
        self.builder.ins().bor(less, beside)
    }

    /// Emits AND or OR: after a part with the value `decides`, the parts behind are not active.
    fn joined(&mut self, list: &[Node], active: Value, decides: bool) -> Option<Typed> {
        let (mut decided, mut undecided) = (self.bit(false), self.bit(true));
        let mut active = active;
        for part in list {
            let part = self.value(part, active)?;
            let (for_it, against) = (self.is_true(part), self.is_false(part));
            let (ends, goes_on) = if decides { (for_it, against) } else { (against, for_it) };
            decided = self.builder.ins().bor(decided, ends);
            undecided = self.builder.ins().band(undecided, goes_on);
            let not_ended = self.not(ends);
            active = self.builder.ins().band(active, not_ended);
        }
        let valid = self.builder.ins().bor(decided, undecided);
        let value = if decides { decided } else { self.not(decided) };
        Some(self.boolean(value, Some(valid)))
    }

    fn is_in(&mut self, expr: &Node, list: &[Node], active: Value) -> Option<Typed> {
        let of = self.value(expr, active)?;
        let (mut found, mut missed) = (self.bit(false), self.bit(true));
        let mut active = active;
        for part in list {
            let part = self.value(part, active)?;
            let equal = self.compare(CompareOp::Eq, of, part);
            let (is_it, is_not) = (self.is_true(equal), self.is_false(equal));
            found = self.builder.ins().bor(found, is_it);
            missed = self.builder.ins().band(missed, is_not);
            let not_found = self.not(is_it);
            active = self.builder.ins().band(active, not_found);
        }
        let valid = self.builder.ins().bor(found, missed);
        Some(self.boolean(found, Some(valid)))
    }

    fn of_floats(&mut self, op: ArithmeticOp, ty: ColumnType, a: Value, b: Value) -> Option<Value> {
        let value = match op {
            ArithmeticOp::Add => self.builder.ins().fadd(a, b),
            ArithmeticOp::Sub => self.builder.ins().fsub(a, b),
            ArithmeticOp::Mul => self.builder.ins().fmul(a, b),
            ArithmeticOp::Div => self.builder.ins().fdiv(a, b),
            ArithmeticOp::Rem => return None,
        };
        Some(self.round(value, ty))
    }

    /// Emits an operation on integers; its failure is an error only if `counts` is set.
    fn of_integers(
        &mut self,
        op: ArithmeticOp,
        ty: ColumnType,
        [a, b]: [Value; 2],
        counts: Value,
    ) -> Value {
        let value = match op {
            ArithmeticOp::Add => self.builder.ins().iadd(a, b),
            ArithmeticOp::Sub => self.builder.ins().isub(a, b),
            ArithmeticOp::Mul => self.builder.ins().imul(a, b),
            ArithmeticOp::Div | ArithmeticOp::Rem => {
                let divides = op == ArithmeticOp::Div;
                let divisor = self.divisor(ty, [a, b], counts, divides);
                match (divides, is_unsigned(ty)) {
                    (true, true) => self.builder.ins().udiv(a, divisor),
                    (true, false) => self.builder.ins().sdiv(a, divisor),
                    (false, true) => self.builder.ins().urem(a, divisor),
                    (false, false) => self.builder.ins().srem(a, divisor),
                }
            }
        };
        self.wrap(value, ty)
    }

    /// The divisor, or 1 in place of one with which the processor would raise an exception.
    fn divisor(
        &mut self,
        ty: ColumnType,
        [a, b]: [Value; 2],
        counts: Value,
        divides: bool,
    ) -> Value {
        let (zero, one) = (self.number(0), self.number(1));
        let is_zero = self.builder.ins().icmp(IntCC::Equal, b, zero);
        self.fail_if(is_zero, counts);
        let mut refused = is_zero;
        let min = integer_range(ty).map_or(0, |(min, _)| min);
        if let Some(min) = i64::try_from(min).ok().filter(|&min| min < 0) {
            let (least, minus_one) = (self.number(min), self.number(-1));
            let is_least = self.builder.ins().icmp(IntCC::Equal, a, least);
            let negates = self.builder.ins().icmp(IntCC::Equal, b, minus_one);
            let overflows = self.builder.ins().band(is_least, negates);
            if divides {
                self.fail_if(overflows, counts);
            }
            refused = self.builder.ins().bor(refused, overflows);
        }
        self.builder.ins().select(refused, one, b)
    }

    fn case(
        &mut self,
        branches: &[(Node, Node)],
        otherwise: Option<&Node>,
        active: Value,
    ) -> Option<Typed> {
        let mut active = active;
        let mut taken = Vec::with_capacity(branches.len());
        for (when, then) in branches {
            let when = self.value(when, active)?;
            let is_true = self.is_true(when);
            let here = self.builder.ins().band(active, is_true);
            taken.push((is_true, self.value(then, here)?));
            let not_taken = self.not(is_true);
            active = self.builder.ins().band(active, not_taken);
        }
        let ty = taken.first()?.1.ty;
        let mut whole = match otherwise {
            Some(otherwise) => self.value(otherwise, active)?,
            None => self.null(ty, class(ty)?),
        };
        for (is_true, then) in taken.into_iter().rev() {
            let value = self.builder.ins().select(is_true, then.value, whole.value);
            let valid = match (then.valid, whole.valid) {
                (None, None) => None,
                (then, whole) => {
                    let then = then.unwrap_or_else(|| self.bit(true));
                    let whole = whole.unwrap_or_else(|| self.bit(true));
                    Some(self.builder.ins().select(is_true, then, whole))
                }
            };
            whole = Typed { ty, value, valid };
        }
        Some(whole)
    }

    fn cast(&mut self, from: Typed, to: ColumnType, is_try: bool, active: Value) -> Option<Typed> {
        class(to)?;
        let (value, fits) = self.converted(from, to);
        let mut valid = from.valid;
        if let Some(fits) = fits {
            if is_try {
                valid = self.both(valid, Some(fits));
            } else {
                let counts = self.both(valid, Some(active)).unwrap_or(active);
                let misfits = self.not(fits);
                self.fail_if(misfits, counts);
            }
        }
        Some(Typed { ty: to, value, valid })
    }

    /// The value as another type, and a bit that is set if it fits; `None` if it always fits.
    fn converted(&mut self, from: Typed, to: ColumnType) -> (Value, Option<Value>) {
        let value = from.value;
        let is_wide_time = |ty| matches!(ty, ColumnType::Timestamp(_));
        match (from.ty, to) {
            (a, b) if a == b => (value, None),
            (ColumnType::Boolean, to) if is_float(to) => {
                let wide = self.builder.ins().uextend(I64, value);
                (self.builder.ins().fcvt_from_uint(F64, wide), None)
            }
            (ColumnType::Boolean, _) => (self.builder.ins().uextend(I64, value), None),
            (a, ColumnType::Boolean) if is_float(a) => {
                let zero = self.builder.ins().f64const(0.0);
                (self.builder.ins().fcmp(FloatCC::NotEqual, value, zero), None)
            }
            (_, ColumnType::Boolean) => {
                let zero = self.number(0);
                (self.builder.ins().icmp(IntCC::NotEqual, value, zero), None)
            }
            (a, to) if is_float(a) && is_float(to) => (self.round(value, to), None),
            (a, to) if is_float(a) => self.whole_of_float(value, to),
            (a, to) if is_float(to) => (self.float_of_whole(value, a, to), None),
            (ColumnType::Timestamp(TimeUnit::Micros), ColumnType::Timestamp(_)) => {
                self.multiplied(value, 1_000)
            }
            (ColumnType::Timestamp(_), ColumnType::Timestamp(_)) => {
                let thousand = self.number(1_000);
                (self.builder.ins().sdiv(value, thousand), None)
            }
            (ColumnType::Timestamp(unit), ColumnType::Date) => (self.day_of(value, unit), None),
            (ColumnType::Date, to) if is_wide_time(to) => {
                let unit = to.time_unit().unwrap_or(TimeUnit::Micros);
                let units = i64::try_from(units_per_day(unit)).expect("a day is below 2^63 ns");
                self.multiplied(value, units)
            }
            (a, to) => (value, self.fits(value, a, to)),
        }
    }

    fn day_of(&mut self, value: Value, unit: TimeUnit) -> Value {
        let units = i64::try_from(units_per_day(unit)).expect("a day is below 2^63 ns");
        let (units, zero) = (self.number(units), self.number(0));
        let cut = self.builder.ins().sdiv(value, units);
        let rest = self.builder.ins().srem(value, units);
        let is_before = self.builder.ins().icmp(IntCC::SignedLessThan, rest, zero);
        let one_less = self.builder.ins().uextend(I64, is_before);
        self.builder.ins().isub(cut, one_less)
    }

    /// The product, and a bit that is set if it is in range.
    fn multiplied(&mut self, value: Value, by: i64) -> (Value, Option<Value>) {
        let factor = self.number(by);
        let product = self.builder.ins().imul(value, factor);
        (product, Some(self.is_between(value, i64::MIN / by, i64::MAX / by)))
    }

    fn is_between(&mut self, value: Value, least: i64, greatest: i64) -> Value {
        let (least, greatest) = (self.number(least), self.number(greatest));
        let above = self.builder.ins().icmp(IntCC::SignedGreaterThanOrEqual, value, least);
        let below = self.builder.ins().icmp(IntCC::SignedLessThanOrEqual, value, greatest);
        self.builder.ins().band(above, below)
    }

    /// A bit that is set if an integer is in the range of another type; `None` if it always is.
    fn fits(&mut self, value: Value, from: ColumnType, to: ColumnType) -> Option<Value> {
        let ((least, greatest), (min, max)) = (integer_range(from)?, integer_range(to)?);
        if min <= least && greatest <= max {
            return None;
        }
        if is_unsigned(from) {
            let max = u64::try_from(max).expect("eight bytes").cast_signed();
            let max = self.number(max);
            return Some(self.builder.ins().icmp(IntCC::UnsignedLessThanOrEqual, value, max));
        }
        let end = |value: i128| i64::try_from(value).unwrap_or(i64::MAX);
        Some(self.is_between(value, end(min), end(max)))
    }

    /// The nearest integer, ties to even, and a bit that is set if it is in range.
    fn whole_of_float(&mut self, value: Value, to: ColumnType) -> (Value, Option<Value>) {
        let (min, max) = integer_range(to).unwrap_or((0, 0));
        let value = self.builder.ins().nearest(value);
        // Both bounds are exact as floats: they are powers of two, or small.
        let least = self.builder.ins().f64const(min as f64);
        let behind = self.builder.ins().f64const((max + 1) as f64);
        let above = self.builder.ins().fcmp(FloatCC::GreaterThanOrEqual, value, least);
        let below = self.builder.ins().fcmp(FloatCC::LessThan, value, behind);
        let fits = self.builder.ins().band(above, below);
        let whole = match is_unsigned(to) {
            true => self.builder.ins().fcvt_to_uint_sat(I64, value),
            false => self.builder.ins().fcvt_to_sint_sat(I64, value),
        };
        (whole, Some(fits))
    }

    fn float_of_whole(&mut self, value: Value, from: ColumnType, to: ColumnType) -> Value {
        let class = if to == ColumnType::Float32 { F32 } else { F64 };
        let float = match is_unsigned(from) {
            true => self.builder.ins().fcvt_from_uint(class, value),
            false => self.builder.ins().fcvt_from_sint(class, value),
        };
        if class == F32 { self.builder.ins().fpromote(F64, float) } else { float }
    }
}

/// The register type of a value; `None` for types that are not compiled.
pub(super) fn class(ty: ColumnType) -> Option<Type> {
    match ty.physical() {
        Physical::Bit => Some(I8),
        Physical::Signed(_) | Physical::Unsigned(_) => Some(I64),
        Physical::Float32 | Physical::Float64 => Some(F64),
        Physical::Wide | Physical::Bytes | Physical::Fixed16 => None,
    }
}

fn condition_of(op: CompareOp, is_unsigned: bool) -> IntCC {
    match (op, is_unsigned) {
        (CompareOp::Eq, _) => IntCC::Equal,
        (CompareOp::Ne, _) => IntCC::NotEqual,
        (CompareOp::Lt, false) => IntCC::SignedLessThan,
        (CompareOp::Le, false) => IntCC::SignedLessThanOrEqual,
        (CompareOp::Gt, false) => IntCC::SignedGreaterThan,
        (CompareOp::Ge, false) => IntCC::SignedGreaterThanOrEqual,
        (CompareOp::Lt, true) => IntCC::UnsignedLessThan,
        (CompareOp::Le, true) => IntCC::UnsignedLessThanOrEqual,
        (CompareOp::Gt, true) => IntCC::UnsignedGreaterThan,
        (CompareOp::Ge, true) => IntCC::UnsignedGreaterThanOrEqual,
    }
}
