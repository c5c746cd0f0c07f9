//! Made-up documents.

use super::*;

#[test]
fn a_marked_script_is_found_with_its_expectation() {
    let text = "# Title\n\n<!-- example -->\n```sh\nwhered help\n```\n```text\nusage ...\n```\n";
    let extraction = extract("README.md", text);
    assert_eq!(extraction.findings, []);
    assert_eq!(
        extraction.examples,
        [Example {
            path: "README.md".to_owned(),
            line: 4,
            script: "whered help\n".to_owned(),
            expected: Some(Expected { line: 8, text: "usage ...\n".to_owned() }),
            server: None,
            files: Vec::new(),
        }]
    );
}

#[test]
fn a_server_example_says_so_and_one_empty_line_may_precede_the_expectation() {
    let text =
        "<!-- example: server -->\n```sh\nredis-cli -p 6380 PING\n```\n\n```text\nPONG\n```\n";
    let extraction = extract("README.md", text);
    assert_eq!(extraction.examples[0].server, Some(Server::Demo));
    assert_eq!(extraction.examples[0].expected.as_ref().unwrap().line, 7);
}

#[test]
fn blocks_marked_so_are_not_run_and_output_further_away_is_no_expectation() {
    let text = "<!-- not run: dangerous -->\n```sh\nrm -r everything\n```\n\n<!-- example -->\n```sh\ntrue\n```\n\nProse.\n\n\
                ```text\nout\n```\n";
    let extraction = extract("README.md", text);
    assert_eq!(extraction.examples.len(), 1);
    assert_eq!(extraction.examples[0].expected, None);
}

#[test]
fn a_mark_inside_a_longer_fence_is_content() {
    let text = "````text\n<!-- example -->\n```sh\nfalse\n```\n````\n";
    let extraction = extract("README.md", text);
    assert_eq!(extraction.examples, []);
    assert_eq!(extraction.findings, []);
}

#[test]
fn a_script_in_a_list_loses_its_indentation_only() {
    let text = "- item\n\n  <!-- example -->\n  ```sh\n  if true; then\n    echo\n  fi\n  ```\n";
    let extraction = extract("README.md", text);
    assert_eq!(extraction.examples[0].script, "if true; then\n  echo\nfi\n");
}

#[test]
fn a_mark_that_marks_nothing_is_found() {
    for (text, line) in [
        ("<!-- example -->\n\n<!-- not run: x -->\n```sh\ntrue\n```\n", 1),
        ("<!-- example -->\n```toml\na = 1\n```\n", 1),
        ("text\n<!-- example -->", 2),
        ("<!-- example -->\n<!-- example -->\n```sh\ntrue\n```\n", 1),
        ("<!-- file: a.toml -->\ntext\n", 1),
    ] {
        let extraction = extract("README.md", text);
        let found: Vec<usize> = extraction.findings.iter().map(|finding| finding.line).collect();
        assert_eq!(found, [line], "{text:?}");
    }
}

#[test]
fn a_mark_of_no_known_kind_is_found() {
    let of = |text: &str| extract("README.md", text).findings;
    for mark in ["example: sever", "example: server with a b", "not run", "not run:", "file: a/b"] {
        let found = of(&format!("<!-- {mark} -->\n```sh\ntrue\n```\n"));
        assert!(found[0].what.contains("unknown mark"), "{found:?}");
    }
    assert_eq!(of("```text\ntrue\n```\n"), []);
}

#[test]
fn files_shown_above_an_example_are_its_own_and_a_server_is_configured_by_one() {
    let text = "<!-- file: a.toml -->\n```toml\nx = 1\n```\n\
                <!-- example: server with a.toml -->\n```sh\ntrue\n```\n\
                <!-- file: a.toml -->\n```toml\nx = 2\n```\n\
                <!-- example: server with b.toml -->\n```sh\ntrue\n```\n";
    let extraction = extract("README.md", text);
    let file = |text: &str| ShownFile { name: "a.toml".to_owned(), text: text.to_owned() };
    let [first, second, _] = extraction.examples.as_slice() else { panic!("{extraction:?}") };
    assert_eq!(first.server, Some(Server::Configured("a.toml".to_owned())));
    assert_eq!(first.files, [file("x = 1\n")]);
    assert_eq!(second.files, [file("x = 2\n")]);
    assert_eq!(extraction.findings.len(), 1);
    assert_eq!(extraction.findings[0].what, "no file b.toml is shown above");
}

#[test]
fn a_configuration_that_no_example_uses_is_checked() {
    let text = "<!-- file: a.toml -->\n```toml\nx = 1\n```\n\
                <!-- file: b.toml -->\n```toml\nx = 2\n```\n\
                <!-- example -->\n```sh\ncat a.toml\n```\n";
    let extraction = extract("README.md", text);
    let [first, second] = extraction.examples.as_slice() else { panic!("{extraction:?}") };
    assert_eq!(first.script, "cat a.toml\n");
    assert_eq!((second.script.as_str(), second.line), ("whered check b.toml\n", 6));
    assert_eq!(second.files.len(), 2);
}

#[test]
fn a_block_that_readers_type_or_copy_has_a_mark() {
    for (language, count) in [("sh", 1), ("console", 1), ("toml", 1), ("text", 0), ("", 0)] {
        let block = format!("```{language}\nx\n```\n");
        assert_eq!(extract("README.md", &block).findings.len(), count, "{language}");
        let marked = format!("<!-- not run: a part -->\n{block}");
        assert_eq!(extract("README.md", &marked).findings, []);
    }
}

#[test]
fn a_block_without_an_end_is_found() {
    let extraction = extract("README.md", "<!-- example -->\n```sh\ntrue\n");
    assert_eq!(extraction.findings.len(), 1);
}

#[test]
fn other_comments_are_no_marks() {
    assert_eq!(extract("README.md", "<!-- examples follow -->\n<!-- x -->\n").findings, []);
}
