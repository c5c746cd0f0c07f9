//! `whered zone check` as a person runs it: output, messages and exit codes.
//!
//! Not for: what master files mean; `whered-dns` has tests of that.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

const GOOD: &str = "$TTL 60\n@ SOA ns hm 7 2 3 4 5\n@ NS ns\n$INCLUDE hosts\n";

/// Writes files into a folder of their own, checks the first; gives exit code, output, errors.
fn check(folder: &str, files: &[(&str, &str)], flags: &[&str]) -> (Option<i32>, String, String) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(folder);
    fs::create_dir_all(&folder).expect("the tests' folder can be written");
    for (file, text) in files {
        fs::write(folder.join(file), text).expect("the tests' folder can be written");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_whered"));
    command.current_dir(&folder).args(["zone", "check", files[0].0]).args(flags);
    let output = command.output().expect("the program runs");
    fs::remove_dir_all(&folder).expect("the folder was just made");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program writes text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_good_zone_is_summed_up() {
    let files = [("example.com.zone", GOOD), ("hosts", "ns A 192.0.2.1\na.b A 192.0.2.2\n")];
    let (code, out, errors) = check("zone-good", &files, &[]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert_eq!(out, "example.com.zone: ok: example.com. serial 7, 4 records, 4 names\n");
}

#[test]
fn oddities_are_told_and_are_exit_code_1() {
    let files = [("z", GOOD), ("hosts", "ns A 192.0.2.1\nns A 192.0.2.1\n")];
    let (code, out, _) = check("zone-odd", &files, &["--origin", "example.com"]);
    assert_eq!(code, Some(1));
    assert!(out.starts_with("hosts:2:1: found A of ns.example.com. a second time"), "{out}");
}

#[test]
fn a_mistake_has_file_line_and_column_and_is_exit_code_2() {
    let files = [("example.com.zone", "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\nns A 192.0.2.\n")];
    let (code, _, errors) = check("zone-bad", &files, &[]);
    assert_eq!(code, Some(2));
    assert!(errors.starts_with("whered: example.com.zone:4:6: found \"192.0.2.\""), "{errors}");
    let files = [("example.com.zone", GOOD), ("hosts", "\n  ns A x\n")];
    let (code, _, errors) = check("zone-bad-included", &files, &[]);
    assert_eq!((code, errors.contains("hosts:2:")), (Some(2), true), "{errors}");
    let (code, _, errors) = check("zone-no-origin", &[("..zone", GOOD)], &[]);
    assert_eq!((code, errors.lines().count()), (Some(2), 1), "{errors}");
}

#[test]
fn a_signed_zone_must_be_whole_unless_it_is_refused_or_its_dnssec_records_are_left_out() {
    let signed = "$TTL 60\n@ SOA ns hm 7 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n@ DNSKEY 257 3 13 AAAA\n\
                  @ 5 RRSIG NS 13 2 60 20300101000000 20200101000000 1 @ AAAA\n\
                  @ 9 RRSIG SOA 13 2 60 20300101000000 20200101000000 1 @ AAAA\n";
    let files = [("example.com.zone", signed)];
    let (code, out, errors) = check("zone-partly", &files, &[]);
    assert_eq!((code, out.as_str(), errors.lines().count()), (Some(2), "", 1), "{errors}");
    let place =
        "whered: example.com.zone:6:1: found a zone with RRSIG and without NSEC or NSEC3PARAM";
    assert!(errors.starts_with(place), "{errors}");
    let chain = "@ NSEC @ NS SOA RRSIG NSEC DNSKEY\n";
    let whole = [("example.com.zone", &*format!("{signed}{chain}"))];
    let (code, out, errors) = check("zone-signed", &whole, &[]);
    assert_eq!((code, errors.as_str()), (Some(1), ""));
    let expected = "example.com.zone: ok: example.com. serial 7, 7 records, 2 names, signed: its first \
                    signature ends at 2030-01-01T00:00:00Z\n";
    assert!(out.ends_with(expected), "{out}");
    // Its signatures are none.
    for fault in [
        "example.com.zone:2:1: found SOA of example.com.: the RRSIG of key 1, which is no DNSKEY of",
        "example.com.zone:4:1: found A of ns.example.com.: no RRSIG",
    ] {
        assert!(out.contains(fault), "{out}");
    }
    let over = [("example.com.zone", &*whole[0].1.replace("20300101", "20210101"))];
    let (code, out, errors) = check("zone-over", &over, &[]);
    assert_eq!((code, errors.as_str()), (Some(1), ""));
    assert!(out.contains("its first signature ended at 2021-01-01T00:00:00Z"), "{out}");
    let (code, out, errors) = check("zone-refused", &files, &["--unsigned", "refuse"]);
    assert_eq!((code, out.as_str(), errors.lines().count()), (Some(2), "", 1), "{errors}");
    let place = "whered: example.com.zone:5:3: found DNSKEY in a zone that is to be unsigned";
    assert!(errors.starts_with(place), "{errors}");
    assert!(errors.contains("\"strip\"") && errors.contains("--unsigned"), "{errors}");
    let (code, out, errors) = check("zone-stripped", &files, &["--unsigned", "strip"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    let expected = "example.com.zone: ok: example.com. serial 7, 3 records, 2 names, 3 DNSSEC records \
                    left out\n";
    assert_eq!(out, expected);
}

/// Checks a configuration with one zone and pool; gives exit code, output, errors.
fn check_pool(
    folder: &str,
    zone: &str,
    of_zone: &str,
    site: &str,
) -> (Option<i32>, String, String) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(folder);
    fs::create_dir_all(&folder).expect("the tests' folder can be written");
    let head = "$TTL 60\n@ SOA ns hm 7 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";
    fs::write(folder.join("z"), format!("{head}{zone}")).expect("it can be written");
    let config = format!(
        "[[zone]]\nname = \"example.com\"\npath = \"z\"\n{of_zone}\n[[pool]]\nname = \"p\"\n\
         owners = [\"example.com\", \"www.example.com\"]\npolicy = [\"healthy\"]\n[[pool.site]]\n\
         name = \"s\"\n{site}\n"
    );
    let config = if site.contains("cname") {
        config.replace("\"example.com\", \"www", "\"www")
    } else {
        config
    };
    fs::write(folder.join("whered.toml"), config).expect("it can be written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_whered"));
    let output = command.current_dir(&folder).args(["check", "whered.toml"]).output();
    let output = output.expect("the program runs");
    fs::remove_dir_all(&folder).expect("the folder was just made");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program writes text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn check_refuses_a_pool_in_a_signed_zone_and_tells_what_is_stripped() {
    let key = "@ DNSKEY 257 3 13 AAAA\n";
    let site = "addresses = [\"192.0.2.9\"]";
    let signed = "@ DNSKEY 257 3 13 AAAA\n@ NSEC @ NS SOA RRSIG NSEC DNSKEY\n\
                  @ RRSIG SOA 13 2 60 20300101000000 20200101000000 1 @ AAAA\n";
    let (code, _, errors) = check_pool("check-pool", signed, "", site);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("is in the signed zone example.com."), "{errors}");
    let (code, _, errors) = check_pool("check-signed", key, "unsigned = \"refuse\"", site);
    assert_eq!(
        (code, errors.contains("z:5:3: found DNSKEY in a zone")),
        (Some(2), true),
        "{errors}"
    );
    let (code, out, errors) = check_pool("check-stripped", key, "unsigned = \"strip\"", site);
    assert_eq!(code, Some(0), "{errors}");
    assert!(out.contains("example.com. is served unsigned: 1 DNSSEC records"), "{out}");
    let (code, _, errors) = check_pool("check-unsigned", key, "unsigned = \"yes\"", site);
    assert_eq!(code, Some(2));
    assert!(errors.contains("whered.toml:4") && errors.contains("'refuse' or 'strip'"), "{errors}");
}

#[test]
fn check_refuses_a_text_that_hides_the_zones_and_an_alias_that_leads_back() {
    let spf = "@ TXT \"v=spf1 -all\"\n";
    let site = "addresses = [\"192.0.2.9\"]\ntxt = [\"site\"]";
    let (code, _, errors) = check_pool("check-hidden", spf, "", site);
    assert_eq!(code, Some(2));
    assert!(errors.contains("has TXT in its zone, which TXT of a site would hide"), "{errors}");
    let (code, _, errors) = check_pool("check-loop", "", "", "cname = \"www.example.com\"");
    assert_eq!(code, Some(2));
    assert!(errors.contains("its CNAME www.example.com. leads back to the pool"), "{errors}");
    let (code, _, errors) = check_pool("check-no-loop", "", "", "cname = \"ns.example.com\"");
    assert_eq!((code, errors.as_str()), (Some(0), ""));
}
