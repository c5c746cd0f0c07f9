//! Where each key of the configuration is: for faults that show only when its value is used.
//!
//! ```text
//! resp.listen.1            the second address          database.city          a table of a name
//! resp.tls.certificate     a key in a table            database.city.path     a key in it
//! ```
//! Not for: mistakes that reading finds (`error`). Invariant: what stands more often under one name
//! has the place of the first; a key without a place has that of the table around it.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Document;

/// Places by path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Locations {
    by_path: BTreeMap<String, String>,
    file: String,
    /// Keys whose values are not those of the file.
    replaced: Vec<&'static str>,
}

impl Locations {
    pub(super) fn of(document: &Document<'_>, top: &DeTable<'_>) -> Locations {
        let file = document.path.display().to_string();
        let mut locations = Locations { file, ..Locations::default() };
        locations.add_table(document, "", top);
        locations
    }

    /// `file:line:column` of a key; that of the table around it when the file does not have the
    /// key, and the file's name alone when it has neither. `None` without a file.
    pub(crate) fn find(&self, path: &str) -> Option<&str> {
        let mut path = path;
        let is_below = |key: &&str| {
            path.strip_prefix(*key).is_some_and(|it| it.is_empty() || it.starts_with('.'))
        };
        if self.replaced.iter().any(is_below) {
            return None;
        }
        loop {
            if let Some(found) = self.by_path.get(path) {
                return Some(found);
            }
            match path.rsplit_once('.') {
                Some((outer, _)) => path = outer,
                None => return (!self.file.is_empty()).then_some(self.file.as_str()),
            }
        }
    }

    /// The value of this key is that of a flag: it has no place in the file.
    pub(super) fn replace(&mut self, key: &'static str) {
        self.replaced.push(key);
    }

    fn add_table(&mut self, document: &Document<'_>, path: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let path = match path {
                "" => key.get_ref().to_string(),
                _ => format!("{path}.{}", key.get_ref()),
            };
            self.add(document, &path, value);
        }
    }

    fn add(&mut self, document: &Document<'_>, path: &str, value: &Spanned<DeValue<'_>>) {
        let place = || document.at(&value.span());
        self.by_path.entry(path.to_owned()).or_insert_with(place);
        match value.get_ref() {
            DeValue::Table(table) => self.add_table(document, path, table),
            DeValue::Array(array) => {
                for (index, element) in array.iter().enumerate() {
                    let table = element.get_ref().as_table();
                    let name = table.and_then(|table| table.get("name")?.get_ref().as_str());
                    match name {
                        Some(name) => self.add(document, &format!("{path}.{name}"), element),
                        None => self.add(document, &format!("{path}.{index}"), element),
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn keys_elements_and_named_tables_have_places_and_others_that_of_their_table() {
        let text = "data_dir = \"d\"\n[resp]\nlisten = [\n  \"a\",\n  \"b\"]\n\
                    [[database]]\nname = \"city\"\npath = \"x\"\n[[database]]\nname = \"as.n\"\n";
        let document = Document::new(text, Path::new("edge.toml"));
        let tree = DeTable::parse(text).unwrap();
        let locations = Locations::of(&document, tree.get_ref());
        for (path, place) in [
            ("data_dir", "edge.toml:1:12"),
            ("resp.listen.1", "edge.toml:5:3"),
            ("resp.listen.7", "edge.toml:3:10"),
            ("resp.password", "edge.toml:2:1"),
            ("database.city.path", "edge.toml:8:8"),
            ("database.city", "edge.toml:6:1"),
            ("database.as.n", "edge.toml:9:1"),
            ("http.listen", "edge.toml"),
        ] {
            assert_eq!(locations.find(path), Some(place), "{path}");
        }
        let mut locations = locations;
        locations.replace("resp.listen");
        assert_eq!(locations.find("resp.listen.1"), None);
        assert_eq!(locations.find("resp.listens"), Some("edge.toml:2:1"));
        assert_eq!(Locations::default().find("resp"), None);
    }
}
