//! What this process has used, for benches.

/// Peak resident memory in KiB; 0 where it cannot be told.
pub fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_whitespace().nth(1)).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

/// CPU time of this process, user and system, in microseconds; 0 where it cannot be told.
pub fn cpu_us() -> u64 {
    #[cfg(unix)]
    return crate::sys::cpu_us();
    #[cfg(not(unix))]
    0
}
