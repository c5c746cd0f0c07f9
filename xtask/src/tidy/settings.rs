//! `xtask/tidy/settings.toml`: exceptions and words that tidy cannot know by itself.
//!
//! An unknown key is an error, so that a misspelt exception does not silently do nothing.

use toml::{Table, Value};

use crate::failure::ChoreError;

/// What the file says.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    /// Forbidden words, already joined from their pieces.
    pub(crate) forbidden: Vec<String>,
    /// Files that may be longer than the limit.
    pub(crate) large: Vec<LargeFile>,
}

/// One source file that may be longer than the limit.
#[derive(Debug)]
pub(crate) struct LargeFile {
    /// Relative to the root.
    pub(crate) path: String,
}

impl Settings {
    /// Reads the text of the file.
    pub(crate) fn parse(text: &str) -> Result<Settings, ChoreError> {
        let table: Table = text
            .parse()
            .map_err(|error| ChoreError::new(format!("xtask/tidy/settings.toml: {error}")))?;
        let mut settings = Settings::default();
        for (key, value) in &table {
            match key.as_str() {
                "forbidden" => settings.forbidden = joined_words(value)?,
                "large" => settings.large = large_files(value)?,
                _ => {
                    return Err(ChoreError::new(format!(
                        "xtask/tidy/settings.toml: unknown key '{key}'; allowed: forbidden, large"
                    )));
                }
            }
        }
        Ok(settings)
    }
}

fn joined_words(value: &Value) -> Result<Vec<String>, ChoreError> {
    let wrong = || {
        ChoreError::new(
            "xtask/tidy/settings.toml: forbidden must be a list of lists of non-empty strings",
        )
    };
    let mut words = Vec::new();
    for pieces in value.as_array().ok_or_else(wrong)? {
        let pieces = pieces.as_array().ok_or_else(wrong)?;
        let pieces: Option<Vec<&str>> = pieces.iter().map(Value::as_str).collect();
        let word = pieces.ok_or_else(wrong)?.concat();
        if word.is_empty() {
            return Err(wrong());
        }
        words.push(word);
    }
    Ok(words)
}

fn large_files(value: &Value) -> Result<Vec<LargeFile>, ChoreError> {
    let wrong = || {
        ChoreError::new(
            "xtask/tidy/settings.toml: every [[large]] needs a path and a reason in words",
        )
    };
    let mut files = Vec::new();
    for entry in value.as_array().ok_or_else(wrong)? {
        let path = entry.get("path").and_then(Value::as_str).ok_or_else(wrong)?;
        let reason = entry.get("reason").and_then(Value::as_str).ok_or_else(wrong)?;
        if reason.trim().is_empty() {
            return Err(wrong());
        }
        files.push(LargeFile { path: path.to_owned() });
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_joined_from_their_pieces() {
        let settings = Settings::parse("forbidden = [[\"ab\", \"cd\"], [\"e\"]]").unwrap();
        assert_eq!(settings.forbidden, ["abcd", "e"]);
        assert!(Settings::parse("forbidden = [[]]").is_err());
    }

    #[test]
    fn an_exception_without_a_reason_is_refused() {
        let text = "[[large]]\npath = \"a.rs\"\nreason = \" \"\n";
        assert!(Settings::parse(text).is_err());
        let text = "[[large]]\npath = \"a.rs\"\nreason = \"one table\"\n";
        assert_eq!(Settings::parse(text).unwrap().large[0].path, "a.rs");
    }

    #[test]
    fn an_unknown_key_is_refused() {
        assert!(Settings::parse("forbiden = []").is_err());
    }
}
