//! `tidegate bench roofline`: the best throughput and latency of this machine, measured in one
//! process, so that imports and queries can be given as a ratio to it.
//!
//! - bench-1. Memory is written before it is measured, and files are as large as they are asked to
//!   be: neither fresh pages nor sparse blocks are ever counted.
//! - bench-2. A figure is the best of `ROUNDS`, because a disturbance only ever makes a run slower.
//!
//! The loops come from `filter::roofline` and `ingest::index`, the disk comes through `platform`;
//! buffers, threads and the clock belong to this module. docs/benchmarks.md explains the figures.

mod figure;
mod memory;
mod disk;

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tidegate_filter::SimdLevel;
use tidegate_ingest::index::Kernel;
use tidegate_model::ByteCount;
use tidegate_platform::{Clock, IoMode, detect_io};

use self::figure::{Figure, as_json, as_table};
use crate::args::RooflineArguments;
use crate::error::{Error, Exit, Result};
use crate::session::Session;
use crate::{sql, tell};

/// Number of runs of each loop (bench-2).
const ROUNDS: usize = 5;

/// The state that every measurement needs: clock, threads, and the figures so far.
struct Bench<'a> {
    clock: &'a dyn Clock,
    interrupted: &'a AtomicBool,
    threads: NonZeroUsize,
    shows_progress: bool,
    figures: Vec<Figure>,
}

pub(crate) fn roofline(arguments: &RooflineArguments, session: &Session) -> Result<Exit> {
    let interrupted = session.catch_interrupts();
    let mut bench = Bench {
        clock: session.clock.as_ref(),
        interrupted: &interrupted,
        threads: arguments.threads.unwrap_or(session.environment.cores),
        shows_progress: session.environment.stderr_is_terminal,
        figures: Vec::new(),
    };
    let io = detect_io(IoMode::Auto).map_err(Error::disk("look for io_uring"))?;
    memory::measure(&mut bench, usize_of(arguments.memory))?;
    let dir = match &arguments.dir {
        Some(dir) => dir.clone(),
        None => {
            session.disk.create_dir_all(&session.db).map_err(Error::disk("make the database"))?;
            session.db.clone()
        }
    };
    disk::measure(&mut bench, session.disk.as_ref(), &dir, arguments.file, io)?;
    let kernels = [
        ("cores", session.environment.cores.to_string()),
        ("filter kernels", SimdLevel::detect().name().to_owned()),
        ("csv kernel", format!("{:?}", Kernel::detect()).to_lowercase()),
        ("io", io.to_string()),
    ];
    let text = match arguments.json {
        true => as_json(&kernels, &bench.figures),
        false => as_table(&kernels, &bench.figures),
    };
    sql::print(&text)?;
    Ok(Exit::Done)
}

impl Bench<'_> {
    /// Runs `work` `rounds` times and keeps the best time; `work` returns the number of bytes it
    /// went over.
    fn measure(
        &mut self,
        what: &'static str,
        threads: usize,
        rounds: usize,
        mut work: impl FnMut() -> Result<u64>,
    ) -> Result<()> {
        self.tell(what, threads);
        let mut best: Option<Figure> = None;
        for _ in 0..rounds {
            if self.interrupted.load(Relaxed) {
                return Err(Error::Interrupted { consequence: "" });
            }
            let start = self.clock.monotonic_nanos();
            let bytes = work()?;
            let nanos = (self.clock.monotonic_nanos() - start).max(1);
            if best.as_ref().is_none_or(|best| nanos < best.nanos) {
                best = Some(Figure { what, threads, bytes, operations: 1, nanos });
            }
        }
        self.figures.extend(best);
        Ok(())
    }

    /// Runs [`measure`](Self::measure) for one round of `operations` equal operations.
    fn count(
        &mut self,
        what: &'static str,
        threads: usize,
        operations: u64,
        work: impl FnOnce() -> Result<u64>,
    ) -> Result<()> {
        let mut work = Some(work);
        self.measure(what, threads, 1, || work.take().map_or(Ok(0), |work| work()))?;
        let figure = self.figures.last_mut().expect("it was just measured");
        figure.operations = operations;
        Ok(())
    }

    fn tell(&self, what: &str, threads: usize) {
        if self.shows_progress {
            tell(&format!("{what}, {threads} threads ..."));
        }
    }
}

fn usize_of(size: ByteCount) -> usize {
    usize::try_from(size.0).unwrap_or(usize::MAX)
}
