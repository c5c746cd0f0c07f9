//! `whered rules` and `whered match` as a person runs them: output, messages and exit codes.
//!
//! Not for: what formats and rules mean; `whered-rules` has tests of that.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const RULES: &str = "\
set office {
    10.1.0.0/16
}
chain input policy drop {
    state {established related} accept
    proto tcp log \"tcp \"
    src @office jump staff
    proto tcp dport {80 443} accept
    proto icmp icmp echo-request accept
    src 192.0.2.0/24 reject
}
chain staff {
    proto tcp dport 22 accept
    not dport 53 return
    accept
}
";

/// A folder of its own with files in it, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, &str)]) -> Folder {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        // What an earlier run left behind is of no use.
        let _removed = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("the tests' folder can be written");
        for (file, text) in files {
            fs::write(folder.join(file), text).expect("the tests' folder can be written");
        }
        Folder(folder)
    }

    /// Exit code, standard output, standard error.
    fn run(&self, arguments: &[&str], input: &str) -> (i32, String, String) {
        self.run_bytes(arguments, input.as_bytes())
    }

    fn run_bytes(&self, arguments: &[&str], input: &[u8]) -> (i32, String, String) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_whered"))
            .args(arguments)
            .current_dir(&self.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program was built");
        if let Some(mut pipe) = child.stdin.take() {
            // A program that does not read its input closes it.
            let _closed = pipe.write_all(input);
        }
        let done = child.wait_with_output().expect("the program ends");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (done.status.code().unwrap_or(-1), text(&done.stdout), text(&done.stderr))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _removed = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn check_tells_findings_on_one_side_and_all_problems_on_the_other() {
    let shadowed =
        "chain input policy drop {\n    src 10.0.0.0/8 drop\n    src 10.1.0.0/16 accept\n}\n";
    let wrong = "chain input policy maybe {\n    src 10.0.0.0/40 drop\n    dport 99999 accept\n}\n";
    let place = "chain input policy drop {\n    src.country = DE accept\n}\n";
    let files = [("a", RULES), ("shadowed", shadowed), ("wrong", wrong), ("place", place)];
    let folder = Folder::new("check", &files);
    let (code, out, _) = folder.run(&["rules", "check", "shadowed"], "");
    assert_eq!(code, 1, "{out}");
    assert!(out.starts_with("shadowed:3: never met: line 2 decides"), "{out}");
    let (code, out, problems) = folder.run(&["rules", "check", "wrong", "missing", "shadowed"], "");
    assert_eq!(code, 2);
    assert!(out.starts_with("shadowed:3: "), "the file after a bad one is checked too: {out}");
    for line in ["whered: wrong:1:", "whered: wrong:2:", "whered: wrong:3:", "whered: missing: "] {
        assert!(problems.contains(line), "{line}\n{problems}");
    }
    let (code, _, problems) = folder.run(&["rules", "check", "place"], "");
    let expected = "whered: place:2: found \"src.country = DE\": there is no database to find \
        places in: allowed is --db [NAME=]FILE\n";
    assert_eq!((code, problems.as_str()), (2, expected));
    let clean = "chain input policy drop {\n    src 10.0.0.0/8 accept\n}\n";
    let (code, out, _) = folder.run(&["rules", "check", "-"], clean);
    assert_eq!((code, out.as_str()), (0, ""));
}

#[test]
fn files_of_other_editors_are_read_and_scripts_are_told_from_rules() {
    let folder = Folder::new("editors", &[]);
    let windows = b"\xef\xbb\xbf# r\xe8gles\r\n*filter\r\n:INPUT DROP [0:0]\r\n-A INPUT -i lo -j ACCEPT\r\nCOMMIT\r\n";
    let packet = ["rules", "check", "-"];
    let (code, _, told) = folder.run_bytes(&packet, windows);
    assert_eq!((code, told.as_str()), (0, ""));
    let latin =
        b"*filter\n:INPUT DROP [0:0]\n-A INPUT -m comment --comment r\xe8gle -j ACCEPT\nCOMMIT\n";
    let (code, _, told) = folder.run_bytes(&packet, latin);
    let expected = "whered: standard input:3: found bytes that are no text: allowed is UTF-8\n";
    assert_eq!((code, told.as_str()), (2, expected));
    for (text, found) in [
        ("#!/bin/sh\nsudo /sbin/iptables -P INPUT DROP\n", "2: found commands of iptables"),
        ("table inet filter {\n}\n", "1: found the text language of nft"),
        ("#!/usr/sbin/nft -f\nflush ruleset\n", "2: found the text language of nft"),
    ] {
        let (code, _, told) = folder.run(&packet, text);
        assert_eq!(code, 2);
        assert!(
            told.starts_with(&format!("whered: standard input:{found}: allowed is the output of")),
            "{told}"
        );
    }
}

#[test]
fn formats_are_guessed_or_said_and_convert_to_each_other() {
    let folder = Folder::new("convert", &[("a", RULES)]);
    let (code, tables, told) = folder.run(&["rules", "convert", "a", "--format", "iptables"], "");
    assert_eq!(code, 0, "{told}");
    assert!(
        tables.starts_with("# iptables-save by whered\n*filter\n")
            && tables.contains("--match-set office src"),
        "{tables}"
    );
    assert!(told.contains("a: written for ipv4"), "{told}");
    fs::write(folder.0.join("saved"), &tables).expect("the tests' folder can be written");
    let (code, own, told) = folder.run(&["rules", "convert", "saved", "--format", "own"], "");
    assert_eq!(code, 0, "{told}");
    assert!(own.contains("family ipv4\n") && own.contains("dport {80 443} accept"), "{own}");
    let (code, again, _) =
        folder.run(&["rules", "convert", "-", "--input-format", "own", "--format", "own"], &own);
    assert_eq!((code, again), (0, own));
    let (code, nft, _) = folder.run(&["rules", "convert", "a", "--format", "nft"], "");
    assert!(code == 0 && nft.starts_with("table inet "), "{nft}");
    let (code, sets, _) =
        folder.run(&["rules", "convert", "a", "--format", "ipset", "--family", "ipv4"], "");
    assert!(code == 0 && sets.contains("10.1.0.0/16"), "{sets}");
    // iptables has no sites: nothing is written, and the line is named.
    let site = "chain input policy drop {\n    site fra\n}\n";
    let (code, out, told) = folder.run(&["rules", "convert", "-", "--format", "iptables"], site);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(told.contains("standard input:2:"), "{told}");
    let (code, _, told) =
        folder.run(&["rules", "convert", "a", "--format", "nft", "--family", "ipv6"], "");
    assert!(code == 2 && told.contains("--family is for"), "{told}");
}

#[test]
fn iptables_family_is_that_of_the_remark_or_of_the_addresses() {
    let rules = "*filter\n:INPUT DROP [0:0]\n-A INPUT -s 2001:db8::/32 -j ACCEPT\nCOMMIT\n";
    let folder = Folder::new("family", &[("six", rules)]);
    let (code, own, told) = folder.run(&["rules", "convert", "six", "--format", "own"], "");
    assert!(code == 0 && own.contains("family ipv6\n"), "{own}{told}");
    let remarked = "# Generated by ip6tables-save v1.8\n*filter\n:INPUT DROP [0:0]\nCOMMIT\n";
    let (_, own, told) = folder.run(&["rules", "convert", "-", "--format", "own"], remarked);
    assert!(own.contains("family ipv6\n"), "{own}{told}");
}

#[test]
fn cases_fail_with_what_was_expected_found_and_why() {
    let cases = "source,destination,protocol,destination_port,verdict,line\n\
        10.1.2.3,192.0.2.1,tcp,22,accept,13\n\
        10.1.2.3,192.0.2.1,tcp,25,accept,13\n\
        192.0.2.9,192.0.2.1,udp,9,reject,10\n";
    let good: String =
        cases.lines().filter(|line| !line.contains(",25,")).collect::<Vec<_>>().join("\n");
    let folder = Folder::new("cases", &[("a", RULES), ("c.csv", cases), ("g.csv", &good)]);
    let (code, out, _) = folder.run(&["rules", "test", "a", "c.csv"], "");
    assert_eq!(code, 1);
    let expected = "c.csv:3: expected accept, found drop, expected line 13, found the policy; \
        decided by the policy of input; line 13 does not hold: dport 22\n\
        c.csv: 3 cases, 1 not as expected\n";
    assert_eq!(out, expected);
    let (code, out, _) = folder.run(&["rules", "test", "a", "g.csv"], "");
    assert_eq!((code, out.as_str()), (0, "g.csv: 2 cases, 0 not as expected\n"));
    let (code, _, told) = folder.run(&["rules", "test", "a", "-"], "source,colour\n1,2\n");
    assert!(code == 2 && told.contains("standard input:1:2: found \"colour\""), "{told}");
}

#[test]
fn an_explanation_has_the_rule_and_why_each_earlier_one_did_not_decide() {
    let folder = Folder::new("explain", &[("a", RULES)]);
    let explain = |more: &[&str]| {
        let packet = ["rules", "explain", "a", "--destination", "192.0.2.1"];
        folder.run(&[&packet[..], more].concat(), "")
    };
    let (code, out, told) = explain(&[
        "--source",
        "10.1.2.3",
        "--protocol",
        "tcp",
        "--destination-port",
        "443",
        "--state",
        "new",
    ]);
    let expected = "accept by a:8 (input 4): proto tcp dport {80 443} accept\n  \
        a:5 (input 1): does not hold: state {established related}\n  \
        a:6 (input 2): met on the way: proto tcp log \"tcp \"\n  \
        a:7 (input 3): met on the way: src @office jump staff\n  \
        a:13 (staff 1): does not hold: dport 22\n  \
        a:14 (staff 2): met on the way: not dport 53 return\n";
    assert_eq!((code, out.as_str(), told.as_str()), (0, expected, ""));
    let (_, out, _) = explain(&["--source", "8.8.8.8", "--protocol", "icmp", "--icmp", "8/0"]);
    assert!(out.starts_with("accept by a:9 (input 5): "), "{out}");
    let (_, out, _) = explain(&["--source", "8.8.8.8", "--protocol", "tcp", "--flags", "SYN,ACK"]);
    assert!(out.starts_with("drop by the policy of input\n"), "{out}");
    for wrong in [["--source", "::1"], ["--flags", "up"], ["--state", "odd"], ["--dscp", "64"]] {
        let (code, _, told) = explain(&[&wrong[..], &["--protocol", "tcp"]].concat());
        assert!(code == 2 && told.lines().count() == 1, "{wrong:?} {told}");
    }
}

#[test]
fn packets_are_matched_and_a_wrong_line_does_not_end_the_list() {
    let packets = "10.1.2.3 192.0.2.1 tcp 4000 22\nnonsense\n192.0.2.9 192.0.2.1 udp 1 2\n\
        2001:db8::1 2001:db8::2 tcp 1 80\n";
    let folder = Folder::new("match", &[("a", RULES), ("p", packets)]);
    let (code, out, told) = folder.run(&["match", "--rules", "a", "p"], "");
    assert_eq!(code, 2);
    let expected = "10.1.2.3 192.0.2.1 tcp 4000 22: accept by a:13 (staff 1), met a:6 (input 2)\n\
        192.0.2.9 192.0.2.1 udp 1 2: reject by a:10 (input 6)\n\
        2001:db8::1 2001:db8::2 tcp 1 80: accept by a:8 (input 4), met a:6 (input 2)\n";
    assert_eq!(out, expected);
    assert!(told.starts_with("whered: p:2: found 'nonsense': allowed is SRC DST"), "{told}");
    let columns = "when,src,dst,proto,dport,state\nnow,8.8.8.8,192.0.2.1,udp,53,established\n\
        now,8.8.8.8,192.0.2.1,udp,53,new\n";
    let (code, out, told) = folder.run(&["match", "--rules", "a", "--format", "csv"], columns);
    let expected = "number,source,destination,protocol,source_port,destination_port,verdict,\
        chain,rule,file,line,met\n\
        2,8.8.8.8,192.0.2.1,udp,0,53,accept,input,1,a,5,\n\
        3,8.8.8.8,192.0.2.1,udp,0,53,drop,input,,,,\n";
    assert_eq!((code, out.as_str()), (0, expected), "{told}");
    assert!(told.contains("left alone: when"), "{told}");
    let (_, out, _) = folder.run(&["match", "--rules", "a", "--format", "json", "-"], columns);
    let first = out.lines().next().unwrap_or_default();
    assert!(first.contains("\"at\":\"a:5\"") && first.contains("\"rule\":1"), "{out}");
    let (code, out, _) = folder.run(&["match", "--rules", "-", "-"], "");
    assert_eq!((code, out.as_str()), (2, ""));
}

#[test]
fn a_summary_counts_every_rule_over_many_batches() {
    let one = "8.8.8.8 192.0.2.1 tcp 1 80\n8.8.8.8 192.0.2.1 17 1 2\n";
    let folder = Folder::new("summary", &[("a", RULES)]);
    let packets = one.repeat(1000);
    let (code, out, told) = folder.run(&["match", "--rules", "a", "--summary"], &packets);
    let expected = "        1000 noted a:6 (input 2)\n        \
        1000 accept a:8 (input 4)\n        \
        1000 drop policy of input\n\
        2000 packets; 5 rules met no packet\n";
    assert_eq!((code, out.as_str()), (0, expected), "{told}");
    // One by one they are decided the same way, and live sets are told.
    let (_, lines, _) = folder.run(&["match", "--rules", "a"], &packets);
    assert_eq!(lines.lines().count(), 2000);
    let live = "chain input policy accept {\n    src @blocked drop\n}\n";
    fs::write(folder.0.join("live"), live).expect("the tests' folder can be written");
    let (_, _, told) = folder.run(&["match", "--rules", "live"], one);
    assert_eq!(told, "whered: live: set \"blocked\" is live; it is taken as empty\n");
}

#[test]
fn many_wrong_lines_are_counted_and_packets_of_the_other_family_are_named() {
    let rules = "family ipv4\nchain input policy drop {\n}\n";
    let folder = Folder::new("many", &[("v4", rules)]);
    let packets = format!("{}::1 ::2 tcp\n", "odd\n".repeat(500));
    let (code, out, told) = folder.run(&["match", "--rules", "v4"], &packets);
    let expected = "::1 ::2 tcp 0 0: continue since the rules are of the other family\n";
    assert_eq!((code, out.as_str(), told.lines().count()), (2, expected, 102));
    assert!(told.ends_with("500 lines were no packets\n"), "{told}");
    let summary = ["match", "--rules", "v4", "--summary", "--format", "csv"];
    let (_, out, _) = folder.run(&summary, "::1 ::2 tcp\n1.1.1.1 2.2.2.2 tcp\n");
    let expected = "decided,noted,bytes,chain,rule,file,line,action\n1,0,0,input,,,,drop\n1,0,0,,,,,continue\n";
    assert_eq!(out, expected);
}

/// A capture of so many UDP packets from 8.8.8.8 to 192.0.2.1, port 53, of 28 octets each.
fn capture(count: usize) -> Vec<u8> {
    let mut file = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101].map(u32::to_le_bytes).concat();
    let packet = [
        0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 8, 8, 8, 8, 192, 0, 2, 1, 4, 0, 0, 53, 0, 8, 0, 0,
    ];
    for _ in 0..count {
        file.extend([1_u32, 0, 28, 28].map(u32::to_le_bytes).concat());
        file.extend(packet);
    }
    file
}

#[test]
fn captures_are_matched_and_a_broken_one_gives_the_results_so_far() {
    let rules = "chain input policy drop {\n    proto udp dport 53 accept\n}\n";
    let folder = Folder::new("captures", &[("r", rules)]);
    let summary = ["match", "--rules", "r", "--summary"];
    let whole = capture(5000);
    let (code, out, told) = folder.run_bytes(&summary, &whole);
    let expected = "        5000          140000 accept r:2 (input 1)\n           0               0 \
        drop policy of input\n5000 packets; 0 rules met no packet\n";
    assert_eq!((code, out.as_str(), told.as_str()), (0, expected, ""));
    let (code, out, told) = folder.run_bytes(&summary, &whole[..whole.len() - 5]);
    assert_eq!(code, 2);
    assert!(out.contains("4999 packets"), "{out}");
    let place = format!("packet 5000 at byte {}", 24 + 4999 * 44);
    assert!(told.contains(&place) && told.lines().count() == 1, "{told}");
    let lines = ["match", "--rules", "r", "--format", "csv"];
    let (_, out, _) = folder.run_bytes(&lines, &capture(2));
    assert!(out.ends_with("\n2,8.8.8.8,192.0.2.1,udp,1024,53,accept,input,1,r,2,\n"), "{out}");
    // Flows, with their state and their bytes.
    let zeek = "#separator \\x09\n#fields\tts\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\t\
        orig_bytes\tresp_bytes\n1.0\t8.8.8.8\t1\t192.0.2.1\t53\tudp\t10\t20\n";
    let (code, out, told) = folder.run(&summary, zeek);
    assert!(code == 0 && out.contains("accept r:2"), "{out} {told}");
    let (code, out, told) = folder.run_bytes(&lines, &[0, 1, 2, 3, 4, 5]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(told.contains("no known kind"), "{told}");
}

#[test]
fn bits_behind_a_prefix_are_remarked_on_in_rules_rows_and_configurations() {
    let rules = "chain input policy drop {\n    src 1.0.0.1/8 accept\n}\n";
    let rows = "network,country.iso_code\n10.0.0.1/8,DE\n11.0.0.0/8,FR\n12.0.0.1/8,FR\n";
    let folder = Folder::new("bits", &[("r", rules), ("rows.csv", rows)]);
    let remark = |line: usize, column: usize, found: &str, taken: &str| {
        format!(
            "line {line}, column {column}: found \"{found}\", which has bits set behind its length: \
             it is taken as {taken}"
        )
    };
    let expected = format!("r: {}\n", remark(2, 9, "1.0.0.1/8", "1.0.0.0/8"));
    let (code, out, _) = folder.run(&["rules", "check", "r"], "");
    assert_eq!((code, out.as_str()), (1, expected.as_str()));
    let (code, _, told) = folder.run(&["rules", "convert", "r", "--format", "own"], "");
    assert_eq!((code, told), (0, format!("whered: {expected}")));
    let (code, _, told) = folder.run(&["db", "build", "rows.csv", "-o", "c.mmdb"], "");
    let first = remark(2, 1, "10.0.0.1/8", "10.0.0.0/8");
    assert_eq!((code, told), (0, format!("whered: rows.csv: {first} (and 1 more like it)\n")));
    let served = "[resp]\n[[ruleset]]\nname = \"r\"\npath = \"r\"\n";
    fs::write(folder.0.join("served.toml"), served).expect("writable");
    let (code, out, _) = folder.run(&["check", "served.toml"], "");
    let remark_of_rules = remark(2, 9, "1.0.0.1/8", "1.0.0.0/8");
    assert!(code == 0 && out.contains(&format!("r: remark: {remark_of_rules}\n")), "{out}");
}

#[test]
fn check_refuses_directories_that_are_not_there() {
    for section in ["sets", "backup"] {
        let config = format!("[{section}]\ndirectory = \"none\"\n");
        let folder = Folder::new("directories", &[("c.toml", &config)]);
        let (code, _, told) = folder.run(&["check", "c.toml"], "");
        let expected = format!("'directory' in [{section}] is ");
        assert!(code == 2 && told.contains(&expected) && told.contains("not there"), "{told}");
    }
}

#[test]
fn check_remarks_on_countries_and_subdivisions_that_no_database_has() {
    let rows = "network,country.iso_code,subdivisions.0.iso_code\n10.0.0.0/8,US,CA\n";
    let config = "[[database]]\nname = \"city\"\npath = \"city.mmdb\"\n[dns]\ndatabase = \"city\"\n\
        [[zone]]\nname = \"example.com\"\npath = \"zone\"\n[[map]]\nname = \"m\"\ncountries = { us = [\"a\"], gb = [\"a\"] }\n\
        subdivisions = { us-ca = [\"a\"], us-xx = [\"a\"] }\n\
        [[pool]]\nname = \"www\"\nowners = [\"www.example.com\"]\npolicy = [\"map:m\", \"nearest\"]\n\
        [[pool.site]]\nname = \"a\"\nat = { longitude = 1.0, latitude = 1.0 }\naddresses = [\"192.0.2.1\"]\n";
    let zone = "@ 300 IN SOA ns.example.com. hostmaster.example.com. 1 7200 3600 1209600 300\n@ 300 IN NS ns\nns 300 IN A 192.0.2.53\n";
    let folder = Folder::new("maps", &[("rows.csv", rows), ("zone", zone), ("c.toml", config)]);
    assert_eq!(folder.run(&["db", "build", "rows.csv", "-o", "city.mmdb"], "").0, 0);
    let (code, out, told) = folder.run(&["check", "c.toml"], "");
    assert_eq!(code, 0, "{told}");
    let remarks: Vec<&str> =
        out.lines().filter_map(|line| line.split_once("remark: ")).map(|(_, what)| what).collect();
    let expected =
        |key: &str| format!("the map 'm' lists {key}, which no record of a database has");
    assert_eq!(remarks, [expected("GB"), expected("US-XX")]);
}

#[test]
fn places_in_rules_are_those_of_the_databases_named() {
    let rules = "chain input policy drop {\n    src.country = DE accept\n}\n";
    let rows = "network,country.iso_code\n10.0.0.0/8,DE\n11.0.0.0/8,FR\n";
    let cases = "source,verdict\n10.1.1.1,accept\n11.1.1.1,drop\n";
    let folder = Folder::new("db", &[("r", rules), ("rows.csv", rows), ("cases.csv", cases)]);
    let (code, _, told) = folder.run(&["db", "build", "rows.csv", "-o", "c.mmdb"], "");
    assert_eq!(code, 0, "{told}");
    let packets = "10.1.1.1 192.0.2.1 udp\n11.1.1.1 192.0.2.1 udp\n";
    let (code, out, told) = folder.run(&["match", "--rules", "r", "--db", "c.mmdb"], packets);
    let expected = "10.1.1.1 192.0.2.1 udp 0 0: accept by r:2 (input 1)\n\
        11.1.1.1 192.0.2.1 udp 0 0: drop by the policy of input\n";
    assert_eq!((code, out.as_str()), (0, expected), "{told}");
    let (code, out, _) = folder.run(&["rules", "test", "r", "cases.csv", "--db", "c.mmdb"], "");
    assert_eq!(code, 0, "{out}");
    let explain = [
        "rules",
        "explain",
        "r",
        "--source",
        "11.1.1.1",
        "--destination",
        "192.0.2.1",
        "--protocol",
    ];
    let (_, out, _) = folder.run(&[&explain[..], &["udp", "--db", "c.mmdb"]].concat(), "");
    assert!(out.contains("does not hold: src.country = DE"), "{out}");
    let (code, out, told) = folder.run(&["rules", "check", "r", "--db", "geo=c.mmdb"], "");
    assert_eq!((code, out.as_str()), (0, ""), "{told}");
    let typo = "chain input policy drop {\n    src.cuntry = DE accept\n}\n";
    let (code, _, told) = folder.run(&["rules", "check", "-", "--db", "geo=c.mmdb"], typo);
    let expected = "whered: standard input:2: found \"cuntry\": no record of database 'geo' has that \
        field: allowed are those that have values, in country\n";
    assert_eq!((code, told.as_str()), (2, expected));
    // So does the check of a configuration.
    fs::write(folder.0.join("typo"), typo).expect("the tests' folder can be written");
    let config = "[[database]]\nname = \"geo\"\npath = \"c.mmdb\"\n\
                  [[ruleset]]\nname = \"edge\"\npath = \"typo\"\n";
    fs::write(folder.0.join("c.toml"), config).expect("the tests' folder can be written");
    let (code, _, told) = folder.run(&["check", "c.toml"], "");
    assert!(code == 2 && told.contains("typo:2: found \"cuntry\": no record"), "{told}");
    let named = "chain input policy drop {\n    src.asn:country = DE accept\n}\n";
    let (code, _, told) = folder.run(&["rules", "check", "-", "--db", "geo=c.mmdb"], named);
    assert!(code == 2 && told.contains("standard input:2"), "{told}");
}
