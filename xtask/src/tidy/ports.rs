//! Every `redis-cli` line of README and docs says which server it asks.
//!
//! Without `-p`, `-s` or `-u` the program asks port 6379, where another server may listen. Only
//! fenced blocks count; a line in a sentence is no command.

use crate::finding::Finding;
use crate::repository::TextFile;

/// Finds each command line of a fenced block that leaves the server out.
pub(crate) fn check(texts: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_document =
        |path: &str| path == "README.md" || (path.starts_with("docs/") && path.ends_with(".md"));
    for file in texts.iter().filter(|file| is_document(&file.path)) {
        let mut is_fenced = false;
        for (index, line) in file.text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                is_fenced = !is_fenced;
            } else if is_fenced && leaves_the_server_out(line) {
                let what = format!("'{}' names no server", line.trim());
                findings.push(Finding::new(&file.path, index + 1, what, "-p PORT, -s or -u"));
            }
        }
    }
    findings
}

fn leaves_the_server_out(line: &str) -> bool {
    let mut words = line.split_whitespace().skip_while(|word| *word != "redis-cli");
    words.next().is_some() && !words.any(|word| matches!(word, "-p" | "-s" | "-u"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_without_a_server_is_found_in_a_fence_and_nowhere_else() {
        let text = "redis-cli PING\n```sh\nredis-cli -p 6380 PING\ncat x | redis-cli -x SET a\n\
                    redis-cli -s a.sock PING\n```\nredis-cli PING\n";
        let file = |path: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
        let found = check(&[file("docs/a.md"), file("crates/x.md")]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].path.as_str(), found[0].line), ("docs/a.md", 4));
    }
}
