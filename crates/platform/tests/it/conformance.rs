//! Guarantees of every disk, real or simulated: one function, called with both.

use std::error::Error as _;
use std::path::Path;
use std::sync::Arc;

use tidegate_platform::{
    Class, DirEntry, DirLock, Disk, Error, Mapping, OpenMode, RealDisk, Result, SimDisk,
    drop_caches, free_disk_bytes,
};

use crate::put;

#[test]
fn real_disk_conforms() {
    let dir = tempfile::tempdir().unwrap();
    conforms(&RealDisk, dir.path());
}

#[test]
fn simulated_disk_conforms() {
    let disk = SimDisk::new(1);
    disk.create_dir_all(Path::new("/db")).unwrap();
    conforms(&disk, Path::new("/db"));
}

fn conforms(disk: &dyn Disk, root: &Path) {
    modes_say_what_must_exist(disk, &root.join("modes"));
    bytes_come_back(disk, &root.join("bytes"));
    lengths_change(disk, &root.join("lengths"));
    mappings_are_whole_files(disk, &root.join("mappings"));
    a_mapped_range_stays_when_the_file_changes_around_it(disk, &root.join("ranges"));
    names_change(disk, &root.join("names"));
    folders_are_listed_and_removed(disk, &root.join("folders"));
    locks_exclude(disk, &root.join("locks"));
    errors_name_call_and_path(disk, &root.join("errors"));
}

fn modes_say_what_must_exist(disk: &dyn Disk, dir: &Path) {
    let file = dir.join("file");
    let failed = |mode| disk.open(&file, mode).err();
    assert!(failed(OpenMode::CreateNew).is_some_and(|e| e.is_not_found()), "no folder");
    disk.create_dir_all(dir).unwrap();
    assert!(failed(OpenMode::Read).is_some_and(|e| e.is_not_found()));
    assert!(failed(OpenMode::ReadWrite).is_some_and(|e| e.is_not_found()));
    assert!(!disk.exists(&file).unwrap());
    disk.open(&file, OpenMode::CreateNew).unwrap().write_all_at(b"old", 0).unwrap();
    assert!(disk.exists(&file).unwrap());
    assert!(failed(OpenMode::CreateNew).is_some_and(|e| e.already_exists()));
    assert!(disk.open(dir, OpenMode::CreateNew).is_err_and(|e| e.already_exists()));
    assert!(disk.open(dir, OpenMode::ReadWrite).is_err());
    assert!(disk.read(dir).is_err());

    let reader = disk.open(&file, OpenMode::Read).unwrap();
    assert!(reader.write_all_at(b"x", 0).is_err());
    assert!(reader.set_len(0).is_err());
    let writer = disk.open(&file, OpenMode::ReadWrite).unwrap();
    writer.write_all_at(b"new", 0).unwrap();
    assert_eq!(disk.read(&file).unwrap(), b"new");
    disk.open(&file, OpenMode::CreateOrTruncate).unwrap();
    assert_eq!(reader.len().unwrap(), 0, "all handles see one file");
}

fn bytes_come_back(disk: &dyn Disk, dir: &Path) {
    disk.create_dir_all(dir).unwrap();
    let path = dir.join("file");
    let file = put(disk, &path, b"0123456789");
    assert_eq!(file.path(), path);
    file.write_all_at(b"", 1_000_000).unwrap();
    file.write_all_at(b"ab", 9).unwrap();
    file.write_all_at(b"z", 5_000).unwrap();
    let mut expected = b"012345678ab".to_vec();
    expected.resize(5_000, 0);
    expected.push(b'z');
    assert_eq!(disk.read(&path).unwrap(), expected);

    let mut buf = [7; 4];
    assert_eq!(file.read_at(&mut buf, 4_999).unwrap(), 2);
    assert_eq!(buf, [0, b'z', 7, 7]);
    assert_eq!(file.read_at(&mut buf, 5_001).unwrap(), 0);
    assert_eq!(file.read_at(&mut buf, 1 << 40).unwrap(), 0);
    file.read_exact_at(&mut buf, 8).unwrap();
    assert_eq!(&buf, b"8ab\0");
    let short = file.read_exact_at(&mut buf, 4_999).unwrap_err();
    assert!(matches!(short, Error::Short { offset: 4_999, wanted: 4, got: 2, .. }), "{short:?}");
    assert_eq!(short.class(), Class::Corruption);
    file.sync_data().unwrap();
    file.start_writeback(0, 0).unwrap();
    file.start_writeback(0, 4096).unwrap();
    drop_caches(&*file).unwrap();
    disk.sync_dir(dir).unwrap();
    assert_eq!(disk.read(&path).unwrap(), expected);
}

fn lengths_change(disk: &dyn Disk, dir: &Path) {
    disk.create_dir_all(dir).unwrap();
    let path = dir.join("file");
    let file = put(disk, &path, &[1; 6_000]);
    file.set_len(10).unwrap();
    assert_eq!(file.len().unwrap(), 10);
    file.set_len(20).unwrap();
    assert_eq!(disk.read(&path).unwrap(), [[1; 10], [0; 10]].concat(), "no old bytes come back");
    file.allocate(0).unwrap();
    file.allocate(15).unwrap();
    assert_eq!(file.len().unwrap(), 20, "allocating never cuts");
    file.allocate(9_000).unwrap();
    assert_eq!(file.len().unwrap(), 9_000);
    assert_eq!(disk.read(&path).unwrap()[..20], [[1; 10], [0; 10]].concat());
    assert!(disk.read(&path).unwrap()[20..].iter().all(|&byte| byte == 0));
}

fn mappings_are_whole_files(disk: &dyn Disk, dir: &Path) {
    disk.create_dir_all(dir).unwrap();
    let mapping: Mapping = put(disk, &dir.join("file"), b"mapped").map().unwrap();
    let clone = mapping.clone();
    assert_eq!(mapping.as_ptr(), clone.as_ptr(), "mapping-1");
    drop(mapping);
    disk.remove(&dir.join("file")).unwrap();
    assert_eq!(&clone[..], b"mapped", "mapping-1: neither the handle nor the name is needed");
    let empty = put(disk, &dir.join("empty"), b"").map().unwrap();
    assert!(empty.is_empty());
}

fn a_mapped_range_stays_when_the_file_changes_around_it(disk: &dyn Disk, dir: &Path) {
    disk.create_dir_all(dir).unwrap();
    let file = put(disk, &dir.join("file"), &[[1_u8; 5_000], [2; 5_000]].concat());
    let mapping = file.map_range(4_990..5_010).unwrap();
    file.write_all_at(&[3; 9_000], 5_010).unwrap();
    file.set_len(5_010).unwrap();
    assert_eq!(&mapping[..], [[1_u8; 10], [2; 10]].concat(), "mapping-2");
    assert!(file.map_range(7..7).unwrap().is_empty());
}

fn names_change(disk: &dyn Disk, dir: &Path) {
    let (a, b) = (dir.join("a"), dir.join("deep/b"));
    disk.create_dir_all(&dir.join("deep")).unwrap();
    disk.create_dir_all(&dir.join("deep")).unwrap();
    let file = put(disk, &a, b"A");
    put(disk, &b, b"B");
    disk.rename(&a, &a).unwrap();
    disk.rename(&a, &b).unwrap();
    assert!(!disk.exists(&a).unwrap());
    assert_eq!(disk.read(&b).unwrap(), b"A");
    assert!(disk.rename(&a, &b).is_err_and(|e| e.is_not_found()));

    disk.rename(&dir.join("deep"), &dir.join("deeper")).unwrap();
    let b = dir.join("deeper/b");
    assert_eq!(disk.read(&b).unwrap(), b"A");
    assert!(disk.rename(&dir.join("deeper"), &dir.join("deeper/x")).is_err());
    assert!(disk.rename(&dir.join("deeper"), &b).is_err());
    put(disk, &a, b"new");
    assert!(disk.rename(&a, &dir.join("deeper")).is_err());
    disk.create_dir_all(&dir.join("empty")).unwrap();
    assert!(disk.rename(&dir.join("empty"), &dir.join("deeper")).is_err(), "it is not empty");

    disk.remove(&b).unwrap();
    disk.remove(&b).unwrap();
    assert!(!disk.exists(&b).unwrap());
    let mut buf = [0];
    file.read_exact_at(&mut buf, 0).unwrap();
    assert_eq!(&buf, b"A", "an open file outlives its name");
    assert!(disk.remove(&dir.join("deeper")).is_err(), "it is a folder");
}

fn folders_are_listed_and_removed(disk: &dyn Disk, dir: &Path) {
    assert!(disk.list(dir).is_err_and(|e| e.is_not_found()));
    assert!(disk.sync_dir(dir).is_err_and(|e| e.is_not_found()));
    disk.create_dir_all(&dir.join("b/c")).unwrap();
    assert_eq!(disk.list(&dir.join("b/c")).unwrap(), []);
    put(disk, &dir.join("c"), b"123");
    put(disk, &dir.join("a"), b"");
    let mut entries = disk.list(dir).unwrap();
    entries.iter_mut().filter(|entry| entry.is_dir).for_each(|entry| entry.bytes = 0);
    let entry = |name: &str, is_dir, bytes| DirEntry { name: name.to_string(), is_dir, bytes };
    assert_eq!(entries, [entry("a", false, 0), entry("b", true, 0), entry("c", false, 3)]);
    assert!(disk.list(&dir.join("a")).is_err());
    assert!(disk.create_dir_all(&dir.join("a")).is_err());
    assert!(disk.create_dir_all(&dir.join("a/b")).is_err());
    assert!(disk.remove_dir_all(&dir.join("a")).is_err());
    put(disk, &dir.join("b/c/d"), b"x");
    disk.remove_dir_all(dir).unwrap();
    disk.remove_dir_all(dir).unwrap();
    assert!(!disk.exists(dir).unwrap());
}

fn locks_exclude(disk: &dyn Disk, dir: &Path) {
    disk.create_dir_all(dir).unwrap();
    let path = dir.join("lock");
    let lock = disk.lock(&path).unwrap();
    assert_eq!(lock.path(), path);
    let conflict = disk.lock(&path).unwrap_err();
    assert!(conflict.would_lock(), "{conflict:?}");
    assert!(conflict.to_string().contains("lock"), "{conflict}");
    drop(disk.lock(&dir.join("other")).unwrap());
    drop(lock);
    locked_folders_exclude(disk, dir);
    drop(disk.lock(&path).unwrap());
    assert!(disk.exists(&path).unwrap());
    assert!(disk.lock(&dir.join("missing/lock")).is_err_and(|e| e.is_not_found()));
}

/// A lock vanished with its file, and another process could take a new one: two servers wrote to
/// one database after `rm lock`.
fn locked_folders_exclude(disk: &dyn Disk, dir: &Path) {
    let path = dir.join("lock");
    let is_refused = |lock: Result<Box<dyn DirLock>>| lock.is_err_and(|error| error.would_lock());
    let lock = disk.lock_with_folder(&path).unwrap();
    assert!(is_refused(disk.lock(&path)), "a program that locks the file only");
    disk.remove(&path).unwrap();
    assert!(is_refused(disk.lock_with_folder(&path)) && is_refused(disk.lock_existing(&path)));
    assert!(!disk.exists(&path).unwrap());
    drop(lock);
    let folder_only = disk.lock_existing(&path).unwrap();
    assert!(!disk.exists(&path).unwrap(), "nothing is made");
    assert!(is_refused(disk.lock_with_folder(&path)));
    drop(folder_only);
    let file_only = disk.lock(&path).unwrap();
    assert!(is_refused(disk.lock_with_folder(&path)) && is_refused(disk.lock_existing(&path)));
    drop(file_only);
    let both = disk.lock_existing(&path).unwrap();
    assert!(is_refused(disk.lock(&path)));
    drop(both);
}

fn errors_name_call_and_path(disk: &dyn Disk, dir: &Path) {
    let path = dir.join("missing");
    let error = disk.open(&path, OpenMode::Read).unwrap_err();
    assert_eq!(error.to_string(), format!("open {}", path.display()), "platform-2");
    assert!(error.source().is_some_and(|source| source.to_string().contains("No such file")));
    assert_eq!(error.class(), Class::Environment);
}

#[cfg(target_os = "linux")]
// A link in another user's directory made root create a file at its target.
#[test]
fn a_lock_is_made_through_no_link() {
    let dir = tempfile::tempdir().unwrap();
    let (lock, elsewhere) = (dir.path().join("lock"), dir.path().join("elsewhere"));
    std::os::unix::fs::symlink(&elsewhere, &lock).unwrap();
    assert!(RealDisk.lock(&lock).is_err());
    assert!(!elsewhere.exists());
}

#[test]
fn new_files_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;

    let dir = tempfile::tempdir().unwrap();
    let mode =
        |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o777;
    RealDisk.create_dir_all(&dir.path().join("a/b")).unwrap();
    RealDisk.open(&dir.path().join("a/new"), OpenMode::CreateNew).unwrap();
    RealDisk.open(&dir.path().join("a/cut"), OpenMode::CreateOrTruncate).unwrap();
    drop(RealDisk.lock(&dir.path().join("a/lock")).unwrap());
    let modes = ["a", "a/b", "a/new", "a/cut", "a/lock"].map(mode);
    assert_eq!(modes, [0o700, 0o700, 0o600, 0o600, 0o600]);
}

#[test]
fn free_space_is_told() {
    let dir = tempfile::tempdir().unwrap();
    assert!(0 < free_disk_bytes(dir.path()).unwrap());
    assert!(free_disk_bytes(&dir.path().join("missing")).is_err_and(|e| e.is_not_found()));
}

/// Larger than any file can be: a request for more than the free space would fill the disk.
#[cfg(target_os = "linux")]
#[test]
fn allocating_more_than_a_file_can_have_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let file = put(&RealDisk, &path, b"x");
    for bytes in [u64::MAX, (1 << 63) - 1] {
        let error = file.allocate(bytes).unwrap_err();
        assert_eq!(error.to_string(), format!("fallocate {}", path.display()), "platform-2");
    }
    assert_eq!(file.len().unwrap(), 1);
}

/// Reads around the page cache accept any offset and length, although the kernel does not.
#[test]
fn direct_reads_take_anything() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let bytes = crate::Random(1).bytes(10_000);
    put(&RealDisk, &path, &bytes).sync_data().unwrap();
    let Some(file) = RealDisk::open_direct(&path).unwrap() else { return };
    assert_eq!(file.alignment(), 4096);
    for (offset, count) in [(0, 10_000), (0, 4096), (1, 1), (4095, 2), (5_000, 9_000), (9_999, 5)] {
        let mut buf = vec![0; count];
        let got = file.read_at(&mut buf, offset as u64).unwrap();
        assert_eq!(buf[..got], bytes[offset..(offset + count).min(bytes.len())]);
    }
    assert_eq!(file.read_at(&mut [0; 8], 10_000).unwrap(), 0);
    assert_eq!(file.read_at(&mut [0; 8], 1 << 30).unwrap(), 0);
    let long = crate::Random(2).bytes(3 << 20);
    put(&RealDisk, &path, &long).sync_data().unwrap();
    let mut buf = vec![0; (3 << 20) - 7];
    file.read_exact_at(&mut buf, 5).unwrap();
    assert!(buf == long[5..long.len() - 2]);
}

#[test]
fn a_missing_file_is_not_opened_directly() {
    let missing: Result<Option<Arc<_>>> = RealDisk::open_direct(Path::new("/nowhere/at/all"));
    assert!(missing.is_err_and(|e| e.is_not_found()));
}

/// A pipe in place of a file made the call that opened it wait for ever.
#[test]
fn a_path_that_is_no_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let _held = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for path in [socket.as_path(), Path::new("/dev/zero")] {
        for mode in [OpenMode::Read, OpenMode::ReadWrite] {
            let error = RealDisk.open(path, mode).err().unwrap();
            assert!(matches!(&error, Error::NoFile { path: named } if named == path), "{error:?}");
            assert!(error.is_of_file(), "{error:?}");
        }
    }
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    RealDisk.sync_dir(&pipe).unwrap_err();
    RealDisk.list(&pipe).unwrap_err();
    RealDisk.lock_existing(&pipe).unwrap_err();
    RealDisk.lock_existing(&pipe.join("lock")).unwrap_err();
}
