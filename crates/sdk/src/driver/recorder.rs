//! The recorder: the only way out for a driver without a network.
//!
//! It listens on a Unix socket in the work directory and understands one request, HTTP's `CONNECT host:port`. What is on
//! its list is connected to and the bytes are passed on in both directions, counted, the first of them kept; everything
//! else is refused. Either way it is recorded. It opens no encryption, so of an encrypted connection it knows whom it was
//! to and how much went each way.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::task::{JoinSet, coop};
use tokio::time::timeout;

/// The longest request head in bytes.
const MAX_HEAD_BYTES: usize = 8 << 10;

/// How long a client may take for its request, and a server for its connection.
const STEP_LIMIT: Duration = Duration::from_secs(10);

/// Bytes that are passed on at once.
const PIECE_BYTES: usize = 16 << 10;

/// How many connections are recorded; those after them are refused and counted.
const MAX_EXCHANGES: usize = 1024;

/// Addresses that machines in a cloud learn their secrets from, whatever the list says.
const METADATA: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// Whom a driver may reach through the recorder, and what is kept of it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecorderConfig {
    /// Hosts and ports, as they must stand in the request. A host is a name or an address, without brackets.
    pub allow: Vec<(String, u16)>,
    /// Connections at a time; more wait.
    pub max_connections: usize,
    /// Bytes of each connection and direction that are kept.
    pub kept_bytes: usize,
    /// Bytes of all connections together that are kept; beyond it they are only counted.
    pub max_kept_bytes: usize,
}

impl RecorderConfig {
    /// Only these hosts and ports; 16 connections at a time, 64 KiB kept of each direction, 64 MiB of all.
    pub fn new(allow: Vec<(String, u16)>) -> Self {
        Self { allow, max_connections: 16, kept_bytes: 64 << 10, max_kept_bytes: 64 << 20 }
    }
}

/// One connection through the recorder, or a request for one.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exchange {
    /// Whom it was to, as the driver wrote it; empty where it wrote something else.
    pub to: String,
    /// Why it was refused; `None` if it was not.
    pub refused: Option<Refusal>,
    /// Bytes from the driver, and the first of them.
    pub sent_bytes: u64,
    /// See there.
    pub sent: Vec<u8>,
    /// Bytes to the driver, and the first of them.
    pub received_bytes: u64,
    /// See there.
    pub received: Vec<u8>,
}

impl fmt::Debug for Exchange {
    /// What was said may hold secrets; it is for a sanitiser.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("to", &self.to)
            .field("refused", &self.refused)
            .field("sent_bytes", &self.sent_bytes)
            .field("received_bytes", &self.received_bytes)
            .finish_non_exhaustive()
    }
}

/// Why the recorder did not connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It was no request for a connection, or too long or slow.
    Malformed,
    /// It is not on the list.
    NotAllowed,
    /// Its address is one that is never connected to: metadata services, link-local, multicast, unspecified.
    Address,
    /// Nobody answers there.
    Unreachable,
    /// There were too many before it.
    TooMany,
}

impl Refusal {
    /// Its name in evidence: snake case, stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::NotAllowed => "not_allowed",
            Self::Address => "address",
            Self::Unreachable => "unreachable",
            Self::TooMany => "too_many",
        }
    }

    const fn status(self) -> &'static str {
        match self {
            Self::Malformed => "400 Bad Request",
            Self::NotAllowed | Self::Address => "403 Forbidden",
            Self::Unreachable => "502 Bad Gateway",
            Self::TooMany => "429 Too Many Requests",
        }
    }
}

/// The recorder of one driver. Dropping it closes every connection.
#[derive(Debug)]
pub(crate) struct Recorder {
    log: Arc<Mutex<Log>>,
    _serving: JoinSet<()>,
}

impl Recorder {
    /// Listens at `path`. Needs a tokio runtime.
    pub(crate) fn listen(path: &Path, config: RecorderConfig) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        let log = Arc::<Mutex<Log>>::default();
        let mut serving = JoinSet::new();
        serving.spawn(accept(listener, Arc::new(config), Arc::clone(&log)));
        Ok(Self { log, _serving: serving })
    }

    pub(crate) fn exchanges(&self) -> Vec<Exchange> {
        lock(&self.log).exchanges.clone()
    }
}

/// Every exchange, and how many bytes of them are kept.
#[derive(Debug, Default)]
struct Log {
    exchanges: Vec<Exchange>,
    kept_bytes: usize,
}

fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: UnixListener, config: Arc<RecorderConfig>, log: Arc<Mutex<Log>>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < config.max_connections.max(1) => match accepted {
                Ok((client, _)) => {
                    let (config, log) = (Arc::clone(&config), Arc::clone(&log));
                    connections.spawn(async move { serve(client, &config, &log).await });
                }
                // Too many descriptors, for a moment; let the others end first.
                Err(_) if !connections.is_empty() => { connections.join_next().await; }
                Err(_) => return,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

async fn serve(mut client: UnixStream, config: &RecorderConfig, log: &Mutex<Log>) {
    let request = timeout(STEP_LIMIT, read_request(&mut client)).await.ok().flatten();
    let to = request.clone().unwrap_or_default();
    let connected = match request {
        Some(to) => connect(&to, config).await,
        None => Err(Refusal::Malformed),
    };
    let number = {
        let mut log = lock(log);
        if log.exchanges.len() >= MAX_EXCHANGES {
            None
        } else {
            log.exchanges.push(Exchange { to, refused: connected.as_ref().err().copied(), ..Exchange::default() });
            Some(log.exchanges.len() - 1)
        }
    };
    let connected = if number.is_none() { Err(Refusal::TooMany) } else { connected };
    let answer = match &connected {
        Ok(_) => "HTTP/1.1 200 Connection Established\r\n\r\n".to_owned(),
        Err(refusal) => format!("HTTP/1.1 {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", refusal.status()),
    };
    if client.write_all(answer.as_bytes()).await.is_err() {
        return;
    }
    if let (Ok(server), Some(number)) = (connected, number) {
        pass_on(client, server, |said| lock(log).note(number, said, config)).await;
    }
}

/// What one side said.
enum Said<'a> {
    ByDriver(&'a [u8]),
    ToDriver(&'a [u8]),
}

impl Log {
    fn note(&mut self, number: usize, said: Said<'_>, config: &RecorderConfig) {
        let Some(exchange) = self.exchanges.get_mut(number) else { return };
        let (piece, count, kept) = match said {
            Said::ByDriver(piece) => (piece, &mut exchange.sent_bytes, &mut exchange.sent),
            Said::ToDriver(piece) => (piece, &mut exchange.received_bytes, &mut exchange.received),
        };
        // What is kept is the beginning: behind something that had no room nothing is kept any more.
        let room = if kept.len() as u64 == *count { config.kept_bytes.saturating_sub(kept.len()) } else { 0 };
        let room = room.min(config.max_kept_bytes.saturating_sub(self.kept_bytes)).min(piece.len());
        kept.extend_from_slice(&piece[..room]);
        self.kept_bytes += room;
        *count += piece.len() as u64;
    }
}

/// Reads the head of a request and takes `host:port` out of it. Byte by byte, because what comes behind it is not ours.
async fn read_request(client: &mut UnixStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == MAX_HEAD_BYTES {
            return None;
        }
        head.push(client.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?;
    let mut words = head.lines().next()?.split(' ');
    let (method, to, version) = (words.next()?, words.next()?, words.next()?);
    let well_formed = method == "CONNECT" && version.starts_with("HTTP/1.") && words.next().is_none();
    (well_formed && split(to).is_some()).then(|| to.to_owned())
}

fn split(to: &str) -> Option<(&str, u16)> {
    let (host, port) = to.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some((host, port.parse().ok()?)).filter(|(host, _)| !host.is_empty())
}

async fn connect(to: &str, config: &RecorderConfig) -> Result<TcpStream, Refusal> {
    let (host, port) = split(to).ok_or(Refusal::Malformed)?;
    if !config.allow.iter().any(|(allowed, at)| allowed.eq_ignore_ascii_case(host) && *at == port) {
        return Err(Refusal::NotAllowed);
    }
    let addresses = timeout(STEP_LIMIT, tokio::net::lookup_host((host, port))).await;
    let addresses: Vec<SocketAddr> = addresses.ok().and_then(Result::ok).ok_or(Refusal::Unreachable)?.collect();
    let mut refusal = Refusal::Unreachable;
    // The address that was looked at is the one that is connected to: a name is not asked for twice.
    for address in addresses {
        if is_never(address.ip()) {
            refusal = Refusal::Address;
        } else if let Ok(Ok(stream)) = timeout(STEP_LIMIT, TcpStream::connect(address)).await {
            return Ok(stream);
        }
    }
    Err(refusal)
}

/// Addresses that are never connected to.
fn is_never(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    METADATA.contains(&address) || link_local || address.is_multicast() || address.is_unspecified()
}

async fn pass_on(client: UnixStream, server: TcpStream, note: impl Fn(Said<'_>)) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let sent = |piece: &[u8]| note(Said::ByDriver(piece));
    let received = |piece: &[u8]| note(Said::ToDriver(piece));
    tokio::join!(copy(&mut from_client, &mut to_server, sent), copy(&mut from_server, &mut to_client, received));
}

/// Until one end is closed, which is passed on.
async fn copy(from: &mut (impl AsyncRead + Unpin), to: &mut (impl AsyncWrite + Unpin), note: impl Fn(&[u8])) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        note(&piece[..count]);
        if to.write_all(&piece[..count]).await.is_err() {
            break;
        }
        coop::consume_budget().await;
    }
    let _ = to.shutdown().await;
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn ask(path: &Path, request: &str) -> impl Future<Output = (UnixStream, String)> {
        let (path, request) = (path.to_owned(), request.to_owned());
        async move {
            let mut client = UnixStream::connect(path).await.expect("a connection");
            client.write_all(request.as_bytes()).await.expect("a request");
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n\r\n") {
                line.push(client.read_u8().await.expect("an answer"));
            }
            (client, String::from_utf8(line).expect("text"))
        }
    }

    #[test]
    fn what_is_on_the_list_is_passed_on_and_everything_is_recorded() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let dir = tempfile::tempdir().expect("a directory");
            let path = dir.path().join("recorder.sock");
            let server = TcpListener::bind("127.0.0.1:0").await.expect("a server");
            let port = server.local_addr().expect("its address").port();
            let echo = tokio::spawn(async move {
                let (mut stream, _) = server.accept().await.expect("a client");
                let mut text = vec![0; 5];
                stream.read_exact(&mut text).await.expect("text");
                stream.write_all(&text.repeat(3)).await.expect("an answer");
            });
            let allow = vec![("127.0.0.1".to_owned(), port), ("169.254.169.254".to_owned(), 80)];
            let mut config = RecorderConfig::new(allow);
            config.kept_bytes = 7;
            let recorder = Recorder::listen(&path, config).expect("it listens");

            let (mut client, answer) = ask(&path, &format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n")).await;
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            client.write_all(b"hello").await.expect("text");
            let mut text = String::new();
            client.read_to_string(&mut text).await.expect("the answer");
            assert_eq!(text, "hellohellohello");
            echo.await.expect("it served");
            drop(client);
            for (request, status) in [
                ("CONNECT example.com:443 HTTP/1.1\r\n\r\n".to_owned(), "403"),
                ("CONNECT 169.254.169.254:80 HTTP/1.1\r\n\r\n".to_owned(), "403"),
                ("GET / HTTP/1.1\r\n\r\n".to_owned(), "400"),
                (format!("CONNECT 127.0.0.1:{} HTTP/1.1\r\n\r\n", port ^ 1), "403"),
            ] {
                let (_, answer) = ask(&path, &request).await;
                assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
            }
            let log = recorder.exchanges();
            let refused: Vec<_> = log.iter().map(|exchange| exchange.refused).collect();
            use Refusal::{Address, Malformed, NotAllowed};
            assert_eq!(refused, [None, Some(NotAllowed), Some(Address), Some(Malformed), Some(NotAllowed)]);
            assert_eq!((log[0].sent_bytes, log[0].sent.as_slice()), (5, &b"hello"[..]));
            assert_eq!((log[0].received_bytes, log[0].received.as_slice()), (15, &b"hellohe"[..]));
            assert_eq!(log[1].to, "example.com:443");
            assert!(!format!("{log:?}").contains("hello"));
        });
    }

    #[test]
    fn what_is_kept_is_bounded_for_each_and_for_all() {
        let mut config = RecorderConfig::new(Vec::new());
        (config.kept_bytes, config.max_kept_bytes) = (4, 7);
        let mut log = Log { exchanges: vec![Exchange::default(), Exchange::default()], kept_bytes: 0 };
        for piece in [b"abc", b"def"] {
            log.note(0, Said::ByDriver(piece), &config);
            log.note(1, Said::ToDriver(piece), &config);
        }
        let (first, second) = (&log.exchanges[0], &log.exchanges[1]);
        assert_eq!((first.sent.as_slice(), first.sent_bytes), (&b"abcd"[..], 6));
        assert_eq!((second.received.as_slice(), second.received_bytes), (&b"abc"[..], 6));
        // There is room again for none of those whose beginning had none.
        config.max_kept_bytes = 100;
        log.note(1, Said::ToDriver(b"ghi"), &config);
        assert_eq!((log.exchanges[1].received.as_slice(), log.exchanges[1].received_bytes), (&b"abc"[..], 9));
    }

    #[test]
    fn some_addresses_are_never_connected_to() {
        for (address, never) in [
            ("169.254.169.254", true),
            ("::ffff:169.254.169.254", true),
            ("fd00:ec2::254", true),
            ("0.0.0.0", true),
            ("224.0.0.1", true),
            ("fe80::1", true),
            ("127.0.0.1", false),
            ("10.0.0.1", false),
            ("2606:4700::1111", false),
        ] {
            assert_eq!(is_never(address.parse().expect("an address")), never, "{address}");
        }
    }
}
