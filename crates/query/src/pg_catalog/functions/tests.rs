//! Sizes and names, as PostgreSQL writes them.

use super::*;

#[test]
fn sizes_and_names_are_written_as_postgresql_does() {
    let sizes = [(0, "0 bytes"), (10_239, "10239 bytes"), (10_240, "10 kB"), (1 << 30, "1024 MB")];
    for (bytes, expected) in sizes {
        assert_eq!(pretty(bytes), expected);
    }
    assert_eq!(
        (quote_ident("a_1"), quote_ident("A \"b\"")),
        ("a_1".into(), "\"A \"\"b\"\"\"".into())
    );
    assert_eq!(quote_ident("1a"), "\"1a\"");
    // PostgreSQL quotes keywords, but those that may name anything.
    for (name, expected) in [("select", "\"select\""), ("time", "\"time\""), ("value", "value")] {
        assert_eq!(quote_ident(name), expected);
    }
}
