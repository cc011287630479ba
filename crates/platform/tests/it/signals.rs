//! Events that end a process: lost pages of a mapped file, Ctrl-C, `kill`. Each test runs itself
//! again in a child process, because it ends the process.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::sync::atomic::Ordering::SeqCst;

use signal_hook::consts::{SIGBUS, SIGINT, SIGTERM};
use signal_hook::low_level::raise;
use tidegate_platform::{
    Disk, OpenMode, RealDisk, install_interrupt_handler, install_sigbus_handler,
};

const CHILD: &str = "TIDEGATE_TEST_CHILD";

/// The output of the test `name` run in a child process; `None` in that child.
fn in_child(name: &str) -> Option<Output> {
    if std::env::var_os(CHILD).is_some() {
        return None;
    }
    let program = std::env::current_exe().unwrap();
    let arguments = ["--exact", name, "--nocapture"];
    Some(Command::new(program).args(arguments).env(CHILD, "").output().unwrap())
}

#[test]
fn a_cut_file_ends_the_process_with_its_name() {
    if let Some(child) = in_child("signals::a_cut_file_ends_the_process_with_its_name") {
        let message = String::from_utf8_lossy(&child.stderr);
        assert_eq!(child.status.code(), Some(70), "{message}");
        assert!(message.contains("cut-me.seg: the file was cut"), "{message}");
        return;
    }
    install_sigbus_handler();
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("kept.seg");
    let path = dir.path().join("cut-me.seg");
    let map = |path| {
        std::fs::write(path, [1; 100_000]).unwrap();
        RealDisk.open(path, OpenMode::Read).unwrap().map().unwrap()
    };
    let (_before, mapping, _after) = (map(&kept), map(&path), map(&kept));
    RealDisk.open(&path, OpenMode::ReadWrite).unwrap().set_len(4096).unwrap();
    std::fs::remove_dir_all(dir.path()).unwrap();
    assert_eq!(mapping[4095], 1, "what is left can be read");
    std::hint::black_box(mapping[70_000]);
}

#[test]
fn a_signal_that_was_sent_gets_the_default_action() {
    if let Some(child) = in_child("signals::a_signal_that_was_sent_gets_the_default_action") {
        assert_eq!(child.status.signal(), Some(SIGBUS), "{child:?}");
        return;
    }
    install_sigbus_handler();
    raise(SIGBUS).unwrap();
}

#[test]
fn the_first_interrupt_asks_and_the_second_insists() {
    if let Some(child) = in_child("signals::the_first_interrupt_asks_and_the_second_insists") {
        let message = String::from_utf8_lossy(&child.stderr);
        assert_eq!(child.status.code(), Some(130), "{message}");
        return;
    }
    let is_interrupted = install_interrupt_handler();
    assert!(!is_interrupted.load(SeqCst));
    raise(SIGTERM).unwrap();
    assert!(is_interrupted.load(SeqCst));
    raise(SIGINT).unwrap();
    panic!("the second signal ends the process");
}
