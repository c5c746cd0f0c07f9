//! The data of one record from the text of a configuration, as a master file would have it.
//!
//! Not for: zones (`zone/master.rs`). Names in the text are whole: they are not completed.

use crate::code::RecordType;
use crate::name::Name;
use crate::zone::data;
use crate::zone::lexer::Lexer;
use crate::zone::rdata::check;

/// Reads the data of one record, such as `1 . alpn=h2,h3` for HTTPS, and gives their wire form.
///
/// ```
/// use whered_dns::{RecordType, record_data};
/// let data = record_data(RecordType::HTTPS, "1 . alpn=h2")?;
/// assert_eq!(data, [0, 1, 0, 0, 1, 0, 3, 2, b'h', b'2']);
/// assert!(record_data(RecordType::HTTPS, "one .").is_err());
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
///
/// One line: what is wrong with the text.
pub fn record_data(record_type: RecordType, text: &str) -> Result<Vec<u8>, String> {
    let mut tokens = Vec::new();
    let mut lexer = Lexer::new(text.as_bytes());
    let found = lexer.next_entry(&mut tokens).map_err(|error| error.found)?;
    if !found {
        return Err("no data".to_owned());
    }
    let mut data = Vec::new();
    let root = Name::root();
    let read = data::read(record_type, &tokens, root.as_wire(), &mut data);
    read.map_err(|error| error.message)?;
    check(record_type, &data).map_err(|allowed| format!("not {allowed}"))?;
    // Only then, as the next entry takes the tokens' place.
    match lexer.next_entry(&mut tokens) {
        Ok(false) => Ok(data),
        _ => Err("more than one line".to_owned()),
    }
}

/// The data of a TXT record with this text, cut into strings of 255 bytes; none for more than a
/// record holds.
#[must_use]
pub fn text_data(text: &str) -> Option<Vec<u8>> {
    let mut data = Vec::with_capacity(text.len() + 1);
    for part in text.as_bytes().chunks(255) {
        data.push(part.len() as u8);
        data.extend_from_slice(part);
    }
    if data.is_empty() {
        data.push(0);
    }
    (data.len() <= usize::from(u16::MAX)).then_some(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_into_strings_and_lines_are_not_taken_together() {
        assert_eq!(text_data(""), Some(vec![0]));
        assert_eq!(
            text_data(&"x".repeat(256)).map(|data| (data.len(), data[0], data[256])),
            Some((258, 255, 1))
        );
        assert_eq!(text_data(&"x".repeat(65_536)), None);
        assert!(record_data(RecordType::HTTPS, "1 .\n2 .").is_err());
        assert!(record_data(RecordType::HTTPS, "").is_err());
        assert!(record_data(RecordType::HTTPS, "1 \"").is_err());
    }
}
