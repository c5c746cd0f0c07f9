//! Bearer tokens of requests.
//!
//! Not for: which token a request needs (`mod.rs`, `feeds`).
//! At the same time: a reload exchanges a token; each request sees the old one or the new one.

use std::sync::RwLock;

use axum::http::{HeaderMap, HeaderValue, header};
use whered_engine::sync;

/// The token that opens something, if one is set.
#[derive(Default)]
pub(super) struct CurrentToken(RwLock<Option<String>>);

impl CurrentToken {
    pub(super) fn new(token: Option<String>) -> CurrentToken {
        CurrentToken(RwLock::new(token))
    }

    /// Whether there is one.
    pub(super) fn is_set(&self) -> bool {
        sync::read(&self.0).is_some()
    }

    /// Whether there is one and a request carries it.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        sync::read(&self.0).as_deref().is_some_and(|token| has_token(token, headers))
    }

    /// Later requests need this one.
    pub(super) fn exchange(&self, token: Option<String>) {
        *sync::write(&self.0) = token;
    }
}

/// Whether a request carries a token.
fn has_token(token: &str, headers: &HeaderMap) -> bool {
    let given = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let given = given.and_then(|value| value.split_at_checked("Bearer ".len()));
    given.is_some_and(|(scheme, given)| {
        scheme.eq_ignore_ascii_case(b"Bearer ") && is_same_secret(token.as_bytes(), given)
    })
}

/// Compares without telling by its duration how many bytes were right. The length is no secret.
fn is_same_secret(secret: &[u8], given: &[u8]) -> bool {
    let differing = secret.iter().zip(given).fold(0, |bits, (a, b)| bits | (a ^ b));
    secret.len() == given.len() && std::hint::black_box(differing) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_opens() {
        let header = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            headers
        };
        assert!(has_token("abc", &header("Bearer abc")));
        assert!(has_token("abc", &header("bearer abc")));
        for wrong in ["Bearer ab", "Bearer abcd", "Bearer abd", "Basic abc", "abc", "Bearer "] {
            assert!(!has_token("abc", &header(wrong)), "{wrong}");
        }
        assert!(!has_token("abc", &HeaderMap::new()));
    }
}
