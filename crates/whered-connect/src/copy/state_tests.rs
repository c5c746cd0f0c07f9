//! Tests of the state file: what is noted comes back, what is damaged or another's is refused.

use std::path::PathBuf;

use super::*;

/// A folder of its own that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("whered-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn options(&self, resume: bool) -> CopyOptions {
        CopyOptions {
            pattern: None,
            databases: Vec::new(),
            all_sorted_sets: false,
            replace: false,
            state_path: self.0.join("state"),
            resume,
        }
    }

    fn open(&self, resume: bool) -> Result<State, ConnectError> {
        State::open(&self.options(resume), "a:1", "b:2", &[(0, 3)])
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn refusal(opened: Result<State, ConnectError>) -> String {
    opened.err().expect("it must be refused").to_string()
}

#[test]
fn what_was_noted_comes_back() {
    let folder = Folder::new("state-back");
    let mut state = folder.open(false).unwrap();
    assert!(!state.continues_run("run-1"));
    state.forget_cursor().unwrap();
    state.begin((0, 3), b"whole\n\xff%").unwrap();
    state.advance(b"9", 1000).unwrap();
    state.finish_key(1500, true).unwrap();
    state.begin((0, 3), b"half").unwrap();
    state.advance(b"18446744073709551615", 2000).unwrap();
    drop(state);

    let mut state = folder.open(true).unwrap();
    assert!(state.continues_run("run-1"));
    assert_eq!(
        state.done((0, 3), b"whole\n\xff%"),
        Some(FinishedKey { members: 1500, has_expiry: true })
    );
    assert_eq!(state.done((0, 3), b"half"), None);
    assert!(state.is_begun((0, 3), b"half"));
    assert_eq!(state.position(), (b"18446744073709551615".to_vec(), 2000));
    assert!(!state.continues_run("run-2"));
    state.forget_cursor().unwrap();
    assert!(state.is_begun((0, 3), b"half"));
    assert_eq!(state.position(), (b"0".to_vec(), 0));
    state.finish().unwrap();
    assert!(refusal(folder.open(true)).contains("nothing to resume"));
}

#[test]
fn a_file_is_not_overwritten_and_another_imports_is_not_resumed() {
    let folder = Folder::new("state-other");
    drop(folder.open(false).unwrap());
    assert!(refusal(folder.open(false)).contains("--resume"));
    let other = State::open(&folder.options(true), "a:1", "b:9", &[(0, 3)]);
    assert!(refusal(other).contains("it says 'target b:2', this one is 'target b:9'"));
    let mut options = folder.options(true);
    options.all_sorted_sets = true;
    assert!(refusal(State::open(&options, "a:1", "b:2", &[(0, 3)])).contains("kind"));
}

#[test]
fn a_file_that_was_cut_anywhere_is_resumed_or_refused() {
    let folder = Folder::new("state-cut");
    let mut state = folder.open(false).unwrap();
    state.begin((0, 3), b"key").unwrap();
    state.advance(b"77", 1000).unwrap();
    state.finish_key(1500, false).unwrap();
    drop(state);
    let path = folder.0.join("state");
    let whole = fs::read(&path).unwrap();
    for end in 0..whole.len() {
        fs::write(&path, &whole[..end]).unwrap();
        if let Ok(state) = folder.open(true) {
            // Never further than what was written.
            assert!(state.done((0, 3), b"key").is_none());
            assert!([0, 1000].contains(&state.position().1));
        }
    }
    for (place, _) in whole.iter().enumerate() {
        let mut bytes = whole.clone();
        bytes[place] ^= 0x15;
        fs::write(&path, &bytes).unwrap();
        // Another byte may make another key or number; it must only not be the end of us.
        let _ = folder.open(true);
    }
    fs::write(&path, [&whole[..], b"nonsense\n"].concat()).unwrap();
    assert!(refusal(folder.open(true)).contains(":10: is no line of a state file"));
}
