use std::fmt;
use std::str::FromStr;

use pintle_wire::Digest;
use thiserror::Error;

/// The longest session id, in characters (all of them ASCII).
pub const SESSION_ID_MAX_CHARS: usize = 128;
/// The greatest revision: the greatest integer that every JSON reader holds exactly.
pub const REVISION_MAX: u64 = (1 << 53) - 1;
/// What a request names as generation when it saw no state.
pub const ABSENT: &str = "ABSENT";
/// What a request names as generation when it saw a state of schema 2.
pub const LEGACY_V2: &str = "LEGACY_V2";

/// Why a text is not the identifier that it should be. The text itself is never repeated: it may be a secret that
/// landed in the wrong field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum IdError {
    /// Not `[A-Za-z0-9][A-Za-z0-9._-]{0,127}`.
    #[error("session id does not match [A-Za-z0-9][A-Za-z0-9._-]{{0,127}}")]
    SessionId,
    /// Not `g-` and 32 lower-case hex digits.
    #[error("generation is not g- and 32 lower-case hex digits")]
    Generation,
    /// Not a lower-case UUIDv4.
    #[error("task id is not a lower-case UUIDv4")]
    TaskId,
    /// Not an integer in 1..=2^53-1.
    #[error("revision is not an integer from 1 to 9007199254740991")]
    Revision,
}

/// The id that an agent gave to a conversation; one state file belongs to each.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(Box<str>);

impl SessionId {
    /// The id as the agent spells it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id for what a host reports. An id outside the alphabet (no agent known has one) becomes `id-` and 32 hex
    /// digits of its SHA-256: characters are never stripped, so two host ids never share a pointer (item 19).
    /// An empty id has no mapping.
    pub fn of_host(raw: &str) -> Option<Self> {
        if raw.is_empty() {
            return None;
        }
        Some(raw.parse().unwrap_or_else(|_| Self(format!("id-{}", &hex_of(raw)[..32]).into())))
    }

    /// The folder below the state root (item 18): the id itself when every file system keeps it apart from all other
    /// ids, else its lower-case form, `~`, and 16 hex digits of its SHA-256. `~` is outside the id alphabet, so the
    /// two families cannot meet. A device name is one with every extension, so behind it the dots become `~` as well.
    pub fn dir_name(&self) -> String {
        let id = &*self.0;
        let folds = id.bytes().any(|b| b.is_ascii_uppercase());
        let device = is_reserved_on_windows(id);
        if folds || id.ends_with('.') || device || is_taken_by_us(id) {
            let mut lower = id.to_ascii_lowercase();
            if device {
                lower = lower.replace('.', "~");
            }
            format!("{lower}~{}", &hex_of(id)[..16])
        } else {
            id.to_owned()
        }
    }

    /// Whether [`dir_name`](Self::dir_name) of some id is `name`, as far as the name alone can tell: which id a mapped
    /// one belongs to stands in its record.
    pub fn is_dir_name(name: &str) -> bool {
        match name.rsplit_once('~') {
            None => name.parse::<Self>().is_ok_and(|id| id.dir_name() == name),
            Some((lower, digits)) => {
                let legal =
                    |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-' | b'~');
                !lower.is_empty()
                    && lower.len() <= SESSION_ID_MAX_CHARS
                    && lower.bytes().all(legal)
                    && digits.len() == 16
                    && digits.bytes().all(is_lower_hex)
            }
        }
    }
}

fn hex_of(text: &str) -> String {
    Digest::of(text.as_bytes()).hex().to_string()
}

/// Device names that Windows resolves in any folder, with or without an extension.
fn is_reserved_on_windows(id: &str) -> bool {
    let stem = id.split('.').next().unwrap_or(id).to_ascii_lowercase();
    match stem.as_str() {
        "con" | "prn" | "aux" | "nul" => true,
        other => {
            (other.starts_with("com") || other.starts_with("lpt"))
                && other.len() == 4
                && other.as_bytes()[3].is_ascii_digit()
        }
    }
}

/// The file names that the store itself uses; a folder of that name would be confusing rather than dangerous.
fn is_taken_by_us(id: &str) -> bool {
    matches!(id, "state.json" | "meta.json" | "history.ndjson" | "lock")
}

impl FromStr for SessionId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let bytes = text.as_bytes();
        let legal = bytes.len() <= SESSION_ID_MAX_CHARS
            && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
            && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        if legal { Ok(Self(text.into())) } else { Err(IdError::SessionId) }
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The fence of a session: every clear, upgrade and repair makes a new one, so that a request prepared before it can
/// never match again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(Box<str>);

impl Generation {
    /// `g-` and the digits of a UUIDv4 made of 128 random bits (the caller's; six of them are overwritten with version
    /// and variant).
    pub fn from_random(random: [u8; 16]) -> Self {
        let mut text = String::with_capacity(34);
        text.push_str("g-");
        push_hex(&mut text, &v4(random));
        Self(text.into())
    }

    /// The generation as it stands in the state file.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Generation {
    type Err = IdError;

    /// Accepts any 32 lower-case hex digits: the published protocol's own example is no UUIDv4.
    fn from_str(text: &str) -> Result<Self, IdError> {
        let digits = text.strip_prefix("g-").ok_or(IdError::Generation)?;
        if digits.len() == 32 && digits.bytes().all(is_lower_hex) {
            Ok(Self(text.into()))
        } else {
            Err(IdError::Generation)
        }
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Counts the successful writes of a session, from 1. It goes on counting across generations; only a repair and a clear
/// at the maximum start again at 1, under a new generation (A5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Revision(u64);

impl Revision {
    /// The first revision of a session.
    pub const FIRST: Self = Self(1);

    /// A revision in `1..=REVISION_MAX`.
    pub fn new(value: u64) -> Result<Self, IdError> {
        if (1..=REVISION_MAX).contains(&value) { Ok(Self(value)) } else { Err(IdError::Revision) }
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The revision of the next write; `None` at the maximum.
    pub fn next(self) -> Option<Self> {
        Self::new(self.0 + 1).ok()
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The UUIDv4 of a task, in lower case. It stays with the task when another session adopts it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(Box<str>);

impl TaskId {
    /// A new id made of 128 random bits.
    pub fn from_random(random: [u8; 16]) -> Self {
        let bytes = v4(random);
        let mut text = String::with_capacity(36);
        for (index, byte) in bytes.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            push_hex(&mut text, &[*byte]);
        }
        Self(text.into())
    }

    /// The id as it stands in the state file.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TaskId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let bytes = text.as_bytes();
        let shaped = bytes.len() == 36
            && bytes.iter().enumerate().all(|(index, byte)| match index {
                8 | 13 | 18 | 23 => *byte == b'-',
                14 => *byte == b'4',
                19 => matches!(byte, b'8' | b'9' | b'a' | b'b'),
                _ => is_lower_hex(*byte),
            });
        if shaped { Ok(Self(text.into())) } else { Err(IdError::TaskId) }
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn v4(mut random: [u8; 16]) -> [u8; 16] {
    random[6] = (random[6] & 0x0f) | 0x40;
    random[8] = (random[8] & 0x3f) | 0x80;
    random
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 0xf)]));
    }
}

const fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_id_alphabet() {
        let longest = "a".repeat(SESSION_ID_MAX_CHARS);
        for good in ["a", "0", "Session.1_x-y", "con", "x.", longest.as_str()] {
            assert!(good.parse::<SessionId>().is_ok(), "{good}");
        }
        let over = "a".repeat(SESSION_ID_MAX_CHARS + 1);
        for bad in ["", ".a", "-a", "_a", "a/b", "a b", "a~b", "\u{e9}", "..", "a\n", over.as_str()] {
            assert_eq!(bad.parse::<SessionId>(), Err(IdError::SessionId), "{bad:?}");
        }
    }

    /// Item 18: no two ids share a folder on a case-folding file system, and no folder is a device or loses its dot.
    #[test]
    fn dir_names_survive_every_file_system() {
        let check = |id: &str, plain: bool| {
            let name = id.parse::<SessionId>().expect("legal id").dir_name();
            assert_eq!(name == id, plain, "{id} -> {name}");
            assert_eq!(name, name.to_ascii_lowercase(), "{id} -> {name}");
            assert!(!name.ends_with('.') && !is_reserved_on_windows(&name), "{id} -> {name}");
            assert!(SessionId::is_dir_name(&name), "{id} -> {name}");
            if !plain {
                let head = name[..name.len() - 16].replace('~', ".");
                assert_eq!(head, format!("{}.", id.to_ascii_lowercase()), "{id} -> {name}");
            }
            name
        };
        check("0199a1b2-0000-7000-8000-000000000001", true);
        check("a.b", true);
        for id in ["con", "CON", "nul.x", "com1", "lpt9.txt", "aux", "x.", "ses_AbC", "lock"] {
            check(id, false);
        }
        check("com", true);
        check("com10", true);
        check("console", true);
        assert_ne!(check("ses_Ab", false), check("ses_aB", false));
        for foreign in ["", "Upper", "con", "a b", "x.", "~0123456789abcdef", "a~0123", "a~0123456789ABCDEF"] {
            assert!(!SessionId::is_dir_name(foreign), "{foreign}");
        }
    }

    #[test]
    fn foreign_ids_map_without_collision() {
        assert_eq!(SessionId::of_host("abc").expect("mapped").as_str(), "abc");
        let a = SessionId::of_host("a/b").expect("mapped");
        let b = SessionId::of_host("ab").expect("mapped");
        assert_ne!(a, b);
        assert_eq!(a.as_str().len(), 35);
        assert_eq!(SessionId::of_host(""), None);
    }

    #[test]
    fn generations_and_task_ids_are_v4() {
        let generation = Generation::from_random([0xff; 16]);
        assert_eq!(generation.as_str(), "g-ffffffffffff4fffbfffffffffffffff");
        assert_eq!(generation.as_str().parse(), Ok(generation));
        let task = TaskId::from_random([0; 16]);
        assert_eq!(task.as_str(), "00000000-0000-4000-8000-000000000000");
        assert_eq!(task.as_str().parse(), Ok(task));
        for bad in ["", "00000000-0000-4000-8000-00000000000", "00000000-0000-1000-8000-000000000000"] {
            assert_eq!(bad.parse::<TaskId>(), Err(IdError::TaskId));
        }
        assert_eq!("00000000-0000-4000-8000-00000000000A".parse::<TaskId>(), Err(IdError::TaskId));
        assert!("g-0123456789abcdef0123456789abcdef".parse::<Generation>().is_ok());
        assert!("g-0123456789ABCDEF0123456789abcdef".parse::<Generation>().is_err());
    }

    #[test]
    fn revisions_end_at_two_to_the_53() {
        assert_eq!(Revision::new(0), Err(IdError::Revision));
        assert_eq!(Revision::new(REVISION_MAX).expect("legal").next(), None);
        assert_eq!(Revision::FIRST.next(), Revision::new(2).ok());
    }
}
