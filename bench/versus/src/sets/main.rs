//! Prefix sets beside their rivals: one run, the same addresses, short rounds in turn, equal sums.
//!
//! Not for sets that change (`whered-own-bench`'s `sets`). The README says how to run it and what
//! favours which side.
//!
//! ```text
//! whered-versus-sets [--addresses N] [--rounds N] [--core N] [--seed N] [--only WORD]
//!                    [--small-pages] [--record DIR --date YYYY-MM-DD]
//! ```

mod ours;
mod record;
mod rivals;
mod rounds;

use rounds::{Engine, Table};
use std::path::PathBuf;
use std::process::ExitCode;
use whered_bench::measure::pin_to_core;
use whered_bench::sets;
use whered_ip::CompiledForm;

/// What the command line says.
struct Options {
    addresses: usize,
    rounds: usize,
    core: usize,
    seed: u64,
    only: Option<String>,
    #[cfg_attr(not(feature = "dpdk"), allow(dead_code, reason = "DPDK's pages"))]
    small_pages: bool,
    record: Option<PathBuf>,
    date: String,
}

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            addresses: 40_000_000,
            rounds: 20,
            core: 0,
            seed: 1,
            only: None,
            small_pages: false,
            record: None,
            date: "undated".to_owned(),
        };
        while let Some(word) = words.next() {
            if word == "--small-pages" {
                options.small_pages = true;
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{word} wants a value"))?;
            let number =
                || value.parse::<usize>().map_err(|_| format!("{word}: no number: {value}"));
            match word.as_str() {
                "--addresses" => options.addresses = number()?,
                "--rounds" => options.rounds = number()?.max(1),
                "--core" => options.core = number()?,
                "--seed" => options.seed = number()? as u64,
                "--only" => options.only = Some(value),
                "--record" => options.record = Some(value.into()),
                "--date" => options.date = value,
                _ => return Err(format!("no such option: {word}")),
            }
        }
        Ok(options)
    }

    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }

    fn run<A>(
        &self,
        (name, note): (&str, String),
        entries: usize,
        engines: &[Engine<A>],
        addresses: &[A],
    ) -> Result<Table, String> {
        let rows = rounds::run(engines, addresses, self.rounds)?;
        let table = Table { name: name.to_owned(), note, entries, rows };
        eprintln!("{}", record::table_to_markdown(&table));
        Ok(table)
    }
}

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("compare: {message}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    pin_to_core(options.core).map_err(|error| format!("core {}: {error}", options.core))?;
    #[cfg(feature = "dpdk")]
    let dpdk = rivals::start(!options.small_pages, 3000)?;
    #[cfg(not(feature = "dpdk"))]
    let dpdk = "not built in".to_owned();
    let mut tables = Vec::new();
    for power in 4..=14 {
        let name = format!("cidrs-{}", 1 << power);
        if options.wants(&name) {
            tables.push(cidrs(options, &name, 1 << power)?);
        }
    }
    if options.wants("full-table4") {
        tables.push(full_table(options)?);
    }
    if options.wants("blocklist") {
        tables.push(blocklist(options)?);
    }
    if options.wants("full-table6") {
        tables.push(full_table6(options)?);
    }
    record::write(options.record.as_deref(), &options.date, &settings(options, dpdk), &tables)
}

fn settings(options: &Options, dpdk: String) -> Vec<(&'static str, String)> {
    let pages = if options.small_pages { "4 KiB" } else { "madvise(MADV_HUGEPAGE), as ours" };
    vec![
        ("addresses", options.addresses.to_string()),
        ("rounds", options.rounds.to_string()),
        ("core", options.core.to_string()),
        ("seed", options.seed.to_string()),
        ("batches", "64 addresses in arrival order".to_owned()),
        ("dpdk", dpdk),
        ("dpdk's pages", pages.to_owned()),
        ("our compiler flags", "cargo --release: opt-level 3, lto thin, any x86-64".to_owned()),
        ("the rivals' loops", "cc -O3 -march=native; DPDK as Debian builds it".to_owned()),
    ]
}

/// Membership in random prefixes, with uniformly random addresses: the question of 2007.
fn cidrs(options: &Options, name: &str, count: usize) -> Result<Table, String> {
    let prefixes = sets::cidrs(count, options.seed);
    let members: Vec<_> = prefixes.iter().map(|prefix| (*prefix, 1)).collect();
    let (mut engines, note) = ours::compiled4(&members, None);
    engines.extend(rivals::seed_trees(&prefixes));
    #[cfg(feature = "dpdk")]
    engines.push(rivals::fib(&members, 2, rivals::has_vectors())?);
    let addresses = sets::uniform(options.addresses, options.seed + 1);
    options.run((name, note), count, &engines, &addresses)
}

/// Longest match in a table like the global one; the answers are next hops.
fn full_table(options: &Options) -> Result<Table, String> {
    let prefixes = sets::full_table(950_000, options.seed);
    let routes: Vec<_> = with_hops(&prefixes, 30_000, options.seed);
    let (mut engines, note) = ours::compiled4(&routes, None);
    engines.extend(ours::compiled4(&routes, Some(CompiledForm::UpperTable)).0);
    #[cfg(feature = "dpdk")]
    {
        engines.push(rivals::fib(&routes, 1, false)?);
        engines.push(rivals::fib(&routes, 2, rivals::has_vectors())?);
        if rivals::has_vectors() {
            engines.push(rivals::fib(&routes, 1, true)?);
        }
        engines.push(rivals::lpm(&routes)?);
    }
    engines.extend(ours::crates4(&routes));
    let addresses = sets::members4(&prefixes, 0.5, options.addresses, options.seed + 1);
    options.run(("full-table4", note), prefixes.len(), &engines, &addresses)
}

/// Membership in a list of half a million, half of the addresses members.
fn blocklist(options: &Options) -> Result<Table, String> {
    let prefixes = sets::blocklist(500_000, options.seed);
    let members: Vec<_> = prefixes.iter().map(|prefix| (*prefix, 1)).collect();
    let (mut engines, note) = ours::compiled4(&members, None);
    #[cfg(feature = "dpdk")]
    // rte_lpm seeks a free group from the first one on: 400,000 of them take it hours.
    engines.push(rivals::fib(&members, 2, rivals::has_vectors())?);
    engines.extend(ours::crates4(&members));
    let addresses = sets::members4(&prefixes, 0.5, options.addresses, options.seed + 1);
    options.run(("blocklist", note), prefixes.len(), &engines, &addresses)
}

/// Longest match in a table like the global one of IPv6, member addresses.
fn full_table6(options: &Options) -> Result<Table, String> {
    let prefixes = sets::full_table6(180_000, options.seed);
    let routes: Vec<_> = with_hops(&prefixes, 30_000, options.seed);
    #[cfg_attr(not(feature = "dpdk"), allow(unused_mut, reason = "rivals are added"))]
    let (mut engines, note) = ours::compiled6(&routes);
    #[cfg(feature = "dpdk")]
    engines.push(rivals::fib6(&routes, 2, rivals::has_vectors())?);
    let addresses = sets::members6(&prefixes, options.addresses / 2, options.seed + 1);
    let addresses: Vec<[u8; 16]> = addresses.into_iter().map(u128::to_be_bytes).collect();
    options.run(("full-table6", note), prefixes.len(), &engines, &addresses)
}

/// Gives each prefix one of `hops` next hops.
fn with_hops<P: Copy>(prefixes: &[P], hops: u64, seed: u64) -> Vec<(P, u32)> {
    let mut random = whered_bench::Random::new(seed + 2);
    prefixes.iter().map(|prefix| (*prefix, 1 + random.below(hops) as u32)).collect()
}
