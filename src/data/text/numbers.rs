//! Numbers and labels in text, read without a copy.

/// A whole number without sign.
pub(super) fn whole(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 19 {
        return None;
    }
    let mut number = 0;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + u64::from(digit);
    }
    Some(number)
}

/// A whole number with or without sign.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        _ => (1, text),
    };
    Some(sign * i64::try_from(whole(digits)?).ok()?)
}

/// A finite number.
pub(super) fn real(text: &[u8]) -> Option<f32> {
    if let Some(number) = short(text) {
        return Some(number);
    }
    let number: f32 = std::str::from_utf8(text).ok()?.parse().ok()?;
    number.is_finite().then_some(number)
}

/// A number of at most seven digits without exponent, as most are.
///
/// Its digits and the power of ten are both exact as `f32`, and so their quotient is rounded once and rightly.
fn short(text: &[u8]) -> Option<f32> {
    const POWERS: [f32; 8] = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7];
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 8 {
        return None;
    }
    let (mut number, mut count, mut behind) = (0u32, 0, None);
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            number = number * 10 + u32::from(digit);
            count += 1;
        } else if byte == b'.' && behind.is_none() {
            behind = Some(count);
        } else {
            return None;
        }
    }
    if !(1..=7).contains(&count) {
        return None;
    }
    let value = number as f32 / POWERS[count - behind.unwrap_or(count)];
    Some(if negative { -value } else { value })
}

/// A finite number in double precision.
pub(super) fn long_real(text: &[u8]) -> Option<f64> {
    if text.len() <= 15
        && let Some(number) = whole(text)
    {
        return Some(number as f64);
    }
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    number.is_finite().then_some(number)
}

/// A label: 1, or 0 or -1, also with sign or point.
pub(super) fn label(text: &[u8]) -> Result<bool, String> {
    match text {
        b"1" | b"+1" => return Ok(true),
        b"0" | b"-1" => return Ok(false),
        _ => {}
    }
    match real(text) {
        Some(1.0) => Ok(true),
        Some(0.0 | -1.0) => Ok(false),
        _ => Err(format!(
            "label {}, expected 0 or 1, or -1 or 1",
            shown(text)
        )),
    }
}

/// Text of the user in a message: between quotes, and not all of it if it is long.
pub(super) fn shown(text: &[u8]) -> String {
    const MOST: usize = 40;
    if text.is_empty() {
        return "nothing".into();
    }
    let words = String::from_utf8_lossy(&text[..text.len().min(MOST)]);
    let more = if text.len() > MOST { "…" } else { "" };
    format!("`{words}{more}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_whole_or_not_at_all() {
        assert_eq!(whole(b"18446744073709551616"), None);
        assert_eq!(whole(b"9999999999999999999"), Some(9999999999999999999));
        assert_eq!([whole(b""), whole(b"1x"), whole(b"-1")], [None; 3]);
        assert_eq!(integer(b"-12"), Some(-12));
        assert_eq!([integer(b"-"), integer(b"1.5")], [None; 2]);
        assert_eq!(real(b"0.25"), Some(0.25));
        assert_eq!(real(b"16777217"), Some(16_777_216.0));
        assert_eq!(real(b"-1e-3"), Some(-0.001));
        let bad: [&[u8]; 7] = [b"", b"nan", b"inf", b"1e39", b"1,5", b"0x1", b" 1"];
        assert_eq!(bad.map(real), [None; 7]);
        assert_eq!(long_real(b"1e39"), Some(1e39));
    }

    #[test]
    fn short_numbers_are_rounded_as_the_standard_library_does() {
        let mut state = 1u64;
        for _ in 0..20_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let (digits, point) = (state >> 40, (state >> 33) % 8);
            let digits = (digits % 10_000_000).to_string();
            let point = (point as usize).min(digits.len());
            let sign = if state & 1 == 1 { "-" } else { "" };
            let text = format!("{sign}{}.{}", &digits[..point], &digits[point..]);
            assert_eq!(short(text.as_bytes()), text.parse().ok(), "{text}");
            assert!(short(text.as_bytes()).is_some(), "{text}");
        }
        for text in [".", "-", "", "1.2.3", "12345678", "1e3", "-.", "+1"] {
            assert_eq!(short(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn labels_are_two() {
        for yes in ["1", "+1", "1.0", "1.", "1e0"] {
            assert_eq!(label(yes.as_bytes()), Ok(true), "{yes}");
        }
        for no in ["0", "-1", "-1.0", "0.0", "-0"] {
            assert_eq!(label(no.as_bytes()), Ok(false), "{no}");
        }
        for bad in ["2", "", "one", "nan", "-2"] {
            assert!(label(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
