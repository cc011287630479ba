//! Arguments, help, and the exit code of wrong use.

use std::process::Command;

use crate::command::process;

#[test]
fn help_and_version_go_to_standard_output() {
    let output = |flag: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_tidegate-bench")).arg(flag).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{flag}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(output("--help").contains("tidegate-bench tsbs load tidegate"));
    assert_eq!(output("--version"), format!("tidegate-bench {}\n", env!("CARGO_PKG_VERSION")));
    let help = process("load --help", b"");
    assert!(help.code == Some(0) && help.out.contains("--hash-workers"), "{}", help.out);
}

#[test]
fn wrong_use_is_exit_code_2_and_says_what_is_wrong() {
    for (line, expected) in [
        (
            "generate --format questdb --scale 0",
            "tidegate-bench: tsbs generate: --scale 0 makes no rows; it must be at least 1\n",
        ),
        ("load influx --protocol ilp-tcp", "tidegate-bench: tsbs load: "),
        ("load influx --protocol ilp-tcp", "ilp-http"),
        ("weather", "unrecognized subcommand 'weather'"),
    ] {
        let ended = process(line, b"");
        assert_eq!(ended.code, Some(2), "{line}: {}", ended.err);
        assert!(ended.err.contains(expected), "{line}: {}", ended.err);
        assert_eq!(ended.out, "", "{line}");
    }
}
