//! The Markdown of docs/performance.md and of the block in README.md.
//!
//! Ratios are cut to two digits and other figures to three, never rounded up, so that no row says
//! more than was measured. A row that no result has is an error: a renamed measure must not drop
//! out silently.

use std::collections::BTreeSet;

use super::PLAN;
use super::plan::{Figures, Job, Plan, Rates, Ratio};
use super::results::SuiteResult;
use crate::failure::ChoreError;

const RATIO_DIGITS: i32 = 2;
const RATE_DIGITS: i32 = 3;
const HEAD: &str = "\
# Performance

<!-- Written by `cargo xtask performance` from bench/results; edit performance.toml there. -->
";

/// The whole page.
pub(super) fn print(plan: &Plan, results: &[SuiteResult]) -> Result<String, ChoreError> {
    let mut page = format!("{HEAD}\n{}\n\n{}", plan.intro.trim(), machines(results));
    for job in &plan.jobs {
        page.push_str(&print_job(job, results)?);
    }
    page.push_str(&missed(plan, results));
    Ok(page)
}

/// The lowest ratio of each row that README has.
pub(super) fn print_front(plan: &Plan, results: &[SuiteResult]) -> Result<String, ChoreError> {
    let mut block = "| job | rival | ratio |\n| --- | --- | ---: |\n".to_owned();
    for row in plan.jobs.iter().flat_map(|job| &job.ratios) {
        if let Some(front) = &row.front {
            let (least, _, _) = ratio(row, results)?;
            block.push_str(&format!(
                "| {front} | {} | {} |\n",
                row.rival,
                cut(least, RATIO_DIGITS)
            ));
        }
    }
    Ok(block)
}

fn machines(results: &[SuiteResult]) -> String {
    let machines: BTreeSet<(&str, &str)> =
        results.iter().map(|result| (&*result.machine, &*result.hardware)).collect();
    let mut table = "| machine | hardware |\n| --- | --- |\n".to_owned();
    for (machine, hardware) in machines {
        table.push_str(&format!("| {} | {hardware} |\n", short(machine)));
    }
    table
}

/// `amd-epyc-avx512-2` is AMD AVX-512.
fn short(machine: &str) -> String {
    let vendor = machine.split('-').next().unwrap_or(machine);
    let vendor = if vendor == "amd" { "AMD" } else { "Intel" };
    let simd = if machine.contains("-avx512-") { "AVX-512" } else { "AVX2" };
    format!("{vendor} {simd}")
}

fn print_job(job: &Job, results: &[SuiteResult]) -> Result<String, ChoreError> {
    let mut text = format!("\n## {}\n\n{}\n", job.title, job.how.trim());
    if !job.ratios.is_empty() {
        text.push_str("\n| workload | rival | ratio | machines |\n| --- | --- | ---: | --- |\n");
    }
    for row in &job.ratios {
        let (least, most, machines) = ratio(row, results)?;
        let (workload, rival) = (&row.workload, &row.rival);
        text.push_str(&format!(
            "| {workload} | {rival} | {} | {machines} |\n",
            range(least, most, RATIO_DIGITS)
        ));
    }
    for rates in &job.rates {
        text.push_str(&print_rates(rates, results)?);
    }
    let suites = job.ratios.iter().map(|row| &row.suite).chain(job.rates.iter().map(|r| &r.suite));
    let mut suites: Vec<&String> = suites.collect();
    suites.sort_unstable();
    suites.dedup();
    let files = results.iter().filter(|result| suites.contains(&&result.suite));
    let links: Vec<String> = files
        .map(|result| format!("[{}, {}](../{})", result.suite, short(&result.machine), result.path))
        .collect();
    text.push_str(&format!("\nResults: {}.\n", links.join("; ")));
    Ok(text)
}

/// Least, greatest and the machines that have it.
fn ratio(row: &Ratio, results: &[SuiteResult]) -> Result<(f64, f64, String), ChoreError> {
    let found = over_machines(&row.suite, results, |result| match &row.figures {
        Figures::Quotient { of, by } => {
            let quotients = of.iter().filter_map(|of| result.quotient(of, by));
            quotients.reduce(f64::min).map(|value| (value, value))
        }
        Figures::Ratios(names) => {
            let ranges = names.iter().filter_map(|name| result.range(name));
            ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
        }
    });
    found.ok_or_else(|| nowhere(&row.suite, &row.workload))
}

fn over_machines(
    suite: &str,
    results: &[SuiteResult],
    figure: impl Fn(&SuiteResult) -> Option<(f64, f64)>,
) -> Option<(f64, f64, String)> {
    let ours = results.iter().filter(|result| result.suite == suite);
    let found: Vec<(f64, f64, String)> = ours
        .filter_map(|result| figure(result).map(|(a, b)| (a, b, short(&result.machine))))
        .collect();
    let least = found.iter().map(|found| found.0).reduce(f64::min)?;
    let most = found.iter().map(|found| found.1).reduce(f64::max)?;
    let machines: Vec<&str> = found.iter().map(|found| &*found.2).collect();
    Some((least, most, machines.join(", ")))
}

fn nowhere(suite: &str, what: &str) -> ChoreError {
    ChoreError::new(format!("{PLAN}: no result of '{suite}' has '{what}'"))
}

fn print_rates(rates: &Rates, results: &[SuiteResult]) -> Result<String, ChoreError> {
    let columns = rates.columns.join(" | ");
    let lines = " ---: |".repeat(rates.columns.len() - 1);
    let mut text = format!("\n| {columns} |\n| --- |{lines}\n");
    for row in &rates.rows {
        text.push_str(&format!("| {} |", row[0]));
        for name in &row[1..] {
            let found = over_machines(&rates.suite, results, |result| result.range(name));
            let (least, most, _) = found.ok_or_else(|| nowhere(&rates.suite, name))?;
            text.push_str(&format!(" {} |", range(least, most, RATE_DIGITS)));
        }
        text.push('\n');
    }
    Ok(text)
}

/// The bars that a machine missed.
fn missed(plan: &Plan, results: &[SuiteResult]) -> String {
    let mut text = "\n## Bars that were missed\n\nEach row is a target of the project that the \
                    newest result of a machine does not reach. The range is over the machines that \
                    miss it.\n\n| suite | measure | target | measured | machines |\n\
                    | --- | --- | ---: | ---: | --- |\n"
        .to_owned();
    let mut seen = Vec::new();
    for bar in results.iter().flat_map(|result| {
        result.bars.iter().map(move |bar| (&result.suite, &bar.measure, &bar.wanted))
    }) {
        if seen.contains(&bar) {
            continue;
        }
        seen.push(bar);
        let (suite, measure, wanted) = bar;
        let misses = |result: &SuiteResult| {
            result.bars.iter().any(|bar| bar.measure == *measure && bar.is_missed)
        };
        let figure = |result: &SuiteResult| misses(result).then(|| result.range(measure))?;
        if let Some((least, most, machines)) = over_machines(suite, results, figure) {
            let plain = plan.names.get(measure).and_then(toml::Value::as_str).unwrap_or(measure);
            let measured = range(least, most, RATIO_DIGITS);
            text.push_str(&format!("| {suite} | {plain} | {wanted} | {measured} | {machines} |\n"));
        }
    }
    text
}

fn range(least: f64, most: f64, digits: i32) -> String {
    let (least, most) = (cut(least, digits), cut(most, digits));
    if least == most { least } else { format!("{least} to {most}") }
}

/// The leading digits, with the thousands apart, cut off and not rounded.
fn cut(value: f64, digits: i32) -> String {
    if !(0.001..1e15).contains(&value) {
        return format!("{value}");
    }
    let decimals = digits - 1 - value.log10().floor() as i32;
    let unit = 10_f64.powi(-decimals);
    // A hair is added first, since 4.4 / 0.1 is a little below 44.
    let value = ((value / unit) * (1.0 + 1e-12)).floor() * unit;
    let text = format!("{value:.*}", usize::try_from(decimals).unwrap_or(0));
    if value < 1000.0 { text } else { thousands(&text) }
}

fn thousands(digits: &str) -> String {
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::results::tests::result;
    use super::*;

    #[test]
    fn numbers_are_cut_and_not_rounded() {
        for (value, text) in [
            (13.99, "13"),
            (4.4, "4.4"),
            (0.996, "0.99"),
            (5876.7, "5,800"),
            (1_294_800.0, "1,200,000"),
            (100.0, "100"),
            (0.0, "0"),
        ] {
            assert_eq!(cut(value, 2), text);
        }
        assert_eq!(cut(567_867.0, 3), "567,000");
        assert_eq!(cut(24.0, 3), "24.0");
    }

    fn plan() -> Plan {
        let text = "intro = \"Intro.\"\n[[job]]\ntitle = \"Job\"\nhow = \"How.\"\n[[job.ratio]]\n\
                    workload = \"w\"\nrival = \"r 1\"\nsuite = \"s\"\nis = [\"a\", \"b\"]\n\
                    front = \"in short\"\n[[job.rates]]\nsuite = \"s\"\n\
                    columns = [\"request\", \"ours\"]\nrows = [[\"x\", \"a\"]]\n\
                    [names]\n\"a\" = \"plain\"\n";
        Plan::parse(text).unwrap()
    }

    fn results() -> Vec<SuiteResult> {
        let bar = |measure: &str, value: f64, verdict: &str| json!({"measure": measure, "measured": value, "wanted": ">= 5", "verdict": verdict});
        let first = json!({"bars": [bar("a", 4.0, "below the bar"), bar("b", 7.0, "met")]});
        let second = json!({"bars": [bar("a", 6.0, "met")]});
        vec![result("amd-epyc-avx2-2", &first), result("intel-xeon-avx512-2", &second)]
    }

    #[test]
    fn a_row_has_the_range_over_machines_and_the_front_page_the_lowest() {
        let page = print(&plan(), &results()).unwrap();
        assert!(page.contains("| w | r 1 | 4.0 to 7.0 | AMD AVX2, Intel AVX-512 |"), "{page}");
        assert!(page.contains("| x | 4.00 to 6.00 |"), "{page}");
        assert!(print_front(&plan(), &results()).unwrap().ends_with("| in short | r 1 | 4.0 |\n"));
    }

    #[test]
    fn missed_bars_are_listed_for_the_machines_that_miss_them() {
        let text = missed(&plan(), &results());
        assert!(text.ends_with("| s | plain | >= 5 | 4.0 | AMD AVX2 |\n"), "{text}");
    }

    #[test]
    fn a_row_without_a_result_is_an_error() {
        let mut plan = plan();
        plan.jobs[0].ratios[0].suite = "t".to_owned();
        assert!(print(&plan, &results()).is_err());
    }
}
