//! Lists in JSON: an array of blocks, or a block a line.
//!
//! Not for blocks at other places of a text: those have a path (`path`).
//!
//! ```text
//! json      ["192.0.2.1", {"prefix": "192.0.2.0/24", "value": "x", "seconds": 60}]
//! ndjson    the elements of such an array, one a line
//! ```

use super::super::lines::{lines, trimmed};
use super::{Json, SetEntry, SetTextError};

pub(in super::super) fn read<'a>(
    text: &'a [u8],
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    let mut json = Json::at(text, 0);
    json.array(|json| {
        each(entry(json)?);
        Ok(())
    })?;
    json.end()
}

pub(in super::super) fn read_lines<'a>(
    text: &'a [u8],
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    for (from, to) in lines(text) {
        let Some((from, to)) = trimmed(text, from, to) else { continue };
        let mut json = Json::at(&text[..to], from);
        each(entry(&mut json)?);
        json.end()?;
    }
    Ok(())
}

fn entry<'a>(json: &mut Json<'a>) -> Result<SetEntry<'a>, SetTextError> {
    const KEYS: &str = "prefix, value, seconds; other objects need a path";
    if json.peek() != Some(b'{') {
        return Ok(json.list_block()?.into());
    }
    let start = json.at;
    let (mut block, mut value, mut ttl_seconds) = (None, None, None);
    json.object(|json, key| {
        match key {
            b"prefix" => block = Some(json.list_block()?),
            b"value" => value = Some(json.value_text()?),
            b"seconds" => ttl_seconds = Some(json.number()?),
            _ => return Err(json.wrong_key(key, KEYS)),
        }
        Ok(())
    })?;
    let missing = || SetTextError::at(json.text, start, json.at - start, "an object with prefix");
    Ok(SetEntry { block: block.ok_or_else(missing)?, value, ttl_seconds })
}
