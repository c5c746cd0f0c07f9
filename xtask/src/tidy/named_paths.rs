//! Every path that ARCHITECTURE.md names in backticks exists.
//!
//! A word counts as a path when it has a `/` or ends like a file of this repository; flags,
//! types, endings (`_tests.rs`), addresses, URLs, routes (`/v1/...`), prefixes (`10.0.0.0/8`) and
//! upper-case names do not. A bare file name may be the name of any file; a path with `/` counts
//! from the root. `{a,b}` stands for both, `*` for anything from there on, `:12` for a line.

use std::net::IpAddr;

use crate::finding::Finding;
use crate::repository::TextFile;

const PAGE: &str = "ARCHITECTURE.md";
const ENDINGS: &[&str] = &[
    ".rs", ".md", ".toml", ".lock", ".sh", ".py", ".json", ".yml", ".yaml", ".txt", ".html", ".js",
    ".c", ".h",
];
const MEDIA_TYPES: &[&str] = &["application/", "text/", "image/"];

/// Checks the page against the paths of all files, which are sorted and relative to the root.
pub(crate) fn check(paths: &[String], texts: &[TextFile]) -> Vec<Finding> {
    let Some(page) = texts.iter().find(|file| file.path == PAGE) else {
        return vec![Finding::new(PAGE, 1, "there is no such page", "a short tour of the crates")];
    };
    let mut findings = Vec::new();
    for (line, word) in quoted_words(&page.text) {
        for path in expand_braces(&word) {
            if looks_like_path(&path) && !exists(&path, paths) {
                let what = format!("`{path}` does not exist");
                findings.push(Finding::new(PAGE, line, what, "paths from the repository's root"));
            }
        }
    }
    findings
}

/// Words in single backticks outside code blocks, with their line.
fn quoted_words(text: &str) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    let mut in_block = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            let quoted = line.split('`').skip(1).step_by(2);
            words.extend(quoted.map(|word| (index + 1, word.to_owned())));
        }
    }
    words
}

/// `a/{b,c}/d` becomes `a/b/d` and `a/c/d`; one pair of braces is enough here.
fn expand_braces(word: &str) -> Vec<String> {
    let parts = word
        .split_once('{')
        .and_then(|(head, rest)| rest.split_once('}').map(|(inside, tail)| (head, inside, tail)));
    match parts {
        None => vec![word.to_owned()],
        Some((head, inside, tail)) => {
            inside.split(',').map(|choice| format!("{head}{}{tail}", choice.trim())).collect()
        }
    }
}

fn looks_like_path(word: &str) -> bool {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "_-./*:".contains(char);
    let head = word.split('/').next().unwrap_or_default();
    let is_other_thing = !word.chars().all(is_plain)
        || word.contains("::")
        || word.contains("//")
        || word.starts_with(['/', '-', '_'])
        || !word.contains(|char: char| char.is_ascii_lowercase())
        || MEDIA_TYPES.iter().any(|kind| word.starts_with(kind))
        || head.parse::<IpAddr>().is_ok();
    let bare = without_line(word);
    let has_ending =
        ENDINGS.iter().any(|ending| bare.len() > ending.len() && bare.ends_with(ending));
    !is_other_thing && (word.contains('/') || has_ending)
}

fn exists(word: &str, paths: &[String]) -> bool {
    let path = without_line(word);
    let fixed = path.split('*').next().unwrap_or_default();
    if path.contains('*') {
        return paths.iter().any(|known| known.starts_with(fixed));
    }
    let path = path.trim_end_matches('/');
    if !word.contains('/') {
        return paths.iter().any(|known| known.rsplit('/').next() == Some(path));
    }
    let as_folder = format!("{path}/");
    paths.iter().any(|known| known == path || known.starts_with(&as_folder))
}

/// `a.rs:12` without its line number.
fn without_line(word: &str) -> &str {
    match word.rsplit_once(':') {
        Some((path, line)) if line.bytes().all(|byte| byte.is_ascii_digit()) => path,
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str) -> Vec<String> {
        let paths =
            ["crates/a/src/lib.rs", "crates/b/src/lib.rs", "deny.toml"].map(str::to_owned).to_vec();
        let page = TextFile { path: PAGE.to_owned(), text: page.to_owned() };
        check(&paths, &[page]).iter().map(|finding| finding.what.clone()).collect()
    }

    #[test]
    fn paths_that_exist_pass() {
        let page = "`crates/a`, `crates/a/`, `crates/a/src/lib.rs:12`, `lib.rs`, `deny.toml`, \
                    `crates/{a,b}/src`, `crates/*/src`";
        assert_eq!(found(page), [""; 0]);
    }

    #[test]
    fn paths_that_do_not_exist_are_found() {
        let page = "`crates/c` `crates/a/src/li.rs` `gone.md` `crates/{a,c}/src` `doc*/x`";
        assert_eq!(found(page).len(), 5);
    }

    #[test]
    fn other_things_in_backticks_are_left_alone() {
        let page = "`Engine::open` `/v1/ip` `10.0.0.0/8` `2001:db8::/32` `GET/SET` `--no-x` \
                    `http://a/b` `a / b` `application/json` `.mmdb` `_tests.rs` `6380`\n\
                    ```\n`crates/c`\n```\n";
        assert_eq!(found(page), [""; 0]);
    }

    #[test]
    fn the_page_must_be_there() {
        assert_eq!(check(&[], &[]).len(), 1);
    }
}
