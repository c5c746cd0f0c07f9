//! Format strings of nginx (`log_format`) and Apache (`LogFormat`) as readers of lines.
//!
//! Not for guessing. A string is texts and variables in turn; a variable reaches up to the text
//! behind it, and one between quotes to the first quote that has no backslash before it and that
//! text behind it. So a user's name may have blanks in `$remote_user [$time_local]`.
//!
//! ```text
//! nginx    $remote_addr - $remote_user [$time_local] "$request" $status
//! Apache   %h %l %u %t \"%r\" %>s
//! pieces   column | " - " | column | " [" | column | "] \"" | column | "\" " | column
//! ```

use std::ops::Range;

use memchr::{memchr2, memmem};

/// The most variables of a format.
const COLUMNS_MAX: usize = 256;

/// A compiled format string.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// The text before the first column.
    head: Vec<u8>,
    /// The text behind each column.
    texts: Vec<Vec<u8>>,
    pub(super) names: Vec<String>,
}

/// The pieces that were read so far.
#[derive(Default)]
struct Builder {
    texts: Vec<Vec<u8>>,
    names: Vec<String>,
    text: Vec<u8>,
}

impl Builder {
    fn column(&mut self, name: &str) -> Result<(), String> {
        if self.names.len() == COLUMNS_MAX {
            return Err(format!("more than {COLUMNS_MAX} variables; allowed: fewer"));
        }
        if self.text.is_empty() && !self.names.is_empty() {
            return Err(format!(
                "nothing stands before the variable {name}; allowed: a text between two"
            ));
        }
        self.texts.push(std::mem::take(&mut self.text));
        let mut unique = name.to_owned();
        let mut number = 2;
        while self.names.contains(&unique) {
            unique = format!("{name}_{number}");
            number += 1;
        }
        self.names.push(unique);
        Ok(())
    }
}

impl Pattern {
    /// Compiles a format string; that of Apache has `%`, that of nginx `$`.
    ///
    /// # Errors
    /// A variable that is not known, or two without a text between them.
    ///
    /// ```
    /// use whered_capture::logs::Pattern;
    /// let pattern = Pattern::new("$remote_addr [$time_local] \"$request\"").unwrap();
    /// assert_eq!(pattern.names(), ["remote_addr", "time_local", "request"]);
    /// assert!(Pattern::new("$a$b").is_err());
    /// ```
    pub fn new(format: &str) -> Result<Pattern, String> {
        let mut builder = Builder::default();
        if format.contains('$') {
            nginx(format, &mut builder)?;
        } else {
            apache(format, &mut builder)?;
        }
        if builder.names.is_empty() {
            return Err("it has no variable; allowed: such as $remote_addr or %h".to_owned());
        }
        let mut texts = builder.texts;
        let head = texts.remove(0);
        texts.push(builder.text);
        Ok(Pattern { head, texts, names: builder.names })
    }

    /// The names of the columns: nginx's variables, also for Apache.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Appends the places of a line's columns; nothing if the line is of another form.
    pub(super) fn split(
        &self,
        line: &[u8],
        base: usize,
        parts: &mut Vec<Range<usize>>,
    ) -> Option<()> {
        let mut at = self.head.len();
        if !line.starts_with(&self.head) {
            return None;
        }
        let mut before: &[u8] = &self.head;
        for text in &self.texts {
            let rest = line.get(at..)?;
            let is_quoted = before.ends_with(b"\"") && text.starts_with(b"\"");
            let length = match text.as_slice() {
                [] => rest.len(),
                text if is_quoted => quoted(rest, text)?,
                text => memmem::find(rest, text)?,
            };
            parts.push(base + at..base + at + length);
            at += length + text.len();
            before = text;
        }
        // What stands behind the last text is of no column.
        (at == line.len()).then_some(())
    }
}

/// How far the text reaches that ends with a quote and `end`.
fn quoted(rest: &[u8], end: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + memchr2(b'"', b'\\', rest.get(from..)?)?;
        if rest.get(at) == Some(&b'\\') {
            from = at + 2;
        } else if rest.get(at..)?.starts_with(end) {
            return Some(at);
        } else {
            from = at + 1;
        }
    }
}

fn nginx(format: &str, builder: &mut Builder) -> Result<(), String> {
    let mut rest = format;
    while let Some((text, variable)) = rest.split_once('$') {
        builder.text.extend_from_slice(text.as_bytes());
        let (name, behind) = match variable.strip_prefix('{') {
            Some(inner) => inner.split_once('}').ok_or("a ${ has no }; allowed: ${name}")?,
            None => {
                let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                variable
                    .split_at(variable.find(|letter| !is_part(letter)).unwrap_or(variable.len()))
            }
        };
        if name.is_empty() {
            return Err("a $ has no name; allowed: $name".to_owned());
        }
        builder.column(name)?;
        rest = behind;
    }
    builder.text.extend_from_slice(rest.as_bytes());
    Ok(())
}

/// The names of Apache's letters.
const LETTERS: [(char, &str); 27] = [
    ('a', "remote_addr"),
    ('h', "remote_addr"),
    ('l', "ident"),
    ('u', "remote_user"),
    ('r', "request"),
    ('s', "status"),
    ('b', "body_bytes_sent"),
    ('B', "body_bytes_sent"),
    ('v', "server_name"),
    ('V', "server_name"),
    ('p', "server_port"),
    ('O', "bytes_sent"),
    ('I', "request_length"),
    ('S', "bytes_total"),
    ('D', "request_time_us"),
    ('T', "request_time"),
    ('m', "request_method"),
    ('U', "uri"),
    ('q', "args"),
    ('H', "server_protocol"),
    ('A', "server_addr"),
    ('f', "request_filename"),
    ('k', "connection_requests"),
    ('P', "pid"),
    ('X', "connection_status"),
    ('L', "log_id"),
    ('R', "handler"),
];

fn apache(format: &str, builder: &mut Builder) -> Result<(), String> {
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '%' => directive(&mut letters, builder)?,
            '\\' => match letters.next() {
                Some('t') => builder.text.push(b'\t'),
                Some('n') | None => {}
                Some(other) => builder.text.extend_from_slice(other.to_string().as_bytes()),
            },
            other => builder.text.extend_from_slice(other.to_string().as_bytes()),
        }
    }
    Ok(())
}

/// What follows a percent sign: conditions of status codes, `<` or `>`, `{name}`, a letter.
fn directive(letters: &mut std::str::Chars<'_>, builder: &mut Builder) -> Result<(), String> {
    let mut argument = None;
    loop {
        let letter = letters.next().ok_or("a % has no letter; allowed: such as %h")?;
        match letter {
            '%' => builder.text.push(b'%'),
            '<' | '>' | '!' | ',' | '0'..='9' => continue,
            '{' => {
                let inner: String = letters.by_ref().take_while(|letter| *letter != '}').collect();
                argument = Some(inner);
                continue;
            }
            '^' => {
                let kind: String = letters.by_ref().take(2).collect();
                let name = argument.unwrap_or_default().to_ascii_lowercase().replace('-', "_");
                builder.column(&format!("{kind}_{name}"))?;
            }
            't' if argument.is_none() => {
                builder.text.push(b'[');
                builder.column("time_local")?;
                builder.text.push(b']');
            }
            't' => builder.column("time")?,
            'i' | 'o' | 'C' | 'e' | 'n' => {
                let name = argument
                    .ok_or_else(|| format!("%{letter} has no name; allowed: %{{name}}{letter}"))?;
                let before = match letter {
                    'i' => "http_",
                    'o' => "sent_http_",
                    'C' => "cookie_",
                    'e' => "env_",
                    _ => "note_",
                };
                builder
                    .column(&format!("{before}{}", name.to_ascii_lowercase().replace('-', "_")))?;
            }
            letter => {
                let known = LETTERS.iter().find(|(known, _)| *known == letter);
                let (_, name) = known.ok_or_else(|| {
                    format!(
                        "%{} is not known; allowed: the letters of Apache's LogFormat",
                        letter.escape_debug()
                    )
                })?;
                builder.column(name)?;
            }
        }
        return Ok(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts<'a>(format: &str, line: &'a str) -> Option<Vec<&'a str>> {
        let mut parts = Vec::new();
        Pattern::new(format).unwrap().split(line.as_bytes(), 0, &mut parts)?;
        Some(parts.into_iter().map(|part| &line[part]).collect())
    }

    #[test]
    fn variables_reach_up_to_the_text_behind_them_and_quotes_may_be_escaped() {
        let nginx = r#"$remote_addr - $remote_user [$time_local] "$request" $status"#;
        let line = r#"192.0.2.1 - ann b [x y] "GET \"a\" b" 200"#;
        let expected = vec!["192.0.2.1", "ann b", "x y", r#"GET \"a\" b"#, "200"];
        assert_eq!(texts(nginx, line), Some(expected.clone()));
        assert_eq!(texts(r#"%h - %u %t \"%r\" %>s"#, line), Some(expected));
        assert_eq!(texts(nginx, "x"), None);
        assert_eq!(texts("a${b}c", "a1c"), Some(vec!["1"]));
        assert_eq!(texts("a${b}c", "a1cd"), None);
        assert_eq!(texts("%%%h%%", "%1%"), Some(vec!["1"]));
    }

    #[test]
    fn names_are_those_of_nginx_and_faults_say_what_is_allowed() {
        let names = |format: &str| Pattern::new(format).unwrap().names;
        assert_eq!(
            names(r#"%{X-Forwarded-For}i %!200,304{Referer}i %a %h %{%d}t %400D %{c}C"#),
            [
                "http_x_forwarded_for",
                "http_referer",
                "remote_addr",
                "remote_addr_2",
                "time",
                "request_time_us",
                "cookie_c"
            ]
        );
        for format in ["", "text", "$", "$a$b", "${a", "%", "%Z x", "%i", "%h%h"] {
            let message = Pattern::new(format).unwrap_err();
            assert!(message.contains("; allowed: "), "{format}: {message}");
        }
    }
}
