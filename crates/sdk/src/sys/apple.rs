//! What neither std nor rustix offers on macOS. The one module of this crate that may be unsafe, there.

#![expect(unsafe_code, reason = "mkfifo and tokio's registration of descriptors have no safe wrapper")]

use std::{
    ffi::CString,
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
};

use tokio::io::{Interest, unix::AsyncFd};

/// A descriptor whose readiness can be awaited. It comes back where the kernel cannot poll it, as with a regular file.
pub(crate) fn watch(fd: OwnedFd, interest: Interest) -> Result<AsyncFd<OwnedFd>, (OwnedFd, io::Error)> {
    // SAFETY: an `OwnedFd` is open for as long as it lives, always gives the same number, and the `AsyncFd` takes it.
    unsafe { AsyncFd::register_with_interest(fd, interest) }.map_err(|refused| refused.into_parts())
}

/// Makes a FIFO that its owner may open.
pub(crate) fn make_fifo(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path ends in NUL and outlives the call.
    let made = unsafe { libc::mkfifo(path.as_ptr(), libc::S_IRUSR | libc::S_IWUSR) };
    if made == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
