//! Files that survive a crash: the Fs seam, atomic replace, locks, the sanitiser, evidence runs and the pointer store.
