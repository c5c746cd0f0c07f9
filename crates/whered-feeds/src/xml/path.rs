//! Paths of XML, as a mapping has them.
//!
//! ```text
//! @id   pos/@lat   ../name   ../../@time   .   ../when[n]   tag[@k='name']/@v
//! ```
//! For: finding paths that can match nothing before any upload comes. Not for: what is open in a
//! document (`walk.rs`, `element.rs`).
//!
//! Invariants: an attribute is the last step; at most one child lies below an outer element; a name
//! is one that XML allows, and its prefix is one of the mapping's namespaces if it has any.

use super::DEPTH_MAX;
use super::namespaces::{Namespaces, ResolvedTag};
use crate::error::MappingError;
use crate::mapping::path_help;
use crate::source::Format;

/// One value, seen from the record or from the item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct XmlPath {
    /// How many elements up; then at most one child.
    pub(super) up: usize,
    pub(super) children: Vec<String>,
    /// Conditions on children, each with the index of its child.
    pub(super) conditions: Vec<Condition>,
    /// Without one, the element's text.
    pub(super) attribute: Option<String>,
    /// It is the n-th child for the n-th record.
    pub(super) is_parallel: bool,
}

/// An attribute that a child must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    child: usize,
    attribute: String,
    value: String,
}

/// What names may be.
#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    pub(super) namespaces: &'a Namespaces,
}

impl Names<'_> {
    /// The name, if it can be that of an element or attribute.
    fn check(self, key: &str, name: &str) -> Result<String, MappingError> {
        if !is_name(name) {
            return Err(MappingError::new(key, format!("{name:?}"), path_help(Format::Xml)));
        }
        self.namespaces.check(key, name)?;
        Ok(name.to_owned())
    }
}

/// Whether it could be the name of an element or attribute, perhaps with a prefix.
fn is_name(text: &str) -> bool {
    let begins = |letter: char| letter.is_alphabetic() || letter == '_';
    let is_inner = |letter: char| {
        letter.is_alphanumeric() || "-._\u{b7}".contains(letter) || u32::from(letter) > 0x2ff
    };
    let is_part = |part: &str| {
        part.starts_with(|letter| begins(letter) || u32::from(letter) > 0x2ff)
            && part.chars().all(is_inner)
    };
    match text.split_once(':') {
        Some((prefix, local)) => is_part(prefix) && is_part(local),
        None => is_part(text),
    }
}

/// Names from an element downwards, as `upload/sighting`.
pub(super) fn record_path(
    key: &str,
    text: &str,
    names: Names<'_>,
) -> Result<Vec<String>, MappingError> {
    let text = text.trim();
    let steps = text.strip_prefix('/').unwrap_or(text).split('/');
    let allowed = "names from the root to a record's element, such as upload/sighting";
    let wrong = || MappingError::new(key, format!("{text:?}"), allowed);
    let mut found = Vec::new();
    for step in steps {
        if !is_name(step) || found.len() + 1 >= DEPTH_MAX {
            return Err(wrong());
        }
        found.push(names.check(key, step)?);
    }
    Ok(found)
}

/// A path within an item.
pub(super) fn within(key: &str, text: &str, names: Names<'_>) -> Result<XmlPath, MappingError> {
    let path = XmlPath::parse(key, text, names)?;
    if path.up > 0 {
        let allowed = "a path within the element, without ..";
        return Err(MappingError::new(key, format!("{text:?}"), allowed));
    }
    Ok(path)
}

impl XmlPath {
    pub(super) fn parse(key: &str, text: &str, names: Names<'_>) -> Result<XmlPath, MappingError> {
        let wrong = || MappingError::new(key, format!("{text:?}"), path_help(Format::Xml));
        let mut path = XmlPath {
            up: 0,
            children: Vec::new(),
            conditions: Vec::new(),
            attribute: None,
            is_parallel: false,
        };
        if text == "." {
            return Ok(path);
        }
        for step in steps(text).ok_or_else(wrong)? {
            if path.attribute.is_some() || path.is_parallel {
                return Err(wrong());
            }
            if let Some(name) = step.strip_prefix('@') {
                if !is_name(name) {
                    return Err(wrong());
                }
                path.attribute = Some(names.check(key, name)?);
                continue;
            }
            if step == ".." && path.children.is_empty() {
                path.up += 1;
                continue;
            }
            let (name, inside) = match step.split_once('[') {
                None => (step, None),
                Some((name, inside)) => (name, Some(inside.strip_suffix(']').ok_or_else(wrong)?)),
            };
            if !is_name(name) {
                return Err(wrong());
            }
            path.children.push(names.check(key, name)?);
            match inside {
                None => {}
                Some("n") if path.up > 0 => path.is_parallel = true,
                Some(inside) => {
                    let child = path.children.len() - 1;
                    let condition = Condition::parse(child, inside).ok_or_else(wrong)?;
                    names.check(key, &condition.attribute)?;
                    path.conditions.push(condition);
                }
            }
        }
        let is_own = path.attribute.is_none() && path.children.is_empty();
        if path.up > 0 && (path.children.len() > 1 || is_own || !path.conditions.is_empty()) {
            return Err(wrong());
        }
        Ok(path)
    }

    /// Whether it is this attribute, or the text, of the element that these tags lead to.
    pub(super) fn is(&self, tags: &[ResolvedTag<'_>], attribute: Option<&str>) -> bool {
        self.up == 0
            && self.attribute.as_deref() == attribute
            && are(&self.children, tags)
            && self.conditions.iter().all(|condition| condition.matches(tags))
    }

    /// Whether it is this attribute, or the text, of a child of an outer element.
    pub(super) fn is_outer(&self, children: &[&str], attribute: Option<&str>) -> bool {
        self.up > 0 && self.attribute.as_deref() == attribute && self.children == *children
    }

    /// Whether this attribute of the innermost element decides about it.
    pub(super) fn depends_on(&self, tags: &[ResolvedTag<'_>], attribute: &str) -> bool {
        self.conditions.iter().any(|condition| {
            condition.child + 1 == tags.len()
                && condition.attribute == attribute
                && are(&self.children[..tags.len()], tags)
        })
    }
}

/// Whether tags have these names.
pub(super) fn are(names: &[String], tags: &[ResolvedTag<'_>]) -> bool {
    names.len() == tags.len() && names.iter().zip(tags).all(|(name, tag)| **name == *tag.name)
}

impl Condition {
    /// `@k='name'`.
    fn parse(child: usize, text: &str) -> Option<Condition> {
        let (attribute, value) = text.strip_prefix('@')?.split_once('=')?;
        let unquoted = |quote| value.strip_prefix(quote)?.strip_suffix(quote);
        let value = unquoted('\'').or_else(|| unquoted('"'))?;
        let attribute = attribute.trim().to_owned();
        is_name(&attribute).then(|| Condition { child, attribute, value: value.to_owned() })
    }

    fn matches(&self, tags: &[ResolvedTag<'_>]) -> bool {
        tags.get(self.child).is_some_and(|tag| tag.has(&self.attribute, &self.value))
    }
}

/// The steps of a path between slashes that are not within brackets.
fn steps(text: &str) -> Option<Vec<&str>> {
    let (mut quote, mut is_inside) = (None, false);
    let is_slash = |letter: char| {
        match (letter, quote) {
            ('\'' | '"', None) if is_inside => quote = Some(letter),
            (_, Some(open)) if letter == open => quote = None,
            ('[', None) => is_inside = true,
            (']', None) => is_inside = false,
            _ => {}
        }
        letter == '/' && !is_inside
    };
    let steps: Vec<&str> = text.split(is_slash).collect();
    steps.iter().all(|step| !step.is_empty()).then_some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_can_match_nothing_are_refused() {
        let namespaces = Namespaces::compile(&[]).expect("none");
        let parse = |text| XmlPath::parse("member", text, Names { namespaces: &namespaces });
        for text in [
            "@id",
            "a",
            "a/b/@c",
            ".",
            "../@c",
            "../../c",
            "../c/@d",
            "../when[n]",
            "größe",
            "a.b",
            "x:y/@z",
            "tag[@k='name']/@v",
            "Data[@name='a/b']/value",
            "_a-1",
        ] {
            assert!(parse(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "@",
            "@a/b",
            "a/@b/c",
            "a//b",
            "/a",
            "a/",
            "..",
            "../..",
            "../a/b",
            "a/..",
            "a[0]",
            "#1",
            "1a",
            "a b",
            "a[",
            "a[n]",
            "a[@k]",
            "a[@k=b]",
            "-a",
            "@a|",
            "a[1]/b",
            "../a[@k='b']",
            "x:y:z",
            ":a",
            "a@b",
            "$.a",
            "'a'",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
