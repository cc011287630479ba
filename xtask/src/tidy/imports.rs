//! The paths of a Rust file that name other modules: those of its `use` items, and those in its
//! code.
//!
//! Items under `#[cfg(test)]` are left out: tests may know everything. A module in braces is taken
//! for its file: the sources have none besides tests. Not here: the modules that the paths lead to
//! (`layers`).

/// The names of other modules in a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Imports {
    pub(crate) uses: Vec<Use>,
    /// Paths in the code, of two segments or more.
    pub(crate) paths: Vec<Path>,
    /// The children that exist in tests only: `#[cfg(test)] mod golden;`.
    pub(crate) test_modules: Vec<String>,
}

/// A name that a `use` item brings in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) name: String,
    pub(crate) path: Path,
}

/// A path as it is written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) segments: Vec<String>,
    /// The number of the line, counted from 1.
    pub(crate) line: usize,
}

/// Reads the imports of a masked file.
pub(crate) fn imports(masked: &str) -> Imports {
    let (tokens, test_modules) = without_tests(&tokens(masked));
    let mut imports = Imports { test_modules, ..Imports::default() };
    let mut at = 0;
    while at < tokens.len() {
        let is_use = tokens[at].text == "use" && text_at(&tokens, at + 1) != "<";
        at = if is_use {
            use_tree(&tokens, at + 1, &[], &mut imports.uses)
        } else if tokens[at].is_word() && text_at(&tokens, at + 1) == "::" {
            let end = path_end(&tokens, at);
            let segments: Vec<String> = words(&tokens[at..end]);
            if 1 < segments.len() {
                imports.paths.push(Path { segments, line: tokens[at].line });
            }
            end
        } else {
            at + 1
        };
    }
    imports
}

/// A word, `::`, or another character.
#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    text: &'a str,
    line: usize,
}

impl Token<'_> {
    fn is_word(self) -> bool {
        self.text.starts_with(|c: char| c.is_alphanumeric() || c == '_')
    }
}

fn tokens(masked: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (line, text) in (1..).zip(masked.lines()) {
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let length = if rest.starts_with("::") {
                2
            } else {
                rest.find(|c| !is_word(c)).unwrap_or(rest.len()).max(first.len_utf8())
            };
            tokens.push(Token { text: &rest[..length], line });
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

fn text_at<'a>(tokens: &[Token<'a>], at: usize) -> &'a str {
    tokens.get(at).map_or("", |token| token.text)
}

fn words(tokens: &[Token<'_>]) -> Vec<String> {
    tokens.iter().filter(|token| token.is_word()).map(|token| token.text.to_owned()).collect()
}

/// Returns the tokens without the items under `#[cfg(test)]`, and the names of the modules
/// among these that have a file.
fn without_tests<'a>(tokens: &[Token<'a>]) -> (Vec<Token<'a>>, Vec<String>) {
    const CFG_TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut kept, mut modules) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        let texts = tokens[at..].iter().map(|token| token.text);
        if !texts.take(CFG_TEST.len()).eq(CFG_TEST) {
            kept.push(tokens[at]);
            at += 1;
            continue;
        }
        let start = at + CFG_TEST.len();
        at = item_end(tokens, start);
        if let [.., module, name, end] = tokens[start..at]
            && (module.text, end.text) == ("mod", ";")
        {
            modules.push(name.text.to_owned());
        }
    }
    (kept, modules)
}

/// Returns the end of the item at `start`: behind its `;` or its braces.
fn item_end(tokens: &[Token<'_>], start: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" => depth = depth.saturating_sub(1),
            "}" if depth <= 1 => return at + 1,
            "}" => depth -= 1,
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// Returns the end of the path at `start`.
fn path_end(tokens: &[Token<'_>], start: usize) -> usize {
    let mut end = start + 1;
    while text_at(tokens, end) == "::" && tokens.get(end + 1).is_some_and(|next| next.is_word()) {
        end += 2;
    }
    end
}

/// Collects the names of the `use` tree at `start`, whose paths begin with `prefix`. Returns its
/// end.
fn use_tree(tokens: &[Token<'_>], start: usize, prefix: &[String], uses: &mut Vec<Use>) -> usize {
    let Some(first) = tokens.get(start) else { return start };
    let mut segments = prefix.to_vec();
    let mut end = start;
    while let Some(token) = tokens.get(end) {
        match token.text {
            "{" => return use_list(tokens, end + 1, &segments, uses),
            "::" | "*" => {}
            _ if !token.is_word() || token.text == "as" => break,
            text => segments.push(text.to_owned()),
        }
        end += 1;
    }
    // `{self, ...}` names the module before the braces.
    segments.pop_if(|last| !prefix.is_empty() && last == "self");
    let Some(mut name) = segments.last().cloned() else { return end };
    if text_at(tokens, end) == "as" {
        text_at(tokens, end + 1).clone_into(&mut name);
        end += 2;
    }
    uses.push(Use { name, path: Path { segments, line: first.line } });
    end
}

/// Collects the trees of a list, whose `{` stands before `start`. Returns the end of the list.
fn use_list(tokens: &[Token<'_>], start: usize, prefix: &[String], uses: &mut Vec<Use>) -> usize {
    let mut at = start;
    while at < tokens.len() {
        match tokens[at].text {
            "}" => return at + 1,
            text if tokens[at].is_word() || text == "*" => {
                at = use_tree(tokens, at, prefix, uses);
            }
            _ => at += 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::masked::mask;

    #[test]
    fn every_name_of_a_use_has_its_path_and_line() {
        check("use crate::a::B;", "1 B = crate::a::B");
        check("pub(crate) use super::a as b;", "1 b = super::a");
        check("use arrow::array;\nuse a::b;", "1 array = arrow::array, 2 b = a::b");
        let list = "use crate::{\n    a,\n    b::{self, C, d::E as F},\n};\nuse super::g;";
        let names = "2 a = crate::a, 3 b = crate::b, 3 C = crate::b::C, 3 F = crate::b::d::E";
        check(list, &format!("{names}, 5 g = super::g"));
        check("use crate::a::*;", "1 a = crate::a");
        check("fn a() -> impl Iterator + use<'a> {}", "");
    }

    #[test]
    fn paths_in_code_are_found() {
        check("let a = crate::b::c(super::D::new(), e);", "1 crate::b::c, 1 super::D::new");
        check("pub(in crate::a) fn b(c: Vec<u8>) {}", "1 crate::a");
        check("// crate::a\nlet a = \"crate::b\";", "");
    }

    #[test]
    fn tests_are_left_out() {
        check("use a::B;\n#[cfg(test)]\nmod tests {\n    use crate::c::D;\n}\n", "1 B = a::B");
        check("#[cfg(test)]\nfn a(b: &[(u8, u8)]) -> C {\n    crate::d::e()\n}\nf::g();", "5 f::g");
        check("#[cfg(test)]\npub(crate) use crate::{a, b};\nuse c::d;", "3 d = c::d");
        check("#[cfg(test)]\n#[expect(a)]\nconst A: [B; 2] = [b::C; 2];\nc::d();", "4 c::d");
        check("#[cfg(test)]\nmod golden;\nmod a;\n#[cfg(test)]\nmod tests;", "golden, tests");
    }

    #[track_caller]
    fn check(source: &str, expected: &str) {
        let Imports { uses, paths, test_modules } = imports(&mask(source));
        let shown = |path: &Path| path.segments.join("::");
        let uses = uses.iter().map(|u| format!("{} {} = {}", u.path.line, u.name, shown(&u.path)));
        let paths = paths.iter().map(|path| format!("{} {}", path.line, shown(path)));
        let all: Vec<String> = uses.chain(paths).chain(test_modules).collect();
        assert_eq!(all.join(", "), expected, "{source}");
    }
}
