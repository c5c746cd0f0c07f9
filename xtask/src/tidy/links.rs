//! Every relative link of a Markdown page leads to a file, and its `#fragment` to a heading there.
//!
//! Not a Markdown parser: it reads `[text](target)` outside fenced blocks and code spans. Links
//! with a scheme (`https:`) are not followed. A heading's fragment is made as GitHub makes it.
//! Cost: linear in the pages.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Finding;
use crate::repository::TextFile;

/// Checks every `.md` file against the sorted paths of all files, relative to the root.
pub(crate) fn check(paths: &[String], texts: &[TextFile]) -> Vec<Finding> {
    let pages: BTreeMap<&str, &str> = texts
        .iter()
        .filter(|file| file.path.ends_with(".md"))
        .map(|file| (file.path.as_str(), file.text.as_str()))
        .collect();
    let mut findings = Vec::new();
    for (&page, text) in &pages {
        for (line, target) in links(text) {
            if let Some(what) = fault(page, target, paths, &pages) {
                findings.push(Finding::new(page, line, what, "a file, and a heading in it"));
            }
        }
    }
    findings
}

/// What is wrong with a link on `page`, if anything.
fn fault(
    page: &str,
    target: &str,
    paths: &[String],
    pages: &BTreeMap<&str, &str>,
) -> Option<String> {
    if target.contains(':') {
        return None;
    }
    let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
    let file = if file.is_empty() { Some(page.to_owned()) } else { resolve(page, file) };
    let Some(file) = file.filter(|file| exists(file, paths)) else {
        return Some(format!("the link '{target}' leads to no file"));
    };
    let text = pages.get(file.as_str())?;
    let is_known = fragment.is_empty() || fragments(text).contains(fragment);
    (!is_known).then(|| format!("the link '{target}' leads to no heading"))
}

/// The path from the root that a relative link means; `None` when it leads out of the repository.
fn resolve(page: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn exists(path: &str, paths: &[String]) -> bool {
    let as_folder = format!("{path}/");
    paths.iter().any(|known| known == path || known.starts_with(&as_folder))
}

/// The targets of all links outside fenced blocks and code spans, with their lines from 1.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (index, line) in plain_lines(text) {
        for prose in line.split('`').step_by(2) {
            let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            found.extend(targets.map(|(target, _)| (index + 1, target)));
        }
    }
    found
}

/// The lines outside fenced blocks, with their indexes.
fn plain_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    })
}

/// What may stand behind `#` in links to a page.
fn fragments(text: &str) -> BTreeSet<String> {
    let mut fragments = BTreeSet::new();
    for (_, line) in plain_lines(text) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let base = slug(title.trim());
        let mut fragment = base.clone();
        let mut count = 0;
        while !fragments.insert(fragment) {
            count += 1;
            fragment = format!("{base}-{count}");
        }
    }
    fragments
}

/// A heading as GitHub writes it into a link.
fn slug(title: &str) -> String {
    let is_kept = |char: &char| char.is_alphanumeric() || "-_ ".contains(*char);
    title.to_lowercase().chars().filter(is_kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str) -> Vec<(usize, String)> {
        let other =
            "# Top\n## `[resp]`: Redis clients\n## Twice\n## Twice\n```sh\n# no heading\n```\n";
        let paths = ["Makefile", "docs/a.md", "docs/guide/b.md"].map(str::to_owned);
        let file =
            |path: &str, text: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
        let texts = [file("docs/a.md", other), file("docs/guide/b.md", page)];
        check(&paths, &texts).into_iter().map(|finding| (finding.line, finding.what)).collect()
    }

    #[test]
    fn links_to_files_folders_and_headings_pass() {
        let page = "[a](../a.md) [`b`](b.md) [up](../../Makefile) [all](..) <https://x>\n\
                    [out](https://example.com/a) [h](../a.md#resp-redis-clients)\n\
                    [first](../a.md#twice), [second](../a.md#twice-1)\n# Here\n[own](#here)\n";
        assert_eq!(found(page), []);
    }

    #[test]
    fn links_to_nothing_are_found_with_their_line() {
        let page = "[a](a.md)\n[b](../a.md#gone) and [c](../../../x)\n[d](../a.md#no-heading)\n";
        let lines: Vec<usize> = found(page).iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [1, 2, 2, 3]);
    }

    #[test]
    fn code_is_left_alone() {
        let page = "`[a](a.md)`\n```text\n[b](b)\n```\n";
        assert_eq!(found(page), []);
    }

    #[test]
    fn a_link_whose_text_is_code_is_checked() {
        assert_eq!(found("see [`a`](a.md)\n").len(), 1);
    }
}
