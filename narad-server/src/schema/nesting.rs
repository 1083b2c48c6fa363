//! How deep JSON text nests, told before anything recurses into it; and parsing what nests no deeper than it may.

use serde::Deserialize;
use serde_json::Value;

/// The most objects and arrays that lie within each other in `json`. Of text that is not JSON it tells a number that
/// is not too small for any beginning of it that is.
pub(super) fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0usize, 0usize, false, false);
    for &byte in json {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The value that `json` is, and how deep it nests.
///
/// # Errors
/// It nests deeper than `limit`, or is not JSON.
pub(super) fn parse(json: &[u8], limit: usize) -> Result<(Value, usize), String> {
    let depth = depth(json);
    if depth > limit {
        return Err(format!("it nests {depth} levels deep; at most {limit} are taken"));
    }
    let mut parser = serde_json::Deserializer::from_slice(json);
    // The limit above stands in for the parser's own, which is lower.
    parser.disable_recursion_limit();
    let value = Value::deserialize(&mut parser).and_then(|value| parser.end().map(|()| value));
    value.map(|value| (value, depth)).map_err(|error| format!("it is not JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_in_strings_do_not_nest() {
        for (json, levels) in [
            ("1", 0),
            ("[]", 1),
            (r#"{"a":[{"b":1}],"c":[]}"#, 3),
            (r#"["[[[[", "\"[[", "\\", {}]"#, 2),
            ("]]][[", 2),
        ] {
            assert_eq!(depth(json.as_bytes()), levels, "{json}");
        }
    }

    #[test]
    fn the_limit_is_a_level_and_not_the_parsers() {
        let nested = |levels: usize| [vec![b'['; levels], vec![b']'; levels]].concat();
        assert!(parse(&nested(256), 256).is_ok());
        assert!(parse(&nested(257), 256).unwrap_err().contains("257"));
        assert!(parse(&vec![b'['; 1 << 20], 256).is_err());
        for text in ["", "{", "1 2", "\u{feff}1", "NaN", "\"\\ud800\""] {
            assert!(parse(text.as_bytes(), 256).unwrap_err().contains("not JSON"), "{text}");
        }
        assert!(parse(b"\"\xff\"", 256).is_err());
    }
}
