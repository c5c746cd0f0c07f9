//! Which set of a text is read: the only one, or the one that is named.
//!
//! For: texts that hold several sets, such as dumps. Not for: what stands in a set.
//!
//! Invariant: a text with several sets and no name for one of them is refused with all names, after
//! it has been read to its end; sets are never merged. `blocked` and then `blocked-6` are one set:
//! its two families, which ipset and nft keep apart, as `SetWriter` writes them.

use super::SetTextError;

/// The sets of a text so far, and which of them counts.
pub(super) struct Sets<'w> {
    wanted: Option<&'w str>,
    /// Where each set begins, and its full name, such as `inet/filter/blocked`.
    found: Vec<(usize, String)>,
}

impl<'w> Sets<'w> {
    pub(super) fn new(wanted: Option<&'w str>) -> Sets<'w> {
        Sets { wanted, found: Vec::new() }
    }

    /// Whether the set that is mentioned at `place` is the one to be read.
    pub(super) fn is_chosen(&mut self, name: &str, place: usize) -> bool {
        let is_known = |name: &str| self.found.iter().any(|(_, known)| known == name);
        let name = name.strip_suffix("-6").filter(|name| is_known(name)).unwrap_or(name);
        if self.found.iter().all(|(_, known)| known != name) {
            self.found.push((place, name.to_owned()));
        }
        match self.wanted {
            Some(wanted) => is_called(name, wanted),
            None => self.found.len() == 1,
        }
    }

    /// Judges the text at its end.
    pub(super) fn end(self, text: &[u8]) -> Result<(), SetTextError> {
        let names = || {
            let names: Vec<&str> = self.found.iter().map(|(_, name)| name.as_str()).collect();
            names.join(", ")
        };
        let at = |place: usize, allowed: String| {
            let length = text[place.min(text.len())..]
                .iter()
                .take_while(|byte| !byte.is_ascii_whitespace())
                .count();
            Err(SetTextError::at(text, place, length, allowed))
        };
        let Some(wanted) = self.wanted else {
            let Some((place, _)) = self.found.get(1) else { return Ok(()) };
            return at(*place, format!("one set, or the name of one of several: {}", names()));
        };
        let mut chosen = self.found.iter().filter(|(_, name)| is_called(name, wanted));
        match (chosen.next(), chosen.next()) {
            (Some(_), None) => Ok(()),
            (Some(_), Some((place, _))) => {
                at(*place, format!("one set called {wanted}, or a full name: {}", names()))
            }
            _ if self.found.is_empty() => {
                at(text.len(), format!("a set called {wanted}; the text names none"))
            }
            _ => at(text.len(), format!("a set called {wanted}; the text has {}", names())),
        }
    }
}

/// Whether a full name is meant: `inet/filter/blocked` is also called `filter/blocked` and
/// `blocked`.
fn is_called(name: &str, wanted: &str) -> bool {
    name.strip_suffix(wanted).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}
