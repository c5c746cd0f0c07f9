//! Manual pages, completions and version, as the built program writes them.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

fn whered(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_whered")).args(arguments).output();
    output.expect("the program runs")
}

fn text_of(arguments: &[&str]) -> String {
    let output = whered(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("it is UTF-8")
}

/// The commands that the help of a command lists.
fn commands_in(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = lines.take_while(|line| !line.is_empty()).filter_map(|line| {
        let name = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '))?;
        name.split_whitespace().next().map(str::to_owned)
    });
    names.filter(|name| name != "help").collect()
}

/// The options that a help describes: the first word of a line of its own, and the one behind it.
fn options_in(help: &str) -> BTreeSet<String> {
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let words = lines.flat_map(|line| line.split_whitespace().take(2));
    let named = words.map(|word| word.trim_end_matches(',').trim_end_matches("..."));
    named.filter(|word| word.starts_with('-') && word.len() > 1).map(str::to_owned).collect()
}

/// Every command with its help, found by reading the help of those above it.
fn all_helps() -> Vec<(Vec<String>, String)> {
    let mut waiting = vec![Vec::new()];
    let mut helps = Vec::new();
    while let Some(path) = waiting.pop() {
        let arguments: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
        let help = text_of(&arguments);
        for name in commands_in(&help) {
            waiting.push([path.clone(), vec![name]].concat());
        }
        helps.push((path, help));
    }
    helps
}

#[test]
fn every_option_that_help_tells_is_in_the_man_page_of_its_command() {
    let folder: PathBuf =
        std::env::temp_dir().join(format!("whered-manual-{}/new", std::process::id()));
    text_of(&["man", "-o", folder.to_str().expect("it is UTF-8")]);
    let (mut pages, mut options) = (0, 0);
    for (path, help) in all_helps() {
        let name = [vec!["whered".to_owned()], path].concat().join("-");
        let page = fs::read_to_string(folder.join(format!("{name}.1"))).expect(&name);
        let page = page.replace("\\-", "-");
        for option in options_in(&help) {
            assert!(page.contains(&format!("\\fB{option}\\fR")), "{name}: {option}");
            options += 1;
        }
        pages += 1;
    }
    assert_eq!(fs::read_dir(&folder).expect("it is there").count(), pages);
    // Few options would mean that the help was not understood.
    assert!(pages > 25 && options > 3 * pages, "{pages} pages, {options} options");
    fs::remove_dir_all(folder.parent().expect("it has one")).expect("it can be removed");
}

#[test]
fn every_shell_has_completions_with_every_option() {
    let helps = all_helps();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = text_of(&["completions", shell]);
        for (path, help) in &helps {
            for option in options_in(help).iter().filter(|option| option.starts_with("--")) {
                // fish has long options without their dashes.
                let written = if shell == "fish" { &option[2..] } else { option.as_str() };
                assert!(script.contains(written), "{shell}: {path:?} {option}");
            }
        }
    }
    let refused = whered(&["completions", "tcsh"]);
    assert_eq!(refused.status.code(), Some(2));
    let line = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        line.contains("'tcsh'") && line.contains("bash") && line.lines().count() == 1,
        "{line}"
    );
}

#[test]
fn bash_completes_an_option_of_a_command() {
    let script = text_of(&["completions", "bash"]);
    let ask = "COMP_WORDS=(whered serve --data-d); COMP_CWORD=2; _whered whered --data-d serve; \
               printf '%s\\n' \"${COMPREPLY[@]}\"";
    let output = Command::new("bash").args(["-c", &format!("{script}\n{ask}")]).output();
    let output = output.expect("bash is there");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "--data-dir\n", "{output:?}");
}

#[test]
fn the_version_has_commit_and_date_in_a_clone() {
    let version = text_of(&["--version"]);
    let bare = format!("whered {}", env!("CARGO_PKG_VERSION"));
    let details = version.trim_end().strip_prefix(&bare).expect("it begins with the number");
    let is_clone = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.git");
    if details.is_empty() {
        assert!(!fs::exists(is_clone).expect("it can be asked"), "no commit in {version}");
        return;
    }
    let details = details.strip_prefix(" (").and_then(|rest| rest.strip_suffix(')'));
    let (commit, date) = details.and_then(|rest| rest.split_once(' ')).expect("commit and date");
    assert!(!commit.is_empty(), "{version}");
    let digits = date.split('-').map(str::len).collect::<Vec<_>>();
    assert_eq!(digits, [4, 2, 2], "{version}");
}
