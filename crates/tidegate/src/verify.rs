//! `tidegate verify`: reads and checks every byte of a database.
//!
//! It does not open the database, and writes nothing unless a damaged log is to be repaired. It
//! lists the problems on standard output, a line each, and the exit code says whether there were
//! some.

use std::cell::RefCell;
use std::io::{self, Write};

use tidegate_storage::{
    Corruption, Error as StorageError, LogRepair, LostCommits, VerifyReport, VerifyStep,
    clear_unused_log, repair_log, verify_offline,
};

use crate::args::VerifyArguments;
use crate::environment::stderr_columns;
use crate::error::{Error, Exit, Result, sentence};
use crate::output::printable;
use crate::session::Session;
use crate::sql;
use crate::text::{bytes, counted, elapsed};

/// Shortest time between two updates of the line.
const REDRAW_NANOS: u64 = 150_000_000;

pub(crate) fn run(arguments: &VerifyArguments, session: &Session) -> Result<Exit> {
    if !session.has_database()? {
        return Err(Error::NoDatabase { dir: session.db.clone() });
    }
    if arguments.repair {
        let is_repaired = repair(session)?;
        let cleared = clear_unused_log(&session.disk, &session.db)?;
        if !is_repaired && cleared.is_empty() {
            sql::print("the log is not damaged: nothing was repaired\n")?;
        }
        for damage in &cleared {
            sql::print(&format!("{}\n", printable(&sentence(damage))))?;
        }
        if !cleared.is_empty() {
            let places = counted(cleared.len() as u64, "place");
            sql::print(&format!("unused bytes of the log were set to zero: {places}\n"))?;
        }
    }
    let start = session.clock.monotonic_nanos();
    let line = RefCell::new(ProgressLine::default());
    let show = |step: &VerifyStep<'_>| {
        if session.environment.stderr_is_terminal {
            line.borrow_mut().draw(step, session.clock.monotonic_nanos());
        }
    };
    let report = verify_offline(&session.disk, &session.db, &show);
    line.borrow_mut().clear();
    let report = report?;
    let nanos = session.clock.monotonic_nanos() - start;
    for problem in &report.problems {
        sql::print(&format!("{}\n", printable(&sentence(problem))))?;
    }
    if report.problems.iter().any(is_of_log) {
        list_lost(&report.lost, "a repair gives up")?;
    }
    if let Some(torn) = &report.torn {
        sql::print(&format!("note: {}\n", printable(&torn.to_string())))?;
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

/// Repairs a damaged log by ending it at the damage, and reports the commits that are lost. Returns
/// false if opening does not refuse it.
fn repair(session: &Session) -> Result<bool> {
    let Some(LogRepair { damage, lost, dropped, saved_files }) =
        repair_log(&session.disk, &session.db)?
    else {
        return Ok(false);
    };
    sql::print(&format!("{}\n", printable(&sentence(&damage))))?;
    sql::print("the log was ended at the damage, and continues with the records after it\n")?;
    list_lost(&lost, "given up")?;
    for table in dropped {
        sql::print(&format!(
            "table {}: dropped, its manifest or its files are gone\n",
            printable(&table)
        ))?;
    }
    for path in saved_files {
        sql::print(&format!(
            "the bytes that were given up are in {}\n",
            printable(&path.display().to_string())
        ))?;
    }
    Ok(true)
}

/// Lists the commits that a repair of the log would lose, or has lost.
fn list_lost(lost: &[LostCommits], what: &str) -> Result<()> {
    for LostCommits { table, name, first, last } in lost {
        let table = name.clone().unwrap_or_else(|| format!("#{table}"));
        let commits = match first == last {
            true => format!("commit {first}"),
            false => format!("commits {first} to {last}"),
        };
        sql::print(&format!("{what}: {commits} of table {}\n", printable(&table)))?;
    }
    if lost.is_empty() {
        sql::print(&format!("{what}: no known commit\n"))?;
    }
    Ok(())
}

/// Returns true if a repair of the log removes the problem.
fn is_of_log(problem: &StorageError) -> bool {
    use Corruption::{CutLog, DamagedGroup, DamagedLogHeader, DurableGroup, NotZero};
    let StorageError::Corrupt { what, .. } = problem else { return false };
    let is_group = matches!(what, DurableGroup | DamagedGroup { .. } | NotZero);
    is_group || matches!(what, DamagedLogHeader { .. } | CutLog { .. })
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

/// The progress line on a terminal, removed at the end.
#[derive(Default)]
struct ProgressLine {
    drawn_nanos: Option<u64>,
}

impl ProgressLine {
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

/// Writes to standard error, and ignores errors: its reader may have closed it.
fn print(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
