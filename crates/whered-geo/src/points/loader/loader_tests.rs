//! Pages of bytes that nobody vouches for, and what cannot be seen from outside.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::points::naive::NaivePoints;
use crate::points::{PagePosition, Pages};

fn cell(bits: u64) -> Cell {
    Cell::from_bits(bits).unwrap()
}

fn words(pages: &Pages) -> Vec<u64> {
    let bytes = pages.pieces().concat();
    assert_eq!(bytes.len(), pages.size_bytes());
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

fn all_pages(points: &Points, bytes_max: usize) -> Vec<Vec<u64>> {
    let mut next = Some(PagePosition::default());
    let mut all = Vec::new();
    while let Some(from) = next {
        let pages = points.pages(&from, bytes_max);
        all.push(words(&pages));
        next = pages.into_next();
    }
    all
}

fn load(pages: &[Vec<u64>], threads: usize) -> Result<Points, PageError> {
    let mut loader = PointsLoader::new();
    for (number, page) in pages.iter().enumerate() {
        loader.load(number as u64, page)?;
    }
    Ok(loader.finish(threads))
}

/// A page with narrow and wide leaves, ties, cells at the limit and a long member.
fn small_page() -> Vec<u64> {
    let mut points = Points::new();
    for (number, bits) in [5u64, 5, 7, 9, 1 << 40, 3 << 52].into_iter().enumerate() {
        points.insert(&[b'a' + number as u8].repeat(1 + 5 * number), cell(bits));
    }
    points.insert(&[b'x'; 1025], cell(7));
    let page = all_pages(&points, usize::MAX).concat();
    assert!(load(std::slice::from_ref(&page), 1).unwrap().iter().eq(points.iter()));
    page
}

/// Loads words that may be anything: an error with its place, or a sound collection.
fn judge(words: &[u64], what: &str) {
    let judged = catch_unwind(AssertUnwindSafe(|| {
        let mut loader = PointsLoader::new();
        match loader.load(0, words) {
            Ok(()) => {}
            Err(error) => {
                assert!(error.offset_bytes() < words.len() * 8);
                assert!(error.to_string().contains(&error.offset_bytes().to_string()));
            }
        }
        let mut points = loader.finish(1);
        points.assert_sound();
        // Whatever was accepted can be changed like any other collection.
        let members: Vec<Vec<u8>> = points.iter().map(|(member, _)| member.to_vec()).collect();
        for (number, member) in members.iter().enumerate() {
            points.insert(member, cell(1000 * number as u64));
            points.insert(&[member.as_slice(), b"2"].concat(), cell(5));
        }
        points.assert_sound();
        assert_eq!(points.len(), 2 * members.len());
        assert!(members.iter().all(|member| points.remove(member)));
    }));
    assert!(judged.is_ok(), "{what}");
}

#[test]
fn a_page_with_any_byte_changed_is_refused_or_sound() {
    let page = small_page();
    for at in 0..page.len() * 8 {
        for bit in 0..8 {
            let mut changed = page.clone();
            changed[at / 8] ^= 1 << (at % 8 * 8 + bit);
            judge(&changed, &format!("bit {bit} of byte {at}"));
        }
        for value in [0, 0xff] {
            let mut changed = page.clone();
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut changed);
            bytes[at] = value;
            judge(&changed, &format!("byte {at} is {value}"));
        }
    }
}

#[test]
fn a_page_that_is_cut_anywhere_is_refused_or_sound() {
    let page = small_page();
    for length in 0..page.len() {
        judge(&page[..length], &format!("cut to {length} words"));
        // Cut at the front, so that what is no header stands for one.
        judge(&page[length..], &format!("without the first {length} words"));
    }
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let page = small_page();
    let error = |words: &[u64]| PointsLoader::new().load(0, words).unwrap_err().to_string();
    let long = page.len() - 2 - 1032usize.div_ceil(8) - 1;
    let cut = error(&page[..page.len() - 1]);
    assert!(cut.contains("go on beyond the end of the page"), "{cut}");
    let mut changed = page.clone();
    changed[0] |= 1 << 20;
    assert_eq!(
        error(&changed),
        "leaf of points at byte 0 of the page: its header is that of no leaf"
    );
    let mut changed = page;
    *changed.last_mut().unwrap() = u64::MAX;
    let message = error(&changed);
    assert!(message.starts_with("long member at byte "), "{message}");
    assert!(long > 0);
}

#[test]
fn of_a_member_in_two_pages_the_later_one_stays() {
    for threads in [1, 2] {
        let (mut before, mut after) = (Points::new(), Points::new());
        for number in 0..600u64 {
            before.insert(number.to_string().as_bytes(), cell(number));
            after.insert(number.to_string().as_bytes(), cell(number + 1_000_000 * (number % 2)));
        }
        // The second page is a whole later walk, which overlaps the first.
        let pages =
            [all_pages(&before, usize::MAX).concat(), all_pages(&after, usize::MAX).concat()];
        let points = load(&pages, threads).unwrap();
        points.assert_sound();
        assert!(points.iter().eq(after.iter()));
        let points = load(&[pages[1].clone(), pages[0].clone()], threads).unwrap();
        points.assert_sound();
        assert_eq!(points.len(), 600);
    }
}

#[test]
fn the_cells_of_one_code_are_told_apart() {
    let cells = [5u64, 2 << 52 | 4, 1 << 52, 2 << 52, 3 << 52, 0, 1 << 52 | 2];
    let mut pages = Vec::new();
    for bits in cells {
        let mut points = Points::new();
        points.insert(b"one", cell(bits));
        points.insert(b"two", cell(bits));
        points.insert(bits.to_string().as_bytes(), cell(bits));
        pages.push(all_pages(&points, usize::MAX).concat());
    }
    let points = load(&pages, 1).unwrap();
    points.assert_sound();
    assert_eq!(points.len(), 2 + cells.len());
}

#[test]
fn nothing_gives_an_empty_collection() {
    let points = load(&all_pages(&Points::new(), 0), 2).unwrap();
    assert!(points.is_empty());
    points.assert_sound();
    let twin = NaivePoints::new();
    assert!(points.iter().eq(twin.iter()));
}
