//! The run: options, both servers, every class and scenario.
//!
//! Not for what is wanted of the results (`bars`) and how they are written down (`record`).
//!
//! Both servers are in memory at once and share a core: while one answers the other one waits.

use crate::record::Record;
use crate::redis::Redis;
use serde_json::json;
use std::path::PathBuf;
use whered_bench::geo::{Bench, Options as RunOptions, Setup, World, on_fresh, on_running, whered};

/// What the command line says.
pub(crate) struct Options {
    run: RunOptions,
    redis_server: PathBuf,
    redis_dump: Option<PathBuf>,
    record: Option<PathBuf>,
    date: String,
}

const ALLOWED: &str = "--whered FILE, --redis-server FILE, --redis-dump FILE, --scratch DIR, --record \
                       DIR, --date DATE, --classes NAME,..., --seconds S, and numbers for --points, \
                       --seed, --rounds";

impl Options {
    /// Reads `--name value` pairs.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            run: RunOptions {
                points: 1_000_000,
                seed: 1,
                world: World::Mapped,
                is_in_order: false,
                classes: Vec::new(),
                rounds: 5,
                seconds: 1.0,
                server_core: 0,
                driver_core: 1,
                server: None,
                binary: PathBuf::from("target/release/whered"),
                scratch: std::env::temp_dir(),
            },
            redis_server: PathBuf::from("redis-server"),
            redis_dump: None,
            record: None,
            date: "undated".to_owned(),
        };
        while let Some(name) = arguments.next() {
            let value = arguments.next().unwrap_or_default();
            let number = value.parse::<u64>().ok().filter(|number| *number > 0);
            let run = &mut options.run;
            match (name.as_str(), number) {
                ("--whered", _) => run.binary = value.into(),
                ("--redis-server", _) => options.redis_server = value.into(),
                ("--redis-dump", _) => options.redis_dump = Some(value.into()),
                ("--scratch", _) => run.scratch = value.into(),
                ("--record", _) => options.record = Some(value.into()),
                ("--date", _) => options.date = value,
                ("--classes", _) => run.classes = value.split(',').map(str::to_owned).collect(),
                ("--points", Some(count)) => run.points = count,
                ("--seed", Some(seed)) => run.seed = seed,
                ("--rounds", Some(count)) => run.rounds = count as usize,
                ("--seconds", _) => {
                    let seconds = value.parse();
                    run.seconds = seconds.map_err(|_| format!("--seconds {value}: no number"))?;
                }
                _ => return Err(format!("\"{name} {value}\"; allowed: {ALLOWED}")),
            }
        }
        // A folder of its own, which is removed at the end.
        options.run.scratch.push(format!("whered-versus-geo-{}", std::process::id()));
        Ok(options)
    }
}

/// Measures everything, prints it, and writes the record if one is asked for.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    if let Some(folder) = &options.record {
        // Before the hour that it takes, not behind it.
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("--record {}: {error}", folder.display()))?;
    }
    let progress = |line: &str| eprintln!("{line}");
    let mut bench = Bench::new(&options.run, &progress)?;
    let RunOptions { points, seed, scratch, .. } = &options.run;
    let dump = format!("redis-{}-{seed}-{points}.rdb", options.run.world.name());
    let redis = Redis {
        binary: options.redis_server.clone(),
        dump: options
            .redis_dump
            .clone()
            .unwrap_or_else(|| PathBuf::from("target/bench-data").join(dump)),
        scratch: scratch.clone(),
    };
    let result = run_both(options, &mut bench, &redis);
    // What is left there is nobody's data, and it may never have been made.
    let _ = std::fs::remove_dir_all(scratch);
    result?;
    let record = Record { report: bench.report };
    print!("{}", record.bars());
    if let Some(folder) = &options.record {
        record.write(folder, &options.date)?;
    }
    let different: Vec<&str> = record.report.differences().map(|row| row.class.as_str()).collect();
    if different.is_empty() {
        return Ok(());
    }
    Err(format!("replies differ in {}", different.join(", ")))
}

fn run_both(options: &Options, bench: &mut Bench<'_>, redis: &Redis) -> Result<(), String> {
    bench.report.settings.insert(0, ("date", json!(options.date)));
    let setup = bench.setup();
    if redis.has_dump() {
        (bench.progress)("redis: reads the dump of an earlier run");
    } else {
        let server = redis.start_on_dump(&setup)?;
        bench.load("load", &server, options.run.points)?;
        redis.save(server, bench)?;
    }
    let rival = redis.start_on_dump(&setup)?;
    bench.report.settings.push(("redis", redis.describe(&rival)?));
    let start_whered = |setup: &Setup| whered(&options.run, setup);
    let start_redis = |setup: &Setup| redis.start(setup);
    let own = start_whered(&setup)?;
    bench.fill(&own)?;
    bench.fill(&rival)?;
    if bench.report.load("load", "redis").is_none()
        && let Some((loaded, remark)) = redis.loaded_before()
    {
        bench.note_load("load", &rival, loaded, &remark);
    }
    bench.measure(&[&own, &rival])?;
    on_running(bench, &[&own, &rival])?;
    drop((own, rival));
    on_fresh(bench, &[&start_whered, &start_redis])
}
