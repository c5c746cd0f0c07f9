//! `kill -9` while uploads come in by every way and rows go out to SQL databases.
//!
//! ```text
//! HTTP, FEED.PUSH, drop folder, Redis Stream ──> server ✗ ──> spool, journal
//!        │ marks of all uploads                    │  ╰──> MariaDB ✗, PostgreSQL ✗
//!        ╰──> naive twin of the table <── equal? ──┴──────────╯
//! ```
//! For: each acknowledged upload is applied once, each other one once or not at all, and what a
//! sink has handed on is the table. Not for the simulated disk, which the engine's tests have.
//!
//! | file | thing |
//! | --- | --- |
//! | `twin.rs` | uploads and the table that they must become |
//! | `lane.rs`, `doors.rs` | sending, being told, sending again |
//! | `peers.rs` | servers of others |
//! | `look.rs` | waiting until all is applied, and reading what is there |
//!
//! A data directory serves some rounds, then there is a new one with other sizes. With `everysec`
//! acknowledged uploads may be gone and sinks are not compared; no upload is there twice or in
//! part.

mod doors;
mod lane;
mod look;
mod peers;
mod twin;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::load::ask_for_snapshot;
use super::victim::{Setup, Victim};
use super::{Ground, Tally, pause};
use crate::Random;
use doors::{Door, Progress, STREAM};
use lane::Lane;
use peers::{Kind, Peer};
use twin::Twin;

const FEED: &str = "sightings";
const ROUNDS_OF_A_DIRECTORY: u64 = 10;
/// How many lanes send by HTTP and by RESP.
const LANES: (usize, usize) = (3, 2);
/// How long uploads may take to be acknowledged before a server counts as hanging.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);

/// A data directory, what sends to it, and what it must have.
struct Site<'a> {
    setup: Setup,
    /// The name of its databases and streams.
    name: String,
    must_keep: bool,
    peers: &'a mut [Peer],
    lanes: Vec<(Way, Lane)>,
    twin: Twin,
    random: Random,
    told: Told,
}

/// How a lane sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Http,
    Resp,
    Folder,
    Stream,
}

/// What is noted beside the tally.
#[derive(Default)]
struct Told {
    repeated: u64,
    deserted: u64,
    peer_kills: u64,
    handed_on: u64,
    compared: u64,
}

/// Kills and looks, until the ground says that it is enough.
pub(super) fn run(ground: &Ground<'_>, tally: &mut Tally) -> Result<(), String> {
    let scratch = ground.options.scratch.join("peers");
    let (mut peers, mut absent) = (Vec::new(), Vec::new());
    for kind in Kind::ALL {
        match Peer::new(kind, &scratch)? {
            Some(peer) => peers.push(peer),
            None => absent.push(kind.name()),
        }
    }
    let (mut directory, mut told) = (0, Told::default());
    while !ground.is_over(tally) {
        let mut site = Site::new(ground, directory, &mut peers)?;
        std::mem::swap(&mut site.told, &mut told);
        let result = site.rounds(ground, tally);
        let sync = site.setup.sync;
        result.map_err(|what| format!("directory {directory}, {sync}: {what}"))?;
        std::mem::swap(&mut site.told, &mut told);
        ground.clear(&site.setup);
        directory += 1;
    }
    let Told { repeated, deserted, peer_kills, handed_on, compared } = told;
    let with: Vec<&str> = peers.iter().map(|peer| peer.kind.name()).collect();
    tally.notes.push(format!(
        "uploads by HTTP, FEED.PUSH, drop folder and stream; {deserted} clients went before their \
         202, {repeated} retries were known; with {}{}: killed {peer_kills} times, tables compared \
         {compared} times, {handed_on} rows equal at the last looks",
        if with.is_empty() { "none".to_owned() } else { with.join(", ") },
        if absent.is_empty() {
            String::new()
        } else {
            format!(" (not installed: {})", absent.join(", "))
        },
    ));
    Ok(())
}

impl Site<'_> {
    fn new<'a>(
        ground: &Ground<'_>,
        directory: u64,
        peers: &'a mut [Peer],
    ) -> Result<Site<'a>, String> {
        let mut random = ground.random(directory);
        let mut setup = ground.setup(&format!("feeds-{directory}"), 0)?;
        setup.sync = *random.pick(&["always", "always", "always", "everysec"]);
        setup.segment_size_bytes = 1 << (15 + random.below(6));
        let name = format!("faults_{directory}");
        let mut lanes = Vec::new();
        let mut add = |way: Way, number: usize| {
            let of_its_own = Random::new(random.next_u64());
            lanes.push((way, Lane::new(format!("{way:?}{number}").to_lowercase(), of_its_own)));
        };
        (0..LANES.0).for_each(|number| add(Way::Http, number));
        (0..LANES.1).for_each(|number| add(Way::Resp, number));
        add(Way::Folder, 0);
        if peers.iter().any(|peer| peer.kind == Kind::Redis) {
            add(Way::Stream, 0);
        }
        for peer in peers.iter().filter(|peer| peer.kind != Kind::Redis) {
            let database = if peer.kind == Kind::Postgres { "postgres" } else { "" };
            peer.ask(database, &format!("CREATE DATABASE {name}"))?;
        }
        setup.more = configuration(&name, peers, &mut random);
        let must_keep = setup.sync == "always";
        let (twin, told) = (Twin::default(), Told::default());
        Ok(Site { setup, name, must_keep, peers, lanes, twin, random, told })
    }

    fn rounds(&mut self, ground: &Ground<'_>, tally: &mut Tally) -> Result<(), String> {
        let mut victim = self.setup.start()?;
        for round in 0..ROUNDS_OF_A_DIRECTORY {
            let fault = |what: String| format!("round {round}: {what}");
            self.load(&mut victim, tally).map_err(fault)?;
            while self.random.chance(0.25) {
                let mut early = self.setup.begin()?;
                pause(Duration::from_micros(self.random.below(30_000)));
                early.kill();
                tally.early_kills += 1;
            }
            victim = self.setup.start().map_err(fault)?;
            look::settle(self, &victim).map_err(fault)?;
            tally.faults += 1;
            if ground.is_over(tally) {
                break;
            }
        }
        Ok(())
    }

    /// All lanes send until the server is killed, and perhaps one of the others with it.
    fn load(&mut self, victim: &mut Victim, tally: &mut Tally) -> Result<(), String> {
        let progress = &Progress::default();
        let doors: Vec<Door> = self.lanes.iter().map(|(way, _)| self.door(*way, victim)).collect();
        let random = &mut self.random;
        let harm = Harm {
            units: 30 + random.below(600),
            wait: Duration::from_micros(random.below(5000)),
            snapshots: random.below(3),
            peer: (!self.peers.is_empty() && random.chance(0.3))
                .then(|| (random.below(self.peers.len() as u64) as usize, random.chance(0.5))),
        };
        let (peers, lanes) = (&mut *self.peers, self.lanes.iter_mut());
        let result = std::thread::scope(|scope| {
            let senders = lanes
                .zip(&doors)
                .map(|((_, lane), door)| scope.spawn(move || door.drive(lane, progress)));
            let senders: Vec<_> = senders.collect();
            let harmed = harm.do_it(victim, peers, progress, tally);
            progress.stop.store(true, Ordering::Relaxed);
            let joined = senders.into_iter().map(|sender| match sender.join() {
                Ok(result) => result,
                Err(_) => Err("a sender panicked".to_owned()),
            });
            let ends: Result<Vec<()>, String> = joined.collect();
            // A sender that ended early says more than who waited for it.
            ends.and(harmed)
        });
        if let Some((peer, _)) = harm.peer {
            self.peers[peer].start()?;
            self.told.peer_kills += 1;
        }
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        tally.acknowledged += of(&progress.acknowledged);
        tally.refused += of(&progress.refused);
        self.told.repeated += of(&progress.repeated);
        self.told.deserted += of(&progress.deserted);
        result
    }

    fn door(&self, way: Way, victim: &Victim) -> Door {
        match way {
            Way::Http => Door::Http(victim.http),
            Way::Resp => Door::Resp(victim.resp),
            Way::Folder => Door::Folder(self.incoming()),
            Way::Stream => {
                let redis = self.redis().expect("there is such a lane with a Redis only");
                Door::Stream(redis.address(), self.stream())
            }
        }
    }

    fn redis(&self) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.kind == Kind::Redis)
    }

    fn stream(&self) -> String {
        format!("{STREAM}-{}", self.name)
    }

    fn incoming(&self) -> PathBuf {
        self.setup.folder.join("incoming")
    }
}

/// What is done to the servers of a round.
struct Harm {
    units: u64,
    wait: Duration,
    snapshots: u64,
    /// Which of the others is killed, and whether before the server.
    peer: Option<(usize, bool)>,
}

impl Harm {
    fn do_it(
        &self,
        victim: &mut Victim,
        peers: &mut [Peer],
        progress: &Progress,
        tally: &mut Tally,
    ) -> Result<(), String> {
        for step in 1..=self.snapshots {
            until(progress, self.units * step / (self.snapshots + 1))?;
            tally.snapshots += u64::from(ask_for_snapshot(&mut victim.client()?));
        }
        until(progress, self.units)?;
        if let Some((peer, true)) = self.peer {
            peers[peer].kill();
        }
        pause(self.wait);
        victim.process.kill();
        if let Some((peer, false)) = self.peer {
            peers[peer].kill();
        }
        Ok(())
    }
}

/// The feed, with a sink or stream for each peer.
fn configuration(name: &str, peers: &[Peer], random: &mut Random) -> String {
    let events = *random.pick(&[20, 200, 100_000]);
    let delay = *random.pick(&[0, 1, 20]);
    let mut text = format!(
        "[[feed]]\nname = \"{FEED}\"\nformat = \"ndjson\"\nmember = \"m\"\nlongitude = \"x\"\n\
         latitude = \"y\"\nfields = {{ n = {{ path = \"n\", type = \"integer\" }} }}\n\
         into = {{ collection = \"seen\" }}\ndrop_folder = \"incoming\"\n\
         batch_events_max = {events}\nbatch_delay_millis = {delay}\nspool_size_max = \"1mb\"\n\
         [[feed.table]]\nname = \"objects\"\nkey = [\"member\"]\n\
         columns = {{ seen = \"count\", total = \"sum(n)\", largest = \"max(n)\" }}\n"
    );
    for peer in peers {
        let (kind, url) = (peer.kind.name(), peer.url(name));
        text.push_str(&match peer.kind {
            Kind::Redis => format!(
                "[[feed.stream]]\nname = \"{kind}\"\nurl = \"{url}\"\n\
                 stream = \"{STREAM}-{name}\"\nfield = \"body\"\nfrom = \"start\"\n"
            ),
            _ => format!("[[feed.sink]]\nname = \"{kind}\"\nurl = \"{url}\"\n"),
        });
    }
    text
}

/// Waits until that number of uploads is acknowledged.
fn until(progress: &Progress, units: u64) -> Result<(), String> {
    let began = Instant::now();
    loop {
        let count = progress.acknowledged.load(Ordering::Relaxed);
        if count >= units {
            return Ok(());
        }
        if began.elapsed() > SILENCE_LIMIT {
            return Err(format!("{count} of {units} uploads in {SILENCE_LIMIT:?}"));
        }
        pause(Duration::from_micros(500));
    }
}
