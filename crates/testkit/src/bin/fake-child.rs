//! A badly behaved child: its arguments are a script.
//!
//! | word | what it does |
//! | --- | --- |
//! | `pid NAME` | prints `NAME` and its process id |
//! | `say TEXT`, `mumble TEXT` | prints a line; a line without its end |
//! | `env`, `cwd`, `fds` | prints its variables; its directory; its descriptors beside the standard ones |
//! | `spawn [ .. ]` | starts itself with the script in the brackets, and does not wait; its standard input ends with its parent |
//! | `setsid` | leaves session and group (by a child, where it leads a group) |
//! | `ignore-term` | ignores SIGTERM |
//! | `flood-stderr BYTES` | writes that much to standard error |
//! | `copy FD` | copies standard input to a descriptor, to its end |
//! | `until-eof` | reads standard input to its end |
//! | `chase COUNT` | starts a successor in a session of its own and ends, COUNT times over |
//! | `hold` | does nothing, for ever |
//! | `exit CODE`, `abort` | ends |

#![expect(clippy::print_stdout, reason = "it is a program, and speaks to its test")]

use std::{
    io::{self, Read, Write},
    process::{Command, Stdio},
};

fn main() {
    let script: Vec<String> = std::env::args().skip(1).collect();
    let mut words = script.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let mut next = || words.next().expect("the word takes an argument");
        match word {
            "pid" => println!("{} {}", next(), std::process::id()),
            "say" => println!("{}", next()),
            "mumble" => {
                print!("{}", next());
                io::stdout().flush().expect("stdout");
            }
            "env" => std::env::vars_os().for_each(|(name, value)| println!("{}={}", name.display(), value.display())),
            "cwd" => println!("{}", std::env::current_dir().expect("a directory").display()),
            "fds" => println!("fds {:?}", open_descriptors()),
            "spawn" => {
                let mut depth = 0;
                let mut inner = Vec::new();
                loop {
                    let word = next();
                    depth += i32::from(word == "[") - i32::from(word == "]");
                    inner.push(word);
                    if depth == 0 {
                        break;
                    }
                }
                again(&inner[1..inner.len() - 1], Stdio::inherit());
            }
            "setsid" => {
                rustix::process::setsid().expect("not the leader of a group");
            }
            "ignore-term" => pintle_testkit::ignore_term(),
            "flood-stderr" => {
                let mut left: u64 = next().parse().expect("a number");
                let chunk = [b'x'; 64 * 1024];
                while left > 0 {
                    let count = left.min(chunk.len() as u64);
                    io::stderr().write_all(&chunk[..usize::try_from(count).expect("small")]).expect("stderr");
                    left -= count;
                }
            }
            "copy" => {
                let path = format!("/proc/self/fd/{}", next());
                let mut to = std::fs::File::options().write(true).open(path).expect("the descriptor");
                io::copy(&mut io::stdin().lock(), &mut to).expect("copy");
            }
            "until-eof" => {
                io::copy(&mut io::stdin().lock().by_ref(), &mut io::sink()).expect("stdin");
            }
            "chase" => {
                let count: u32 = next().parse().expect("a number");
                let _ = rustix::process::setsid();
                if count > 0 {
                    again(&["chase", &(count - 1).to_string()], Stdio::null());
                }
                return;
            }
            "hold" => loop {
                std::thread::park();
            },
            "exit" => std::process::exit(next().parse().expect("a number")),
            "abort" => std::process::abort(),
            other => panic!("unknown word {other}"),
        }
    }
}

fn again(script: &[&str], stdout: Stdio) {
    let own = std::env::current_exe().expect("own path");
    let child = Command::new(own).args(script).stdin(Stdio::piped()).stdout(stdout).spawn().expect("spawn");
    // Neither waited for nor closed: its standard input ends when this process does.
    std::mem::forget(child);
}

fn open_descriptors() -> Vec<i32> {
    let listed = std::fs::read_dir("/proc/self/fd").expect("proc");
    let mut fds: Vec<i32> =
        listed.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|fd| *fd > 2).collect();
    fds.sort_unstable();
    // The last is the listing's own.
    fds.pop();
    fds
}
