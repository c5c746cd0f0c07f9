//! Deliberate mistakes in a configuration: `whered check` and `whered serve` refuse each one with
//! the same line, at the same place; and what is silently wrong is a remark of `whered check`.
//!
//! Each mistake is a configuration whose wrong line ends with `#!`.

#![allow(clippy::disallowed_methods, reason = "a process that serves shows only to those who ask")]

mod mistakes_table;
mod served;

use std::fs::{self, File};
use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use mistakes_table::{MISTAKES, Mistake, REMARKS, Setting};
use served::{Served, WAIT};

const ZONE: &str = "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\n@ TXT \"v=spf1 -all\"\n\
    ns A 192.0.2.1\nalias CNAME ns\nbelow NS ns.below\nns.below A 192.0.2.2\nother A 192.0.2.3\n";
const NOBODY: &str = "nobody";

/// What a program said and how it ended.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ended {
    /// The program's own line, which comes after those of its log.
    fn last_line(&self) -> &str {
        self.stderr.lines().last().unwrap_or_default()
    }
}

fn whered(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whered"));
    command.args(words).current_dir(folder).env_remove("RUST_LOG");
    command
}

fn check(folder: &Path) -> Ended {
    let output = whered(folder, &["check", "edge.toml"]).output().expect("the program runs");
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Serves until it ends by itself, or is ready: then it is stopped, and has no code.
fn serve(folder: &Path) -> Ended {
    let (out, log) = (folder.join("out"), folder.join("log"));
    let file = |path: &PathBuf| File::create(path).expect("the folder is ours");
    let mut command = whered(folder, &["serve", "--config", "edge.toml"]);
    let mut process =
        command.stdout(file(&out)).stderr(file(&log)).spawn().expect("the program runs");
    let read = |path: &PathBuf| fs::read_to_string(path).unwrap_or_default();
    let begun = Instant::now();
    let code = loop {
        if let Some(status) = process.try_wait().expect("it is ours") {
            break status.code();
        }
        if read(&out).ends_with("ready\n") {
            process.kill().expect("it is ours");
            process.wait().expect("it is ours");
            break None;
        }
        assert!(begun.elapsed() < WAIT, "neither ready nor ended: {}", read(&log));
        thread::sleep(Duration::from_millis(5));
    };
    Ended { code, stdout: read(&out), stderr: read(&log) }
}

/// Two certificates that sign themselves, each with its key, a database, a zone and rules.
fn write_files(folder: &Path) {
    for name in ["one", "two"] {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut parameters =
            rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
        if name == "two" {
            parameters.not_after = rcgen::date_time_ymd(2001, 2, 3);
        }
        let certificate = parameters.self_signed(&key).expect("a certificate");
        write(folder, &format!("{name}.pem"), certificate.pem().as_bytes());
        write(folder, &format!("{name}.key"), key.serialize_pem().as_bytes());
    }
    let rows = "network,country.iso_code,location.latitude:double,location.longitude:double\n\
                192.0.2.0/24,DE,50.1,8.7\n";
    write(folder, "rows.csv", rows.as_bytes());
    let built = whered(folder, &["db", "build", "rows.csv", "city.mmdb"]).output();
    assert!(built.expect("the program runs").status.success());
    let database = fs::read(folder.join("city.mmdb")).expect("it was just built");
    write(folder, "cut.mmdb", &database[..database.len() / 2]);
    write(folder, "example.zone", ZONE.as_bytes());
    write(folder, "edge.rules", b"chain input policy drop {\n src 10.0.0.0/8 accept\n}\n");
}

fn write(folder: &Path, name: &str, bytes: &[u8]) {
    fs::write(folder.join(name), bytes).expect("the folder is ours");
}

/// A folder for one mistake, with the files that all have.
fn prepare(files: &Path, name: &str) -> PathBuf {
    let folder =
        served::folder(&format!("mistake-{}", name.replace(|c: char| !c.is_alphanumeric(), "-")));
    for entry in fs::read_dir(files).expect("it was just made") {
        let entry = entry.expect("nobody removes it");
        fs::copy(entry.path(), folder.join(entry.file_name())).expect("the folder is ours");
    }
    folder
}

/// What is held while a mistake is tried.
#[allow(dead_code, reason = "a value is held, not read")]
enum Held {
    Nothing,
    Tcp(TcpListener),
    Udp(UdpSocket),
    Unix(UnixListener),
    Server(Served),
}

fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|text| text.contains("\nUid:\t0\t0\t"))
}

/// Makes a data directory, as a server leaves it.
fn make_data(folder: &Path) {
    let text = "data_dir = \"data\"\n[resp]\nlisten = [\"127.0.0.1:0\"]\n";
    write(folder, "whered.toml", text.as_bytes());
    let served = Served::start_keeping(folder.to_path_buf(), &[]);
    let pid = served.pid();
    served.signal("TERM");
    served::wait_for_end(pid);
}

/// Makes what a mistake needs around the configuration; gives what replaces `PORT` in it.
fn set(folder: &Path, setting: &Setting) -> (Held, String) {
    let none = String::new();
    match setting {
        Setting::None => (Held::Nothing, none),
        Setting::File(name, text) => {
            write(folder, name, text);
            (Held::Nothing, none)
        }
        Setting::Folder(name) => {
            fs::create_dir_all(folder.join(name)).expect("the folder is ours");
            (Held::Nothing, none)
        }
        Setting::ClosedFolder(name) => {
            fs::create_dir_all(folder.join(name)).expect("the folder is ours");
            let mode = fs::Permissions::from_mode(0o555);
            fs::set_permissions(folder.join(name), mode).expect("the folder is ours");
            // Root may write anywhere; the user that it becomes may not.
            let user = format!("[server]\nuser = \"{NOBODY}\"\n");
            (Held::Nothing, if is_root() { user } else { none })
        }
        Setting::HeldTcp => {
            let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
            let port = listener.local_addr().expect("it is bound").port().to_string();
            (Held::Tcp(listener), port)
        }
        Setting::HeldUdp => {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has ports");
            let port = socket.local_addr().expect("it is bound").port().to_string();
            (Held::Udp(socket), port)
        }
        Setting::HeldUnix(name) => {
            let listener = UnixListener::bind(folder.join(name)).expect("the folder is ours");
            (Held::Unix(listener), none)
        }
        Setting::HeldData => {
            let other = "data_dir = \"data\"\n[resp]\nlisten = [\"127.0.0.1:0\"]\n";
            write(folder, "whered.toml", other.as_bytes());
            (Held::Server(Served::start_keeping(folder.to_path_buf(), &[])), none)
        }
        Setting::OddJournal => {
            make_data(folder);
            write(folder, "data/journal-1.log", b"");
            (Held::Nothing, none)
        }
        Setting::Snapshot => {
            make_data(folder);
            write(folder, "data/snapshot-00000000000000000007.manifest", &[0; 4096]);
            (Held::Nothing, none)
        }
        Setting::Journal(change) => {
            make_data(folder);
            let segment = folder.join("data/journal-00000000000000000001.log");
            let mut bytes = Vec::new();
            File::open(&segment)
                .and_then(|mut file| file.read_to_end(&mut bytes))
                .expect("it is there");
            change(&mut bytes);
            fs::write(segment, bytes).expect("the folder is ours");
            (Held::Nothing, none)
        }
    }
}

/// The line that ends with `#!`.
fn marked_line(text: &str) -> Option<usize> {
    text.lines().position(|line| line.ends_with("#!")).map(|index| index + 1)
}

/// What is wrong with how a mistake is met; nothing when all is right.
fn judge(files: &Path, mistake: &Mistake) -> Option<String> {
    let folder = prepare(files, mistake.name);
    let (held, value) = set(&folder, &mistake.setting);
    let text =
        mistake.config.replace("PORT", &value).replace("FOLDER", &folder.display().to_string());
    write(&folder, "edge.toml", text.as_bytes());
    let (checked, served) = (check(&folder), serve(&folder));
    drop(held);
    let place = marked_line(&text)
        .map_or("whered: ".to_owned(), |line| format!("whered: edge.toml:{line}:"));
    let line = checked.last_line();
    let faults = [
        (checked.code != Some(2), "check does not refuse it"),
        (served.code != Some(2), "serve does not refuse it"),
        (line != served.last_line(), "the two say different things"),
        (checked.stderr.lines().count() != 1, "check says more than one line"),
        (!line.starts_with(&place), "the place is another one"),
        (!line.contains(mistake.says), "the text is another one"),
        (served.stderr.contains("panicked"), "serve panics"),
    ];
    let wrong = faults.into_iter().find_map(|(is_fault, what)| is_fault.then_some(what));
    let made = folder.join("made").exists();
    let wrong = wrong.or(made.then_some("check or serve has made something"));
    let _ = fs::set_permissions(folder.join("closed"), fs::Permissions::from_mode(0o755));
    fs::remove_dir_all(&folder).expect("the folder is ours");
    let what = wrong?;
    let name = mistake.name;
    Some(format!("{name}: {what}\n  check {checked:?}\n  serve {served:?}\n  place {place}\n"))
}

#[test]
fn check_and_serve_refuse_every_mistake_with_the_same_line() {
    assert!(MISTAKES.len() >= 68, "{}", MISTAKES.len());
    let files = served::folder("mistakes");
    write_files(&files);
    let next = Mutex::new(MISTAKES.iter());
    let work = || {
        let mut wrong = Vec::new();
        loop {
            let Some(mistake) = next.lock().expect("nobody panics with it").next() else { break };
            wrong.extend(judge(&files, mistake));
        }
        wrong
    };
    let wrong: Vec<String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..3).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("it reports")).collect()
    });
    fs::remove_dir_all(&files).expect("the folder is ours");
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), MISTAKES.len(), wrong.join("\n"));
}

#[test]
fn what_is_silently_wrong_is_a_remark_of_check_and_serves() {
    let files = served::folder("remarks");
    write_files(&files);
    let mut wrong = Vec::new();
    for Mistake { name, setting, config, says } in REMARKS {
        let folder = prepare(&files, name);
        let (_held, value) = set(&folder, setting);
        let text = config.replace("PORT", &value);
        write(&folder, "edge.toml", text.as_bytes());
        let (checked, served) = (check(&folder), serve(&folder));
        let place = marked_line(&text).map_or(String::new(), |line| format!("edge.toml:{line}:"));
        let is_it = |line: &str| line.starts_with(&place) && line.contains(says);
        let is_told = checked.stdout.lines().any(|line| line.contains("remark: ") && is_it(line));
        if checked.code != Some(0) || served.code.is_some() || !is_told {
            wrong.push(format!("{name}\n  check {checked:?}\n  serve {served:?}\n"));
        }
        fs::remove_dir_all(&folder).expect("the folder is ours");
    }
    fs::remove_dir_all(&files).expect("the folder is ours");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn check_accepts_what_serves_and_makes_nothing() {
    let folder = served::folder("mistakes-none");
    write_files(&folder);
    write(&folder, "edge.toml", mistakes_table::RIGHT.as_bytes());
    let before = fs::read_dir(&folder).expect("it is ours").count();
    let checked = check(&folder);
    assert_eq!((checked.code, checked.stderr.as_str()), (Some(0), ""), "{checked:?}");
    assert!(checked.stdout.ends_with("edge.toml: ok (1 databases, 1 zones, 1 pools)\n"));
    assert_eq!(fs::read_dir(&folder).expect("it is ours").count(), before);
    let served = serve(&folder);
    assert_eq!(served.code, None, "{served:?}");
    fs::remove_dir_all(&folder).expect("the folder is ours");
}

#[test]
fn check_says_in_json_what_it_says_in_text() {
    let folder = served::folder("mistakes-json");
    write_files(&folder);
    let json = |text: &str| {
        write(&folder, "edge.toml", text.as_bytes());
        let words = ["check", "edge.toml", "--json"];
        let output = whered(&folder, &words).stdin(Stdio::null()).output().expect("it runs");
        let object: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (output.status.code(), object, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, right, errors) = json(mistakes_table::RIGHT);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert_eq!(right["ok"], true);
    assert_eq!([&right["databases"], &right["zones"], &right["pools"]], [1, 1, 1]);
    // The key is a file that everybody may read.
    let remark = &right["remarks"][0];
    assert_eq!(remark["location"], "edge.toml:8:7");
    assert!(remark["text"].as_str().is_some_and(|text| text.contains("one.key")), "{remark}");
    let (code, remarked, _) = json(
        "[resp]\nlisten = [\"127.0.0.1:0\"]\n[[database]]\nname = \"city\"\n\
         path = \"city.mmdb\"\nfields = [\"country.iso_cod\"]\n",
    );
    assert_eq!(code, Some(0));
    let remark = &remarked["remarks"][0];
    assert!(
        remark["location"].as_str().is_some_and(|at| at.starts_with("edge.toml:6")),
        "{remark}"
    );
    assert!(remark["text"].as_str().is_some_and(|it| it.contains("country.iso_cod")), "{remark}");
    let (code, wrong, errors) = json("[nonsense]\n");
    assert_eq!((code, &wrong["ok"]), (Some(2), &serde_json::json!(false)));
    let error = wrong["error"].as_str().expect("a line");
    assert!(error.contains("edge.toml:1") && errors == format!("whered: {error}\n"), "{errors}");
    fs::remove_dir_all(&folder).expect("the folder is ours");
}

#[test]
fn a_file_that_is_served_is_checked_as_for_a_reload() {
    let folder = served::folder("mistakes-served");
    write_files(&folder);
    let text = mistakes_table::RIGHT;
    write(&folder, "whered.toml", text.as_bytes());
    let served = Served::start_keeping(folder.clone(), &[]);
    let port = served.resp.port().to_string();
    write(
        &folder,
        "whered.toml",
        text.replacen("127.0.0.1:0", &format!("127.0.0.1:{port}"), 1).as_bytes(),
    );
    let words = ["check", "whered.toml"];
    let checked = whered(&folder, &words).stdin(Stdio::null()).output().expect("the program runs");
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    assert!(said.contains(&format!("process {} serves this file", served.pid())), "{said}");
    // Under another name it is another server's, whose start would fail.
    fs::copy(folder.join("whered.toml"), folder.join("other.toml")).expect("the folder is ours");
    let checked = whered(&folder, &["check", "other.toml"]).output().expect("the program runs");
    let said = String::from_utf8_lossy(&checked.stderr);
    assert_eq!(checked.status.code(), Some(2));
    assert!(said.contains("is in use by the process with number"), "{said}");
    let words = ["check", "other.toml", "--take-over"];
    let checked = whered(&folder, &words).output().expect("the program runs");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    drop(served);
    fs::remove_dir_all(&folder).expect("the folder is ours");
}
