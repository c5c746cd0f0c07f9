//! `bench/results/performance.toml`: the jobs of the page, their sentences and their rows.
//!
//! ```toml
//! intro = "..."                     # above all jobs
//! [[job]]
//! title = "..."
//! how = "..."                       # how it was measured
//! [[job.ratio]]                     # one row of the table of ratios
//! workload = "..."
//! rival = "..."
//! suite = "geo"                     # a folder below bench/results
//! is = ["..."]                      # figures that are ratios, or else
//! of = ["..."]                      # the figure of the fastest of these, divided by
//! by = "..."                        # ours
//! front = "..."                     # README's words, when the row is there too
//! [[job.rates]]                     # a table of figures as they are
//! suite = "geo"
//! columns = ["request", "..."]
//! rows = [["label", "figure", ...], ...]
//! ```

use toml::{Table, Value};

use super::PLAN;
use crate::failure::ChoreError;

/// The whole page.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) intro: String,
    pub(super) jobs: Vec<Job>,
    /// Plain words for bars whose name in the results is none.
    pub(super) names: Table,
}

/// One section.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) title: String,
    pub(super) how: String,
    pub(super) ratios: Vec<Ratio>,
    pub(super) rates: Vec<Rates>,
}

/// One row of a table of ratios.
#[derive(Debug)]
pub(super) struct Ratio {
    pub(super) workload: String,
    pub(super) rival: String,
    pub(super) suite: String,
    pub(super) figures: Figures,
    pub(super) front: Option<String>,
}

/// Where a ratio comes from.
#[derive(Debug)]
pub(super) enum Figures {
    /// The least and the greatest of these.
    Ratios(Vec<String>),
    /// The figure of the fastest of these rivals divided by ours.
    Quotient { of: Vec<String>, by: String },
}

/// A table of figures as they are.
#[derive(Debug)]
pub(super) struct Rates {
    pub(super) suite: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Plan {
    pub(super) fn parse(text: &str) -> Result<Plan, ChoreError> {
        let table: Table =
            text.parse().map_err(|error| ChoreError::new(format!("{PLAN}: {error}")))?;
        let names = table.get("names").and_then(Value::as_table).cloned().unwrap_or_default();
        let jobs = entries(&table, "job")?.into_iter().map(job);
        Ok(Plan { intro: string(&table, "intro")?, jobs: jobs.collect::<Result<_, _>>()?, names })
    }
}

fn job(table: &Table) -> Result<Job, ChoreError> {
    let ratios = entries(table, "ratio")?.into_iter().map(ratio);
    let rates = entries(table, "rates")?.into_iter().map(rates);
    Ok(Job {
        title: string(table, "title")?,
        how: string(table, "how")?,
        ratios: ratios.collect::<Result<_, _>>()?,
        rates: rates.collect::<Result<_, _>>()?,
    })
}

fn ratio(table: &Table) -> Result<Ratio, ChoreError> {
    let figures = match table.get("is") {
        Some(names) => Figures::Ratios(strings(names).ok_or_else(|| wrong("is"))?),
        None => {
            let of = table.get("of").and_then(strings).ok_or_else(|| wrong("of"))?;
            Figures::Quotient { of, by: string(table, "by")? }
        }
    };
    Ok(Ratio {
        workload: string(table, "workload")?,
        rival: string(table, "rival")?,
        suite: string(table, "suite")?,
        figures,
        front: table.get("front").and_then(Value::as_str).map(str::to_owned),
    })
}

fn rates(table: &Table) -> Result<Rates, ChoreError> {
    let columns = table.get("columns").and_then(strings).ok_or_else(|| wrong("columns"))?;
    let rows = table.get("rows").and_then(Value::as_array).ok_or_else(|| wrong("rows"))?;
    let rows: Option<Vec<Vec<String>>> = rows.iter().map(strings).collect();
    let rows = rows.ok_or_else(|| wrong("rows"))?;
    if rows.iter().any(|row| row.len() != columns.len()) {
        return Err(wrong("rows"));
    }
    Ok(Rates { suite: string(table, "suite")?, columns, rows })
}

fn wrong(key: &str) -> ChoreError {
    ChoreError::new(format!("{PLAN}: '{key}' is missing or not of its type"))
}

fn string(table: &Table, key: &str) -> Result<String, ChoreError> {
    table.get(key).and_then(Value::as_str).map(str::to_owned).ok_or_else(|| wrong(key))
}

fn strings(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|value| value.as_str().map(str::to_owned)).collect()
}

fn entries<'a>(table: &'a Table, key: &str) -> Result<Vec<&'a Table>, ChoreError> {
    let Some(list) = table.get(key) else { return Ok(Vec::new()) };
    let list = list.as_array().ok_or_else(|| wrong(key))?;
    list.iter().map(|entry| entry.as_table().ok_or_else(|| wrong(key))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "intro = \"i\"\n[[job]]\ntitle = \"t\"\nhow = \"h\"\n[[job.ratio]]\n\
                        workload = \"w\"\nrival = \"r\"\nsuite = \"s\"\nof = [\"a\"]\nby = \"b\"\n\
                        [[job.rates]]\nsuite = \"s\"\ncolumns = [\"c\", \"d\"]\n\
                        rows = [[\"l\", \"f\"]]\n";

    #[test]
    fn a_plan_is_read_and_a_wrong_one_refused() {
        let plan = Plan::parse(TEXT).unwrap();
        assert_eq!(plan.jobs[0].ratios[0].rival, "r");
        assert_eq!(plan.jobs[0].rates[0].rows, [["l", "f"]]);
        assert!(Plan::parse(&TEXT.replace("of =", "off =")).is_err());
        assert!(Plan::parse(&TEXT.replace(", \"d\"", "")).is_err());
        assert!(Plan::parse(&TEXT.replace("how", "who")).is_err());
    }
}
