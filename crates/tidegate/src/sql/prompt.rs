//! The prompt of `tidegate sql`: a line editor with history and completion around `sql::Runner`.
//!
//! - prompt-1. A statement runs when its `;` is there; until then a line end is just a line end.
//! - prompt-2. Ctrl-C ends the present input or the running statement, and never the prompt; Ctrl-D
//!   ends the prompt.
//! - prompt-3. An error is shown, and the prompt comes back.
//!
//! Not here: running statements (`sql`), and listing tables (`inspect`).

mod input;
mod names;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};
use signal_hook::consts::SIGINT;

use self::input::{Line, Typist, parse_line};
use super::{Runner, Script, outcome_line, print, target};
use crate::environment::stdout_columns;
use crate::error::{Error, Exit, Result, sentence};
use crate::output::{Form, Format, Layout, Target};
use crate::session::Session;
use crate::{inspect, tell};

const PROMPT: &str = "tidegate> ";
/// Most entries of the history: enough to find old statements, in a file that stays small.
const HISTORY_MAX: usize = 5_000;

/// Query for the tables of a server.
const TABLES: &str = "SELECT table_name AS \"table\", table_row_count AS rows, \
    disk_size AS bytes, table_min_timestamp AS first, table_max_timestamp AS last \
    FROM tables() ORDER BY table_name";

const HELP: &str = "\
Statements end with ; and can span lines. Ctrl-C cancels a statement, Ctrl-D ends the prompt.
  \\dt         list the tables
  \\d TABLE    show the columns of a table and how they are stored
  \\timing     turn the time of each statement on or off
  \\?          this help
  \\q          quit
";

/// State of the prompt between statements.
struct Prompt<'a> {
    runner: &'a Runner,
    form: Form,
    output: Option<&'a Path>,
    interrupted: Arc<AtomicBool>,
    shows_times: bool,
}

/// Action after a line.
#[derive(PartialEq, Eq)]
enum Next {
    Read,
    Quit,
}

pub(crate) fn run(
    runner: &Runner,
    form: Form,
    output: Option<&Path>,
    session: &Session,
) -> Result<Exit> {
    let interrupted = Arc::new(AtomicBool::new(false));
    // SIGINT only sets the flag: a second Ctrl-C must not end the prompt (prompt-2). SIGTERM still
    // does.
    signal_hook::flag::register(SIGINT, Arc::clone(&interrupted))
        .map_err(|source| Error::Threads { source })?;
    let mut prompt = Prompt { runner, form, output, interrupted, shows_times: true };
    let history = history_file(session);
    let mut editor = editor(runner, history.as_deref())?;
    let version = env!("CARGO_PKG_VERSION");
    let place = match runner.server() {
        Some(server) => format!("server {}", server.place()),
        None => format!("database {}", session.db.display()),
    };
    print(&format!("tidegate {version}, {place}; \\? for help, \\q to quit\n"))?;
    loop {
        match editor.readline(PROMPT) {
            Ok(line) => {
                if line.trim().is_empty() {
                    continue;
                }
                // A failure to keep the line in the history is ignored.
                let _ = editor.add_history_entry(line.as_str());
                if prompt.obey(&line)? == Next::Quit {
                    break;
                }
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(source) => return Err(Error::Prompt { source }),
        }
    }
    if let Some(file) = history {
        // The statements are done; a failure to save their history is ignored.
        let _ = editor.save_history(&file);
    }
    Ok(Exit::Done)
}

fn editor<'a>(
    runner: &'a Runner,
    history: Option<&Path>,
) -> Result<Editor<Typist<'a>, FileHistory>> {
    let prompt_error = |source| Error::Prompt { source };
    let config = Config::builder()
        .max_history_size(HISTORY_MAX)
        .map_err(prompt_error)?
        .history_ignore_space(true)
        .completion_type(CompletionType::List)
        .build();
    let mut editor = Editor::with_config(config).map_err(prompt_error)?;
    editor.set_helper(Some(Typist::new(runner)));
    if let Some(file) = history {
        // The file does not exist before the first use.
        let _ = editor.load_history(file);
    }
    Ok(editor)
}

/// Returns the history file in the user's state directory; `None` if there is no such directory or
/// it cannot be created.
fn history_file(session: &Session) -> Option<PathBuf> {
    let dir = session.environment.state_dir.as_ref()?.join("tidegate");
    session.disk.create_dir_all(&dir).ok()?;
    Some(dir.join("history"))
}

impl Prompt<'_> {
    /// Executes a line, and shows its error if it fails (prompt-3).
    fn obey(&mut self, line: &str) -> Result<Next> {
        self.interrupted.store(false, Relaxed);
        let done = match parse_line(line) {
            Line::Quit => return Ok(Next::Quit),
            Line::Help => print(HELP),
            Line::Timing => {
                self.shows_times = !self.shows_times;
                let state = if self.shows_times { "on" } else { "off" };
                print(&format!("timing is {state}\n"))
            }
            Line::Tables => self.tables(),
            Line::Describe(table) => self.describe(table),
            Line::Unknown(word) => {
                tell(&format!("{word} is not a command; \\? lists the commands"));
                Ok(())
            }
            Line::Statements => self.statements(line),
        };
        if let Err(error) = done {
            tell(&format!("error: {}", sentence(&error)));
        }
        Ok(Next::Read)
    }

    /// Returns the format for the next result, with the present width of the terminal.
    fn form(&self) -> Form {
        match self.form.layout {
            Layout::Terminal { .. } => {
                Form { layout: Layout::Terminal { columns: stdout_columns() }, ..self.form }
            }
            Layout::Plain => self.form,
        }
    }

    fn tables(&self) -> Result<()> {
        match self.runner.database() {
            Some(database) => {
                self.show(|form, target| inspect::list_tables(database, form, target))
            }
            None => self.list(TABLES),
        }
    }

    fn describe(&self, table: &str) -> Result<()> {
        match self.runner.database() {
            Some(database) => {
                self.show(|form, target| inspect::show_table(database, table, form, target))
            }
            None => self.list(&format!("SHOW COLUMNS FROM \"{}\"", table.replace('"', "\"\""))),
        }
    }

    fn show(&self, list: impl FnOnce(Form, &mut Target) -> Result<()>) -> Result<()> {
        let form = Form { format: Format::Table, ..self.form() };
        let mut target = Target::stdout();
        list(form, &mut target)?;
        finish(target)
    }

    /// Shows a list that a server computes.
    fn list(&self, sql: &str) -> Result<()> {
        self.show(|form, target| {
            self.runner.run(sql, form, target, &self.interrupted, &mut 0).map(|_| ())
        })
    }

    fn statements(&self, text: &str) -> Result<()> {
        let script = Script::new(text.to_owned(), None);
        let mut target = target(self.output)?;
        let mut results = 0;
        for statement in script.statements() {
            let form = self.form();
            let outcome =
                self.runner.run(&statement, form, &mut target, &self.interrupted, &mut results)?;
            for notice in &outcome.notices {
                tell(&format!("notice: {notice}"));
            }
            if self.shows_times || outcome.tag.is_some() {
                print(&format!("{}\n", outcome_line(&outcome)))?;
            }
        }
        finish(target)
    }
}

fn finish(target: Target) -> Result<()> {
    let place = target.place().to_owned();
    target.finish().map_err(|error| Error::Output { place, source: error.into() })
}
