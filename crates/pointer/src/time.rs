use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The last second that the format can name, 9999-12-31T23:59:59Z, in seconds since 1970.
const LAST_UNIX_SECOND: i64 = 253_402_300_799;
const SECONDS_PER_DAY: i64 = 86_400;

/// A text is not `yyyy-MM-ddTHH:mm:ssZ`, or names a day or an hour that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("time is not yyyy-MM-ddTHH:mm:ssZ")]
pub struct TimestampError;

/// A UTC time in whole seconds, spelled `yyyy-MM-ddTHH:mm:ssZ`. Times are compared, never trusted: the revision orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp {
    // Seconds since 1970-01-01T00:00:00Z; negative for the years 1 to 1969, which a stored state may name.
    unix: i64,
}

impl Timestamp {
    /// The time of a clock that shows a second of the years 1970 to 9999; `None` for any other, which a publish
    /// refuses as `CLOCK_INVALID` (item 14).
    pub fn from_unix(seconds: i64) -> Option<Self> {
        (0..=LAST_UNIX_SECOND).contains(&seconds).then_some(Self { unix: seconds })
    }

    /// The nearest time that the format can name: what a hook writes under a broken clock, since a prompt must not
    /// fail for it.
    pub fn clamped(seconds: i64) -> Self {
        Self { unix: seconds.clamp(0, LAST_UNIX_SECOND) }
    }

    /// Seconds since 1970-01-01T00:00:00Z.
    pub const fn unix(self) -> i64 {
        self.unix
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.unix.div_euclid(SECONDS_PER_DAY));
        let second = self.unix.rem_euclid(SECONDS_PER_DAY);
        write!(f, "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        let bytes: &[u8; 20] = text.as_bytes().try_into().map_err(|_| TimestampError)?;
        let punctuated =
            [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'Z')].iter().all(|(i, b)| bytes[*i] == *b);
        if !punctuated {
            return Err(TimestampError);
        }
        let number = |from: usize, to: usize| {
            bytes[from..to].iter().try_fold(0_i64, |sum, byte| {
                byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')).ok_or(TimestampError)
            })
        };
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let exists = year >= 1
            && (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60;
        if !exists {
            return Err(TimestampError);
        }
        let unix = days_from_civil(year, month, day) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second;
        Ok(Self { unix })
    }
}

const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

const fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days before the first of `month` in a year that starts in March, so that the leap day comes last.
const fn days_before_month_from_march(month_from_march: i64) -> i64 {
    (153 * month_from_march + 2) / 5
}

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = days_before_month_from_march((month + 9) % 12) + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - days_before_month_from_march(month_from_march) + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days() {
        for (unix, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_600, "2026-01-01T00:00:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (LAST_UNIX_SECOND, "9999-12-31T23:59:59Z"),
        ] {
            let time = Timestamp::from_unix(unix).expect("in range");
            assert_eq!(time.to_string(), text);
            assert_eq!(text.parse::<Timestamp>(), Ok(time));
        }
        assert_eq!("0001-01-01T00:00:00Z".parse::<Timestamp>().expect("legal").to_string(), "0001-01-01T00:00:00Z");
    }

    #[test]
    fn every_day_of_four_centuries_round_trips() {
        for day in 0..146_097 {
            let time = Timestamp::clamped(day * SECONDS_PER_DAY + day % SECONDS_PER_DAY);
            assert_eq!(time.to_string().parse(), Ok(time));
        }
    }

    #[test]
    fn impossible_times_are_refused() {
        for bad in [
            "2026-02-29T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:60Z",
            "0000-01-01T00:00:00Z",
            "2026-01-01 00:00:00Z",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00.000Z",
            "+026-01-01T00:00:00Z",
        ] {
            assert_eq!(bad.parse::<Timestamp>(), Err(TimestampError), "{bad}");
        }
    }

    /// Item 14: hooks clamp, a publish refuses.
    #[test]
    fn broken_clocks() {
        assert_eq!(Timestamp::from_unix(-1), None);
        assert_eq!(Timestamp::from_unix(LAST_UNIX_SECOND + 1), None);
        assert_eq!(Timestamp::clamped(i64::MIN).unix(), 0);
        assert_eq!(Timestamp::clamped(i64::MAX).unix(), LAST_UNIX_SECOND);
    }
}
