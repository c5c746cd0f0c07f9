//! What `whered serve` logs about the files of rulesets.
//!
//! Not for: what `whered check` and commands say about the same (`rules.rs`, `tests/clients`).

mod served;

use std::fs;

use served::{Served, folder};

const CONFIG: &str = "\
data_dir = 'data'
[resp]
listen = ['127.0.0.1:0']
[[ruleset]]
name = 'edge'
path = 'edge.rules'
";

fn rules(prefix: &str) -> String {
    format!("chain input policy drop {{\n    src {prefix} accept\n}}\n")
}

#[test]
fn bits_behind_a_prefix_of_a_ruleset_are_logged_with_file_and_line_at_each_load() {
    let folder = folder("ruleset-remarks");
    fs::write(folder.join("whered.toml"), CONFIG).expect("the folder is ours");
    let file = folder.join("edge.rules");
    fs::write(&file, rules("10.0.0.1/8")).expect("the folder is ours");
    let served = Served::start(folder);
    let remark = |prefix: &str, block: &str| {
        format!(
            "{}: line 2, column 9: found \"{prefix}\", which has bits set behind its length: it is \
             taken as {block}",
            file.display()
        )
    };
    assert_eq!(served.log().matches(&remark("10.0.0.1/8", "10.0.0.0/8")).count(), 1);
    // A reload of the configuration loads the file once more.
    served.signal("HUP");
    served.wait_for_log(&remark("10.0.0.1/8", "10.0.0.0/8"), 2);
    // The file is followed.
    fs::write(&file, rules("192.0.2.1/24")).expect("the folder is ours");
    served.wait_for_log(&remark("192.0.2.1/24", "192.0.2.0/24"), 1);
}
