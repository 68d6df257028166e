//! The chain requested, approved, accepted: each a part of the one before.

use crate::objects::Permission;

/// A break of the permission chain. The class is `permission_denied`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PermissionError {
    /// A name is neither known nor an extension.
    #[error("{list} permissions have an unknown name at index {index}")]
    Unknown {
        /// Which list.
        list: &'static str,
        /// Where.
        index: usize,
    },
    /// A name appears twice.
    #[error("{list} permissions repeat a name at index {index}")]
    Duplicate {
        /// Which list.
        list: &'static str,
        /// Where.
        index: usize,
    },
    /// A name was not in the list before.
    #[error("{list} permissions exceed the {wider} ones at index {index}")]
    Exceeds {
        /// Which list.
        list: &'static str,
        /// The list that bounds it.
        wider: &'static str,
        /// Where.
        index: usize,
    },
    /// Something needs a permission that was not accepted.
    #[error("needs the permission {0}, which was not accepted")]
    Needed(&'static str),
}

/// Checks the permissions that a driver requests.
///
/// # Errors
/// A name that is unknown or appears twice.
pub fn check_requested(requested: &[Permission]) -> Result<(), PermissionError> {
    check_names(requested, "requested")
}

/// Checks the permissions that Core approves against those requested.
///
/// # Errors
/// A name that is unknown, appears twice or was not requested.
pub fn check_approved(approved: &[Permission], requested: &[Permission]) -> Result<(), PermissionError> {
    check_names(approved, "approved")?;
    check_subset(approved, requested, "approved", "requested")
}

/// Checks the permissions that the driver accepts against those approved.
///
/// # Errors
/// A name that is unknown, appears twice or was not approved.
pub fn check_accepted(accepted: &[Permission], approved: &[Permission]) -> Result<(), PermissionError> {
    check_names(accepted, "accepted")?;
    check_subset(accepted, approved, "accepted", "approved")
}

fn check_names(permissions: &[Permission], list: &'static str) -> Result<(), PermissionError> {
    for (index, permission) in permissions.iter().enumerate() {
        if !permission.is_known() {
            return Err(PermissionError::Unknown { list, index });
        }
        if permissions[..index].contains(permission) {
            return Err(PermissionError::Duplicate { list, index });
        }
    }
    Ok(())
}

fn check_subset(
    narrow: &[Permission],
    wide: &[Permission],
    list: &'static str,
    wider: &'static str,
) -> Result<(), PermissionError> {
    match narrow.iter().position(|permission| !wide.contains(permission)) {
        Some(index) => Err(PermissionError::Exceeds { list, wider, index }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<Permission> {
        names.iter().map(|name| Permission::new(*name)).collect()
    }

    #[test]
    fn the_chain_narrows_and_never_repeats() {
        let requested = names(&["temporary-home", "companion-stream", "x-mine"]);
        assert_eq!(check_requested(&requested), Ok(()));
        assert_eq!(check_approved(&names(&["x-mine"]), &requested), Ok(()));
        assert_eq!(check_accepted(&[], &names(&["x-mine"])), Ok(()));
        let unknown = PermissionError::Unknown { list: "requested", index: 1 };
        assert_eq!(check_requested(&names(&["x-a", "root"])), Err(unknown));
        assert_eq!(check_requested(&names(&["x-"])), Err(PermissionError::Unknown { list: "requested", index: 0 }));
        let twice = names(&["x-mine", "x-mine"]);
        let duplicate = PermissionError::Duplicate { list: "approved", index: 1 };
        assert_eq!(check_approved(&twice, &requested), Err(duplicate));
        let exceeds = PermissionError::Exceeds { list: "accepted", wider: "approved", index: 0 };
        assert_eq!(check_accepted(&names(&["target-exec"]), &names(&["x-mine"])), Err(exceeds));
    }
}
