//! Any bytes as an upload of any format: the quick scan and its naive twin say the same, every
//! record keeps its promises, and nothing panics.
//!
//! The first byte chooses the format. The rest is scanned as it is and once more repeated, so that
//! shapes are learned and then met again. Not for: uploads that are right; the tests have those.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use whered_feeds::{Events, FieldKind, Format, ItemsSource, Mapping, MappingSource, Record, Value};

static MAPPINGS: LazyLock<Vec<Mapping>> =
    LazyLock::new(|| Format::ALL.into_iter().map(|(_, format)| mapping(format)).collect());

fn mapping(format: Format) -> Mapping {
    let mut source = MappingSource::new(format);
    let prefix = if format == Format::Xml { "@" } else { "" };
    let path = |name: &str| format!("{prefix}{name}");
    if format != Format::Gpx {
        source.member = path("m");
        source.longitude = Some(path("x"));
        source.latitude = Some(path("y"));
        source.time = Some(path("t"));
        source.fields = vec![
            ("i".to_owned(), path("i"), FieldKind::Integer),
            ("n".to_owned(), path("n"), FieldKind::Number),
        ];
    }
    if format == Format::Xml {
        source.record = "u/s".to_owned();
        source.fields.push(("c".to_owned(), "c|../@c|../c".to_owned(), FieldKind::Text));
    }
    if matches!(format, Format::Xml | Format::Ndjson) {
        source.items =
            Some(ItemsSource { each: "l".to_owned(), key: path("k"), count: Some(path("n")) });
    }
    source.compile().expect("a fixed mapping")
}

#[derive(Default, PartialEq, Debug)]
struct Seen {
    texts: Vec<String>,
    last_offset: u64,
    records: u64,
    rejected: u64,
}

impl Seen {
    fn at(&mut self, offset_bytes: u64) {
        assert!(offset_bytes >= self.last_offset, "records come in the order of the upload");
        self.last_offset = offset_bytes;
    }
}

impl Events for Seen {
    fn record(&mut self, record: &Record<'_>) {
        self.at(record.offset_bytes);
        self.records += 1;
        assert!(!record.member.is_empty() && std::str::from_utf8(record.member).is_ok());
        assert!(record.time_millis.is_none_or(|time| (0..7_258_118_400_000).contains(&time)));
        for field in record.fields {
            match field {
                Value::Text(text) => assert!(std::str::from_utf8(text).is_ok()),
                Value::Number(number) => assert!(number.is_finite()),
                Value::Integer(_) | Value::Absent => {}
            }
        }
        for item in record.items {
            assert!(!item.key.is_empty() && std::str::from_utf8(item.key).is_ok());
        }
        self.texts.push(format!("{record:?}"));
    }

    fn reject(&mut self, offset_bytes: u64, reason: &str) {
        self.at(offset_bytes);
        self.rejected += 1;
        assert!(!reason.is_empty() && !reason.contains('\n'), "{reason:?}");
        self.texts.push(format!("{offset_bytes} {reason}"));
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&choice, upload)) = input.split_first() else { return };
    let mapping = &MAPPINGS[usize::from(choice) % MAPPINGS.len()];
    let _ = mapping.check(upload);
    compare(mapping, upload);
    if mapping.format() == Format::Xml {
        compare(mapping, &[b"<u c='1'>", upload, upload, upload, b"</u>"].concat());
    } else {
        compare(mapping, &upload.repeat(3));
    }
});

fn compare(mapping: &Mapping, upload: &[u8]) {
    let (mut quick, mut slow) = (Seen::default(), Seen::default());
    let by_shapes = mapping.scan(upload, &mut quick);
    let by_library = mapping.scan_by_library(upload, &mut slow);
    assert_eq!(by_shapes, by_library);
    assert_eq!(quick, slow);
    match by_shapes {
        Ok(totals) => {
            assert_eq!((totals.records, totals.rejected), (quick.records, quick.rejected));
        }
        Err(error) => {
            assert!(error.offset_bytes() <= upload.len() as u64, "{error}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
