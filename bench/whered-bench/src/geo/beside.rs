//! Small commands and moves beside somebody who reads much: a huge search, a slow client.
//!
//! For: what readers cost others. Not for: commands that run alone (`rounds.rs`).
//!
//! ```text
//! beside_search   PING, GEODIST, moves ── alone, then with a client that searches all the time
//! held_view       a client asks for four million members and takes them slowly ── moves meanwhile
//! ```

use super::Workload;
use super::classes::class_named;
use super::driver::{Driver, Group, Until};
use super::load::KEY;
use super::points::{Point, Points};
use super::rounds::{Row, ask_all};
use super::run::Bench;
use super::scenarios::MOVES;
use super::script::{Replies, Script};
use super::server::Server;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Members that the huge search returns.
const SEARCHED: u64 = 1_000_000;
const PARIS: (f64, f64) = (2.3522, 48.8566);
const MOVES_ANYWHERE: &str = "moves-anywhere/8x16";
/// Members that the slow client asks for; half of their bytes are more than what sockets hold.
const HELD: u64 = 4_000_000;
/// The least of a member's bytes in a reply: `$1`, a digit, two ends of lines.
const LEAST_MEMBER_BYTES: usize = 7;
/// What a slow client takes at once, and how long it then waits.
const SLOW_BYTES: usize = 32 << 10;
const SLOW_WAIT: Duration = Duration::from_millis(4);
/// How long it waits for bytes.
const SLOW_LIMIT: Duration = Duration::from_secs(60);

/// Small commands, one client of each class with such a pipeline, alone and beside a client that
/// searches all the time. That one comes first: of a server with two threads it has one, and the
/// first of the others the other one. A first round of both kinds is not measured.
///
/// # Errors
///
/// The server fails.
pub(super) fn beside_search(
    bench: &mut Bench<'_>,
    server: &Server,
    name: &str,
    clients: &[(&str, usize)],
) -> Result<(), String> {
    let count = bench.options.points;
    let (search, radius_meters) = search_around_paris(bench, SEARCHED.min(count / 3));
    let far_from_rim = far_from_rim(radius_meters);
    let mut workloads = vec![search];
    let mut labels = vec!["search/1x1".to_owned()];
    let mut pipelines = vec![1];
    for &(class, pipeline) in clients {
        let class = class_named(class).ok_or_else(|| format!("no class {class}"))?;
        let class = class.with_clients(1, pipeline);
        workloads.push(class.workload_where(&bench.points, count, &far_from_rim));
        let what = class.name.split('/').next().unwrap_or_default();
        labels.push(format!("{what}/1x{pipeline}"));
        pipelines.push(pipeline);
    }
    let replies: Result<Vec<Vec<Replies>>, String> =
        workloads.iter().map(|workload| replies_of(workload, server)).collect();
    let replies = replies.map_err(|error| format!("{name}: {error}"))?;
    let group = |place: usize| Group {
        connections: 1,
        pipeline: pipelines[place],
        scripts: &workloads[place].scripts,
        replies: &replies[place],
    };
    for (kind, groups) in [("alone", 1..workloads.len()), ("with-search", 0..workloads.len())] {
        let list: Vec<Group<'_>> = groups.clone().map(group).collect();
        let mut driver = Driver::connect(server.address, &list)?;
        let mut rows: Vec<Row> = groups
            .clone()
            .map(|place| Row::new(&format!("{name}/{kind}/{}", labels[place]), server))
            .collect();
        driver.run(Until::Time(bench.rounds().time))?;
        for _ in 0..bench.options.rounds {
            let began = Instant::now();
            let done = driver.run(Until::Time(bench.rounds().time))?;
            let elapsed = began.elapsed();
            rows.iter_mut().zip(&done).for_each(|(row, done)| row.add(done, None, elapsed));
        }
        driver.run(Until::ScriptEnd)?;
        for (mut row, place) in rows.into_iter().zip(groups) {
            let known = &replies[place];
            let elements = known.iter().map(|one| one.elements).sum();
            row.elements = Some((elements, known.iter().map(|one| one.lengths.len()).sum()));
            bench.note(row);
        }
    }
    Ok(())
}

/// Moves while another client takes a long reply so slowly that the frozen view behind it is held,
/// and copied from, all the time; a new one in each round. As many rounds before are not measured:
/// in them the server gets memory for its copies, which later ones use again. With too few points
/// for such a reply nothing is measured.
///
/// # Errors
///
/// The server fails.
pub(super) fn held_view(bench: &mut Bench<'_>, server: &Server, name: &str) -> Result<(), String> {
    let (count, rounds) = (bench.options.points, bench.rounds());
    if count / 3 < HELD {
        return Ok(());
    }
    let (search, _) = search_around_paris(bench, HELD);
    for class in [MOVES, MOVES_ANYWHERE] {
        let class = class_named(class).ok_or_else(|| format!("no class {class}"))?;
        let workload = class.workload(&bench.points, count);
        let replies = replies_of(&workload, server)?;
        let (connections, pipeline) = (class.connections, class.pipeline);
        let group = Group { connections, pipeline, scripts: &workload.scripts, replies: &replies };
        let mut driver = Driver::connect(server.address, &[group])?;
        let mut row = Row::new(&format!("{name}/{}", class.name), server);
        for round in 0..2 * rounds.count {
            let slow = SlowClient::ask(server.address, search.scripts[0].bytes())?;
            let (before, began) = (server.cpu_nanoseconds()?, Instant::now());
            let done = driver.run(Until::Time(rounds.time))?;
            let (elapsed, spent) = (began.elapsed(), server.cpu_nanoseconds()? - before);
            slow.leave()?;
            if round >= rounds.count {
                done.iter().for_each(|done| row.add(done, Some(spent), elapsed));
            }
        }
        driver.run(Until::ScriptEnd)?;
        bench.note(row);
    }
    Ok(())
}

/// A client that takes its reply a little at a time, in a thread of its own.
struct SlowClient {
    /// Dropping it ends the thread.
    stay: Sender<()>,
    reading: JoinHandle<io::Result<usize>>,
    /// The least bytes of the reply.
    least_bytes: usize,
}

impl SlowClient {
    /// Asks, and waits for the first member.
    ///
    /// # Errors
    ///
    /// The reply is no list of at least half of the members that were to be found.
    fn ask(address: SocketAddr, request: &[u8]) -> Result<SlowClient, String> {
        let fault = |error: io::Error| format!("the slow client: {error}");
        let mut stream = TcpStream::connect(address).map_err(fault)?;
        stream.set_read_timeout(Some(SLOW_LIMIT)).map_err(fault)?;
        stream.write_all(request).map_err(fault)?;
        let mut header = Vec::new();
        while !header.ends_with(b"\r\n$") {
            let mut byte = [0];
            stream.read_exact(&mut byte).map_err(fault)?;
            header.push(byte[0]);
            if header.len() > 32 {
                return Err(format!("the slow client: {}", header.escape_ascii()));
            }
        }
        let text = String::from_utf8_lossy(&header);
        let count = text.strip_prefix('*').and_then(|text| text.strip_suffix("\r\n$"));
        let count = count.and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
        if count < HELD / 2 {
            return Err(format!("the slow client: {count} members in place of about {HELD}"));
        }
        let (stay, leaves) = channel::<()>();
        let reading = std::thread::spawn(move || {
            let (mut taken, mut some) = (header.len(), vec![0; SLOW_BYTES]);
            while leaves.recv_timeout(SLOW_WAIT) == Err(RecvTimeoutError::Timeout) {
                stream.read_exact(&mut some)?;
                taken += some.len();
            }
            Ok(taken)
        });
        Ok(SlowClient { stay, reading, least_bytes: count as usize * LEAST_MEMBER_BYTES })
    }

    /// Goes without the rest.
    ///
    /// # Errors
    ///
    /// So much was taken that the server may have sent all.
    fn leave(self) -> Result<(), String> {
        drop(self.stay);
        let taken = self.reading.join().map_err(|_| "the slow client has panicked")?;
        let taken = taken.map_err(|error| format!("the slow client: {error}"))?;
        if taken > self.least_bytes / 4 {
            return Err(format!("the slow client took {taken} bytes: rounds are to be shorter"));
        }
        Ok(())
    }
}

fn replies_of(workload: &Workload, server: &Server) -> Result<Vec<Replies>, String> {
    let Some(reply) = workload.constant else { return ask_all(workload, server) };
    let scripts = workload.scripts.iter();
    Ok(scripts.map(|script| Replies::constant(reply, script.len())).collect())
}

/// A search that finds about that number, and its radius.
fn search_around_paris(bench: &Bench<'_>, wanted: u64) -> (Workload, f64) {
    let radius_meters = radius_around_paris(&bench.points, bench.options.points, wanted);
    let mut script = Script::default();
    let [longitude, latitude] = Point::from_degrees(PARIS.0, PARIS.1).texts();
    let radius = format!("{radius_meters:.0}");
    let (from, by): (&[u8], &[u8]) = (b"FROMLONLAT", b"BYRADIUS");
    script.push(&[b"GEOSEARCH", KEY, from, &longitude, &latitude, by, radius.as_bytes(), b"m"]);
    (Workload { scripts: vec![script], constant: None, is_round_trip: false }, radius_meters)
}

/// No move may cross the rim, so that the search has the same members all the time.
fn far_from_rim(radius_meters: f64) -> impl Fn(Point) -> bool {
    let paris = Point::from_degrees(PARIS.0, PARIS.1);
    move |point| (meters(paris, point) - radius_meters).abs() > 2_000.0
}

/// The radius within which about that number of members lie, by a sample of them.
fn radius_around_paris(points: &Points, count: u64, wanted: u64) -> f64 {
    let sample = count.min(200_000);
    let paris = Point::from_degrees(PARIS.0, PARIS.1);
    let mut distances: Vec<f64> =
        (0..sample).map(|number| meters(paris, points.get(number))).collect();
    distances.sort_by(f64::total_cmp);
    distances[(wanted * sample / count).min(sample - 1) as usize].round()
}

/// By haversine, on the sphere that `METERS_PER_DEGREE` belongs to.
fn meters(from: Point, to: Point) -> f64 {
    let radians = |point: Point| {
        (point.longitude_degrees().to_radians(), point.latitude_degrees().to_radians())
    };
    let ((here_x, here_y), (there_x, there_y)) = (radians(from), radians(to));
    let (up, across) = (((there_y - here_y) / 2.0).sin(), ((there_x - here_x) / 2.0).sin());
    let root = (up * up + here_y.cos() * there_y.cos() * across * across).sqrt();
    2.0 * 6_371_000.0 * root.min(1.0).asin()
}
