//! What the marks of a document say is also in its visible text.
//!
//! A reader sees no comments. So a file is named in the lines above its block, and a server is
//! started by a visible command above the first example that talks to it.

use super::extract::{Block, Mark, Server, read_mark};
use crate::finding::Finding;

/// How many lines above its mark a file may be named.
const NEAR_LINES: usize = 3;

/// Finds files without a visible name and servers that nobody is told to start.
pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let lines: Vec<&str> = text.lines().collect();
    let mut findings = Vec::new();
    let mut prose: Vec<Option<&str>> = Vec::new();
    let mut index = 0;
    while index < lines.len() {
        if let Some(block) = Block::starting_at(&lines, index) {
            prose.resize(block.after, None);
            index = block.after;
            continue;
        }
        match read_mark(lines[index]) {
            Some(Mark::File(name)) => {
                let named = format!("`{name}`");
                let near = &prose[index.saturating_sub(NEAR_LINES)..];
                if !near.iter().flatten().any(|line| line.contains(&named)) {
                    let what = format!("the file {name} has no visible name");
                    let allowed = format!("{named} in one of the {NEAR_LINES} lines above");
                    findings.push(Finding::new(path, index + 1, what, allowed));
                }
            }
            Some(Mark::Example(Some(Server::Configured(name)))) => {
                let command = format!("whered serve --config {name}");
                if !lines[..index].iter().any(|line| is_visible(line) && has(line, &command)) {
                    let what = format!("no visible command starts the server with {name}");
                    let allowed = format!("{command} above");
                    findings.push(Finding::new(path, index + 1, what, allowed));
                }
            }
            _ => {}
        }
        prose.push(is_visible(lines[index]).then_some(lines[index]));
        index += 1;
    }
    findings
}

fn is_visible(line: &str) -> bool {
    !line.trim_start().starts_with("<!--")
}

/// Whether a line has a command whose last word ends there: `a.toml` is not `a.toml.new`.
fn has(line: &str, command: &str) -> bool {
    line.match_indices(command).any(|(start, _)| {
        let rest = &line[start + command.len()..];
        rest.is_empty() || rest.starts_with([' ', '`'])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_found(text: &str, expected: &[usize]) {
        let found: Vec<usize> = check("docs/a.md", text).iter().map(|one| one.line).collect();
        assert_eq!(found, expected, "{text}");
    }

    const FILE: &str = "<!-- file: a.toml -->\n```toml\nx = 1\n```\n";
    const EXAMPLE: &str = "<!-- example: server with a.toml -->\n```sh\ntrue\n```\n";

    #[test]
    fn a_file_is_named_in_the_three_lines_above_its_mark() {
        assert_found(FILE, &[1]);
        assert_found(&format!("`a.toml`:\n\n{FILE}"), &[]);
        assert_found(&format!("Save `a.toml`.\n\n\n{FILE}"), &[]);
        assert_found(&format!("`a.toml`:\n\n\n\n{FILE}"), &[5]);
        assert_found(&format!("`b.a.toml`:\n{FILE}"), &[2]);
    }

    #[test]
    fn a_name_in_a_comment_or_in_another_block_does_not_count() {
        assert_found(&format!("<!-- `a.toml` -->\n{FILE}"), &[2]);
        assert_found(&format!("```text\n`a.toml`\n```\n{FILE}"), &[4]);
        assert_found("````text\n<!-- file: a.toml -->\n````\n", &[]);
    }

    #[test]
    fn a_server_is_started_above_its_first_example() {
        let start = "```sh\nwhered serve --config a.toml\n```\n";
        assert_found(EXAMPLE, &[1]);
        assert_found(&format!("{start}{EXAMPLE}"), &[]);
        assert_found(&format!("Type `whered serve --config a.toml`.\n{EXAMPLE}"), &[]);
        assert_found(&format!("{EXAMPLE}{start}{EXAMPLE}"), &[1]);
    }

    #[test]
    fn another_file_or_a_comment_starts_no_server() {
        assert_found(&format!("whered serve --config a.toml.new\n{EXAMPLE}"), &[2]);
        assert_found(&format!("<!-- whered serve --config a.toml -->\n{EXAMPLE}"), &[2]);
        assert_found("<!-- example: server -->\n```sh\ntrue\n```\n", &[]);
    }
}
