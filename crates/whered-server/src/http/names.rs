//! Old spellings of parameters and members, which go on working for one version.
//!
//! For: one name a thing everywhere. A request with an old name is rewritten before its route sees
//! it, and the answer says so by `Deprecation: true` and a `Warning` with the new name.
//! Not for: unknown names, which the route refuses.

use axum::extract::Request;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};

const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");

/// Old names with the new ones.
const RENAMED: [(&str, &str); 7] = [
    ("addr", "address"),
    ("db", "database"),
    ("dport", "destination_port"),
    ("dst", "destination"),
    ("proto", "protocol"),
    ("sport", "source_port"),
    ("src", "source"),
];

/// The new name of an old one.
pub(super) fn renamed(old: &str) -> Option<(&'static str, &'static str)> {
    RENAMED.into_iter().find(|(known, _)| *known == old)
}

/// The old names that a request has used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OldNames(Vec<(&'static str, &'static str)>);

impl OldNames {
    /// Notes one with its new name.
    pub(super) fn note(&mut self, name: (&'static str, &'static str)) {
        if !self.0.contains(&name) {
            self.0.push(name);
        }
    }

    /// Whether the request has used this one.
    pub(super) fn contains(&self, old: &str) -> bool {
        self.0.iter().any(|(used, _)| *used == old)
    }

    /// Says in an answer which names are old.
    pub(super) fn tell(&self, headers: &mut HeaderMap) {
        for (old, new) in &self.0 {
            headers.insert(DEPRECATION, HeaderValue::from_static("true"));
            let text = format!("299 whered \"'{old}' is now '{new}'; the old name goes\"");
            if let Ok(value) = text.parse() {
                headers.append(header::WARNING, value);
            }
        }
    }
}

/// Gives the parameters of a request their new names where its route has only those, and keeps the
/// old ones as an extension of the request.
pub(super) fn rename_parameters(request: &mut Request, known: &[String]) {
    let Some((uri, old)) = with_new_names(request.uri(), known) else { return };
    *request.uri_mut() = uri;
    request.extensions_mut().insert(old);
}

fn with_new_names(uri: &Uri, known: &[String]) -> Option<(Uri, OldNames)> {
    let query = uri.query()?;
    let is_known = |name: &str| known.iter().any(|known| known == name);
    let mut old = OldNames::default();
    let pairs = query.split('&').map(|pair| {
        let name = pair.split_once('=').map_or(pair, |(name, _)| name);
        let found = renamed(name).filter(|(old, new)| is_known(new) && !is_known(old));
        found.map_or_else(
            || pair.to_owned(),
            |(name, new)| {
                old.note((name, new));
                format!("{new}{}", &pair[name.len()..])
            },
        )
    });
    let query = pairs.collect::<Vec<_>>().join("&");
    if old == OldNames::default() {
        return None;
    }
    let path: PathAndQuery = format!("{}?{query}", uri.path()).parse().ok()?;
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path);
    Some((Uri::from_parts(parts).ok()?, old))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_names_become_new_ones_where_the_route_has_only_those() {
        let known = ["database".to_owned(), "fields".to_owned()];
        let rename = |uri: &str| {
            with_new_names(&uri.parse().expect("a URI"), &known)
                .map(|(uri, old)| (uri.to_string(), old.0))
        };
        let database = vec![("db", "database")];
        for (old, new) in [
            ("/v1/ip/1.1.1.1?db=a%20b&fields=x", "/v1/ip/1.1.1.1?database=a%20b&fields=x"),
            ("/a?fields=db&db", "/a?fields=db&database"),
            ("/a?db=1&db=2&&", "/a?database=1&database=2&&"),
            ("http://h:1/a?db=", "http://h:1/a?database="),
        ] {
            assert_eq!(rename(old), Some((new.to_owned(), database.clone())));
        }
        for same in ["/a", "/a?", "/a?dbx=1", "/a?addr=1", "/a?%64b=1", "/a?database=db"] {
            assert_eq!(rename(same), None, "{same}");
        }
        let (uri, old) = ("/a?db=1".parse().expect("a URI"), ["db", "database"]);
        assert_eq!(with_new_names(&uri, &old.map(str::to_owned)), None, "the route has both");
    }

    #[test]
    fn an_answer_says_each_old_name_once() {
        let mut old = OldNames::default();
        old.note(("db", "database"));
        old.note(("db", "database"));
        let mut headers = HeaderMap::new();
        OldNames::default().tell(&mut headers);
        assert!(headers.is_empty());
        old.tell(&mut headers);
        assert_eq!(headers["deprecation"], "true");
        let warnings: Vec<_> = headers.get_all(header::WARNING).iter().collect();
        assert_eq!(warnings, ["299 whered \"'db' is now 'database'; the old name goes\""]);
    }
}
