//! Query-string and form parameters.
//!
//! - PA1. Decoded texts are UTF-8, anything else is an error. If a name is given twice, its last
//!   value counts.

use std::collections::HashMap;

use tidegate_query::Parameter;

/// Decoded parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Params {
    named: HashMap<String, String>,
    /// The values of `$1`, `$2`, ... of a statement.
    pub(crate) bound: Vec<Parameter>,
}

/// The error of a text with malformed percent signs, or that is not UTF-8 (PA1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotDecodable;

impl Params {
    /// Parses `a=b&c=d`.
    pub(crate) fn parse(text: &str) -> Result<Params, NotDecodable> {
        let mut params = Params::default();
        params.add(text)?;
        Ok(params)
    }

    /// Parses more parameters, which replace those of the same names.
    pub(crate) fn add(&mut self, text: &str) -> Result<(), NotDecodable> {
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            self.named.insert(decode(name)?, decode(value)?);
        }
        Ok(())
    }

    pub(crate) fn set(&mut self, name: &str, value: String) {
        self.named.insert(name.to_owned(), value);
    }

    pub(crate) fn find(&self, name: &str) -> Option<&str> {
        self.named.get(name).map(String::as_str)
    }

    /// Returns the names in byte order.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.named.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// Returns the bytes that they take.
    pub(crate) fn bytes(&self) -> usize {
        let named = self.named.iter().map(|(name, value)| name.len() + value.len());
        let bound = self.bound.iter().map(|value| match value {
            Parameter::Text(text) => size_of::<Parameter>() + text.len(),
            _ => size_of::<Parameter>(),
        });
        named.chain(bound).sum()
    }

    /// Returns whether a parameter is given and true.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.find(name).is_some_and(|value| value.eq_ignore_ascii_case("true") || value == "1")
    }
}

/// Decodes percent signs and plus signs by the rules of forms.
fn decode(text: &str) -> Result<String, NotDecodable> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = behind;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => {
                let [high, low, behind @ ..] = behind else { return Err(NotDecodable) };
                bytes.push(digit(*high)? << 4 | digit(*low)?);
                rest = behind;
            }
            &other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).map_err(|_| NotDecodable)
}

fn digit(byte: u8) -> Result<u8, NotDecodable> {
    match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        b'A'..=b'F' => Ok(byte - b'A' + 10),
        _ => Err(NotDecodable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, NotDecodable>) {
        let params = Params::parse(text);
        let found = params.as_ref().map(|params| params.find("q").unwrap_or("none"));
        assert_eq!(found, expected.as_ref().copied(), "{text}");
    }

    #[test]
    fn parameters_are_decoded_and_the_last_counts() {
        check("q=a%20b+c&x=1", Ok("a b c"));
        check("q=1&q=2", Ok("2"));
        check("q=%C2%b5s%3D&", Ok("\u{b5}s="));
        check("q=a=b", Ok("a=b"));
        check("q", Ok(""));
        check("x=1", Ok("none"));
    }

    #[test]
    fn what_is_no_text_is_refused() {
        for text in ["q=%ff", "q=%4", "q=%zz", "%ff=1"] {
            check(text, Err(NotDecodable));
        }
    }
}
