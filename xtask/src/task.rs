//! The command line of `cargo xtask`: parses the name of a task and its arguments.
//!
//! It is parsed by hand: clap would make `cargo xtask` slower to build and to start.

use crate::error::{Error, Result};

/// Output of `cargo xtask help`.
pub(crate) const USAGE: &str = "\
Usage: cargo xtask <task>

  check                     everything that must pass before a commit: fmt, clippy, test, docs
  tidy                      the rules of STYLE.md that no compiler knows (a part of test)
  modules [NAME]            the index of modules: files whose path contains NAME, each with the
                            first sentence of its header
  slt [--complete] [NAME]   the SQL tests (a part of test), those whose name contains NAME;
                            --complete writes what was answered into the files, for review
  console                   builds the console, for the next build of the server to embed; needs
                            npm and the network
  deny                      licences, yanked and double crates; needs cargo-deny and the network
  help                      this text
";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Check,
    Tidy,
    /// The index of modules, or of those whose path contains the name.
    Modules(Option<String>),
    Slt(Slt),
    Console,
    Deny,
    Help,
}

/// The selection of SQL tests, and whether their expectations are checked or rewritten.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Slt {
    pub(crate) expectations: Expectations,
    pub(crate) name: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expectations {
    Compare,
    Rewrite,
}

impl Task {
    /// Parses the words after `cargo xtask`; no word at all asks for help.
    pub(crate) fn parse(args: &[String]) -> Result<Task> {
        let Some((word, rest)) = args.split_first() else { return Ok(Task::Help) };
        match word.as_str() {
            "check" => alone("check", rest, Task::Check),
            "tidy" => alone("tidy", rest, Task::Tidy),
            "modules" => match rest {
                [name, rest @ ..] => alone("modules", rest, Task::Modules(Some(name.clone()))),
                [] => Ok(Task::Modules(None)),
            },
            "slt" => Ok(Task::Slt(parse_slt(rest)?)),
            "console" => alone("console", rest, Task::Console),
            "deny" => alone("deny", rest, Task::Deny),
            "help" | "--help" | "-h" => Ok(Task::Help),
            _ => Err(Error::UnknownTask { given: word.clone() }),
        }
    }
}

fn alone(name: &'static str, rest: &[String], task: Task) -> Result<Task> {
    match rest.first() {
        None => Ok(task),
        Some(argument) => Err(Error::UnexpectedArgument { task: name, argument: argument.clone() }),
    }
}

fn parse_slt(args: &[String]) -> Result<Slt> {
    let mut slt = Slt { expectations: Expectations::Compare, name: None };
    for argument in args {
        match argument.as_str() {
            "--complete" => slt.expectations = Expectations::Rewrite,
            name if !name.starts_with('-') && slt.name.is_none() => {
                slt.name = Some(name.to_owned());
            }
            _ => {
                return Err(Error::UnexpectedArgument { task: "slt", argument: argument.clone() });
            }
        }
    }
    Ok(slt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_its_word() {
        check("check", Ok(Task::Check));
        check("tidy", Ok(Task::Tidy));
        check("modules", Ok(Task::Modules(None)));
        check("modules wal", Ok(Task::Modules(Some("wal".to_owned()))));
        check("console", Ok(Task::Console));
        check("deny", Ok(Task::Deny));
        check("help", Ok(Task::Help));
        check("", Ok(Task::Help));
    }

    #[test]
    fn slt_takes_a_name_and_complete_in_any_order() {
        let slt = |expectations, name: Option<&str>| {
            Ok(Task::Slt(Slt { expectations, name: name.map(str::to_owned) }))
        };
        check("slt", slt(Expectations::Compare, None));
        check("slt --complete", slt(Expectations::Rewrite, None));
        check("slt pruning --complete", slt(Expectations::Rewrite, Some("pruning")));
        check("slt --complete pruning", slt(Expectations::Rewrite, Some("pruning")));
    }

    #[test]
    fn unknown_tasks_are_named() {
        check("chekc", Err("no task `chekc`: `cargo xtask help` lists them"));
        check("tidy all", Err("`all` is no argument of `tidy`: see `cargo xtask help`"));
        check("slt a b", Err("`b` is no argument of `slt`: see `cargo xtask help`"));
        check("slt --all", Err("`--all` is no argument of `slt`: see `cargo xtask help`"));
    }

    #[test]
    fn help_names_every_task() {
        for word in ["check", "tidy", "modules", "slt", "console", "deny", "help"] {
            assert!(USAGE.contains(&format!("\n  {word} ")), "{word}");
        }
    }

    #[track_caller]
    fn check(line: &str, expected: std::result::Result<Task, &str>) {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let actual = Task::parse(&args).map_err(|error| error.to_string());
        assert_eq!(actual, expected.map_err(str::to_owned), "{line}");
    }
}
