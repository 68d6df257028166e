//! What the fake peers need of the system that has no safe wrapper.

#![expect(unsafe_code, reason = "signal dispositions have no safe wrapper")]

/// Ignores SIGTERM, in this process and in those that it starts.
pub fn ignore_term() {
    // SAFETY: no handler is installed; the disposition is a constant.
    unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
}
