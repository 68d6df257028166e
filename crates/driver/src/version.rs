//! Negotiation of the protocol version.

use semver::Version;

use crate::objects::VersionRange;

/// The version that this implementation speaks.
pub const PROTOCOL_VERSION: &str = "1.0.0";

/// The range that this implementation offers: [`PROTOCOL_VERSION`] alone.
pub fn supported_versions() -> VersionRange {
    VersionRange::new(PROTOCOL_VERSION, PROTOCOL_VERSION)
}

/// Why two ranges have no common version. The class is `unsupported_rpc_version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NegotiationError {
    /// A bound is no SemVer version.
    #[error("the {side} version range has a bound that is not SemVer")]
    NotSemVer {
        /// Whose range.
        side: &'static str,
    },
    /// The minimum is above the maximum.
    #[error("the {side} version range is empty: minimum above maximum")]
    Reversed {
        /// Whose range.
        side: &'static str,
    },
    /// The ranges do not meet.
    #[error("core and driver have no version in common")]
    Disjoint,
}

/// The highest version that both inclusive ranges hold.
///
/// # Errors
/// When a bound is not SemVer, a minimum is above its maximum, or the ranges do not meet.
pub fn negotiate(core: &VersionRange, driver: &VersionRange) -> Result<Version, NegotiationError> {
    let (core_minimum, core_maximum) = parse(core, "core")?;
    let (driver_minimum, driver_maximum) = parse(driver, "driver")?;
    let highest = core_maximum.min(driver_maximum);
    if highest < core_minimum || highest < driver_minimum {
        return Err(NegotiationError::Disjoint);
    }
    Ok(highest)
}

fn parse(range: &VersionRange, side: &'static str) -> Result<(Version, Version), NegotiationError> {
    let version = |text: &str| Version::parse(text).map_err(|_| NegotiationError::NotSemVer { side });
    let (minimum, maximum) = (version(&range.minimum)?, version(&range.maximum)?);
    if minimum > maximum {
        return Err(NegotiationError::Reversed { side });
    }
    Ok((minimum, maximum))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(core: (&str, &str), driver: (&str, &str), expected: Result<&str, NegotiationError>) {
        let range = |(minimum, maximum): (&str, &str)| VersionRange::new(minimum, maximum);
        let found = negotiate(&range(core), &range(driver)).map(|version| version.to_string());
        assert_eq!(found, expected.map(str::to_owned), "{core:?} {driver:?}");
    }

    #[test]
    fn the_highest_common_version_wins() {
        check(("1.0.0", "1.0.0"), ("1.0.0", "1.0.0"), Ok("1.0.0"));
        check(("1.0.0", "2.1.0"), ("1.2.0", "3.0.0"), Ok("2.1.0"));
        check(("1.0.0", "1.10.0"), ("1.2.0", "1.9.0"), Ok("1.9.0"));
    }

    #[test]
    fn what_has_no_common_version_says_why() {
        check(("1.0.0", "1.0.0"), ("2.0.0", "2.0.0"), Err(NegotiationError::Disjoint));
        check(("3.0.0", "3.0.0"), ("2.0.0", "2.0.0"), Err(NegotiationError::Disjoint));
        check(("1.0.0", "1.0.0"), ("2.0.0", "1.0.0"), Err(NegotiationError::Reversed { side: "driver" }));
        check(("v1", "v1"), ("1.0.0", "1.0.0"), Err(NegotiationError::NotSemVer { side: "core" }));
        check(("1", "999"), ("1.0.0", "1.0.0"), Err(NegotiationError::NotSemVer { side: "core" }));
    }
}
