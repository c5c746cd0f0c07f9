//! What rows say of the file that they become: a line of NDJSON or a comment of a table.
//!
//! Not for a file's own metadata section.
//!
//! ```text
//! {"metadata":{"database_type":"...","description":{"en":"..."},"languages":["en"],"ip_version":6}}
//! ```

use crate::metadata::Metadata;
use crate::value::Value;

/// Type, description, languages and IP version of a database, as rows carry them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowsMetadata {
    /// The structure of the records, such as `GeoLite2-City`.
    pub database_type: Option<String>,
    /// Language code and text.
    pub description: Vec<(String, String)>,
    /// The languages of localized names.
    pub languages: Vec<String>,
    /// 4 or 6.
    pub ip_version: Option<u16>,
    /// Whether `::ffff:0:0/96` and `2002::/16` lead to the IPv4 networks; they do unless this says
    /// otherwise.
    pub ipv4_aliases: Option<bool>,
}

impl From<&Metadata> for RowsMetadata {
    fn from(metadata: &Metadata) -> RowsMetadata {
        RowsMetadata {
            database_type: Some(metadata.database_type.clone()),
            description: metadata.description.clone(),
            languages: metadata.languages.clone(),
            ip_version: Some(metadata.ip_version),
            ipv4_aliases: None,
        }
    }
}

impl RowsMetadata {
    /// Appends the line without its end.
    ///
    /// ```
    /// use whered_mmdb::rows::RowsMetadata;
    /// let metadata = RowsMetadata { ip_version: Some(4), ..RowsMetadata::default() };
    /// let mut line = Vec::new();
    /// metadata.write_json(&mut line);
    /// assert_eq!(line, br#"{"metadata":{"description":{},"languages":[],"ip_version":4}}"#);
    /// ```
    pub fn write_json(&self, out: &mut Vec<u8>) {
        let text = |text: &String| Value::String(text.clone());
        let description = self.description.iter().map(|(key, value)| (key.clone(), text(value)));
        let mut pairs = Vec::new();
        pairs.extend(
            self.database_type.iter().map(|name| ("database_type".to_string(), text(name))),
        );
        pairs.push(("description".to_string(), Value::Map(description.collect())));
        let languages = self.languages.iter().map(text).collect();
        pairs.push(("languages".to_string(), Value::Array(languages)));
        pairs.extend(
            self.ip_version.map(|version| ("ip_version".to_string(), Value::Uint16(version))),
        );
        pairs.extend(
            self.ipv4_aliases.map(|has_any| ("ipv4_aliases".to_string(), Value::Boolean(has_any))),
        );
        let metadata = Value::Map(pairs);
        Value::Map(vec![("metadata".to_string(), metadata)]).write_json(out);
    }

    /// Of the object behind `metadata`; members that are not known are passed over.
    pub(super) fn of(value: &Value) -> Result<RowsMetadata, &'static str> {
        const ALLOWED: &str = "metadata with database_type (a text), description (texts by \
                               language), languages (texts), ip_version (4 or 6) and ipv4_aliases";
        let Value::Map(pairs) = value else { return Err(ALLOWED) };
        let mut metadata = RowsMetadata::default();
        for (name, value) in pairs {
            let text = |value: &Value| value.as_str().map(str::to_string).ok_or(ALLOWED);
            match (name.as_str(), value) {
                ("database_type", value) => metadata.database_type = Some(text(value)?),
                ("ipv4_aliases", Value::Boolean(has_any)) => metadata.ipv4_aliases = Some(*has_any),
                ("description", Value::Map(texts)) => {
                    for (language, value) in texts {
                        metadata.description.push((language.clone(), text(value)?));
                    }
                }
                ("languages", Value::Array(values)) => {
                    metadata.languages = values.iter().map(text).collect::<Result<_, _>>()?;
                }
                ("ip_version", Value::Uint16(4) | Value::Uint32(4)) => {
                    metadata.ip_version = Some(4);
                }
                ("ip_version", Value::Uint16(6) | Value::Uint32(6)) => {
                    metadata.ip_version = Some(6);
                }
                ("description" | "languages" | "ip_version", _) => return Err(ALLOWED),
                _ => {}
            }
        }
        Ok(metadata)
    }
}
