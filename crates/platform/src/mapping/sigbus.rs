//! Handler of SIGBUS that names the file whose mapping could not be read, from a table of all
//! mappings.
//!
//! SIGBUS means that a mapped page is not available: the file was truncated, or its disk failed.
//! Execution cannot continue in the code that was reading, so the process ends with a message.
//!
//! - sigbus-1. The handler allocates nothing, locks nothing, and frees nothing.
//! - sigbus-2. A slot is written only under the lock of `VACANT`, with an odd version meanwhile;
//!   the handler trusts only values that it read under one and the same even version.
//! - sigbus-3. A slot is cleared before its pages are unmapped and before its name is freed. So a
//!   slot that holds the address of a failing read does not change while the handler reads it: the
//!   failing thread itself keeps the mapping alive.
//! - Slots are never freed.

#![expect(unsafe_code, reason = "signal handlers and the memory they look at")]

use std::ops::Range;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The exit code of a process that could not read a mapped file.
const EXIT_CODE: libc::c_int = 70;

/// A database of a few hundred segments needs one shelf.
const SHELF_SLOTS: usize = 1024;

static TABLE: Shelf = Shelf::new();
/// Slots without a mapping. The first shelf is added at the first use.
static VACANT: Mutex<Vec<&'static Slot>> = Mutex::new(Vec::new());

struct Shelf {
    slots: [Slot; SHELF_SLOTS],
    next: OnceLock<Box<Shelf>>,
}

/// One mapping, in a form that a signal handler may read (sigbus-2).
struct Slot {
    version: AtomicU64,
    start: AtomicUsize,
    /// Equal to `start` in a vacant slot.
    end: AtomicUsize,
    name: AtomicPtr<u8>,
    name_bytes: AtomicUsize,
}

/// A mapping's entry in the table; dropping it clears the entry.
pub(super) struct Registration {
    slot: &'static Slot,
    name: Box<[u8]>,
}

/// Installs the handler: a failing read of a mapped file ends the process with exit code 70 and a
/// message that names the file. Any other SIGBUS keeps its default action.
pub fn install_sigbus_handler() {
    // SAFETY: `sigaction` is plain integers, for which zeros are a value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_sigbus;
    action.sa_sigaction = handler as libc::sighandler_t;
    // A read may fail deep in a recursion; std gives every thread an alternate stack.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `action` is ours, and `on_sigbus` does only what a handler may do (sigbus-1).
    let status = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) };
    assert_eq!(status, 0, "SIGBUS can be handled");
}

impl Registration {
    pub(super) fn new(pages: Range<*const u8>, name: &[u8]) -> Registration {
        let mut vacant = VACANT.lock().unwrap_or_else(PoisonError::into_inner);
        if vacant.is_empty() {
            vacant.extend(add_shelf());
        }
        let slot = vacant.pop().expect("a new shelf has slots");
        let name: Box<[u8]> = name.into();
        slot.write(pages.start.addr()..pages.end.addr(), &name);
        Registration { slot, name }
    }

    pub(super) fn name(&self) -> &Path {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        Path::new(OsStr::from_bytes(&self.name))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut vacant = VACANT.lock().unwrap_or_else(PoisonError::into_inner);
        self.slot.write(0..0, &[]);
        vacant.push(self.slot);
    }
}

impl Slot {
    const fn new() -> Slot {
        Slot {
            version: AtomicU64::new(0),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            name: AtomicPtr::new(ptr::null_mut()),
            name_bytes: AtomicUsize::new(0),
        }
    }

    /// The caller holds `VACANT` (sigbus-2).
    fn write(&self, addresses: Range<usize>, name: &[u8]) {
        let before = self.version.fetch_add(1, SeqCst);
        assert!(before.is_multiple_of(2), "sigbus-2");
        self.start.store(addresses.start, SeqCst);
        self.end.store(addresses.end, SeqCst);
        self.name.store(name.as_ptr().cast_mut(), SeqCst);
        self.name_bytes.store(name.len(), SeqCst);
        self.version.fetch_add(1, SeqCst);
    }

    /// The name of the mapping, if `address` is in it. A slot that is being written belongs to
    /// another mapping (sigbus-3).
    fn name_of(&self, address: usize) -> Option<(*const u8, usize)> {
        let version = self.version.load(SeqCst);
        let (start, end) = (self.start.load(SeqCst), self.end.load(SeqCst));
        let name = (self.name.load(SeqCst).cast_const(), self.name_bytes.load(SeqCst));
        let is_stable = version.is_multiple_of(2) && self.version.load(SeqCst) == version;
        (is_stable && start <= address && address < end).then_some(name)
    }
}

impl Shelf {
    const fn new() -> Shelf {
        Shelf { slots: [const { Slot::new() }; SHELF_SLOTS], next: OnceLock::new() }
    }
}

/// Makes room for more mappings; the caller holds `VACANT`.
fn add_shelf() -> impl Iterator<Item = &'static Slot> {
    static IS_FIRST_USED: OnceLock<()> = OnceLock::new();
    let mut shelf = &TABLE;
    if IS_FIRST_USED.set(()).is_err() {
        while let Some(next) = shelf.next.get() {
            shelf = next;
        }
        shelf = shelf.next.get_or_init(|| Box::new(Shelf::new()));
    }
    shelf.slots.iter()
}

extern "C" fn on_sigbus(
    signal: libc::c_int,
    details: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: with SA_SIGINFO the kernel hands over a valid `siginfo_t`.
    let (address, code) = unsafe { ((*details).si_addr().addr(), (*details).si_code) };
    let is_from_kernel = 0 < code;
    let mut shelf = Some(&TABLE);
    while let Some(Shelf { slots, next }) = shelf.filter(|_| is_from_kernel) {
        if let Some((name, bytes)) = slots.iter().find_map(|slot| slot.name_of(address)) {
            say(b"tidegate: cannot read ");
            // SAFETY: the name lives as long as its mapping, which is being read (sigbus-3).
            say(unsafe { std::slice::from_raw_parts(name, bytes) });
            say(b": the file was cut or its disk failed (SIGBUS)\n");
            // SAFETY: ends the process without running any other code of it (sigbus-1).
            unsafe { libc::_exit(EXIT_CODE) };
        }
        shelf = next.get().map(|next| &**next);
    }
    // Not our mapping: with the default action restored, the read fails again and ends the process.
    // A signal that another process sent does not recur by itself, so it is raised.
    // SAFETY: both may be called in a handler.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        if !is_from_kernel {
            libc::raise(signal);
        }
    }
}

/// Writes to standard error as much as it accepts.
fn say(text: &[u8]) {
    // SAFETY: `text` is valid for its length, and `write` may be called in a handler.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name that the table has for an address, if any.
    fn lookup(address: usize) -> Option<Vec<u8>> {
        let mut shelf = Some(&TABLE);
        while let Some(Shelf { slots, next }) = shelf {
            if let Some((name, bytes)) = slots.iter().find_map(|slot| slot.name_of(address)) {
                // SAFETY: the tests hold their registrations while they look them up (sigbus-3).
                return Some(unsafe { std::slice::from_raw_parts(name, bytes) }.to_vec());
            }
            shelf = next.get().map(|next| &**next);
        }
        None
    }

    #[test]
    fn a_mapping_is_in_the_table_while_it_lives() {
        // Addresses that no process has, so that other tests do not interfere.
        let pages = |idx: usize| {
            let start = ptr::without_provenance::<u8>((1 << 60) + idx * 4096);
            start..start.wrapping_add(4096)
        };
        let count = 2 * SHELF_SLOTS + 1;
        let mut registrations: Vec<_> = (0..count)
            .map(|idx| Registration::new(pages(idx), format!("file {idx}").as_bytes()))
            .collect();
        for idx in 0..count {
            let name = format!("file {idx}").into_bytes();
            assert_eq!(lookup(pages(idx).start.addr()), Some(name.clone()), "sigbus-3");
            assert_eq!(lookup(pages(idx).end.addr() - 1), Some(name), "sigbus-3");
        }
        assert_eq!(lookup(pages(count).start.addr()), None);
        drop(registrations.remove(7));
        assert_eq!(lookup(pages(7).start.addr()), None, "sigbus-3");
        let again = Registration::new(pages(7), b"again");
        assert_eq!(lookup(pages(7).start.addr()), Some(b"again".to_vec()));
        assert_eq!(again.name(), Path::new("again"));
    }

    /// Runs itself in a child process, because the signal kills the process.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_page_that_is_not_ours_gets_the_default_action() {
        use std::os::unix::process::ExitStatusExt;
        use std::process::Command;

        const CHILD: &str = "TIDEGATE_TEST_SIGBUS_CHILD";
        if std::env::var_os(CHILD).is_none() {
            let name = "mapping::sigbus::tests::a_page_that_is_not_ours_gets_the_default_action";
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", name, "--nocapture"])
                .env(CHILD, "")
                .output()
                .unwrap();
            assert_eq!(child.status.signal(), Some(libc::SIGBUS), "{child:?}");
            assert!(!String::from_utf8_lossy(&child.stderr).contains("tidegate:"), "{child:?}");
            return;
        }
        install_sigbus_handler();
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        // SAFETY: the test cuts the file under the mapping on purpose.
        let pages = unsafe { memmap2::Mmap::map(&file).unwrap() };
        file.set_len(0).unwrap();
        std::hint::black_box(pages[0]);
    }
}
