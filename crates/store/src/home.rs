//! Where things are kept: `$PINTLE_HOME`, else `$XDG_STATE_HOME/pintle`, else the platform's own place.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

/// The variables that decide where things are kept. This crate reads none itself: its caller passes them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HomeVars {
    /// `PINTLE_HOME`; it must be absolute.
    pub pintle_home: Option<OsString>,
    /// `XDG_STATE_HOME`; a relative one is ignored, as its specification says.
    pub xdg_state_home: Option<OsString>,
    /// `HOME`, or `USERPROFILE` on Windows.
    pub home: Option<OsString>,
    /// `LOCALAPPDATA`, on Windows.
    pub local_app_data: Option<OsString>,
}

impl HomeVars {
    /// Picks the variables out of a lookup such as `std::env::var_os`.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        Self {
            pintle_home: lookup("PINTLE_HOME"),
            xdg_state_home: lookup("XDG_STATE_HOME"),
            home: lookup(if cfg!(windows) { "USERPROFILE" } else { "HOME" }),
            local_app_data: lookup("LOCALAPPDATA"),
        }
    }
}

/// The directory that everything is kept in. Nothing is created by making one of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

/// Why there is no place to keep things.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HomeError {
    /// `PINTLE_HOME` is set to a relative path.
    #[error("use PINTLE_HOME: `{}` is not an absolute path", path.display())]
    Relative {
        /// Its value.
        path: PathBuf,
    },
    /// No variable says where.
    #[error("find a place for state: none of PINTLE_HOME, XDG_STATE_HOME and {} is set", if cfg!(windows) { "LOCALAPPDATA" } else { "HOME" })]
    Unknown,
}

impl Home {
    /// The directory that the variables choose. An empty variable counts as not set.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn resolve(vars: &HomeVars) -> Result<Self, HomeError> {
        if let Some(path) = set(vars.pintle_home.as_deref()) {
            let path = Path::new(path);
            if !path.is_absolute() {
                return Err(HomeError::Relative { path: path.to_owned() });
            }
            return Ok(Self { root: path.to_owned() });
        }
        if let Some(path) = absolute(vars.xdg_state_home.as_deref()) {
            return Ok(Self { root: path.join("pintle") });
        }
        let platform = if cfg!(windows) {
            absolute(vars.local_app_data.as_deref()).map(|local| local.join("pintle"))
        } else if cfg!(target_os = "macos") {
            absolute(vars.home.as_deref()).map(|home| home.join("Library/Application Support/pintle"))
        } else {
            absolute(vars.home.as_deref()).map(|home| home.join(".local/state/pintle"))
        };
        platform.map(|root| Self { root }).ok_or(HomeError::Unknown)
    }

    /// A home at a path that the caller has chosen.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Evidence runs, one directory each.
    #[must_use]
    pub fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// Objects that the runs refer to, by digest.
    #[must_use]
    pub fn objects(&self) -> PathBuf {
        self.root.join("objects")
    }

    /// Journals of durable sessions.
    #[must_use]
    pub fn sessions(&self) -> PathBuf {
        self.root.join("sessions")
    }

    /// Task pointers.
    #[must_use]
    pub fn tasks(&self) -> PathBuf {
        self.root.join("tasks")
    }
}

fn set(value: Option<&OsStr>) -> Option<&OsStr> {
    value.filter(|value| !value.is_empty())
}

fn absolute(value: Option<&OsStr>) -> Option<&Path> {
    set(value).map(Path::new).filter(|path| path.is_absolute())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn check(vars: &[(&str, &str)], expected: Result<&str, HomeError>) {
        let vars =
            HomeVars::from_lookup(|name| vars.iter().find(|(n, _)| *n == name).map(|(_, value)| OsString::from(value)));
        assert_eq!(Home::resolve(&vars), expected.map(Home::at), "{vars:?}");
    }

    #[test]
    fn the_first_variable_that_is_set_decides() {
        check(&[("PINTLE_HOME", "/p"), ("XDG_STATE_HOME", "/x"), ("HOME", "/h")], Ok("/p"));
        check(&[("PINTLE_HOME", ""), ("XDG_STATE_HOME", "/x"), ("HOME", "/h")], Ok("/x/pintle"));
        check(&[("PINTLE_HOME", "p")], Err(HomeError::Relative { path: "p".into() }));
        check(&[("HOME", "relative")], Err(HomeError::Unknown));
        check(&[], Err(HomeError::Unknown));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_relative_xdg_directory_is_ignored() {
        check(&[("XDG_STATE_HOME", "x"), ("HOME", "/h")], Ok("/h/.local/state/pintle"));
    }
}
