//! Passing over values and remarks by their structure.
//!
//! Every loop reads at least one byte a turn, so a count that is a lie ends with the input.

use std::io::Read;

use super::blob::skip_string;
use super::error::RdbError;
use super::kind::Kind;
use super::source::Source;

/// Whose format a dump is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Family {
    Redis,
    Valkey,
}

/// Passes over a value; `None` for a type that is not known.
pub(super) fn skip_value<R: Read>(
    source: &mut Source<R>,
    family: Family,
    value_type: u8,
) -> Result<Option<Kind>, RdbError> {
    Ok(Some(match value_type {
        1 | 14 => strings(source, 1, Kind::List)?,
        2 => strings(source, 1, Kind::Set)?,
        4 => strings(source, 2, Kind::Hash)?,
        7 => {
            source.length()?;
            skip_module_data(source)?;
            Kind::Module
        }
        9 | 13 | 16 => one_string(source, Kind::Hash)?,
        10 => one_string(source, Kind::List)?,
        11 | 20 => one_string(source, Kind::Set)?,
        15 => stream(source, 1)?,
        18 => {
            for _ in 0..source.length()? {
                source.length()?;
                skip_string(source)?;
            }
            Kind::List
        }
        19 => stream(source, 2)?,
        21 => stream(source, 3)?,
        22 if family == Family::Valkey => {
            // Field, value, and the field's time.
            for _ in 0..source.length()? {
                skip_string(source)?;
                skip_string(source)?;
                source.skip(8)?;
            }
            Kind::Hash
        }
        22 => hash_with_times(source)?,
        23 => one_string(source, Kind::Hash)?,
        24 => {
            // The earliest of the times.
            source.skip(8)?;
            hash_with_times(source)?
        }
        25 => {
            source.skip(8)?;
            one_string(source, Kind::Hash)?
        }
        _ => return Ok(None),
    }))
}

fn one_string<R: Read>(source: &mut Source<R>, kind: Kind) -> Result<Kind, RdbError> {
    skip_string(source)?;
    Ok(kind)
}

fn strings<R: Read>(source: &mut Source<R>, each: u32, kind: Kind) -> Result<Kind, RdbError> {
    for _ in 0..source.length()? {
        for _ in 0..each {
            skip_string(source)?;
        }
    }
    Ok(kind)
}

/// Redis's: the time of the field as a length, field, value.
fn hash_with_times<R: Read>(source: &mut Source<R>) -> Result<Kind, RdbError> {
    for _ in 0..source.length()? {
        source.length()?;
        skip_string(source)?;
        skip_string(source)?;
    }
    Ok(Kind::Hash)
}

fn lengths<R: Read>(source: &mut Source<R>, count: u32) -> Result<(), RdbError> {
    for _ in 0..count {
        source.length()?;
    }
    Ok(())
}

fn stream<R: Read>(source: &mut Source<R>, edition: u32) -> Result<Kind, RdbError> {
    for _ in 0..source.length()? {
        // The first identifier of a node and its list pack.
        skip_string(source)?;
        skip_string(source)?;
    }
    // Length and last identifier; first, largest deleted, and entries added.
    lengths(source, if edition >= 2 { 8 } else { 3 })?;
    for _ in 0..source.length()? {
        skip_string(source)?;
        lengths(source, if edition >= 2 { 3 } else { 2 })?;
        for _ in 0..source.length()? {
            // Identifier, time of delivery, and how often.
            source.skip(24)?;
            source.length()?;
        }
        for _ in 0..source.length()? {
            // Name, when it was seen, and when it was active.
            skip_string(source)?;
            source.skip(if edition >= 3 { 16 } else { 8 })?;
            for _ in 0..source.length()? {
                source.skip(16)?;
            }
        }
    }
    Ok(Kind::Stream)
}

/// What a module wrote: numbers and strings, each behind its own code, up to the code 0.
pub(super) fn skip_module_data<R: Read>(source: &mut Source<R>) -> Result<(), RdbError> {
    loop {
        match source.length()? {
            0 => return Ok(()),
            1 | 2 => drop(source.length()?),
            3 => source.skip(4)?,
            4 => source.skip(8)?,
            5 => skip_string(source)?,
            other => return source.wrong(format!("code {other} of a module's data is not known")),
        }
    }
}

/// Opcode 243 of Redis: what modules keep of a key.
pub(super) fn skip_key_metadata<R: Read>(source: &mut Source<R>) -> Result<(), RdbError> {
    for _ in 0..source.length()? {
        source.skip(4)?;
        skip_module_data(source)?;
    }
    Ok(())
}
