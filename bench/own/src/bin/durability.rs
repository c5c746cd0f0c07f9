//! Drives a running server for the figures about snapshots, starts and memory.
//!
//! For: the measures of `bench/results/durability` that need one server and millions of points.
//! Not for: rivals (`bench/versus`), crashes (`whered-bench faults`).
//!
//! Usage: `durability HOST:PORT COMMAND`
//!
//! ```text
//! load COUNT             members 1 to COUNT in an order that is random in space, 100 a command
//! moves COUNT any|near   commands of one member each, any of those that are there; `near`: at most
//!                        200 m from where it is (which is asked for before the clock runs)
//! snapshot SECONDS       the highest rate of moves anywhere, then half of it: before a `BGSAVE`,
//!                        while it runs, and after it, with the memory that INFO tells
//! memory                 the account beside what is resident
//! ```
//!
//! Eight connections in turn have [`BATCH`] commands on their way each, so that the server always
//! has work. A rate is held by sending batches when they are due; what is late is sent at once.
//! Every reply is checked: a move answers `:0`.

#![allow(clippy::print_stdout, reason = "the figures are what it is run for")]

#[path = "../clusters.rs"]
mod clusters;

use std::error::Error;
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use clusters::{beside, place, random};
use whered_geo::Place;

type Outcome<T> = Result<T, Box<dyn Error>>;

const KEY: &str = "points";
const CONNECTIONS: usize = 8;
/// Commands that a connection has on their way.
const BATCH: usize = 64;
/// Commands of a script for the clock: more are made while it stands.
const ROUND: usize = 1 << 18;
const LOAD_MEMBERS: u64 = 100;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [address, command @ ..] = words.as_slice() else {
        return Err(
            "usage: durability HOST:PORT COMMAND; the head of the file has the commands".into()
        );
    };
    let mut driver = Driver::connect(address)?;
    match command {
        ["load", count] => driver.load(count.parse()?),
        ["moves", count, reach @ ("any" | "near")] => {
            driver.moves(count.parse()?, *reach == "near")
        }
        ["snapshot", seconds] => driver.snapshot(Duration::from_secs(seconds.parse()?)),
        ["memory"] => {
            println!("{}", driver.memory()?);
            Ok(())
        }
        _ => Err("unknown command; the head of the file has those that there are".into()),
    }
}

/// What INFO tells, in bytes.
#[derive(Clone, Copy)]
struct Memory {
    account: u64,
    peak: u64,
    resident: u64,
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Memory { account, peak, resident } = self;
        let ratio = *resident as f64 / (*account).max(1) as f64;
        write!(f, "account {account} (peak {peak}), resident {resident}, of the account {ratio:.3}")
    }
}

/// Connections to one server.
struct Driver {
    connections: Vec<TcpStream>,
    control: BufReader<TcpStream>,
    /// Moves so far, so that every one is another.
    made: u64,
}

/// How it went at one rate.
#[derive(Clone, Copy, Debug)]
struct Rate {
    moves: u64,
    elapsed: Duration,
    slowest_batch: Duration,
}

impl Rate {
    fn a_second(self) -> f64 {
        self.moves as f64 / self.elapsed.as_secs_f64()
    }
}

impl Driver {
    fn connect(address: &str) -> Outcome<Driver> {
        let connect = || -> Outcome<TcpStream> {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        let connections = (0..CONNECTIONS).map(|_| connect()).collect::<Outcome<_>>()?;
        Ok(Driver { connections, control: BufReader::new(connect()?), made: 0 })
    }

    fn load(&mut self, count: u64) -> Outcome<()> {
        let start = Instant::now();
        // A step that has no divisor with the count visits every number once.
        let step = (count / 2 + 1..).find(|step| greatest_divisor(*step, count) == 1);
        let step = step.ok_or("no step")?;
        let (mut number, mut sent) = (0, 0);
        while sent < count {
            let members = LOAD_MEMBERS.min(count - sent);
            let mut command = header(2 + 3 * members as usize);
            [b"GEOADD", KEY.as_bytes()].iter().for_each(|part| bulk(&mut command, part));
            for _ in 0..members {
                number = (number + step) % count;
                degrees(&mut command, place(number + 1));
                bulk(&mut command, (number + 1).to_string().as_bytes());
            }
            self.control.get_mut().write_all(&command)?;
            let reply = self.line()?;
            if reply != format!(":{members}") {
                return Err(format!("GEOADD of new members answered {reply}").into());
            }
            sent += members;
        }
        println!("loaded {count} in {:.1} s", start.elapsed().as_secs_f64());
        Ok(())
    }

    fn moves(&mut self, count: u64, is_near: bool) -> Outcome<()> {
        let members = self.members()?;
        let mut left = count.div_ceil(BATCH as u64);
        let (mut moves, mut elapsed) = (0, Duration::ZERO);
        while left > 0 {
            let batches = left.min((ROUND / BATCH) as u64);
            let mut script = self.script(batches as usize, members, is_near)?.into_iter();
            let rate = self.run(&mut |_| script.next(), None, &mut |_| Ok(true))?;
            (moves, elapsed, left) = (moves + rate.moves, elapsed + rate.elapsed, left - batches);
        }
        let a_second = moves as f64 / elapsed.as_secs_f64();
        println!("{moves} moves in {:.1} s: {a_second:.0} a second", elapsed.as_secs_f64());
        Ok(())
    }

    fn snapshot(&mut self, time: Duration) -> Outcome<()> {
        let members = self.members()?;
        let heads: Vec<Vec<u8>> = (0..ROUND as u64).map(|n| head(place(random(24, n)))).collect();
        let mut script = |made| Some(batch(made, members, &heads));
        let until = |time: Duration| {
            let start = Instant::now();
            move |_: &mut Driver| Ok(start.elapsed() < time)
        };
        self.run(&mut script, None, &mut until(time / 4))?;
        let peak = self.run(&mut script, None, &mut until(time))?;
        let half = peak.a_second() / 2.0;
        let memory = self.memory()?;
        println!("peak: {:.0} moves a second; {memory}", peak.a_second());
        let before = self.run(&mut script, Some(half), &mut until(time))?;
        show("half the rate, before", before, before);
        let before_memory = self.memory()?;
        let (mut most, mut next) = (before_memory, Instant::now());
        self.ask(&[b"BGSAVE"])?;
        let during = self.run(&mut script, Some(half), &mut |driver: &mut Driver| {
            if next.elapsed() < Duration::from_millis(100) {
                return Ok(true);
            }
            next = Instant::now();
            let now = driver.memory()?;
            most.account = most.account.max(now.account);
            most.resident = most.resident.max(now.resident);
            Ok(driver.number("rdb_bgsave_in_progress")? == 1)
        })?;
        show("while a snapshot is made", during, before);
        let after = self.run(&mut script, Some(half), &mut until(time))?;
        show("after it", after, before);
        let more = |most: u64, before: u64| (most as f64 / before as f64 - 1.0) * 100.0;
        println!(
            "memory, most during it: account {:+.1} %, resident {:+.1} %; before {before_memory}",
            more(most.account, before_memory.account),
            more(most.resident, before_memory.resident)
        );
        self.run(&mut script, Some(half), &mut until(time))?;
        println!("then {}", self.memory()?);
        Ok(())
    }

    /// Batches of moves, each as bytes.
    fn script(&mut self, batches: usize, members: u64, is_near: bool) -> Outcome<Vec<Vec<u8>>> {
        let mut script = Vec::with_capacity(batches);
        let first = self.made;
        for made in (first..).step_by(BATCH).take(batches) {
            let numbers: Vec<u64> = (made..).take(BATCH).map(|n| chosen(n, members)).collect();
            let places = if is_near { self.positions(&numbers)? } else { Vec::new() };
            let heads: Vec<Vec<u8>> = (0..BATCH)
                .map(|index| {
                    let salt = made + index as u64;
                    let near = places.get(index).map(|from| beside(*from, random(23, salt)));
                    head(near.unwrap_or_else(|| place(random(22, salt))))
                })
                .collect();
            script.push(batch(made, members, &heads));
        }
        Ok(script)
    }

    /// Sends batches over all connections in turn, at a rate if there is one, until there are no
    /// more or `go_on` says so. `next` is told how many moves were made before.
    #[allow(clippy::disallowed_methods, reason = "a rate is held by waiting for the clock")]
    fn run(
        &mut self,
        next: &mut dyn FnMut(u64) -> Option<Vec<u8>>,
        a_second: Option<f64>,
        go_on: &mut dyn FnMut(&mut Driver) -> Outcome<bool>,
    ) -> Outcome<Rate> {
        let start = Instant::now();
        let mut slowest_batch = Duration::ZERO;
        let mut sent_at = [None; CONNECTIONS];
        let mut batches = 0;
        while go_on(self)? {
            let Some(batch) = next(self.made) else { break };
            if let Some(a_second) = a_second {
                let due = Duration::from_secs_f64((batches * BATCH) as f64 / a_second);
                std::thread::sleep(due.saturating_sub(start.elapsed()));
            }
            let turn = batches % CONNECTIONS;
            self.take_replies(turn, &mut sent_at[turn], &mut slowest_batch)?;
            self.connections[turn].write_all(&batch)?;
            sent_at[turn] = Some(Instant::now());
            batches += 1;
            self.made += BATCH as u64;
        }
        for (turn, sent_at) in sent_at.iter_mut().enumerate() {
            self.take_replies(turn, sent_at, &mut slowest_batch)?;
        }
        Ok(Rate { moves: (batches * BATCH) as u64, elapsed: start.elapsed(), slowest_batch })
    }

    fn take_replies(
        &mut self,
        turn: usize,
        sent_at: &mut Option<Instant>,
        slowest: &mut Duration,
    ) -> Outcome<()> {
        let Some(sent) = sent_at.take() else { return Ok(()) };
        let mut replies = [0; 4 * BATCH];
        self.connections[turn].read_exact(&mut replies)?;
        if replies.chunks(4).any(|reply| reply != b":0\r\n") {
            let replies = String::from_utf8_lossy(&replies).into_owned();
            return Err(format!("a move answered something else: {replies:?}").into());
        }
        // With a rate, replies wait here for their turn: an upper bound.
        *slowest = sent.elapsed().max(*slowest);
        Ok(())
    }

    /// Where members are.
    fn positions(&mut self, numbers: &[u64]) -> Outcome<Vec<Place>> {
        let mut command = header(2 + numbers.len());
        [b"GEOPOS", KEY.as_bytes()].iter().for_each(|part| bulk(&mut command, part));
        numbers.iter().for_each(|number| bulk(&mut command, number.to_string().as_bytes()));
        self.control.get_mut().write_all(&command)?;
        self.line()?;
        let mut places = Vec::with_capacity(numbers.len());
        for _ in numbers {
            let mut degrees = [0.0; 2];
            self.line()?;
            for degrees in &mut degrees {
                self.line()?;
                *degrees = self.text_line()?.parse()?;
            }
            places.push(Place { longitude_degrees: degrees[0], latitude_degrees: degrees[1] });
        }
        Ok(places)
    }

    fn members(&mut self) -> Outcome<u64> {
        let reply = self.ask(&[b"ZCARD", KEY.as_bytes()])?;
        let count = reply.strip_prefix(':').and_then(|count| count.parse().ok()).unwrap_or(0);
        if count == 0 { Err(format!("no members: {reply}").into()) } else { Ok(count) }
    }

    fn memory(&mut self) -> Outcome<Memory> {
        let account = self.number("used_memory")?;
        let peak = self.number("used_memory_peak")?;
        Ok(Memory { account, peak, resident: self.number("used_memory_rss")? })
    }

    /// A number of INFO.
    fn number(&mut self, name: &str) -> Outcome<u64> {
        let info = self.ask(&[b"INFO"])?;
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let line = line.ok_or_else(|| format!("INFO has no {name}"))?;
        Ok(line.trim().parse()?)
    }

    /// A reply of one line or one bulk string.
    fn ask(&mut self, parts: &[&[u8]]) -> Outcome<String> {
        let mut command = header(parts.len());
        parts.iter().for_each(|part| bulk(&mut command, part));
        self.control.get_mut().write_all(&command)?;
        let line = self.line()?;
        let Some(length) = line.strip_prefix('$') else { return Ok(line) };
        let mut text = vec![0; length.parse::<usize>()? + 2];
        self.control.read_exact(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// A line of a reply that says what comes; errors are such lines, too.
    fn line(&mut self) -> Outcome<String> {
        let line = self.text_line()?;
        if line.starts_with('-') { Err(line.into()) } else { Ok(line) }
    }

    fn text_line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        if self.control.read_line(&mut line)? == 0 {
            return Err("the server closed the connection".into());
        }
        line.truncate(line.trim_end().len());
        Ok(line)
    }
}

fn show(what: &str, rate: Rate, before: Rate) {
    println!(
        "{what}: {:.0} moves a second for {:.1} s ({:.1} %), slowest batch {:.1} ms",
        rate.a_second(),
        rate.elapsed.as_secs_f64(),
        rate.a_second() / before.a_second() * 100.0,
        rate.slowest_batch.as_secs_f64() * 1e3
    );
}

fn header(parts: usize) -> Vec<u8> {
    format!("*{parts}\r\n").into_bytes()
}

fn bulk(out: &mut Vec<u8>, part: &[u8]) {
    out.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
    out.extend_from_slice(part);
    out.extend_from_slice(b"\r\n");
}

/// A place, as a command has it.
fn degrees(out: &mut Vec<u8>, place: Place) {
    bulk(out, format!("{:.6}", place.longitude_degrees).as_bytes());
    bulk(out, format!("{:.6}", place.latitude_degrees).as_bytes());
}

/// A move without its member.
fn head(to: Place) -> Vec<u8> {
    let mut head = header(5);
    [b"GEOADD", KEY.as_bytes()].iter().for_each(|part| bulk(&mut head, part));
    degrees(&mut head, to);
    head
}

/// The member of a move.
fn chosen(made: u64, members: u64) -> u64 {
    random(21, made) % members + 1
}

/// Moves of chosen members to where the heads say, in turn.
fn batch(made: u64, members: u64, heads: &[Vec<u8>]) -> Vec<u8> {
    let mut batch = Vec::with_capacity(BATCH * 100);
    for made in (made..).take(BATCH) {
        batch.extend_from_slice(&heads[made as usize % heads.len()]);
        bulk(&mut batch, chosen(made, members).to_string().as_bytes());
    }
    batch
}

fn greatest_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}
