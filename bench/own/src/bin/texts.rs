//! Times the readers of address texts beside the standard library's, on the same random texts.
//!
//! Not for instruction counts, which `instructions` has. Every reader's answers are summed and
//! held against the standard library's sum. One reader alone, for counting branch misses:
//!
//! ```text
//! texts                          a table of all readers
//! perf stat -e branch-misses texts READER
//! ```
#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

use whered_ip::text::{parse4, parse4_batch_within, parse6, parse6_within};
use whered_random::Random;

/// How many texts of each family there are, and how often each reader goes over them.
const COUNT: usize = 3_000_000;
const ROUNDS: usize = 5;

/// Texts one after the other, as lines of a file.
struct Texts {
    buffer: Vec<u8>,
    places: Vec<Range<usize>>,
}

impl Texts {
    fn new(mut text: impl FnMut() -> String) -> Texts {
        let (mut buffer, mut places) = (Vec::new(), Vec::with_capacity(COUNT));
        for _ in 0..COUNT {
            let start = buffer.len();
            buffer.extend_from_slice(text().as_bytes());
            places.push(start..buffer.len());
            buffer.push(b'\n');
        }
        Texts { buffer, places }
    }

    fn sum(&self, read: impl Fn(&[u8]) -> Option<u64>) -> u64 {
        let texts = self.places.iter().map(|place| &self.buffer[place.clone()]);
        texts.fold(0, |sum, text| sum.wrapping_add(read(text).unwrap_or(1)))
    }

    fn standard<A: std::str::FromStr>(&self, number: impl Fn(A) -> u64) -> u64 {
        let read = |text: &[u8]| std::str::from_utf8(text).ok()?.parse().ok().map(&number);
        self.sum(read)
    }
}

/// Sums over chunks of 64 answers, as a caller with its own arrays would read them.
fn batches(texts: &Texts, mut read: impl FnMut(&[Range<usize>], &mut [Option<u32>])) -> u64 {
    let mut found = [None; 64];
    texts.places.chunks(64).fold(0, |sum, places| {
        let found = &mut found[..places.len()];
        read(places, found);
        found.iter().fold(sum, |sum, found| sum.wrapping_add(found.map_or(1, u64::from)))
    })
}

/// A reader: a name, its family and how it sums all texts.
type Reader = (&'static str, u32, fn(&Texts) -> u64);

const READERS: [Reader; 6] = [
    ("text4/random/standard-library", 4, |texts| texts.standard(|a: Ipv4Addr| a.to_bits().into())),
    ("text4/random/single", 4, |texts| texts.sum(|text| parse4(text).map(u64::from))),
    ("text4/random/batch-within", 4, |texts| {
        batches(texts, |places, found| parse4_batch_within(&texts.buffer, places, found))
    }),
    ("text6/random/standard-library", 6, |texts| texts.standard(|a: Ipv6Addr| a.to_bits() as u64)),
    ("text6/random/single", 6, |texts| texts.sum(|text| parse6(text).map(|a| a as u64))),
    ("text6/random/within", 6, |texts| {
        let read = |place| parse6_within(&texts.buffer, place).map_or(1, |a| a as u64);
        texts.places.iter().fold(0, |sum, place| sum.wrapping_add(read(place)))
    }),
];

fn main() -> ExitCode {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let mut random = Random(31);
    let four = Texts::new(|| Ipv4Addr::from_bits(random.next_u64() as u32).to_string());
    let six = Texts::new(|| {
        // Between three and eight groups, with zeros behind the first ones.
        let groups = 2 + random.below(6) as u32;
        let high = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
        let kept = high & !u128::MAX.checked_shr(16 * groups).unwrap_or(0);
        Ipv6Addr::from_bits(kept | u128::from(random.below(65_536))).to_string()
    });
    let readers =
        READERS.iter().filter(|(name, ..)| asked.is_empty() || asked.iter().any(|a| a == name));
    let mut expected = [None; 2];
    for (name, family, read) in readers {
        let texts = if *family == 4 { &four } else { &six };
        let mut best = f64::INFINITY;
        let mut sum = 0;
        for _ in 0..ROUNDS {
            let begin = Instant::now();
            sum = black_box(read(black_box(texts)));
            best = best.min(begin.elapsed().as_secs_f64());
        }
        if *expected[usize::from(*family == 6)].get_or_insert(sum) != sum {
            println!("{name}: the answers differ from the standard library's");
            return ExitCode::FAILURE;
        }
        println!("{name:<32} {:>6.2} ns a text", best * 1e9 / COUNT as f64);
    }
    ExitCode::SUCCESS
}
