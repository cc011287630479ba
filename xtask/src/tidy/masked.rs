//! Rust source without its comments and literals, for rules that look at code alone.
//!
//! - masked-1. A masked text has the length and the line ends of its source, so that places agree.
//!
//! The mask knows just enough of the grammar to find the end of a comment, a string or a character.
//! Not here: tokens or trees; a rule that needs those belongs in a lint.

/// Returns `source` with a space for every byte of a comment, a string or a character.
pub(crate) fn mask(source: &str) -> String {
    let source = source.as_bytes();
    let mut masked = source.to_vec();
    let mut at = 0;
    while at < source.len() {
        let Some(end) = opaque_end(source, at) else {
            at += 1;
            continue;
        };
        for byte in masked[at..end].iter_mut().filter(|byte| **byte != b'\n') {
            *byte = b' ';
        }
        at = end;
    }
    assert_eq!(masked.len(), source.len(), "masked-1");
    String::from_utf8(masked).expect("characters are masked whole: they end where literals end")
}

/// Returns the attributes at the top of a file, `#![...]`, without white space and masked.
pub(crate) fn header(masked: &str) -> String {
    let mut rest = masked.trim_start();
    let mut header = String::new();
    while rest.starts_with("#![") {
        let end = bracket_end(rest);
        header.extend(rest[..end].chars().filter(|c| !c.is_whitespace()));
        rest = rest[end..].trim_start();
    }
    header
}

/// Returns the number of the first line, counted from 1, that has `word` as a whole word.
pub(crate) fn line_with_word(masked: &str, word: &str) -> Option<usize> {
    let has_word = |line: &str| line.split(|c| !is_word(c)).any(|found| found == word);
    masked.lines().position(has_word).map(|line_idx| line_idx + 1)
}

/// Returns the end of the comment, string or character that begins at `at`; none if none begins
/// there.
fn opaque_end(source: &[u8], at: usize) -> Option<usize> {
    let rest = &source[at..];
    match rest[0] {
        b'/' if rest.starts_with(b"//") => Some(at + line_length(rest)),
        b'/' if rest.starts_with(b"/*") => Some(at + comment_length(rest)),
        b'"' => Some(at + string_length(rest)),
        b'\'' => Some(at + character_length(rest)?),
        b'r' | b'b' | b'c' if at == 0 || !is_word(char::from(source[at - 1])) => {
            Some(at + raw_string_length(rest)?)
        }
        _ => None,
    }
}

fn line_length(rest: &[u8]) -> usize {
    rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len())
}

/// Returns the length of `/* ... */`, which may contain other comments of this kind.
fn comment_length(rest: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Returns the length of `"..."`, where a backslash escapes the next byte.
fn string_length(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Returns the length of `r"..."`, `br#"..."#` and the like, prefix included; none for a mere word.
fn raw_string_length(rest: &[u8]) -> Option<usize> {
    let prefix = if rest[0] == b'r' { 1 } else { 2 };
    if rest.get(prefix - 1) != Some(&b'r') {
        return None;
    }
    let hashes = rest[prefix..].iter().take_while(|&&byte| byte == b'#').count();
    let open = prefix + hashes;
    if rest.get(open) != Some(&b'"') {
        return None;
    }
    let close = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let body = open + 1;
    let length = rest[body..].windows(close.len()).position(|window| window == close);
    Some(length.map_or(rest.len(), |length| body + length + close.len()))
}

/// Returns the length of `'x'` or `'\n'`; none for a lifetime.
fn character_length(rest: &[u8]) -> Option<usize> {
    let first = *rest.get(1)?;
    if first == b'\\' {
        // The character behind the backslash may itself be a quote.
        let quote = rest.iter().skip(3).position(|&byte| byte == b'\'')?;
        return Some(3 + quote + 1);
    }
    let width = match first.leading_ones() {
        0 => 1,
        ones => ones as usize,
    };
    (rest.get(1 + width) == Some(&b'\'')).then_some(1 + width + 1)
}

/// Returns the place where the first bracket of `masked` is closed, or its end.
fn bracket_end(masked: &str) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in masked.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' if depth == 1 => return at + 1,
            b']' => depth -= 1,
            _ => {}
        }
    }
    masked.len()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_masked() {
        check("a // b\nc", "a     \nc");
        check("a /* b /* c */ d */ e", "a                   e");
        check("a /* never closed", "a                ");
        check("//! b", "     ");
        check("a / b", "a / b");
    }

    #[test]
    fn strings_are_masked_up_to_their_own_quote() {
        check(r#"f("x", y)"#, "f(   , y)");
        check(r#"f("\"x", y)"#, "f(     , y)");
        check(r#"f("\\", y)"#, "f(    , y)");
        check("f(\"a\nb\")", "f(  \n  )");
        check(r##"f(r#"a"b"#, y)"##, "f(        , y)");
        check(r#"f(br"a\", y)"#, "f(      , y)");
        check(r#"f(b"a", y)"#, "f(b   , y)");
        check(r#"f("never closed"#, "f(             ");
        check(r##"f(r#"never closed"##, "f(               ");
    }

    #[test]
    fn characters_are_masked_and_lifetimes_are_not() {
        check("f('\"', 'a')", "f(   ,    )");
        check(r"f('\'', '\\', '\u{7f}', b'x')", r"f(    ,     ,         , b   )");
        check("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)");
        check("'\u{e9}' + x", "     + x");
    }

    #[test]
    fn words_that_look_like_prefixes_stay() {
        check("r + br + bar", "r + br + bar");
        check("r#type", "r#type");
        check("for\"x\"", "for   ");
    }

    #[test]
    fn the_header_is_the_attributes_on_top() {
        let source = "//! a ]\n\n#![expect(\n    unsafe_code,\n    reason = \"a ] b\"\n)]\n\
                      // why\n#![cfg(test)]\nuse a;\n#![late]\n";
        assert_eq!(header(&mask(source)), "#![expect(unsafe_code,reason=)]#![cfg(test)]");
        assert_eq!(header(&mask("use a;\n#![cfg(test)]\n")), "");
        assert_eq!(header(""), "");
    }

    #[test]
    fn a_word_is_found_whole_and_outside_comments() {
        let line = |source: &str| line_with_word(&mask(source), "unsafe");
        assert_eq!(line("a\nunsafe { b }"), Some(2));
        assert_eq!(line("#![forbid(unsafe_code)]\n// unsafe\nlet a = \"unsafe\";"), None);
    }

    #[track_caller]
    fn check(source: &str, expected: &str) {
        assert_eq!(mask(source), expected, "{source}");
    }
}
