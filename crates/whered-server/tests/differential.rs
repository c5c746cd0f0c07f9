//! whered beside Debian's redis-server: the same random commands, the same bytes back.
//!
//! Some fixed seeds and a fresh one are run; `WHERED_SEED=n` runs one seed alone. Without
//! redis-server the test is skipped, unless `WHERED_REQUIRE` contains `peers`.
//!
//! ```text
//! generator ──batch──┬──> whered  ──replies──┐
//!   (seed)           └──> redis   ──replies──┴──> compare: same bytes, or a stated rule
//! ```

#[path = "support/mod.rs"]
mod support;

#[path = "differential/compare.rs"]
mod compare;
#[path = "differential/generator.rs"]
mod generator;
#[path = "differential/peer.rs"]
mod peer;

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use compare::{Compared, Known, Setting};
use generator::{Generator, Words};
use peer::Peer;
use support::Door;
use support::client::{Client, Value, request};

const FIXED_SEEDS: [u64; 5] = [1, 2, 3, 42, 7_015];
const COMMANDS_PER_SEED: usize = 20_000;

#[test]
fn the_same_commands_get_the_same_bytes_as_from_redis() {
    let Some(peer) = Peer::start() else {
        let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
        let text = "redis-server is not installed (package redis-server)";
        assert!(!required.split(',').any(|word| word == "peers"), "{text}");
        println!("skipped: {text}");
        return;
    };
    let seeds = match std::env::var("WHERED_SEED") {
        Ok(seed) => vec![seed.parse().expect("WHERED_SEED is a number")],
        Err(_) => FIXED_SEEDS.into_iter().chain([fresh_seed()]).collect(),
    };
    let several = seeds.len() > 1;
    let mut known: BTreeMap<Known, usize> = BTreeMap::new();
    let mut answered: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    let mut commands = 0;
    for seed in seeds {
        println!("seed {seed} (WHERED_SEED={seed} repeats it)");
        let mut run = Run::new(&peer, seed);
        commands += run.all(&mut known);
        for (words, failed) in &run.answered {
            answered.entry(words.clone()).or_default()[usize::from(*failed)] += 1;
        }
    }
    println!("{commands} commands compared; known differences: {known:?}");
    for (name, [fine, failed]) in answered.iter().filter(|(_, [fine, _])| *fine > 0) {
        println!("{name}: {fine} answered, {failed} refused");
    }
    // One seed alone may go without a rare one.
    for name in generator::NAMES.into_iter().filter(|_| several) {
        let counts = answered.get(name).copied().unwrap_or_default();
        assert!(counts[0] > 0, "{name} was never answered: the generator does not test it");
    }
}

fn fresh_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is set");
    since.as_nanos() as u64 ^ u64::from(std::process::id())
}

/// One seed: a door, a connection to either server, and what was sent.
struct Run {
    seed: u64,
    door: Door,
    ours: Client,
    theirs: Client,
    /// What was sent, and whether it may have changed something.
    history: Vec<(Words, bool)>,
    number: usize,
    /// The names of the commands that were sent, and whether they were refused.
    answered: Vec<(String, bool)>,
    /// Results that were stored, and those among them that differ without a reason in sight.
    stored: usize,
    others: usize,
}

impl Run {
    fn new(peer: &Peer, seed: u64) -> Run {
        let door = Door::in_memory();
        let ours = door.client();
        let mut theirs = Client::connect(peer.address);
        assert_eq!(theirs.ask(&["FLUSHALL"]), "+OK\r\n");
        let (history, answered) = (Vec::new(), Vec::new());
        Run { seed, door, ours, theirs, history, number: 0, answered, stored: 0, others: 0 }
    }

    fn all(&mut self, known: &mut BTreeMap<Known, usize>) -> usize {
        let mut generator = Generator::new(self.seed);
        while self.history.len() < COMMANDS_PER_SEED {
            let batch = generator.batch();
            self.batch(&batch, known);
        }
        self.history.len()
    }

    fn batch(&mut self, batch: &[Words], known: &mut BTreeMap<Known, usize>) {
        let bytes: Vec<u8> = batch
            .iter()
            .flat_map(|words| request(&words.iter().map(Vec::as_slice).collect::<Vec<_>>()))
            .collect();
        self.ours.send(&bytes);
        self.theirs.send(&bytes);
        let replies: Vec<_> =
            batch.iter().map(|_| (self.ours.reply(), self.theirs.reply())).collect();
        for (words, (ours, theirs)) in batch.iter().zip(replies) {
            let failed = matches!(theirs.value, Value::Error(_));
            self.history.push((words.clone(), !failed && !generator::only_reads(words)));
            let name = words[0].to_ascii_lowercase();
            self.answered.push((String::from_utf8_lossy(&name).into_owned(), failed));
            let setting = Setting { engine: &self.door.engine, number: self.number };
            match compare::compare(&setting, words, &ours, &theirs) {
                Compared::Same => {}
                Compared::Known(kind) => *known.entry(kind).or_default() += 1,
                Compared::Different(why) => {
                    panic!(
                        "seed {}, command {}: {}\n  {why}\n  whered: {ours:?}\n  redis:  {theirs:?}\n\
                         minimal reproduction:\n{}",
                        self.seed,
                        self.history.len(),
                        shown(words),
                        self.reproduction(words)
                    );
                }
            }
            self.follow(words, &ours.bytes);
            let removes_by_name = words[0].eq_ignore_ascii_case(b"zremrangebylex");
            if !failed && removes_by_name {
                self.compare_stored(words, &words[1], known);
            } else if !failed && let Some(key) = generator::destination(words) {
                self.compare_stored(words, key, known);
            }
        }
    }

    /// Compares what was stored as a whole, and removes it where it differs, so that later
    /// commands meet the same data.
    fn compare_stored(&mut self, words: &Words, key: &[u8], known: &mut BTreeMap<Known, usize>) {
        self.stored += 1;
        let range = request(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]);
        self.ours.send(&range);
        self.theirs.send(&range);
        if self.ours.reply().bytes == self.theirs.reply().bytes {
            return;
        }
        let may_differ = |word: &Vec<u8>| {
            let word = word.to_ascii_lowercase();
            word == b"count"
                || word == b"bylex"
                || word == b"zremrangebylex"
                || word == b"frommember"
                || word == b"georadiusbymember"
        };
        let spoilt = !words.iter().any(may_differ);
        self.others += usize::from(spoilt);
        assert!(
            self.others <= 2 + self.stored / 50,
            "seed {}: too many stored results differ; the last by {}",
            self.seed,
            self.reproduction(words)
        );
        *known.entry(Known::StoredOther).or_default() += 1;
        let remove = request(&[b"DEL", key]);
        self.ours.send(&remove);
        self.theirs.send(&remove);
        let (ours, theirs) = (self.ours.reply(), self.theirs.reply());
        assert!(matches!((&ours.value, &theirs.value), (Value::Integer(_), Value::Integer(_))));
        self.history.push((vec![b"DEL".to_vec(), key.to_vec()], true));
    }

    /// Keeps the chosen database in mind, for looking into the engine.
    fn follow(&mut self, words: &Words, reply: &[u8]) {
        if words[0].eq_ignore_ascii_case(b"reset") && reply == b"+RESET\r\n" {
            self.number = 0;
        }
        if words[0].eq_ignore_ascii_case(b"select") && reply == b"+OK\r\n" {
            let text = std::str::from_utf8(&words[1]).expect("Redis took it as a number");
            self.number = text.parse().expect("Redis took it as a number");
        }
    }

    /// The commands that changed the last command's key, or all keys, since all were removed.
    fn reproduction(&self, last: &Words) -> String {
        let changes: Vec<&Words> =
            self.history.iter().filter(|(_, changed)| *changed).map(|(words, _)| words).collect();
        let is = |words: &Words, names: &[&str]| {
            names.iter().any(|name| words[0].eq_ignore_ascii_case(name.as_bytes()))
        };
        let start = changes.iter().rposition(|words| is(words, &["flushall"])).unwrap_or(0);
        let everywhere = ["flushall", "flushdb", "select", "reset", "swapdb"];
        let key = last.get(1);
        changes[start..]
            .iter()
            .filter(|words| is(words, &everywhere) || words[1..].iter().any(|w| Some(w) == key))
            .copied()
            .chain([last])
            .map(shown)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// A command as redis-cli takes it.
fn shown(words: &Words) -> String {
    let quoted = |word: &Vec<u8>| match word.as_slice() {
        plain if !plain.is_empty() && plain.iter().all(u8::is_ascii_graphic) => {
            String::from_utf8_lossy(plain).into_owned()
        }
        other => format!("\"{}\"", other.escape_ascii()),
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}
