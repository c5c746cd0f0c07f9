//! One JSON object a line: is it one, and where in it does the text of a member stand?
//!
//! Numbers, other members and escapes are checked (RFC 8259) and passed over, so that a line which
//! is called good is good for every reader. Only a name or an address with a backslash is decoded.
//! Of several members with one name the last counts, as it does for most readers.
//!
//! Recursion goes [`DEPTH_MAX`] deep and no further. Cost: one pass, strings by vector search.

use std::borrow::Cow;
use std::net::IpAddr;
use std::ops::Range;

use memchr::{memchr, memchr2};
use whered_ip::text::{ListChoice, read_list};

use super::Fault;

/// The deepest nesting of objects and arrays.
const DEPTH_MAX: usize = 128;

/// The way to a member: names of nested objects, or one name that has dots in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MemberPath {
    whole: Vec<u8>,
    names: Vec<Vec<u8>>,
    /// Whether a name may be the number of an array's element.
    has_index: bool,
}

/// The end of a step that is an element's number, which is its start.
const INDEX_MARK: usize = usize::MAX;

impl MemberPath {
    /// `client.ip` is the member of that name, or `ip` of the object `client`; `hops[0].ip` and
    /// `hops.0.ip` are `ip` of the first element of `hops`.
    pub(crate) fn new(text: &[u8]) -> MemberPath {
        let mut names: Vec<Vec<u8>> = Vec::new();
        for name in text.split(|&byte| byte == b'.') {
            // `hops[0][1]` is three steps.
            let bracketed = name.strip_suffix(b"]").filter(|name| name.contains(&b'['));
            match bracketed {
                Some(inner) => names.extend(
                    inner
                        .split(|&byte| byte == b'[')
                        .map(|step| step.strip_suffix(b"]").unwrap_or(step).to_vec()),
                ),
                None => names.push(name.to_vec()),
            }
        }
        let is_number = |name: &Vec<u8>| !name.is_empty() && name.iter().all(u8::is_ascii_digit);
        let has_index = names.iter().any(is_number);
        MemberPath { whole: text.to_vec(), names, has_index }
    }

    /// The path as it was written.
    pub(crate) fn text(&self) -> &[u8] {
        &self.whole
    }

    fn matches(&self, bytes: &[u8], names: &[Range<usize>]) -> bool {
        let is = |name: &Range<usize>, wanted: &[u8]| {
            if name.end == INDEX_MARK {
                let wanted = std::str::from_utf8(wanted).ok();
                return wanted.and_then(|wanted| wanted.parse().ok()) == Some(name.start);
            }
            bytes.get(name.clone()).is_some_and(|name| *decoded(name) == *wanted)
        };
        match names {
            [name] if is(name, &self.whole) => true,
            _ => {
                names.len() == self.names.len()
                    && names.iter().zip(&self.names).all(|(name, wanted)| is(name, wanted))
            }
        }
    }
}

/// The bytes that a string's text stands for, its escapes decoded (RFC 8259, section 7).
pub(crate) fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr(b'\\', text).is_none() {
        return Cow::Borrowed(text);
    }
    let quoted = [b"\"", text, b"\""].concat();
    match serde_json::from_slice::<String>(&quoted) {
        Ok(text) => Cow::Owned(text.into_bytes()),
        // Half of a surrogate pair: no text, and so no name and no address either.
        Err(_) => Cow::Borrowed(text),
    }
}

/// The address of a member's value: `text` is that of a string, or what an array holds.
pub(crate) fn read_value(text: &[u8], list: ListChoice) -> Option<IpAddr> {
    if memchr(b'\\', text).is_none()
        && let Some(address) = read_list(text, list)
    {
        return Some(address);
    }
    let array = [b"[", text, b"]"].concat();
    if let Ok(elements) = serde_json::from_slice::<Vec<Cow<'_, str>>>(&array) {
        return read_list(elements.join(",").as_bytes(), list);
    }
    read_list(&decoded(text), list)
}

/// Room that is used again for every line.
#[derive(Default)]
pub(crate) struct Scratch {
    names: Vec<Range<usize>>,
}

/// The place of the text of a member.
pub(crate) fn find(
    bytes: &[u8],
    content: Range<usize>,
    member: &MemberPath,
    scratch: &mut Scratch,
) -> Result<Range<usize>, Fault> {
    let mut found = None;
    let names = &mut scratch.names;
    each_value(bytes, content, names, member.has_index, |names, text| {
        if member.matches(bytes, names) {
            found = Some(text.clone());
        }
    })
    .ok_or(Fault::NotAJsonObject)?;
    found.ok_or(Fault::NoSuchMember)
}

/// Checks that `content` is one JSON object, and gives every member whose value is a string or an
/// array: the names that lead to it, and the place of its text or of all that is between the
/// brackets. Nothing if it is none.
pub(crate) fn each_text(
    bytes: &[u8],
    content: Range<usize>,
    names: &mut Vec<Range<usize>>,
    take: impl FnMut(&[Range<usize>], &Range<usize>),
) -> Option<()> {
    each_value(bytes, content, names, false, take)
}

/// Whether `content` is an object that has a text of this name.
pub(crate) fn has_member(bytes: &[u8], content: Range<usize>, wanted: &[u8]) -> bool {
    let mut found = false;
    let is_object = each_text(bytes, content, &mut Vec::new(), |names, _| {
        let [name] = names else { return };
        found |= bytes.get(name.clone()).is_some_and(|name| *decoded(name) == *wanted);
    });
    is_object.is_some() && found
}

/// As [`each_text`], and `with_indexes` also those inside of arrays, by the numbers of elements.
fn each_value(
    bytes: &[u8],
    content: Range<usize>,
    names: &mut Vec<Range<usize>>,
    with_indexes: bool,
    take: impl FnMut(&[Range<usize>], &Range<usize>),
) -> Option<()> {
    let object = bytes.get(..content.end)?;
    std::str::from_utf8(object.get(content.start..)?).ok()?;
    names.clear();
    let mut scanner =
        Scanner { bytes: object, at: content.start, names, with_indexes, in_array: 0, take };
    scanner.blanks();
    if scanner.peek() != Some(b'{') {
        return None;
    }
    scanner.object(1)?;
    scanner.blanks();
    (scanner.at == content.end).then_some(())
}

struct Scanner<'a, F> {
    bytes: &'a [u8],
    at: usize,
    names: &'a mut Vec<Range<usize>>,
    with_indexes: bool,
    /// How many arrays are open whose elements have no name.
    in_array: usize,
    take: F,
}

impl<F: FnMut(&[Range<usize>], &Range<usize>)> Scanner<'_, F> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// Goes past a byte that must be here, and the blanks before it.
    fn expect(&mut self, byte: u8) -> Option<()> {
        self.blanks();
        self.accept(byte).then_some(())
    }

    fn accept(&mut self, byte: u8) -> bool {
        let is_here = self.peek() == Some(byte);
        self.at += usize::from(is_here);
        is_here
    }

    fn object(&mut self, depth: usize) -> Option<()> {
        self.expect(b'{')?;
        self.blanks();
        if self.accept(b'}') {
            return Some(());
        }
        loop {
            self.blanks();
            let name = self.string()?;
            self.names.push(name);
            self.expect(b':')?;
            self.value(depth)?;
            self.names.pop();
            self.blanks();
            if !self.accept(b',') {
                return self.expect(b'}');
            }
        }
    }

    fn array(&mut self, depth: usize) -> Option<()> {
        self.expect(b'[')?;
        self.blanks();
        if self.accept(b']') {
            return Some(());
        }
        self.in_array += usize::from(!self.with_indexes);
        for index in 0.. {
            if self.with_indexes {
                self.names.push(Range { start: index, end: INDEX_MARK });
            }
            self.value(depth)?;
            if self.with_indexes {
                self.names.pop();
            }
            self.blanks();
            if !self.accept(b',') {
                break;
            }
        }
        self.in_array -= usize::from(!self.with_indexes);
        self.expect(b']')
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        self.blanks();
        match self.peek()? {
            b'"' => {
                let text = self.string()?;
                if self.in_array == 0 {
                    (self.take)(self.names, &text);
                }
                Some(())
            }
            b'{' | b'[' if depth == DEPTH_MAX => None,
            b'{' => self.object(depth + 1),
            b'[' => {
                let start = self.at + 1;
                self.array(depth + 1)?;
                if self.in_array == 0 {
                    (self.take)(self.names, &(start..self.at - 1));
                }
                Some(())
            }
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        let is_here = self.bytes.get(self.at..)?.starts_with(word);
        self.at += word.len();
        is_here.then_some(())
    }

    /// Passes over a string and gives the place of its text.
    fn string(&mut self) -> Option<Range<usize>> {
        if !self.accept(b'"') {
            return None;
        }
        let start = self.at;
        loop {
            let rest = self.bytes.get(self.at..)?;
            let length = memchr2(b'"', b'\\', rest)?;
            if rest.get(..length)?.iter().fold(false, |found, &byte| found | (byte < 0x20)) {
                return None;
            }
            self.at += length + 1;
            if rest.get(length) == Some(&b'"') {
                return Some(start..self.at - 1);
            }
            self.escape()?;
        }
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Option<()> {
        let kind = self.peek()?;
        self.at += 1;
        match kind {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(()),
            b'u' => {
                let digits = self.bytes.get(self.at..self.at + 4)?;
                self.at += 4;
                digits.iter().all(u8::is_ascii_hexdigit).then_some(())
            }
            _ => None,
        }
    }

    fn number(&mut self) -> Option<()> {
        self.accept(b'-');
        if !self.accept(b'0') {
            self.digits()?;
        }
        if self.accept(b'.') {
            self.digits()?;
        }
        if self.accept(b'e') || self.accept(b'E') {
            if !self.accept(b'+') {
                self.accept(b'-');
            }
            self.digits()?;
        }
        Some(())
    }

    /// One digit or more.
    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address<'a>(line: &'a str, member: &str) -> Result<&'a str, Fault> {
        let member = MemberPath::new(member.as_bytes());
        let mut scratch = Scratch::default();
        find(line.as_bytes(), 0..line.len(), &member, &mut scratch).map(|place| &line[place])
    }

    #[test]
    fn members_are_found_by_name_at_any_depth_and_not_in_arrays() {
        let line =
            r#" {"a":[{"ip":"1"},"ip"],"ip" : "2","c":{"ip":"3","d":{}},"c.ip":"4","n":-1.5e+3} "#;
        assert_eq!(address(line, "ip"), Ok("2"));
        assert_eq!(address(line, "c.ip"), Ok("4"));
        assert_eq!(address(r#"{"c":{"ip":"3"}}"#, "c.ip"), Ok("3"));
        assert_eq!(address(r#"{"ip":"1","ip":"2"}"#, "ip"), Ok("2"));
        assert_eq!(address(r#"{"ip":["1", "2"] }"#, "ip"), Ok(r#""1", "2""#));
        assert_eq!(address(r#"{"ip":[]}"#, "ip"), Ok(""));
        assert_eq!(address(r#"{"ip":[["1"]]}"#, "ip"), Ok(r#"["1"]"#));
        assert_eq!(address(r#"{"ip":7}"#, "ip"), Err(Fault::NoSuchMember));
        assert_eq!(address("{}", "ip"), Err(Fault::NoSuchMember));
    }

    #[test]
    fn elements_of_arrays_are_named_by_their_numbers() {
        let line = r#"{"a":[{"ip":"1"},{"ip":"2"}],"b":["3",["4"]],"0":"5"}"#;
        for (member, expected) in
            [("a[1].ip", "2"), ("a.0.ip", "1"), ("b[0]", "3"), ("b[1][0]", "4"), ("0", "5")]
        {
            assert_eq!(address(line, member), Ok(expected), "{member}");
        }
        for member in ["a[2].ip", "a.ip", "b[2]", "a[x].ip", "a[]"] {
            assert_eq!(address(line, member), Err(Fault::NoSuchMember), "{member}");
        }
    }

    #[test]
    fn escapes_of_names_and_addresses_are_decoded() {
        assert_eq!(address(r#"{"\u0069p":"1"}"#, "ip"), Ok("1"));
        assert_eq!(address(r#"{"c":{"\u0069\u0070":"3"}}"#, "c.ip"), Ok("3"));
        let read = |text: &str| {
            read_value(text.as_bytes(), ListChoice::Last).map(|address| address.to_string())
        };
        for (text, expected) in [
            (r"198.41.0.\u0034", "198.41.0.4"),
            (r"2001:db8::\u0031", "2001:db8::1"),
            (r#"\"198.41.0.4\""#, "198.41.0.4"),
            (r#"\"8.8.8.8\", 198.41.0.4"#, "198.41.0.4"),
            (r#""8.8.8.8", "198.41.0.\u0034""#, "198.41.0.4"),
            (r#""8.8.8.8, 198.41.0.4""#, "198.41.0.4"),
        ] {
            assert_eq!(read(text).as_deref(), Some(expected), "{text}");
        }
        for text in [r"\ud800", r#""8.8.8.8", 7"#, r#"{"ip":"8.8.8.8"}"#, "8.8.8.8\\n9"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_no_object_is_told() {
        for line in [
            "",
            "x",
            "[]",
            "1",
            "{",
            "{}x",
            "{,}",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{"a":01}"#,
            r#"{"a":1.}"#,
            r#"{"a":+1}"#,
            r#"{"a":tru}"#,
            r#"{"a":"\x"}"#,
            r#"{"a":"\u12"}"#,
            "{\"a\":\"\t\"}",
            r#"{"a":[1,]}"#,
            r#"{"a":[1 2]}"#,
            r#"{"a":-}"#,
            r#"{"a":"}"#,
        ] {
            assert_eq!(address(line, "ip"), Err(Fault::NotAJsonObject), "{line}");
        }
        let deep = |count: usize| format!("{{\"a\":{}{}}}", "[".repeat(count), "]".repeat(count));
        assert_eq!(address(&deep(DEPTH_MAX - 1), "ip"), Err(Fault::NoSuchMember));
        assert_eq!(address(&deep(DEPTH_MAX), "ip"), Err(Fault::NotAJsonObject));
    }
}
