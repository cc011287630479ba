//! Parsers of cells against simple ones: on values written as text, and on text of all kinds.

use proptest::prelude::*;
use tidegate_ingest::parse::{
    CellError, check_text, parse_binary, parse_bool, parse_decimal, parse_f32, parse_f64, parse_i8,
    parse_i16, parse_i32, parse_i64, parse_ipv4, parse_u8, parse_u16, parse_u32, parse_u64,
    parse_uuid,
};

use crate::slow;

fn config() -> ProptestConfig {
    ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() }
}

/// Text of few different characters, so that many texts are nearly a number.
fn nearly_a_number() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop::sample::select(b"0000123456789999...+-eE \tnaifty\\x:_\xFF".as_slice());
    prop::collection::vec(byte, 0..24)
}

/// Digits with zeros in front, a sign and blanks around.
fn integer_text() -> impl Strategy<Value = Vec<u8>> {
    let any_size = (any::<u128>(), 0_u32..128).prop_map(|(value, shift)| value >> shift);
    let parts = ("[ \t]{0,1}", "[+-]{0,1}", "0{0,3}", any_size, "[ \t]{0,1}");
    parts.prop_map(|(before, sign, zeros, value, after)| {
        format!("{before}{sign}{zeros}{value}{after}").into_bytes()
    })
}

/// Digits with a point at any place, with an exponent, or with neither.
fn decimal_text() -> impl Strategy<Value = Vec<u8>> {
    let exponent = prop_oneof![Just(String::new()), "[eE][+-]{0,1}[0-9]{1,3}"];
    ("[+-]{0,1}", "[0-9]{0,22}", "[.]{0,1}", "[0-9]{0,22}", exponent).prop_map(
        |(sign, whole, point, fraction, exponent)| {
            format!("{sign}{whole}{point}{fraction}{exponent}").into_bytes()
        },
    )
}

fn any_text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        nearly_a_number(),
        integer_text(),
        decimal_text(),
        prop::collection::vec(any::<u8>(), 0..40),
    ]
}

fn check_integers(text: &[u8]) {
    macro_rules! check {
        ($($parse:ident: $ty:ty),*) => {
            $(
                let expected = slow::integer(text, <$ty>::MIN.into(), <$ty>::MAX.into());
                let actual = $parse(text).map(i128::from);
                assert_eq!(actual, expected, "{}: {:?}", stringify!($ty), text.escape_ascii());
            )*
        };
    }
    check!(parse_i8: i8, parse_i16: i16, parse_i32: i32, parse_i64: i64);
    check!(parse_u8: u8, parse_u16: u16, parse_u32: u32, parse_u64: u64);
}

fn check_floats(text: &[u8]) {
    let shown = text.escape_ascii();
    let (actual, expected) = (parse_f64(text), slow::float64(text));
    assert_eq!(actual.map(f64::to_bits), expected.map(f64::to_bits), "{shown}");
    let (actual, expected) = (parse_f32(text), slow::float32(text));
    assert_eq!(actual.map(f32::to_bits), expected.map(f32::to_bits), "{shown}");
}

fn check_decimals(text: &[u8]) {
    for (precision, scale) in [(1, 0), (5, 2), (18, 3), (18, 18), (38, 0), (38, 19), (38, 38)] {
        let actual = parse_decimal(text, precision, scale);
        let expected = slow::decimal(text, precision, scale);
        assert_eq!(actual, expected, "{} ({precision},{scale})", text.escape_ascii());
    }
}

fn check_others(text: &[u8]) {
    let shown = text.escape_ascii();
    assert_eq!(parse_bool(text), slow::boolean(text), "{shown}");
    assert_eq!(parse_uuid(text), slow::uuid(text), "{shown}");
    assert_eq!(parse_ipv4(text), slow::ipv4(text), "{shown}");
    let mut bytes = vec![1, 2];
    let result = parse_binary(text, &mut bytes);
    let expected = slow::binary(text);
    assert_eq!(bytes[2..], expected.clone().unwrap_or_default(), "{shown}");
    assert_eq!(result, expected.map(|_| ()), "{shown}");
    let expected = match str::from_utf8(text) {
        _ if text.len() > 30 => Err(CellError::TooLong),
        Ok(text) if text.contains('\0') => Err(CellError::NulInText),
        Ok(text) => Ok(text),
        Err(_) => Err(CellError::NotUtf8),
    };
    assert_eq!(check_text(text, 30), expected, "{shown}");
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_text_is_read_as_the_obvious_parsers_read_it(text in any_text()) {
        check_integers(&text);
        check_floats(&text);
        check_decimals(&text);
        check_others(&text);
    }

    #[test]
    fn integers_come_back_from_their_text(value in any::<i64>(), shift in 0_u32..64) {
        let value = value >> shift;
        prop_assert_eq!(parse_i64(value.to_string().as_bytes()), Ok(value));
        let value = value.unsigned_abs();
        prop_assert_eq!(parse_u64(value.to_string().as_bytes()), Ok(value));
    }

    #[test]
    fn floats_come_back_from_their_text(bits in any::<u64>(), exponent in -9_i32..9) {
        let value = f64::from_bits(bits);
        let expected = if value.is_nan() { f64::NAN } else { value };
        for text in [format!("{value}"), format!("{value:e}"), format!("{value:?}")] {
            let actual = parse_f64(text.as_bytes()).expect("a float's own text");
            prop_assert_eq!(actual.to_bits(), expected.to_bits(), "{}", text);
        }
        let short = (value % 1e6 * 10_f64.powi(exponent)).clamp(-1e9, 1e9);
        for places in 0..8 {
            check_floats(format!("{short:.places$}").as_bytes());
        }
    }

    #[test]
    fn narrow_floats_come_back_from_their_text(bits in any::<u32>()) {
        let value = f32::from_bits(bits);
        let expected = if value.is_nan() { f32::NAN } else { value };
        let actual = parse_f32(value.to_string().as_bytes()).expect("a float's own text");
        prop_assert_eq!(actual.to_bits(), expected.to_bits());
    }

    #[test]
    fn identifiers_come_back_from_their_text(value in any::<u128>()) {
        let plain = format!("{value:032x}");
        let parts = [&plain[..8], &plain[8..12], &plain[12..16], &plain[16..20], &plain[20..]];
        for text in [plain.clone(), plain.to_uppercase(), parts.join("-")] {
            prop_assert_eq!(parse_uuid(text.as_bytes()), Ok(value.to_be_bytes()), "{}", text);
            check_others(text.as_bytes());
        }
        let address = std::net::Ipv4Addr::from_bits((value >> 96).try_into().expect("32 bits"));
        prop_assert_eq!(parse_ipv4(address.to_string().as_bytes()), Ok(address.to_bits()));
        check_others(format!("\\x{plain}").as_bytes());
    }
}

#[test]
fn every_length_of_every_digit_is_read() {
    for digit in b'0'..=b'9' {
        for len in 0..42 {
            let mut text = vec![digit; len];
            check_integers(&text);
            check_floats(&text);
            check_decimals(&text);
            for sign in *b"+-" {
                text.insert(0, sign);
                check_integers(&text);
                check_floats(&text);
                check_decimals(&text);
                text.remove(0);
            }
            for point in 0..=len {
                text.insert(point, b'.');
                check_floats(&text);
                check_decimals(&text);
                text.remove(point);
            }
        }
    }
}
