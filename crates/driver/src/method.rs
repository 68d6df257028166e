//! The table of methods (spec section 6). Dispatch, direction and documentation derive from it.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::class::ErrorClass;

/// A method or a notification of Driver RPC v1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Core offers its version range; the driver answers who it is.
    Hello,
    /// Core pins the plan, hands over the capability token and approves permissions.
    Prepare,
    /// Core asks again what the driver can do.
    Capabilities,
    /// Core starts one invocation.
    Invoke,
    /// Core asks the driver to end the invocation early.
    Cancel,
    /// Core asks the driver to forget its prepared session data.
    Reset,
    /// Core ends the session.
    Shutdown,
    /// The driver reports one thing that it saw.
    Observation,
    /// The driver reports that the invocation has ended.
    Completed,
}

/// One row of [`Method::TABLE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MethodInfo {
    /// The method.
    pub method: Method,
    /// Its name on the wire.
    pub name: &'static str,
    /// Whether the driver sends it as a notification; otherwise Core sends it as a request.
    pub notification: bool,
    /// Whether `params` may be absent.
    pub params_optional: bool,
}

impl Method {
    /// Every method, requests first.
    pub const TABLE: [MethodInfo; 9] = [
        request(Self::Hello, "driver.hello", false),
        request(Self::Prepare, "driver.prepare", false),
        request(Self::Capabilities, "driver.capabilities", true),
        request(Self::Invoke, "driver.invoke", false),
        request(Self::Cancel, "driver.cancel", false),
        request(Self::Reset, "driver.reset", true),
        request(Self::Shutdown, "driver.shutdown", true),
        notification(Self::Observation, "driver.observation"),
        notification(Self::Completed, "driver.completed"),
    ];

    /// The row of this method.
    pub const fn info(self) -> MethodInfo {
        Self::TABLE[self as usize]
    }

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        self.info().name
    }

    /// Whether the driver sends it as a notification.
    pub const fn is_notification(self) -> bool {
        self.info().notification
    }

    /// The class of a fault in this method's params: malformed observation for the two notifications.
    pub const fn params_class(self) -> ErrorClass {
        if self.is_notification() { ErrorClass::MalformedObservation } else { ErrorClass::InvalidRequest }
    }
}

const fn request(method: Method, name: &'static str, params_optional: bool) -> MethodInfo {
    MethodInfo { method, name, notification: false, params_optional }
}

const fn notification(method: Method, name: &'static str) -> MethodInfo {
    MethodInfo { method, name, notification: true, params_optional: false }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Method {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A name that is not in [`Method::TABLE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a method of Driver RPC v1")]
pub struct UnknownMethod;

impl FromStr for Method {
    type Err = UnknownMethod;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::TABLE.iter().find(|row| row.name == text).map(|row| row.method).ok_or(UnknownMethod)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_indexed_by_its_methods() {
        for row in Method::TABLE {
            assert_eq!(row.method.info(), row);
            assert_eq!(row.name.parse(), Ok(row.method));
        }
        assert!("driver.reset ".parse::<Method>().is_err());
        assert!("driver.Reset".parse::<Method>().is_err());
    }
}
