//! Resources of the machine: memory and cores, within the limits of our control group.
//!
//! All values are read anew. A value that the machine does not report is left out of a minimum, and
//! is 0 where nothing else is known.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::{fs, thread};

use crate::sys;

/// A control group without a limit reports a number near 2^63 (version 1).
const UNLIMITED_BYTES: u64 = 1 << 60;

/// The least of the machine's memory and the limits of our control groups.
pub fn machine_memory_bytes() -> u64 {
    let limits = control_groups().into_iter().filter_map(|group| group.limit_bytes());
    limits.fold(sys::physical_memory_bytes(), u64::min)
}

/// Memory that can be used without displacing other memory of programs or page cache in use.
pub fn available_memory_bytes() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| field_bytes(&text, "MemAvailable:"))
        .unwrap_or_else(sys::physical_memory_bytes);
    let groups = control_groups().into_iter().filter_map(|group| group.available_bytes());
    groups.fold(machine, u64::min)
}

/// The resident anonymous memory of this process: all of it except mapped files. Where the system
/// does not report it, the maximal resident memory so far.
pub fn rss_anon_bytes() -> u64 {
    #[cfg(target_os = "linux")]
    return fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|text| field_bytes(&text, "RssAnon:"))
        .unwrap_or(0);
    #[cfg(not(target_os = "linux"))]
    return sys::rss_max_bytes();
}

/// Number of threads that can run at once, within the limits of our control group.
pub fn cores() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Raises the limit of open files and sockets as far as the system permits; `None` if it refuses.
pub fn raise_descriptor_limit() -> Option<u64> {
    sys::raise_descriptor_limit().ok()
}

/// The niceness of a thread that yields to others: where cores are scarce it gets about a third of
/// the share of another thread.
#[cfg(target_os = "linux")]
const BEHIND_OTHERS: libc::c_int = 5;

/// Lowers the priority of this thread below those of the other threads of the machine, from now on;
/// it is not starved. Where threads have no priority of their own (not Linux), nothing happens.
pub fn let_others_go_first() {
    #[cfg(target_os = "linux")]
    sys::lower_thread_priority(BEHIND_OTHERS);
}

/// A control group that limits the memory of this process, of version 1 or 2 of that interface.
struct ControlGroup {
    dir: PathBuf,
    limit: &'static str,
    usage: &'static str,
    /// The name of the reclaimable page cache in `memory.stat`.
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

    /// The number in a file; `None` also for the word `max`.
    fn number(&self, file: &str) -> Option<u64> {
        fs::read_to_string(self.dir.join(file)).ok()?.trim().parse().ok()
    }
}

fn control_groups() -> Vec<ControlGroup> {
    let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups_of(&membership, Path::new("/sys/fs/cgroup"))
}

/// The groups that `/proc/self/cgroup` names, and their ancestors, which limit us as well.
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
