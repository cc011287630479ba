//! Opening of a database: locks, refusals, and damage.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_platform::{Class, Disk, OpenMode, RealDisk, SimDisk};
use tidegate_storage::{Corruption, Database, Error, verify_offline};

use crate::fixture::{
    DAY, DIR, append, chain, files, import, new_database, open, options, schema, try_open,
};
use crate::model::{Step, Tables, check_reopened, read};

#[test]
fn one_process_has_a_database_open_at_a_time() {
    let (disk, database) = new_database();
    let error = try_open(&disk).unwrap_err();
    assert_eq!(error.to_string(), "database /srv/db is in use by another process");
    drop(database);
    open(&disk);
}

// After `rm lock` another process could lock a new file of that name: two servers wrote to one
// database, and half of their acknowledged commits were lost.
#[test]
fn a_lock_survives_the_removal_of_its_file() {
    let (disk, database) = new_database();
    disk.remove(&Path::new(DIR).join("lock")).unwrap();
    assert!(matches!(try_open(&disk).unwrap_err(), Error::InUse { .. }));
    drop(database);
    drop(open(&disk));
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("db");
    let open = || Database::open(Arc::new(RealDisk), &dir, &options());
    let database = open().unwrap();
    RealDisk.remove(&dir.join("lock")).unwrap();
    assert!(matches!(open().unwrap_err(), Error::InUse { .. }));
    drop(database);
    drop(open().unwrap());
}

// The directory of a running server was renamed: its segments and checkpoints were written at the
// old path, its log continued in the new one, and neither was a database any more. If another
// server had started at the old path, its catalog was overwritten.
#[test]
fn a_directory_that_is_moved_takes_no_more_rows_and_leaves_its_path_alone() {
    for has_another in [false, true] {
        let (disk, database) = new_database();
        let mut tables = Tables::new();
        let append_one = |ts| Step::Append(vec![("t", vec![(ts, "x", ts)], None)]);
        append_one(1).run(&database).unwrap();
        append_one(1).apply(&mut tables);
        let moved = Path::new("/srv/moved");
        disk.rename(Path::new(DIR), moved).unwrap();
        let other = has_another.then(|| open(&disk));
        let other = other.inspect(|other| append_one(7).run(other).unwrap());
        // The move is not detected before something is to be created.
        append_one(2).run(&database).unwrap();
        append_one(2).apply(&mut tables);
        let before = disk.files().into_iter().filter(|(path, _)| path.starts_with(DIR));
        let before: Vec<_> = before.collect();
        let error = database.flush_table("t").unwrap_err();
        assert!(chain(&error).contains("moved or replaced"), "{}", chain(&error));
        assert!(database.checkpoint().is_err());
        assert!(matches!(database.maintain().unwrap_err(), Error::Moved { .. }));
        let error = append_one(3).run(&database).unwrap_err();
        assert!(matches!(error, Error::Moved { .. }), "{error:?}");
        assert!(database.is_log_broken());
        drop(database);
        let after = disk.files().into_iter().filter(|(path, _)| path.starts_with(DIR));
        assert_eq!(after.collect::<Vec<_>>(), before);
        if let Some(other) = other {
            assert_eq!(read(&other)["t"].rows.len(), 1);
            drop(other);
            assert_eq!(read(&open(&disk))["t"].rows.len(), 1);
        }
        let database = Database::open(Arc::new(disk.clone()), moved, &options()).unwrap();
        assert_eq!(read(&database), tables);
    }
}

#[test]
fn a_directory_that_is_back_in_its_place_takes_rows_again() {
    let (disk, database) = new_database();
    append(&database, "t", &[(1, "x", 1)]).unwrap();
    let moved = Path::new("/srv/moved");
    disk.rename(Path::new(DIR), moved).unwrap();
    assert!(matches!(database.maintain().unwrap_err(), Error::Moved { .. }));
    disk.rename(moved, Path::new(DIR)).unwrap();
    append(&database, "t", &[(2, "x", 2)]).unwrap();
    database.maintain().unwrap();
    drop(database);
    assert_eq!(read(&open(&disk))["t"].rows.len(), 2);
}

// Two directories whose `data` and `wal` were links to the same places were both opened, and
// written to the same files.
#[test]
fn a_database_is_opened_once_even_by_different_paths() {
    let directory = tempfile::tempdir().unwrap();
    let (dir, linked) = (directory.path().join("db"), directory.path().join("linked"));
    let open = |dir: &Path| Database::open(Arc::new(RealDisk), dir, &options());
    let database = open(&dir).unwrap();
    append(&database, "t", &[(1, "x", 1)]).unwrap();
    RealDisk.create_dir_all(&linked).unwrap();
    for part in ["wal", "data"] {
        std::os::unix::fs::symlink(dir.join(part), linked.join(part)).unwrap();
    }
    assert!(matches!(open(&linked).unwrap_err(), Error::InUse { .. }));
    let looked: Arc<dyn Disk> = Arc::new(RealDisk);
    assert!(matches!(verify_offline(&looked, &linked, &|_| {}).unwrap_err(), Error::InUse { .. }));
    drop(database);
    let database = open(&linked).unwrap();
    assert_eq!(read(&database)["t"].rows.len(), 1);
    assert!(matches!(open(&dir).unwrap_err(), Error::InUse { .. }));
}

// A process that was killed after it had created the parent directories of a new database left
// their names unsynced, and the next process synced only the last of them.
#[test]
fn a_database_in_directories_that_an_earlier_process_made_is_durable() {
    for seed in 0..40 {
        let disk = SimDisk::new(seed);
        let dir = Path::new("/x/y/z/db");
        disk.create_dir_all(dir).unwrap();
        let open = |disk: &SimDisk| Database::open(Arc::new(disk.clone()), dir, &options());
        open(&disk).unwrap().create_table("t", schema()).unwrap();
        let disk = disk.after_power_loss();
        assert_eq!(open(&disk).unwrap().tables().len(), 1, "seed {seed}");
    }
}

#[test]
fn a_database_that_was_closed_is_opened_without_a_write() {
    let (disk, database) = new_database();
    import_two_tables(&database);
    drop(database);
    let before = (everything(&disk), disk.syncs());
    disk.fail_write_at(1);
    drop(open(&disk));
    disk.fail_write_at(0);
    assert!((everything(&disk), disk.syncs()) == before, "recovery-1");
    check_reopened(&disk, &two_tables(), "closed");
}

fn import_two_tables(database: &Arc<Database>) {
    for step in steps() {
        step.run(database).unwrap();
    }
}

fn steps() -> [Step; 3] {
    [
        Step::ImportNew("a", vec![(1, "x", 1), (DAY, "y", 2)]),
        Step::Create("b"),
        Step::Import("b", vec![(2, "z", 3)]),
    ]
}

fn two_tables() -> Tables {
    let mut tables = Tables::new();
    steps().iter().for_each(|step| step.apply(&mut tables));
    tables
}

/// A disk on which a database was closed, and one on which it crashed with all its data in the log.
fn closed_and_crashed() -> [SimDisk; 2] {
    let (closed, database) = new_database();
    import_two_tables(&database);
    let crashed = closed.after_power_loss();
    drop(database);
    [closed, crashed]
}

/// Changes a file and recomputes its checksum: the last four of `covered` bytes and four more.
fn patch(disk: &SimDisk, path: &Path, at: usize, byte: u8, crc_at: usize) {
    let mut bytes = disk.read(path).unwrap();
    bytes[at] = byte;
    let crc = crc32c::crc32c(&bytes[..crc_at]).to_le_bytes();
    bytes[crc_at..crc_at + 4].copy_from_slice(&crc);
    let file = disk.open(path, OpenMode::CreateOrTruncate).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
}

fn everything(disk: &SimDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let files = disk.files().into_iter();
    files.map(|(path, _)| (path.clone(), disk.read(&path).unwrap())).collect()
}

#[test]
fn a_newer_format_is_refused_before_anything_is_written() {
    let at_end = |disk: &SimDisk, path: &Path| disk.read(path).unwrap().len() - 4;
    for disk in closed_and_crashed() {
        for path in
            [files(&disk, "catalog"), files(&disk, "manifest"), files(&disk, ".wal")].concat()
        {
            let disk = disk.after_power_loss();
            let is_log = path.extension().is_some();
            let crc_at = if is_log { 28 } else { at_end(&disk, &path) };
            patch(&disk, &path, 8, 4, crc_at);
            let before = everything(&disk);
            let error = try_open(&disk).unwrap_err();
            let expected = format!(
                "{} has format version 4, and this program knows versions up to 3",
                path.display()
            );
            assert_eq!(error.to_string(), expected);
            assert_eq!(error.class(), Class::Environment);
            assert!(everything(&disk) == before, "{} was opened", path.display());
        }
    }
}

/// The catalog is the only place with the names of all tables: one damaged byte of it made all
/// tables permanently inaccessible. Now its copy is used, and the next checkpoint writes both.
#[test]
fn damage_of_the_catalog_is_a_warning_while_its_copy_is_whole() {
    let [closed, _] = closed_and_crashed();
    let tables = read(&try_open(&closed.after_power_loss()).unwrap());
    let (catalog, copy) = (catalog_of(&closed), catalog_of(&closed).with_extension("copy"));
    let length = closed.read(&catalog).unwrap().len() as u64;
    assert_eq!(closed.read(&catalog).unwrap(), closed.read(&copy).unwrap(), "recovery-7");
    for at in 0..=length {
        let disk = closed.after_power_loss();
        if at == length {
            disk.remove(&catalog).unwrap();
        } else {
            disk.corrupt(&catalog, at, 0x10);
        }
        let verified =
            verify_offline(&(Arc::new(disk.clone()) as _), Path::new(DIR), &|_| {}).unwrap();
        assert_eq!(paths_of(&verified.problems), [catalog.as_path()], "byte {at}");
        let database = try_open(&disk).unwrap_or_else(|error| panic!("byte {at}: {error:?}"));
        assert_eq!(read(&database), tables, "byte {at}");
        assert_eq!(paths_of(&database.take_warnings()), [catalog.as_path()], "byte {at}");
        database.checkpoint().unwrap();
        drop(database);
        let healed =
            verify_offline(&(Arc::new(disk.clone()) as _), Path::new(DIR), &|_| {}).unwrap();
        assert!(healed.problems.is_empty(), "byte {at}: {:?}", healed.problems);
    }
}

/// The copy is written before any file is removed that it may name, also after an older program has
/// written the catalog alone.
#[test]
fn a_copy_of_the_catalog_that_is_damaged_or_old_is_written_anew() {
    let [closed, _] = closed_and_crashed();
    let copy = catalog_of(&closed).with_extension("copy");
    let whole = closed.read(&copy).unwrap();
    for change in [
        &|disk: &SimDisk| disk.remove(&copy).unwrap(),
        &|disk: &SimDisk| disk.corrupt(&copy, 30, 1),
        &|disk: &SimDisk| disk.truncate(&copy, 3),
    ] as [&dyn Fn(&SimDisk); 3]
    {
        let disk = closed.after_power_loss();
        change(&disk);
        drop(try_open(&disk).unwrap());
        assert_eq!(disk.read(&copy).unwrap(), whole, "recovery-7");
    }
}

#[test]
fn damage_of_the_catalog_and_its_copy_is_refused_with_the_place() {
    let [closed, _] = closed_and_crashed();
    let (path, copy) = (catalog_of(&closed), catalog_of(&closed).with_extension("copy"));
    let bytes = closed.read(&path).unwrap().len() as u64;
    for at in 0..bytes {
        let disk = closed.after_power_loss();
        disk.corrupt(&path, at, 0x10);
        disk.corrupt(&copy, at, 0x10);
        let before = everything(&disk);
        match try_open(&disk).unwrap_err() {
            Error::Corrupt { path: found, .. } => assert_eq!(found, path),
            other => panic!("{} byte {at}: {other:?}", path.display()),
        }
        assert!(everything(&disk) == before, "{} byte {at}", path.display());
    }
    let disk = closed.after_power_loss();
    disk.truncate(&path, bytes - 1);
    disk.remove(&copy).unwrap();
    assert_eq!(try_open(&disk).unwrap_err().class(), Class::Corruption);
}

fn catalog_of(disk: &SimDisk) -> PathBuf {
    files(disk, "catalog").remove(0)
}

fn paths_of(errors: &[Error]) -> Vec<&Path> {
    errors.iter().map(path_of).collect()
}

fn path_of(error: &Error) -> &Path {
    match error {
        Error::Corrupt { path, .. } => path,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_damaged_byte_of_a_manifest_suspends_its_table() {
    let [closed, _] = closed_and_crashed();
    let path = files(&closed, "manifest").remove(0);
    for at in 0..closed.read(&path).unwrap().len() as u64 {
        let disk = closed.after_power_loss();
        disk.corrupt(&path, at, 0x10);
        let database = try_open(&disk).unwrap_or_else(|error| panic!("byte {at}: {error:?}"));
        let suspended = database.suspended();
        assert_eq!(suspended.len(), 1, "byte {at}");
        match suspended[0].1.as_ref() {
            Error::Corrupt { path: found, .. } => assert_eq!(*found, path),
            other => panic!("byte {at}: {other:?}"),
        }
    }
}

#[test]
fn a_catalog_that_is_missing_is_refused() {
    let [closed, _] = closed_and_crashed();
    for path in files(&closed, "catalog") {
        let disk = closed.after_power_loss();
        disk.remove(&path).unwrap();
        disk.remove(&path.with_extension("copy")).unwrap();
        let before = everything(&disk);
        match try_open(&disk).unwrap_err() {
            Error::Corrupt { path: found, what: Corruption::Missing, .. } => {
                assert_eq!(found, path)
            }
            other => panic!("{}: {other:?}", path.display()),
        }
        assert!(everything(&disk) == before, "{}", path.display());
    }
}

#[test]
fn a_log_that_is_missing_is_refused() {
    for disk in closed_and_crashed() {
        files(&disk, ".wal").iter().for_each(|path| disk.remove(path).unwrap());
        let error = try_open(&disk).unwrap_err();
        assert_eq!(error.class(), Class::Corruption, "{error:?}");
    }
}

#[test]
fn damage_in_the_log_before_a_later_group_is_refused_with_the_place() {
    let [_, crashed] = closed_and_crashed();
    let log = files(&crashed, ".wal").remove(0);
    // Three groups of a page each, after a page of header.
    for (at, offset) in [(4_096, 4_096), (4_200, 4_096), (8_192 + 30, 8_192), (8_300, 8_192)] {
        let disk = crashed.after_power_loss();
        disk.corrupt(&log, at, 1);
        match try_open(&disk).unwrap_err() {
            Error::Corrupt { path, offset: found, what: Corruption::DurableGroup } => {
                assert_eq!((path, found), (log.clone(), offset), "wal-3");
            }
            other => panic!("byte {at}: {other:?}"),
        }
    }
}

#[test]
fn damage_behind_the_last_group_is_found_by_verification() {
    let [_, crashed] = closed_and_crashed();
    let log = files(&crashed, ".wal").remove(0);
    let disk = crashed.after_power_loss();
    disk.corrupt(&log, 4 * 4_096 + 5, 1);
    let database = open(&disk);
    assert_eq!(database.torn_group().map(|torn| torn.offset), Some(4 * 4_096));
    assert_eq!(read(&database), two_tables());
    let problems = database.verify(&|_| {}).unwrap().problems;
    let expected = "is corrupt at byte 16389: a byte that must be zero is not";
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].to_string().contains(expected), "{problems:?}");
}

#[test]
fn a_log_cut_before_the_next_file_is_refused() {
    let (disk, database) = new_database();
    for n in 0..12 {
        database.create_table(&format!("t{n}"), schema()).unwrap();
    }
    let logs = files(&disk, ".wal");
    assert!(logs.len() >= 2, "the log was rotated");
    let disk = disk.after_power_loss();
    disk.truncate(&logs[0], 4 * 4_096);
    match try_open(&disk).unwrap_err() {
        Error::Corrupt { path, what: Corruption::DurableGroup, .. } => {
            assert_eq!(path, logs[0], "wal-4")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_directory_with_other_files_is_no_database() {
    for name in ["data/notes.txt", "wal/notes.txt", "scratch/precious.txt", "data/x/y"] {
        let disk = SimDisk::new(1);
        let path = Path::new(DIR).join(name);
        disk.create_dir_all(path.parent().unwrap()).unwrap();
        disk.open(&path, OpenMode::CreateNew).unwrap();
        let error = try_open(&disk).unwrap_err();
        assert!(matches!(error, Error::NotADatabase { .. }), "{name}: {error:?}");
        assert!(disk.exists(&path).unwrap());
    }
    // Foreign files stay in place.
    let disk = SimDisk::new(1);
    let path = Path::new(DIR).join("conf/tidegate.toml");
    disk.create_dir_all(path.parent().unwrap()).unwrap();
    disk.open(&path, OpenMode::CreateNew).unwrap();
    drop(open(&disk));
    drop(open(&disk));
    assert!(disk.exists(&path).unwrap());
}

#[test]
fn an_unfinished_database_is_made_anew() {
    for crash_at in 1.. {
        let disk = SimDisk::new(crash_at);
        disk.crash_at_sync(crash_at);
        let crashed = disk.syncs();
        drop(try_open(&disk));
        let is_over = disk.syncs() < crashed + crash_at;
        for survivor in 0..4 {
            let context = format!("crash at sync {crash_at}");
            check_reopened(&disk.after_power_loss_by(survivor), &Tables::new(), &context);
        }
        if is_over {
            assert!(crash_at > 5);
            break;
        }
    }
}

#[test]
fn unreferenced_files_are_removed_and_foreign_files_stay() {
    let (disk, database) = new_database();
    import_two_tables(&database);
    drop(database);
    let table = files(&disk, "manifest")[0].parent().unwrap().to_path_buf();
    let ours = [
        "data/catalog.tmp",
        "data/77/1970-01-01/3.seg",
        "data/77/manifest",
        "wal/00000000000000004096.wal.tmp",
        "scratch/import-3/spill",
    ];
    let ours = ours.map(|name| Path::new(DIR).join(name));
    let of_table = ["manifest.tmp", "1970-01-01/99.seg", "1970-01-01/0-9.mask", "1971-02-03/5.seg"];
    let of_table = of_table.map(|name| table.join(name));
    let symbols = ["symbols/0.sym", "symbols/1.sym.tmp"].map(|name| table.join(name));
    let foreign = ["data/readme", "wal/readme"].map(|name| Path::new(DIR).join(name));
    let foreign_of_table = ["1970-01-01/notes", "backup/5.seg"].map(|name| table.join(name));
    let gone = [&ours[..], &of_table, &symbols].concat();
    let kept = [foreign, foreign_of_table].concat();
    for path in gone.iter().chain(&kept) {
        disk.create_dir_all(path.parent().unwrap()).unwrap();
        disk.open(path, OpenMode::CreateNew).unwrap();
    }
    let database = open(&disk);
    for path in &gone {
        assert!(!disk.exists(path).unwrap(), "{} is gone", path.display());
    }
    for path in &kept {
        assert!(disk.exists(path).unwrap(), "garbage_collection-1: {} stays", path.display());
    }
    assert_eq!(read(&database), two_tables());
}

#[test]
fn symbol_files_are_cut_to_what_is_committed() {
    let (disk, database) = new_database();
    import_two_tables(&database);
    drop(database);
    let lengths = |disk: &SimDisk| -> Vec<u64> {
        let files = disk.files().into_iter();
        files
            .filter(|(path, _)| path.extension().is_some_and(|e| e == "sym"))
            .map(|f| f.1)
            .collect()
    };
    let before = lengths(&disk);
    for path in files(&disk, ".sym") {
        let file = disk.open(&path, OpenMode::ReadWrite).unwrap();
        file.write_all_at(b"torn tail", file.len().unwrap()).unwrap();
    }
    let database = open(&disk);
    assert_eq!(lengths(&disk), before, "symbols-4");
    import(&database, "b", &[(9, "new", 9)]).unwrap();
    drop(database);
    let mut expected = two_tables();
    Step::Import("b", vec![(9, "new", 9)]).apply(&mut expected);
    check_reopened(&disk, &expected, "after more symbols");
}

#[test]
fn a_real_directory_keeps_its_rows() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("deep/db");
    let disk = || -> Arc<dyn Disk> { Arc::new(RealDisk) };
    let database = Database::open(disk(), &dir, &options()).unwrap();
    import_two_tables(&database);
    let error = Database::open(disk(), &dir, &options()).unwrap_err();
    assert!(matches!(error, Error::InUse { .. }), "{error:?}");
    drop(database);
    let database = Database::open(disk(), &dir, &options()).unwrap();
    assert_eq!(read(&database), two_tables());
    let report = database.verify(&|_| {}).unwrap();
    assert!(report.problems.is_empty());
    assert_eq!((report.tables, report.segments, report.rows.0), (2, 3, 3));
    database.drop_tables(&["a", "b"]).unwrap();
    drop(database);
    let database = Database::open(disk(), &dir, &options()).unwrap();
    assert!(database.tables().is_empty());
}

/// Rewrites a log file in the format of version 2, which has shorter headers.
fn as_version_2(disk: &SimDisk, path: &Path) {
    let mut bytes = disk.read(path).unwrap();
    bytes[8] = 2;
    let crc = crc32c::crc32c(&bytes[..28]).to_le_bytes();
    bytes[28..32].copy_from_slice(&crc);
    bytes[32..4_096].fill(0);
    let mut at = 4_096;
    while bytes[at..].starts_with(b"TIDEGRP\0") {
        let used = u64::from_le_bytes(bytes[at + 32..][..8].try_into().unwrap());
        bytes[at + 32..][..8].copy_from_slice(&(used - 16).to_le_bytes());
        let used = usize::try_from(used).unwrap();
        let records = bytes[at + 64..at + used].to_vec();
        let (header, end) = (at + 44, at + used - 16);
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[at..header]), &records);
        bytes[header..][..4].copy_from_slice(&crc.to_le_bytes());
        bytes[header + 4..end].copy_from_slice(&records);
        bytes[end..at + used].fill(0);
        at += used.next_multiple_of(4_096);
    }
    let file = disk.open(path, OpenMode::CreateOrTruncate).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    file.sync_data().unwrap();
}

// Groups that may not be durable are copied into a new file byte for byte. Those of an older
// version keep their shorter headers in the new file.
#[test]
fn a_log_of_an_older_version_goes_on() {
    let (disk, database) = new_database();
    append(&database, "t", &[(1, "a", 1)]).unwrap();
    append(&database, "t", &[(2, "b", 2)]).unwrap();
    let mut expected = read(&database);
    let mut disk = disk.after_power_loss();
    files(&disk, ".wal").iter().for_each(|path| as_version_2(&disk, path));
    for value in 3..6 {
        let database = try_open(&disk).unwrap_or_else(|e| panic!("{value}: {}", chain(&e)));
        assert_eq!(read(&database), expected, "{value}");
        // One process is killed before it commits anything, and the next one after a commit.
        disk = disk.after_power_loss();
        let database = try_open(&disk).unwrap_or_else(|e| panic!("{value} again: {}", chain(&e)));
        assert_eq!(read(&database), expected, "{value} again");
        append(&database, "t", &[(value, "c", value)]).unwrap();
        expected = read(&database);
        disk = disk.after_power_loss();
        let looked: Arc<dyn Disk> = Arc::new(disk.clone());
        let problems = verify_offline(&looked, Path::new(DIR), &|_| {}).unwrap().problems;
        assert!(problems.is_empty(), "{value}: {problems:?}");
    }
    assert_eq!(read(&open(&disk)), expected);
}
