//! Times the scan of uploads: by shapes, and by the libraries alone, on the same bytes in turn.
//!
//! Not for consolidation or the server; `whered-bench feed` has those. Both scans must count and
//! sum the same.
//!
//! ```text
//! feeds              a table: processor nanoseconds a record, records a second, megabytes a second
//! feeds NAME [N]     one line of it alone, N rounds, for counting instructions
//! ```
#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

use std::process::ExitCode;

use whered_bench::feed::{Upload, UploadFormat, UploadOptions, World, mapping};
use whered_bench::measure::thread_cpu_nanoseconds;
use whered_feeds::{Events, Mapping, Record};

const UPLOADS: u64 = 40;
const ROUNDS: usize = 15;

/// Looks at every part of a record, so that none can be left out.
#[derive(Debug, Default, PartialEq)]
struct Sum {
    records: u64,
    rejected: u64,
    sum: u64,
}

impl Events for Sum {
    fn record(&mut self, record: &Record<'_>) {
        let mut sum = record.member.len() as u64 + u64::from(record.member[0]);
        if let Some(place) = record.place {
            sum = sum.wrapping_add(place.longitude_degrees.to_bits());
            sum = sum.wrapping_add(place.latitude_degrees.to_bits());
        }
        sum = sum.wrapping_add(record.time_millis.unwrap_or_default() as u64);
        for item in record.items {
            sum = sum.wrapping_add(item.key.len() as u64 + item.count as u64);
        }
        self.sum = self.sum.wrapping_mul(31).wrapping_add(sum);
        self.records += 1;
    }

    fn reject(&mut self, _offset_bytes: u64, _reason: &str) {
        self.rejected += 1;
    }
}

struct Case {
    name: String,
    mapping: Mapping,
    uploads: Vec<Vec<u8>>,
}

impl Case {
    fn new(format: UploadFormat, has_loot: bool) -> Case {
        let world = World::new(1, 20_000);
        let options = UploadOptions { format, has_loot, size_bytes: 100_000 };
        let uploads = (0..UPLOADS).map(|number| Upload::new(&world, number, &options).bytes);
        let what = if has_loot { "loot" } else { "positions" };
        let name = format!("scan/{}-{what}", format.name());
        Case { name, mapping: mapping(format, has_loot), uploads: uploads.collect() }
    }

    fn bytes(&self) -> usize {
        self.uploads.iter().map(Vec::len).sum()
    }

    fn run(&self, by_library: bool) -> Sum {
        let mut sum = Sum::default();
        for upload in &self.uploads {
            let result = if by_library {
                self.mapping.scan_by_library(upload, &mut sum)
            } else {
                self.mapping.scan(upload, &mut sum)
            };
            result.expect("uploads of our own are right");
        }
        sum
    }
}

fn clock() -> u64 {
    thread_cpu_nanoseconds().expect("this system has the clock")
}

/// The best of several rounds in nanoseconds of this thread's processor time, both in turn.
fn measure(case: &Case) -> [f64; 2] {
    let mut best = [f64::INFINITY; 2];
    let expected = case.run(true);
    for _ in 0..ROUNDS {
        for (best, by_library) in best.iter_mut().zip([false, true]) {
            let start = clock();
            let sum = case.run(by_library);
            *best = best.min((clock() - start) as f64);
            assert_eq!(sum, expected, "{}", case.name);
        }
    }
    best
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (only, rounds) = (arguments.next(), arguments.next());
    let cases = UploadFormat::ALL.into_iter().flat_map(|(_, format)| {
        let kinds: &[bool] = if format == UploadFormat::Csv { &[false] } else { &[false, true] };
        kinds.iter().map(move |has_loot| Case::new(format, *has_loot))
    });
    if only.is_none() {
        println!(
            "| scan | record bytes | ns/record | M records/s | MB/s | library ns/record | ratio |"
        );
        println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    }
    for case in cases.filter(|case| only.as_ref().is_none_or(|name| *name == case.name)) {
        if let Some(rounds) = rounds.as_ref().and_then(|rounds| rounds.parse::<u32>().ok()) {
            let sum = (0..rounds).fold(0, |sum: u64, _| sum.wrapping_add(case.run(false).sum));
            println!("{} {sum} of {} records a round", case.name, case.run(false).records);
            continue;
        }
        let records = case.run(false).records as f64;
        let bytes = case.bytes() as f64;
        let [own, library] = measure(&case);
        println!(
            "| {} | {:.0} | {:.1} | {:.2} | {:.0} | {:.0} | {:.1} |",
            case.name,
            bytes / records,
            own / records,
            records * 1e3 / own,
            bytes * 1e3 / own,
            library / records,
            library / own,
        );
    }
    ExitCode::SUCCESS
}
