//! A list of short texts in one allocation.

#[derive(Default)]
pub(super) struct Texts {
    bytes: Vec<u8>,
    /// End of each text; it begins at the end of the one before it.
    ends: Vec<usize>,
    longest: usize,
}

impl Texts {
    /// Collects `count` texts, each appended by `write`.
    pub(super) fn new(count: usize, write: impl Fn(usize, &mut Vec<u8>)) -> Texts {
        let mut texts = Texts { ends: Vec::with_capacity(count), ..Texts::default() };
        for index in 0..count {
            let before = texts.bytes.len();
            write(index, &mut texts.bytes);
            texts.ends.push(texts.bytes.len());
            texts.longest = texts.longest.max(texts.bytes.len() - before);
        }
        texts
    }

    #[inline]
    pub(super) fn text(&self, index: usize) -> &[u8] {
        let begin = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[begin..self.ends[index]]
    }

    pub(super) fn longest(&self) -> usize {
        self.longest
    }
}
