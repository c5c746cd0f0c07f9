//! What the command line of the comparison says: groups of rivals, workloads, sizes, folders.
//!
//! Not for doing it (`compare.rs`). Every value has a default; an odd one ends the program.

use std::path::PathBuf;
use std::time::Duration;

/// Groups of rivals, each with a whered of its own beside it; and the sink, which has no rival.
pub(crate) const GROUPS: [&str; 9] = [
    "mariadb-disk",
    "mariadb-ram",
    "mariadb-seed",
    "postgres-disk",
    "postgres-ram",
    "sqlite",
    "redis-disk",
    "redis-ram",
    "sink",
];

/// What sightings are consolidated into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Positions.
    Plain,
    /// Positions, loot, statistics.
    Three,
}

impl Workload {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Workload::Plain => "positions",
            Workload::Three => "positions, loot and statistics",
        }
    }

    pub(crate) fn has_loot(self) -> bool {
        self == Workload::Three
    }
}

/// See the head of this file.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) binary: PathBuf,
    pub(crate) groups: Vec<String>,
    pub(crate) workloads: Vec<Workload>,
    pub(crate) rounds: usize,
    /// How long each has in a round.
    pub(crate) time: Duration,
    /// What lies in the tables before, in uploads.
    pub(crate) uploads: u64,
    /// Uploads that a batched form takes at once.
    pub(crate) batch: usize,
    /// How long uploads go through the sink at a steady pace.
    pub(crate) age_seconds: f64,
    pub(crate) disk: PathBuf,
    pub(crate) ram: PathBuf,
    pub(crate) record: Option<PathBuf>,
    pub(crate) date: String,
}

impl Options {
    /// Reads `--name value` pairs.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            binary: PathBuf::from("target/release/whered"),
            groups: GROUPS.map(str::to_owned).to_vec(),
            workloads: vec![Workload::Plain, Workload::Three],
            rounds: 3,
            time: Duration::from_millis(1_500),
            uploads: 1_000,
            // About 200,000 sightings; with larger ones both sides are quicker.
            batch: 136,
            age_seconds: 20.0,
            disk: std::env::temp_dir(),
            ram: PathBuf::from("/dev/shm"),
            record: None,
            date: "undated".to_owned(),
        };
        while let Some(name) = arguments.next() {
            let value = arguments.next().unwrap_or_default();
            let odd = || format!("\"{name} {value}\"; the head of main.rs says what is allowed");
            let number = || value.parse::<usize>().ok().filter(|n| *n > 0).ok_or_else(odd);
            match name.as_str() {
                "--whered" => options.binary = value.into(),
                "--disk" => options.disk = value.into(),
                "--ram" => options.ram = value.into(),
                "--record" => options.record = Some(value.into()),
                "--date" => options.date = value,
                "--rounds" => options.rounds = number()?,
                "--uploads" => options.uploads = number()? as u64,
                "--batch" => options.batch = number()?,
                "--seconds" => {
                    let seconds: f64 = value.parse().map_err(|_| odd())?;
                    options.time = Duration::try_from_secs_f64(seconds).map_err(|_| odd())?;
                }
                "--age-seconds" => options.age_seconds = number()? as f64,
                "--groups" => {
                    options.groups = value.split(',').map(str::to_owned).collect();
                    if options.groups.iter().any(|group| !GROUPS.contains(&group.as_str())) {
                        return Err(odd());
                    }
                }
                "--workloads" => {
                    let workload = |name: &str| match name {
                        "plain" => Ok(Workload::Plain),
                        "three" => Ok(Workload::Three),
                        _ => Err(odd()),
                    };
                    options.workloads = value.split(',').map(workload).collect::<Result<_, _>>()?;
                }
                _ => return Err(odd()),
            }
        }
        let own = format!("whered-versus-feed-{}", std::process::id());
        // Servers go to folders of their own, from where a relative path leads elsewhere.
        for folder in [&mut options.disk, &mut options.ram] {
            let path = folder.join(&own);
            *folder = std::path::absolute(&path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(options)
    }
}
