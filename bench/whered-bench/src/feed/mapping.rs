//! How a feed reads the uploads of this workload.
//!
//! For: scans without a server; a server's configuration says the same (`examples/mobmap`).
//! Not for: consolidation.

use whered_feeds::{Format, ItemsSource, Mapping, MappingSource};

use super::upload::UploadFormat;

/// The mapping of a format, with or without loot.
///
/// # Panics
///
/// Never: the mappings are fixed, and tests compile each.
#[must_use]
pub fn mapping(format: UploadFormat, has_loot: bool) -> Mapping {
    let (format, prefix) = match format {
        UploadFormat::Xml => (Format::Xml, "@"),
        UploadFormat::Ndjson => (Format::Ndjson, ""),
        UploadFormat::Csv => (Format::Csv, ""),
    };
    let path = |name: &str| format!("{prefix}{name}");
    let mut source = MappingSource::new(format);
    if format == Format::Xml {
        source.record = "upload/sighting".to_owned();
    }
    source.member = path("object").into();
    source.longitude = Some(path("x").into());
    source.latitude = Some(path("y").into());
    source.time = Some(path("t").into());
    if has_loot && format != Format::Csv {
        let count = Some(path("n"));
        source.items = Some(ItemsSource { each: "loot".to_owned(), key: path("item"), count });
    }
    source.compile().expect("a fixed mapping")
}

#[cfg(test)]
mod tests {
    use whered_feeds::{Events, Record};

    use super::*;
    use crate::feed::{Consolidated, Upload, UploadOptions, World};

    struct Found<'a> {
        expected: std::slice::Iter<'a, crate::feed::Sighting>,
    }

    impl Events for Found<'_> {
        fn record(&mut self, record: &Record<'_>) {
            let sighting = self.expected.next().expect("no more than were written");
            assert_eq!(record.member, sighting.object.to_string().as_bytes());
            let place = record.place.expect("a place");
            assert_eq!(place.longitude_degrees, sighting.longitude as f64 / 1e5);
            assert_eq!(place.latitude_degrees, sighting.latitude as f64 / 1e5);
            assert_eq!(record.time_millis, Some(sighting.time_seconds * 1_000));
            let items: Vec<(Vec<u8>, i64)> =
                record.items.iter().map(|item| (item.key.to_vec(), item.count)).collect();
            let loot = sighting.loot.iter();
            let loot = loot.map(|(item, n)| (item.to_string().into_bytes(), i64::from(*n)));
            assert_eq!(items, loot.collect::<Vec<_>>());
        }

        fn reject(&mut self, offset_bytes: u64, reason: &str) {
            panic!("byte {offset_bytes}: {reason}");
        }
    }

    #[test]
    fn uploads_are_read_as_they_were_meant() {
        let world = World::new(3, 2_000);
        for (name, format) in UploadFormat::ALL {
            for has_loot in [false, true] {
                let options = UploadOptions { format, has_loot, size_bytes: 20_000 };
                let upload = Upload::new(&world, 5, &options);
                assert!((20_000..21_000).contains(&upload.bytes.len()));
                let mapping = mapping(format, has_loot);
                mapping.check(&upload.bytes).expect("right");
                let mut found = Found { expected: upload.sightings.iter() };
                let totals = mapping.scan(&upload.bytes, &mut found).expect("right");
                assert_eq!(totals.records, upload.sightings.len() as u64, "{name}");
                let mut tables = Consolidated::default();
                upload.sightings.iter().for_each(|sighting| tables.add(sighting));
                assert_eq!(tables.events, totals.records);
                let counts: u64 = tables.positions.values().map(|position| position.seen).sum();
                assert_eq!(counts, totals.records);
                let drops: u64 = tables.loot.values().map(|loot| loot.seen).sum();
                assert_eq!(drops, totals.items);
            }
        }
    }
}
