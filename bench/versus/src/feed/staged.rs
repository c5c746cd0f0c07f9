//! Batches as the lines that LOAD DATA takes, made of sightings or of uploads as they come.
//!
//! For: the text of staging tables. Not for loading it.
//!
//! Uploads in XML are read by our own scanner, on a thread of its own while the batch before is
//! loaded. Which point of its object a sighting is at (the merging within 25 m) is told to the
//! reader: a program beside a SQL database would have to find that out, too.

use std::io::Write;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use whered_bench::feed::{Sighting, Upload, UploadFormat, mapping};
use whered_feeds::{Events, Mapping, Record};

use crate::contestant::Applied;

/// The lines of both staging tables.
#[derive(Default)]
pub(crate) struct Staged {
    /// object, point, longitude, latitude, t
    pub(crate) staged: Vec<u8>,
    /// object, item, n, t
    pub(crate) staged_loot: Vec<u8>,
}

impl Staged {
    /// Of sightings that are read already.
    pub(crate) fn of(sightings: &[&Sighting]) -> Result<Staged, String> {
        let mut made = Staged::default();
        let mut write = |sighting: &Sighting| -> std::io::Result<()> {
            let Sighting { object, point, longitude, latitude, time_seconds: t, .. } = sighting;
            writeln!(made.staged, "{object}\t{point}\t{longitude}\t{latitude}\t{t}")?;
            for (item, n) in &sighting.loot {
                writeln!(made.staged_loot, "{object}\t{item}\t{n}\t{t}")?;
            }
            Ok(())
        };
        for sighting in sightings {
            write(sighting).map_err(|error| error.to_string())?;
        }
        Ok(made)
    }

    fn of_xml(uploads: &[Upload], mapping: &Mapping) -> Result<Staged, String> {
        let mut made = Staged::default();
        for upload in uploads {
            let points = upload.sightings.iter();
            let mut reader = Reader { made: &mut made, points, rejected: 0 };
            mapping.scan(&upload.bytes, &mut reader).map_err(|error| error.to_string())?;
            if reader.rejected > 0 || reader.points.next().is_some() {
                return Err("an upload was not read as it was made".to_owned());
            }
        }
        Ok(made)
    }
}

struct Reader<'a> {
    made: &'a mut Staged,
    /// Only their points are looked at.
    points: std::slice::Iter<'a, Sighting>,
    rejected: u64,
}

impl Events for Reader<'_> {
    fn record(&mut self, record: &Record<'_>) {
        let (Some(place), Some(sighting)) = (record.place, self.points.next()) else {
            self.rejected += 1;
            return;
        };
        let t = record.time_millis.unwrap_or_default() / 1_000;
        let whole = |degrees: f64| (degrees * 1e5).round() as i64;
        let (x, y) = (whole(place.longitude_degrees), whole(place.latitude_degrees));
        let staged = &mut self.made.staged;
        staged.extend_from_slice(record.member);
        // Memory takes every write.
        let _ = writeln!(staged, "\t{}\t{x}\t{y}\t{t}", sighting.point);
        for item in record.items {
            let staged = &mut self.made.staged_loot;
            staged.extend_from_slice(record.member);
            staged.push(b'\t');
            staged.extend_from_slice(item.key);
            let _ = writeln!(staged, "\t{}\t{t}", item.count);
        }
    }

    fn reject(&mut self, _: u64, _: &str) {
        self.rejected += 1;
    }
}

/// Sends whole batches of uploads, read on another thread, until the time is over.
pub(crate) fn batches(
    uploads: &[Upload],
    batch: usize,
    time: Duration,
    has_loot: bool,
    mut load: impl FnMut(Staged) -> Result<(), String>,
) -> Result<Applied, String> {
    let start = Instant::now();
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(1);
        scope.spawn(move || {
            let mapping = mapping(UploadFormat::Xml, has_loot);
            for part in uploads.chunks(batch) {
                let counts: Vec<usize> = part.iter().map(|upload| upload.sightings.len()).collect();
                // Nobody takes any more when the time is over.
                if sender.send((Staged::of_xml(part, &mapping), counts)).is_err() {
                    return;
                }
            }
        });
        let mut applied = Applied::new();
        for (staged, counts) in receiver {
            load(staged?)?;
            applied.extend(counts);
            if start.elapsed() >= time {
                break;
            }
        }
        Ok(applied)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use whered_bench::feed::{UploadOptions, World};

    #[test]
    fn xml_and_sightings_make_the_same_lines() {
        let world = World::new(3, 2_000);
        let options =
            UploadOptions { format: UploadFormat::Xml, has_loot: true, size_bytes: 20_000 };
        let uploads: Vec<Upload> = (0..3).map(|n| Upload::new(&world, n, &options)).collect();
        let sightings: Vec<&Sighting> = uploads.iter().flat_map(|one| &one.sightings).collect();
        let direct = Staged::of(&sightings).unwrap();
        let read = Staged::of_xml(&uploads, &mapping(UploadFormat::Xml, true)).unwrap();
        assert!(direct.staged == read.staged && direct.staged_loot == read.staged_loot);
        assert!(!direct.staged_loot.is_empty());
    }
}
