//! What the fake peers need of the system that has no safe wrapper.

#![expect(unsafe_code, reason = "signal dispositions, CPU time, io_uring and mount have no safe wrapper")]

/// Ignores SIGTERM, in this process and in those that it starts.
pub fn ignore_term() {
    // SAFETY: no handler is installed; the disposition is a constant.
    unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
}

/// CPU time of this process, user and system, in microseconds.
pub(crate) fn cpu_us() -> u64 {
    // SAFETY: the structure is plain numbers, for which zero is a value, and the call fills it in or fails.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        if libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) != 0 {
            return 0;
        }
        usage
    };
    let us = |time: libc::timeval| {
        u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(time.tv_usec).unwrap_or(0)
    };
    us(usage.ru_utime) + us(usage.ru_stime)
}

/// Asks for an io_uring with one entry.
#[cfg(target_os = "linux")]
pub(crate) fn io_uring() -> std::io::Result<()> {
    let mut params = [0_u8; 120];
    // SAFETY: `params` has the size that the call fills, and outlives it; the descriptor, if there is one, goes with us.
    let result = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, params.as_mut_ptr()) };
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// Mounts a file system of its own over a directory.
#[cfg(target_os = "linux")]
pub(crate) fn mount_tmpfs(path: &str) -> std::io::Result<()> {
    let path = std::ffi::CString::new(path)?;
    // SAFETY: the strings end in NUL and outlive the call; there is no data.
    let result = unsafe { libc::mount(c"tmpfs".as_ptr(), path.as_ptr(), c"tmpfs".as_ptr(), 0, std::ptr::null()) };
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}
