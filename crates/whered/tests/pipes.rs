//! Every command with output into a pipe that nobody reads, and its help on a narrow terminal.

mod served;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use served::Served;

const CONFIG: &str = "data_dir = \"data\"\n[resp]\nlisten = [\"127.0.0.1:0\"]\n[http]\nlisten = [\"127.0.0.1:0\"]\n\
[[database]]\nname = \"city\"\npath = \"city.mmdb\"\n\
[[zone]]\nname = \"example.com\"\npath = \"example.com.zone\"\n\
[[zone]]\nname = \"example.net\"\nprimaries = [\"127.0.0.1:1\"]\n[[pool]]\nname = \"www\"\nowners = [\"www.example.com\"]\npolicy = [\"healthy\", \"nearest\"]\nttl_seconds = 30\nanswers = 1\nwhen_all_down = \"all\"\n\
[[pool.site]]\nname = \"fra\"\naddresses = [\"192.0.2.1\"]\nat = { longitude = 8.7, latitude = 50.1 }\n\
[[feed]]\nname = \"seen\"\nformat = \"csv\"\nmember = \"a\"\nlongitude = \"b\"\nlatitude = \"c\"\ninto = { collection = \"seen\" }\n";
const RULES: &str = "chain input policy drop {\n  src 10.0.0.0/8 proto tcp dport {22 443} accept\n  src 10.1.0.0/16 drop\n}\n";
const ZONE: &str =
    "@ 60 IN SOA ns. host. 1 2 3 4 5\n@ 60 IN NS ns.example.net.\nwww 60 IN A 192.0.2.1\n";

/// One call of each command that is shown, with what goes to its standard input. `RESP` and `HTTP`
/// are the servers of the test.
const CALLS: &[(&str, &str, &str)] = &[
    ("backup", "data/backups/one --server RESP", ""),
    ("check", "whered.toml", ""),
    ("completions", "bash", ""),
    ("db build", "rows.csv -o built.mmdb", ""),
    ("db convert", "/usr/share/GeoIP/GeoIP.dat -o converted.mmdb", ""),
    ("db diff", "city.mmdb other.mmdb", ""),
    ("db dump", "city.mmdb", ""),
    ("db edit", "city.mmdb -o edited.mmdb --drop-field a", ""),
    ("db fields", "city.mmdb", ""),
    ("db index", "city.mmdb", ""),
    ("db info", "city.mmdb", ""),
    ("db merge", "city.mmdb other.mmdb -o merged.mmdb", ""),
    ("db verify", "city.mmdb", ""),
    ("enrich", "--db city.mmdb --field a", "ip\n192.0.2.1\n192.0.2.2\n"),
    ("export", "vans -o - --format csv --server RESP", ""),
    ("feeds", "--server HTTP", ""),
    ("formats", "logs", ""),
    ("import points", "points.csv --key vans --server RESP", ""),
    ("import rdb", "dump.rdb --server RESP", ""),
    ("import redis", "RESP/1 --server RESP", ""),
    ("ingest", "seen seen.csv --server HTTP --wait", ""),
    ("lookup", "--db city.mmdb 192.0.2.1 192.0.2.2", ""),
    ("man", "-o pages", ""),
    ("match", "--rules a.rules", "10.1.2.3 192.0.2.1 tcp 40000 22\n"),
    ("reload", "--server RESP", ""),
    ("repair", "unused", ""),
    ("restore", "copied restored", ""),
    ("rules apply", "a.rules --diff --state-dir state", ""),
    ("rules check", "a.rules", ""),
    ("rules compile", "a.rules --to nft", ""),
    ("rules convert", "a.rules --format nft", ""),
    ("rules explain", "a.rules --source 10.1.2.3 --destination 192.0.2.1 --protocol tcp", ""),
    ("rules test", "a.rules cases.csv", ""),
    ("serve", "--resp 127.0.0.1:0", ""),
    ("status", "--server RESP", ""),
    ("steer explain", "www --client 192.0.2.1 --server RESP", ""),
    ("stop", "--server RESP", ""),
    ("sync", "--file blocked.txt --to nft:inet/filter/blocked --dry-run", ""),
    ("zone check", "example.com.zone", ""),
    ("zone convert-gdnsd", "gdnsd -o converted", ""),
    ("zone discard", "example.com --server RESP", ""),
    ("zone key", "create example.org --keys keys", ""),
    ("zone refresh", "example.net --server RESP", ""),
    ("zone retransfer", "example.net --server RESP", ""),
];

fn whered(folder: &Path, arguments: &[&str], stdin: &str, stdout: Stdio) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whered"));
    command.args(arguments).current_dir(folder).stdin(Stdio::piped());
    let mut child = command.stdout(stdout).stderr(Stdio::piped()).spawn().expect("it runs");
    // A command that reads nothing may have ended.
    let _ = child.stdin.take().expect("it is piped").write_all(stdin.as_bytes());
    if arguments.first() == Some(&"serve") && !arguments.contains(&"--help") {
        served::wait_until_it_listens(&child);
        served::signal(child.id(), "TERM");
    }
    child.wait_with_output().expect("it ends")
}

/// The commands that a help lists.
fn commands_in(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = lines.take_while(|line| !line.is_empty()).filter_map(|line| {
        let name = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '))?;
        name.split_whitespace().next().map(str::to_owned)
    });
    names.filter(|name| name != "help").collect()
}

/// Every command that has none below it, with its names.
fn all_commands(folder: &Path) -> Vec<String> {
    let mut waiting = vec![String::new()];
    let mut found = Vec::new();
    while let Some(names) = waiting.pop() {
        let arguments: Vec<&str> = names.split_whitespace().chain(["--help"]).collect();
        let help = whered(folder, &arguments, "", Stdio::piped());
        let below = commands_in(&String::from_utf8_lossy(&help.stdout));
        if below.is_empty() {
            found.push(names.clone());
        }
        waiting.extend(below.iter().map(|below| format!("{names} {below}").trim().to_owned()));
    }
    found.sort();
    found
}

fn files(folder: &Path) {
    let files = [
        ("whered.toml", CONFIG),
        ("a.rules", RULES),
        (
            "cases.csv",
            "source,destination,protocol,destination_port,verdict\n10.2.0.1,192.0.2.1,tcp,22,drop\n",
        ),
        ("rows.csv", "network,a,b\n192.0.2.0/24,1,2\n198.51.100.0/24,3,4\n"),
        ("other.csv", "network,a,b\n192.0.2.0/24,1,9\n"),
        ("points.csv", "id,lon,lat\nv1,8.7,50.1\nv2,8.8,50.2\n"),
        ("seen.csv", "a,b,c\nv1,8.7,50.1\n"),
        ("blocked.txt", "192.0.2.0/24\n198.51.100.0/24\n"),
        ("example.com.zone", ZONE),
    ];
    for (name, text) in files {
        fs::write(folder.join(name), text).expect("the folder can be written");
    }
    fs::write(folder.join("dump.rdb"), b"REDIS0003\x00\x01k\x01v\x03\x01z\x01\x01m\x011\xff")
        .expect("the folder can be written");
    let gdnsd = folder.join("gdnsd/zones");
    fs::create_dir_all(&gdnsd).expect("it can be made");
    fs::write(gdnsd.join("example.com"), ZONE).expect("it can be written");
    fs::write(folder.join("gdnsd/config"), "options => { listen => 127.0.0.1 }\n")
        .expect("as well");
    for name in ["rows", "other"] {
        let (from, to) = (format!("{name}.csv"), name.replace("rows", "city") + ".mmdb");
        let built = whered(folder, &["db", "build", &from, "-o", &to], "", Stdio::piped());
        assert!(built.status.success(), "{built:?}");
    }
}

#[test]
fn every_command_ends_quietly_when_nobody_reads_its_output() {
    let folder = served::folder("pipes");
    files(&folder);
    let commands = all_commands(&folder);
    let called: Vec<&str> = CALLS.iter().map(|(command, ..)| *command).collect();
    assert_eq!(commands, called, "each command has its call");
    let served = Served::start(folder.clone());
    let unused = ["serve", "--resp", "127.0.0.1:0", "--data-dir", "unused"];
    assert!(whered(&folder, &unused, "", Stdio::piped()).status.success());
    let points = "import points points.csv --key vans --server";
    let points: Vec<&str> = points.split(' ').collect();
    let (resp, http) = (format!("redis://{}", served.resp), format!("http://{}", served.http));
    assert!(
        whered(&folder, &[&points[..], &[&resp]].concat(), "", Stdio::piped()).status.success()
    );
    let backup = ["backup", "data/backups/first", "--server", &resp];
    assert!(whered(&folder, &backup, "", Stdio::piped()).status.success());
    fs::rename(folder.join("data/backups/first"), folder.join("copied")).expect("it is there");
    // The one that stops the server is last.
    let (last, others): (Vec<_>, Vec<_>) =
        CALLS.iter().partition(|(command, ..)| *command == "stop");
    for (command, arguments, stdin) in others.into_iter().chain(last) {
        let arguments = arguments.replace("RESP", &resp).replace("HTTP", &http);
        if let Some(file) = arguments.split(' ').find(|word| word.starts_with("/usr/"))
            && !Path::new(file).exists()
        {
            continue;
        }
        let words: Vec<&str> = command.split(' ').chain(arguments.split(' ')).collect();
        let (reader, writer) = std::io::pipe().expect("the system has pipes");
        drop(reader);
        let output = whered(&folder, &words, stdin, writer.into());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 1)), "{command}: {:?}: {told}", output.status);
        for wrong in ["panicked", "roken pipe", "os error 32"] {
            assert!(!told.contains(wrong), "{command}: {told}");
        }
    }
}

#[test]
fn every_help_fits_into_forty_columns() {
    let folder = served::folder("columns");
    for names in all_commands(&folder) {
        for help in ["-h", "--help"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_whered"));
            command.args(names.split_whitespace()).arg(help).env("COLUMNS", "40");
            let output = command.output().expect("it runs");
            assert!(output.status.success(), "{names}: {output:?}");
            for line in String::from_utf8_lossy(&output.stdout).lines() {
                let is_one_word = line.trim_start().split(' ').count() <= 2;
                let is_usage = line.starts_with("Usage:");
                let fits = line.chars().count() <= 40 || is_one_word || is_usage;
                assert!(fits, "{names} {help}: {line}");
            }
        }
    }
    fs::remove_dir_all(&folder).expect("it is there");
}
