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
            wants_server: false,
        }]
    );
}

#[test]
fn a_server_example_says_so_and_one_empty_line_may_precede_the_expectation() {
    let text =
        "<!-- example: server -->\n```sh\nredis-cli -p 6380 PING\n```\n\n```text\nPONG\n```\n";
    let extraction = extract("README.md", text);
    assert!(extraction.examples[0].wants_server);
    assert_eq!(extraction.examples[0].expected.as_ref().unwrap().line, 7);
}

#[test]
fn unmarked_blocks_are_not_run_and_output_further_away_is_no_expectation() {
    let text = "```sh\nrm -r everything\n```\n\n<!-- example -->\n```sh\ntrue\n```\n\nProse.\n\n\
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
        ("<!-- example -->\n\n```sh\ntrue\n```\n", 1),
        ("<!-- example -->\n```toml\na = 1\n```\n", 1),
        ("text\n<!-- example -->", 2),
        ("<!-- example -->\n<!-- example -->\n```sh\ntrue\n```\n", 1),
        ("<!-- example: sever -->\n```sh\ntrue\n```\n", 1),
    ] {
        let extraction = extract("README.md", text);
        let found: Vec<usize> = extraction.findings.iter().map(|finding| finding.line).collect();
        assert_eq!(found, [line], "{text:?}");
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
