//! Parsers of configuration values: addresses, sizes, times, numbers, switches.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use tidegate_model::{ByteCount, PartitionUnit};

type Parsed<T> = Result<T, &'static str>;

pub(super) fn address(ip: [u8; 4], port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::from(ip), port)
}

/// Parses an address to listen on, or `none`.
pub(super) fn listener(text: &str) -> Parsed<Option<SocketAddr>> {
    if matches!(text, "none" | "off" | "") {
        return Ok(None);
    }
    let local = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    let found = local.map(|port| address([127, 0, 0, 1], port)).or_else(|| text.parse().ok());
    found.map(Some).ok_or("it is an address and a port, like 127.0.0.1:9000, or none")
}

pub(super) fn number<T: FromStr>(text: &str) -> Parsed<T> {
    text.parse().map_err(|_| "it is a whole number")
}

pub(super) fn size(text: &str) -> Parsed<ByteCount> {
    let size = ByteCount::parse(text).filter(|size| size.0 > 0);
    size.ok_or("it is a size such as 512MiB or 2GiB")
}

/// Parses a number with a unit; a bare 0 is no time at all.
pub(super) fn span(text: &str) -> Parsed<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "" if number == "0" => Some(0),
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let number = number.parse::<u64>().ok();
    let millis = number.zip(unit_ms).and_then(|(number, unit_ms)| number.checked_mul(unit_ms));
    millis.map(Duration::from_millis).ok_or("it is a time such as 500ms, 5s, 2m, 1h or 3d")
}

pub(super) fn switch(text: &str) -> Parsed<bool> {
    match text {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err("it is true or false"),
    }
}

pub(super) fn partition(text: &str) -> Parsed<PartitionUnit> {
    PartitionUnit::parse(text).ok_or("it is none, hour, day, week, month or year")
}

pub(super) fn text(value: &str) -> Parsed<String> {
    if value.trim().is_empty() { Err("it is a name") } else { Ok(value.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let seconds = |count| Ok(Duration::from_secs(count));
        for (text, expected) in [
            ("0", seconds(0)),
            ("90s", seconds(90)),
            ("2m", seconds(120)),
            ("3d", seconds(259_200)),
        ] {
            assert_eq!(span(text), expected, "{text}");
        }
        for text in ["5", "", "s", "-1s", "99999999999999999999s", "18446744073709551615d"] {
            assert!(span(text).is_err(), "{text}");
        }
    }
}
