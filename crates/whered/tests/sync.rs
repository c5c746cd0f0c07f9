//! `whered sync` on the live kernel, each test in a network namespace of its own.
//!
//! Not for: how members become elements; `whered-connect` has tests of that.

mod kernel;

use std::fs;
use std::path::PathBuf;

const WHERED: &str = env!("CARGO_BIN_EXE_whered");

#[test]
fn no_packet_slips_through_while_a_set_is_written_changed_and_written_again() {
    for (kind, programs) in
        [("nft", &["nft", "ip"][..]), ("ipset", &["ipset", "iptables-restore", "ip"])]
    {
        if !kernel::is_possible(programs) {
            continue;
        }
        let short = ["bench", "sync", "--kind", kind, "--members", "20000", "--seconds", "1.5"];
        // Found only if nothing slipped.
        let table = kernel::run(WHERED, &short, "").expect("nothing slips through");
        assert!(table.ends_with("| 0 |\n"), "{table}");
    }
}

/// Waits until a command succeeds.
const AWAIT: &str = "await() { for i in $(seq 100); do if \"$@\" > /dev/null 2>&1; then return; fi; \
    sleep 0.1; done; echo \"never: $*\" >&2; exit 1; }\n";

const STORY: &str = r#"
set -e
is_in() { nft get element ip t s "{ $1 }" > /dev/null 2>&1 && ipset test s "$1" 2> /dev/null; }
is_out() { ! nft get element ip t s "{ $1 }" > /dev/null 2>&1 && ! ipset test s "$1" 2> /dev/null; }
printf 'add s 192.0.2.0/24 timeout 3\nadd s 192.0.2.7\nadd s 10.0.0.0/8\nadd s 2001:db8::/32\n' > list
$WHERED sync --file list --to nft:ip/t/s --to ipset:s --to nft:ip6/t/six --create --interval 0.1 \
    > out 2>&1 &
trap "kill $!" EXIT
await is_in 192.0.2.9
is_in 192.0.2.7
is_in 10.255.255.255
nft get element ip6 t six '{ 2001:db8::1 }' > /dev/null
await is_out 192.0.2.9
is_in 192.0.2.7
is_in 10.0.0.1
# Somebody else throws everything away.
nft flush ruleset
ipset destroy s
await is_in 10.0.0.1
# A list that cannot be read changes nothing.
echo 'add s ten' > new; mv new list
await grep -q 'stay as they are' out
is_in 10.0.0.1
# The whole of IPv4, and a part of it that ends.
printf '0.0.0.0/0\n10.0.0.0/8\n' > new; mv new list
await is_in 203.0.113.1
is_in 255.255.255.255
echo 10.0.0.0-10.0.0.2 > new; mv new list
await is_out 203.0.113.1
is_out 10.0.0.3
is_in 10.0.0.2
grep -q 'in step again' out
"#;

#[test]
fn a_list_is_followed_through_ends_strangers_and_mistakes() {
    if !kernel::is_possible(&["nft", "ipset"]) {
        return;
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("sync-story");
    // What an earlier run left behind is of no use.
    let _removed = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the tests' folder can be written");
    let script = format!("cd {}\nWHERED={WHERED}\n{AWAIT}{STORY}", folder.display());
    let told = kernel::run("unshare", &["-n", "sh", "-c", &script], "");
    let out = fs::read_to_string(folder.join("out")).unwrap_or_default();
    assert!(told.is_ok(), "{told:?}\n{out}");
    let _removed = fs::remove_dir_all(&folder);
}

#[test]
fn sets_that_cannot_hold_members_are_refused_in_one_line() {
    if !kernel::is_possible(&["nft", "ipset"]) {
        return;
    }
    let script = r#"
nft 'add table ip t; add set ip t single { type ipv4_addr; };
    add set ip t ends { type ipv4_addr; flags interval, timeout; timeout 5s; };
    add set ip t ports { type inet_service; }; add map ip t verdicts { type ipv4_addr : verdict; }'
ipset create hosts hash:ip; ipset create ports bitmap:port range 1-9
for to in nft:ip/t/single nft:ip/t/ends nft:ip/t/ports nft:ip/t/verdicts nft:ip/t/none ipset:hosts \
    ipset:ports ipset:none; do
    echo 10.0.0.0/8 | $WHERED sync --file /dev/stdin --to $to --once 2>&1
    echo "code $?"
done
"#;
    let script = format!("WHERED={WHERED}\n{script}");
    let out = kernel::run("unshare", &["-n", "sh", "-c", &script], "").expect("the script ends");
    let lines: Vec<&str> = out.lines().collect();
    let expected = [
        "nft set ip/t/single: cannot hold 10.0.0.0/8; allowed: a set with 'flags interval'",
        "nft set ip/t/ends: found a timeout of the set",
        "nft set ip/t/ports: holds no addresses",
        "nft set ip/t/verdicts: found a map",
        "nft set ip/t/none: there is no such set; allowed: --create",
        "ipset hosts: cannot hold 10.0.0.0/8; allowed: a set of hash:net",
        "ipset ports: found type bitmap:port",
        "ipset none: there is no such set; allowed: --create",
    ];
    assert_eq!(lines.len(), expected.len() * 2, "{out}");
    for (pair, expected) in lines.chunks(2).zip(expected) {
        assert!(pair[0].starts_with(&format!("whered: {expected}")), "{out}");
        assert_eq!(pair[1], "code 2", "{out}");
    }
}

#[test]
fn a_rehearsal_prints_texts_that_the_kernel_takes() {
    let run = |to: &str| {
        let arguments = ["sync", "--file", "/dev/stdin", "--to", to, "--once", "--dry-run"];
        kernel::run(WHERED, &arguments, "10.0.0.0/8\n10.1.1.1\n192.0.2.5-192.0.2.6\n")
    };
    let nft = run("nft:inet/t/s").expect("no kernel is needed");
    let expected = "flush set inet t s\nadd element inet t s {\n    10.0.0.0/8,\n    \
        192.0.2.5-192.0.2.6\n}\n";
    assert_eq!(nft, expected);
    let ipset = run("ipset:s").expect("no kernel is needed");
    assert!(ipset.contains("add s.new 192.0.2.5/32 timeout 0\nadd s.new 192.0.2.6/32"), "{ipset}");
    if kernel::is_possible(&["nft", "ipset"]) {
        let made = format!(
            "add table inet t\nadd set inet t s {{ type ipv4_addr; flags interval; }}\n{nft}"
        );
        kernel::run("unshare", &["-n", "nft", "-f", "-"], &made).expect("nft takes it");
        let made = format!("create s hash:net timeout 0\n{ipset}");
        kernel::run("unshare", &["-n", "ipset", "restore"], &made).expect("ipset takes it");
    }
}
