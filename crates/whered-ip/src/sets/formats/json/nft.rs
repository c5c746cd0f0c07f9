//! nft's description of its sets.
//!
//! ```text
//! {"nftables": [ ..., {"set": {"elem": [E, ...]}}, {"element": {"elem": [E, ...]}} ]}
//! E   "192.0.2.1" | {"prefix": {"addr": "192.0.2.0", "len": 24}}
//!     | {"range": ["192.0.2.5", "192.0.2.9"]}
//!     | {"elem": {"val": E, "timeout": 60, "expires": 55, "comment": "x"}}
//! ```

use super::super::named::Sets;
use super::super::{ADDRESS, Block, block_at};
use super::{Json, SetEntry, SetTextError};
use crate::Prefix;

pub(in super::super) fn read_nft<'a>(
    text: &'a [u8],
    sets: &mut Sets<'_>,
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    let mut json = Json::at(text, 0);
    json.object(|json, key| {
        if key != b"nftables" {
            return json.skip();
        }
        json.array(|json| {
            json.object(|json, key| match key {
                b"set" | b"map" | b"element" => elements(json, sets, each),
                // `{"add": {"element": ...}}` is how commands are written.
                b"add" | b"create" => json.object(|json, key| match key {
                    b"element" | b"set" | b"map" => elements(json, sets, each),
                    _ => json.skip(),
                }),
                b"delete" | b"destroy" => json.object(|json, key| match key {
                    b"element" => {
                        let allowed = "add: elements that are deleted again are no list";
                        Err(json.wrong_key(key, allowed))
                    }
                    _ => json.skip(),
                }),
                _ => json.skip(),
            })
        })
    })?;
    json.end()
}

/// The elements of an object that describes a set.
fn elements<'a>(
    json: &mut Json<'a>,
    sets: &mut Sets<'_>,
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    json.peek();
    let start = json.at;
    let about = about(json)?;
    let parts = [&about.family, &about.table, &about.name].into_iter().flatten();
    let name = parts.cloned().collect::<Vec<_>>().join("/");
    if !name.is_empty() && !sets.is_chosen(&name, start) {
        return Ok(());
    }
    // Its names may stand behind its elements.
    let end = std::mem::replace(&mut json.at, start);
    if let Some((from, to)) = about.wrong_type {
        return Err(SetTextError::at(json.text, from, to - from, "\"ipv4_addr\", \"ipv6_addr\""));
    }
    json.object(|json, key| match key {
        b"elem" => json.array(|json| {
            let mut entry = element(json)?;
            entry.ttl_seconds = entry.ttl_seconds.or(about.timeout);
            each(entry);
            Ok(())
        }),
        b"map" => Err(json.wrong_key(key, "a set")),
        _ => json.skip(),
    })?;
    json.at = end;
    Ok(())
}

/// The fields of an object that describe its set.
#[derive(Default)]
struct SetInfo {
    family: Option<String>,
    table: Option<String>,
    name: Option<String>,
    /// How long elements last that say nothing.
    timeout: Option<u64>,
    /// Where a type stands that is not that of addresses.
    wrong_type: Option<(usize, usize)>,
}

fn about(json: &mut Json<'_>) -> Result<SetInfo, SetTextError> {
    let mut about = SetInfo::default();
    json.object(|json, key| {
        let into = match key {
            b"family" => &mut about.family,
            b"table" => &mut about.table,
            b"name" => &mut about.name,
            b"timeout" => {
                about.timeout = Some(json.number()?).filter(|seconds| *seconds > 0);
                return Ok(());
            }
            b"type" => {
                json.peek();
                let from = json.at;
                json.skip()?;
                let is_address =
                    matches!(&json.text[from..json.at], b"\"ipv4_addr\"" | b"\"ipv6_addr\"");
                about.wrong_type = (!is_address).then_some((from, json.at));
                return Ok(());
            }
            _ => return json.skip(),
        };
        *into = Some(String::from_utf8_lossy(&json.value_text()?).into_owned());
        Ok(())
    })?;
    Ok(about)
}

/// One element of nft's.
fn element<'a>(json: &mut Json<'a>) -> Result<SetEntry<'a>, SetTextError> {
    if json.peek() != Some(b'{') {
        let (from, to) = json.string()?;
        return Ok(block_at(json.text, from, to)?.into());
    }
    let start = json.at;
    let mut entry: Option<SetEntry<'a>> = None;
    let (mut timeout, mut expires, mut value) = (None, None, None);
    json.object(|json, key| {
        match key {
            b"prefix" => entry = Some(prefix(json)?.into()),
            b"range" => entry = Some(range(json)?.into()),
            b"elem" => json.object(|json, key| {
                match key {
                    b"val" => entry = Some(element(json)?),
                    b"timeout" => timeout = Some(json.number()?),
                    b"expires" => expires = Some(json.number()?),
                    b"comment" => value = Some(json.value_text()?),
                    _ => json.skip()?,
                }
                Ok(())
            })?,
            _ => return Err(json.wrong_key(key, "prefix, range, elem")),
        }
        Ok(())
    })?;
    let missing = || SetTextError::at(json.text, start, json.at - start, ADDRESS);
    let mut entry = entry.ok_or_else(missing)?;
    entry.ttl_seconds = expires.or(timeout).or(entry.ttl_seconds);
    entry.value = value.or(entry.value);
    Ok(entry)
}

fn prefix(json: &mut Json<'_>) -> Result<Block, SetTextError> {
    let start = json.at;
    let (mut address, mut length) = (None, None);
    json.object(|json, key| {
        match key {
            b"addr" => address = Some(json.address()?),
            b"len" => length = Some(json.number()?),
            _ => return Err(json.wrong_key(key, "addr, len")),
        }
        Ok(())
    })?;
    let length = length.and_then(|length| u8::try_from(length).ok());
    let prefix =
        address.zip(length).and_then(|(address, length)| Prefix::new(address, length).ok());
    let allowed = "addr, and len of 0 to 32 (IPv4) or 128 (IPv6)";
    let mistake = || SetTextError::at(json.text, start, json.at - start, allowed);
    Ok(prefix.ok_or_else(mistake)?.into())
}

fn range(json: &mut Json<'_>) -> Result<Block, SetTextError> {
    let start = json.at;
    let mut ends = Vec::new();
    json.array(|json| {
        ends.push(json.address()?);
        Ok(())
    })?;
    let block = match ends[..] {
        [first, last] => Block::from_ends(first, last).ok(),
        _ => None,
    };
    let allowed = "two addresses of one family, upwards";
    block.ok_or_else(|| SetTextError::at(json.text, start, json.at - start, allowed))
}
