//! Tells the binary what it is built for, and links it without PIE on Linux: relocations of a position-independent binary of this size cost about a
//! millisecond at every start, and the task hook starts it at every prompt.

fn main() {
    println!("cargo::rustc-env=PINTLE_TARGET={}", std::env::var("TARGET").unwrap_or_default());
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
