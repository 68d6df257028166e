//! The environment of a child: empty, plus what was chosen.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt,
};

/// The variables of a child, all of them: nothing is inherited. `Debug` shows names only, since a value may be a secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<OsString, OsString>);

/// What a driver may see of its parent's environment; HOME and TMPDIR are private directories that Core sets.
const DRIVER: [&str; 4] = ["PATH", "LANG", "LC_ALL", "TZ"];

/// What an agent under test may see: what it needs to find its own configuration, and to reach its model.
const AGENT: [&str; 15] = [
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "TERM",
    "TZ",
    "TMPDIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
];

/// Names of which an agent may see all that begin so.
const AGENT_PREFIXES: [&str; 2] = ["LC_", "SSL_CERT_"];

/// What every Windows program needs to start at all.
const WINDOWS: [&str; 11] = [
    "SystemRoot",
    "SystemDrive",
    "windir",
    "ComSpec",
    "PATHEXT",
    "Path",
    "TEMP",
    "TMP",
    "NUMBER_OF_PROCESSORS",
    "PROCESSOR_ARCHITECTURE",
    "OS",
];

/// What a Windows agent finds its user's files by.
const WINDOWS_AGENT: [&str; 6] = ["USERPROFILE", "HOMEDRIVE", "HOMEPATH", "APPDATA", "LOCALAPPDATA", "USERNAME"];

impl Environment {
    /// No variables.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// What a driver may see out of `parent` (such as `std::env::vars_os()`): PATH, LANG, LC_ALL, TZ. Where there is
    /// no PATH, `/usr/bin:/bin`. Set HOME and TMPDIR to private directories.
    pub fn driver_allowlist(parent: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut kept = Self::picked(parent, |name| DRIVER.contains(&name) || is_windows(name, &WINDOWS));
        if cfg!(unix) && kept.get("PATH").is_none() {
            kept.set("PATH", "/usr/bin:/bin");
        }
        kept
    }

    /// What an agent under test may see out of `parent`: PATH, HOME, USER, LANG, LC_*, TERM, TZ, TMPDIR,
    /// SSL_CERT_* and the proxy variables in both spellings. Its keys are not among them: they are named one by one.
    pub fn agent_allowlist(parent: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self::picked(parent, |name| {
            AGENT.contains(&name)
                || AGENT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
                || is_windows(name, &WINDOWS)
                || is_windows(name, &WINDOWS_AGENT)
        })
    }

    fn picked(parent: impl IntoIterator<Item = (OsString, OsString)>, keep: impl Fn(&str) -> bool) -> Self {
        Self(parent.into_iter().filter(|(name, _)| name.to_str().is_some_and(&keep)).collect())
    }

    /// Sets a variable, replacing what it had.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> &mut Self {
        self.0.insert(name.into(), value.into());
        self
    }

    /// Takes a variable away.
    pub fn remove(&mut self, name: impl AsRef<OsStr>) -> &mut Self {
        self.0.remove(name.as_ref());
        self
    }

    /// The value of a variable.
    pub fn get(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.0.get(name.as_ref()).map(OsString::as_os_str)
    }

    /// All variables, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// The names of all variables, which may be shown to anybody.
    pub fn names(&self) -> impl Iterator<Item = &OsStr> {
        self.0.keys().map(OsString::as_os_str)
    }
}

impl FromIterator<(OsString, OsString)> for Environment {
    fn from_iter<I: IntoIterator<Item = (OsString, OsString)>>(variables: I) -> Self {
        Self(variables.into_iter().collect())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// Windows does not tell upper from lower case in these names.
fn is_windows(name: &str, names: &[&str]) -> bool {
    cfg!(windows) && names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent() -> Vec<(OsString, OsString)> {
        [
            ("PATH", "/p"),
            ("HOME", "/h"),
            ("LC_TIME", "C"),
            ("SSL_CERT_FILE", "/c"),
            ("https_proxy", "http://proxy"),
            ("OPENAI_API_KEY", "sk-secret"),
            ("LD_PRELOAD", "/evil.so"),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .to_vec()
    }

    fn check(environment: &Environment, names: &[&str]) {
        assert_eq!(environment.names().collect::<Vec<_>>(), names);
    }

    #[test]
    fn only_what_is_listed_gets_through() {
        check(&Environment::agent_allowlist(parent()), &["HOME", "LC_TIME", "PATH", "SSL_CERT_FILE", "https_proxy"]);
        check(&Environment::driver_allowlist(parent()), &["PATH"]);
        #[cfg(unix)]
        assert_eq!(Environment::driver_allowlist([]).get("PATH"), Some(OsStr::new("/usr/bin:/bin")));
    }

    #[test]
    fn values_are_not_shown() {
        let mut environment = Environment::empty();
        environment.set("OPENAI_API_KEY", "sk-secret");
        assert_eq!(format!("{environment:?}"), "{\"OPENAI_API_KEY\"}");
    }
}
