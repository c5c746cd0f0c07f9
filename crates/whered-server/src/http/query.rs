//! The query parameters of a route: known ones only, each at most once but those of lists.
//!
//! Not for: what a value means to the route. Every refusal is a 400 that names the parameter, what
//! was found and what is allowed. Cost: a few short comparisons; a URI has a limit of its own.

use axum::extract::Query;
use axum::http::Uri;

use super::error::{ErrorCode, HttpError};

/// The parameters of one request.
pub(crate) struct Parameters {
    pairs: Vec<(String, String)>,
}

impl Parameters {
    /// Takes the parameters when each is one of `allowed`.
    ///
    /// # Errors
    /// Bad percent-encoding, an unknown parameter or a repeated one: 400.
    pub(crate) fn read(uri: &Uri, allowed: &[&'static str]) -> Result<Parameters, HttpError> {
        Parameters::read_among(uri, allowed, &[])
    }

    /// Like [`read`](Parameters::read), with names of the configuration.
    ///
    /// # Errors
    /// As [`read`](Parameters::read).
    pub(crate) fn read_among(
        uri: &Uri,
        allowed: &[&'static str],
        configured: &[&str],
    ) -> Result<Parameters, HttpError> {
        Parameters::read_by(uri, allowed, configured, &[])
    }

    /// Like [`read`](Parameters::read); the parameters of `lists` may be repeated.
    ///
    /// # Errors
    /// As [`read`](Parameters::read).
    pub(crate) fn read_with_lists(
        uri: &Uri,
        allowed: &[&'static str],
        lists: &[&'static str],
    ) -> Result<Parameters, HttpError> {
        Parameters::read_by(uri, allowed, &[], lists)
    }

    fn read_by(
        uri: &Uri,
        allowed: &[&'static str],
        configured: &[&str],
        lists: &[&'static str],
    ) -> Result<Parameters, HttpError> {
        let raw = uri.query().unwrap_or_default();
        if let Some(offset) = wrong_escape(raw) {
            let message = format!("byte {offset} of the query: a lone '%'; allowed: %41");
            return Err(HttpError::bad_request("query", message));
        }
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri).map_err(|error| {
            HttpError::bad_request("query", format!("the query cannot be read: {error}"))
        })?;
        for (index, (name, value)) in pairs.iter().enumerate() {
            // The decoder puts this character where the bytes were no UTF-8.
            if name.contains('\u{fffd}') || value.contains('\u{fffd}') {
                let message = "the query is not UTF-8 when its escapes are resolved";
                return Err(HttpError::bad_request("query", message));
            }
            let known = allowed.iter().find(|known| *known == name).copied();
            let known = known.or_else(|| configured.contains(&name.as_str()).then_some("query"));
            let Some(known) = known else {
                let list = [allowed, configured].concat().join(", ");
                let message = format!("unknown parameter '{name}'; allowed: {list}");
                return Err(HttpError::new(ErrorCode::UnknownParameter, Some("query"), message));
            };
            let is_list = lists.contains(&name.as_str());
            if !is_list && pairs[..index].iter().any(|(earlier, _)| earlier == name) {
                let message = format!("'{name}' is given twice");
                return Err(HttpError::new(ErrorCode::RepeatedParameter, Some(known), message));
            }
        }
        Ok(Parameters { pairs })
    }

    /// A parameter's text; one that is there but empty counts as absent.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let pair = self.pairs.iter().find(|(key, _)| key == name)?;
        Some(pair.1.as_str()).filter(|text| !text.is_empty())
    }

    /// The texts of a parameter that may be repeated, but empty ones.
    pub(crate) fn values_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let pairs = self.pairs.iter().filter(move |(key, value)| key == name && !value.is_empty());
        pairs.map(|(_, value)| value.as_str())
    }

    /// A switch: `1`/`true` or `0`/`false`; absent is off.
    ///
    /// # Errors
    /// Anything else: 400.
    pub(crate) fn switch(&self, name: &'static str) -> Result<bool, HttpError> {
        match self.text(name) {
            None | Some("0" | "false") => Ok(false),
            Some("1" | "true") => Ok(true),
            Some(other) => {
                let message = format!("'{name}' is '{other}'; allowed: 1, 0");
                Err(HttpError::bad_request(name, message))
            }
        }
    }

    /// A number with or without a fraction.
    ///
    /// # Errors
    /// Not a finite number: 400.
    pub(crate) fn number(&self, name: &'static str) -> Result<Option<f64>, HttpError> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        number.map(Some).ok_or_else(|| {
            HttpError::bad_request(name, format!("'{name}' is '{text}'; allowed: a number"))
        })
    }

    /// A number that must be there.
    ///
    /// # Errors
    /// Absent or not a finite number: 400.
    pub(crate) fn required_number(&self, name: &'static str) -> Result<f64, HttpError> {
        self.number(name)?.ok_or_else(|| HttpError::missing(name))
    }

    /// A whole number from 1 to `max`.
    ///
    /// # Errors
    /// Anything else: 400.
    pub(crate) fn count(&self, name: &'static str, max: usize) -> Result<Option<usize>, HttpError> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let count = text.parse().ok().filter(|count| (1..=max).contains(count));
        count.map(Some).ok_or_else(|| {
            HttpError::bad_request(name, format!("'{name}' is '{text}'; allowed: 1 to {max}"))
        })
    }
}

/// Where a percent sign is not followed by two hexadecimal digits.
fn wrong_escape(query: &str) -> Option<usize> {
    let bytes = query.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    let mut signs = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%');
    signs.find(|(at, _)| !is_digit(at + 1) || !is_digit(at + 2)).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_with_a_wrong_escape_is_refused() {
        for query in ["/?a=%", "/?a=%4", "/?a=%zz", "/?a=%ff"] {
            let uri: Uri = query.parse().expect("a URI");
            assert!(Parameters::read(&uri, &["a"]).is_err(), "{query}");
        }
        let right: Uri = "/?a=%41%20b".parse().expect("a URI");
        let parameters = Parameters::read(&right, &["a"]).map_err(|_| "refused").expect("right");
        assert_eq!(parameters.text("a"), Some("A b"));
    }

    #[test]
    fn only_parameters_of_lists_may_be_repeated() {
        let uri: Uri = "/?a=1&b=2&a=3%2C4&a=".parse().expect("a URI");
        let read = Parameters::read_with_lists(&uri, &["a", "b"], &["a"]);
        let parameters = read.map_err(|_| "refused").expect("right");
        assert_eq!(parameters.values_of("a").collect::<Vec<_>>(), ["1", "3,4"]);
        assert!(Parameters::read_with_lists(&uri, &["a", "b"], &["b"]).is_err());
        assert!(Parameters::read(&uri, &["a", "b"]).is_err());
    }
}
