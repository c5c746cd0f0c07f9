//! What it costs to give a large collection as pages, and to build it from them again.
//!
//! For: `points pages COUNT`. Pages lie in memory, so that no disk is measured.
//!
//! ```text
//! random inserts, a tenth moved ─► pages of 1 MiB ─► loaded by one thread, by two ─► compared
//! the same with a sixteenth of all points moved while the pages are written
//! ```

use std::time::{Duration, Instant};

use whered_geo::{Cell, Inserted, PagePosition, Points, PointsLoader};

use crate::{Changes, numbered, process_seconds, random, report_bytes, resident_bytes};

/// As much as a snapshot's block has.
const PAGE_BYTES: usize = 1 << 20;

type Page = Vec<u64>;

pub(crate) fn measure(mut points: Points, empty_bytes: usize) {
    report_bytes(&points, "before", empty_bytes);
    let pages = export(&mut points, 0);
    let expected = digest(&points);
    for threads in [2, 1, 2, 2] {
        let loaded = import(&pages, threads);
        assert_eq!(digest(&loaded), expected, "what comes back is what was written");
    }
    drop(pages);
    let pages = export(&mut points, 16);
    drop(points);
    let loaded = import(&pages, 2);
    drop(pages);
    report_bytes(&loaded, "after loading", empty_bytes);
}

/// Exports all pages while one in `one_in` points moves (none if 0).
fn export(points: &mut Points, one_in: usize) -> Vec<Page> {
    let (mut in_steps, mut copying, mut longest) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let (mut pages, mut next) = (Vec::new(), Some(PagePosition::default()));
    let estimated_pages = points.len() / 45_000 + 1;
    while let Some(from) = next {
        let start = Instant::now();
        let page = points.pages(&from, PAGE_BYTES);
        let step = start.elapsed();
        let start = Instant::now();
        let mut words = vec![0; page.size_bytes() / 8];
        let mut at = 0;
        let bytes = bytes_of(&mut words);
        for piece in page.pieces() {
            bytes[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        copying += start.elapsed();
        in_steps += step;
        longest = longest.max(step);
        next = page.into_next();
        if let Some(moved) = points.len().checked_div(one_in) {
            let (count, salt) = (points.len() as u64, pages.len() as u64);
            let changes = Changes::new(moved / estimated_pages, |index| {
                let number = random(salt, index) % count + 1;
                (number, numbered(1 << 40)(random(salt + 1, index) % count).1)
            });
            changes.apply(points, 16, &[Inserted::Moved, Inserted::Unchanged]);
        }
        pages.push(words);
    }
    let bytes: usize = pages.iter().map(|page| page.len() * 8).sum();
    println!(
        "export, one in {one_in} moving: {} pages of {:.2} bytes a point; a step takes {:.0} us \
         (the longest {:.0}), copying its bytes {:.0} us",
        pages.len(),
        bytes as f64 / points.len() as f64,
        in_steps.as_secs_f64() * 1e6 / pages.len() as f64,
        longest.as_secs_f64() * 1e6,
        copying.as_secs_f64() * 1e6 / pages.len() as f64,
    );
    pages
}

fn bytes_of(words: &mut [u64]) -> &mut [u8] {
    bytemuck::cast_slice_mut(words)
}

fn import(pages: &[Page], threads: usize) -> Points {
    let resident_before = resident_bytes();
    let (start, start_seconds) = (Instant::now(), process_seconds());
    let share = pages.len().div_ceil(threads);
    let loaders: Vec<PointsLoader> = std::thread::scope(|scope| {
        let shares: Vec<_> = pages
            .chunks(share)
            .enumerate()
            .map(|(index, some)| scope.spawn(move || load(some, index * share)))
            .collect();
        shares.into_iter().map(|share| share.join().expect("good pages")).collect()
    });
    let loading = start.elapsed();
    let mut loaders = loaders.into_iter();
    let mut loader = loaders.next().unwrap_or_default();
    loaders.for_each(|other| loader.join(other));
    let points = loader.finish(threads);
    println!(
        "import of {} points, {threads} threads: {:.3} s ({:.3} s of it checking and copying), \
         {:.2} s of processor, {:.1} bytes a point more resident for {:.1} of the account",
        points.len(),
        start.elapsed().as_secs_f64(),
        loading.as_secs_f64(),
        process_seconds() - start_seconds,
        resident_bytes().saturating_sub(resident_before) as f64 / points.len() as f64,
        points.memory_bytes() as f64 / points.len() as f64,
    );
    points
}

fn load(pages: &[Page], first: usize) -> PointsLoader {
    let mut loader = PointsLoader::new();
    for (index, page) in pages.iter().enumerate() {
        loader.load((first + index) as u64, page).expect("a good page");
    }
    loader
}

/// A number that differs if any entry does, in its place; and some lookups are checked.
fn digest(points: &Points) -> u64 {
    let mut sum = 0u64;
    for (rank, (member, cell)) in points.iter().enumerate() {
        let tail = member.iter().fold(0, |sum: u64, &byte| sum << 4 ^ u64::from(byte));
        sum = sum.wrapping_mul(31).wrapping_add(tail ^ cell.bits());
        if rank % 1009 == 0 {
            assert_eq!(points.cell(member).map(Cell::bits), Some(cell.bits()));
        }
    }
    sum
}
