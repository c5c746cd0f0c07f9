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

/// Entries that say themselves which set they belong to, by their value: the lists of a provider,
/// the countries of a registry. Without a name all of them are one set.
pub(super) struct Groups<'w> {
    wanted: Option<&'w str>,
    is_found: bool,
    /// The names that are there, some of them.
    seen: Vec<Vec<u8>>,
}

/// How many names a message repeats.
const SEEN_MAX: usize = 20;

impl<'w> Groups<'w> {
    pub(super) fn new(wanted: Option<&'w str>) -> Groups<'w> {
        Groups { wanted, is_found: false, seen: Vec::new() }
    }

    pub(super) fn name(&self) -> Option<&'w str> {
        self.wanted
    }

    /// Whether an entry of this group is read.
    pub(super) fn takes(&mut self, group: Option<&[u8]>) -> bool {
        let Some(wanted) = self.wanted else { return true };
        let is_it = group == Some(wanted.as_bytes());
        self.is_found |= is_it;
        if let Some(group) = group
            && !self.is_found
            && self.seen.len() < SEEN_MAX
            && self.seen.iter().all(|seen| seen != group)
        {
            self.seen.push(group.to_vec());
        }
        is_it
    }

    /// Judges the text at its end.
    pub(super) fn end(self, text: &[u8]) -> Result<(), SetTextError> {
        let Some(wanted) = self.wanted.filter(|_| !self.is_found) else { return Ok(()) };
        let names: Vec<_> = self.seen.iter().map(|name| String::from_utf8_lossy(name)).collect();
        let more = if names.len() == SEEN_MAX { " and more" } else { "" };
        let has = if names.is_empty() {
            "the text names none".to_owned()
        } else {
            format!("the text has {}{more}", names.join(", "))
        };
        Err(SetTextError::at(text, text.len(), 0, format!("a set called {wanted}; {has}")))
    }
}

/// Whether a full name is meant: `inet/filter/blocked` is also called `filter/blocked` and
/// `blocked`.
fn is_called(name: &str, wanted: &str) -> bool {
    name.strip_suffix(wanted).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}
