//! The index of modules: each `.rs` file with the first sentence of its header.
//!
//! It is printed on request, and no document has a copy: the next commit would make that outdated.

use std::path::Path;

use crate::error::Result;
use crate::tidy::tree::{self, Tree};

/// Returns the index of the workspace at `root`, or of the files whose path contains `name`.
pub(crate) fn index(root: &Path, name: Option<&str>) -> Result<String> {
    Ok(index_of(&tree::read(root)?, name.unwrap_or("")))
}

fn index_of(tree: &Tree, name: &str) -> String {
    let sources = tree.files().filter(|(path, _)| path.ends_with(".rs") && path.contains(name));
    let lines = sources.filter_map(|(path, file)| {
        let header = header(file.text.as_deref()?);
        Some(format!("{path}: {}\n", first_sentence(&header)))
    });
    lines.collect()
}

/// Returns the text of the `//!` lines at the top of a file.
fn header(text: &str) -> String {
    let lines = text.lines().skip_while(|line| line.starts_with("#!["));
    let header = lines.map_while(|line| line.strip_prefix("//!")).map(str::trim);
    header.collect::<Vec<_>>().join(" ")
}

fn first_sentence(text: &str) -> &str {
    let text = text.trim();
    text.find(". ").map_or(text, |end| &text[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_listed_with_the_first_sentence_of_its_header() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "//! Rows, and\n//! columns. More.\n\nmod x;\n"),
            ("crates/a/tests/it/main.rs", "#![cfg(test)]\n//! Tests\n"),
            ("README.md", "# A"),
        ]);
        let all = "crates/a/src/lib.rs: Rows, and columns.\ncrates/a/tests/it/main.rs: Tests\n";
        assert_eq!(index_of(&tree, ""), all);
        assert_eq!(index_of(&tree, "tests"), "crates/a/tests/it/main.rs: Tests\n");
        assert_eq!(index_of(&tree, "storage"), "");
    }
}
