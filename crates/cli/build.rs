//! Links the binary without PIE on Linux: relocations of a position-independent binary of this size cost about a
//! millisecond at every start, and the task hook starts it at every prompt.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
