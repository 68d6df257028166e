//! Invariant 1, seen from cargo: what the deciding crates may not have below them, and who may depend on whom.

use std::path::Path;
use std::process::Command;

/// The crates that decide, and what none of them may reach through a normal dependency.
pub const PURE: [&str; 4] = ["pintle-wire", "pintle-driver", "pintle-acp", "pintle-pointer"];
/// Crates whose presence below a deciding crate means that it can touch the world.
pub const FORBIDDEN_BELOW_PURE: [&str; 12] = [
    "tokio",
    "tokio-util",
    "rustix",
    "tempfile",
    "libc",
    "nix",
    "mio",
    "getrandom",
    "jiff",
    "etcetera",
    "pintle-store",
    "pintle-sdk",
];

/// The drawing of the design, as edges: a crate and our crates that it may use directly.
pub const MAY_USE: [(&str, &[&str]); 8] = [
    ("pintle-wire", &[]),
    ("pintle-driver", &["pintle-wire"]),
    ("pintle-acp", &["pintle-wire"]),
    ("pintle-pointer", &["pintle-wire"]),
    ("pintle-store", &["pintle-wire", "pintle-pointer"]),
    ("pintle-sdk", &["pintle-wire", "pintle-driver", "pintle-acp", "pintle-store"]),
    ("pintle-check", &["pintle-wire", "pintle-driver", "pintle-acp", "pintle-store", "pintle-sdk"]),
    (
        "pintle",
        &["pintle-wire", "pintle-driver", "pintle-acp", "pintle-pointer", "pintle-store", "pintle-sdk", "pintle-check"],
    ),
];

/// The names of the packages below `package` through normal dependencies, at most `depth` levels down.
pub fn below(root: &Path, package: &str, depth: Option<u32>) -> Result<Vec<String>, String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(["tree", "--offline", "--locked", "-e", "normal", "--prefix", "none", "-f", "{p}"]);
    command.args(["-p", package]);
    if let Some(depth) = depth {
        command.args(["--depth", &depth.to_string()]);
    }
    let output = command.output().map_err(|e| format!("failed to run cargo tree: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo tree -p {package}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut names: Vec<String> =
        text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// Every breach of the layering, one line each.
pub fn breaches(root: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for package in PURE {
        let names = below(root, package, None)?;
        for bad in FORBIDDEN_BELOW_PURE {
            if names.iter().any(|name| name == bad) {
                found.push(format!("{package} decides and does no IO, but has {bad} below it"));
            }
        }
    }
    for (package, allowed) in MAY_USE {
        for name in below(root, package, Some(1))? {
            let ours = name == "pintle" || name.starts_with("pintle-");
            if ours && !allowed.contains(&name.as_str()) {
                found.push(format!("{package} may not use {name} (ARCHITECTURE.md, code map)"));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Invariant 1: the deciding crates have no runtime and no system calls below them.
    #[test]
    fn deciding_crates_touch_nothing_and_arrows_point_down() {
        let found = breaches(&crate::root()).expect("cargo tree runs");
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    /// The check itself can fail: the library that touches the world does have what is forbidden above.
    #[test]
    fn the_check_sees_a_runtime_where_there_is_one() {
        let names = below(&crate::root(), "pintle-sdk", None).expect("cargo tree runs");
        assert!(names.iter().any(|name| name == "tokio"), "{names:?}");
    }
}
