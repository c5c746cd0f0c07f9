//! Secrets in files: what is read, what is refused, and what no message repeats.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::resp::password_hash;

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("whered-secrets-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn write(folder: &Path, name: &str, bytes: &[u8], mode: u32) {
    fs::write(folder.join(name), bytes).unwrap();
    fs::set_permissions(folder.join(name), Permissions::from_mode(mode)).unwrap();
}

fn read(folder: &Path, text: &str) -> Result<Config, String> {
    Config::from_toml(text, &folder.join("edge.toml")).map_err(|error| error.to_string())
}

#[test]
fn every_secret_may_be_in_a_file() {
    let folder = folder("all");
    for (name, text) in [
        ("resp", "one\n"),
        ("ann", "two\r\n"),
        ("http", "three"),
        ("feed", "four\n"),
        ("cookie", "00112233445566778899aabbccddeeff\n"),
        ("sink", "mysql://u:five@h/d\n"),
        ("stream", "redis://:six@h\n"),
    ] {
        write(&folder, name, text.as_bytes(), 0o600);
    }
    let text = "data_dir = \"d\"\n[resp]\npassword_file = \"resp\"\n\
        [[resp.user]]\nname = \"ann\"\npassword_file = \"ann\"\n[http]\ntoken_file = \"http\"\n\
        [dns]\ncookie_secret_file = \"cookie\"\n\
        [[feed]]\nname = \"a\"\nformat = \"ndjson\"\nmember = \"m\"\ninto = { table = \"a\" }\n\
        token_file = \"feed\"\n[[feed.sink]]\nurl_file = \"sink\"\n\
        [[feed.stream]]\nstream = \"s\"\nfield = \"f\"\nurl_file = \"stream\"\n";
    let config = read(&folder, text).unwrap();
    assert_eq!(config.resp.password.as_deref(), Some("one"));
    assert_eq!(config.resp.users[0].password, Some(password_hash(b"two")));
    assert!(config.resp.plain_passwords.is_empty());
    assert_eq!(config.http.token.as_deref(), Some("three"));
    assert_eq!(config.feeds[0].token.as_deref(), Some("four"));
    assert_eq!(config.dns.cookie_secret.map(|secret| secret[1]), Some(0x11));
    assert_eq!(config.feeds[0].sinks[0].url, "mysql://u:five@h/d");
    assert_eq!(config.feeds[0].streams[0].url, "redis://:six@h");
    assert_eq!(config.files_of_reload().len(), 8);
    assert!(config.notes.remarks.is_empty(), "{:?}", config.notes.remarks);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_is_no_secret_of_one_line_is_refused_at_its_place_and_not_repeated() {
    let folder = folder("wrong");
    fs::create_dir(folder.join("directory")).unwrap();
    write(&folder, "empty", b"\n", 0o600);
    write(&folder, "lines", b"hidden\nhidden\n", 0o600);
    write(&folder, "bytes", b"hidden\xff", 0o600);
    write(&folder, "large", &vec![b'x'; 70_000], 0o600);
    write(&folder, "blank", b"hidden hidden", 0o600);
    let place = format!("{}/edge.toml:2:17: 'password_file' in [resp]", folder.display());
    for (name, why) in [
        ("absent", "cannot be read: No such file or directory"),
        ("directory", "is not a regular file"),
        ("empty", "is empty"),
        ("lines", "has more than one line"),
        ("bytes", "is not UTF-8"),
        ("large", "has more than 65536 bytes"),
    ] {
        let error = read(&folder, &format!("[resp]\npassword_file = \"{name}\"\n")).unwrap_err();
        assert!(error.starts_with(&place) && error.contains(why), "{error}");
        assert!(!error.contains("hidden") && !error.contains('\n'), "{error}");
    }
    for text in [
        "[http]\ntoken_file = \"blank\"\n",
        "[dns]\ncookie_secret_file = \"blank\"\n",
        "[http]\ntoken = \"hidden hidden\"\n",
        "[dns]\ncookie_secret = \"hidden\"\n",
        "[resp]\npassword = \"hidden\"\npassword_file = \"blank\"\n",
        "[resp]\npassword_file = \"blank\"\npassword_sha256 = \"00\"\n",
        "[[resp.user]]\nname = \"a\"\npassword = \"hidden\"\ncommands = [\"+nothing\"]\n",
        "data_dir = \"d\"\n[[feed]]\nname = \"a\"\nformat = \"ndjson\"\nmember = \"m\"\n\
         into = { table = \"a\" }\n[[feed.sink]]\nurl = \"hidden://u:hidden@h\"\n",
    ] {
        let error = read(&folder, text).unwrap_err();
        assert!(error.contains("edge.toml:") && !error.contains("hidden"), "{error}");
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn credentials_are_names_in_the_folder_of_the_service() {
    let folder = folder("credentials");
    let refusal = |name: &str| {
        read(&folder, &format!("[resp]\npassword_file = \"credential:{name}\"\n")).unwrap_err()
    };
    for name in ["", "../x", "a/b", "..", ".hidden"] {
        assert!(refusal(name).contains("allowed: credential:NAME"), "{}", refusal(name));
    }
    // Tests run outside of services; the program's own tests set the folder.
    assert!(refusal("resp").contains("CREDENTIALS_DIRECTORY is not set"), "{}", refusal("resp"));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn files_that_every_user_may_open_are_remarked_on() {
    let folder = folder("modes");
    write(&folder, "open", b"one", 0o644);
    let text = "[resp]\npassword_file = \"open\"\n[http]\ntoken = \"two\"\n";
    write(&folder, "edge.toml", text.as_bytes(), 0o644);
    let remarks = read(&folder, text).unwrap().notes.remarks;
    assert_eq!(remarks.len(), 2, "{remarks:?}");
    assert!(remarks[0].contains("edge.toml:2:17: remark: 'password_file' names"), "{remarks:?}");
    assert!(remarks[0].contains("the mode 0644"), "{remarks:?}");
    assert!(remarks[1].contains("edge.toml:4:9: remark: 'token' is a secret"), "{remarks:?}");
    write(&folder, "open", b"one", 0o640);
    write(&folder, "edge.toml", text.as_bytes(), 0o640);
    assert!(read(&folder, text).unwrap().notes.remarks.is_empty());
    fs::remove_dir_all(folder).unwrap();
}
