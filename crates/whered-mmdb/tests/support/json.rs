//! A plain JSON reader for tests; panics on anything that is no JSON.

use whered_mmdb::Value;

#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    Null,
    Boolean(bool),
    /// The digits as they stand.
    Number(String),
    String(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub fn parse(text: &str) -> Json {
        let mut reader = Reader { text, at: 0 };
        let value = reader.value();
        reader.space();
        assert_eq!(reader.at, text.len(), "text behind the JSON value");
        value
    }

    /// Whether a database's value says the same, as far as JSON can tell types apart.
    pub fn equals(&self, value: &Value) -> bool {
        match (self, value) {
            (Json::Object(object), Value::Map(pairs)) => {
                object.len() == pairs.len()
                    && object.iter().all(|(key, json)| {
                        pairs.iter().any(|(other, value)| other == key && json.equals(value))
                    })
            }
            (Json::Array(array), Value::Array(values)) => {
                array.len() == values.len()
                    && array.iter().zip(values).all(|(json, value)| json.equals(value))
            }
            (Json::String(text), Value::String(other)) => text == other,
            (Json::Boolean(truth), Value::Boolean(other)) => truth == other,
            (Json::Number(digits), Value::Double(number)) => digits.parse() == Ok(*number),
            (Json::Number(digits), Value::Float(number)) => digits.parse() == Ok(*number),
            (Json::Number(digits), Value::Uint16(number)) => digits.parse() == Ok(*number),
            (Json::Number(digits), Value::Uint32(number)) => digits.parse() == Ok(*number),
            (Json::Number(digits), Value::Uint64(number)) => digits.parse() == Ok(*number),
            (Json::Number(digits), Value::Uint128(number)) => digits.parse() == Ok(*number),
            (Json::Number(digits), Value::Int32(number)) => digits.parse() == Ok(*number),
            _ => false,
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> u8 {
        *self.text.as_bytes().get(self.at).expect("JSON that ends too early")
    }

    fn space(&mut self) {
        while self.text[self.at..].starts_with([' ', '\n', '\r', '\t']) {
            self.at += 1;
        }
    }

    fn take(&mut self, word: &str) {
        assert!(self.text[self.at..].starts_with(word), "no {word:?} at {}", self.at);
        self.at += word.len();
    }

    fn value(&mut self) -> Json {
        self.space();
        match self.peek() {
            b'{' => Json::Object(self.list('{', '}', |reader| {
                reader.space();
                let key = reader.string();
                reader.space();
                reader.take(":");
                (key, reader.value())
            })),
            b'[' => Json::Array(self.list('[', ']', Reader::value)),
            b'"' => Json::String(self.string()),
            b't' => self.word("true", Json::Boolean(true)),
            b'f' => self.word("false", Json::Boolean(false)),
            b'n' => self.word("null", Json::Null),
            _ => {
                let rest = &self.text[self.at..];
                let end = rest
                    .find(|c: char| !c.is_ascii_digit() && !"+-.eE".contains(c))
                    .unwrap_or(rest.len());
                self.at += end;
                let digits = &rest[..end];
                digits.parse::<f64>().expect("a JSON number");
                Json::Number(digits.to_string())
            }
        }
    }

    fn word(&mut self, word: &str, value: Json) -> Json {
        self.take(word);
        value
    }

    fn list<T>(&mut self, open: char, close: char, item: fn(&mut Self) -> T) -> Vec<T> {
        self.take(&open.to_string());
        let mut items = Vec::new();
        loop {
            self.space();
            if self.peek() == close as u8 {
                self.at += 1;
                return items;
            }
            if !items.is_empty() {
                self.take(",");
            }
            items.push(item(self));
        }
    }

    fn string(&mut self) -> String {
        self.take("\"");
        let mut out = String::new();
        loop {
            let character = self.text[self.at..].chars().next().expect("an open JSON string");
            self.at += character.len_utf8();
            match character {
                '"' => return out,
                '\\' => {
                    let escape = self.peek();
                    self.at += 1;
                    out.push(match escape {
                        b'n' => '\n',
                        b'r' => '\r',
                        b't' => '\t',
                        b'b' => '\u{8}',
                        b'f' => '\u{c}',
                        b'u' => {
                            let digits = &self.text[self.at..self.at + 4];
                            self.at += 4;
                            let code = u32::from_str_radix(digits, 16).expect("four digits");
                            char::from_u32(code).expect("no surrogates in the test data")
                        }
                        other => char::from(other),
                    });
                }
                _ => {
                    assert!(character >= ' ', "a control character inside a JSON string");
                    out.push(character);
                }
            }
        }
    }
}
