//! `whered match`: which rule each packet of a list meets.
//!
//! Not for: reading lines (`packets`), printing (`report`), matching (`whered-rules`).
//!
//! ```text
//! thread: PacketSource ──up to 1,024──► thread: Matcher::find_batch (64 each) ──► Report
//! ```
//!
//! A wrong line is told at once (after a hundred they are counted) and ends nothing; a capture that
//! breaks ends with its place, behind the results so far. Answers do not wait for packets that are
//! not there yet: a batch is also full when the source would have to wait. Cost: compiling the
//! rules takes up to half a second; memory does not grow with the input.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use whered_rules::classify::plan::Budget;
use whered_rules::compile::{BATCH, Matcher};
use whered_rules::naive::{NoSets, Outcome as PacketOutcome, evaluate_partly};
use whered_rules::unknown::{Fields, PacketField};
use whered_rules::{Packet, Ruleset, State};

use super::captures::{self, PacketInput};
use super::load::{self, FileSets, Options};
use super::logs::LogOptions;
use super::packets::{Item, PacketSource, Record};
use super::place::Places;
use super::report::{Counts, Report};
use crate::cli::MatchArguments;
use crate::enrich::progress::Progress;
use crate::outcome::{Failure, Outcome, complain};
use crate::rules::flags::MatchFormat;

/// How long a good form of the rules may be looked for.
const PLAN_TIME: Duration = Duration::from_millis(500);

/// How many packets the threads hand over at once, and how often one may be ahead of the other.
const SENT_TOGETHER: usize = 16 * BATCH;
const SENT_AHEAD: usize = 16;

type SpareBuffers = Vec<Record>;

/// How many wrong lines are told; a hostile input shall not become a hostile report.
const WRONG_TOLD_MAX: u64 = 100;

/// Matches everything. Failed if a line was no packet; the others are answered nevertheless.
pub(crate) fn run(arguments: &MatchArguments) -> Result<Outcome, Failure> {
    let options = Options {
        format: arguments.rules_format,
        chain: arguments.chain.as_deref(),
        table: arguments.table.as_deref(),
        skip_tables: arguments.skip_tables,
    };
    let standard = Path::new("-");
    let packets = arguments.packets.as_deref().unwrap_or(standard);
    if packets == standard && arguments.rules == standard {
        return Err(Failure::new("standard input cannot hold both rules and packets"));
    }
    let ruleset = match load::ruleset(&arguments.rules, options) {
        Ok(ruleset) => ruleset,
        Err(wrong) => return wrong.tell(),
    };
    let file_places = load::places(&arguments.db)?;
    if let Err(failed) = load::refuse_places(&ruleset, &file_places) {
        return Ok(failed);
    }
    let start = Instant::now();
    let budget = Budget { time: PLAN_TIME, ..Budget::default() };
    let matcher = match Matcher::build(&ruleset, &file_places, budget, &|| start.elapsed()) {
        Ok(matcher) => matcher,
        Err(error) => return load::Wrong::from(error).tell(),
    };
    load::tell_live_sets(&ruleset);
    let has_details = load::needs_details(&ruleset);
    let opened = captures::open(packets, LogOptions::new(arguments), has_details)?;
    let evaluator = Evaluator {
        ruleset: &ruleset,
        matcher: &matcher,
        sets: FileSets(&file_places),
        asked: Fields::asked_by(&ruleset),
        known: RefCell::default(),
    };
    sweep(&evaluator, opened, arguments)
}

/// What the thread that reads says to the one that matches.
enum Message {
    /// Packets, and whether the next ones may be a while.
    Packets(Vec<Record>, bool),
    Wrong(String),
    /// The source ended early.
    Failed(Failure),
    /// What is to be told at the end.
    Remarks(Vec<String>),
}

/// Reads everything and sends it in batches, until nobody listens any more.
fn read(
    mut source: Box<dyn PacketSource>,
    sender: &SyncSender<Message>,
    spare: &Receiver<SpareBuffers>,
) {
    let mut batch: SpareBuffers = Vec::with_capacity(SENT_TOGETHER);
    loop {
        let mut is_over = false;
        let other = match source.next() {
            Ok(Some(Item::Packet(record))) => {
                batch.push(record);
                None
            }
            Ok(Some(Item::Wrong(what))) => Some(Message::Wrong(what)),
            Ok(None) => {
                is_over = true;
                Some(Message::Remarks(source.remarks()))
            }
            Err(failure) => {
                is_over = true;
                let remarks = Message::Remarks(source.remarks());
                let _gone = sender.send(remarks).is_err();
                Some(Message::Failed(failure))
            }
        };
        let waits = is_over || source.may_wait();
        if batch.len() == SENT_TOGETHER || (waits && !batch.is_empty()) {
            let next = spare.try_recv().unwrap_or_default();
            let full = std::mem::replace(&mut batch, next);
            if sender.send(Message::Packets(full, waits)).is_err() {
                return;
            }
        }
        let is_heard = other.is_none_or(|message| sender.send(message).is_ok());
        if is_over || !is_heard {
            return;
        }
    }
}

/// What decides about packets.
struct Evaluator<'a> {
    ruleset: &'a Ruleset,
    matcher: &'a Matcher,
    sets: FileSets<'a>,
    /// The fields that the rules ask for.
    asked: Fields,
    /// Outcomes of partly known packets: lines of one client are often many.
    known: RefCell<HashMap<PartlyKey, PacketOutcome>>,
}

/// How many outcomes of partly known packets are remembered.
const KNOWN_OUTCOMES_MAX: usize = 1 << 14;

/// What a partly known packet tells, without interfaces and details.
type PartlyKey = (IpAddr, IpAddr, [u8; 5], [u16; 2], State, u32, Fields);

/// The key of a packet for rules that ask for some fields.
fn partly_key(record: &Record, asked: Fields) -> Option<PartlyKey> {
    let Packet { icmp_type, icmp_code, tcp_flags, dscp, protocol, .. } = record.packet;
    let Packet { source_port, destination_port, .. } = record.packet;
    let is_plain = record.input.is_none() && record.output.is_none() && record.details.is_empty();
    let octets = [protocol, icmp_type, icmp_code, tcp_flags, dscp];
    // A port that no rule asks for differs in most lines.
    let port = |field, port| if asked.has(field) { port } else { 0 };
    let ports = [
        port(PacketField::SourcePort, source_port),
        port(PacketField::DestinationPort, destination_port),
    ];
    let Packet { source, destination, state, mark, .. } = record.packet;
    is_plain.then_some((source, destination, octets, ports, state, mark, record.unknown))
}

impl Evaluator<'_> {
    /// The outcomes of packets. The compiled rules answer, unless a packet does not tell a field
    /// that rules ask for: then the chains are walked.
    fn find(&self, batch: &[Record], packets: &[Packet<'_>]) -> Vec<PacketOutcome> {
        let is_partly = |record: &Record| record.unknown.overlap(self.asked);
        if !batch.iter().any(is_partly) {
            return self.matcher.find_batch(packets, &NoSets);
        }
        let outcomes = batch.iter().zip(packets).map(|(record, packet)| match is_partly(record) {
            true => self.find_partly(record, packet),
            false => self.matcher.find(packet, &NoSets),
        });
        outcomes.collect()
    }

    fn find_partly(&self, record: &Record, packet: &Packet<'_>) -> PacketOutcome {
        let key = partly_key(record, self.asked);
        let mut known = self.known.borrow_mut();
        if let Some(outcome) = key.as_ref().and_then(|key| known.get(key)) {
            return outcome.clone();
        }
        let outcome = evaluate_partly(self.ruleset, packet, record.unknown, &self.sets);
        if known.len() >= KNOWN_OUTCOMES_MAX {
            known.clear();
        }
        known.extend(key.map(|key| (key, outcome.clone())));
        outcome
    }
}

fn sweep(
    evaluator: &Evaluator<'_>,
    opened: PacketInput,
    arguments: &MatchArguments,
) -> Result<Outcome, Failure> {
    let ruleset = evaluator.ruleset;
    let places = Places::new(ruleset);
    let counts = arguments.summary.then(|| Counts::new(ruleset.rules().len()));
    let format = if arguments.json { MatchFormat::Json } else { arguments.format };
    let mut report = Report { places: &places, format, counts };
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    // Lines on the same terminal would tear the bar.
    let has_bar = arguments.summary || !io::stdout().is_terminal();
    let PacketInput { source, read_bytes, size_bytes } = opened;
    let progress = has_bar.then(|| Progress::new(size_bytes));
    let (sender, messages) = mpsc::sync_channel(SENT_AHEAD);
    let (give_back, spare) = mpsc::channel();
    // Nobody waits for its end: it may be waiting for input that never comes.
    thread::spawn(move || read(source, &sender, &spare));
    let (mut packets, mut wrong) = (0, 0u64);
    let mut remarks = Vec::new();
    let mut failed = None;
    report.begin(&mut out)?;
    for message in messages {
        match message {
            Message::Packets(mut records, waits) => {
                packets += records.len() as u64;
                for record in &mut records {
                    record.assume(&arguments.with);
                    record.unknown = record.unknown.with_those_of_fragment(&record.packet());
                }
                for batch in records.chunks(BATCH) {
                    answer(evaluator, &mut report, batch, &mut out)?;
                }
                if let Some(progress) = &progress {
                    progress.set(read_bytes.load(Ordering::Relaxed), packets);
                }
                if waits {
                    out.flush()?;
                }
                records.clear();
                // The reader may have ended.
                let _gone = give_back.send(records).is_err();
            }
            Message::Wrong(what) => {
                wrong += 1;
                match wrong {
                    ..=WRONG_TOLD_MAX => complain(&what),
                    _ if wrong == WRONG_TOLD_MAX + 1 => {
                        complain("more lines are no packets; they are only counted");
                    }
                    _ => {}
                }
            }
            Message::Remarks(told) => remarks = told,
            Message::Failed(failure) => failed = Some(failure),
        }
    }
    drop(progress);
    report.end(&mut out)?;
    out.flush()?;
    remarks.iter().for_each(|remark| complain(remark));
    if wrong > WRONG_TOLD_MAX {
        complain(&format!("{wrong} lines were no packets"));
    }
    if let Some(failure) = failed {
        return Err(failure);
    }
    Ok(if wrong == 0 { Outcome::Found } else { Outcome::Failed })
}

/// Matches what has come together.
fn answer(
    evaluator: &Evaluator<'_>,
    report: &mut Report<'_>,
    batch: &[Record],
    out: &mut impl Write,
) -> io::Result<()> {
    let packets: Vec<Packet<'_>> = batch.iter().map(Record::packet).collect();
    let outcomes = evaluator.find(batch, &packets);
    for ((record, packet), outcome) in batch.iter().zip(&packets).zip(&outcomes) {
        report.packet(record, packet, outcome, out)?;
    }
    Ok(())
}
