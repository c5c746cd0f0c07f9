//! An upload in pieces is the upload in one piece.

use whered_store::SimulatedDisk;

use super::tests::{Random, Sighting, in_memory, open, sightings, upload};
use super::{FeedLimits, PushError, Upload, UploadStatus};

/// `bytes` cut at random places, some of them equal.
fn cut<'a>(bytes: &'a [u8], random: &mut Random) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> =
        (0..random.below(5)).map(|_| random.below(bytes.len() as u64 + 1) as usize).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect()
}

fn pieces<'a>(pieces: &'a [&'a [u8]]) -> Upload<'a> {
    Upload { bytes: pieces[0], more: &pieces[1..], ..Upload::default() }
}

#[test]
fn it_is_spooled_and_applied_as_one_piece() {
    let mut random = Random(11);
    for on_disk in [true, false] {
        let disk = SimulatedDisk::new(1);
        let feeds = || vec![sightings()];
        let engine = if on_disk { open(&disk, feeds()).unwrap() } else { in_memory(feeds()) };
        let feed = engine.feeds().get("sightings").unwrap();
        for _ in 0..60 {
            let seen: Vec<_> =
                (0..1 + random.below(40)).map(|_| Sighting::random(&mut random)).collect();
            let text = upload(&seen);
            let parts = cut(&text, &mut random);
            let pushed = feed.push(pieces(&parts)).unwrap();
            feed.wait(pushed.ticket).unwrap();
            engine.step_feed(feed).unwrap();
            let applied = UploadStatus::Applied { records: seen.len() as u64, rejected_records: 0 };
            assert_eq!(feed.status(pushed.id), applied);
        }
        engine.close().unwrap();
    }
}

#[test]
fn its_content_hash_is_that_of_all_of_it() {
    let limits = FeedLimits { content_hash: true, ..sightings().limits };
    let engine = in_memory(vec![super::FeedSource { limits, ..sightings() }]);
    let feed = engine.feeds().get("sightings").unwrap();
    let mut random = Random(12);
    let seen: Vec<_> = (0..30).map(|_| Sighting::random(&mut random)).collect();
    let text = upload(&seen);
    let first = feed.push(Upload { bytes: &text, ..Upload::default() }).unwrap();
    for _ in 0..20 {
        let again = feed.push(pieces(&cut(&text, &mut random))).unwrap();
        assert_eq!((again.id, again.repeated), (first.id, true));
    }
    let parts = [&text[..9], &text[9..]];
    let keyed = Upload { idempotency_key: Some("k"), ..pieces(&parts) };
    assert!(!feed.push(keyed).unwrap().repeated, "a key comes before the bytes");
}

#[test]
fn what_is_refused_in_one_piece_is_refused_in_several() {
    let limits = FeedLimits { upload_size_bytes_max: 200_000, ..sightings().limits };
    let engine = in_memory(vec![super::FeedSource { limits, ..sightings() }]);
    let feed = engine.feeds().get("sightings").unwrap();
    let mut random = Random(13);
    let long_comment = format!("<!-- {} --><other/>", "x".repeat(100_000));
    let wrong = ["<other><sighting/></other>", "object,x,y\n", "\u{0}<upload>", &long_comment];
    for text in wrong {
        let whole = feed.push(Upload { bytes: text.as_bytes(), ..Upload::default() });
        let whole = whole.unwrap_err();
        assert!(matches!(whole, PushError::Invalid(_)), "{whole}");
        for _ in 0..20 {
            let parts = cut(text.as_bytes(), &mut random);
            assert_eq!(feed.push(pieces(&parts)).unwrap_err(), whole, "{text:?}");
        }
    }
    // What does not tell yet in a long first piece is told by the others.
    let late = format!("<!-- {} --><upload/>", "x".repeat(20_000));
    let pushed = feed.push(pieces(&[&late.as_bytes()[..18_000], &late.as_bytes()[18_000..]]));
    assert!(!pushed.unwrap().repeated);
    let large = [&[b' '; 150_000][..], &[b' '; 60_000]];
    let refused = feed.push(pieces(&large)).unwrap_err();
    assert_eq!(refused, PushError::TooLarge { allowed_bytes: 200_000, is_unpacked: false });
}
