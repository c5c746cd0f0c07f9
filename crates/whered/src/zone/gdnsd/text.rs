//! Texts of TOML.
//!
//! Not for: which keys there are.

/// A string of TOML.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for next in text.chars() {
        match next {
            '"' | '\\' => out.extend(['\\', next]),
            next if next.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(next))),
            next => out.push(next),
        }
    }
    out.push('"');
    out
}

/// An array of strings of TOML.
pub(super) fn quoted_list<T: AsRef<str>>(texts: &[T]) -> String {
    let texts: Vec<_> = texts.iter().map(|text| quoted(text.as_ref())).collect();
    format!("[{}]", texts.join(", "))
}
