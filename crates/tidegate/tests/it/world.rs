//! A directory with a database and files in it, and the program run there.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use tempfile::TempDir;

/// The working directory of the program; its database is `db` in it.
pub(crate) struct World {
    dir: TempDir,
}

/// A run that has ended.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl World {
    pub(crate) fn new() -> World {
        World { dir: tempfile::tempdir().expect("a temporary directory") }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).expect("a file of the test");
        path
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect(name)
    }

    /// Returns the program in this world, without the environment of the user.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        self.place(&mut command);
        command.arg("--db").arg("db").args(arguments);
        command
    }

    /// Returns the program, started by a shell that first runs `before`.
    pub(crate) fn command_after(&self, before: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("sh");
        self.place(&mut command);
        command.arg("-c").arg(format!("{before}; exec \"$0\" --db db \"$@\""));
        command.arg(env!("CARGO_BIN_EXE_tidegate")).args(arguments);
        command
    }

    /// Returns the program on a terminal of its own, whose bytes go through pipes.
    pub(crate) fn command_on_terminal(&self, arguments: &str) -> Command {
        let mut command = Command::new("script");
        self.place(&mut command);
        let program = env!("CARGO_BIN_EXE_tidegate");
        let line = format!("exec {program} --db db {arguments}");
        command.args(["--quiet", "--return", "--flush", "--command", &line, "/dev/null"]);
        command
    }

    /// Returns the process of the program that runs in this world, if there is one.
    pub(crate) fn process(&self) -> Option<u32> {
        let processes = fs::read_dir("/proc").ok()?;
        let mut numbers =
            processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let program = Path::new(env!("CARGO_BIN_EXE_tidegate"));
        numbers.find(|number: &u32| {
            let link = |name: &str| fs::read_link(format!("/proc/{number}/{name}"));
            link("exe").is_ok_and(|exe| exe == program)
                && link("cwd").is_ok_and(|cwd| cwd == self.dir.path())
        })
    }

    fn place(&self, command: &mut Command) {
        command.current_dir(self.dir.path()).env_clear();
        command.env("PATH", "/usr/bin:/bin").env("HOME", self.dir.path());
        command.env("TMPDIR", self.dir.path()).env("TERM", "xterm").stdin(Stdio::null());
        // Several servers run at a time.
        command.env("TIDEGATE_PG_LISTEN", "127.0.0.1:0");
        // The machine's disk may be nearly full.
        command.env("TIDEGATE_STORAGE_MIN_FREE", "0");
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        Run::of(self.command(arguments).output().expect("the program runs"))
    }

    pub(crate) fn run_with(&self, arguments: &[&str], stdin: &[u8]) -> Run {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program runs");
        let mut pipe = child.stdin.take().expect("a pipe");
        let bytes = stdin.to_vec();
        // The program may end before it has read everything.
        let feeder = thread::spawn(move || drop(pipe.write_all(&bytes)));
        let run = Run::of(child.wait_with_output().expect("the program ends"));
        feeder.join().expect("the feeder ends");
        run
    }

    /// Starts an import of standard input, which stays open, and waits until it has the database.
    pub(crate) fn start_import(&self, table: &str) -> Child {
        let mut command = self.command(&["import", "-", "--table", table, "--progress", "none"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program runs");
        wait_until("the database to be in use", || {
            let is_in_use = self.run(&["tables"]).code == Some(3);
            // The query holds the database for a moment, in which the import fails to open it.
            if !is_in_use && child.try_wait().expect("the child can be asked").is_some() {
                child = command.spawn().expect("the program runs");
            }
            is_in_use
        });
        child
    }

    /// Counts the directories in `scratch` of imports.
    pub(crate) fn scratch(&self) -> usize {
        let Ok(entries) = fs::read_dir(self.path("db/scratch")) else { return 0 };
        entries.filter(|entry| entry.as_ref().expect("an entry").file_name() != "query").count()
    }

    /// Returns the answer of a query, as CSV without its header.
    #[track_caller]
    pub(crate) fn ask(&self, sql: &str) -> String {
        let answer = self.run(&["sql", sql, "--format", "csv"]).succeeds();
        answer.split_once('\n').expect("a header").1.trim_end().to_owned()
    }

    /// Returns all files of the database that hold rows or schemas, with their bytes.
    pub(crate) fn stored(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        collect(&self.path("db/data"), &mut files);
        files.sort();
        files
    }

    /// Returns the files of the log, in order, with their bytes.
    pub(crate) fn logged(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        collect(&self.path("db/wal"), &mut files);
        files.retain(|(path, _)| path.extension().is_some_and(|end| end == "wal"));
        files.sort();
        files
    }

    /// Returns the files of the database whose names have this end.
    pub(crate) fn stored_as(&self, suffix: &str) -> Vec<PathBuf> {
        let names = self.stored().into_iter().map(|(path, _)| path);
        names.filter(|path| path.to_string_lossy().ends_with(suffix)).collect()
    }
}

impl Run {
    pub(crate) fn of(output: Output) -> Run {
        Run {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("UTF-8 on standard output"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8 on standard error"),
        }
    }

    /// Returns its standard output, and checks that it succeeded.
    #[track_caller]
    pub(crate) fn succeeds(self) -> String {
        assert_eq!(self.code, Some(0), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self.stdout
    }

    /// Checks that it failed with one sentence that has all of `parts` in it, in this order.
    #[track_caller]
    pub(crate) fn fails(self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        let message = self.stderr.trim_end();
        assert!(message.starts_with("tidegate: "), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
        let mut rest = message;
        for part in parts {
            let Some((_, after)) = rest.split_once(part) else {
                panic!("`{part}` is missing, or not in its place: {message}");
            };
            rest = after;
        }
        assert!(!message.contains("panicked") && !message.contains("os error"), "{message}");
    }
}

/// Waits for a condition without sleeping, up to a time limit.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !is_so() {
        assert!(start.elapsed().as_secs() < 60, "waited too long for {what}");
        thread::yield_now();
    }
}

/// Waits until a process has used processor time, and so is past its start.
pub(crate) fn wait_until_busy(process: u32, before: u64) {
    wait_until("the query to run", || cpu_ticks(process) > before + 20);
}

/// Returns the processor time of a process in hundredths of a second.
pub(crate) fn cpu_ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.split(' ').nth(13).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

/// Sends a signal as `kill` does.
pub(crate) fn signal(child: &Child, name: &str) {
    signal_process(child.id(), name);
}

pub(crate) fn signal_process(process: u32, name: &str) {
    let status = Command::new("kill").arg(name).arg(process.to_string()).status();
    assert!(status.expect("kill").success());
}

fn collect(dir: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            let bytes = fs::read(&path).expect("a file of the database");
            files.push((path, bytes));
        }
    }
}
