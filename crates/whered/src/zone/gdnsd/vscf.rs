//! The syntax of gdnsd's configuration ("vscf"): hashes, arrays and strings, with their places.
//!
//! Not for: what the keys mean (`convert`).
//!
//! ```text
//! hash  = { key ("=" | "=>") value [","] }      key, string = word or "text", \x \DDD escapes
//! array = "[" { value [","] } "]"               $include{path} stands for a value, or for more
//! comments run from # or ; to the line's end    keys of its hash; path may be a pattern
//! ```
//! Invariant: keys of a hash are unique. Bounds: 64 levels of nesting, 32 of includes, and limits
//! of files and bytes in all, so that files which include each other end. Cost: one pass, and a
//! table of the keys of each hash.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::glob;

const DEPTH_MAX: usize = 64;
const INCLUDES_MAX: usize = 32;
/// How many files one configuration may have, each as often as it is included.
const FILES_MAX: usize = 10_000;
/// How many bytes all of them may have.
const BYTES_MAX: u64 = 256 << 20;

/// A file, line and column, each of the latter from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) file: Rc<Path>,
    pub(super) line: usize,
    pub(super) column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) place: Place,
    pub(super) message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// A value with its place.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) place: Place,
    pub(super) data: Data,
}

#[derive(Clone, Debug)]
pub(super) enum Data {
    Text(String),
    Array(Vec<Value>),
    Hash(Hash),
}

/// Keys and values in the file's order.
#[derive(Clone, Debug, Default)]
pub(super) struct Hash {
    pub(super) entries: Vec<Entry>,
    /// The place of each key among them.
    places: HashMap<String, usize>,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) place: Place,
    pub(super) value: Value,
}

impl Hash {
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.places.get(key).map(|place| &self.entries[*place].value)
    }

    fn add(&mut self, entry: Entry) -> Result<(), Fault> {
        if self.get(&entry.key).is_some() {
            let message = format!("the key '{}' stands twice in its hash", entry.key);
            return Err(Fault { place: entry.place, message });
        }
        self.places.insert(entry.key.clone(), self.entries.len());
        self.entries.push(entry);
        Ok(())
    }

    /// Takes a key out; the places of those behind it are found anew.
    pub(super) fn remove(&mut self, key: &str) {
        if let Some(place) = self.places.remove(key) {
            self.entries.remove(place);
            self.places.values_mut().filter(|other| **other > place).for_each(|other| *other -= 1);
        }
    }
}

impl Value {
    pub(super) fn fault(&self, message: impl Into<String>) -> Fault {
        Fault { place: self.place.clone(), message: message.into() }
    }

    pub(super) fn text(&self, what: &str) -> Result<&str, Fault> {
        match &self.data {
            Data::Text(text) => Ok(text),
            _ => Err(self.fault(format!("{what} is no single value"))),
        }
    }

    pub(super) fn hash(&self, what: &str) -> Result<&Hash, Fault> {
        match &self.data {
            Data::Hash(hash) => Ok(hash),
            _ => Err(self.fault(format!("{what} is no hash {{ key => value }}"))),
        }
    }

    /// The elements of an array; anything else is an array of one.
    pub(super) fn elements(&self) -> &[Value] {
        match &self.data {
            Data::Array(elements) => elements,
            _ => std::slice::from_ref(self),
        }
    }

    /// An array of single values.
    pub(super) fn texts(&self, what: &str) -> Result<Vec<String>, Fault> {
        self.elements().iter().map(|element| element.text(what).map(str::to_owned)).collect()
    }

    pub(super) fn flag(&self, what: &str) -> Result<bool, Fault> {
        match self.text(what)?.to_ascii_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            other => Err(self.fault(format!("{what} is '{other}'; allowed: true, false"))),
        }
    }

    pub(super) fn number<T: std::str::FromStr>(&self, what: &str) -> Result<T, Fault> {
        let text = self.text(what)?;
        text.parse().map_err(|_| self.fault(format!("{what} is '{text}', which is no such number")))
    }
}

/// Reads a file, whose top is a hash without braces. A mistake in a file ends that file; those of
/// all files are added to `faults`.
pub(super) fn read(path: &Path, allowed: &mut ReadBudget, faults: &mut Vec<Fault>) -> Hash {
    let read = read_file(path, None, 0, allowed).and_then(top);
    faults.append(&mut allowed.faults);
    read.unwrap_or_else(|fault| {
        faults.push(fault);
        Hash::default()
    })
}

/// As [`read`], of a text that may include nothing.
#[allow(dead_code, reason = "tests and the fuzz target want it")]
pub(super) fn read_text(text: &str) -> Result<Hash, Fault> {
    let mut allowed = ReadBudget { files: 0, bytes: 0, faults: Vec::new() };
    let hash = top(read_all(text, Path::new("conf").into(), 0, &mut allowed)?)?;
    allowed.faults.into_iter().next().map_or(Ok(hash), Err)
}

fn top(value: Value) -> Result<Hash, Fault> {
    match value.data {
        Data::Hash(hash) => Ok(hash),
        _ => Err(value.fault("the file is an array, not a hash")),
    }
}

/// What may still be read, by all files of a configuration together.
pub(super) struct ReadBudget {
    files: usize,
    bytes: u64,
    /// Mistakes after which the reading went on.
    faults: Vec<Fault>,
}

impl ReadBudget {
    pub(super) fn new() -> ReadBudget {
        ReadBudget { files: FILES_MAX, bytes: BYTES_MAX, faults: Vec::new() }
    }

    /// The bytes of a plain file, within the limits.
    pub(super) fn read(&mut self, path: &Path) -> Result<Vec<u8>, String> {
        self.files = self.files.checked_sub(1).ok_or("too many files are included")?;
        // A device or a pipe might never end.
        let found = fs::metadata(path).map_err(|error| error.to_string())?;
        if !found.is_file() {
            return Err("it is no plain file".to_owned());
        }
        let left = self.bytes.checked_sub(found.len());
        self.bytes = left.ok_or_else(|| format!("more than {BYTES_MAX} bytes in all files"))?;
        crate::unpack::read_plain(path).map_err(|error| error.to_string())
    }
}

fn read_file(
    path: &Path,
    from: Option<&Place>,
    includes: usize,
    allowed: &mut ReadBudget,
) -> Result<Value, Fault> {
    let file: Rc<Path> = path.into();
    let start = Place { file: Rc::clone(&file), line: 1, column: 1 };
    let failed = |message: String| Fault { place: from.unwrap_or(&start).clone(), message };
    if includes > INCLUDES_MAX {
        return Err(failed(format!("more than {INCLUDES_MAX} files include each other")));
    }
    let bytes = allowed.read(path).map_err(|why| failed(format!("{}: {why}", path.display())))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| failed(format!("{}: it is not UTF-8", path.display())))?;
    read_all(&text, file, includes, allowed)
}

fn read_all(
    text: &str,
    file: Rc<Path>,
    includes: usize,
    allowed: &mut ReadBudget,
) -> Result<Value, Fault> {
    let start = Place { file: Rc::clone(&file), line: 1, column: 1 };
    let mut reader = Reader { rest: text, line: 1, column: 1, file, includes, allowed };
    reader.skip_blank();
    if reader.peek() == Some('[') {
        let value = reader.value(0)?;
        reader.skip_blank();
        return match reader.peek() {
            None => Ok(value),
            Some(found) => Err(reader.fault(format!("'{found}' behind the file's array"))),
        };
    }
    let hash = reader.entries(None, 0)?;
    Ok(Value { place: start, data: Data::Hash(hash) })
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
    column: usize,
    file: Rc<Path>,
    includes: usize,
    allowed: &'a mut ReadBudget,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next()?;
        self.rest = chars.as_str();
        (self.line, self.column) =
            if next == '\n' { (self.line + 1, 1) } else { (self.line, self.column + 1) };
        Some(next)
    }

    fn skip(&mut self) {
        self.next();
    }

    fn place(&self) -> Place {
        Place { file: Rc::clone(&self.file), line: self.line, column: self.column }
    }

    fn fault(&self, message: impl Into<String>) -> Fault {
        Fault { place: self.place(), message: message.into() }
    }

    /// Skips blanks and comments.
    fn skip_blank(&mut self) {
        while let Some(next) = self.peek() {
            if next == '#' || next == ';' {
                while self.peek().is_some_and(|next| next != '\n') {
                    self.next();
                }
            } else if !next.is_ascii_whitespace() {
                return;
            }
            self.next();
        }
    }

    /// Keys and values up to `end`, which is taken.
    fn entries(&mut self, end: Option<char>, depth: usize) -> Result<Hash, Fault> {
        let mut hash = Hash::default();
        loop {
            self.skip_blank();
            if self.peek() == end {
                self.next();
                return Ok(hash);
            }
            let place = self.place();
            if self.rest.starts_with("$include{") {
                self.merge(&place, &mut hash)?;
            } else {
                let key = self.string()?;
                self.skip_blank();
                if self.peek() != Some('=') {
                    return Err(self.fault(format!("no '=' or '=>' behind the key '{key}'")));
                }
                self.next();
                if self.peek() == Some('>') {
                    self.next();
                }
                let value = self.value(depth)?;
                let added = hash.add(Entry { key, place, value });
                self.go_on_after(added);
            }
            self.skip_blank();
            if self.peek() == Some(',') {
                self.next();
            }
        }
    }

    /// Keeps a mistake that does not hinder the reading.
    fn go_on_after(&mut self, result: Result<(), Fault>) {
        if let Err(fault) = result {
            self.allowed.faults.push(fault);
        }
    }

    /// Adds the keys of included files to a hash.
    fn merge(&mut self, place: &Place, hash: &mut Hash) -> Result<(), Fault> {
        for path in self.included(true)? {
            let read = read_file(&path, Some(place), self.includes + 1, self.allowed);
            let merged = read.and_then(|value| match value.data {
                Data::Hash(more) => {
                    for entry in more.entries {
                        let added = hash.add(entry);
                        self.go_on_after(added);
                    }
                    Ok(())
                }
                _ => Err(value.fault("an array is included where keys are")),
            });
            self.go_on_after(merged);
        }
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<Value, Fault> {
        self.skip_blank();
        let place = self.place();
        if depth == DEPTH_MAX {
            return Err(self.fault(format!("more than {DEPTH_MAX} levels of nesting")));
        }
        if self.rest.starts_with("$include{") {
            let paths = self.included(false)?;
            let path = paths.first().ok_or_else(|| self.fault("no such file"))?;
            let read = read_file(path, Some(&place), self.includes + 1, self.allowed);
            return Ok(read.unwrap_or_else(|fault| {
                self.allowed.faults.push(fault);
                Value { place, data: Data::Hash(Hash::default()) }
            }));
        }
        let data = match self.peek() {
            Some('{') => {
                self.next();
                Data::Hash(self.entries(Some('}'), depth + 1)?)
            }
            Some('[') => {
                self.next();
                Data::Array(self.array(depth + 1)?)
            }
            _ => Data::Text(self.string()?),
        };
        Ok(Value { place, data })
    }

    fn array(&mut self, depth: usize) -> Result<Vec<Value>, Fault> {
        let mut elements = Vec::new();
        loop {
            self.skip_blank();
            match self.peek() {
                Some(']') => {
                    self.next();
                    return Ok(elements);
                }
                None => return Err(self.fault("the file ends within an array")),
                Some(_) => elements.push(self.value(depth)?),
            }
            self.skip_blank();
            if self.peek() == Some(',') {
                self.next();
            }
        }
    }

    fn string(&mut self) -> Result<String, Fault> {
        let begun = self.place();
        let is_quoted = self.peek() == Some('"');
        if is_quoted {
            self.next();
        } else if self.peek() == Some('$') {
            return Err(self.fault("a word begins with '$'"));
        }
        let mut bytes = Vec::new();
        let mut is_empty = true;
        loop {
            match self.peek() {
                Some('"') if is_quoted => {
                    self.next();
                    break;
                }
                None if is_quoted => {
                    let message = "the file ends within this quoted text".to_owned();
                    return Err(Fault { place: begun, message });
                }
                Some('\\') => bytes.push(self.escape()?),
                Some(next) if is_quoted || is_of_word(next) => {
                    self.next();
                    bytes.extend_from_slice(next.encode_utf8(&mut [0; 4]).as_bytes());
                }
                found if is_empty => {
                    let found = found.map_or("the file's end".to_owned(), |c| format!("'{c}'"));
                    return Err(self.fault(format!("{found} where a key or value should be")));
                }
                _ => break,
            }
            is_empty = false;
        }
        String::from_utf8(bytes)
            .map_err(|_| Fault { place: begun, message: "the text is not UTF-8".to_owned() })
    }

    /// A character behind a backslash, or three digits.
    fn escape(&mut self) -> Result<u8, Fault> {
        let begun = self.place();
        let wrong = || Fault { place: begun.clone(), message: "a wrong escape".to_owned() };
        self.next();
        let digits = self.rest.get(..3).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        if let Some(digits) = digits {
            let byte = digits.parse().map_err(|_| wrong())?;
            (0..3).for_each(|_| self.skip());
            return Ok(byte);
        }
        let next = self.next().ok_or_else(wrong)?;
        u8::try_from(next).ok().filter(|byte| !byte.is_ascii_digit()).ok_or_else(wrong)
    }

    /// The files that `$include{path}` names.
    fn included(&mut self, may_be_many: bool) -> Result<Vec<PathBuf>, Fault> {
        let begun = self.place();
        (0.."$include{".len()).for_each(|_| self.skip());
        self.skip_blank();
        let named = self.string()?;
        self.skip_blank();
        if self.next() != Some('}') {
            return Err(Fault { place: begun, message: "no '}' behind $include{".to_owned() });
        }
        let failed = |message: String| Fault { place: begun.clone(), message };
        let path = self.file.parent().unwrap_or(Path::new("")).join(&named);
        if glob::is_pattern(&named) {
            let found = glob::paths(&path);
            let found = found.map_err(|error| failed(format!("{}: {error}", path.display())))?;
            return match found.len() {
                0 => {
                    Err(failed(format!("$include{{{named}}} names no file; allowed: at least one")))
                }
                2.. if !may_be_many => Err(failed(format!(
                    "$include{{{named}}} names {} files where a value should be; allowed: one",
                    found.len()
                ))),
                _ => Ok(found),
            };
        }
        if !path.is_dir() {
            return Ok(vec![path]);
        }
        if !may_be_many {
            return Err(failed(format!("$include{{{named}}} is a folder where a value should be")));
        }
        let list = fs::read_dir(&path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let list = list.map_err(|error| failed(format!("{}: {error}", path.display())))?;
        let mut files: Vec<_> = list.into_iter().map(|entry| entry.path()).collect();
        // As a shell's `*`.
        files
            .retain(|file| !file.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.')));
        files.sort();
        Ok(files)
    }
}

fn is_of_word(next: char) -> bool {
    !next.is_ascii_whitespace() && !"][}{;#,\"=\\".contains(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Hash, String> {
        super::read_text(text).map_err(|fault| fault.to_string())
    }

    #[test]
    fn many_keys_take_no_long_and_files_that_include_themselves_end() {
        let many: String = (0..200_000).map(|number| format!("k{number} = v\n")).collect();
        let hash = read_text(&many).expect("it is one");
        assert_eq!(hash.get("k199999").map(|value| value.text("it")), Some(Ok("v")));
        let folder = std::env::temp_dir().join(format!("whered-vscf-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the folder can be made");
        // Twice at each level would be four thousand million files.
        fs::write(folder.join("a"), "[ $include{a} $include{a} ]").expect("writable");
        let faults = || {
            let mut faults = Vec::new();
            read(&folder.join("top"), &mut ReadBudget::new(), &mut faults);
            faults.iter().map(|fault| format!("{fault}\n")).collect::<String>()
        };
        fs::write(folder.join("top"), "key = $include{a}").expect("writable");
        assert!(faults().contains("include each other"), "{}", faults());
        fs::write(folder.join("top"), "key = $include{/dev/zero}").expect("writable");
        assert!(faults().contains("no plain file"), "{}", faults());
        fs::remove_dir_all(&folder).expect("it is ours");
    }

    fn shown(value: &Value) -> String {
        match &value.data {
            Data::Text(text) => format!("<{text}>"),
            Data::Array(list) => format!("[{}]", list.iter().map(shown).collect::<String>()),
            Data::Hash(hash) => shown_hash(hash),
        }
    }

    fn shown_hash(hash: &Hash) -> String {
        let entry = |entry: &Entry| format!("{}={}", entry.key, shown(&entry.value));
        format!("{{{}}}", hash.entries.iter().map(entry).collect::<String>())
    }

    #[test]
    fn every_spelling_of_the_manual_means_the_same() {
        for text in [
            "options = {\n  listen = [ 192.0.2.1, 192.0.2.2 ],\n}",
            "\"options\" => {\n  listen => [ 192.0.2.1 192.0.2.2 ] # comment\n}; another",
            "options={listen=[192.0.2.1 192.0.2.2]}",
        ] {
            let hash = read_text(text).map(|hash| shown_hash(&hash));
            assert_eq!(hash.as_deref(), Ok("{options={listen=[<192.0.2.1><192.0.2.2>]}}"));
        }
    }

    #[test]
    fn escapes_are_those_of_zone_files() {
        for text in ["white\\ space", "\"white space\"", "white\\032space"] {
            let hash = read_text(&format!("k = {text}")).map(|hash| shown_hash(&hash));
            assert_eq!(hash.as_deref(), Ok("{k=<white space>}"), "{text}");
        }
        assert_eq!(read_text("k = a\\999").unwrap_err(), "conf:1:6: a wrong escape");
    }

    #[test]
    fn mistakes_have_their_place() {
        for (text, wrong) in [
            ("a b", "conf:1:3: no '=' or '=>' behind the key 'a'"),
            ("a = {\n b = 1", "conf:2:7: the file's end where a key or value should be"),
            ("a = [ 1", "conf:1:8: the file ends within an array"),
            ("a = \"x", "conf:1:5: the file ends within this quoted text"),
            ("a = 1\na = 2", "conf:2:1: the key 'a' stands twice in its hash"),
            ("a = }", "conf:1:5: '}' where a key or value should be"),
            ("a = $x", "conf:1:5: a word begins with '$'"),
            (
                "a = $include{\"*.cfg\"}",
                "conf:1:5: $include{*.cfg} names no file; allowed: at least one",
            ),
        ] {
            assert_eq!(read_text(text).unwrap_err(), wrong, "{text}");
        }
        let deep = format!("a = {}", "[".repeat(100));
        assert!(read_text(&deep).unwrap_err().ends_with("more than 64 levels of nesting"));
    }
}
