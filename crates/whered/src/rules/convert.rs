//! `whered rules convert`: rules in another format.
//!
//! Not for: the formats (`whered-rules`). What a format cannot express is an error that names the
//! line; then nothing is written.

use whered_rules::{Family, Ruleset};

use super::load::{self, Options};
use crate::cli::RulesConvertArguments;
use crate::enrich::output::write_whole;
use crate::outcome::{Failure, Outcome, complain};

/// Reads, then writes all or nothing.
pub(crate) fn run(arguments: &RulesConvertArguments) -> Result<Outcome, Failure> {
    let has_one_family = arguments.format.has_one_family();
    if arguments.family.is_some() && !has_one_family {
        return Err(Failure::new("--family is for --format iptables and --format ipset"));
    }
    let ruleset = match load::ruleset(&arguments.file, Options::from(&arguments.read)) {
        Ok(ruleset) => ruleset,
        Err(wrong) => return wrong.tell(),
    };
    let family = if has_one_family { family_of(&ruleset, arguments)? } else { Family::Ipv4 };
    match arguments.format.write(&ruleset, family) {
        Ok(written) => {
            write_whole(arguments.output.as_deref(), written.as_bytes())?;
            Ok(Outcome::Found)
        }
        Err(error) => load::Wrong::from(error).tell(),
    }
}

/// iptables and ipset are of one family each; what is not written is told.
fn family_of(ruleset: &Ruleset, arguments: &RulesConvertArguments) -> Result<Family, Failure> {
    let file = load::shown(&arguments.file);
    match (ruleset.family(), arguments.family.map(Family::from)) {
        (Some(own), Some(wanted)) if own != wanted => Err(Failure::Message(format!(
            "{file}: found --family {}: these rules are about {}",
            wanted.name(),
            own.name()
        ))),
        (_, Some(family)) | (Some(family), None) => Ok(family),
        (None, None) => {
            let other = "--family ipv6 writes those of the other family";
            complain(&format!("{file}: written for ipv4; {other}"));
            Ok(Family::Ipv4)
        }
    }
}
