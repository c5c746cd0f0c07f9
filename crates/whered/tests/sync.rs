//! `whered sync` on the live kernel, each test in a network namespace of its own.
//!
//! Not for: how members become elements; `whered-connect` has tests of that.

mod kernel;

use std::fs;
use std::path::PathBuf;

const WHERED: &str = env!("CARGO_BIN_EXE_whered");

/// Waits until a command succeeds.
const AWAIT: &str = "await() { for i in $(seq 100); do if \"$@\" > /dev/null 2>&1; then return; fi; \
    sleep 0.1; done; echo \"never: $*\" >&2; exit 1; }\n";

const STORY: &str = r#"
set -e
is_in() { nft get element ip t s "{ $1 }" > /dev/null 2>&1 && ipset test s "$1" 2> /dev/null; }
is_out() { ! nft get element ip t s "{ $1 }" > /dev/null 2>&1 && ! ipset test s "$1" 2> /dev/null; }
printf 'add s 192.0.2.0/24 timeout 3\nadd s 192.0.2.7\nadd s 10.0.0.0/8\nadd s 2001:db8::/32\n' > list
$WHERED sync --file list --to nft:ip/t/s --to ipset:s --to nft:ip6/t/six --create --interval 0.1 \
    --max-shrink 100 > out 2>&1 &
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
    tell("sync-story", STORY);
}

/// Runs a story in a folder and a network namespace of its own; what `whered sync` says is in
/// `out`.
fn tell(name: &str, story: &str) {
    if !kernel::is_possible(&["nft", "ipset", "ip", "bash"]) {
        return;
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    // What an earlier run left behind is of no use.
    let _removed = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the tests' folder can be written");
    let script = format!("cd {}\nWHERED={WHERED}\n{AWAIT}{story}", folder.display());
    let told = kernel::run("unshare", &["-n", "bash", "-c", &script], "");
    let out = fs::read_to_string(folder.join("out")).unwrap_or_default();
    assert!(told.is_ok(), "{told:?}\n{out}");
    let _removed = fs::remove_dir_all(&folder);
}

/// What others do to the sets; `soon` fails after the two seconds that are promised.
const STRANGERS: &str = r#"
set -e
soon() { for i in $(seq 20); do if "$@" > /dev/null 2>&1; then return; fi; sleep 0.1; done
    echo "not within two seconds: $*" >&2; nft list ruleset >&2; ipset save >&2; exit 1; }
nft_has() { nft get element inet t s "{ $1 }" > /dev/null 2>&1; }
set_has() { ipset test s "$1" 2> /dev/null; }
nft_whole() { nft_has 10.255.0.1 && nft_has 192.0.2.9 && nft_has 198.51.100.7 && ! nft_has 203.0.113.1; }
set_whole() { set_has 10.255.0.1 && set_has 192.0.2.9 && set_has 198.51.100.7 && ! set_has 203.0.113.1; }
cat > table <<END
flush ruleset
table inet t { set s { type ipv4_addr; flags interval, timeout; }
    chain c { type filter hook input priority 0; ip saddr @s drop; }
}
END
nft -f table
ipset create s hash:net timeout 0
printf 'add l 10.0.0.0/8
add l 192.0.2.0/24
add l 198.51.100.7 timeout 9999
' > list
$WHERED sync --file list --to nft:inet/t/s --to ipset:s --interval 60 > out 2>&1 &
trap "kill $!" EXIT
await nft_whole
await set_whole
nft -f table; soon nft_whole
nft flush set inet t s; soon nft_whole
nft delete element inet t s '{ 192.0.2.0/24 }'; soon nft_whole
nft add element inet t s '{ 203.0.113.0/24 }'; soon nft_whole
nft delete element inet t s '{ 198.51.100.7 }'
nft add element inet t s '{ 198.51.100.7 timeout 1s }'; sleep 1.5; soon nft_whole
nft flush ruleset; sleep 1; nft -f table; soon nft_whole
grep -q 'nft set inet/t/s: somebody else has changed or replaced it; written anew' out
ipset destroy s; ipset create s hash:net timeout 0; soon set_whole
ipset create other hash:net timeout 0
for address in 203.0.113.0/24 1.1.1.1 2.2.2.2; do ipset add other $address; done
ipset swap s other; soon set_whole
ipset flush s; soon set_whole
ipset del s 192.0.2.0/24; soon set_whole
ipset add s 203.0.113.0/24; soon set_whole
ipset del s 192.0.2.0/24; ipset add s 203.0.113.0/24; soon set_whole
grep -q 'ipset s: somebody else has changed or replaced it; written anew' out
"#;

#[test]
fn what_others_do_to_a_set_is_reported_and_undone_within_two_seconds() {
    tell("sync-strangers", STRANGERS);
}

/// A set that packets add to, which the kernel announces to nobody; and whole comparisons of sets
/// that nobody touches.
const COMPARISONS: &str = r#"
set -e
ip link set lo up
nft -f - <<END
table inet t {
    set s { type ipv4_addr; flags dynamic, timeout; }
    set r { type ipv4_addr; flags interval, timeout; }
    set p { type ipv4_addr; flags interval; }
    set six { type ipv6_addr; flags interval; }
    chain c { type filter hook output priority 0; ip daddr 127.0.0.9 add @s { ip daddr }; }
}
END
echo 192.0.2.1 > hosts
printf 'add l 0.0.0.0/8
add l 192.0.2.1 timeout 500
add l 192.0.2.2
add l 224.0.0.0-255.255.255.255
' > list
printf 'add l ::/8 timeout 5
add l ffff::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff
' >> list
$WHERED sync --file list --to nft:inet/t/r --to nft:inet/t/p --to nft:inet/t/six --to ipset:l --create     --compare-interval 0.2 > out 2>&1 &
first=$!
$WHERED sync --file hosts --to nft:inet/t/s --compare-interval 0.2 > hosts.out 2>&1 &
trap "kill $first $!" EXIT
await nft get element inet t s '{ 192.0.2.1 }'
await ipset test l 224.0.0.1
await nft get element inet t six '{ ffff::1 }'
# Members end, and its own changes are nobody else's.
sleep 3
{ cat list; printf 'add l 9.9.9.9\nadd l 9.9.9.0/24 timeout 2\n'; } > new; mv new list
await ipset test l 9.9.9.9
sleep 4
if grep 'somebody else' out hosts.out; then echo 'nobody else was there' >&2; exit 1; fi
echo x > /dev/udp/127.0.0.9/9
await grep -q '0 elements missing, 1 foreign, 0 with another end; written anew' hosts.out
sleep 0.5
if nft get element inet t s '{ 127.0.0.9 }' 2> /dev/null; then echo 'it stays' >&2; exit 1; fi
"#;

#[test]
fn whole_comparisons_find_what_nobody_announces_and_nothing_else() {
    tell("sync-comparisons", COMPARISONS);
}

const SHRINKING: &str = r#"
set -e
has() { ipset test s "$1" 2> /dev/null; }
for i in $(seq 0 9); do echo 10.0.$i.0/24; done > whole
cp whole list
$WHERED sync --file list --to ipset:s --create --interval 0.1 > out 2>&1 &
first=$!
trap 'kill $first' EXIT
await has 10.0.9.1
try() { cp "$1" new; mv new list; await grep -q "$2" out; has 10.0.9.1; has 10.0.0.1; }
: > empty; try empty 'list: found no members; allowed: --allow-empty'
echo '# only this' > comment; try comment 'found no members'
echo '[]' > json; try json 'found no members'
echo 'table ip t { set s { type ipv4_addr; } }' > nft; try nft 'found no members'
head -n 5 whole > half; try half 'found 5 members in the place of 10, a loss of 50 % or more'
printf 'create a hash:net
add a 10.0.0.0/8
create b hash:net
add b 10.0.0.0/8
' > dump
try dump 'the name of one of several: a, b'
kill $first; wait $first || true
# A run that begins finds what the last one left.
for list in half empty; do
    if $WHERED sync --file $list --to ipset:s --once > out 2>&1; then echo "$list is taken" >&2; exit 1; fi
    has 10.0.9.1
done
grep -q 'found no members' out
$WHERED sync --file half --to ipset:s --once --max-shrink 60
has 10.0.0.1; if has 10.0.9.1; then exit 1; fi
$WHERED sync --file empty --to ipset:s --once --allow-empty
if has 10.0.0.1; then exit 1; fi
$WHERED sync --file dump:b --to ipset:s --once
has 10.0.0.1
first=
trap - EXIT
"#;

#[test]
fn empty_halved_and_merged_lists_change_nothing_unless_asked_for() {
    tell("sync-shrinking", SHRINKING);
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
        let arguments = ["sync", "--file", "/dev/stdin", "--to", to, "--dry-run"];
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
