//! Names that may be any bytes: keys of collections and their members, in JSON and in paths.
//!
//! ```text
//! UTF-8:      "member": "van-7"
//! other:      "member": "caf\ufffd", "member_base64": "Y2Fm6Q=="     RFC 4648 section 4
//! in a path:  /members/van-7      /members/caf%E9                     each byte may be escaped
//! ```
//!
//! Invariant: two names that differ are shown differently: a name that is no UTF-8 is never shown
//! without its exact bytes.

use std::borrow::Cow;

use axum::http::Uri;
use serde::Serialize;
use serde_json::{Map, Value};

use super::error::HttpError;

/// A name as text, with its exact bytes if it is none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ShownName<'a> {
    /// What is no UTF-8 is replaced by U+FFFD.
    pub(super) text: Cow<'a, str>,
    /// Only where something was replaced.
    pub(super) base64: Option<String>,
}

impl<'a> ShownName<'a> {
    pub(super) fn new(name: &'a [u8]) -> ShownName<'a> {
        let text = String::from_utf8_lossy(name);
        let exact = matches!(text, Cow::Borrowed(_));
        ShownName { base64: (!exact).then(|| base64(name)), text }
    }

    /// Puts it into an object, under a key and that key with `_base64`.
    pub(super) fn put(self, object: &mut Map<String, Value>, key: &str) {
        object.insert(key.to_owned(), self.text.into());
        if let Some(base64) = self.base64 {
            object.insert(format!("{key}_base64"), base64.into());
        }
    }
}

/// A part of a request's path, and with `rest` all that follows it; escapes are resolved to bytes,
/// which need not be text.
///
/// # Errors
/// An escape that is none: 400 with this field.
pub(super) fn of_path(
    uri: &Uri,
    index: usize,
    rest: bool,
    field: &'static str,
) -> Result<Vec<u8>, HttpError> {
    let path = uri.path().strip_prefix('/').unwrap_or_default();
    let part = match rest {
        true => path.splitn(index + 1, '/').nth(index),
        false => path.split('/').nth(index),
    };
    let escaped = part.unwrap_or_default().as_bytes();
    let mut name = Vec::with_capacity(escaped.len());
    let mut at = 0;
    while let Some(&byte) = escaped.get(at) {
        if byte != b'%' {
            name.push(byte);
            at += 1;
            continue;
        }
        let digits = escaped.get(at + 1..at + 3);
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let escape = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        name.push(escape.ok_or_else(|| {
            HttpError::bad_request(field, "a lone '%' in the path; allowed: an escape such as %41")
        })?);
        at += 3;
    }
    Ok(name)
}

/// RFC 4648 section 4, with padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let value = bits >> (18 - 6 * digit) & 63;
            let padding = digit > chunk.len();
            text.push(if padding { '=' } else { char::from(ALPHABET[value as usize]) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_gives_the_vectors_of_rfc_4648() {
        let vectors = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, encoded) in vectors {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }

    #[test]
    fn names_of_any_bytes_are_read_from_paths() {
        let read = |path: &str, index, rest| {
            let uri: Uri = path.parse().expect("a URI");
            of_path(&uri, index, rest, "member").map_err(|_| "refused")
        };
        assert_eq!(read("/v1/collections/a%20b", 2, false), Ok(b"a b".to_vec()));
        assert_eq!(read("/v1/collections/caf%E9/x", 2, false), Ok(b"caf\xe9".to_vec()));
        assert_eq!(read("/v1/c/n/members/a/b%2Fc", 4, true), Ok(b"a/b/c".to_vec()));
        assert_eq!(read("/v1/c/n/members/%00%ff", 4, true), Ok(b"\0\xff".to_vec()));
        assert_eq!(read("/v1/c/n/members/%", 4, true), Err("refused"));
        assert_eq!(read("/v1/c/n/members/%4", 4, true), Err("refused"));
        assert_eq!(read("/v1/c/n/members/%+1", 4, true), Err("refused"));
    }

    #[test]
    fn only_names_that_are_no_text_have_their_bytes_beside_them() {
        let shown = |name: &[u8]| {
            let mut object = Map::new();
            ShownName::new(name).put(&mut object, "member");
            Value::Object(object).to_string()
        };
        assert_eq!(shown("São".as_bytes()), r#"{"member":"São"}"#);
        assert_eq!(
            shown(b"caf\xe9"),
            "{\"member\":\"caf\u{fffd}\",\"member_base64\":\"Y2Fm6Q==\"}"
        );
    }
}
