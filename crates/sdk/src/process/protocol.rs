//! What Core and the keeper say to each other over the keeper's standard input, a Unix stream socket.
//!
//! Core's first message is the order: a big-endian u32 with the length of what follows, one line of JSON ([`Header`]), then
//! strings that each end in NUL: the program, its argv 0, its arguments, its environment as `NAME=VALUE`, its working
//! directory if there is one, that of its FIFO if there is one, the paths of its sandbox if there is one. No string that `execve` takes can have a NUL in it. The descriptors (standard input, output,
//! error, then the extra ones) travel with the length. Nothing of this is on a command line, where everybody could read it.
//!
//! After that Core sends two-byte [`Command`]s, and the keeper answers with one JSON line per [`Status`]. End of input, for
//! whatever reason, is the command to kill everything.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

use super::{
    applied::Applied,
    named_pipe::FileId,
    outcome::{Exit, Found},
    sandbox::{Exceeded, Network, Paths, ResourceLimits, Sandbox},
};

/// Changes when one side would misunderstand the other; a keeper refuses what it does not know.
pub(crate) const VERSION: u32 = 3;

/// The most bytes of an order: twice what Linux lets arguments and environment have by default.
pub(crate) const MAX_ORDER_BYTES: usize = 4 * 1024 * 1024;

/// The most descriptors beyond the three standard ones.
pub(crate) const MAX_EXTRA_FDS: usize = 8;

/// The longest status line; a keeper names at most [`MAX_NAMED`] processes in each list.
pub(crate) const MAX_STATUS_BYTES: usize = 64 * 1024;

/// How many descendants are named; the count goes on.
pub(crate) const MAX_NAMED: usize = 64;

/// What to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) program: PathBuf,
    pub(crate) arg0: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) settle_ms: u64,
    /// A FIFO to be opened for writing, and which file it must be.
    pub(crate) named_pipe: Option<(PathBuf, FileId)>,
    pub(crate) extra_fds: usize,
    pub(crate) sandbox: Option<Sandbox>,
}

/// The first line of an order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    version: u32,
    args: usize,
    env: usize,
    has_cwd: bool,
    settle_ms: u64,
    /// Device and inode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    named_pipe: Option<(u64, u64)>,
    extra_fds: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sandbox: Option<SandboxHeader>,
}

/// A sandbox; its paths are among the strings.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SandboxHeader {
    limits: ResourceLimits,
    network: Network,
    private_namespaces: bool,
    has_folder: bool,
    /// How many paths of each kind; absent where paths are open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    paths: Option<(usize, usize)>,
}

impl SandboxHeader {
    fn of(sandbox: &Sandbox) -> Self {
        Self {
            limits: sandbox.limits,
            network: sandbox.network.clone(),
            private_namespaces: sandbox.private_namespaces,
            has_folder: sandbox.folder.is_some(),
            paths: match &sandbox.paths {
                Paths::Open => None,
                Paths::Listed { read, write } => Some((read.len(), write.len())),
            },
        }
    }

    fn decode(self, mut next: impl FnMut() -> Result<OsString, OrderError>) -> Result<Sandbox, OrderError> {
        let folder = if self.has_folder { Some(next()?.into()) } else { None };
        let mut list = |count| (0..count).map(|_| next().map(PathBuf::from)).collect::<Result<Vec<_>, _>>();
        let paths = match self.paths {
            None => Paths::Open,
            Some((read, write)) => Paths::Listed { read: list(read)?, write: list(write)? },
        };
        let Self { limits, network, private_namespaces, .. } = self;
        Ok(Sandbox { limits, paths, network, private_namespaces, folder })
    }
}

/// Why bytes are not an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OrderError {
    #[error("its header is not understood")]
    Header,
    #[error("it is for another version of the keeper")]
    Version,
    #[error("its strings are not those that its header announces")]
    Strings,
    #[error("it has more than {MAX_ORDER_BYTES} bytes")]
    TooLarge,
    #[error("a string in it has a NUL byte")]
    Nul,
}

impl Order {
    /// The bytes of an order, its length in front.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, OrderError> {
        let header = Header {
            version: VERSION,
            args: self.args.len(),
            env: self.env.len(),
            has_cwd: self.cwd.is_some(),
            settle_ms: self.settle_ms,
            named_pipe: self.named_pipe.as_ref().map(|(_, file)| (file.device, file.inode)),
            extra_fds: self.extra_fds,
            sandbox: self.sandbox.as_ref().map(SandboxHeader::of),
        };
        let mut bytes = vec![0; 4];
        serde_json::to_writer(&mut bytes, &header).map_err(|_| OrderError::Header)?;
        bytes.push(b'\n');
        let mut push = |parts: &[&OsStr]| {
            for part in parts {
                if part.as_bytes().contains(&0) {
                    return Err(OrderError::Nul);
                }
                bytes.extend_from_slice(part.as_bytes());
            }
            bytes.push(0);
            Ok(())
        };
        push(&[self.program.as_os_str()])?;
        push(&[&self.arg0])?;
        self.args.iter().try_for_each(|arg| push(&[arg]))?;
        self.env.iter().try_for_each(|(name, value)| push(&[name, OsStr::new("="), value]))?;
        if let Some(cwd) = &self.cwd {
            push(&[cwd.as_os_str()])?;
        }
        if let Some((path, _)) = &self.named_pipe {
            push(&[path.as_os_str()])?;
        }
        if let Some(sandbox) = &self.sandbox {
            sandbox.folder.iter().try_for_each(|path| push(&[path.as_os_str()]))?;
            if let Paths::Listed { read, write } = &sandbox.paths {
                read.iter().chain(write).try_for_each(|path| push(&[path.as_os_str()]))?;
            }
        }
        if bytes.len() - 4 > MAX_ORDER_BYTES {
            return Err(OrderError::TooLarge);
        }
        let length = u32::try_from(bytes.len() - 4).map_err(|_| OrderError::TooLarge)?;
        bytes[..4].copy_from_slice(&length.to_be_bytes());
        Ok(bytes)
    }

    /// The order in `bytes`, which have no length in front.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, OrderError> {
        let line = bytes.iter().position(|byte| *byte == b'\n').ok_or(OrderError::Header)?;
        let value: serde_json::Value = serde_json::from_slice(&bytes[..line]).map_err(|_| OrderError::Header)?;
        if value.get("version").and_then(serde_json::Value::as_u64) != Some(VERSION.into()) {
            return Err(OrderError::Version);
        }
        let header: Header = serde_json::from_value(value).map_err(|_| OrderError::Header)?;
        let rest = bytes[line + 1..].strip_suffix(&[0]).ok_or(OrderError::Strings)?;
        let mut strings = rest.split(|byte| *byte == 0).map(|bytes| OsString::from_vec(bytes.to_vec()));
        let mut next = || strings.next().ok_or(OrderError::Strings);
        let order = Self {
            program: next()?.into(),
            arg0: next()?,
            args: (0..header.args).map(|_| next()).collect::<Result<_, _>>()?,
            env: (0..header.env).map(|_| split_variable(&next()?)).collect::<Result<_, _>>()?,
            cwd: if header.has_cwd { Some(next()?.into()) } else { None },
            settle_ms: header.settle_ms,
            named_pipe: match header.named_pipe {
                Some((device, inode)) => Some((next()?.into(), FileId { device, inode })),
                None => None,
            },
            extra_fds: header.extra_fds,
            sandbox: header.sandbox.map(|sandbox| sandbox.decode(&mut next)).transpose()?,
        };
        if strings.next().is_some() { Err(OrderError::Strings) } else { Ok(order) }
    }
}

fn split_variable(variable: &OsStr) -> Result<(OsString, OsString), OrderError> {
    let bytes = variable.as_bytes();
    let equals = bytes.iter().position(|byte| *byte == b'=').ok_or(OrderError::Strings)?;
    Ok((OsStr::from_bytes(&bytes[..equals]).into(), OsStr::from_bytes(&bytes[equals + 1..]).into()))
}

/// What Core may say after the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    /// Send this signal to the target's group.
    Signal(u8),
    /// Kill the group and every descendant, reap, report.
    Kill,
}

impl Command {
    pub(crate) fn encode(self) -> [u8; 2] {
        match self {
            Self::Signal(signo) => [b'S', signo],
            Self::Kill => *b"K\0",
        }
    }

    pub(crate) fn decode(bytes: [u8; 2]) -> Option<Self> {
        match bytes {
            [b'S', signo] => Some(Self::Signal(signo)),
            [b'K', 0] => Some(Self::Kill),
            _ => None,
        }
    }
}

/// What the keeper says. After [`Status::Refused`] and [`Status::Gone`] it exits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Status {
    /// The target runs, kept from so much.
    Started { pid: u32, applied: Applied },
    /// It cannot have namespaces of its own; said by the first process of such a namespace to its keeper only.
    NoNamespaces { why: String },
    /// The target and its descendants are being killed, for this.
    Exceeded { what: Exceeded },
    /// It does not.
    Refused { stage: Stage, errno: Option<i32> },
    /// The target's own process has ended; its descendants may not have.
    Exited { code: Option<i32>, signal: Option<i32> },
    /// Nothing is left but `survivors`.
    Gone { checked: bool, count: u32, descendants: Vec<Found>, survivors: Vec<Found> },
}

impl Status {
    pub(crate) fn exited(exit: Exit) -> Self {
        match exit {
            Exit::Code(code) => Self::Exited { code: Some(code), signal: None },
            Exit::Signal(signal) => Self::Exited { code: None, signal: Some(signal) },
        }
    }
}

/// Where a keeper stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stage {
    /// The order is not understood.
    Order,
    /// The order is for another version.
    Version,
    /// The keeper could not set itself up.
    Setup,
    /// The working directory is not there.
    Cwd,
    /// The program was not started.
    Exec,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = OsString> {
        prop::collection::vec(1_u8..=255, 0..12).prop_map(OsString::from_vec)
    }

    fn name() -> impl Strategy<Value = OsString> {
        prop::collection::vec(prop::num::u8::ANY.prop_filter("a name", |b| *b != 0 && *b != b'='), 1..6)
            .prop_map(OsString::from_vec)
    }

    fn paths() -> impl Strategy<Value = Vec<PathBuf>> {
        prop::collection::vec(text().prop_map(PathBuf::from), 0..3)
    }

    fn sandbox() -> impl Strategy<Value = Sandbox> {
        let listed = (paths(), paths()).prop_map(|(read, write)| Paths::Listed { read, write });
        let network = prop_oneof![
            Just(Network::Open),
            Just(Network::None),
            Just(Network::Recorder),
            prop::collection::vec(any::<u16>(), 0..3).prop_map(Network::Ports),
        ];
        let limits =
            any::<Option<u64>>().prop_map(|memory_bytes| ResourceLimits { memory_bytes, ..ResourceLimits::driver() });
        let folder = prop::option::of(text().prop_map(PathBuf::from));
        (limits, prop_oneof![Just(Paths::Open), listed], network, any::<bool>(), folder).prop_map(
            |(limits, paths, network, private_namespaces, folder)| Sandbox {
                limits,
                paths,
                network,
                private_namespaces,
                folder,
            },
        )
    }

    proptest! {
        #[test]
        fn an_order_arrives_as_it_was_sent(
            program in text(),
            args in prop::collection::vec(text(), 0..5),
            env in prop::collection::vec((name(), text()), 0..5),
            cwd in prop::option::of(text()),
            settle_ms in any::<u64>(),
            sandbox in prop::option::of(sandbox()),
            named_pipe in prop::option::of((text(), any::<u64>(), any::<u64>())),
        ) {
            let named_pipe = named_pipe.map(|(path, device, inode)| (path.into(), FileId { device, inode }));
            let order = Order {
                program: program.clone().into(), arg0: program, args, env, cwd: cwd.map(Into::into), settle_ms, extra_fds: 1,
                named_pipe, sandbox,
            };
            let bytes = order.encode().expect("no NUL in it");
            prop_assert_eq!(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize, bytes.len() - 4);
            prop_assert_eq!(Order::decode(&bytes[4..]).expect("it is an order"), order);
            for cut in 4..bytes.len() {
                prop_assert!(Order::decode(&bytes[4..cut]).is_err());
            }
        }
    }

    #[test]
    fn what_is_no_order_is_refused_by_its_reason() {
        let order = |program: &str| Order {
            program: program.into(),
            arg0: "a".into(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: None,
            settle_ms: 0,
            named_pipe: None,
            extra_fds: 0,
            sandbox: None,
        };
        assert_eq!(order("a\0b").encode(), Err(OrderError::Nul));
        assert_eq!(order(&"x".repeat(MAX_ORDER_BYTES)).encode(), Err(OrderError::TooLarge));
        assert_eq!(Order::decode(b"{\"version\":1}\n"), Err(OrderError::Version));
        assert_eq!(Order::decode(b"hello"), Err(OrderError::Header));
        assert_eq!(Command::decode(*b"X\0"), None);
        for command in [Command::Kill, Command::Signal(15)] {
            assert_eq!(Command::decode(command.encode()), Some(command));
        }
    }
}
