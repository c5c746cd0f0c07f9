//! The commands: flags into options, reports onto the terminal.
//!
//! Not for: what is made and how it is measured (the library).

mod feed;
pub(crate) mod flags;
mod outcome;

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use whered_bench::data::{self, Made, Scale};
use whered_bench::measure::write_result;
use whered_bench::rules::bench as rules_bench;
use whered_bench::{dns as bench_dns, faults, geo, lookup, sync};
use whered_server::dns::udp::{Calls, Receiving};

use feed::feed;
use flags::{
    BenchCommand, BenchDataArguments, BenchDnsArguments, BenchFaultsArguments, BenchGeoArguments,
    BenchLookupArguments, BenchRulesArguments, BenchSyncArguments, Cli, DataScale, ReportFormat,
    SetKind, WorldChoice,
};
pub(crate) use outcome::{Failure, Outcome, complain};

/// The programs that a command may start.
struct Programs {
    /// `whered`.
    server: PathBuf,
    /// `whered-bench`, this program: the echo, the bare receiver, and itself in a namespace.
    bench: PathBuf,
}

impl Programs {
    /// `whered` is the named file, or the one beside this program.
    fn find(named: Option<PathBuf>) -> Result<Programs, Failure> {
        let bench = std::env::current_exe()
            .map_err(|error| Failure::Message(format!("this program's own file: {error}")))?;
        let server = named.unwrap_or_else(|| bench.with_file_name("whered"));
        Ok(Programs { server, bench })
    }
}

/// Runs the command of the command line.
pub(crate) fn run(cli: Cli) -> Result<Outcome, Failure> {
    let programs = Programs::find(cli.whered)?;
    if cli.command.starts_servers() && !programs.server.is_file() {
        let text = "there is no such program; --whered FILE names it, and \
                    `cargo build --package whered` builds it";
        return Err(Failure::file(&programs.server, text));
    }
    match cli.command {
        BenchCommand::Data(arguments) => data(&arguments),
        BenchCommand::Lookup(arguments) => lookup(arguments),
        BenchCommand::Geo(arguments) => geo(&arguments, programs),
        BenchCommand::Dns(arguments) => dns(&arguments, programs),
        BenchCommand::Feed(arguments) => feed(&arguments, &programs),
        BenchCommand::Sync(arguments) => sync(&arguments, programs),
        BenchCommand::Faults(arguments) => faults(arguments, programs),
        BenchCommand::Rules(arguments) => rules(arguments),
    }
}

/// `whered-bench data --out DIR`.
fn data(arguments: &BenchDataArguments) -> Result<Outcome, Failure> {
    let folder = &arguments.out;
    fs::create_dir_all(folder).map_err(|error| Failure::file(folder, error))?;
    let scale = match arguments.scale {
        DataScale::Full => Scale::Full,
        DataScale::Small => Scale::Small,
    };
    for (name, make) in [("city.mmdb", data::city as Maker), ("asn.mmdb", data::asn)] {
        let path = folder.join(name);
        let made = make(arguments.seed, scale).map_err(|error| Failure::file(&path, error))?;
        write_whole(&path, made.database.as_bytes())?;
        writeln!(
            io::stdout(),
            "{}: {} IPv4 and {} IPv6 networks, {} records, {} bytes",
            path.display(),
            made.networks4,
            made.networks6,
            made.records,
            made.database.size_bytes()
        )?;
    }
    Ok(Outcome::Found)
}

/// Writes a file under another name and renames it, so that a reader never sees half of it.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let unfinished = path.with_extension("new");
    let written = fs::write(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, path));
    written.map_err(|error| Failure::file(path, error))
}

/// Makes one of the databases.
type Maker = fn(u64, Scale) -> Result<Made, whered_mmdb::MmdbError>;

/// `whered-bench lookup --db FILE`.
fn lookup(arguments: BenchLookupArguments) -> Result<Outcome, Failure> {
    let report = lookup::run(&lookup::Options {
        database: arguments.db,
        addresses: arguments.addresses,
        round_size: arguments.round,
        threads: arguments.threads,
        core: arguments.core,
        seed: arguments.seed,
    })
    .map_err(Failure::Message)?;
    match arguments.format {
        ReportFormat::Table => write!(io::stdout(), "{}", report.to_text())?,
        ReportFormat::Json => writeln!(io::stdout(), "{}", report.to_json())?,
    }
    Ok(Outcome::Found)
}

/// `whered-bench geo --points N`.
fn geo(arguments: &BenchGeoArguments, programs: Programs) -> Result<Outcome, Failure> {
    if arguments.list {
        return list_geo();
    }
    let scratch = std::env::temp_dir().join(format!("whered-bench-{}", std::process::id()));
    let report =
        geo::run(&geo_options(arguments, programs, scratch.clone()), &|line| complain(line));
    // What is left there is nobody's data, and it may never have been made.
    let _ = fs::remove_dir_all(&scratch);
    let report = report.map_err(Failure::Message)?;
    write!(io::stdout(), "{}", report.to_text())?;
    if let Some(path) = &arguments.json {
        let text = format!("{}\n", report.to_json());
        fs::write(path, text).map_err(|error| Failure::file(path, error))?;
    }
    Ok(Outcome::Found)
}

/// `whered-bench dns`.
fn dns(arguments: &BenchDnsArguments, programs: Programs) -> Result<Outcome, Failure> {
    if let Some(address) = arguments.echo {
        let calls = match arguments.udp_calls.as_str() {
            "many" => Calls::Many,
            "single" => Calls::Single,
            other => {
                let text = format!("--udp-calls {other}; allowed: many, single");
                return Err(Failure::Message(text));
            }
        };
        let receiving = Receiving { batch: arguments.udp_batch, calls };
        bench_dns::echo::serve(address, receiving, arguments.echo_size)
            .map_err(|error| Failure::Message(error.to_string()))?;
        return Ok(Outcome::Found);
    }
    let scratch = std::env::temp_dir().join(format!("whered-bench-dns-{}", std::process::id()));
    let options = dns_options(arguments, programs, scratch.clone())?;
    let report = bench_dns::run(&options, &|line| complain(line));
    // What is left there is nobody's data, and it may never have been made.
    let _ = fs::remove_dir_all(&scratch);
    let report = report.map_err(Failure::Message)?;
    write!(io::stdout(), "{}", report.to_markdown())?;
    if let Some(path) = &arguments.json {
        let text = format!("{}\n", report.to_json());
        fs::write(path, text).map_err(|error| Failure::file(path, error))?;
    }
    Ok(Outcome::Found)
}

fn dns_options(
    arguments: &BenchDnsArguments,
    programs: Programs,
    scratch: PathBuf,
) -> Result<bench_dns::Options, Failure> {
    use bench_dns::{Mix, Part, Shape};
    let part = |name: &String| {
        let allowed = Part::ALL.map(Part::name).join(", ");
        Part::from_name(name)
            .ok_or_else(|| Failure::Message(format!("--parts {name}; allowed: {allowed}")))
    };
    let shape = |name: &String| match name.as_str() {
        "small" => Ok(Shape::Small),
        "large" => Ok(Shape::Large),
        other => Err(Failure::Message(format!("--zones {other}; allowed: small, large"))),
    };
    let mut parts: Vec<_> = arguments.parts.iter().map(part).collect::<Result<_, _>>()?;
    let mut shapes: Vec<_> = arguments.zones.iter().map(shape).collect::<Result<_, _>>()?;
    if arguments.no_net {
        parts = vec![Part::NoNet];
    } else if parts.is_empty() {
        parts = Part::ALL.to_vec();
    }
    if shapes.is_empty() {
        shapes = vec![Shape::Small, Shape::Large];
    }
    if arguments.queries < 64 || arguments.rounds == 0 || arguments.seconds <= 0.0 {
        let text = "--queries from 64 on, --rounds from 1 on, --seconds above 0";
        return Err(Failure::Message(text.to_owned()));
    }
    Ok(bench_dns::Options {
        binary: programs.server,
        bench_binary: programs.bench,
        scratch,
        parts,
        shapes,
        city: arguments.city.clone(),
        mixes: Mix::ALL.to_vec(),
        queries: arguments.queries,
        rounds: arguments.rounds,
        time: Duration::from_secs_f64(arguments.seconds),
        server_core: arguments.server_core,
        driver_core: arguments.driver_core,
        seed: arguments.seed,
    })
}

/// `whered-bench faults`.
fn faults(arguments: BenchFaultsArguments, programs: Programs) -> Result<Outcome, Failure> {
    let kinds = if arguments.kinds.is_empty() {
        faults::Kind::ALL.to_vec()
    } else {
        let kinds = arguments.kinds.iter().map(|name| {
            let allowed = faults::Kind::ALL.map(faults::Kind::name).join(", ");
            faults::Kind::from_name(name)
                .ok_or_else(|| Failure::Message(format!("--kinds {name}; allowed: {allowed}")))
        });
        kinds.collect::<Result<_, _>>()?
    };
    if !(0.0..=100_000.0).contains(&arguments.minutes) {
        let text = format!("--minutes {}; allowed: 0 to 100000", arguments.minutes);
        return Err(Failure::Message(text));
    }
    let folder = format!("whered-faults-{}", std::process::id());
    let parent = arguments.scratch.unwrap_or_else(std::env::temp_dir);
    let options = faults::Options {
        binary: programs.server,
        scratch: parent.join(folder),
        seed: arguments.seed.unwrap_or_else(|| RandomState::new().hash_one(0_u8) >> 16),
        kinds,
        time: Duration::from_secs_f64(arguments.minutes * 60.0),
        rounds: arguments.rounds,
    };
    let tallies = faults::run(&options, &|line| complain(line)).map_err(Failure::Message)?;
    for tally in &tallies {
        writeln!(io::stdout(), "{}", tally.to_line())?;
        for note in &tally.notes {
            writeln!(io::stdout(), "{}: {note}", tally.kind)?;
        }
    }
    if let (Some(folder), Some(date)) = (arguments.record, arguments.date) {
        let result = faults::to_json(&options, &tallies, &date);
        write_result(&folder, "faults", &date, &result).map_err(Failure::Message)?;
    }
    Ok(Outcome::Found)
}

/// `whered-bench sync`: found if no packet slipped through.
fn sync(arguments: &BenchSyncArguments, programs: Programs) -> Result<Outcome, Failure> {
    if !sync::is_private().map_err(Failure::Message)? {
        return in_own_namespace(&programs.bench);
    }
    let scratch = std::env::temp_dir().join(format!("whered-sync-{}", std::process::id()));
    let options = sync::Options {
        binary: programs.server,
        scratch: scratch.clone(),
        kind: match arguments.kind {
            SetKind::Nft => sync::Kind::Nft,
            SetKind::Ipset => sync::Kind::Ipset,
        },
        members: arguments.members,
        rate: arguments.rate,
        seconds: arguments.seconds,
        seed: arguments.seed,
    };
    let report = sync::run(&options);
    // The list is nobody's, and may never have been written.
    let _ = fs::remove_dir_all(&scratch);
    let report = report.map_err(Failure::Message)?;
    writeln!(io::stdout(), "{}\n{}", sync::HEADER, report.to_row())?;
    Ok(if report.is_tight() { Outcome::Found } else { Outcome::NotFound })
}

/// Runs this command again in a network namespace of its own.
fn in_own_namespace(program: &Path) -> Result<Outcome, Failure> {
    let mut command = std::process::Command::new("unshare");
    command.arg("-n").arg(program).args(std::env::args_os().skip(1));
    let status = command
        .status()
        .map_err(|error| Failure::Message(format!("the program 'unshare': {error}")))?;
    match status.code() {
        Some(0) => Ok(Outcome::Found),
        Some(1) => Ok(Outcome::NotFound),
        _ => Ok(Outcome::Failed),
    }
}

/// `whered-bench rules`.
fn rules(arguments: BenchRulesArguments) -> Result<Outcome, Failure> {
    if let Some(core) = arguments.core {
        whered_bench::measure::pin_to_core(core)
            .map_err(|error| Failure::Message(format!("--core {core}: {error}")))?;
    }
    let settings = [
        ("addresses", arguments.addresses.to_string()),
        ("packets", arguments.packets.to_string()),
        ("rounds", arguments.rounds.to_string()),
        ("seed", arguments.seed.to_string()),
    ];
    let options = rules_bench::Options {
        only: (!arguments.only.is_empty()).then(|| arguments.only.join(",")),
        addresses: arguments.addresses.max(1),
        packets: arguments.packets.max(1),
        rounds: arguments.rounds.max(1),
        seed: arguments.seed,
        plan_seconds: arguments.plan_seconds,
        data: arguments.data,
        classbench: arguments.classbench,
        parts: None,
    };
    let show = |text: &str| complain(text.lines().next().unwrap_or_default());
    let report =
        rules_bench::run(&options, &rules_bench::NoRivals, &show).map_err(Failure::Message)?;
    write!(io::stdout(), "{}", report.to_markdown("Rules and sets as they grow", &settings))?;
    if let Some(path) = arguments.json {
        let text = format!("{:#}\n", report.to_json(&settings));
        fs::write(&path, text).map_err(|error| Failure::file(&path, error))?;
    }
    Ok(Outcome::Found)
}

fn geo_options(
    arguments: &BenchGeoArguments,
    programs: Programs,
    scratch: PathBuf,
) -> geo::Options {
    geo::Options {
        points: arguments.points,
        seed: arguments.seed,
        world: match arguments.world {
            WorldChoice::Mapped => geo::World::Mapped,
            WorldChoice::Clustered => geo::World::Clustered,
        },
        is_in_order: arguments.in_order,
        classes: arguments.classes.clone(),
        rounds: arguments.rounds,
        seconds: arguments.seconds,
        server_core: arguments.server_core,
        driver_core: arguments.driver_core,
        server: arguments.server.zip(arguments.pid),
        binary: programs.server,
        scratch,
    }
}

fn list_geo() -> Result<Outcome, Failure> {
    let classes = geo::CLASSES.iter().map(|class| (class.name, class.about));
    for (name, about) in classes.chain(geo::SCENARIOS) {
        writeln!(io::stdout(), "{name:<24} {about}")?;
    }
    Ok(Outcome::Found)
}
