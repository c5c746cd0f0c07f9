//! The run: for each zone all servers are started, each mix is driven in turn, and the bars of
//! issue 7 are stated.
//!
//! ```text
//! echo  whered  nsd  knot  gdnsd  bind  pdns     one core, one thread each; the driver on another
//! ```

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use whered_bench::dns::{
    self, Mix, Options as OwnOptions, Ours, Part, Queries, Shape, Target, geo, rounds,
};
use whered_bench::measure::{DayRecord, Section, pin_to_core};
use whered_server::dns::udp::Receiving;

use crate::bars::RECORD;
use crate::places;
use crate::servers;

const SERVER_CORE: usize = 0;
const DRIVER_CORE: usize = 1;
/// How many questions are put to two servers to see whether they choose alike.
const ASKED_ALIKE: usize = 20_000;
const RMEM_DEFAULT: &str = "/proc/sys/net/core/rmem_default";

/// What the command line says.
pub(crate) struct Options {
    own: OwnOptions,
    rivals: Vec<String>,
    record: Option<PathBuf>,
    date: String,
}

impl Options {
    /// Reads `--name value` pairs.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            own: OwnOptions {
                binary: PathBuf::from("target/release/whered"),
                bench_binary: PathBuf::from("target/release/whered-bench"),
                scratch: std::env::temp_dir(),
                parts: Part::ALL.to_vec(),
                shapes: vec![Shape::Small, Shape::Large],
                city: None,
                mixes: Mix::ALL.to_vec(),
                queries: 1 << 20,
                rounds: 7,
                time: Duration::from_millis(500),
                server_core: SERVER_CORE,
                driver_core: DRIVER_CORE,
                seed: 1,
            },
            rivals: servers::NAMES.map(str::to_owned).to_vec(),
            record: None,
            date: "undated".to_owned(),
        };
        while let Some(name) = arguments.next() {
            let value = arguments.next().unwrap_or_default();
            let odd = || format!("\"{name} {value}\"; the head of main.rs says what is allowed");
            match name.as_str() {
                "--whered" => options.own.binary = value.into(),
                "--whered-bench" => options.own.bench_binary = value.into(),
                "--scratch" => options.own.scratch = value.into(),
                "--record" => options.record = Some(value.into()),
                "--city" => options.own.city = Some(value.into()),
                "--date" => options.date = value,
                "--queries" => options.own.queries = value.parse().map_err(|_| odd())?,
                "--rounds" => options.own.rounds = value.parse().map_err(|_| odd())?,
                "--seconds" => {
                    let seconds: f64 = value.parse().map_err(|_| odd())?;
                    options.own.time = Duration::try_from_secs_f64(seconds).map_err(|_| odd())?;
                }
                "--only" => options.rivals = value.split(',').map(str::to_owned).collect(),
                "--parts" => {
                    let parts = value.split(',').map(|name| Part::from_name(name).ok_or_else(odd));
                    options.own.parts = parts.collect::<Result<_, _>>()?;
                }
                "--zones" => {
                    let shape = |name: &str| match name {
                        "small" => Ok(Shape::Small),
                        "large" => Ok(Shape::Large),
                        _ => Err(odd()),
                    };
                    options.own.shapes = value.split(',').map(shape).collect::<Result<_, _>>()?;
                }
                "--mixes" => {
                    let mix = |name: &str| Mix::ALL.into_iter().find(|mix| mix.name() == name);
                    let mixes = value.split(',').map(|name| mix(name).ok_or_else(odd));
                    options.own.mixes = mixes.collect::<Result<_, _>>()?;
                }
                _ => return Err(odd()),
            }
        }
        if options.own.queries < 64 || options.own.rounds == 0 || options.own.time.is_zero() {
            return Err("allowed: 64 queries and more, 1 round and more, some time".into());
        }
        options.own.scratch.push(format!("whered-versus-dns-{}", std::process::id()));
        Ok(options)
    }
}

/// Measures and prints, and keeps a record where that is asked for.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let default = raise_buffers();
    let measured = measure(options);
    if let Some(before) = default {
        // The system's own value again; it was readable and writable a moment ago.
        let _ = fs::write(RMEM_DEFAULT, before);
    }
    if measured.is_ok() {
        // What is left there is nobody's data; after a failure the logs are wanted.
        let _ = fs::remove_dir_all(&options.own.scratch);
    }
    let mut record = measured?;
    println!("{}", record.to_markdown());
    match &options.record {
        Some(folder) => record.write_into(folder),
        None => Ok(()),
    }
}

fn measure(options: &Options) -> Result<DayRecord, String> {
    let own = &options.own;
    pin_to_core(own.driver_core).map_err(|error| format!("core {}: {error}", own.driver_core))?;
    let mut record = DayRecord::new(RECORD, &options.date);
    // The rivals have ended then: the other parts have the machine for themselves.
    let mut beside = Vec::new();
    if own.parts.contains(&Part::Answers) {
        beside.extend(compare(options)?);
    }
    if own.parts.contains(&Part::Geo) {
        beside.extend(compare_places(options)?);
    }
    if own.parts.contains(&Part::Signed) {
        beside.extend(compare_signed(options)?);
    }
    let with_rivals = [Part::Answers, Part::Geo, Part::Signed];
    let parts = own.parts.iter().copied().filter(|part| !with_rivals.contains(part)).collect();
    let report = dns::run(&OwnOptions { parts, ..own.clone() }, &|line| eprintln!("{line}"))?;
    for section in beside.into_iter().chain(report.sections) {
        record.put(section.measured_with(&report.settings));
    }
    Ok(record)
}

/// Every zone and mix with all rivals.
fn compare(options: &Options) -> Result<Vec<Section>, String> {
    let own = &options.own;
    let mut sections = Vec::new();
    for &shape in &own.shapes {
        let mut targets = vec![ours(own).start(shape)?];
        for name in &options.rivals {
            eprintln!("starting {name}, {}", shape.name());
            targets.push(servers::start(name, &own.scratch, shape, own.server_core)?);
        }
        for &mix in &own.mixes {
            let queries = Queries::new(shape, mix, own.queries, own.seed);
            sections.push(in_turn(own, shape, mix, &targets.iter().collect::<Vec<_>>(), &queries)?);
        }
    }
    Ok(sections)
}

/// One mix, with the echo before all; the first target is ours.
fn in_turn(
    own: &OwnOptions,
    shape: Shape,
    mix: Mix,
    targets: &[&Target],
    queries: &Queries,
) -> Result<Section, String> {
    eprintln!("{}, {}", shape.name(), mix.name());
    let size = rounds::reply_size(targets[0], queries)?;
    let echo = ours(own).start_echo(shape, size)?;
    let all: Vec<&Target> = std::iter::once(&echo).chain(targets.iter().copied()).collect();
    let figures = rounds::run(&all, queries, own.rounds, own.time)?;
    Ok(dns::section_of_mix(shape, mix, size, &figures))
}

/// Answers by place with those rivals that give any, after a look whether they give the same.
fn compare_places(options: &Options) -> Result<Vec<Section>, String> {
    let own = &options.own;
    let mut sections = Vec::new();
    geo::database_file(&own.scratch, own.city.as_deref())?;
    let mut targets = vec![ours(own).start(Shape::Geo)?];
    for name in options.rivals.iter().filter(|name| places::NAMES.contains(&name.as_str())) {
        eprintln!("starting {name}, {}", Shape::Geo.name());
        targets.push(places::start(name, &own.scratch, Shape::Geo, own.server_core)?);
    }
    for mix in Mix::GEO {
        let queries = Queries::new(Shape::Geo, mix, own.queries, own.seed);
        let able = |target: &&Target| places::is_able(&target.name, mix);
        let able: Vec<&Target> = targets.iter().filter(able).collect();
        if mix != Mix::Hit {
            sections.push(geo::compare(&able, &queries, mix, ASKED_ALIKE)?);
        }
        sections.push(in_turn(own, Shape::Geo, mix, &able, &queries)?);
    }
    Ok(sections)
}

/// Signed zones beside NSD and Knot, and signed answers by place beside Knot and PowerDNS; in both,
/// beside our own answers without signatures. All are asked with DO.
fn compare_signed(options: &Options) -> Result<Vec<Section>, String> {
    let own = &options.own;
    let mut sections = Vec::new();
    let with = |names: &'static [&str]| {
        options.rivals.iter().filter(|name| names.contains(&name.as_str()))
    };
    for shape in own.shapes.iter().map(|shape| shape.signed()) {
        let mut targets = vec![ours(own).start(shape)?, unsigned(own, shape)?];
        for name in with(&["nsd", "knot"]) {
            eprintln!("starting {name}, {}", shape.name());
            targets.push(servers::start(name, &own.scratch, shape, own.server_core)?);
        }
        for &mix in &own.mixes {
            let queries = Queries::new(shape, mix, own.queries, own.seed);
            sections.push(signed_section(own, shape, mix, &targets, &queries)?);
        }
    }
    let shape = Shape::SignedGeo;
    geo::database_file(&own.scratch, own.city.as_deref())?;
    let mut targets = vec![ours(own).start(shape)?, unsigned(own, shape)?];
    for name in with(&places::WITH_KEYS) {
        eprintln!("starting {name}, {}", shape.name());
        targets.push(places::start(name, &own.scratch, shape, own.server_core)?);
    }
    for mix in [Mix::Hit, Mix::Area] {
        let queries = Queries::new(shape, mix, own.queries, own.seed);
        if mix != Mix::Hit {
            let all: Vec<&Target> = targets.iter().collect();
            sections.push(geo::compare(&all, &queries, mix, ASKED_ALIKE)?);
        }
        sections.push(signed_section(own, shape, mix, &targets, &queries)?);
    }
    Ok(sections)
}

/// One mix, after a look whether all but the unsigned server sign their answers.
fn signed_section(
    own: &OwnOptions,
    shape: Shape,
    mix: Mix,
    targets: &[Target],
    queries: &Queries,
) -> Result<Section, String> {
    for target in targets.iter().filter(|target| target.name != dns::UNSIGNED) {
        dns::check_signed(target, queries)?;
    }
    in_turn(own, shape, mix, &targets.iter().collect::<Vec<_>>(), queries)
}

/// Our server with the zone that has no signatures.
fn unsigned(own: &OwnOptions, shape: Shape) -> Result<Target, String> {
    let mut target = ours(own).start(shape.unsigned())?;
    target.name = dns::UNSIGNED.to_owned();
    Ok(target)
}

fn ours(own: &OwnOptions) -> Ours<'_> {
    Ours {
        binary: &own.binary,
        bench_binary: &own.bench_binary,
        folder: &own.scratch,
        threads: 1,
        receiving: Receiving::default(),
        cores: std::slice::from_ref(&own.server_core),
        more: &[],
    }
}

/// Gives sockets of servers that do not ask for a size 4 MB; what it was before.
fn raise_buffers() -> Option<String> {
    let before = fs::read_to_string(RMEM_DEFAULT).ok()?;
    match fs::write(RMEM_DEFAULT, "4194304") {
        Ok(()) => Some(before),
        Err(error) => {
            eprintln!("{RMEM_DEFAULT} stays as it is ({error}): Knot and PowerDNS may lose more");
            None
        }
    }
}
