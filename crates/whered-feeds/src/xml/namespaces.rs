//! Names by their namespaces: what a prefix means where it stands.
//!
//! ```text
//! mapping     siri = "http://www.siri.org.uk/siri"          siri:Siri/siri:ServiceDelivery
//! document    <ns2:Siri xmlns:ns2="http://www.siri.org.uk/siri">           is siri:Siri
//! ```
//! For: names of elements and attributes in the form that the mapping's paths have. Not for:
//! mappings without namespaces: their names are compared as they are written.
//!
//! Invariants: a name of a namespace that the mapping does not have is equal to no name of a path;
//! an attribute without a prefix has no namespace.
//! Cost: nothing without namespaces; else a look at the attributes of each tag.

use std::borrow::Cow;

use quick_xml::events::attributes::Attributes;

use super::pull::Tag;
use crate::error::MappingError;

/// The prefix of names without one.
const DEFAULT: &str = "default";
/// More namespaces have no mapping.
const NAMESPACE_COUNT_MAX: usize = 32;

/// The namespaces of a mapping: prefix and name.
#[derive(Clone, Debug)]
pub(super) struct Namespaces(Vec<(String, String)>);

/// A tag whose name is that of the mapping's paths.
#[derive(Clone, Debug)]
pub(super) struct ResolvedTag<'u> {
    /// As paths have it; empty if no path can.
    pub(super) name: Cow<'u, str>,
    /// As it is written.
    pub(super) written: &'u str,
    /// The text between `<` and `>`.
    inside: &'u str,
}

/// What prefixes mean in the open elements.
#[derive(Debug)]
pub(super) struct Resolver<'n, 'u> {
    namespaces: &'n Namespaces,
    /// Depth of the element that declares it, prefix, and name.
    declared: Vec<(usize, &'u str, String)>,
}

impl Namespaces {
    pub(super) fn compile(source: &[(String, String)]) -> Result<Namespaces, MappingError> {
        for (index, (prefix, name)) in source.iter().enumerate() {
            let is_known = source[..index].iter().any(|(earlier, _)| earlier == prefix);
            let is_wrong = prefix.is_empty()
                || name.is_empty()
                || prefix
                    .contains(|letter: char| letter.is_whitespace() || ":/@|'\"".contains(letter));
            if is_known || is_wrong || index >= NAMESPACE_COUNT_MAX {
                let found = format!("{prefix:?} = {name:?}");
                let allowed = "a prefix and the name of its namespace, such as kml = \
                               \"http://www.opengis.net/kml/2.2\"";
                return Err(MappingError::new("namespaces", found, allowed));
            }
        }
        Ok(Namespaces(source.to_vec()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Refuses a name whose prefix is none of these.
    pub(super) fn check(&self, key: &str, name: &str) -> Result<(), MappingError> {
        let Some((prefix, _)) = name.split_once(':').filter(|_| !self.is_empty()) else {
            return Ok(());
        };
        if prefix == "xml" || self.0.iter().any(|(known, _)| known == prefix) {
            return Ok(());
        }
        let known: Vec<&str> = self.0.iter().map(|(prefix, _)| prefix.as_str()).collect();
        let allowed = format!("a prefix of 'namespaces': {}", known.join(", "));
        Err(MappingError::new(key, format!("the prefix {prefix:?}"), allowed))
    }

    pub(super) fn resolver<'u>(&self) -> Resolver<'_, 'u> {
        Resolver { namespaces: self, declared: Vec::new() }
    }
}

impl<'u> Resolver<'_, 'u> {
    /// The tag of an element at this depth; deeper ones are closed.
    pub(super) fn name(&mut self, depth: usize, tag: Tag<'u>) -> ResolvedTag<'u> {
        let (written, inside) = (tag.name, tag.inside);
        if self.namespaces.is_empty() {
            return ResolvedTag { name: Cow::Borrowed(written), written, inside };
        }
        while self.declared.last().is_some_and(|(declared, ..)| *declared >= depth) {
            self.declared.pop();
        }
        for attribute in Attributes::new(inside, written.len()).flatten() {
            let name = attribute.key.into_inner();
            let prefix = if name == "xmlns" { Some("") } else { name.strip_prefix("xmlns:") };
            if let Some(prefix) = prefix {
                let value = attribute.normalized_value(quick_xml::XmlVersion::Implicit1_0);
                let value = value.map(Cow::into_owned).unwrap_or_default();
                self.declared.push((depth, prefix, value));
            }
        }
        ResolvedTag { name: self.resolved(written, true), written, inside }
    }

    /// The name of an attribute of the element that was named last.
    pub(super) fn attribute(&self, written: &'u str) -> Cow<'u, str> {
        if self.namespaces.is_empty() {
            Cow::Borrowed(written)
        } else {
            self.resolved(written, false)
        }
    }

    fn resolved(&self, written: &'u str, is_element: bool) -> Cow<'u, str> {
        let (prefix, local) = written.split_once(':').unwrap_or(("", written));
        if prefix == "xml" || prefix.is_empty() && !is_element {
            return Cow::Borrowed(written);
        }
        let declared = self.declared.iter().rev().find(|(_, known, _)| *known == prefix);
        let name = declared.map_or("", |(_, _, name)| name);
        let known = self.namespaces.0.iter();
        let of_paths = known.filter(|(_, known)| known == name).map(|(prefix, _)| prefix.as_str());
        match of_paths.into_iter().next() {
            _ if name.is_empty() && prefix.is_empty() && !self.has_default() => {
                Cow::Borrowed(written)
            }
            Some(DEFAULT) => Cow::Borrowed(local),
            Some(of_paths) if of_paths == prefix => Cow::Borrowed(written),
            Some(of_paths) => Cow::Owned(format!("{of_paths}:{local}")),
            None => Cow::Borrowed(""),
        }
    }

    fn has_default(&self) -> bool {
        self.namespaces.0.iter().any(|(prefix, _)| prefix == DEFAULT)
    }
}

impl ResolvedTag<'_> {
    /// Whether it has an attribute with this value.
    pub(super) fn has(&self, name: &str, value: &str) -> bool {
        let mut attributes = Attributes::new(self.inside, self.written.len()).flatten();
        let found = attributes.find(|attribute| attribute.key.into_inner() == name);
        let Some(attribute) = found else { return false };
        let found = attribute.normalized_value(quick_xml::XmlVersion::Implicit1_0);
        found.is_ok_and(|found| found == value)
    }
}
