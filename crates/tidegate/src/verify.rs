//! `tidegate verify`: every byte of the database is read and checked.
//!
//! Opening already checks the log and the checkpoints; where it fails, the files are read one by
//! one all the same. What is found is listed on standard output, a line each, and the exit code
//! says that there was something.

use std::cell::RefCell;
use std::io::{self, Write};

use tidegate_storage::{Error as StorageError, VerifyReport, VerifyStep, survey};

use crate::environment::stderr_columns;
use crate::error::{Error, Exit, Result, sentence};
use crate::output::printable;
use crate::session::Session;
use crate::sql;
use crate::text::{bytes, counted, elapsed};

/// How often the line is redrawn at most.
const REDRAW_NANOS: u64 = 150_000_000;

pub(crate) fn run(session: &Session) -> Result<Exit> {
    let start = session.clock.monotonic_nanos();
    let line = RefCell::new(Line::default());
    let show = |step: &VerifyStep<'_>| {
        if session.environment.stderr_is_terminal {
            line.borrow_mut().draw(step, session.clock.monotonic_nanos());
        }
    };
    let report = match session.open_existing() {
        Ok(database) => database.verify(&show),
        Err(Error::Storage(damage @ StorageError::Corrupt { .. })) => {
            survey(&session.disk, &session.db, &show).map(|report| with_first(damage, report))
        }
        Err(error) => return Err(error),
    };
    line.borrow_mut().clear();
    let report = report?;
    let nanos = session.clock.monotonic_nanos() - start;
    for problem in &report.problems {
        sql::print(&format!("{}\n", printable(&sentence(problem))))?;
    }
    sql::print(&totals(&report, nanos))?;
    let count = counted(report.problems.len() as u64, "problem");
    let is_newer = |problem: &StorageError| matches!(problem, StorageError::NewerFormat { .. });
    match report.problems.as_slice() {
        [] => Ok(Exit::Done),
        problems if problems.iter().all(is_newer) => Err(Error::Newer { count }),
        _ => Err(Error::Problems { count }),
    }
}

/// Puts what kept the database from being opened before what else is damaged.
fn with_first(damage: StorageError, mut report: VerifyReport) -> VerifyReport {
    let first = damage.to_string();
    report.problems.retain(|problem| problem.to_string() != first);
    report.problems.insert(0, damage);
    report
}

fn totals(report: &VerifyReport, nanos: u64) -> String {
    let problems = match report.problems.len() as u64 {
        0 => "no problems".to_owned(),
        count => counted(count, "problem"),
    };
    format!(
        "{}, {}, {}, {} read in {}: {problems}\n",
        counted(report.tables, "table"),
        counted(report.segments, "segment"),
        counted(report.rows.0, "row"),
        bytes(report.bytes.0),
        elapsed(nanos),
    )
}

/// What is read now, on a terminal, and gone at the end.
#[derive(Default)]
struct Line {
    drawn_nanos: Option<u64>,
}

impl Line {
    fn draw(&mut self, step: &VerifyStep<'_>, now_nanos: u64) {
        if self.drawn_nanos.is_some_and(|drawn| now_nanos < drawn + REDRAW_NANOS) {
            return;
        }
        self.drawn_nanos = Some(now_nanos);
        let text = format!("segment {} of {}  table {}", step.done + 1, step.total, step.table);
        let room = stderr_columns().saturating_sub(1);
        let shown: String = printable(&text).chars().take(room).collect();
        print(&format!("\r{shown}\x1b[K"));
    }

    fn clear(&mut self) {
        if self.drawn_nanos.take().is_some() {
            print("\r\x1b[K");
        }
    }
}

/// Whoever closed stderr does not want to see it.
fn print(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
