//! What a hostile driver tries, one attempt at a time. Each answers what came of it: `ok` with what it got, or the name of
//! the error.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::net::{AddressFamily, Protocol, SocketType, socket};
use rustix::process::{Pid, Signal, kill_process};

/// The first argument of a process that is started by one of these attempts.
pub const CHILD: &str = "escape-child";

/// Makes an attempt: its name, and what it is about. `Err` tells the error's name.
pub fn attempt(name: &str, about: &str) -> Result<String, String> {
    let done = match name {
        "read" => fs::read(about).map(|bytes| format!("{} bytes", bytes.len())),
        "list" => fs::read_dir(about).map(|entries| format!("{} entries", entries.count())),
        "write" => fs::write(about, "written").map(|()| String::new()),
        "truncate" => File::options().write(true).truncate(true).open(about).map(|_| String::new()),
        "remove" => fs::remove_file(about).map(|()| String::new()),
        "link" => fs::hard_link(about, "linked").map(|()| String::new()),
        "exec" => {
            Command::new(about).stdin(Stdio::null()).stdout(Stdio::null()).status().map(|status| status.to_string())
        }
        "exec-copy" => exec_copy(Path::new(about)),
        "tcp" => TcpStream::connect(about).map(|_| String::new()),
        "udp" => UdpSocket::bind("127.0.0.1:0").and_then(|udp| udp.send_to(b"x", about)).map(|_| String::new()),
        "unix" => UnixStream::connect(about).map(|_| String::new()),
        "netlink" => made(AddressFamily::NETLINK, SocketType::RAW, None),
        "raw" => made(AddressFamily::INET, SocketType::RAW, Some(rustix::net::ipproto::ICMP)),
        "mptcp" => made(AddressFamily::INET, SocketType::STREAM, Some(rustix::net::ipproto::MPTCP)),
        "pair" => UnixStream::pair().map(|_| String::new()),
        "io_uring" => crate::sys::io_uring().map(|()| String::new()),
        "signal" => signal(about),
        "limit" => raise_limit(),
        "mount" => crate::sys::mount_tmpfs(about).map(|()| String::new()),
        "allocate" => allocate(about),
        "file" => about.parse().map_err(io::Error::other).and_then(|bytes| one_file("large", bytes)),
        "files" => about.parse().map_err(io::Error::other).and_then(files),
        "fork" => about.parse().map_err(io::Error::other).and_then(fork),
        "detach" => detach(about),
        "processes" => processes(),
        // Until it is killed.
        "hold" => loop {
            std::thread::park();
        },
        other => Err(io::Error::other(format!("no such attempt: {other}"))),
    };
    done.map_err(|error| match error.raw_os_error() {
        Some(code) => rustix::io::Errno::from_raw_os_error(code).to_string(),
        None => error.to_string(),
    })
}

/// The life of a process that an attempt has started: `hold`, `detach WHAT`, `write`, all of which say `ready` first. It
/// ends by nobody's will but its killer's.
pub fn child(words: &[String]) -> ! {
    crate::sys::ignore_term();
    match words.first().map(String::as_str) {
        Some("detach") => {
            let _ = rustix::process::setsid();
            // The one in between ends, so that nobody knows whose child the other one was.
            match start(&words[1..], Stdio::inherit(), true) {
                Ok(_) => end(0),
                Err(_) => end(1),
            }
        }
        Some("write") => {
            ready();
            loop {
                let _ = fs::create_dir_all("home/again").and_then(|()| fs::write("home/again/file", "still here"));
            }
        }
        _ => {
            ready();
            loop {
                std::thread::park();
            }
        }
    }
}

#[expect(clippy::exit, reason = "it is a program of its own")]
fn end(code: i32) -> ! {
    std::process::exit(code)
}

fn ready() {
    let mut stdout = io::stdout();
    let _ = stdout.write_all(b"ready\n").and_then(|()| stdout.flush());
}

/// Starts this program again. With `keep` the descriptor of the companion stream stays open in it.
fn start(words: &[String], stdout: Stdio, keep: bool) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(CHILD).args(words).stdin(Stdio::null()).stdout(stdout).stderr(Stdio::null());
    if !keep {
        command.process_group(0);
    }
    command.spawn()
}

/// A process in a session of its own, whose parent is gone, and that has all that this one has. Waits until it runs, and
/// until the one in between has ended, so that who counts the processes now finds none that is about to end.
fn detach(what: &str) -> io::Result<String> {
    let (mut reader, writer) = io::pipe()?;
    let mut between = start(&["detach".to_owned(), what.to_owned()], writer.into(), true)?;
    let mut line = [0; 6];
    reader.read_exact(&mut line)?;
    between.wait()?;
    Ok(String::new())
}

fn fork(count: usize) -> io::Result<String> {
    for number in 0..count {
        let (mut reader, writer) = io::pipe()?;
        start(&["hold".to_owned()], writer.into(), false)
            .and_then(|_| reader.read_exact(&mut [0; 6]))
            .map_err(|error| io::Error::other(format!("{number} of {count}: {error}")))?;
    }
    Ok(format!("{count} started"))
}

/// A copy of an allowed program, where one may write.
fn exec_copy(program: &Path) -> io::Result<String> {
    let copy = std::env::current_dir()?.join("copy");
    fs::copy(program, &copy)?;
    fs::set_permissions(&copy, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    Command::new(&copy).stdin(Stdio::null()).stdout(Stdio::null()).status().map(|status| status.to_string())
}

fn made(family: AddressFamily, kind: SocketType, protocol: Option<Protocol>) -> io::Result<String> {
    Ok(socket(family, kind, protocol).map(|_| String::new())?)
}

fn signal(pid: &str) -> io::Result<String> {
    let pid = pid.parse().ok().and_then(Pid::from_raw).ok_or_else(|| io::Error::other("no process id"))?;
    Ok(kill_process(pid, Signal::CONT).map(|()| String::new())?)
}

fn raise_limit() -> io::Result<String> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let none = Rlimit { current: None, maximum: None };
    Ok(setrlimit(Resource::Fsize, none).map(|()| String::new())?)
}

/// Memory that is really asked of the system.
fn allocate(bytes: &str) -> io::Result<String> {
    let bytes: usize = bytes.parse().map_err(io::Error::other)?;
    let mut memory: Vec<u8> = Vec::new();
    memory.try_reserve_exact(bytes).map_err(io::Error::other)?;
    Ok(format!("{} bytes", memory.capacity()))
}

fn one_file(name: &str, bytes: usize) -> io::Result<String> {
    let mut file = File::create(name)?;
    let chunk = [b'x'; 64 << 10];
    let mut left = bytes;
    while left > 0 {
        let count = left.min(chunk.len());
        file.write_all(&chunk[..count])?;
        left -= count;
    }
    Ok(format!("{bytes} bytes"))
}

/// So many bytes in files of 1 MiB, each small enough by itself.
fn files(bytes: usize) -> io::Result<String> {
    for number in 0..bytes >> 20 {
        one_file(&format!("part-{number}"), 1 << 20)?;
    }
    Ok(format!("{bytes} bytes"))
}

/// How many processes it can see.
fn processes() -> io::Result<String> {
    let numbers = |entry: &fs::DirEntry| entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok());
    Ok(fs::read_dir("/proc")?.flatten().filter(numbers).count().to_string())
}
