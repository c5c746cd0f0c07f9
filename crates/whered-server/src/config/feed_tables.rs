//! `[[feed.table]]`: which rows a feed keeps, and what each column of them is made of.
//!
//! Not for: whether a feed's records have what keys and rules name (the engine says that), applying
//! rules (the engine, too).

use whered_engine::feeds::formats::Mapping;
use whered_engine::tables::{COLUMNS_MAX, ColumnSource, RowsOf, Rule, TableSource};

use super::error::ConfigError;
use super::section::{Keys, Section};

/// The keys of a table.
pub(super) const TABLE: Keys =
    Keys { title: "[[feed.table]]", allowed: &["name", "of", "key", "columns"], later: &[] };

const RULES: &str = "count, sum(FIELD), min(FIELD), max(FIELD), mean(FIELD), first(FIELD), \
                     last(FIELD)";

/// What `into = { table = NAME }` stands for.
pub(super) fn default_table(name: &str, mapping: &Mapping, merges: bool) -> TableSource {
    let of = match () {
        () if mapping.has_items() => RowsOf::Items,
        () if merges => RowsOf::Positions,
        () => RowsOf::Records,
    };
    let mut columns = Vec::new();
    let mut column = |name: &str, rule: Rule| {
        columns.push(ColumnSource { name: name.to_owned(), rule });
    };
    match of {
        RowsOf::Items => column("count", Rule::Sum("count".to_owned())),
        RowsOf::Records | RowsOf::Positions if mapping.has_place() => {
            let rule = if merges { Rule::Mean } else { Rule::Last };
            column("longitude", rule("longitude".to_owned()));
            column("latitude", rule("latitude".to_owned()));
        }
        RowsOf::Records | RowsOf::Positions => {}
    }
    column("seen", Rule::Count);
    if mapping.has_time() {
        if of != RowsOf::Items {
            column("first_seen", Rule::Min("time".to_owned()));
        }
        column("last_seen", Rule::Max("time".to_owned()));
    }
    let second = match of {
        RowsOf::Items => Some("item"),
        RowsOf::Positions => Some("position"),
        RowsOf::Records => None,
    };
    let key = ["member"].into_iter().chain(second).map(str::to_owned).collect();
    TableSource { name: name.to_owned(), of, key, columns }
}

/// Reads one `[[feed.table]]`, whose name is known.
pub(super) fn read_table(section: &Section<'_>, name: &str) -> Result<TableSource, ConfigError> {
    let strings =
        section.strings("key", "names of fields")?.ok_or_else(|| section.missing("key"))?;
    let mut key: Vec<String> = Vec::new();
    for text in &strings.value {
        if key.iter().any(|earlier| earlier == text.value) {
            let found = format!("has '{}' twice", text.value);
            return Err(section.refuse(&text.span, "key", &found, "every field once"));
        }
        key.push(text.value.to_owned());
    }
    let example = "a table such as { seen = \"count\", last_seen = \"max(time)\" }";
    let entries = section.entries("columns", example)?.unwrap_or_default();
    if let Some(entry) = entries.get(COLUMNS_MAX) {
        let found = format!("goes on with '{}'", entry.name.value);
        let allowed = format!("up to {COLUMNS_MAX} columns");
        return Err(section.refuse(&entry.name.span, "columns", &found, &allowed));
    }
    let mut columns = Vec::with_capacity(entries.len());
    for entry in &entries {
        let name = entry.name.value;
        let Some(text) = entry.text() else {
            let found = format!("has {} for '{name}'", entry.kind());
            return Err(section.refuse(&entry.name.span, "columns", &found, RULES));
        };
        let rule = Rule::parse(text.value).map_err(|_| {
            let found = format!("has the rule '{}' for '{name}'", text.value);
            section.refuse(&text.span, "columns", &found, RULES)
        })?;
        columns.push(ColumnSource { name: name.to_owned(), rule });
    }
    Ok(TableSource { name: name.to_owned(), of: read_of(section)?, key, columns })
}

fn read_of(section: &Section<'_>) -> Result<RowsOf, ConfigError> {
    let Some(of) = section.text("of")? else { return Ok(RowsOf::Records) };
    RowsOf::from_name(of.value).ok_or_else(|| {
        let found = format!("is '{}'", of.value);
        section.refuse(&of.span, "of", &found, "records, items, positions")
    })
}
