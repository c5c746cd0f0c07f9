//! Any bytes as an upload of any format: the quick scan and its naive twin say the same, every
//! record keeps its promises, and nothing panics.
//!
//! The first byte chooses the format. The rest is scanned as it is and once more repeated, so that
//! shapes are learned and then met again. Not for: uploads that are right; the tests have those.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use whered_feeds::{
    Events, FieldKind, Format, ItemsSource, Mapping, MappingSource, Origin, Record, RowsSource,
    TimeSource, Value, ValueSource,
};

static MAPPINGS: LazyLock<Vec<Mapping>> = LazyLock::new(|| {
    let plain = Format::ALL.into_iter().map(|(_, format)| mapping(format));
    plain.chain([namespaces(), documents(), rows()]).collect()
});

fn text(path: &str) -> (String, ValueSource, FieldKind) {
    (path.to_owned(), path.into(), FieldKind::Text)
}

/// XML by namespaces, with conditions, parallel values and two numbers in a text.
fn namespaces() -> Mapping {
    let mut source = MappingSource::new(Format::Xml);
    source.namespaces =
        vec![("default".to_owned(), "u".to_owned()), ("p".to_owned(), "v".to_owned())];
    source.record = "u/s".to_owned();
    source.member = "p:m".into();
    source.longitude = Some(ValueSource { number: Some(1), ..ValueSource::from("c") });
    source.latitude = Some(ValueSource { number: Some(2), ..ValueSource::from("c") });
    source.fields = vec![text("t[@k='a']/@v"), text("../w[n]"), text("../@p:o")];
    source.compile().expect("a fixed mapping")
}

/// Documents with values of the levels above, joined members and local times.
fn documents() -> Mapping {
    let mut source = MappingSource::new(Format::Json);
    source.record = "u[].s".to_owned();
    let parts = vec![
        "m".into(),
        ValueSource { default: Some("d".to_owned()), ..ValueSource::from("../m") },
    ];
    source.member = ValueSource::new(Origin::Join(parts, ":".to_owned()));
    let zone = Some("Europe/Berlin".to_owned());
    source.time = Some(ValueSource {
        time: TimeSource { zone, ..TimeSource::default() },
        ..ValueSource::from("t")
    });
    source.fields = vec![text("../../x"), text("0")];
    source.compile().expect("a fixed mapping")
}

/// Rows with every option, in another encoding.
fn rows() -> Mapping {
    let mut source = MappingSource::new(Format::Csv);
    source.rows = RowsSource { delimiter: Some(b';'), skip_lines: 1, comment: Some(b'#') };
    source.decimal_comma = true;
    source.encoding = Some("windows-1252".to_owned());
    source.member = "m".into();
    let format = Some("%d.%m.%Y %H:%M:%S%.f %z".to_owned());
    source.time = Some(ValueSource {
        time: TimeSource { format, ..TimeSource::default() },
        ..ValueSource::from("#2")
    });
    source.fields = vec![("n".to_owned(), "#3".into(), FieldKind::Number)];
    source.compile().expect("a fixed mapping")
}

fn mapping(format: Format) -> Mapping {
    let mut source = MappingSource::new(format);
    let prefix = if format == Format::Xml { "@" } else { "" };
    let path = |name: &str| format!("{prefix}{name}");
    if format != Format::Gpx {
        source.member = path("m").into();
        source.longitude = Some(path("x").into());
        source.latitude = Some(path("y").into());
        source.time = Some(path("t").into());
        source.fields = vec![
            ("i".to_owned(), path("i").into(), FieldKind::Integer),
            ("n".to_owned(), path("n").into(), FieldKind::Number),
        ];
    }
    if format == Format::Xml {
        source.record = "u/s".to_owned();
        source.fields.push(("c".to_owned(), "c|../@c|../c".into(), FieldKind::Text));
    }
    if matches!(format, Format::Xml | Format::Ndjson | Format::Json) {
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
            // In UTF-8 an upload is at most three times as long.
            assert!(error.offset_bytes() <= 3 * upload.len() as u64, "{error}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
