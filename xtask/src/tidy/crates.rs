//! The table of STYLE section 6 against the packages: arrows, heavy crates, test binaries, crate
//! roots.
//!
//! - The guide is the only home of the table: it is read, not repeated. A crate of the table
//!   that does not exist yet is skipped; a package that is not in the table is a finding.
//! - crates-1. Arrows point down, and may skip levels: a crate may name everything that it reaches,
//!   unless its row says `only`. Dev-dependencies count.
//! - crates-2. A heavy crate is one that the last column names, with its family: `tokio` includes
//!   `tokio-util`, unless the column names that one itself.
//!
//! Not here: `fuzz`, which is outside the workspace; it links crates of the workspace, and none of
//! them links it.

use std::collections::BTreeSet;

use crate::tidy::masked::{header, mask};
use crate::tidy::packages::{Package, Target, TargetKind};
use crate::tidy::rust::crate_of;
use crate::tidy::tree::Tree;
use crate::tidy::{Finding, STYLE};

const TABLE_OPENING: &str = "| level | crate |";

/// Lowest level that may use Arrow's arrays (STYLE section 6) ...
const ARROW_LEVEL_MIN: u32 = 3;
/// ... and two crates below it that may use them too.
const ARROW_CRATES: [&str; 2] = ["storage", "bench"];
/// Arrow's crates without arrays, which `model` may use.
const ARROW_VOCABULARY: [&str; 2] = ["arrow-schema", "arrow-buffer"];

/// The attributes that a crate root opens with, for each group of crates (STYLE section 4).
const ROOT_ATTRIBUTES: [(&str, &[&str]); 2] = [
    (
        "#![forbid(unsafe_code)]",
        &["model", "query", "server", "load", "bench", "cluster", "tidegate", "xtask"],
    ),
    ("#![warn(missing_docs)]", &["model", "platform", "storage"]),
];

/// Returns the findings about the packages, given the guide and the sources in `tree`.
pub(crate) fn findings(tree: &Tree, packages: &[Package]) -> Vec<Finding> {
    let rows = match parse_table(tree.text(STYLE).unwrap_or_default()) {
        Ok(rows) => rows,
        Err(finding) => return vec![finding],
    };
    let mut findings = table_findings(&rows);
    for package in packages {
        let manifest = tree.text(&package.manifest).unwrap_or_default();
        findings.extend(dependency_findings(&rows, package, manifest));
        findings.extend(package.targets.iter().filter_map(|t| target_finding(t, tree)));
    }
    findings
}

/// A row of the table: a crate, and the crates it may use.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    /// The line in the guide, counted from 1.
    line: usize,
    name: String,
    /// The level; none for the crates that stand beside the stack.
    level: Option<u32>,
    uses: BTreeSet<String>,
    reach: Reach,
    doors: BTreeSet<String>,
}

/// The crates of a row that its crate may name (crates-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Everything,
    Named,
}

fn parse_table(style: &str) -> std::result::Result<Vec<Row>, Finding> {
    let lines = split_table(style)?;
    let others: Vec<Other> = lines.iter().map(|(_, cells)| Other::of(cells)).collect();
    Ok(lines.iter().map(|(line, cells)| parse_row(*line, cells, &others)).collect())
}

/// The cells of a row: level, crate, purpose, the crates it may use, its heavy crates.
type Cells<'a> = [&'a str; 5];

fn split_table(style: &str) -> std::result::Result<Vec<(usize, Cells<'_>)>, Finding> {
    let mut lines = (1..).zip(style.lines());
    if !lines.any(|(_, line)| line.starts_with(TABLE_OPENING)) {
        let what = format!("has no table that opens with `{TABLE_OPENING}`");
        return Err(Finding::new(STYLE, 1, what));
    }
    // A line of dashes stands below the heading.
    let rows = lines.skip(1).take_while(|(_, line)| line.starts_with('|'));
    rows.map(|(line, row)| Ok((line, split_row(line, row)?))).collect()
}

fn split_row(line: usize, row: &str) -> std::result::Result<Cells<'_>, Finding> {
    let cells: Vec<&str> = row.trim().trim_matches('|').split('|').map(str::trim).collect();
    Cells::try_from(cells).map_err(|cells| {
        let what = format!("a row of {} cells in the table of crates, not of 5", cells.len());
        Finding::new(STYLE, line, what)
    })
}

/// A crate as the cells of the other rows refer to it.
struct Other<'a> {
    name: &'a str,
    level: Option<u32>,
}

impl<'a> Other<'a> {
    fn of(cells: &Cells<'a>) -> Other<'a> {
        Other { name: crate_name(cells), level: cells[0].parse().ok() }
    }
}

fn parse_row(line: usize, cells: &Cells, others: &[Other]) -> Row {
    let &[_, _, _, uses, doors] = cells;
    let Other { name, level } = Other::of(cells);
    let only = words(uses).any(|word| word == "only");
    Row {
        line,
        name: name.to_owned(),
        level,
        uses: parse_uses(name, uses, others),
        reach: if only { Reach::Named } else { Reach::Everything },
        doors: parse_doors(doors),
    }
}

/// Returns the name of the crate in a row such as `cluster (later)`.
fn crate_name<'a>(cells: &Cells<'a>) -> &'a str {
    cells[1].split(' ').next().unwrap_or_default()
}

/// Returns the crates among the words of a cell such as `only model, and the readers of ingest`;
/// `all` is every crate with a level.
fn parse_uses(name: &str, cell: &str, others: &[Other]) -> BTreeSet<String> {
    let is_used = |other: &Other| {
        words(cell).any(|word| word == other.name || (word == "all" && other.level.is_some()))
    };
    let used = others.iter().filter(|other| other.name != name && is_used(other));
    used.map(|other| other.name.to_owned()).collect()
}

/// Returns the heavy crates of a cell such as `tokio, parquet (cold partitions)`.
fn parse_doors(cell: &str) -> BTreeSet<String> {
    let reasonless = cell.split('(').map(|part| part.rsplit(')').next().unwrap_or_default());
    let named: Vec<&str> = reasonless.flat_map(|part| part.split(',')).map(str::trim).collect();
    named.into_iter().filter(|&n| !n.is_empty() && n != "none").map(str::to_owned).collect()
}

fn words(cell: &str) -> impl Iterator<Item = &str> {
    cell.split(|c: char| !c.is_alphanumeric() && c != '-')
}

/// Returns the arrows of the table that do not point down (crates-1).
fn table_findings(rows: &[Row]) -> Vec<Finding> {
    let level = |name: &str| rows.iter().find(|row| row.name == name).and_then(|row| row.level);
    let mut findings = Vec::new();
    for row in rows {
        // A crate without a level stands beside the stack, below no other.
        let is_below = |used: &String| level(used).is_some() && level(used) < row.level;
        for used in row.uses.iter().filter(|used| !is_below(used)) {
            let what = format!("{} may use {used}, which is not below it", row.name);
            findings.push(Finding::new(STYLE, row.line, what));
        }
    }
    findings
}

fn dependency_findings(rows: &[Row], package: &Package, manifest: &str) -> Vec<Finding> {
    let path = &package.manifest;
    let row = rows.iter().find(|row| package_name(&row.name) == package.name);
    let Some(row) = row.filter(|row| crate_of(path) == Some(row.name.as_str())) else {
        let what = format!("`{}` is not in the table of STYLE section 6", package.name);
        return vec![Finding::new(path, 1, what)];
    };
    let allowed = reached(rows, row);
    let mut findings = Vec::new();
    for dependency in &package.dependencies {
        let what = match rows.iter().find(|row| package_name(&row.name) == *dependency) {
            Some(ours) if !allowed.contains(ours.name.as_str()) => {
                format!("{} may not use {} (STYLE section 6)", row.name, ours.name)
            }
            None if !is_open(rows, row, dependency) => {
                format!("the door to {dependency} is closed to {} (STYLE section 6)", row.name)
            }
            _ => continue,
        };
        findings.push(Finding::new(path, line_of_dependency(manifest, dependency), what));
    }
    findings
}

fn package_name(crate_name: &str) -> String {
    match crate_name {
        "tidegate" | "xtask" => crate_name.to_owned(),
        _ => format!("tidegate-{crate_name}"),
    }
}

/// Returns the crates that `row` may name (crates-1).
fn reached<'a>(rows: &'a [Row], row: &'a Row) -> BTreeSet<&'a str> {
    let mut reached: BTreeSet<&str> = row.uses.iter().map(String::as_str).collect();
    if row.reach == Reach::Named {
        return reached;
    }
    loop {
        let users = rows.iter().filter(|user| reached.contains(user.name.as_str()));
        let used: Vec<&str> = users.flat_map(|user| &user.uses).map(String::as_str).collect();
        let before = reached.len();
        reached.extend(used);
        if reached.len() == before {
            return reached;
        }
    }
}

/// Returns true if `row` may name the outside crate `dependency` (crates-2). All may name a crate
/// that is not heavy.
fn is_open(rows: &[Row], row: &Row, dependency: &str) -> bool {
    if is_of_family(dependency, "arrow") {
        return ARROW_CRATES.contains(&row.name.as_str())
            || row.level.is_some_and(|level| ARROW_LEVEL_MIN <= level)
            || (row.name == "model" && ARROW_VOCABULARY.contains(&dependency));
    }
    let heavy = rows.iter().flat_map(|row| &row.doors);
    let family = heavy.filter(|heavy| is_of_family(dependency, heavy)).max_by_key(|h| h.len());
    family.is_none_or(|family| row.doors.contains(family))
}

fn is_of_family(name: &str, family: &str) -> bool {
    name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Returns the line of a manifest that names `dependency`; the first line if none does, because a
/// manifest may rename.
fn line_of_dependency(manifest: &str, dependency: &str) -> usize {
    let names = |line: &str| {
        let rest = line.trim_start().strip_prefix(dependency);
        rest.is_some_and(|rest| rest.starts_with([' ', '.', '=']))
            || line.ends_with(&format!("dependencies.{dependency}]"))
    };
    manifest.lines().position(names).map_or(1, |line_idx| line_idx + 1)
}

/// Checks a target: STYLE 49 for an integration test, STYLE section 4 for a crate root.
fn target_finding(target: &Target, tree: &Tree) -> Option<Finding> {
    let path = target.source.as_str();
    let name = crate_of(path).unwrap_or_default();
    match target.kind {
        TargetKind::Other => None,
        TargetKind::IntegrationTest => {
            let is_slt = path == "crates/tidegate/tests/slt.rs";
            let what = "a further test binary: a crate has one, tests/it/main.rs (STYLE 49)";
            (!is_slt && !path.ends_with("/tests/it/main.rs")).then(|| Finding::new(path, 1, what))
        }
        TargetKind::Root => {
            let header = header(&mask(tree.text(path)?));
            let missing: Vec<&str> = ROOT_ATTRIBUTES
                .iter()
                .filter(|(attribute, crates)| crates.contains(&name) && !header.contains(attribute))
                .map(|(attribute, _)| *attribute)
                .collect();
            let what = format!("a crate root without {} (STYLE section 4)", missing.join(", "));
            (!missing.is_empty()).then(|| Finding::new(path, 1, what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the real table, not a sample: the parser must understand its words.
    fn rows() -> Vec<Row> {
        parse_table(include_str!("../../../STYLE.md")).unwrap()
    }

    #[test]
    fn the_table_of_the_guide_points_down() {
        assert_eq!(table_findings(&rows()), []);
        assert_eq!(rows().len(), 13);
    }

    #[test]
    fn a_crate_may_name_what_it_reaches() {
        check_reached("model", "");
        check_reached("storage", "model platform");
        check_reached("query", "filter model platform storage");
        check_reached("server", "filter ingest model platform query storage");
        check_reached("bench", "");
        let all = "cluster filter ingest lake load model platform query server storage";
        check_reached("tidegate", all);
    }

    #[test]
    fn a_crate_beside_the_stack_is_below_no_other() {
        let row = |level, name, uses| format!("| {level} | {name} | words | {uses} | none |\n");
        let rows =
            [row("2", "top", "all, bench"), row("1", "base", "none"), row("-", "bench", "none")];
        let table = format!("{TABLE_OPENING} what | uses | doors |\n|---|\n{}", rows.concat());
        let findings = table_findings(&parse_table(&table).unwrap());
        let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert_eq!(lines, ["STYLE.md:3: top may use bench, which is not below it"]);
    }

    #[test]
    fn the_program_links_no_benchmark() {
        check_dependencies(
            "tidegate",
            "tidegate-server tidegate-bench",
            "crates/tidegate/Cargo.toml:1: tidegate may not use bench (STYLE section 6)",
        );
    }

    #[test]
    fn only_means_no_further() {
        check_reached("load", "ingest model");
    }

    #[test]
    fn an_arrow_sideways_or_up_is_a_finding() {
        check_dependencies("query", "tidegate-model tidegate-platform tidegate-filter", "");
        check_dependencies(
            "query",
            "tidegate-ingest",
            "crates/query/Cargo.toml:1: query may not use ingest (STYLE section 6)",
        );
        check_dependencies(
            "model",
            "tidegate-storage",
            "crates/model/Cargo.toml:1: model may not use storage (STYLE section 6)",
        );
        check_dependencies(
            "load",
            "tidegate-model tidegate-ingest tidegate-storage",
            "crates/load/Cargo.toml:1: load may not use storage (STYLE section 6)",
        );
    }

    #[test]
    fn a_door_is_open_where_the_table_names_it() {
        check_dependencies("query", "datafusion datafusion-sql tokio tokio-util thiserror", "");
        check_dependencies("platform", "io-uring libc", "");
        check_dependencies(
            "storage",
            "tokio-util",
            "crates/storage/Cargo.toml:1: the door to tokio-util is closed to storage \
             (STYLE section 6)",
        );
        check_dependencies(
            "server",
            "datafusion-sql",
            "crates/server/Cargo.toml:1: the door to datafusion-sql is closed to server \
             (STYLE section 6)",
        );
    }

    #[test]
    fn arrow_is_open_where_arrays_are_handled() {
        for name in ["storage", "ingest", "query", "server", "load", "tidegate", "bench"] {
            check_dependencies(name, "arrow arrow-array", "");
        }
        check_dependencies("model", "arrow-schema arrow-buffer", "");
        for name in ["platform", "filter"] {
            let expected = format!(
                "crates/{name}/Cargo.toml:1: the door to arrow-schema is closed to {name} \
                 (STYLE section 6)"
            );
            check_dependencies(name, "arrow-schema", &expected);
        }
        check_dependencies(
            "model",
            "arrow",
            "crates/model/Cargo.toml:1: the door to arrow is closed to model (STYLE section 6)",
        );
    }

    #[test]
    fn a_crate_outside_of_the_table_is_a_finding() {
        let of = |name: &str, manifest: &str| Package {
            name: name.to_owned(),
            manifest: manifest.to_owned(),
            dependencies: vec![],
            targets: vec![],
        };
        let check = |package: Package, expected: &str| {
            let actual = dependency_findings(&rows(), &package, "");
            assert_eq!(actual.iter().map(Finding::to_string).collect::<String>(), expected);
        };
        check(of("xtask", "xtask/Cargo.toml"), "");
        check(
            of("tidegate-common", "crates/common/Cargo.toml"),
            "crates/common/Cargo.toml:1: `tidegate-common` is not in the table of STYLE section 6",
        );
        check(
            of("tidegate-model", "crates/vocabulary/Cargo.toml"),
            "crates/vocabulary/Cargo.toml:1: `tidegate-model` is not in the table of STYLE \
             section 6",
        );
    }

    #[test]
    fn a_table_that_contradicts_itself_is_a_finding() {
        let style = "| level | crate | what it is | may use of ours | heavy |\n\
                     |---|---|---|---|---|\n\
                     | 2 | storage | a | query, model | none |\n| 3 | query | b | none | none |\n\
                     | 1 | model | c | none | none |\n\nEnd.\n";
        let findings = table_findings(&parse_table(style).unwrap());
        let expected = "STYLE.md:3: storage may use query, which is not below it";
        assert_eq!(findings.iter().map(Finding::to_string).collect::<String>(), expected);
    }

    #[test]
    fn a_table_that_cannot_be_read_is_a_finding() {
        let check = |style: &str, expected: &str| {
            assert_eq!(parse_table(style).unwrap_err().to_string(), expected);
        };
        check("", "STYLE.md:1: has no table that opens with `| level | crate |`");
        check(
            "\n| level | crate |\n|---|---|\n| 1 | model |\n",
            "STYLE.md:4: a row of 2 cells in the table of crates, not of 5",
        );
    }

    #[test]
    fn reasons_in_brackets_are_no_doors() {
        let check = |cell: &str, expected: &[&str]| {
            let doors = parse_doors(cell);
            assert_eq!(doors.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{cell}");
        };
        check("none", &[]);
        check("tokio", &["tokio"]);
        check("datafusion, parquet (Delta export)", &["datafusion", "parquet"]);
        check("parquet (cold, old), tokio", &["parquet", "tokio"]);
    }

    #[test]
    fn a_finding_points_at_the_line_of_the_dependency() {
        let manifest = "[dependencies]\ntokio-util = \"1\"\ntokio.workspace = true\n\
                        [dev-dependencies.parquet]\nversion = \"59\"\n";
        for (dependency, line) in [("tokio", 3), ("tokio-util", 2), ("parquet", 4), ("arrow", 1)] {
            assert_eq!(line_of_dependency(manifest, dependency), line, "{dependency}");
        }
    }

    #[test]
    fn a_crate_has_one_test_binary() {
        let test = TargetKind::IntegrationTest;
        check_target(test, "crates/storage/tests/it/main.rs", "", "");
        check_target(test, "crates/tidegate/tests/slt.rs", "", "");
        let bad = "a further test binary: a crate has one, tests/it/main.rs (STYLE 49)";
        check_target(test, "crates/storage/tests/slt.rs", "", bad);
        check_target(test, "crates/storage/tests/crash.rs", "", bad);
        check_target(TargetKind::Other, "crates/storage/benches/seal.rs", "", "");
    }

    #[test]
    fn a_crate_root_has_its_attributes() {
        let root = TargetKind::Root;
        let forbids = "//! A.\n#![forbid(unsafe_code)]\n";
        check_target(root, "crates/query/src/lib.rs", forbids, "");
        check_target(root, "crates/ingest/src/lib.rs", "//! A.\n", "");
        check_target(
            root,
            "crates/query/src/lib.rs",
            "//! A: #![forbid(unsafe_code)]\n",
            "a crate root without #![forbid(unsafe_code)] (STYLE section 4)",
        );
        check_target(
            root,
            "crates/model/src/lib.rs",
            "//! A.\n",
            "a crate root without #![forbid(unsafe_code)], #![warn(missing_docs)] \
             (STYLE section 4)",
        );
    }

    #[track_caller]
    fn check_reached(name: &str, expected: &str) {
        let rows = rows();
        let row = rows.iter().find(|row| row.name == name).unwrap();
        let actual: Vec<&str> = reached(&rows, row).into_iter().collect();
        assert_eq!(actual.join(" "), expected, "{name}");
    }

    #[track_caller]
    fn check_dependencies(name: &str, dependencies: &str, expected: &str) {
        let package = Package {
            name: package_name(name),
            manifest: format!("crates/{name}/Cargo.toml"),
            dependencies: dependencies.split(' ').map(str::to_owned).collect(),
            targets: vec![],
        };
        let findings = dependency_findings(&rows(), &package, "");
        let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert_eq!(lines.join("\n"), expected, "{name}: {dependencies}");
    }

    #[track_caller]
    fn check_target(kind: TargetKind, source: &str, text: &str, expected: &str) {
        let tree = Tree::of(&[(source, text)]);
        let finding = target_finding(&Target { kind, source: source.to_owned() }, &tree);
        assert_eq!(finding.map(|finding| finding.what).unwrap_or_default(), expected, "{source}");
    }
}
