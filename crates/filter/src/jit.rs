//! Compiled conditions: those that no kernel supports, as a loop of machine code over encoded
//! columns.
//!
//! - jit-1. Code is compiled for a *shape*: the condition without its constants, and the encodings
//!   of its columns. It is called only with columns of that shape (filter_column-1) and with as
//!   many constants.
//! - jit-2. Code reads rows `first..end` of its columns, and writes a word for each 64 of them.
//! - jit-3. It gives the result of the interpreter, or reports that one of its rows may fail; then
//!   the interpreter evaluates the rows and reports the error.
//! - jit-4. Rows that are exceptions of the decimal encoding are not read: the interpreter
//!   evaluates them.
//!
//! Not here: text, DECIMAL, UUID, LIKE and `%` of floats, which only the interpreter supports.

#![expect(unsafe_code, reason = "calls machine code that was compiled here")]

mod compile;
mod emit;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use compile::Compiled;
use tidegate_model::types::Physical;
use tidegate_model::{Codes, ColumnType, Encoded, Value};

use crate::column::{Column, POWERS, constant, narrow_value};
use crate::interpret::Node;
use crate::ir::ArithmeticOp;
use crate::scalar::Scalar;

/// The maximum number of cached shapes. Queries of one workload have a few dozen. A full cache is
/// cleared: compiling a shape again takes a fraction of a millisecond.
const SHAPES_MAX: usize = 256;

/// The maximum number of nodes of a condition that is compiled: compile time grows with them.
const NODES_MAX: usize = 500;

/// A cache of compiled conditions by their shapes: one for the process, shared by all threads.
#[derive(Debug, Default)]
pub struct JitCache {
    shapes: Mutex<HashMap<Shape, Arc<Slot>>>,
}

/// The code of a shape, after its compilation; `None` if it cannot be compiled.
type Slot = OnceLock<Option<Arc<Compiled>>>;

/// The key of the cache (jit-1).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Shape {
    /// The condition without its constants.
    node: String,
    /// The columns that it reads.
    columns: Vec<ColumnShape>,
}

/// The type and the encoding of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ColumnShape {
    /// Its position in the filter.
    position: usize,
    ty: ColumnType,
    source: Source,
    has_validity: bool,
}

/// The place of the values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Source {
    /// No place: all rows are NULL.
    Null,
    /// The argument: all rows have the same value.
    Constant,
    /// A bitmap: one bit a row.
    Bits,
    /// Codes, of which `base + step * code` is the value.
    Narrow(Stored),
    /// Codes, of which `(base + code) / power` is the value.
    Decimal(Stored),
    /// Floats of this many bytes.
    Float(u8),
}

/// The storage of codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stored {
    /// None: the code is the number of the row.
    Row,
    /// One bit a row.
    Bit,
    /// This many bytes a row.
    Bytes(u8),
}

/// A column in the layout that machine code reads; `emit` knows the offsets of the fields.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Argument {
    codes: *const u8,
    validity: *const u8,
    /// The base, or the bits of the value of a constant.
    base: u64,
    step: u64,
    power: f64,
}

/// A compiled condition with the columns of a page frame.
pub(crate) struct JitPlan<'a> {
    code: Arc<Compiled>,
    arguments: Vec<Argument>,
    constants: Vec<u64>,
    /// Rows that the code does not read (jit-4), ascending.
    pub(crate) exceptions: Vec<usize>,
    rows: usize,
    /// The lifetime of the columns that the arguments point into.
    _columns: std::marker::PhantomData<&'a u8>,
}

impl JitCache {
    /// Creates an empty cache.
    #[must_use]
    pub fn new() -> JitCache {
        JitCache::default()
    }

    /// The number of shapes in the cache.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shapes.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Returns true if the cache is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The code of a condition that reads the columns at `positions`; `None` if it cannot be
    /// compiled.
    pub(crate) fn plan<'a>(
        &self,
        condition: &Node,
        positions: &[usize],
        columns: &[Column<'a>],
    ) -> Option<JitPlan<'a>> {
        let mut constants = Vec::new();
        let mut nodes = 0;
        let mut text = String::new();
        write_shape(condition, &mut text, &mut constants, &mut nodes)?;
        let mut shape = Shape { node: text, columns: Vec::new() };
        let (mut arguments, mut exceptions) = (Vec::new(), Vec::new());
        for &position in positions {
            let column = &columns[position];
            shape.columns.push(column_shape(column)?);
            arguments.push(argument(column)?);
            if let Encoded::Decimal { exception_rows, .. } = column.slice.encoded {
                exceptions
                    .extend(exception_rows.iter().map(|row| u32::from_le_bytes(*row) as usize));
            }
        }
        exceptions.sort_unstable();
        exceptions.dedup();
        let code = self
            .slot(&shape)
            .get_or_init(|| compile::compile(condition, &shape.columns).map(Arc::new))
            .clone()?;
        let rows = columns[positions[0]].slice.rows;
        let _columns = std::marker::PhantomData;
        Some(JitPlan { code, arguments, constants, exceptions, rows, _columns })
    }

    fn slot(&self, shape: &Shape) -> Arc<Slot> {
        // The map is consistent even if a thread panicked: slots are only added, or all are
        // removed.
        let mut shapes = self.shapes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = shapes.get(shape) {
            return Arc::clone(slot);
        }
        if shapes.len() >= SHAPES_MAX {
            shapes.clear(); // Plans keep the code that they use.
        }
        Arc::clone(shapes.entry(shape.clone()).or_default())
    }
}

impl JitPlan<'_> {
    /// Writes for which rows, exceptions apart, the condition is TRUE; returns false if one of the
    /// rows may fail (jit-3), and then the words have no meaning.
    ///
    /// # Panics
    /// If the rows are not those of the columns, or the number of words does not fit them.
    pub(crate) fn run(&self, rows: std::ops::Range<usize>, out: &mut [u64]) -> bool {
        assert!(rows.start.is_multiple_of(64) && rows.end <= self.rows, "jit-2");
        assert_eq!(out.len(), rows.len().div_ceil(64), "jit-2");
        // SAFETY: the code was compiled for columns of this shape and for this number of constants
        // (jit-1); the columns have all of the rows (filter_column-1), and `out` has a word for
        // each 64 of them (jit-2).
        unsafe { self.code.call(&self.arguments, &self.constants, rows, out) }
    }
}

/// Returns true if a condition over columns of these types can be compiled on a machine that the
/// compiler supports.
pub(crate) fn can_compile(node: &Node, columns: &[ColumnType]) -> bool {
    let is_compiled = match node {
        Node::Column(column) => emit::class(columns[*column]).is_some(),
        Node::Literal(ty, _) => emit::class(*ty).is_some(),
        Node::Like { .. } => false,
        Node::Arithmetic { op: ArithmeticOp::Rem, ty, .. } => !emit::is_float(*ty),
        Node::Cast { to, .. } => emit::class(*to).is_some(),
        _ => true,
    };
    is_compiled && node.children().into_iter().all(|child| can_compile(child, columns))
}

/// Appends the shape of a condition to `text` and its constants to `constants`; `None` if it cannot
/// be compiled.
fn write_shape(
    node: &Node,
    text: &mut String,
    constants: &mut Vec<u64>,
    nodes: &mut usize,
) -> Option<()> {
    use std::fmt::Write;
    *nodes += 1;
    if *nodes > NODES_MAX {
        return None;
    }
    let written = match node {
        Node::Column(column) => write!(text, "#{column}"),
        Node::Literal(ty, Value::Null) => write!(text, "null {ty:?}"),
        Node::Literal(ty, value) => {
            constants.push(bits_of(&Scalar::of(value))?);
            write!(text, "{ty:?}")
        }
        Node::Compare { op, .. } => write!(text, "{op:?}"),
        Node::And(_) => write!(text, "and"),
        Node::Or(_) => write!(text, "or"),
        Node::Not(_) => write!(text, "not"),
        Node::IsNull(_) => write!(text, "null?"),
        Node::In { .. } => write!(text, "in"),
        Node::Like { .. } => return None,
        Node::Arithmetic { op, ty, .. } => write!(text, "{op:?} {ty:?}"),
        Node::Negate { ty, .. } => write!(text, "minus {ty:?}"),
        Node::Cast { from, to, is_try, .. } => write!(text, "{from:?} to {to:?} {is_try}"),
        Node::Case { otherwise, .. } => write!(text, "case {}", otherwise.is_some()),
    };
    written.expect("a string takes everything");
    text.push('(');
    for child in node.children() {
        write_shape(child, text, constants, nodes)?;
        text.push(',');
    }
    text.push(')');
    Some(())
}

/// The bits of a value as machine code reads them; `None` for text and other types that are not
/// compiled.
fn bits_of(value: &Scalar<'_>) -> Option<u64> {
    match value {
        Scalar::Bit(bit) => Some(u64::from(*bit)),
        Scalar::Integer(value) => {
            i64::try_from(*value).map(i64::cast_unsigned).or_else(|_| u64::try_from(*value)).ok()
        }
        Scalar::Float(value) => Some(value.to_bits()),
        Scalar::Null | Scalar::Bytes(_) | Scalar::Fixed16(_) => None,
    }
}

fn column_shape(column: &Column<'_>) -> Option<ColumnShape> {
    let slice = column.slice;
    if matches!(slice.ty.physical(), Physical::Wide | Physical::Bytes | Physical::Fixed16) {
        return None;
    }
    let source = match &slice.encoded {
        Encoded::Null => Source::Null,
        Encoded::Constant(_) => Source::Constant,
        Encoded::Bits(_) => Source::Bits,
        Encoded::Narrow { codes, .. } => stored(codes).map_or(Source::Constant, Source::Narrow),
        Encoded::Decimal { codes, .. } => Source::Decimal(stored(codes)?),
        Encoded::Fixed { width, .. } => Source::Float(u8::try_from(*width).ok()?),
        Encoded::Dictionary { .. } | Encoded::Strings(_) => return None,
    };
    let has_validity = slice.validity.is_some() && source != Source::Null;
    Some(ColumnShape { position: column.position, ty: slice.ty, source, has_validity })
}

/// The storage of codes; `None` if all codes are equal.
fn stored(codes: &Codes<'_>) -> Option<Stored> {
    match codes {
        Codes::Same(_) => None,
        Codes::Sequence => Some(Stored::Row),
        Codes::Bits(_) => Some(Stored::Bit),
        Codes::U8(_) => Some(Stored::Bytes(1)),
        Codes::U16(_) => Some(Stored::Bytes(2)),
        Codes::U32(_) => Some(Stored::Bytes(4)),
        Codes::U64(_) => Some(Stored::Bytes(8)),
    }
}

fn start_of(codes: &Codes<'_>) -> *const u8 {
    match codes {
        Codes::Same(_) | Codes::Sequence => std::ptr::null(),
        Codes::Bits(bytes) | Codes::U8(bytes) => bytes.as_ptr(),
        Codes::U16(codes) => codes.as_ptr().cast(),
        Codes::U32(codes) => codes.as_ptr().cast(),
        Codes::U64(codes) => codes.as_ptr().cast(),
    }
}

fn argument(column: &Column<'_>) -> Option<Argument> {
    let slice = column.slice;
    let mut argument = Argument {
        codes: std::ptr::null(),
        validity: slice.validity.map_or(std::ptr::null(), <[u8]>::as_ptr),
        base: 0,
        step: 0,
        power: 1.0,
    };
    match &slice.encoded {
        Encoded::Constant(value) => argument.base = bits_of(&constant(slice.ty, *value))?,
        Encoded::Bits(bits) => argument.codes = bits.as_ptr(),
        Encoded::Narrow { base, step, codes: Codes::Same(code) } => {
            let value = narrow_value(slice.ty, *base, *step, u64::from(*code));
            argument.base = bits_of(&Scalar::Integer(value))?;
        }
        Encoded::Narrow { base, step, codes } => {
            argument.base = bits_of(&Scalar::Integer(narrow_value(slice.ty, *base, 0, 0)))?;
            argument.step = *step;
            argument.codes = start_of(codes);
        }
        Encoded::Decimal { base, scale, codes, .. } => {
            argument.base = base.cast_unsigned();
            argument.power = POWERS[usize::from(*scale)];
            argument.codes = start_of(codes);
        }
        Encoded::Fixed { bytes, .. } => argument.codes = bytes.as_ptr(),
        Encoded::Null | Encoded::Dictionary { .. } | Encoded::Strings(_) => {}
    }
    Some(argument)
}

// SAFETY: the pointers are into the columns of the page frame that the plan borrows, and only read.
unsafe impl Send for JitPlan<'_> {}
// SAFETY: as above.
unsafe impl Sync for JitPlan<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_cache_forgets_and_goes_on() {
        let jit = JitCache::new();
        let shape = |number: usize| Shape { node: number.to_string(), columns: vec![] };
        for number in 0..SHAPES_MAX {
            jit.slot(&shape(number));
        }
        let kept = jit.slot(&shape(0));
        assert_eq!(jit.len(), SHAPES_MAX);
        jit.slot(&shape(SHAPES_MAX));
        assert_eq!(jit.len(), 1);
        assert!(!Arc::ptr_eq(&kept, &jit.slot(&shape(0))), "a new slot for a forgotten shape");
    }
}
