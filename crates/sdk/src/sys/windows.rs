//! Job objects and what goes with them. The one module of this crate that may be unsafe, on Windows.

#![expect(unsafe_code, reason = "job objects have no safe wrapper")]

use std::{
    io, mem,
    os::windows::io::{AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle},
    ptr,
};

use windows_sys::Win32::{
    Foundation::{ERROR_MORE_DATA, HANDLE},
    System::{
        Console::{CTRL_BREAK_EVENT, GenerateConsoleCtrlEvent},
        Diagnostics::ToolHelp::{
            CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
        },
        JobObjects::{
            AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
            JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectBasicProcessIdList, JobObjectExtendedLimitInformation,
            QueryInformationJobObject, SetInformationJobObject, TerminateJobObject,
        },
        Threading::{CREATE_NEW_PROCESS_GROUP, CREATE_SUSPENDED, OpenThread, ResumeThread, THREAD_SUSPEND_RESUME},
    },
};

/// How a child is made: not running yet, and in a group of its own for Ctrl-Break.
pub(crate) const SUSPENDED_IN_NEW_GROUP: u32 = CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP;

/// What a job object ends its processes with.
const KILLED: u32 = 1;

/// The most processes of a job that are listed.
const MAX_LISTED: usize = 1024;

/// A job object that ends its processes when its last handle is closed.
#[derive(Debug)]
pub(crate) struct Job(OwnedHandle);

#[repr(C)]
struct ProcessIds {
    assigned: u32,
    listed: u32,
    ids: [usize; MAX_LISTED],
}

impl Job {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: neither attributes nor a name are given.
        let raw = unsafe { CreateJobObjectW(ptr::null(), ptr::null()) };
        if raw.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the handle was just made for us, and nobody else has it.
        let job = Self(unsafe { OwnedHandle::from_raw_handle(raw) });
        // SAFETY: all zeros is a valid value of this structure of numbers.
        let mut limits: JOBOBJECT_EXTENDED_LIMIT_INFORMATION = unsafe { mem::zeroed() };
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        // SAFETY: pointer and size are those of `limits`, which outlives the call.
        check(unsafe {
            SetInformationJobObject(
                job.raw(),
                JobObjectExtendedLimitInformation,
                (&raw const limits).cast(),
                size_of_val(&limits) as u32,
            )
        })?;
        Ok(job)
    }

    pub(crate) fn assign(&self, process: BorrowedHandle<'_>) -> io::Result<()> {
        // SAFETY: both handles are open for as long as the call.
        check(unsafe { AssignProcessToJobObject(self.raw(), process.as_raw_handle()) })
    }

    /// Ends everything in the job. One that is empty stays as it is.
    pub(crate) fn terminate(&self) {
        // SAFETY: the handle is open for as long as the call.
        unsafe { TerminateJobObject(self.raw(), KILLED) };
    }

    /// The processes in the job, at most [`MAX_LISTED`].
    pub(crate) fn processes(&self) -> io::Result<Vec<u32>> {
        let mut list = ProcessIds { assigned: 0, listed: 0, ids: [0; MAX_LISTED] };
        // SAFETY: pointer and size are those of `list`, which has the layout that this class of information is written in,
        // and outlives the call.
        let got = check(unsafe {
            QueryInformationJobObject(
                self.raw(),
                JobObjectBasicProcessIdList,
                (&raw mut list).cast(),
                size_of_val(&list) as u32,
                ptr::null_mut(),
            )
        });
        match got {
            Err(error) if error.raw_os_error() != Some(ERROR_MORE_DATA.cast_signed()) => Err(error),
            _ => Ok(list.ids.iter().take(list.listed as usize).map(|id| *id as u32).collect()),
        }
    }

    fn raw(&self) -> HANDLE {
        self.0.as_raw_handle()
    }
}

/// Lets a process run that was made suspended: resumes each of its threads, which is one.
pub(crate) fn resume(pid: u32) -> io::Result<()> {
    // SAFETY: a snapshot of threads takes no pointer.
    let raw = unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0) };
    if raw as isize == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the handle was just made for us, and nobody else has it.
    let snapshot = unsafe { OwnedHandle::from_raw_handle(raw) };
    // SAFETY: all zeros is a valid value of this structure of numbers.
    let mut entry: THREADENTRY32 = unsafe { mem::zeroed() };
    entry.dwSize = size_of::<THREADENTRY32>() as u32;
    let mut resumed = false;
    // SAFETY: the snapshot is open, and `entry` has the size that it says.
    let mut more = unsafe { Thread32First(snapshot.as_raw_handle(), &raw mut entry) };
    while more != 0 {
        if entry.th32OwnerProcessID == pid {
            // SAFETY: no pointer is passed; a thread that is gone is refused.
            let raw = unsafe { OpenThread(THREAD_SUSPEND_RESUME, 0, entry.th32ThreadID) };
            if raw.is_null() {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: the handle was just made for us, and nobody else has it.
            let thread = unsafe { OwnedHandle::from_raw_handle(raw) };
            // SAFETY: the handle is open for as long as the call, with the right that the call needs.
            if unsafe { ResumeThread(thread.as_raw_handle()) } == u32::MAX {
                return Err(io::Error::last_os_error());
            }
            resumed = true;
        }
        // SAFETY: as for the first entry.
        more = unsafe { Thread32Next(snapshot.as_raw_handle(), &raw mut entry) };
    }
    if resumed { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// Sends Ctrl-Break to the group of a process. Without a console there is nobody to take it.
pub(crate) fn ctrl_break(group: u32) {
    // SAFETY: no pointer is passed.
    unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, group) };
}

fn check(result: i32) -> io::Result<()> {
    if result == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
