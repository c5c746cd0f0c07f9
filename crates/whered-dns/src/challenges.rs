//! Tokens by which a certificate authority sees that a name is ours (ACME dns-01, RFC 8555, 8.4).
//!
//! Not for: whether a name is in a zone of ours, keeping tokens through restarts (the caller).
//!
//! ```text
//! _acme-challenge.www.example.com.  (lower case, wire form)  ─> [(token, end)], newest last
//! ```
//!
//! Invariants: a name that is here has at least one token; there are at most [`CHALLENGES_MAX`] in
//! all. Concurrency: immutable for readers; a change makes a new one. Cost: a search among the
//! names, which only questions that begin with the label pay; names that are missing from their
//! zone pay a look at every name here.

use std::collections::BTreeMap;

use crate::lower::LowerName;
use crate::name::Name;

/// How many tokens there may be at a time.
pub const CHALLENGES_MAX: usize = 1000;

/// The first label of a challenge's name, in wire form.
const LABEL: &[u8] = b"\x0f_acme-challenge";

/// The tokens of all names.
///
/// ```
/// use whered_dns::Challenges;
/// let mut challenges = Challenges::default();
/// let owner = Challenges::owner(&"www.example.com".parse()?)?;
/// let token = "LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0";
/// assert!(challenges.set(&owner, token, 2_000_000));
/// assert_eq!(challenges.tokens(&owner, 1_000_000), [token]);
/// assert!(challenges.tokens(&owner, 3_000_000).is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Challenges {
    by_owner: BTreeMap<Box<[u8]>, Vec<Challenge>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Challenge {
    token: String,
    expires_at_millis: u64,
}

impl Challenges {
    /// Where the challenge of a name stands: below `_acme-challenge`, unless the name says that
    /// already.
    ///
    /// # Errors
    /// The name is too long for that.
    pub fn owner(name: &Name) -> Result<Name, crate::NameError> {
        let lower = LowerName::of(name);
        if lower.as_wire().starts_with(LABEL) {
            return Name::from_wire(lower.as_wire());
        }
        Name::from_wire(&[LABEL, lower.as_wire()].concat())
    }

    /// Whether challenges can stand at a name.
    #[must_use]
    pub fn is_owner(name: &Name) -> bool {
        Challenges::may_own(&lower(name))
    }

    /// Whether a text can be a token: the unpadded base64url of a SHA-256.
    #[must_use]
    pub fn is_token(text: &str) -> bool {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        text.len() == 43 && text.bytes().all(is_allowed)
    }

    /// Adds a token until a moment, or gives one that is there a new end; whether it is new.
    pub fn set(&mut self, owner: &Name, token: &str, expires_at_millis: u64) -> bool {
        let tokens = self.by_owner.entry(lower(owner)).or_default();
        match tokens.iter_mut().find(|known| known.token == token) {
            Some(known) => {
                known.expires_at_millis = expires_at_millis;
                false
            }
            None => {
                tokens.push(Challenge { token: token.to_owned(), expires_at_millis });
                true
            }
        }
    }

    /// Removes a token of a name, or all of them; gives how many.
    pub fn remove(&mut self, owner: &Name, token: Option<&str>) -> usize {
        let before = self.len();
        if let Some(tokens) = self.by_owner.get_mut(&*lower(owner)) {
            tokens.retain(|known| token.is_some_and(|token| known.token != token));
        }
        self.by_owner.retain(|_, tokens| !tokens.is_empty());
        before - self.len()
    }

    /// Forgets tokens whose end has come.
    pub fn forget(&mut self, now_millis: u64) {
        for tokens in self.by_owner.values_mut() {
            tokens.retain(|known| known.expires_at_millis > now_millis);
        }
        self.by_owner.retain(|_, tokens| !tokens.is_empty());
    }

    /// How many tokens there are, those included whose end has come.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_owner.values().map(Vec::len).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_owner.is_empty()
    }

    /// The tokens that a name has at a moment.
    #[must_use]
    pub fn tokens(&self, owner: &Name, now_millis: u64) -> Vec<&str> {
        self.find(&lower(owner), now_millis).collect()
    }

    /// Every token: its owner, itself, and when it ends, in milliseconds since 1970.
    pub fn iter(&self) -> impl Iterator<Item = (Name, &str, u64)> {
        self.by_owner.iter().flat_map(|(owner, tokens)| {
            let owner = Name::from_wire(owner).expect("only wire forms of names are put in");
            tokens
                .iter()
                .map(move |known| (owner.clone(), known.token.as_str(), known.expires_at_millis))
        })
    }

    /// Whether a name in lower case can have tokens at all.
    #[inline]
    pub(crate) fn may_own(lower_wire: &[u8]) -> bool {
        lower_wire.starts_with(LABEL)
    }

    /// The tokens of a name in lower case.
    pub(crate) fn find(&self, lower_wire: &[u8], now_millis: u64) -> impl Iterator<Item = &str> {
        let tokens = self.by_owner.get(lower_wire).into_iter().flatten();
        tokens
            .filter(move |known| known.expires_at_millis > now_millis)
            .map(|known| known.token.as_str())
    }

    /// Whether some name with tokens is below a name in lower case, which exists for that.
    pub(crate) fn is_any_below(&self, lower_wire: &[u8], now_millis: u64) -> bool {
        let is_below = |owner: &[u8]| {
            let mut rest = owner;
            while let Some((length, labels)) = rest.split_first() {
                rest = labels.get(usize::from(*length)..).unwrap_or_default();
                if rest == lower_wire {
                    return true;
                }
            }
            false
        };
        self.by_owner.iter().any(|(owner, tokens)| {
            tokens.iter().any(|known| known.expires_at_millis > now_millis) && is_below(owner)
        })
    }
}

fn lower(name: &Name) -> Box<[u8]> {
    LowerName::of(name).as_wire().into()
}
