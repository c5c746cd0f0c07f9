//! `cargo xtask readme`: the examples that the documents promise are run.
//!
//! ```text
//! <!-- example -->            or  <!-- example: server -->, <!-- example: server with FILE -->
//! ```sh                       the script
//! ...
//! ```
//! ```text                     optional: what it prints, `...` standing for any text
//! ...                         within a line
//! ```
//!
//! <!-- file: NAME -->         the block below is a file of all examples further down
//! <!-- not run: REASON -->    the block below is not run
//! ```
//!
//! Each block of `sh`, `console` and `toml` has a mark, which `cargo xtask tidy` checks. A TOML
//! file that no example uses is run through `whered check`. Readers do not see the marks: the text
//! names each file and starts each server, which [`visible`] checks.
//!
//! Each script runs as `bash -euo pipefail` in a fresh folder that has the repository's folders, as
//! the root of a clone has, with the folder of the built `whered` first in PATH (`WHERED_BIN_DIR`,
//! else where xtask itself was built to). What it writes to standard error counts as output too.
//!
//! Documents with `server` examples get one demo server each, and one more for each FILE: `whered
//! serve --config FILE` in a folder that has the files shown above and the demonstration's database
//! as `city.mmdb`. Servers listen on free ports, in whose favour the ports 6380, 8080 and 5300 are
//! replaced in script and expectation. They are stopped at the end.

mod compare;
mod demo_server;
mod extract;
mod ports;
mod shell;
mod visible;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::failure::ChoreError;
use crate::finding::Finding;
use crate::repository::Repository;
use crate::scratch::Scratch;
use demo_server::DemoServer;
use extract::{Example, Server};
use shell::Shell;

/// Runs the marked examples of these documents, or of README.md and docs/ when none is named.
pub(crate) fn run(repository: &Repository, documents: &[&str]) -> Result<Vec<Finding>, ChoreError> {
    let binaries = binary_folder()?;
    let folders = top_folders(repository);
    let mut findings = Vec::new();
    let mut count = 0;
    let all: Vec<&str> = self::documents(repository.paths()).collect();
    if let Some(unknown) = documents.iter().find(|path| !all.contains(*path)) {
        return Err(ChoreError::new(format!("{unknown} is no document of the repository")));
    }
    for path in if documents.is_empty() { all.as_slice() } else { documents } {
        let extraction = extract::extract(path, &repository.read(path)?);
        findings.extend(extraction.findings);
        count += extraction.examples.len();
        println!("{path}: {} examples", extraction.examples.len());
        if extraction.examples.is_empty() {
            continue;
        }
        let scratch = Scratch::new("examples")?;
        let mut shell = Shell::new(&scratch, &binaries, &folders);
        findings.extend(run_document(&extraction.examples, &mut shell, &scratch)?);
    }
    println!("{count} examples run, {} faults", findings.len());
    Ok(findings)
}

/// Finds marks that mark nothing, and blocks that are neither run nor say why not.
pub(crate) fn check(repository: &Repository) -> Result<Vec<Finding>, ChoreError> {
    let mut findings = Vec::new();
    for path in documents(repository.paths()) {
        let text = repository.read(path)?;
        findings.extend(extract::extract(path, &text).findings);
        findings.extend(visible::check(path, &text));
    }
    Ok(findings)
}

fn documents(paths: &[String]) -> impl Iterator<Item = &str> {
    let is_document =
        |path: &&str| *path == "README.md" || (path.starts_with("docs/") && path.ends_with(".md"));
    paths.iter().map(String::as_str).filter(is_document)
}

/// The folders in the repository's root.
fn top_folders(repository: &Repository) -> Vec<PathBuf> {
    let names: BTreeSet<&str> = repository
        .paths()
        .iter()
        .filter_map(|path| path.split_once('/'))
        .map(|(folder, _)| folder)
        .filter(|folder| !folder.starts_with('.'))
        .collect();
    names.into_iter().map(|folder| repository.root().join(folder)).collect()
}

fn binary_folder() -> Result<PathBuf, ChoreError> {
    if let Some(folder) = std::env::var_os("WHERED_BIN_DIR") {
        return std::path::absolute(&folder)
            .map_err(|error| ChoreError::on_file(&PathBuf::from(&folder), &error));
    }
    let own = std::env::current_exe()
        .map_err(|error| ChoreError::new(format!("cannot find xtask's own folder: {error}")))?;
    own.parent()
        .map(PathBuf::from)
        .ok_or_else(|| ChoreError::new("xtask's own program lies in no folder"))
}

fn run_document(
    examples: &[Example],
    shell: &mut Shell<'_>,
    scratch: &Scratch,
) -> Result<Vec<Finding>, ChoreError> {
    let mut servers: BTreeMap<&str, DemoServer> = BTreeMap::new();
    let mut findings = Vec::new();
    for example in examples {
        let name = match &example.server {
            None => None,
            Some(Server::Demo) => Some(""),
            Some(Server::Configured(file)) => Some(file.as_str()),
        };
        if let Some(name) = name
            && !servers.contains_key(name)
        {
            let server = match name {
                "" => DemoServer::start(shell, scratch)?,
                name => DemoServer::start_with(name, &example.files, shell, scratch)?,
            };
            servers.insert(name, server);
        }
        let ports = name.and_then(|name| servers.get(name)).map(DemoServer::ports);
        let real = |text: &str| match ports {
            Some(ports) => ports.replace(text),
            None => text.to_owned(),
        };
        let outcome = shell.run(&real(&example.script), &example.files)?;
        if let Some(fault) = outcome.fault {
            let output = outcome.output.trim_end();
            let what = format!("the example {fault}; it printed:\n{output}\n");
            findings.push(Finding::new(&example.path, example.line, what, "success"));
            continue;
        }
        let Some(expected) = &example.expected else {
            continue;
        };
        if let Some(difference) = compare::first_difference(&real(&expected.text), &outcome.output)
        {
            let line = expected.line + difference.line_index;
            let what = format!("the example printed {}", difference.actual);
            findings.push(Finding::new(&example.path, line, what, difference.expected));
        }
    }
    for server in servers.into_values() {
        server.stop()?;
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_the_readme_and_everything_below_docs() {
        let paths = ["README.md", "docs/a.md", "docs/design/b.md", "docs/x.png", "xtask/README.md"]
            .map(str::to_owned);
        let found: Vec<&str> = documents(&paths).collect();
        assert_eq!(found, ["README.md", "docs/a.md", "docs/design/b.md"]);
    }

    #[test]
    fn an_example_fails_by_its_exit_code_or_by_its_output() {
        let text = "<!-- example -->\n```sh\nprintf 'a\\nb\\n'\n```\n```text\na\nc\n```\n\
                    <!-- example -->\n```sh\necho before; false; echo after\n```\n\
                    <!-- example -->\n```sh\necho right 12 now\n```\n```text\nright ... now\n```\n";
        let extraction = extract::extract("README.md", text);
        assert_eq!(extraction.findings, []);
        let scratch = Scratch::new("examples-test").unwrap();
        let mut shell = Shell::new(&scratch, scratch.path(), &[]);
        let found = run_document(&extraction.examples, &mut shell, &scratch).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0], Finding::new("README.md", 7, "the example printed 'b'", "'c'"));
        assert_eq!(found[1].line, 10);
        assert!(found[1].what.contains("ended with exit code 1"));
        assert!(found[1].what.contains("before"));
        assert!(!found[1].what.contains("after"));
    }
}
