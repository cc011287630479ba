//! Excerpts: the beginning of a value, as a message shows it.

/// The characters of a value that an error message shows.
const SHOWN_CHARS: usize = 200;

/// The beginning of a text, as one line.
pub(crate) fn shown(text: &[u8]) -> String {
    // A character has at most four bytes.
    let start = &text[..text.len().min(4 * SHOWN_CHARS)];
    let lossy = String::from_utf8_lossy(start);
    let mut line = String::new();
    for char in lossy.chars().take(SHOWN_CHARS) {
        match char.is_control() {
            true => line.extend(char.escape_default()),
            false => line.push(char),
        }
    }
    let is_all = start.len() == text.len() && lossy.chars().count() <= SHOWN_CHARS;
    line + if is_all { "" } else { "\u{2026}" }
}
