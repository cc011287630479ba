//! The console: its page, and its use in a browser.
//!
//! Its tests are its own (`console/tests`) and need the packages that `cargo xtask console`
//! installs; the last two also need `/usr/bin/chromium`, or the browser at `$CHROMIUM`. If these
//! are missing, a test says that it was skipped.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::server::Server;
use crate::world::World;

/// Number of rows of the table in the tests. A browser loads them in seconds; a server without
/// optimisation takes most of the time.
const ROWS: &str = "1000000";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../console")
}

#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn is_there(path: &Path) -> bool {
    let is_there = path.exists();
    if !is_there {
        eprintln!("skipped: there is no {}", path.display());
    }
    is_there
}

/// Runs a script of the console.
#[track_caller]
fn run(script: &str, settings: &[(&str, &str)]) {
    let mut command = Command::new("npm");
    command.args(["run", "--silent", script]).current_dir(folder());
    let output = command.envs(settings.iter().copied()).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{complained}");
}

#[test]
fn the_first_page_is_the_console_or_says_how_to_build_it() {
    let world = World::new();
    let server = Server::start(&world);
    let answer = server.get("/");
    assert_eq!(answer.status, 200);
    let is_built = answer.field("Content-Type").is_some_and(|name| name.starts_with("text/html"));
    let expected = if is_built { "<title>Tidegate</title>" } else { "cargo xtask console" };
    assert!(answer.body.contains(expected), "{}", answer.body);
    assert_eq!(answer.field("Cache-Control"), Some("no-cache"));
    assert_eq!(answer.field("Content-Security-Policy").is_some(), is_built);
    assert_eq!(server.get("/assets/none.js").status, 404);
    server.stop();
}

#[test]
fn the_console_passes_its_own_tests() {
    if is_there(&folder().join("node_modules/vitest")) {
        run("check", &[]);
        run("test", &[]);
        // An installed console must also be built; otherwise its build is broken.
        assert!(folder().join("dist/index.html").exists(), "`cargo xtask console` builds it");
    }
}

/// Returns the browser, if it and its driver are there.
fn browser() -> Option<String> {
    let browser = env::var("CHROMIUM").unwrap_or_else(|_| "/usr/bin/chromium".to_owned());
    let parts = ["node_modules/playwright-core", "dist/index.html"].map(|part| folder().join(part));
    let is_there = parts.iter().all(|part| is_there(part)) && is_there(Path::new(&browser));
    is_there.then_some(browser)
}

#[test]
fn a_person_works_with_the_console() {
    let Some(browser) = browser() else { return };
    let world = World::new();
    let server = Server::start(&world);
    let url = format!("http://{}", server.http);
    let settings = [("TIDEGATE_URL", &*url), ("CHROMIUM", &*browser), ("CONSOLE_ROWS", ROWS)];
    run("test:browser", &settings);
    server.stop();
}

#[test]
fn the_console_works_after_the_login_of_the_browser() {
    let Some(browser) = browser() else { return };
    let world = World::new();
    let keys = ["http.auth=required", "auth.admin_password=a better one"];
    let server = Server::start_with(&world, &keys);
    let url = format!("http://{}", server.http);
    let login = ("LOGIN", "admin:a better one");
    run("test:login", &[("TIDEGATE_URL", &*url), ("CHROMIUM", &*browser), login]);
    server.stop();
}
