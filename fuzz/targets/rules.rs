//! Any text as rules in each format: a ruleset or an error of one line, never a panic; and what is
//! taken in any format can be written in our own and reads back as many rules.
//!
//! Not for: inputs that are right; the tests have those.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whered_rules::check::{Effort, check};
use whered_rules::normal::{NoPlaces, NormalForm, Options};
use whered_rules::{
    Family, Packet, RulesError, Ruleset, cases, classbench, flat, iptables, naive, nft, text,
};

fuzz_target!(|bytes: &[u8]| {
    let Some((&format, rest)) = bytes.split_first() else { return };
    let Ok(input) = std::str::from_utf8(rest) else { return };
    let read: Result<Ruleset, RulesError> = match format % 5 {
        0 => text::read("fuzz", input),
        1 => iptables::read("fuzz", input, iptables::Options::default()),
        2 => nft::read("fuzz", input, nft::Options::default()),
        3 => classbench::read("fuzz", input, classbench::Flags::Read),
        _ => match cases::read("fuzz", input) {
            Ok(_) => return,
            Err(error) => Err(error),
        },
    };
    match read {
        Ok(ruleset) => use_it(&ruleset),
        Err(error) => {
            assert!(!error.problems().is_empty());
            assert!(!error.to_string().contains('\n'), "an error is one line: {error:?}");
        }
    }
});

/// Everything that can be done with a ruleset.
fn use_it(ruleset: &Ruleset) {
    let written = text::write(ruleset);
    let again = text::read("again", &written).expect("what we write is good");
    assert_eq!(again.rules().len(), ruleset.rules().len(), "{written}");
    let packet = Packet { protocol: 6, destination_port: 80, ..Packet::default() };
    let expected = naive::evaluate(ruleset, &packet, &naive::NoSets);
    let options = Options { entries_limit: 1 << 12, count_passes: true, fold_places: true };
    if let Ok(form) = NormalForm::build(ruleset, Family::Ipv4, &NoPlaces, options) {
        assert_eq!(form.evaluate(&packet, &naive::NoSets), expected, "{written}");
    }
    let effort = Effort { overlaps_for_each: 2, steps_for_each: 1000, steps: 10_000 };
    if ruleset.rules().len() < 200 {
        let _cannot_be_flattened = check(ruleset, &NoPlaces, effort).is_err();
    }
    let _not_in_iptables = iptables::write(ruleset, Family::Ipv4).is_err();
    let _not_in_nft = nft::write(ruleset).is_err();
    for counters in [false, true] {
        let options = flat::Options { counters, ..flat::Options::default() };
        let _not_compiled = flat::compile(ruleset, &NoPlaces, options).is_err();
    }
}
