//! Exact inputs in memory: files without a name that the driver inherits at its start, and that are filled and sealed when
//! their invocation comes.

use std::io;
use std::os::fd::OwnedFd;

#[cfg(target_os = "linux")]
pub(crate) use linux::MemoryInputs;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::MemoryInputs;

/// The most of them; what a driver inherits is bounded, and the companion stream is one of it.
pub const MAX_MEMORY_INPUTS: usize = 7;

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::VecDeque;
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;

    use rustix::fs::{MemfdFlags, Mode, SealFlags, fchmod, fcntl_add_seals, memfd_create};

    use super::{OwnedFd, io};

    /// Those that wait for their invocation, with the descriptor that each has in the driver.
    #[derive(Debug, Default)]
    pub(crate) struct MemoryInputs(VecDeque<(File, usize)>);

    impl MemoryInputs {
        /// Makes `count` of them. The driver's ends come beside, which are to be inherited as `first` and up.
        pub(crate) fn make(count: usize, first: usize) -> io::Result<(Self, Vec<OwnedFd>)> {
            let mut inputs = Self::default();
            let mut inherited = Vec::with_capacity(count);
            for number in 0..count {
                let ours = memfd_create("exact-input", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
                // For its owner to read: opened again by its name below /proc it cannot be written to either.
                fchmod(&ours, Mode::RUSR)?;
                let ours = File::from(ours);
                let theirs = File::open(format!("/proc/self/fd/{}", ours.as_raw_fd()))?;
                inputs.0.push_back((ours, first + number));
                inherited.push(theirs.into());
            }
            Ok((inputs, inherited))
        }

        /// Fills and seals the next one, and says where the driver finds it. `None` when all are used.
        pub(crate) fn fill(&mut self, bytes: &[u8]) -> io::Result<Option<String>> {
            let Some((file, number)) = self.0.pop_front() else { return Ok(None) };
            file.write_all_at(bytes, 0)?;
            fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
            // Whoever wrote to it before it was sealed is found out now; after it nobody can.
            let mut sealed = Vec::with_capacity(bytes.len());
            io::Read::read_to_end(&mut &file, &mut sealed)?;
            if sealed != bytes {
                return Err(io::Error::other("somebody else wrote to it"));
            }
            Ok(Some(format!("/proc/self/fd/{number}")))
        }
    }

    #[cfg(test)]
    mod tests {
        use std::os::fd::AsRawFd;

        use super::*;

        #[test]
        fn an_input_is_given_as_it_is_and_cannot_be_changed() {
            let (mut inputs, theirs) = MemoryInputs::make(1, 4).expect("a file");
            let theirs = File::from(theirs.into_iter().next().expect("one"));
            assert!(theirs.write_at(b"x", 0).is_err());
            assert_eq!(inputs.fill(b"exact").expect("filled").as_deref(), Some("/proc/self/fd/4"));
            assert_eq!(inputs.fill(b"more").expect("none is left"), None);
            let again = format!("/proc/self/fd/{}", theirs.as_raw_fd());
            assert_eq!(std::fs::read(&again).expect("readable"), b"exact");
            if let Ok(writable) = File::options().write(true).open(&again) {
                // The superuser opens what it likes, and writes nothing to what is sealed.
                assert!(writable.write_at(b"x", 0).is_err());
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use super::{OwnedFd, io};

    /// There are none on this system.
    #[derive(Debug, Default)]
    pub(crate) struct MemoryInputs;

    impl MemoryInputs {
        pub(crate) fn make(count: usize, _first: usize) -> io::Result<(Self, Vec<OwnedFd>)> {
            if count == 0 { Ok((Self, Vec::new())) } else { Err(io::ErrorKind::Unsupported.into()) }
        }

        pub(crate) fn fill(&mut self, _bytes: &[u8]) -> io::Result<Option<String>> {
            Ok(None)
        }
    }
}
