//! Bytes of a fuzzer as choices and texts.

/// A reader of the bytes from the front; missing bytes are 0.
#[derive(Debug)]
pub(crate) struct Input<'a> {
    pub rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { rest: bytes }
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let byte = self.rest.first().copied().unwrap_or(0);
        self.rest = self.rest.get(1..).unwrap_or_default();
        byte
    }

    /// A number of two bytes, little-endian.
    pub(crate) fn short(&mut self) -> usize {
        let low = self.byte();
        usize::from(u16::from_le_bytes([low, self.byte()]))
    }

    /// At most this many bytes.
    pub(crate) fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// One of the choices.
    pub(crate) fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.byte()) % choices.len()]
    }
}
