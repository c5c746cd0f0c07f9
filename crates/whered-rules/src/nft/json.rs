//! JSON with the place of every value, since an error must say where.
//!
//! For: the reader beside this file. Not for: anything else; numbers are whole and not negative,
//! as nft prints them (others become text, and are refused where a number is wanted).
//!
//! ```text
//! {"a": [1, "b"]}   ->   Map [ ("a", at 6: List [ at 7: Number 1, at 10: Text "b" ]) ]
//! ```
//!
//! Invariants: nesting is at most 64 deep; the whole text is one value.
//! Concurrency: pure. Cost: linear.

/// A value and the byte where it starts.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) at: usize,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(u64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl PartialEq for Node {
    fn eq(&self, other: &Node) -> bool {
        self.value == other.value
    }
}

impl Node {
    /// The value under a key.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// The key and value of a map that has one entry.
    pub(super) fn only(&self) -> Option<(&str, &Node)> {
        match &self.value {
            Value::Map(entries) => match entries.as_slice() {
                [(name, value)] => Some((name, value)),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    pub(super) fn number(&self) -> Option<u64> {
        if let Value::Number(number) = self.value { Some(number) } else { None }
    }

    pub(super) fn list(&self) -> Option<&[Node]> {
        if let Value::List(list) = &self.value { Some(list) } else { None }
    }

    /// The text under a key.
    pub(super) fn text_at(&self, key: &str) -> Option<&str> {
        self.get(key)?.text()
    }

    /// The value as JSON, shortened where it is long.
    pub(super) fn written(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        crate::error::shortened(&text)
    }

    fn write(&self, out: &mut String) {
        match &self.value {
            Value::Text(text) => out.push_str(&format!("{text:?}")),
            Value::List(list) => {
                out.push('[');
                for (index, node) in list.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    node.write(out);
                }
                out.push(']');
            }
            Value::Map(entries) => {
                out.push('{');
                for (index, (name, node)) in entries.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    out.push_str(&format!("{name:?}:"));
                    node.write(out);
                }
                out.push('}');
            }
            _ => out.push_str(&self.shown()),
        }
    }

    /// A few words for an error message.
    pub(super) fn shown(&self) -> String {
        match &self.value {
            Value::Null => "null".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Text(text) => text.clone(),
            Value::List(_) => "a list".to_owned(),
            Value::Map(entries) => match entries.first() {
                Some((name, _)) => name.clone(),
                None => "{}".to_owned(),
            },
        }
    }
}

/// Reads a text; the error is the byte where it is wrong, what was found, what is allowed.
pub(super) fn parse(text: &str) -> Result<Node, (usize, String, &'static str)> {
    let mut parser = Parser { text, at: 0 };
    let node = parser.value(0)?;
    parser.skip_spaces();
    match parser.peek() {
        None => Ok(node),
        Some(_) => parser.refuse("end of file"),
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

type Step<T> = Result<T, (usize, String, &'static str)>;

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_spaces(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn refuse<T>(&self, allowed: &'static str) -> Step<T> {
        let found = match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(c) => c.to_string(),
            None => "end of file".to_owned(),
        };
        Err((self.at, found, allowed))
    }

    fn takes(&mut self, byte: u8) -> bool {
        self.skip_spaces();
        let taken = self.peek() == Some(byte);
        self.at += usize::from(taken);
        taken
    }

    fn value(&mut self, depth: usize) -> Step<Node> {
        self.skip_spaces();
        let at = self.at;
        if depth > 64 {
            return self.refuse("values nested at most 64 deep");
        }
        let value = match self.peek() {
            Some(b'{') => self.map(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"') => Value::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.word()?,
        };
        Ok(Node { value, at })
    }

    fn word(&mut self) -> Step<Value> {
        for (word, value) in
            [("null", Value::Null), ("true", Value::Bool(true)), ("false", Value::Bool(false))]
        {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        self.refuse("a value in JSON")
    }

    fn number(&mut self) -> Value {
        let start = self.at;
        while matches!(self.peek(), Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')) {
            self.at += 1;
        }
        let text = &self.text[start..self.at];
        text.parse().map_or_else(|_| Value::Text(text.to_owned()), Value::Number)
    }

    fn list(&mut self, depth: usize) -> Step<Value> {
        self.at += 1;
        let mut list = Vec::new();
        if self.takes(b']') {
            return Ok(Value::List(list));
        }
        loop {
            list.push(self.value(depth + 1)?);
            if self.takes(b']') {
                return Ok(Value::List(list));
            }
            if !self.takes(b',') {
                return self.refuse(", or ]");
            }
        }
    }

    fn map(&mut self, depth: usize) -> Step<Value> {
        self.at += 1;
        let mut entries = Vec::new();
        if self.takes(b'}') {
            return Ok(Value::Map(entries));
        }
        loop {
            self.skip_spaces();
            if self.peek() != Some(b'"') {
                return self.refuse("a key in double quotes");
            }
            let key = self.string()?;
            if !self.takes(b':') {
                return self.refuse(":");
            }
            entries.push((key, self.value(depth + 1)?));
            if self.takes(b'}') {
                return Ok(Value::Map(entries));
            }
            if !self.takes(b',') {
                return self.refuse(", or }");
            }
        }
    }

    /// A string whose opening quote is next.
    fn string(&mut self) -> Step<String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(c) = self.text[self.at..].chars().next() else {
                return self.refuse("a closing quote");
            };
            if c != '\\' {
                if c.is_control() {
                    return self.refuse("printable characters");
                }
                self.at += c.len_utf8();
                if c == '"' {
                    return Ok(text);
                }
                text.push(c);
                continue;
            }
            let escaped = self.text.as_bytes().get(self.at + 1);
            let meant = match escaped {
                Some(b'"') => '"',
                Some(b'\\') => '\\',
                Some(b'/') => '/',
                Some(b'b' | b'f' | b'n' | b'r' | b't') => ' ',
                Some(b'u') => {
                    let digits = self.text.get(self.at + 2..self.at + 6);
                    let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
                    let Some(code) = code else { return self.refuse("\\u and four digits") };
                    self.at += 4;
                    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
                }
                _ => return self.refuse("an escape that JSON has"),
            };
            self.at += 2;
            text.push(meant);
        }
    }
}
