//! One value outside of any column: a constant of an encoding, a bound of a statement.

/// A value in the representation of its type's `Physical`.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// NULL.
    Null,
    /// BOOLEAN.
    Bit(bool),
    /// All integers up to eight bytes, signed or unsigned; DECIMAL; timestamps, dates, addresses.
    Integer(i128),
    /// FLOAT and DOUBLE; a FLOAT is widened, which loses nothing.
    Float(f64),
    /// SYMBOL, VARCHAR, BINARY.
    Bytes(Vec<u8>),
    /// UUID.
    Fixed16([u8; 16]),
}
