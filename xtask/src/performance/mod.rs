//! `cargo xtask performance`: docs/performance.md and the ratios in README.md, made from results.
//!
//! `bench/results/performance.toml` says which rows there are;
//! `bench/results/SUITE/MACHINE/DATE.json` has the figures. A machine's newest result of a suite
//! counts. `cargo xtask tidy` fails where the page or the block of README differs from what this
//! writes.
//!
//! - [`results`]: figures and bars out of the files of each suite;
//! - [`plan`]: what performance.toml says;
//! - [`page`]: the Markdown.

mod page;
mod plan;
mod results;

use crate::failure::ChoreError;
use crate::finding::{Finding, line_where};
use crate::repository::Repository;

const PLAN: &str = "bench/results/performance.toml";
const PAGE: &str = "docs/performance.md";
const FRONT: &str = "README.md";
const BEGIN: &str = "<!-- performance -->\n";
const END: &str = "<!-- /performance -->";

/// The page and the front page, as the results want them.
struct Pages {
    page: String,
    front: String,
}

/// Writes both.
pub(crate) fn write(repository: &Repository) -> Result<Vec<Finding>, ChoreError> {
    let pages = generate(repository)?;
    for (path, text) in [(PAGE, &pages.page), (FRONT, &pages.front)] {
        let path = repository.root().join(path);
        std::fs::write(&path, text).map_err(|error| ChoreError::on_file(&path, &error))?;
    }
    Ok(Vec::new())
}

/// Finds what differs from what [`write`] would write.
pub(crate) fn check(repository: &Repository) -> Result<Vec<Finding>, ChoreError> {
    let pages = generate(repository)?;
    let mut findings = Vec::new();
    for (path, text) in [(PAGE, &pages.page), (FRONT, &pages.front)] {
        let present = repository.read(path).unwrap_or_default();
        if present != *text {
            let same = present.lines().zip(text.lines()).take_while(|(a, b)| a == b).count();
            let what = "not what the results give";
            findings.push(Finding::new(path, same + 1, what, "cargo xtask performance"));
        }
    }
    Ok(findings)
}

fn generate(repository: &Repository) -> Result<Pages, ChoreError> {
    let plan = plan::Plan::parse(&repository.read(PLAN)?)?;
    let results = results::read(repository)?;
    let present = repository.read(FRONT)?;
    Ok(Pages {
        page: page::print(&plan, &results)?,
        front: with_block(&present, &page::print_front(&plan, &results)?)?,
    })
}

/// The front page with other rows between its two marks.
fn with_block(present: &str, block: &str) -> Result<String, ChoreError> {
    let missing = || {
        let line = line_where(present, |line| line.contains("performance -->"));
        ChoreError::new(format!("{FRONT}:{line}: needs {} and {END}", BEGIN.trim()))
    };
    let (head, rest) = present.split_once(BEGIN).ok_or_else(missing)?;
    let (_, tail) = rest.split_once(END).ok_or_else(missing)?;
    Ok(format!("{head}{BEGIN}{block}{END}{tail}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_block_between_the_marks_changes() {
        let present = "a\n<!-- performance -->\nold\n<!-- /performance -->\nb\n";
        let with = with_block(present, "new\n").unwrap();
        assert_eq!(with, present.replace("old", "new"));
        assert!(with_block("a\n", "new\n").is_err());
    }
}
