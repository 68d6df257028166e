//! What the fake peers need of the system that has no safe wrapper.

#![expect(unsafe_code, reason = "signal dispositions and CPU time have no safe wrapper")]

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
