//! `tidegate user`: its file, and its input of passwords.

use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::world::{World, wait_until};

#[test]
fn a_password_is_not_shown_where_it_is_typed() {
    let world = World::new();
    let typed = |first: &str, second: &str| {
        let mut command = world.command_on_terminal("user add ann --role writer");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("runs");
        let mut keys = child.stdin.take().expect("a pipe");
        let screen = Arc::new(Mutex::new(String::new()));
        let mut output = child.stdout.take().expect("a pipe");
        let shown = Arc::clone(&screen);
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        let wait_for = |text: &str| wait_until(text, || screen.lock().unwrap().contains(text));
        wait_for("Password: ");
        keys.write_all(format!("{first}\r").as_bytes()).expect("typed");
        if !second.is_empty() {
            wait_for("Once more: ");
            keys.write_all(format!("{second}\r").as_bytes()).expect("typed");
        }
        let status = child.wait().expect("ends");
        reader.join().expect("the reader ends");
        let screen = screen.lock().unwrap().clone();
        assert!(!screen.contains("secret"), "password-1: {screen}");
        (status.code(), screen)
    };
    let (code, screen) = typed("a secret", "another secret");
    assert!(code == Some(1) && screen.contains("the two passwords differ"), "{screen}");
    // Ctrl-C comes as a key.
    let (code, screen) = typed("a secre\u{3}", "");
    assert_eq!(code, Some(130), "{screen}");
    assert!(!world.path("db/conf/users.toml").exists());
    let (code, screen) = typed("a secrex\u{7f}t", "a secret");
    assert_eq!(code, Some(0), "{screen}");
    let file = world.text("db/conf/users.toml");
    assert!(file.contains("name = \"ann\"") && !file.contains("secret"), "auth_file-1: {file}");
    let mode = std::fs::metadata(world.path("db/conf/users.toml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "auth_file-1");
}

#[test]
fn invalid_arguments_of_user_are_named() {
    let world = World::new();
    for (arguments, expected) in [
        (&["user", "add", "ann", "--role", "boss"][..], "not admin, writer or reader"),
        (&["user", "add", "ann"], "--role <ROLE>"),
        (&["user", "token", "ann", "--expires", "0d"], "12h or 90d"),
    ] {
        let run = world.run(arguments);
        assert_eq!(run.code, Some(2), "{}", run.stderr);
        assert!(run.stderr.contains(expected), "{}", run.stderr);
    }
    world.run_with(&["user", "add", "ann", "--role", "reader"], b"").fails(1, &["1 to 1000 bytes"]);
    world.run_with(&["user", "add", "ann", "--role", "reader"], b"x\n").succeeds();
    let twice = world.run_with(&["user", "add", "ann", "--role", "reader"], b"x");
    twice.fails(1, &["user add: user `ann` exists already"]);
    world.run_with(&["user", "passwd", "bob"], b"x").fails(1, &["user `bob` does not exist"]);
    world.run(&["user", "remove", "bob"]).fails(1, &["user `bob` does not exist"]);
    world.run(&["user", "token", "revoke", "00"]).fails(1, &["token `00` does not exist"]);
    world.run(&["user", "token"]).fails(2, &["the name of a user is missing"]);
    let mode = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(world.path("db/conf/users.toml"), mode).unwrap();
    world.run(&["user", "list"]).fails(1, &["can be read by other users"]);
    let serve = world.run(&["serve", "--http", "127.0.0.1:0", "--ilp", "none"]);
    serve.fails(2, &["users.toml can be read by other users"]);
}

// Only root can write to the directory of a service with a user of its own. The service could not
// read the files that root made there: the user could not log in, and the next start ended with
// exit code 2.
#[test]
fn what_root_makes_belongs_to_the_owner_of_the_database() {
    let world = World::new();
    let db = world.path("db");
    std::fs::create_dir_all(&db).unwrap();
    let export = db.join("export");
    std::fs::create_dir(&export).unwrap();
    for folder in [&export, &db] {
        if std::os::unix::fs::chown(folder, Some(65_534), Some(65_534)).is_err() {
            return; // Only root can show it.
        }
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    world.run_with(&["user", "add", "ann", "--role", "reader"], b"secret").succeeds();
    world.file("t.csv", "a,b\n1,2\n");
    world.run(&["import", "t.csv", "--table", "t"]).succeeds();
    world.run(&["sql", "COPY t TO 'x.csv' (FORMAT csv)"]).succeeds();
    let mut folders = vec![db];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = std::fs::symlink_metadata(&path).unwrap();
            let owner = (metadata.uid(), metadata.gid());
            assert_eq!(owner, (65_534, 65_534), "real-1: {}", path.display());
            assert_eq!(metadata.mode() & 0o007, 0, "real-1: {}", path.display());
            count += 1;
            // Files that a command leaves in the scratch directory do not prevent a start.
            if metadata.is_dir() && !path.ends_with("scratch") {
                folders.push(path);
            }
        }
    }
    assert!(10 < count, "{count}");
}
