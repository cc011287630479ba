//! What the machine has: memory and cores, within the limits of our control group.
//!
//! All answers are read anew. A fact that the machine does not tell is left out of a minimum, and
//! is 0 where nothing else is known.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::{fs, thread};

use crate::sys;

/// A control group without a limit says so with a number near 2^63 (version 1).
const UNLIMITED_BYTES: u64 = 1 << 60;

/// The least of the machine's memory and the limits of our control groups.
pub fn machine_memory_bytes() -> u64 {
    let limits = control_groups().into_iter().filter_map(|group| group.limit_bytes());
    limits.fold(sys::physical_memory_bytes(), u64::min)
}

/// What can be used without pushing others out: neither memory of programs nor page cache in use.
pub fn available_memory_bytes() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| field_bytes(&text, "MemAvailable:"))
        .unwrap_or_else(sys::physical_memory_bytes);
    let groups = control_groups().into_iter().filter_map(|group| group.available_bytes());
    groups.fold(machine, u64::min)
}

/// The anonymous memory that this process has resident: all of it but mapped files. Where the
/// system does not tell them apart, the most that was ever resident.
pub fn rss_anon_bytes() -> u64 {
    #[cfg(target_os = "linux")]
    return fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|text| field_bytes(&text, "RssAnon:"))
        .unwrap_or(0);
    #[cfg(not(target_os = "linux"))]
    return sys::rss_max_bytes();
}

/// How many threads can run at once, within the limits of our control group.
pub fn cores() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Lets as many files and sockets be open as the system lets us have; `None` if it says no.
pub fn raise_descriptor_limit() -> Option<u64> {
    sys::raise_descriptor_limit().ok()
}

/// How much lower the priority of a thread is that lets others go first: where cores are scarce it
/// gets about a third of what one of the others gets.
#[cfg(target_os = "linux")]
const BEHIND_OTHERS: libc::c_int = 5;

/// Lets the other threads of the machine go before this one, from now on, where cores are scarce;
/// it is not starved. Where a thread has no priority of its own (not Linux), nothing happens.
pub fn let_others_go_first() {
    #[cfg(target_os = "linux")]
    sys::lower_thread_priority(BEHIND_OTHERS);
}

/// A control group that limits the memory of this process, of either version of that interface.
struct ControlGroup {
    dir: PathBuf,
    limit: &'static str,
    usage: &'static str,
    /// The page cache that can go first, in `memory.stat`.
    reclaimable: &'static str,
}

impl ControlGroup {
    fn limit_bytes(&self) -> Option<u64> {
        self.number(self.limit).filter(|&bytes| bytes < UNLIMITED_BYTES)
    }

    fn available_bytes(&self) -> Option<u64> {
        let statistics = fs::read_to_string(self.dir.join("memory.stat")).unwrap_or_default();
        let reclaimable = field_number(&statistics, self.reclaimable).unwrap_or(0);
        let used = self.number(self.usage)?.saturating_sub(reclaimable);
        Some(self.limit_bytes()?.saturating_sub(used))
    }

    /// `None` also for the word `max`.
    fn number(&self, file: &str) -> Option<u64> {
        fs::read_to_string(self.dir.join(file)).ok()?.trim().parse().ok()
    }
}

fn control_groups() -> Vec<ControlGroup> {
    let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups_of(&membership, Path::new("/sys/fs/cgroup"))
}

/// The groups that `/proc/self/cgroup` names, and those above them, which limit us as well.
fn groups_of(membership: &str, root: &Path) -> Vec<ControlGroup> {
    let mut groups = Vec::new();
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let relative = Path::new(path.trim_start_matches('/'));
        for dir in relative.ancestors() {
            if controllers.is_empty() {
                groups.push(ControlGroup {
                    dir: root.join(dir),
                    limit: "memory.max",
                    usage: "memory.current",
                    reclaimable: "inactive_file",
                });
            } else if controllers.split(',').any(|name| name == "memory") {
                groups.push(ControlGroup {
                    dir: root.join("memory").join(dir),
                    limit: "memory.limit_in_bytes",
                    usage: "memory.usage_in_bytes",
                    reclaimable: "total_inactive_file",
                });
            }
        }
    }
    groups
}

/// The value of a line like `RssAnon:   123 kB`, in bytes.
fn field_bytes(text: &str, name: &str) -> Option<u64> {
    field_number(text, name)?.checked_mul(1024)
}

/// The number after `name` on the line that begins with it.
fn field_number(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::split_ascii_whitespace);
    let mut fields =
        lines.find_map(|mut fields| (fields.next() == Some(name)).then_some(fields))?;
    fields.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "RssAnonymous:  7 kB\nRssAnon:\t  123 kB\nRssFile:  x kB\n";
        assert_eq!(field_bytes(text, "RssAnon:"), Some(123 * 1024));
        assert_eq!(field_bytes(text, "RssFile:"), None);
        assert_eq!(field_bytes(text, "Rss:"), None);
    }

    #[test]
    fn groups_above_ours_count() {
        let dirs = |text: &str| -> Vec<String> {
            let groups = groups_of(text, Path::new("/r"));
            groups.iter().map(|g| g.dir.join(g.limit).display().to_string()).collect()
        };
        assert_eq!(dirs("0::/a/b\n"), ["/r/a/b/memory.max", "/r/a/memory.max", "/r/memory.max"],);
        assert_eq!(dirs("0::/\n"), ["/r/memory.max"]);
        assert_eq!(
            dirs("5:cpu,memory:/a\n4:pids:/b\nnonsense\n"),
            ["/r/memory/a/memory.limit_in_bytes", "/r/memory/memory.limit_in_bytes"],
        );
    }

    #[test]
    fn a_group_is_read_from_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let group = || groups_of("0::/\n", dir.path()).remove(0);
        assert_eq!((group().limit_bytes(), group().available_bytes()), (None, None));
        fs::write(dir.path().join("memory.current"), "700\n").unwrap();
        fs::write(dir.path().join("memory.max"), "max\n").unwrap();
        assert_eq!((group().limit_bytes(), group().available_bytes()), (None, None));
        fs::write(dir.path().join("memory.max"), "1000\n").unwrap();
        fs::write(dir.path().join("memory.stat"), "file 9\ninactive_file 200\n").unwrap();
        assert_eq!((group().limit_bytes(), group().available_bytes()), (Some(1000), Some(500)));
    }

    #[test]
    fn the_machine_answers_plausibly() {
        let touched = std::hint::black_box(vec![1_u8; 8 << 20]);
        assert!((touched.len() as u64) < rss_anon_bytes());
        assert!(rss_anon_bytes() < machine_memory_bytes());
        assert!(available_memory_bytes() <= machine_memory_bytes());
    }
}
