//! The calls of the C library that `std` does not wrap, each as a safe function.

#![expect(unsafe_code, reason = "the C library is called here")]

use std::ffi::CString;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Reserves space for `0..bytes` and makes the file at least that long; `false` if the file
/// system cannot.
#[cfg(target_os = "linux")]
pub(crate) fn allocate(fd: RawFd, bytes: u64) -> io::Result<bool> {
    if bytes == 0 {
        return Ok(true);
    }
    let length = offset_of(bytes)?;
    loop {
        // SAFETY: no memory is passed; a bad descriptor is an error.
        if unsafe { libc::fallocate(fd, 0, 0, length) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => return Ok(false),
            _ => return Err(error),
        }
    }
}

/// See the Linux version; no other file system supports it here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn allocate(_fd: RawFd, _bytes: u64) -> io::Result<bool> {
    Ok(false)
}

/// Raises the limit of open files and sockets as far as the system permits, and returns the new
/// limit.
pub(crate) fn raise_descriptor_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is ours and is written as a whole.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` is only read.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(limit.rlim_cur)
}

/// Stops the use of huge pages for this process from now on; `false` if the kernel refuses.
#[cfg(target_os = "linux")]
pub(crate) fn turn_huge_pages_off() -> bool {
    // SAFETY: no memory is passed.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0 }
}

/// Raises the niceness of the calling thread by this much.
#[cfg(target_os = "linux")]
pub(crate) fn lower_thread_priority(by: libc::c_int) {
    // SAFETY: no memory is passed. On Linux the value belongs to the thread, not the process.
    unsafe { libc::nice(by) };
}

/// The id of the calling thread.
#[cfg(target_os = "linux")]
pub(crate) fn thread_id() -> libc::pid_t {
    // SAFETY: no memory is passed, and the call cannot fail.
    unsafe { libc::gettid() }
}

/// The CPU time of a thread of this process.
#[cfg(target_os = "linux")]
pub(crate) fn thread_cpu_time(thread: libc::pid_t) -> io::Result<std::time::Duration> {
    // The kernel's clock id of a thread: CPUCLOCK_PERTHREAD and CPUCLOCK_SCHED.
    let clock = (!thread << 3) | 0b110;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours and is written as a whole; a thread that has ended is an error.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Ok(std::time::Duration::new(seconds, nanos))
}

/// Sets the niceness of a thread of this process; does nothing if the thread has ended, or if it is
/// not permitted.
#[cfg(target_os = "linux")]
pub(crate) fn set_thread_niceness(thread: libc::pid_t, niceness: libc::c_int) {
    let Ok(thread) = libc::id_t::try_from(thread) else { return };
    // SAFETY: no memory is passed. On Linux the value belongs to the thread, not the process.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, thread, niceness) };
}

/// The niceness of the first thread of this process.
#[cfg(target_os = "linux")]
pub(crate) fn process_niceness() -> libc::c_int {
    // SAFETY: no memory is passed, and the call cannot fail.
    thread_niceness(unsafe { libc::getpid() })
}

/// The niceness of a thread of this process.
#[cfg(target_os = "linux")]
pub(crate) fn thread_niceness(thread: libc::pid_t) -> libc::c_int {
    let thread = libc::id_t::try_from(thread).expect("ids are positive");
    // SAFETY: no memory is passed.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, thread) }
}

/// Starts writing back a range of the page cache.
#[cfg(target_os = "linux")]
pub(crate) fn start_writeback(fd: RawFd, offset: u64, bytes: u64) -> io::Result<()> {
    if bytes == 0 {
        return Ok(()); // The call would take it for "to the end".
    }
    let (offset, length) = (offset_of(offset)?, offset_of(bytes)?);
    // SAFETY: no memory is passed; a bad descriptor is an error.
    let status = unsafe { libc::sync_file_range(fd, offset, length, libc::SYNC_FILE_RANGE_WRITE) };
    if status == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // A hint that the system cannot take is not an error.
        Some(libc::EINTR | libc::ESPIPE | libc::EOPNOTSUPP | libc::ENOSYS) => Ok(()),
        _ => Err(error),
    }
}

/// See the Linux version; there is no such hint here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn start_writeback(_fd: RawFd, _offset: u64, _bytes: u64) -> io::Result<()> {
    Ok(())
}

/// Drops the clean pages of a file from the page cache.
#[cfg(target_os = "linux")]
pub(crate) fn drop_cache(fd: RawFd) -> io::Result<()> {
    // SAFETY: no memory is passed; a bad descriptor is an error.
    match unsafe { libc::posix_fadvise(fd, 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)), // The call does not set `errno`.
    }
}

/// See the Linux version; there is no such hint here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn drop_cache(_fd: RawFd) -> io::Result<()> {
    Ok(())
}

/// The bytes that an ordinary user may still write to the file system that holds `path`, and its
/// size.
pub(crate) fn disk_bytes(path: &Path) -> io::Result<(u64, u64)> {
    let path = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: `statvfs` is plain integers, for which zeros are a value.
    let mut answer: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `path` ends with a NUL, and `answer` is ours to write.
    if unsafe { libc::statvfs(path.as_ptr(), &raw mut answer) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let [available, all, unit] = [answer.f_bavail, answer.f_blocks, answer.f_frsize].map(u64::from);
    Ok((available.saturating_mul(unit), all.saturating_mul(unit)))
}

/// The memory of the machine, used or free; 0 if the system does not report it.
pub(crate) fn physical_memory_bytes() -> u64 {
    // SAFETY: `sysconf` takes a number and returns one.
    let (pages, page_bytes) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    let positive = |answer| u64::try_from(answer).unwrap_or(0);
    positive(pages).saturating_mul(positive(page_bytes))
}

/// The maximal resident memory of this process so far.
#[cfg(not(target_os = "linux"))]
pub(crate) fn rss_max_bytes() -> u64 {
    // SAFETY: `rusage` is plain integers, for which zeros are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is ours to write.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) } != 0 {
        return 0;
    }
    let unit = if cfg!(target_vendor = "apple") { 1 } else { 1024 };
    u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(unit)
}

/// A file offset in the type of the kernel.
#[cfg(target_os = "linux")]
fn offset_of(bytes: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))
}
