//! Operations about rulesets as bytes; the layout is drawn at the head of `operation`.
//!
//! Invariants: as for the others, what is written is exactly `size_bytes` long, and nothing read is
//! trusted. Cost: texts are borrowed from the payload.

use std::ops::RangeInclusive;

use whered_rules::{ChainId, Format, Spot};

use super::{Decoder, Encoder, Operation};

/// The kinds of this file.
pub(super) const KINDS: RangeInclusive<u16> = 32..=36;

impl Operation<'_> {
    /// The payload's size without the version.
    pub(super) fn rules_size_bytes(&self) -> usize {
        match self {
            Operation::SetRules { ruleset, text, numbers, .. } => {
                let numbers = numbers.as_ref().map_or(0, |(numbers, _)| 4 * numbers.len());
                4 + ruleset.len() + 5 + 4 + text.len() + numbers
            }
            Operation::UnsetRules { ruleset } => 4 + ruleset.len(),
            Operation::InsertRule { ruleset, text, .. } => 4 + ruleset.len() + 12 + 4 + text.len(),
            Operation::DeleteRule { ruleset, .. } => 4 + ruleset.len() + 4,
            Operation::ReplaceRule { ruleset, text, .. } => 4 + ruleset.len() + 8 + text.len(),
            _ => 0,
        }
    }

    pub(super) fn encode_rules(&self, out: &mut Encoder) {
        match self {
            Operation::SetRules { ruleset, format, text, numbers } => {
                out.bytes(ruleset.as_bytes());
                out.u8(format.code().expect("rules were read in the format"));
                out.u32(numbers.as_ref().map_or(0, |(_, next)| *next));
                out.bytes(text.as_bytes());
                let numbers = numbers.iter().flat_map(|(numbers, _)| numbers.iter());
                numbers.for_each(|number| out.u32(*number));
            }
            Operation::UnsetRules { ruleset } => out.bytes(ruleset.as_bytes()),
            Operation::InsertRule { ruleset, number, spot, text } => {
                out.bytes(ruleset.as_bytes());
                out.u32(*number);
                out.u32(spot.chain.0);
                out.u32(spot.next.unwrap_or(0));
                out.bytes(text.as_bytes());
            }
            Operation::DeleteRule { ruleset, number } => {
                out.bytes(ruleset.as_bytes());
                out.u32(*number);
            }
            Operation::ReplaceRule { ruleset, number, text } => {
                out.bytes(ruleset.as_bytes());
                out.u32(*number);
                out.bytes(text.as_bytes());
            }
            _ => {}
        }
    }
}

impl<'a> Decoder<'a> {
    pub(super) fn rules_operation(&mut self) -> Result<Operation<'a>, String> {
        let ruleset = self.text()?;
        Ok(match self.kind {
            32 => {
                let code = self.u8()?;
                let format = Format::with_code(code).ok_or_else(|| {
                    let last = Format::readable().filter_map(Format::code).max().unwrap_or(0);
                    self.wrong(&format!("format {code}; allowed: 0 to {last}"))
                })?;
                let next_number = self.u32()?;
                let text = self.text()?.into();
                let numbers = self.list(Decoder::u32)?;
                let numbers = (next_number > 0).then(|| (numbers.into(), next_number));
                Operation::SetRules { ruleset, format, text, numbers }
            }
            33 => Operation::UnsetRules { ruleset },
            34 => {
                let number = self.u32()?;
                let (chain, next) = (ChainId(self.u32()?), self.u32()?);
                let spot = Spot { chain, next: (next > 0).then_some(next) };
                Operation::InsertRule { ruleset, number, spot, text: self.text()? }
            }
            35 => Operation::DeleteRule { ruleset, number: self.u32()? },
            _ => {
                let number = self.u32()?;
                Operation::ReplaceRule { ruleset, number, text: self.text()? }
            }
        })
    }
}
