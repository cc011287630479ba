//! The automaton beside `Pattern::matches` of decompressed texts, and lengths beside those of the
//! texts.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_model::frame::Strings;

use super::CodeAutomaton;
use crate::pattern::Pattern;
use crate::text::{LengthUnit, Texts};

/// A table whose symbols begin and end in each other; some have several characters.
const SYMBOLS: [&str; 12] =
    ["a", "b", "ab", "ba", "aab", "bab", "aabbaabb", "%", "\u{e4}", "a\u{e4}b", "\u{1f600}", "_"];

fn table() -> Vec<u8> {
    let mut bytes = vec![u8::try_from(SYMBOLS.len()).expect("few")];
    bytes.extend(SYMBOLS.map(|symbol| u8::try_from(symbol.len()).expect("few")));
    for symbol in SYMBOLS {
        let mut padded = [0; 8];
        padded[..symbol.len()].copy_from_slice(symbol.as_bytes());
        bytes.extend(padded);
    }
    bytes
}

/// Checks matches and lengths of compressed strings, which may be damaged.
fn check(codes: &[Vec<u8>], patterns: &[String]) {
    let (table, bytes) = (table(), codes.concat());
    let mut offsets = vec![0_u32.to_le_bytes()];
    let mut end = 0;
    for string in codes {
        end += u32::try_from(string.len()).expect("few");
        offsets.push(end.to_le_bytes());
    }
    let strings = Strings { offsets: &offsets, bytes: &bytes, table: Some(&table) };
    let texts = Texts::new(strings, 0).expect("a table");
    let mut scratch = Vec::new();
    let plain = (0..codes.len()).map(|at| texts.at(at, &mut scratch).to_vec()).collect::<Vec<_>>();
    for pattern in patterns {
        let pattern = Pattern::new(pattern, false);
        let automaton = CodeAutomaton::of(&pattern, &texts).expect("few states");
        let mut found = vec![None; codes.len()];
        let stored = (0..codes.len()).map(|at| (at, texts.stored(at)));
        automaton.match_all(stored, |at, matches| {
            assert_eq!(found[at].replace(matches), None, "once for each string");
        });
        let expected = plain.iter().map(|text| Some(pattern.matches(text))).collect::<Vec<_>>();
        assert_eq!(found, expected, "code_automaton-1: {pattern:?} of {plain:?}");
    }
    for (at, text) in plain.iter().enumerate() {
        assert_eq!(texts.is_empty_at(at), text.is_empty(), "{text:?}");
        assert_eq!(texts.lengths(LengthUnit::Bytes).at(at), text.len(), "{text:?}");
        let characters = text.iter().filter(|&byte| byte & 0xC0 != 0x80).count();
        assert_eq!(texts.lengths(LengthUnit::Characters).at(at), characters, "{text:?}");
    }
}

/// A code of the table, an escape with its byte, or a damaged code.
fn code() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        30 => (0..12_u8).prop_map(|code| vec![code]),
        5 => prop::sample::select(b"abc%_".to_vec()).prop_map(|byte| vec![255, byte]),
        1 => any::<u8>().prop_map(|code| vec![code]),
    ]
}

fn pattern() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec!["a", "b", "ab", "aab", "\u{e4}", "%", "%", "\\%", "\\_"]);
    vec(part, 0..7).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn compressed_strings_match_as_their_texts_do(
        strings in vec(vec(code(), 0..12).prop_map(|codes| codes.concat()), 0..12),
        patterns in vec(pattern(), 1..8),
    ) {
        check(&strings, &patterns);
    }
}

#[test]
fn pieces_whose_beginnings_repeat_are_found() {
    let strings = ["aab", "aaab", "abab", "aabbaabb", "", "ba"]
        .map(|text| text.bytes().flat_map(|byte| [255, byte]).collect::<Vec<_>>());
    let patterns = ["%aab%", "%aab", "aab%", "%ab%ab%", "%ab%ab", "a%b", "%", "", "%b%a%"];
    check(&strings, &patterns.map(str::to_owned));
}

#[test]
fn patterns_that_have_no_automaton_are_matched_on_texts() {
    let table = table();
    let strings = Strings { offsets: &[[0; 4]], bytes: &[], table: Some(&table) };
    let texts = Texts::new(strings, 0).expect("a table");
    let long = format!("%{}%", "a".repeat(200));
    for (pattern, folds) in [("a_b", false), ("%a%", true), (long.as_str(), false)] {
        assert!(CodeAutomaton::of(&Pattern::new(pattern, folds), &texts).is_none(), "{pattern}");
    }
    let plain = Strings { offsets: &[[0; 4]], bytes: &[], table: None };
    let plain = Texts::new(plain, 0).expect("strings");
    assert!(CodeAutomaton::of(&Pattern::new("%a%", false), &plain).is_none());
}
