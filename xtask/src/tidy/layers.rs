//! The layers of modules inside a crate: imports between sibling modules have no cycles (STYLE
//! section 6).
//!
//! - A module and its own children are one. So an import stands for an arrow between the two
//!   siblings that hold its ends, below the nearest module that holds both; an import between a
//!   module and its own ancestor is no arrow.
//! - A name is followed through `use` to the module that defines it: importing it from a module
//!   that hands it on hides no arrow.
//! - `CYCLES` is exact: its numbers are those of the sources, and only ever go down.
//!
//! Not here: the direction of dependencies between crates (`crates`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::tidy::Finding;
use crate::tidy::imports::{Imports, Use, imports};
use crate::tidy::masked::mask;
use crate::tidy::rust::crate_of;
use crate::tidy::tree::Tree;

/// Crates that still have cycles, with their sizes. The numbers only ever go down; while one is too
/// low, the cycles are among the findings.
const CYCLES: &[(&str, Cycles)] = &[];

/// The file that has the list.
const THIS_FILE: &str = "xtask/src/tidy/layers.rs";

/// Most names that are followed from module to module: a longer chain is a circle of names.
const NAMES_MAX: usize = 16;

/// The size of the cycles of a crate, in modules: a file with the folder of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cycles {
    /// The modules of the largest cycle, of which each reaches each other one.
    largest: usize,
    /// The modules of all cycles.
    modules: usize,
}

/// Returns the findings about the modules of all crates.
pub(crate) fn findings(tree: &Tree) -> Vec<Finding> {
    checked(tree, CYCLES)
}

fn checked(tree: &Tree, listed: &[(&str, Cycles)]) -> Vec<Finding> {
    let crates = sources(tree);
    let gone = listed.iter().filter(|(name, _)| !crates.contains_key(name));
    let gone = gone.map(|(name, _)| list_finding(&format!("`{name}` is in CYCLES, and gone")));
    let mut findings: Vec<Finding> = gone.collect();
    for (name, sources) in crates {
        let arrows = arrows(&Sources::new(sources));
        let found = cycles(&arrows);
        let listed = listed.iter().find(|(own, _)| *own == name).map(|(_, cycles)| *cycles);
        findings.extend(crate_findings(name, &arrows, &found, listed));
    }
    findings
}

fn crate_findings(
    name: &str,
    arrows: &Arrows<'_>,
    found: &[Vec<Module>],
    listed: Option<Cycles>,
) -> Vec<Finding> {
    let sizes = Cycles {
        largest: found.iter().map(Vec::len).max().unwrap_or(0),
        modules: found.iter().map(Vec::len).sum(),
    };
    let Some(listed) = listed else {
        return found.iter().map(|cycle| cycle_finding(arrows, cycle)).collect();
    };
    if sizes == listed {
        return Vec::new();
    }
    let Cycles { largest, modules } = sizes;
    if found.is_empty() {
        return vec![list_finding(&format!("`{name}` has no cycles: take it out of CYCLES"))];
    }
    let has_grown = listed.largest < largest || listed.modules < modules;
    if !has_grown {
        let what = format!("`{name}` has cycles of {largest} and {modules} modules: lower CYCLES");
        return vec![list_finding(&what)];
    }
    let Cycles { largest: most, modules: all } = listed;
    let what = format!(
        "`{name}` has cycles of {largest} and {modules} modules: CYCLES allows {most} and {all}"
    );
    let cycles = found.iter().map(|cycle| cycle_finding(arrows, cycle));
    std::iter::once(list_finding(&what)).chain(cycles).collect()
}

fn list_finding(what: &str) -> Finding {
    Finding::new(THIS_FILE, 1, what)
}

/// Names the shortest way around a cycle, at the place of its first import.
fn cycle_finding(arrows: &Arrows<'_>, cycle: &[Module]) -> Finding {
    let ways = cycle.iter().filter_map(|module| way_around(arrows, module));
    let way = ways.min_by_key(Vec::len).expect("each module of a cycle reaches itself");
    let steps = way.iter().zip(way.iter().cycle().skip(1));
    let steps: Vec<(String, Place<'_>)> = steps
        .map(|(&from, &to)| {
            let place = arrows[from][to];
            let (from, to) = (from.join("::"), to.join("::"));
            (format!("`{from}` imports `{to}` ({}:{})", place.path, place.line), place)
        })
        .collect();
    let place = steps[0].1;
    let steps: Vec<String> = steps.into_iter().map(|(step, _)| step).collect();
    let what = format!("{}: no cycles between sibling modules (STYLE 6)", steps.join(", "));
    Finding::new(place.path, place.line, what)
}

/// A module by its path from the root of its crate, which is empty for the root itself.
type Module = Vec<String>;

/// The arrows from module to module, each with its first import.
type Arrows<'a> = BTreeMap<Module, BTreeMap<Module, Place<'a>>>;

/// The place of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place<'a> {
    path: &'a str,
    line: usize,
}

/// A file of a module.
struct Source<'a> {
    path: &'a str,
    imports: Imports,
}

/// The modules of a crate, without those of tests.
struct Sources<'a> {
    files: BTreeMap<Module, Source<'a>>,
    /// For each module, the names that it imports and their paths from the root.
    names: BTreeMap<Module, BTreeMap<String, Module>>,
}

impl<'a> Sources<'a> {
    fn new(mut files: BTreeMap<Module, Source<'a>>) -> Sources<'a> {
        let test_modules = |(module, file): (&Module, &Source<'_>)| {
            let names = file.imports.test_modules.iter();
            names.map(|name| joined(module, std::slice::from_ref(name))).collect::<Vec<_>>()
        };
        let tests: BTreeSet<Module> = files.iter().flat_map(test_modules).collect();
        files.retain(|module, _| (0..=module.len()).all(|end| !tests.contains(&module[..end])));
        let names = files.iter().map(|(module, file)| {
            let absolute = |own: &Use| {
                let path = absolute(&files, module, &own.path.segments)?;
                Some((own.name.clone(), path))
            };
            (module.clone(), file.imports.uses.iter().filter_map(absolute).collect())
        });
        let names = names.collect();
        Sources { files, names }
    }

    /// Returns the modules that a file names, each with the line.
    fn targets(&self, module: &Module, file: &Source<'_>) -> Vec<(Module, usize)> {
        let names = &self.names[module];
        let used =
            file.imports.uses.iter().map(|own| &own.path).filter_map(|path| {
                Some((absolute(&self.files, module, &path.segments)?, path.line))
            });
        let named = file.imports.paths.iter().filter_map(|path| {
            let (first, rest) = path.segments.split_first()?;
            let absolute = match names.get(first) {
                Some(named) => joined(named, rest),
                None => absolute(&self.files, module, &path.segments)?,
            };
            Some((absolute, path.line))
        });
        used.chain(named).map(|(path, line)| (self.home(path), line)).collect()
    }

    /// Returns the module that defines the name at the end of a path.
    fn home(&self, mut path: Module) -> Module {
        for _ in 0..NAMES_MAX {
            let lengths = (0..=path.len()).rev();
            let is_module = |length: &usize| self.files.contains_key(&path[..*length]);
            let length = lengths.into_iter().find(is_module).unwrap_or(0);
            let (module, rest) = path.split_at(length);
            let names = self.names.get(module);
            let named = rest.first().and_then(|name| names?.get(name));
            match named {
                Some(named) => path = joined(named, &rest[1..]),
                None => return module.to_vec(),
            }
        }
        path
    }
}

/// Returns a path from the root of the crate; none if it leads to another crate.
fn absolute(
    files: &BTreeMap<Module, Source<'_>>,
    module: &[String],
    segments: &[String],
) -> Option<Module> {
    let (first, rest) = segments.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some(joined(module, rest)),
        "super" => {
            let ups = segments.iter().take_while(|segment| *segment == "super").count();
            let base = module.len().checked_sub(ups)?;
            Some(joined(&module[..base], &segments[ups..]))
        }
        _ => {
            let child = joined(module, &segments[..1]);
            files.contains_key(&child).then(|| joined(module, segments))
        }
    }
}

fn joined(module: &[String], rest: &[String]) -> Module {
    [module, rest].concat()
}

/// Returns the sources of each crate.
fn sources(tree: &Tree) -> BTreeMap<&str, BTreeMap<Module, Source<'_>>> {
    let mut crates: BTreeMap<&str, BTreeMap<Module, Source<'_>>> = BTreeMap::new();
    for (path, file) in tree.files() {
        let inside = path.split_once("/src/").and_then(|(_, inside)| inside.strip_suffix(".rs"));
        if let (Some(name), Some(inside), Some(text)) = (crate_of(path), inside, &file.text) {
            let module = match inside {
                "lib" | "main" => Module::new(),
                _ => inside.split('/').map(str::to_owned).collect(),
            };
            let source = Source { path, imports: imports(&mask(text)) };
            crates.entry(name).or_default().insert(module, source);
        }
    }
    crates
}

/// Returns the arrows between siblings.
fn arrows<'a>(sources: &Sources<'a>) -> Arrows<'a> {
    let mut arrows = Arrows::new();
    for (module, file) in &sources.files {
        for (target, line) in sources.targets(module, file) {
            let shared = module.iter().zip(&target).take_while(|(a, b)| a == b).count();
            if shared == module.len() || shared == target.len() {
                continue;
            }
            let place = Place { path: file.path, line };
            let to = arrows.entry(module[..=shared].to_vec()).or_default();
            let first = to.entry(target[..=shared].to_vec()).or_insert(place);
            *first = place.min(*first);
        }
    }
    arrows
}

/// Returns the cycles: the largest sets of modules, of which each reaches each other one.
fn cycles(arrows: &Arrows<'_>) -> Vec<Vec<Module>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        arrows.keys().map(|module| (module, reached(arrows, module))).collect();
    let mut cycles: BTreeSet<Vec<Module>> = BTreeSet::new();
    for (&module, others) in &reached {
        let comes_back =
            |other: &&&Module| reached.get(**other).is_some_and(|r| r.contains(module));
        if others.contains(module) {
            cycles.insert(others.iter().filter(comes_back).map(|&other| other.clone()).collect());
        }
    }
    cycles.into_iter().collect()
}

/// Returns the modules that `from` reaches by one arrow or several.
fn reached<'m>(arrows: &'m Arrows<'_>, from: &Module) -> BTreeSet<&'m Module> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&Module> = arrows[from].keys().collect();
    while let Some(module) = next.pop() {
        if reached.insert(module) {
            next.extend(arrows.get(module).into_iter().flat_map(BTreeMap::keys));
        }
    }
    reached
}

/// Returns the modules of a shortest way from a module back to it, which is the first of them.
fn way_around<'m>(arrows: &'m Arrows<'_>, start: &'m Module) -> Option<Vec<&'m Module>> {
    let mut before: BTreeMap<&Module, &Module> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(module) = queue.pop_front() {
        for target in arrows.get(module).into_iter().flat_map(BTreeMap::keys) {
            if target == start {
                let mut way = vec![module];
                while *way.last()? != start {
                    way.push(before[way.last()?]);
                }
                way.reverse();
                return Some(way);
            }
            if !before.contains_key(target) {
                before.insert(target, module);
                queue.push_back(target);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_that_import_each_other_are_a_cycle() {
        let files = [("a.rs", "use crate::b::B;"), ("b.rs", "//! B.\n\nuse super::a::A;")];
        let way = "`a` imports `b` (crates/x/src/a.rs:1), `b` imports `a` (crates/x/src/b.rs:3)";
        check(&files, &format!("crates/x/src/a.rs:1: {way}"));
        check(&[("a.rs", "use crate::b::B;"), ("b.rs", "use std::fmt;")], "");
    }

    #[test]
    fn the_shortest_way_around_a_cycle_is_shown() {
        let files = [
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::c::C;"),
            ("c.rs", "use crate::{a::A, d::D};"),
            ("d.rs", "fn d() {\n    crate::c::C::new()\n}"),
        ];
        let way = "`c` imports `d` (crates/x/src/c.rs:1), `d` imports `c` (crates/x/src/d.rs:2)";
        check(&files, &format!("crates/x/src/c.rs:1: {way}"));
    }

    #[test]
    fn a_module_and_its_children_are_one() {
        let parent = ("a.rs", "mod b;\npub use self::b::B;\nuse b::D;");
        check(&[parent, ("a/b.rs", "use super::A;\nuse crate::a::D;")], "");
        check(&[("lib.rs", "pub use a::A;"), ("a.rs", "use crate::Root;")], "");
        let files = [parent, ("a/b.rs", "use crate::c::C;"), ("c.rs", "use crate::a::A;")];
        let way = "`a` imports `c` (crates/x/src/a/b.rs:1), `c` imports `a` (crates/x/src/c.rs:1)";
        check(&files, &format!("crates/x/src/a/b.rs:1: {way}"));
    }

    #[test]
    fn children_of_one_module_are_siblings() {
        let files = [("a.rs", ""), ("a/b.rs", "use super::c::C;"), ("a/c.rs", "use super::b::B;")];
        let back = "`a::c` imports `a::b` (crates/x/src/a/c.rs:1)";
        let way = format!("`a::b` imports `a::c` (crates/x/src/a/b.rs:1), {back}");
        check(&files, &format!("crates/x/src/a/b.rs:1: {way}"));
    }

    #[test]
    fn names_that_are_handed_on_hide_no_cycle() {
        let way = "`a` imports `b` (crates/x/src/a.rs:1), `b` imports `a` (crates/x/src/b.rs:1)";
        let expected = format!("crates/x/src/a.rs:1: {way}");
        let b = ("b.rs", "use crate::a::A;");
        check(&[("lib.rs", "pub use b::B as C;"), ("a.rs", "use crate::C;"), b], &expected);
        check(&[("lib.rs", "use crate::b;"), ("a.rs", "use super::b::B;"), b], &expected);
        check(&[("c.rs", "use crate::c::C;"), ("d.rs", "use crate::c::C;")], "");
    }

    #[test]
    fn tests_know_everything() {
        let a = ("a.rs", "use crate::b::B;\nmod c;\n#[cfg(test)]\nmod d;");
        check(&[a, ("b.rs", "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}")], "");
        check(&[a, ("b.rs", "#[cfg(test)]\nmod e;"), ("b/e.rs", "use crate::a::A;")], "");
        check(&[a, ("b.rs", "// crate::a::A")], "");
        let files = [a, ("a/d.rs", "use crate::a::c::C;"), ("a/c.rs", "use super::d::D;")];
        check(&files, "");
    }

    #[test]
    fn the_list_of_cycles_is_exact() {
        let files = [
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::a::A;"),
            ("c.rs", "use crate::d::D;"),
            ("d.rs", "use crate::c::C;"),
        ];
        let list = |largest, modules| [("x", Cycles { largest, modules })];
        check_list(&files, &list(2, 4), &[]);
        check_list(&files, &list(2, 5), &["`x` has cycles of 2 and 4 modules: lower CYCLES"]);
        check_list(&files, &list(3, 4), &["`x` has cycles of 2 and 4 modules: lower CYCLES"]);
        check_list(&files[..1], &list(2, 4), &["`x` has no cycles: take it out of CYCLES"]);
        check_list(&[], &list(2, 4), &["`x` is in CYCLES, and gone"]);
        let found = lines(&files, &list(2, 2));
        assert_eq!(found.len(), 3, "{found:?}");
        let grown = "`x` has cycles of 2 and 4 modules: CYCLES allows 2 and 2";
        assert_eq!(found[0], format!("{THIS_FILE}:1: {grown}"));
    }

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &str) {
        let found = lines(files, &[]).join("\n");
        let found = found.strip_suffix(": no cycles between sibling modules (STYLE 6)");
        assert_eq!(found.unwrap_or_default(), expected, "{files:?}");
    }

    #[track_caller]
    fn check_list(files: &[(&str, &str)], listed: &[(&str, Cycles)], expected: &[&str]) {
        let expected: Vec<String> =
            expected.iter().map(|what| format!("{THIS_FILE}:1: {what}")).collect();
        assert_eq!(lines(files, listed), expected, "{files:?}");
    }

    fn lines(files: &[(&str, &str)], listed: &[(&str, Cycles)]) -> Vec<String> {
        let paths: Vec<String> =
            files.iter().map(|(path, _)| format!("crates/x/src/{path}")).collect();
        let files: Vec<(&str, &str)> =
            paths.iter().zip(files).map(|(path, (_, text))| (path.as_str(), *text)).collect();
        checked(&Tree::of(&files), listed).iter().map(Finding::to_string).collect()
    }
}
