//! What a table is made of: what its rows are of, its key, and the rule behind each column.
//!
//! ```text
//! source   of = items, key = ["member", "item"], seen = "count", loot = "sum(count)", last = "max(time)"
//! compiled key: Field::Member, Field::Item       columns: rule, field, kind, place of its words in a row
//! ```
//! Not for: rows in memory (`rows.rs`), applying rules (`stage.rs`). Checked once, when an engine
//! is opened; a mistake is one line that says what is allowed.

use std::fmt;

use super::cell::ColumnKind;

/// The most columns, key included, that a table has.
pub const COLUMNS_MAX: usize = 60;

/// What makes a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsOf {
    /// Each record.
    Records,
    /// Each item of each record.
    Items,
    /// Each record that has a place; `position` is the ordinal of the merged position.
    Positions,
}

impl RowsOf {
    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            RowsOf::Records => "records",
            RowsOf::Items => "items",
            RowsOf::Positions => "positions",
        }
    }

    /// What the configuration says.
    pub fn from_name(name: &str) -> Option<RowsOf> {
        let all = [RowsOf::Records, RowsOf::Items, RowsOf::Positions];
        all.into_iter().find(|of| of.name() == name)
    }
}

/// How a column is made of what is seen; each names a field but `count`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// How many were seen.
    Count,
    /// The sum of a field.
    Sum(String),
    /// Its smallest value.
    Min(String),
    /// Its largest value.
    Max(String),
    /// Its mean.
    Mean(String),
    /// The value with the earliest time; of equal times the one seen first.
    First(String),
    /// The value with the latest time; of equal times the one seen last.
    Last(String),
}

impl Rule {
    /// Reads what the configuration says, such as `count` or `sum(count)`.
    ///
    /// # Errors
    /// One line that says what is allowed.
    pub fn parse(text: &str) -> Result<Rule, String> {
        let wrong = || {
            format!(
                "'{text}' is no rule; allowed: count, sum(FIELD), min(FIELD), max(FIELD), \
                 mean(FIELD), first(FIELD), last(FIELD)"
            )
        };
        let text_trimmed = text.trim();
        if text_trimmed == "count" {
            return Ok(Rule::Count);
        }
        let (name, rest) = text_trimmed.split_once('(').ok_or_else(wrong)?;
        let field = rest.strip_suffix(')').ok_or_else(wrong)?.trim().to_owned();
        if field.is_empty() {
            return Err(wrong());
        }
        Ok(match name.trim() {
            "sum" => Rule::Sum(field),
            "min" => Rule::Min(field),
            "max" => Rule::Max(field),
            "mean" => Rule::Mean(field),
            "first" => Rule::First(field),
            "last" => Rule::Last(field),
            _ => return Err(wrong()),
        })
    }

    /// The field that it is about.
    pub fn field(&self) -> Option<&str> {
        match self {
            Rule::Count => None,
            Rule::Sum(field)
            | Rule::Min(field)
            | Rule::Max(field)
            | Rule::Mean(field)
            | Rule::First(field)
            | Rule::Last(field) => Some(field),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Rule::Count => return f.write_str("count"),
            Rule::Sum(_) => "sum",
            Rule::Min(_) => "min",
            Rule::Max(_) => "max",
            Rule::Mean(_) => "mean",
            Rule::First(_) => "first",
            Rule::Last(_) => "last",
        };
        write!(f, "{name}({})", self.field().unwrap_or_default())
    }
}

/// A column and its rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSource {
    /// Its name, which no other column of the table has.
    pub name: String,
    /// How it is made.
    pub rule: Rule,
}

/// A table as the configuration has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSource {
    /// Its name, which no other table has.
    pub name: String,
    /// What makes a row.
    pub of: RowsOf,
    /// The fields whose values together name a row.
    pub key: Vec<String>,
    /// The other columns.
    pub columns: Vec<ColumnSource>,
}

/// A column's name and kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The kind of its values.
    pub kind: ColumnKind,
}

/// The columns of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableSchema {
    /// Those that name a row.
    pub key: Vec<Column>,
    /// The others.
    pub columns: Vec<Column>,
}

impl TableSchema {
    /// The place of a column among those that are no key.
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

/// What a key column or a rule takes its value from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Member,
    Longitude,
    Latitude,
    Time,
    Item,
    Count,
    Position,
    Day,
    /// A field of the mapping, by its place.
    Own(usize),
    /// What a rule has that needs none.
    None,
}

/// The rules without their fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleKind {
    Count,
    Sum,
    Min,
    Max,
    Mean,
    /// Of degrees of longitude, which begin again at the date line.
    MeanLongitude,
    First,
    Last,
}

impl RuleKind {
    pub(crate) fn of(rule: &Rule) -> RuleKind {
        match rule {
            Rule::Count => RuleKind::Count,
            Rule::Sum(_) => RuleKind::Sum,
            Rule::Min(_) => RuleKind::Min,
            Rule::Max(_) => RuleKind::Max,
            Rule::Mean(field) if field == "longitude" => RuleKind::MeanLongitude,
            Rule::Mean(_) => RuleKind::Mean,
            Rule::First(_) => RuleKind::First,
            Rule::Last(_) => RuleKind::Last,
        }
    }

    /// Whether a second word stands behind the value: a mean's count, the time of a first or last.
    pub(crate) fn has_second_word(self) -> bool {
        self.is_mean() || matches!(self, RuleKind::First | RuleKind::Last)
    }

    /// Whether it keeps a sum and a count.
    pub(crate) fn is_mean(self) -> bool {
        matches!(self, RuleKind::Mean | RuleKind::MeanLongitude)
    }
}

/// One column of a [`Shape`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShapeColumn {
    pub(crate) name: String,
    pub(crate) kind: ColumnKind,
    /// The rule as the configuration writes it.
    pub(crate) rule_text: String,
    pub(crate) rule: RuleKind,
    /// Where its value stands in a row.
    pub(crate) word: usize,
}

/// What the journal and the snapshots know of a table: enough to read its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) name: String,
    pub(crate) of: RowsOf,
    pub(crate) key: Vec<Column>,
    pub(crate) columns: Vec<ShapeColumn>,
}

/// Words of a row before its columns: where its key is, the batch of its last change, which columns
/// have a value.
pub(crate) const HEAD_WORDS: usize = 3;

impl Shape {
    /// Puts columns (name, kind, rule) one behind the other.
    ///
    /// # Errors
    /// The text of a rule is none.
    pub(crate) fn new(
        name: String,
        of: RowsOf,
        key: Vec<Column>,
        columns: Vec<(String, ColumnKind, String)>,
    ) -> Result<Shape, String> {
        let mut word = HEAD_WORDS;
        let mut shaped = Vec::with_capacity(columns.len());
        for (name, kind, rule_text) in columns {
            let rule = RuleKind::of(&Rule::parse(&rule_text)?);
            shaped.push(ShapeColumn { name, kind, rule_text, rule, word });
            word += 1 + usize::from(rule.has_second_word());
        }
        Ok(Shape { name, of, key, columns: shaped })
    }

    /// How many words a row has.
    pub(crate) fn row_words(&self) -> usize {
        let second = self.columns.iter().filter(|column| column.rule.has_second_word()).count();
        HEAD_WORDS + self.columns.len() + second
    }

    pub(crate) fn schema(&self) -> TableSchema {
        let column = |column: &ShapeColumn| Column { name: column.name.clone(), kind: column.kind };
        TableSchema { key: self.key.clone(), columns: self.columns.iter().map(column).collect() }
    }
}

/// A shape, and where its values come from.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) shape: Shape,
    pub(crate) key: Vec<Field>,
    pub(crate) columns: Vec<Field>,
}

/// What a feed's records have.
pub(crate) struct Fields<'a> {
    pub(crate) own: Vec<(&'a str, ColumnKind)>,
    pub(crate) has_place: bool,
    pub(crate) has_items: bool,
}

impl Fields<'_> {
    fn find(&self, name: &str, of: RowsOf) -> Result<(Field, ColumnKind), String> {
        let of_items = of == RowsOf::Items;
        let found = match name {
            "member" => Some((Field::Member, ColumnKind::Text)),
            "time" => Some((Field::Time, ColumnKind::Time)),
            "day" => Some((Field::Day, ColumnKind::Text)),
            "longitude" if self.has_place => Some((Field::Longitude, ColumnKind::Number)),
            "latitude" if self.has_place => Some((Field::Latitude, ColumnKind::Number)),
            "position" if self.has_place => Some((Field::Position, ColumnKind::Integer)),
            "item" if of_items => Some((Field::Item, ColumnKind::Text)),
            "count" if of_items => Some((Field::Count, ColumnKind::Integer)),
            _ => None,
        };
        let own = || self.own.iter().position(|(own, _)| *own == name);
        found.or_else(|| own().map(|place| (Field::Own(place), self.own[place].1))).ok_or_else(
            || {
                let mut known = vec!["member", "time", "day"];
                if self.has_place {
                    known.extend(["longitude", "latitude", "position"]);
                }
                if of_items {
                    known.extend(["item", "count"]);
                }
                known.extend(self.own.iter().map(|(name, _)| *name));
                format!(
                    "there is no field '{name}' for rows of {}; there are: {}",
                    of.name(),
                    known.join(", ")
                )
            },
        )
    }
}

impl TableSource {
    /// Checks the table against what the records have.
    ///
    /// # Errors
    /// One line that says what is wrong and what is allowed.
    pub(crate) fn compile(&self, fields: &Fields<'_>) -> Result<Plan, String> {
        let wrong = |what: String| format!("table '{}': {what}", self.name);
        if self.of == RowsOf::Items && !fields.has_items {
            return Err(wrong(
                "its rows are of items, and the feed's records have none".to_owned(),
            ));
        }
        if self.of == RowsOf::Positions && !fields.has_place {
            return Err(wrong(
                "its rows are of positions, and the feed's records have no place".to_owned(),
            ));
        }
        if self.key.is_empty() || self.key.len() + self.columns.len() > COLUMNS_MAX {
            return Err(wrong(format!(
                "it has {} columns in its key and {} others; allowed: at least one in the key and \
                 {COLUMNS_MAX} in all",
                self.key.len(),
                self.columns.len()
            )));
        }
        let mut names: Vec<&str> = self.key.iter().map(String::as_str).collect();
        names.extend(self.columns.iter().map(|column| column.name.as_str()));
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(wrong(format!("there are two columns '{}'", twice[0])));
        }
        let mut key = Vec::new();
        let mut key_columns = Vec::new();
        for name in &self.key {
            let (field, kind) = fields.find(name, self.of).map_err(wrong)?;
            key.push(field);
            key_columns.push(Column { name: name.clone(), kind });
        }
        let mut columns = Vec::new();
        let mut shaped = Vec::new();
        for ColumnSource { name, rule } in &self.columns {
            let (field, kind) = self.column(rule, fields).map_err(wrong)?;
            columns.push(field);
            shaped.push((name.clone(), kind, rule.to_string()));
        }
        let shape = Shape::new(self.name.clone(), self.of, key_columns, shaped)?;
        Ok(Plan { shape, key, columns })
    }

    fn column(&self, rule: &Rule, fields: &Fields<'_>) -> Result<(Field, ColumnKind), String> {
        let Some(name) = rule.field() else {
            return Ok((Field::None, ColumnKind::Integer));
        };
        let (field, kind) = fields.find(name, self.of)?;
        let allowed: &[ColumnKind] = match rule {
            Rule::Sum(_) | Rule::Mean(_) => &[ColumnKind::Integer, ColumnKind::Number],
            Rule::Min(_) | Rule::Max(_) => {
                &[ColumnKind::Integer, ColumnKind::Number, ColumnKind::Time]
            }
            _ => return Ok((field, kind)),
        };
        if !allowed.contains(&kind) {
            let names: Vec<&str> = allowed.iter().map(|kind| kind.name()).collect();
            return Err(format!(
                "{rule} is about a field of kind {}; allowed: {}",
                kind.name(),
                names.join(", ")
            ));
        }
        let is_mean = matches!(rule, Rule::Mean(_));
        Ok((field, if is_mean { ColumnKind::Number } else { kind }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Fields<'static> {
        let own = vec![("level", ColumnKind::Integer), ("name", ColumnKind::Text)];
        Fields { own, has_place: true, has_items: true }
    }

    fn table(of: RowsOf, key: &[&str], columns: &[(&str, &str)]) -> TableSource {
        let column = |(name, rule): &(&str, &str)| ColumnSource {
            name: (*name).to_owned(),
            rule: Rule::parse(rule).expect("a rule"),
        };
        TableSource {
            name: "t".to_owned(),
            of,
            key: key.iter().map(|name| (*name).to_owned()).collect(),
            columns: columns.iter().map(column).collect(),
        }
    }

    #[test]
    fn rules_come_back_as_they_were_written() {
        for text in ["count", "sum(count)", "min(a)", "max(a)", "mean(a)", "first(a)", "last(a)"] {
            assert_eq!(Rule::parse(text).expect("a rule").to_string(), text);
        }
        for text in ["", "sum", "sum()", "sum(a", "median(a)"] {
            assert!(Rule::parse(text).expect_err("it is none").contains("allowed: count"));
        }
    }

    #[test]
    fn mistakes_are_told_with_what_is_allowed() {
        let wrong = |table: TableSource| table.compile(&fields()).expect_err("it is wrong");
        assert!(wrong(table(RowsOf::Records, &["item"], &[])).contains("no field 'item'"));
        assert!(wrong(table(RowsOf::Records, &[], &[])).contains("at least one"));
        let two = table(RowsOf::Records, &["member"], &[("member", "count")]);
        assert!(wrong(two).contains("two columns 'member'"));
        let text = table(RowsOf::Records, &["member"], &[("n", "sum(name)")]);
        assert!(wrong(text).contains("allowed: integer, number"));
    }

    #[test]
    fn words_of_columns_do_not_overlap() {
        let columns =
            [("seen", "count"), ("longitude", "mean(longitude)"), ("level", "last(level)")];
        let plan = table(RowsOf::Positions, &["member", "position"], &columns);
        let plan = plan.compile(&fields()).expect("it is right");
        let words: Vec<usize> = plan.shape.columns.iter().map(|column| column.word).collect();
        assert_eq!(words, [3, 4, 6]);
        assert_eq!(plan.shape.row_words(), 8);
    }
}
