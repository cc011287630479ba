//! Query-string and form parameters.
//!
//! - params-1. Decoded texts are UTF-8, anything else is an error. If a name is given twice, its
//!   last value counts.
//! - params-2. Only parameters that the route declares can be read, so that the description of
//!   routes has all of them (openapi-1). A test of each handler checks that it reads all of them.

use std::collections::HashMap;

use tidegate_query::Parameter;

use super::route::ParameterSpec;

/// The decoded parameters of a request.
#[derive(Clone, Debug)]
pub(crate) struct Params {
    specs: &'static [ParameterSpec],
    named: HashMap<String, String>,
    /// The values of `$1`, `$2`, ... of a statement.
    pub(crate) bound: Vec<Parameter>,
}

/// The error of a text with malformed percent signs, or that is not UTF-8 (params-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotDecodable;

impl Params {
    /// Makes the parameters of a request without any.
    pub(super) fn none(specs: &'static [ParameterSpec]) -> Params {
        Params { specs, named: HashMap::new(), bound: Vec::new() }
    }

    /// Parses `a=b&c=d`.
    pub(super) fn parse(
        text: &str,
        specs: &'static [ParameterSpec],
    ) -> Result<Params, NotDecodable> {
        let mut params = Params::none(specs);
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
        assert!(self.is_declared(name), "params-2: {name}");
        #[cfg(test)]
        tests::READ.with_borrow_mut(|read| read.insert(name.to_owned()));
        self.named.get(name).map(String::as_str)
    }

    /// Returns true if the route has such a parameter in the query string.
    fn is_declared(&self, name: &str) -> bool {
        self.specs.iter().any(|spec| spec.name == name && spec.is_query())
    }

    /// Returns the names that the route does not declare, in byte order.
    pub(crate) fn undeclared(&self) -> Vec<&str> {
        let names = self.named.keys().map(String::as_str);
        let mut names: Vec<&str> = names.filter(|name| !self.is_declared(name)).collect();
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

    /// Returns true if a parameter is given and true.
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
pub(super) mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use super::super::route::{ParameterPlace, ParameterType};
    use super::*;

    thread_local! {
        /// The names that this thread has read.
        pub(super) static READ: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
    }

    /// Checks that a handler reads all of its parameters, given each of these query strings.
    #[track_caller]
    pub(in crate::http) fn check_read(
        specs: &'static [ParameterSpec],
        texts: &[&str],
        read: impl Fn(&Params),
    ) {
        READ.take();
        texts.iter().for_each(|text| read(&Params::parse(text, specs).unwrap()));
        let of_query = specs.iter().filter(|spec| {
            matches!(spec.place, ParameterPlace::Query | ParameterPlace::RequiredQuery)
        });
        let declared = of_query.map(|spec| spec.name.to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(READ.take(), declared, "params-2");
    }

    const SPECS: &[ParameterSpec] = &[ParameterSpec::query("q", ParameterType::Text, "")];

    #[track_caller]
    fn check(text: &str, expected: Result<&str, NotDecodable>) {
        let params = Params::parse(text, SPECS);
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
    fn parameters_that_are_not_utf_8_are_refused() {
        for text in ["q=%ff", "q=%4", "q=%zz", "%ff=1"] {
            check(text, Err(NotDecodable));
        }
    }

    #[test]
    #[should_panic(expected = "params-2: x")]
    fn a_parameter_that_the_route_does_not_declare_is_not_read() {
        let _ = Params::parse("x=1", SPECS).map(|params| params.is_on("x"));
    }
}
