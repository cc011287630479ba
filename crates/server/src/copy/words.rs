//! Translation of option names in messages of an import: names of the command line are replaced by
//! those of COPY or `/imp`.

/// Command-line options and those of COPY. A longer option stands before its own prefixes.
const OF_COPY: [(&str, &str); 17] = [
    ("--timestamp-format", "TIMESTAMP_FORMAT"),
    ("--skip-columns", "SKIP_COLUMNS"),
    ("--partition-by", "PARTITION_BY"),
    ("--skip-lines", "SKIP_LINES"),
    ("--format csv", "FORMAT csv"),
    ("--quote none", "a QUOTE that no text has"),
    ("--no-header", "HEADER NONE"),
    ("--max-errors", "MAX_ERRORS"),
    ("--on-error", "ON_ERROR"),
    ("--timestamp", "TIMESTAMP"),
    ("--delimiter", "DELIMITER"),
    ("--symbols", "a table made before, with SYMBOL,"),
    ("--header", "HEADER true"),
    ("--schema", "a table made before"),
    ("--memory", "copy.memory_limit"),
    ("--quote", "QUOTE"),
    ("--null", "NULL"),
];

const OF_IMP: [(&str, &str); 6] = [
    ("TIMESTAMP_FORMAT", "a `pattern` in the part `schema`"),
    ("a table made before", "the part `schema`"),
    ("HEADER true", "forceHeader=true"),
    ("SKIP_COLUMNS", "skipColumns"),
    ("DELIMITER", "delimiter"),
    ("say NULL", "COPY takes NULL"),
];

/// Replaces options of the command line by those of COPY.
pub(crate) fn of_copy(message: &str) -> String {
    with(message, &OF_COPY)
}

/// Replaces options of the command line by those of `/imp`, or by those of COPY where it has none.
pub(crate) fn of_imp(message: &str) -> String {
    with(message, &OF_IMP)
}

fn with(message: &str, words: &[(&str, &str)]) -> String {
    let put = |text: String, (word, other): &(&str, &str)| text.replace(word, other);
    words.iter().fold(message.to_owned(), put)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_command_line_are_those_of_the_place() {
        let message = "is a guess: say with --delimiter and --quote how it is written, and with \
                       --header or --no-header whether";
        let copy = of_copy(message);
        assert_eq!(
            copy,
            "is a guess: say with DELIMITER and QUOTE how it is written, and with HEADER true or \
             HEADER NONE whether"
        );
        assert!(of_imp(&copy).contains("delimiter and QUOTE how"), "{}", of_imp(&copy));
        assert_eq!(of_copy("with --timestamp-format"), "with TIMESTAMP_FORMAT");
        let null = of_copy("where that is NULL, say --null 'NA'");
        assert_eq!(null, "where that is NULL, say NULL 'NA'");
        assert_eq!(of_imp(&null), "where that is NULL, COPY takes NULL 'NA'");
        let memory = of_copy("a quarter of --memory 64.0 MiB");
        assert_eq!(memory, "a quarter of copy.memory_limit 64.0 MiB");
    }
}
