//! The examples of README.md and docs/: each is run, or is listed below with the reason why it is
//! not.
//!
//! SQL with its results is in `tests/slt/docs.slt`, word by word; command lines run here.

use std::fs;
use std::path::{Path, PathBuf};

use super::server::Server;
use crate::world::World;

/// Prefixes of command lines and blocks of SQL that are not run here, with the reasons.
const NOT_RUN: [(&str, &str); 23] = [
    ("cargo ", "it builds the program; .ci/run does"),
    ("tidegate serve", "servers of these tests have ports of their own"),
    ("PGPASSWORD=", "postgres::peers runs psql"),
    ("export TIDEGATE_URL=", "TLS has its own test: tls"),
    ("tidegate sql --url ", "it asks for a password; remote has its own test"),
    ("tidegate sql \"SELECT * FROM cpu\" --format parquet", "remote has its own test"),
    ("tidegate user passwd", "it asks for a password on a terminal; see user.rs"),
    ("tidegate user add", "the same"),
    ("tidegate user list", "the same"),
    ("tidegate user remove", "the same"),
    ("SELECT ts, peer, table_name", "serve::tcp reads what was refused"),
    ("python3 -m venv", "it installs clients; .ci/run does"),
    ("~/.cache/tidegate-peers/", "the same"),
    ("mvn ", "the same"),
    ("cp ~/.m2/", "the same"),
    ("npm install", "the same"),
    ("mkdir -p ~/.cache/", "the same"),
    ("tidegate-bench ", "the bench crate tests it, and loads take long"),
    ("tidegate bench ", "it measures, and takes long"),
    ("perf ", "the same"),
    ("tidegate --db bench-db ", "it is about 74 GB of rows"),
    ("python crates/tidegate/tests/", "it compares speeds, and takes long"),
    ("COPY ", "serve::files imports, exports and cancels with it"),
];

/// A fenced block.
struct Block {
    file: String,
    language: String,
    text: String,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn blocks() -> Vec<Block> {
    let mut files = vec![repository().join("README.md")];
    let folder = fs::read_dir(repository().join("docs")).expect("docs");
    files.extend(folder.flatten().map(|entry| entry.path()));
    files.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    files.sort();
    let mut blocks = Vec::new();
    for path in files {
        let file = path.file_name().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).expect("a text");
        for (at, part) in text.split("\n```").enumerate().filter(|(at, _)| at % 2 == 1) {
            let (language, text) = part.split_once('\n').expect("a block has lines");
            assert!(!language.contains(' '), "{file}: block {at}");
            let (language, text) = (language.to_owned(), text.to_owned());
            blocks.push(Block { file: file.clone(), language, text });
        }
    }
    blocks
}

fn is_run(example: &str) -> bool {
    !NOT_RUN.iter().any(|(start, _)| example.starts_with(start))
}

/// Returns the statements of a block of SQL, each in one line.
fn statements(text: &str) -> Vec<String> {
    let code = |line: &str| line.split("--").next().unwrap_or_default().to_owned();
    let code = text.lines().map(code).collect::<Vec<_>>().join("\n");
    code.split(';').map(in_one_line).filter(|statement| !statement.is_empty()).collect()
}

fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the command lines of the documentation that are run.
fn command_lines(file: &str) -> Vec<String> {
    let shell = blocks().into_iter().filter(|it| it.file == file && it.language == "sh");
    let lines = shell.flat_map(|it| it.text.lines().map(str::to_owned).collect::<Vec<_>>());
    lines.filter(|line| !line.is_empty() && is_run(line)).collect()
}

#[test]
fn sql_of_the_documentation_is_run() {
    let slt = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt/docs.slt");
    let slt = fs::read_to_string(slt).expect("a text");
    let code = slt.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    let records = code.split("\n\n").map(|record| {
        let sql = record.trim_start().split_once('\n').unwrap_or_default().1;
        statements(sql.split("\n----").next().unwrap_or_default()).concat()
    });
    let records = records.collect::<Vec<_>>();
    let mut count = 0;
    for Block { file, text, .. } in blocks().into_iter().filter(|it| it.language == "sql") {
        for statement in statements(&text).into_iter().filter(|it| is_run(it)) {
            let is_there = records.contains(&statement);
            assert!(is_there, "{file}: tests/slt/docs.slt has not: {statement}");
            count += 1;
        }
    }
    assert!(30 < count, "{count} examples");
    let docs = fs::read_to_string(repository().join("docs/sql.md")).expect("a text");
    for says in slt.lines().filter_map(|line| line.strip_prefix("# says: ")) {
        assert!(docs.contains(says), "docs/sql.md does not say any more: {says}");
    }
}

/// Writes the files that the examples read.
fn files(world: &World) {
    world.file("hits.csv", "EventTime,URL,region\n2013-07-15T10:00:00,a,eu\n2013-07-16,b,us\n");
    world.file("log.sql", "CREATE TABLE log (ts TIMESTAMP, text VARCHAR) TIMESTAMP(ts)");
    world.file("log-1.csv", "ts,text\n2025-01-01,a\n");
    world.file("a.csv", "x,y\n1,2\n");
    let trips = "SELECT CAST(1000000 AS TIMESTAMP) AS pickup, 'v' AS vendor, 'z' AS zone";
    world.run(&["sql", trips, "--format", "parquet", "--output", "trips.parquet"]).succeeds();
}

/// Runs a command line, in which `tidegate` is the program.
fn run(world: &World, line: &str) -> String {
    let before = format!("tidegate() {{ \"$0\" --db db \"$@\"; }}; set -e; {line}\n exit 0");
    let output = world.command_after(&before, &[]).output().expect("it runs");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {stdout}{stderr}");
    stdout
}

#[test]
fn commands_of_the_documentation_run() {
    let world = World::new();
    files(&world);
    run(&world, "gzip log-1.csv");
    let mut found = String::new();
    for file in ["README.md", "import.md"] {
        for line in command_lines(file).iter().filter(|line| !line.starts_with("curl -")) {
            found.push_str(&run(&world, line));
        }
    }
    // One row has the day that the README asks for.
    assert!(found.contains("count") && found.contains('1'), "{found}");
    assert!(command_lines("import.md").iter().any(|it| it.starts_with("curl -s http://example")));
    run(&world, "cat a.csv | tidegate import - --table a");
    let tables = run(&world, "tidegate tables");
    for table in ["hits", "log", "trips", "a"] {
        assert!(tables.contains(table), "{tables}");
    }
    let here = ["README.md", "import.md", "copy.md", "server.md"];
    for block in blocks().iter().filter(|it| it.language == "sh") {
        let is_known =
            |line: &str| line.is_empty() || !is_run(line) || here.contains(&block.file.as_str());
        let unknown = block.text.lines().find(|line| !is_known(line));
        assert_eq!(unknown, None, "{}: it is neither run nor listed", block.file);
    }
}

#[test]
fn requests_of_the_documentation_run() {
    let world = World::new();
    files(&world);
    let server = Server::start(&world);
    let here = format!("127.0.0.1:{}", server.http.port());
    let mut answers = String::new();
    for file in ["README.md", "server.md", "copy.md"] {
        for line in command_lines(file).iter().filter(|line| line.starts_with("curl ")) {
            let line = line.replace("127.0.0.1:9000", &here).replace("localhost:9000", &here);
            let line = line.replacen("curl ", "curl -s --fail ", 1);
            answers.push_str(&run(&world, line.trim_end_matches(" &")));
        }
    }
    assert!(answers.contains("\"usage\"") && answers.contains("0.5"), "{answers}");
    assert!(world.text("hits.csv").contains("EventTime"), "/exp answered");
    server.stop();
}
