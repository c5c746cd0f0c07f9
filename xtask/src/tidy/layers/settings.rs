//! `xtask/tidy/layers.toml`: the arrows between folders that a crate may have, and its large
//! circles.
//!
//! An unknown key is an error, so that a misspelt one does not silently allow everything.

use std::collections::BTreeMap;

use toml::{Table, Value};

use crate::failure::ChoreError;

/// Where the file is.
pub(super) const PATH: &str = "xtask/tidy/layers.toml";

/// One crate of the file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Layers {
    /// The package's name, also its folder below `crates/`.
    pub(super) name: String,
    /// Folders by name, and the folders that their files may use; `*` is every folder.
    pub(super) folders: BTreeMap<String, Vec<String>>,
    /// Circles that are larger than the limit.
    pub(super) circles: Vec<LargeCircle>,
}

/// A circle of files that may be larger than the limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LargeCircle {
    /// One of its files, relative to the crate's folder.
    pub(super) file: String,
    /// How many files it has.
    pub(super) count: usize,
}

/// Reads the file's text.
pub(super) fn parse(text: &str) -> Result<Vec<Layers>, ChoreError> {
    let table: Table = text.parse().map_err(|error| ChoreError::new(format!("{PATH}: {error}")))?;
    table.iter().map(|(name, value)| layers(name, value)).collect()
}

fn wrong(what: impl std::fmt::Display) -> ChoreError {
    ChoreError::new(format!("{PATH}: {what}"))
}

fn layers(name: &str, value: &Value) -> Result<Layers, ChoreError> {
    let table = value.as_table().ok_or_else(|| wrong(format!("{name} must be a table")))?;
    let mut layers = Layers { name: name.to_owned(), ..Layers::default() };
    for (key, value) in table {
        match key.as_str() {
            "folders" => layers.folders = folders(value)?,
            "circles" => layers.circles = circles(value)?,
            _ => return Err(wrong(format!("unknown key '{key}'; allowed: folders, circles"))),
        }
    }
    Ok(layers)
}

fn folders(value: &Value) -> Result<BTreeMap<String, Vec<String>>, ChoreError> {
    let reason = || wrong("folders must be a table of lists of names");
    let mut folders = BTreeMap::new();
    for (folder, uses) in value.as_table().ok_or_else(reason)? {
        let uses = uses.as_array().ok_or_else(reason)?;
        let uses: Option<Vec<String>> =
            uses.iter().map(|name| name.as_str().map(str::to_owned)).collect();
        folders.insert(folder.clone(), uses.ok_or_else(reason)?);
    }
    Ok(folders)
}

fn circles(value: &Value) -> Result<Vec<LargeCircle>, ChoreError> {
    let reason = || wrong("every circle needs a file, a count and a reason in words");
    let mut circles = Vec::new();
    for entry in value.as_array().ok_or_else(reason)? {
        let entry = entry.as_table().ok_or_else(reason)?;
        let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::trim);
        let count = entry.get("count").and_then(Value::as_integer);
        let count = count.and_then(|count| usize::try_from(count).ok()).ok_or_else(reason)?;
        let file = text("file").ok_or_else(reason)?.to_owned();
        if entry.len() != 3 || text("reason").is_none_or(str::is_empty) {
            return Err(reason());
        }
        circles.push(LargeCircle { file, count });
    }
    Ok(circles)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_circles_are_read() {
        let text = "[a]\ncircles = [{ file = \"src/b.rs\", count = 9, reason = \"one lock\" }]\n\
                    [a.folders]\nb = [\"c\"]\nc = []\n";
        let layers = parse(text).unwrap();
        assert_eq!(layers[0].name, "a");
        assert_eq!(layers[0].folders["b"], ["c"]);
        assert_eq!(layers[0].circles, [LargeCircle { file: "src/b.rs".to_owned(), count: 9 }]);
    }

    #[test]
    fn a_circle_without_a_reason_and_an_unknown_key_are_refused() {
        assert!(parse("[a]\ncircles = [{ file = \"b\", count = 9, reason = \" \" }]").is_err());
        assert!(parse("[a]\ncircles = [{ file = \"b\", count = 9 }]").is_err());
        assert!(parse("[a]\nfolder = {}").is_err());
        assert!(parse("[a]\nfolders = { b = \"c\" }").is_err());
    }
}
