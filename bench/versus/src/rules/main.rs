//! Ordered rules and sets as they grow: whered beside DPDK's rte_acl, the tree of 2007 in C and the
//! kernel's rules, one run, the same questions, equal answers.
//!
//! ```text
//! whered-versus-rules [--only WORD,WORD] [--addresses N] [--packets N] [--rounds N] [--core N]
//!                     [--seed N] [--plan-seconds N] [--pages small|advised|huge] [--data DIR]
//!                     [--classbench DIR]
//!                     [--parts DIR] [--record DIR --date YYYY-MM-DD]
//! ```
//!
//! Not for routes (`whered-versus-sets`). What is measured, and how, is
//! `whered_bench::rules::bench`'s; the README says what favours which side. With `--parts`,
//! finished sections are kept in a folder and not measured again, so that a long run may be made in
//! pieces.

mod acl;
mod rivals;

use acl::Pages;
use std::path::PathBuf;
use std::process::ExitCode;
use whered_bench::measure::pin_to_core;
use whered_bench::rules::bench::{Options, Setting, run};

fn main() -> ExitCode {
    match Arguments::parse(std::env::args().skip(1)).and_then(|arguments| measure(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("whered-versus-rules: {message}");
            ExitCode::from(2)
        }
    }
}

/// What the command line says.
struct Arguments {
    options: Options,
    core: Option<usize>,
    pages: Pages,
    record: Option<PathBuf>,
    date: String,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let mut arguments = Arguments {
            options: Options::default(),
            core: None,
            pages: Pages::Advised,
            record: None,
            date: "undated".to_owned(),
        };
        let options = &mut arguments.options;
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("{word} wants a value"))?;
            let number =
                || value.parse::<usize>().map_err(|_| format!("{word}: no number: {value}"));
            match word.as_str() {
                "--only" => options.only = Some(value),
                "--addresses" => options.addresses = number()?.max(1),
                "--packets" => options.packets = number()?.max(1),
                "--rounds" => options.rounds = number()?.max(1),
                "--seed" => options.seed = number()? as u64,
                "--plan-seconds" => options.plan_seconds = number()? as u64,
                "--data" => options.data = Some(value.into()),
                "--classbench" => options.classbench = Some(value.into()),
                "--parts" => options.parts = Some(value.into()),
                "--core" => arguments.core = Some(number()?),
                "--pages" => arguments.pages = Pages::named(&value)?,
                "--record" => arguments.record = Some(value.into()),
                "--date" => arguments.date = value,
                _ => return Err(format!("no such option: {word}")),
            }
        }
        Ok(arguments)
    }

    fn settings(&self) -> Vec<Setting> {
        let options = &self.options;
        vec![
            ("addresses", options.addresses.to_string()),
            ("packets", options.packets.to_string()),
            ("rounds", options.rounds.to_string()),
            ("seed", options.seed.to_string()),
            ("batches", "64 in arrival order, on all sides".to_owned()),
            ("clock", "processor time of the one thread".to_owned()),
            ("DPDK", acl::version()),
            ("DPDK's pages", self.pages.about().to_owned()),
            ("our compiler flags", "cargo --release: opt-level 3, lto thin, any x86-64".to_owned()),
            ("the tree's", "cc -O3 -march=native; DPDK as Debian builds it".to_owned()),
        ]
    }
}

fn measure(arguments: &Arguments) -> Result<(), String> {
    if let Some(core) = arguments.core {
        pin_to_core(core).map_err(|error| format!("core {core}: {error}"))?;
    }
    acl::start(arguments.pages)?;
    let report = run(&arguments.options, &rivals::Dpdk, &|text| eprintln!("{text}"))?;
    let settings = arguments.settings();
    println!("{}", report.to_markdown("Rules and sets as they grow, beside rivals", &settings));
    match &arguments.record {
        Some(folder) => report.write(folder, &arguments.date, &settings).map(drop),
        None => Ok(()),
    }
}
