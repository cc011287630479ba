//! Durability, losses and faults of a simulated disk.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_platform::{
    Disk, DiskFile, IoChoice, OpenMode, SimCall, SimDisk, SimErrno, WriteQueue,
};

use crate::{Random, put};

const SECTOR_BYTES: usize = 512;

/// A disk with one file whose content is durable.
fn disk_with(path: &Path, bytes: &[u8]) -> (SimDisk, Arc<dyn DiskFile>) {
    let disk = SimDisk::new(7);
    let file = put(&disk, path, bytes);
    file.sync_data().unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    (disk, file)
}

/// The distinct results of 400 power losses.
fn outcomes<T: Ord>(disk: &SimDisk, look: impl Fn(&SimDisk) -> T) -> BTreeSet<T> {
    (0..400).map(|seed| look(&disk.after_power_loss_by(seed))).collect()
}

fn set<T: Ord>(outcomes: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    outcomes.into_iter().collect()
}

/// The content of a file, `None` if it does not exist.
fn content(disk: &SimDisk, path: &str) -> Option<Vec<u8>> {
    disk.read(Path::new(path)).ok()
}

#[test]
fn synced_bytes_always_survive() {
    let (disk, _) = disk_with(Path::new("/f"), b"synced");
    assert_eq!(outcomes(&disk, |disk| content(disk, "/f")), set([Some(b"synced".to_vec())]));
}

#[test]
fn an_unsynced_write_is_kept_lost_or_torn_at_sectors() {
    let (disk, file) = disk_with(Path::new("/f"), &[b'o'; 3 * SECTOR_BYTES]);
    file.write_all_at(&[b'n'; 3 * SECTOR_BYTES], 0).unwrap();
    let pattern = |disk: &SimDisk| -> String {
        let bytes = content(disk, "/f").unwrap();
        let letter = |sector: &[u8]| {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is whole");
            char::from(sector[0])
        };
        bytes.chunks(SECTOR_BYTES).map(letter).collect()
    };
    let all = ["ooo", "oon", "ono", "onn", "noo", "non", "nno", "nnn"].map(String::from);
    assert_eq!(outcomes(&disk, pattern), set(all));
}

#[test]
fn writes_survive_independently_of_their_order() {
    let (disk, file) = disk_with(Path::new("/f"), &[b'-'; 2 * SECTOR_BYTES]);
    file.write_all_at(b"1", 0).unwrap();
    file.write_all_at(b"2", SECTOR_BYTES as u64).unwrap();
    let seen = outcomes(&disk, |disk| {
        let bytes = content(disk, "/f").unwrap();
        (char::from(bytes[0]), char::from(bytes[SECTOR_BYTES]))
    });
    assert_eq!(seen, set([('-', '-'), ('1', '-'), ('-', '2'), ('1', '2')]));
}

#[test]
fn lengths_survive_apart_from_bytes() {
    let (disk, file) = disk_with(Path::new("/f"), b"old");
    file.write_all_at(b"new", 3).unwrap();
    let seen = outcomes(&disk, |disk| content(disk, "/f").unwrap());
    assert_eq!(seen, set([b"old".to_vec(), b"old\0\0\0".to_vec(), b"oldnew".to_vec()]));
    let (disk, file) = disk_with(Path::new("/f"), b"123456");
    file.set_len(2).unwrap();
    file.set_len(4).unwrap();
    let seen = outcomes(&disk, |disk| content(disk, "/f").unwrap());
    assert_eq!(seen, set([b"123456".to_vec(), b"12".to_vec(), b"12\0\0".to_vec()]));
}

/// Compared with a plain model that remembers every version of the file since its last sync: each
/// surviving sector is that of one version, and so is the length.
#[test]
fn every_surviving_sector_once_was() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let (disk, file) = disk_with(Path::new("/f"), &[]);
        let mut versions = vec![Vec::new()];
        for _ in 0..random.below(60) {
            let mut bytes: Vec<u8> = versions.last().unwrap().clone();
            let offset = random.below(3_000);
            let start = usize::try_from(offset).unwrap();
            match random.below(8) {
                0 => {
                    file.sync_data().unwrap();
                    versions = vec![bytes.clone()];
                }
                1 => {
                    file.set_len(offset).unwrap();
                    bytes.resize(start, 0);
                }
                _ => {
                    let count = random.below(1_500) + 1;
                    let written = random.bytes(count);
                    file.write_all_at(&written, offset).unwrap();
                    bytes.resize(bytes.len().max(start + written.len()), 0);
                    bytes[start..start + written.len()].copy_from_slice(&written);
                }
            }
            versions.push(bytes);
        }
        for survivor in outcomes(&disk, |disk| content(disk, "/f").unwrap()) {
            check_survivor(&survivor, &versions, seed);
        }
    }
}

#[track_caller]
fn check_survivor(survivor: &[u8], versions: &[Vec<u8>], seed: u64) {
    let has_length = |version: &Vec<u8>| version.len() == survivor.len();
    assert!(versions.iter().any(has_length), "sim-2: length {}, seed {seed}", survivor.len());
    for (idx, sector) in survivor.chunks(SECTOR_BYTES).enumerate() {
        let once_was = |version: &Vec<u8>| {
            let mut then = version.clone();
            then.resize(then.len().max(survivor.len()), 0);
            then[idx * SECTOR_BYTES..][..sector.len()] == *sector
        };
        assert!(versions.iter().any(once_was), "sim-2: sector {idx}, seed {seed}");
    }
}

#[test]
fn a_synced_file_may_vanish_until_its_folder_is_synced() {
    let disk = SimDisk::new(1);
    put(&disk, Path::new("/f"), b"x").sync_data().unwrap();
    assert_eq!(outcomes(&disk, |disk| content(disk, "/f")), set([None, Some(b"x".to_vec())]));
    disk.sync_dir(Path::new("/")).unwrap();
    assert_eq!(outcomes(&disk, |disk| content(disk, "/f")), set([Some(b"x".to_vec())]));
}

#[test]
fn a_folder_vanishes_with_what_is_in_it() {
    let disk = SimDisk::new(1);
    disk.create_dir_all(Path::new("/a/b")).unwrap();
    put(&disk, Path::new("/a/b/f"), b"x").sync_data().unwrap();
    disk.sync_dir(Path::new("/a/b")).unwrap();
    disk.sync_dir(Path::new("/a")).unwrap();
    let seen = outcomes(&disk, |disk| (disk.exists(Path::new("/a")).unwrap(), disk.files().len()));
    assert_eq!(seen, set([(false, 0), (true, 1)]));
    disk.sync_dir(Path::new("/")).unwrap();
    let file = (PathBuf::from("/a/b/f"), 1);
    assert_eq!(outcomes(&disk, SimDisk::files), set([vec![file]]));
}

#[test]
fn replacing_by_rename_leaves_the_old_file_or_the_new_one() {
    let (disk, _) = disk_with(Path::new("/manifest"), b"old");
    put(&disk, Path::new("/new"), b"new").sync_data().unwrap();
    disk.rename(Path::new("/new"), Path::new("/manifest")).unwrap();
    let seen = outcomes(&disk, |disk| content(disk, "/manifest"));
    assert_eq!(seen, set([Some(b"old".to_vec()), Some(b"new".to_vec())]), "platform_disk-3");
    disk.sync_dir(Path::new("/")).unwrap();
    let seen = outcomes(&disk, |disk| (content(disk, "/manifest"), content(disk, "/new")));
    assert_eq!(seen, set([(Some(b"new".to_vec()), None)]), "platform_disk-2");
}

#[test]
fn renames_survive_each_by_itself() {
    let (disk, _) = disk_with(Path::new("/x"), b"1");
    put(&disk, Path::new("/y"), b"2").sync_data().unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk.rename(Path::new("/x"), Path::new("/y")).unwrap();
    disk.rename(Path::new("/y"), Path::new("/z")).unwrap();
    let seen = outcomes(&disk, |disk| {
        let names = ["/x", "/y", "/z"].map(|path| content(disk, path).unwrap_or(b"-".to_vec()));
        String::from_utf8(names.concat()).unwrap()
    });
    assert_eq!(seen, set(["12-", "-1-", "-21", "--1"].map(String::from)), "sim-2");
}

#[test]
fn a_rename_without_a_sync_of_the_file_may_leave_it_empty() {
    let (disk, _) = disk_with(Path::new("/manifest"), b"old");
    put(&disk, Path::new("/new"), b"new");
    disk.rename(Path::new("/new"), Path::new("/manifest")).unwrap();
    assert!(
        outcomes(&disk, |disk| content(disk, "/manifest")).contains(&Some(Vec::new())),
        "platform_disk-3"
    );
}

#[test]
fn removed_names_may_come_back_until_the_folder_is_synced() {
    let (disk, _) = disk_with(Path::new("/f"), b"x");
    disk.remove(Path::new("/f")).unwrap();
    assert_eq!(outcomes(&disk, |disk| content(disk, "/f")), set([None, Some(b"x".to_vec())]));
    disk.sync_dir(Path::new("/")).unwrap();
    assert_eq!(outcomes(&disk, |disk| content(disk, "/f")), set([None]));
}

#[test]
fn syncing_either_folder_makes_a_move_durable() {
    for synced in ["/a", "/b"] {
        let disk = SimDisk::new(1);
        disk.create_dir_all(Path::new("/a")).unwrap();
        disk.create_dir_all(Path::new("/b")).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        put(&disk, Path::new("/a/f"), b"x").sync_data().unwrap();
        disk.rename(Path::new("/a/f"), Path::new("/b/f")).unwrap();
        disk.sync_dir(Path::new(synced)).unwrap();
        let seen = outcomes(&disk, SimDisk::files);
        assert_eq!(seen, set([vec![(PathBuf::from("/b/f"), 1)]]), "{synced}");
    }
}

/// Random operations on names. Each file holds a number of its own, which shows whether a file has
/// two names, and whether everything is durable after a sync of everything.
#[test]
fn a_file_has_one_name_after_any_crash() {
    for seed in 0..25 {
        let mut random = Random(seed);
        let disk = SimDisk::new(seed);
        let dirs = ["/", "/a", "/b"].map(Path::new);
        dirs.iter().for_each(|dir| disk.create_dir_all(dir).unwrap());
        let mut any = || {
            let dir = dirs[usize::try_from(random.below(3)).unwrap()];
            (random.below(10), dir.join(format!("f{}", random.below(4))))
        };
        for step in 0_u32..40 {
            let ((kind, path), (_, other)) = (any(), any());
            match kind {
                0..4 => {
                    disk.remove(&path).unwrap();
                    put(&disk, &path, &step.to_le_bytes()).sync_data().unwrap();
                }
                4..7 => drop(disk.rename(&path, &other)),
                7 => disk.remove(&path).unwrap(),
                _ => disk.sync_dir(path.parent().unwrap()).unwrap(),
            }
        }
        let contents = |disk: &SimDisk| -> Vec<(PathBuf, Vec<u8>)> {
            let read = |(path, _): (PathBuf, u64)| (path.clone(), disk.read(&path).unwrap());
            disk.files().into_iter().map(read).collect()
        };
        for survivor in outcomes(&disk, contents) {
            let numbers: BTreeSet<_> = survivor.iter().map(|(_, number)| number).collect();
            assert_eq!(numbers.len(), survivor.len(), "sim_tree-3, seed {seed}: {survivor:?}");
        }
        dirs.iter().for_each(|dir| disk.sync_dir(dir).unwrap());
        assert_eq!(outcomes(&disk, contents), set([contents(&disk)]), "sim-1, seed {seed}");
    }
}

#[test]
fn the_same_seed_gives_the_same_disk() {
    let run = |seed| {
        let disk = SimDisk::new(seed);
        disk.fail_sync_at(3);
        disk.fail_write_at(5);
        for number in 0..9_u64 {
            let path = PathBuf::from(format!("/f{number}"));
            let file = disk.open(&path, OpenMode::CreateNew).unwrap();
            let _ = file.write_all_at(&[1; 3_000], number * 100);
            if number % 2 == 0 {
                let _ = file.sync_data();
            }
        }
        let survivor = disk.after_power_loss();
        let read = |(path, _): (PathBuf, u64)| (survivor.read(&path).unwrap(), path);
        survivor.files().into_iter().map(read).collect::<Vec<_>>()
    };
    assert_eq!(run(5), run(5), "sim-3");
    assert_ne!(run(5), run(6));
}

#[test]
fn nothing_works_after_the_crash() {
    for crash_at in 0..=4 {
        let (disk, file) = disk_with(Path::new("/f"), b"old");
        let before = disk.syncs();
        disk.crash_at_sync(crash_at);
        let mut done = 0;
        for step in 1..=3_u8 {
            let written = file.write_all_at(&[step], 0).and_then(|()| file.sync_data());
            let synced = written.and_then(|()| disk.sync_dir(Path::new("/")));
            match synced {
                Ok(()) => done = step,
                Err(error) => assert!(error.is_crashed(), "{error:?}"),
            }
        }
        assert_eq!(u64::from(done), if crash_at == 0 { 0 } else { (crash_at - 1) / 2 }.min(3));
        if crash_at != 0 && crash_at <= 6 {
            assert_eq!(disk.syncs(), before + crash_at, "the crashed one counts");
        }
        assert!(disk.read(Path::new("/f")).is_err_and(|e| e.is_crashed()));
        assert!(disk.lock(Path::new("/lock")).is_err_and(|e| e.is_crashed()));
        assert!(disk.rename(Path::new("/f"), Path::new("/g")).is_err_and(|e| e.is_crashed()));
        assert!(file.len().is_err_and(|e| e.is_crashed()));
        assert!(file.map().is_err_and(|e| e.is_crashed()));
        let survivor = disk.after_power_loss();
        let first = content(&survivor, "/f").unwrap()[0];
        let allowed = [if done == 0 { b'o' } else { done }, done + 1];
        assert!(allowed.contains(&first), "crash at {crash_at}: {first}, sim-1");
        drop(survivor.lock(Path::new("/lock")).unwrap());
    }
}

#[test]
fn a_failed_sync_is_not_made_up_for() {
    let (disk, file) = disk_with(Path::new("/f"), b"old");
    file.write_all_at(b"new", 0).unwrap();
    disk.fail_sync_at(2);
    disk.sync_dir(Path::new("/")).unwrap();
    let error = file.sync_data().unwrap_err();
    assert!(!error.is_crashed() && !error.is_no_space(), "{error:?}");
    file.sync_data().unwrap();
    assert_eq!(content(&disk, "/f"), Some(b"new".to_vec()), "reading shows what is in memory");

    let after = |seed| {
        let disk = SimDisk::new(seed);
        let file = put(&disk, Path::new("/f"), b"new");
        disk.sync_dir(Path::new("/")).unwrap();
        disk.fail_sync_at(1);
        assert!(file.sync_data().is_err());
        file.sync_data().unwrap();
        content(&disk.after_power_loss(), "/f").unwrap()
    };
    let seen = set((0..50).map(after));
    assert_eq!(seen, set([Vec::new(), b"\0\0\0".to_vec(), b"new".to_vec()]));
}

#[test]
fn a_failed_folder_sync_is_not_made_up_for() {
    let after = |seed| {
        let disk = SimDisk::new(seed);
        put(&disk, Path::new("/f"), b"x").sync_data().unwrap();
        disk.fail_sync_at(1);
        assert!(disk.sync_dir(Path::new("/")).is_err());
        disk.sync_dir(Path::new("/")).unwrap();
        content(&disk.after_power_loss(), "/f")
    };
    assert_eq!(set((0..50).map(after)), set([None, Some(b"x".to_vec())]));
}

#[test]
fn a_failed_write_may_be_there_in_part() {
    let after = |seed| {
        let disk = SimDisk::new(seed);
        disk.fail_write_at(2);
        let file = put(&disk, Path::new("/f"), b"1");
        assert!(file.write_all_at(&[b'2'; 1_200], 1).is_err_and(|e| !e.is_no_space()));
        let seen = content(&disk, "/f").unwrap();
        file.write_all_at(b"x", 0).unwrap();
        seen.len()
    };
    // Sectors are written as a whole, or not at all.
    assert_eq!(set((0..50).map(after)), set([1, 512, 1_024]));
}

#[test]
fn any_call_fails_that_is_told_to_and_does_nothing() {
    let (disk, file) = disk_with(Path::new("/f"), b"old");
    let path = Path::new("/f");
    let all: [(SimCall, &dyn Fn() -> bool); 14] = [
        (SimCall::Open, &|| disk.open(path, OpenMode::Read).is_ok()),
        (SimCall::Create, &|| disk.open(path, OpenMode::CreateOrTruncate).is_ok()),
        (SimCall::Stat, &|| disk.exists(path).is_ok()),
        (SimCall::List, &|| disk.list(Path::new("/")).is_ok()),
        (SimCall::MakeDir, &|| disk.create_dir_all(Path::new("/d")).is_ok()),
        (SimCall::Rename, &|| disk.rename(path, Path::new("/g")).is_ok()),
        (SimCall::Remove, &|| disk.remove(path).is_ok()),
        (SimCall::Read, &|| file.read_at(&mut [0], 0).is_ok()),
        (SimCall::Map, &|| file.map().is_ok()),
        (SimCall::Write, &|| file.write_all_at(b"new", 0).is_ok()),
        (SimCall::Resize, &|| file.set_len(1).is_ok()),
        (SimCall::Sync, &|| file.sync_data().is_ok()),
        (SimCall::SyncDir, &|| disk.sync_dir(Path::new("/")).is_ok()),
        (SimCall::Lock, &|| disk.lock(Path::new("/lock")).is_ok()),
    ];
    for (call, does) in all {
        for errno in SimErrno::ALL {
            let before = disk.calls(call);
            disk.fail_call_at(call, 1, errno, true);
            assert!(!does() && !does(), "sim-4: {call:?}");
            assert_eq!(disk.calls(call), before + 2);
            disk.clear_faults();
            assert_eq!(content(&disk, "/f"), Some(b"old".to_vec()), "sim-4: {call:?}");
            assert_eq!(disk.files().len(), 1, "sim-4: {call:?}");
        }
    }
    disk.fail_call_at(SimCall::Read, 2, SimErrno::Io, false);
    let reads = [(); 3].map(|()| file.read_at(&mut [0], 0).is_ok());
    assert_eq!(reads, [true, false, true]);
}

// Writes around the page cache and through an io_uring were not simulated: an import that synced a
// file before the last of its writes had completed would have passed every test.
#[cfg(target_os = "linux")]
#[test]
fn writes_in_flight_are_not_covered_by_a_sync() {
    let bytes = vec![7; 512 << 10];
    let survivors = |waits: bool| {
        let survives = |seed| {
            let disk = SimDisk::new(seed);
            let file = disk.open(Path::new("/f"), OpenMode::CreateNew).unwrap();
            disk.sync_dir(Path::new("/")).unwrap();
            let io = IoChoice::Simulated { seed };
            let mut queue = WriteQueue::around_cache(io, 4).unwrap();
            for piece in 0..3 {
                queue.write(&file, bytes.clone(), piece << 19).unwrap();
            }
            if waits {
                queue.flush().unwrap();
            }
            file.sync_data().unwrap();
            let after = disk.after_power_loss();
            after.read(Path::new("/f")).unwrap() == bytes.repeat(3)
        };
        set((0..50).map(survives))
    };
    assert_eq!(survivors(true), set([true]), "sim-1");
    assert_eq!(survivors(false), set([false]), "ring-1");
}

#[test]
fn a_write_around_the_cache_wants_alignment() {
    let disk = SimDisk::new(1);
    let file = disk.open(Path::new("/f"), OpenMode::CreateNew).unwrap();
    let around = file.around_cache().unwrap();
    assert!(around.write_all_at(&[1; 100], 0).is_err());
    let page = tidegate_platform::AlignedBuffer::new(4_096);
    around.write_all_at(&page, 4_096).unwrap();
    assert!(around.write_all_at(&page, 512).is_err());
    assert_eq!(file.len().unwrap(), 8_192);
}

#[test]
fn a_full_disk_says_so() {
    let disk = SimDisk::new(1);
    disk.set_capacity(10);
    let first = put(&disk, Path::new("/a"), b"123456");
    let second = disk.open(Path::new("/b"), OpenMode::CreateNew).unwrap();
    assert!(second.write_all_at(b"123456", 0).is_err_and(|e| e.is_no_space()));
    assert_eq!(second.len().unwrap(), 4, "what fits is written");
    assert!(second.allocate(5).is_err_and(|e| e.is_no_space()));
    assert!(second.set_len(5).is_err_and(|e| e.is_no_space()));
    assert!(second.write_all_at(b"x", 1 << 40).is_err_and(|e| e.is_no_space()));
    first.write_all_at(b"xxxxxx", 0).unwrap();
    disk.remove(Path::new("/a")).unwrap();
    second.write_all_at(b"1234567890", 0).unwrap();
    disk.set_capacity(100);
    second.allocate(100).unwrap();
}

#[test]
fn corruption_and_truncation_are_for_good() {
    let (disk, file) = disk_with(Path::new("/f"), b"abcd");
    disk.corrupt(Path::new("/f"), 1, 0x20);
    disk.truncate(Path::new("/f"), 3);
    assert_eq!(content(&disk, "/f"), Some(b"aBc".to_vec()));
    assert_eq!(outcomes(&disk, |disk| content(disk, "/f")), set([Some(b"aBc".to_vec())]));
    file.write_all_at(b"xyz", 0).unwrap();
    disk.corrupt(Path::new("/f"), 0, 0x20);
    disk.truncate(Path::new("/f"), 2);
    let seen = outcomes(&disk, |disk| content(disk, "/f").unwrap());
    assert_eq!(seen, set([b"AB".to_vec(), b"Xy".to_vec()]));
}

#[test]
fn relative_paths_begin_at_the_root() {
    let disk = SimDisk::new(1);
    disk.create_dir_all(Path::new("db/wal")).unwrap();
    put(&disk, Path::new("db/./wal/../f"), b"x");
    assert_eq!(disk.files(), [(PathBuf::from("/db/f"), 1)]);
    assert_eq!(content(&disk, "/db/f"), content(&disk, "db/f"));
}

#[test]
fn an_action_before_an_open_runs_once_before_it() {
    let disk = SimDisk::new(1);
    let other = disk.clone();
    let mode = OpenMode::CreateOrTruncate;
    disk.before_open(mode, ".b", move || drop(put(&other, Path::new("/other"), b"was here")));
    put(&disk, Path::new("/x.a"), b"");
    assert_eq!(content(&disk, "/x.b"), None);
    assert_eq!(content(&disk, "/other"), None);
    put(&disk, Path::new("/x.b"), b"");
    assert_eq!(content(&disk, "/other"), Some(b"was here".to_vec()));
    disk.remove(Path::new("/other")).unwrap();
    put(&disk, Path::new("/y.b"), b"");
    assert_eq!(content(&disk, "/other"), None);
}
