//! The one function for which the loader would open the system's mathematics library at every start of the program.
//!
//! A statistic in tokio's scheduler is its only user. Loading the library costs the task hook, which runs at every prompt,
//! nine page faults and about a tenth of what an empty program takes; with the symbol here the linker does not ask for it.

/// `base` to the power of `exponent`, as in C.
#[expect(unsafe_code, reason = "a symbol of C, which this program alone sees")]
// SAFETY: signature and meaning are those that C gives the name, so whoever calls it gets what it expects.
#[unsafe(no_mangle)]
extern "C" fn pow(base: f64, exponent: f64) -> f64 {
    libm::pow(base, exponent)
}
