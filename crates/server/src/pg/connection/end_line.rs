//! The line `\.` at the end of the rows of a COPY: psql ends its own input with it, and sends it
//! along in every format. PostgreSQL up to version 16 treats it as the end of CSV, too.
//!
//! - end_line-1. Only a separate line at the very end is removed. Bytes that may be such a line
//!   wait for those that follow; all others are passed on unchanged.

/// The bytes of the longest such line, with the line end before it.
const LONGEST: usize = b"\n\\.\r\n".len();

/// A filter that holds back bytes that may be such a line (end_line-1).
#[derive(Debug, Default)]
pub(super) struct EndLine {
    /// The last bytes, which may be such a line.
    pending: Vec<u8>,
    has_more: bool,
}

impl EndLine {
    /// Takes bytes, and returns those that are not part of the line, in order.
    pub(super) fn push<'b>(&mut self, bytes: &'b [u8]) -> (Vec<u8>, &'b [u8]) {
        let before = match bytes.len().checked_sub(LONGEST) {
            Some(end) => {
                let before = std::mem::replace(&mut self.pending, bytes[end..].to_vec());
                self.has_more |= !before.is_empty() || 0 < end;
                return (before, &bytes[..end]);
            }
            None => {
                self.pending.extend_from_slice(bytes);
                let end = self.pending.len().saturating_sub(LONGEST);
                self.pending.drain(..end).collect::<Vec<_>>()
            }
        };
        self.has_more |= !before.is_empty();
        (before, &[])
    }

    /// Ends the input, and returns the bytes that were held back and are no such line.
    pub(super) fn end(self) -> Vec<u8> {
        let EndLine { mut pending, has_more } = self;
        let line = [&b"\\.\r\n"[..], b"\\.\n", b"\\."].into_iter().find(|line| {
            let before = pending.len().checked_sub(line.len());
            let begins = |at: usize| match at {
                0 => !has_more,
                at => pending[at - 1] == b'\n',
            };
            pending.ends_with(line) && before.is_some_and(begins)
        });
        pending.truncate(pending.len() - line.map_or(0, <[u8]>::len));
        pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        for step in 1..=text.len().max(1) {
            let (mut end, mut taken) = (EndLine::default(), Vec::new());
            for part in text.as_bytes().chunks(step) {
                let (before, rest) = end.push(part);
                taken.extend([&before, rest].concat());
            }
            taken.extend(end.end());
            assert_eq!(
                String::from_utf8(taken).unwrap(),
                expected,
                "end_line-1: {text:?} by {step}"
            );
        }
    }

    #[test]
    fn only_a_line_of_its_own_at_the_end_goes() {
        for rows in ["", "1,x\n", "1,x\n2,\"y\n\\.\n\"\n", "1,\\.\n"] {
            for end in ["\\.\n", "\\.\r\n", "\\."] {
                check(&format!("{rows}{end}"), rows);
            }
            check(rows, rows);
        }
        for other in ["1,x\\.\n", "\\.\n1\n", "x\\.", "\\.\n\n"] {
            check(other, other);
        }
    }
}
