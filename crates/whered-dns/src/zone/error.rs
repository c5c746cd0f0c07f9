//! A fault in a master file, with its location.
//!
//! Not for: faults between zones and pools, which have no line (`ZonesError`).

use std::fmt;
use std::sync::Arc;

/// A mistake in a master file (or, from [`Zone::warnings`](crate::Zone::warnings), an oddity):
/// its place, what was found there, and what is allowed.
///
/// ```
/// use whered_dns::{Name, Zone};
/// let text = b"@ 3600 IN SOA ns hostmaster 1 2 3 4 5\n@ 3600 IN NS ns\nns 60 A 192.0.2.300\n";
/// let error = Zone::from_master_file(&"example.com".parse()?, text, &mut |_| Err("none".into()))
///     .unwrap_err();
/// assert_eq!((error.line(), error.column()), (3, 9));
/// # Ok::<(), whered_dns::NameError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneError {
    inner: Box<Inner>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Inner {
    place: Place,
    found: String,
    allowed: String,
}

/// A place in a master file or in a file that it includes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: Option<Arc<str>>,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl ZoneError {
    pub(crate) fn new(
        place: &Place,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> ZoneError {
        let found = shortened(found.into());
        let inner = Inner { place: place.clone(), found, allowed: allowed.into() };
        ZoneError { inner: Box::new(inner) }
    }

    /// The included file, as `$INCLUDE` names it; none in the zone's own text.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.inner.place.file.as_deref()
    }

    /// The line, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.inner.place.line as usize
    }

    /// The column in bytes, from 1.
    #[must_use]
    pub fn column(&self) -> usize {
        self.inner.place.column as usize
    }

    /// The text that was found.
    #[must_use]
    pub fn found(&self) -> &str {
        &self.inner.found
    }

    /// The text that is allowed.
    #[must_use]
    pub fn allowed(&self) -> &str {
        &self.inner.allowed
    }
}

/// A message stays one readable line, however long the token was that it is about.
fn shortened(mut found: String) -> String {
    const LONGEST: usize = 120;
    if found.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|end| found.is_char_boundary(*end)).unwrap_or(0);
        found.truncate(end);
        found.push_str("...");
    }
    found
}

/// One line: `file:line:column: found ...; allowed: ...` (without `file:` in the zone's own text).
impl fmt::Display for ZoneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = self.file() {
            write!(f, "{file}:")?;
        }
        let (line, column) = (self.line(), self.column());
        write!(f, "{line}:{column}: found {}; allowed: {}", self.found(), self.allowed())
    }
}

impl std::error::Error for ZoneError {}
