//! Arguments, help, and the exit codes of wrong use.

use crate::world::World;

#[test]
fn help_and_version_go_to_standard_output() {
    let world = World::new();
    let help = world.run(&["--help"]).succeeds();
    let words = ["import", "sql", "tables", "describe", "verify", "demo", "Exit codes"];
    for word in words.into_iter().chain(["--db"]) {
        assert!(help.contains(word), "{word}: {help}");
    }
    let help = world.run(&["import", "--help"]).succeeds();
    assert!(help.contains("Examples:") && help.contains("--on-error"), "{help}");
    let version = world.run(&["--version"]).succeeds();
    assert_eq!(version, format!("tidegate {}\n", env!("CARGO_PKG_VERSION")));
    assert!(!world.path("db").exists(), "looking makes no database");
}

#[test]
fn wrong_use_is_exit_code_2_and_says_what_is_wrong() {
    let world = World::new();
    for (line, expected) in [
        ("imprt x", "import"),
        ("import x.csv", "--table"),
        ("import x.csv --table t --memory lots", "512MiB"),
        ("import x.csv --table t --partition-by decade", "month"),
        ("import x.csv --table t --timestamp-format yyyyy'", "timestamp format"),
        ("import x.csv --table t --timestamp-format epoch", "epoch_s, epoch_ms"),
        ("demo --rows 0", "--rows"),
        ("sql --repeat 3 x", "--timings"),
        ("tables --format parquet", "parquet"),
        ("import - x.csv --table t", "standard input"),
    ] {
        let run = world.run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(run.code, Some(2), "{line}: {}", run.stderr);
        assert!(run.stderr.contains(expected), "{line}: {}", run.stderr);
        assert_eq!(run.stdout, "", "{line}");
    }
}

#[test]
fn commands_that_only_look_make_no_database() {
    let world = World::new();
    for line in [&["tables"][..], &["describe", "t"], &["verify"]] {
        world.run(line).fails(1, &["no database in db"]);
        assert!(!world.path("db").exists());
    }
}

#[test]
fn the_environment_names_the_database_and_the_command_line_wins() {
    let world = World::new();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let made = command
        .args(["sql", "CREATE TABLE t (a INT)"])
        .current_dir(world.path(""))
        .env("TIDEGATE_DB", "from-env")
        .status();
    assert!(made.expect("runs").success());
    assert!(world.path("from-env").is_dir());
    assert!(!world.path("tidegate-data").exists());
    let mut command = world.command(&["tables"]);
    let output = command.env("TIDEGATE_DB", "from-env").output().expect("runs");
    assert_eq!(output.status.code(), Some(1), "--db db is another one");
}
