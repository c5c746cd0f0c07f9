//! Values that are no paths, and values of several.

use crate::{
    Events, FieldKind, Format, Mapping, MappingSource, Origin, Record, TimeSource, UploadField,
    ValueSource,
};

struct Members(Vec<String>);

impl Events for Members {
    fn record(&mut self, record: &Record<'_>) {
        let member = String::from_utf8_lossy(record.member).into_owned();
        let time = record.time_millis.map_or(String::new(), |millis| format!(" @{millis}"));
        self.0.push(member + &time);
    }

    fn reject(&mut self, _: u64, reason: &str) {
        self.0.push(format!("reject: {reason}"));
    }
}

fn path(path: &str) -> ValueSource {
    ValueSource::from(path)
}

fn constant(text: &str) -> ValueSource {
    ValueSource::new(Origin::Constant(text.to_owned()))
}

fn join(parts: &[ValueSource], with: &str) -> ValueSource {
    ValueSource::new(Origin::Join(parts.to_vec(), with.to_owned()))
}

fn of_upload(field: UploadField) -> ValueSource {
    ValueSource::new(Origin::Upload(field))
}

fn members(mapping: &Mapping, upload: &[u8]) -> Vec<String> {
    let fields = [
        (UploadField::FileName, "van-7.csv.gz".to_owned()),
        (UploadField::Header("x-device".to_owned()), "d1".to_owned()),
        (UploadField::Query("trip".to_owned()), "t1".to_owned()),
    ];
    let mut quick = Members(Vec::new());
    mapping.scan_upload(upload, &fields, &mut quick).unwrap();
    quick.0
}

/// The same records in every format, with this member.
fn all(member: &ValueSource) -> Vec<String> {
    let xml = b"<u><s a='1' b='x'/><s a='' b='y'/><s b='z'/><s a='4'/></u>";
    let ndjson = b"{\"a\":1,\"b\":\"x\"}\n{\"a\":\"\",\"b\":\"y\"}\n{\"b\":\"z\"}\n{\"a\":4}";
    let json = b"[{\"a\":1,\"b\":\"x\"},{\"a\":\"\",\"b\":\"y\"},{\"b\":\"z\"},{\"a\":4}]";
    let csv = b"a,b\n1,x\n\"\",y\n,z\n4,\n";
    let uploads = [
        (Format::Xml, &xml[..]),
        (Format::Ndjson, ndjson),
        (Format::Json, json),
        (Format::Csv, csv),
    ];
    let mut expected: Option<Vec<String>> = None;
    for (format, upload) in uploads {
        let mut source = MappingSource::new(format);
        if format == Format::Xml {
            source.record = "u/s".to_owned();
        }
        source.member = for_format(member, format);
        let field = for_format(&path("b"), format);
        source.fields = vec![("b".to_owned(), field, FieldKind::Text)];
        let found = members(&source.compile().unwrap(), upload);
        let found = found.into_iter().map(|member| member.replace("is empty", "is missing"));
        let found: Vec<String> = found.collect();
        assert_eq!(*expected.get_or_insert_with(|| found.clone()), found, "{format:?}");
    }
    expected.unwrap()
}

fn for_format(value: &ValueSource, format: Format) -> ValueSource {
    let origin = match &value.origin {
        Origin::Path(path) if format == Format::Xml => Origin::Path(format!("@{path}")),
        Origin::Join(parts, with) => {
            Origin::Join(parts.iter().map(|part| for_format(part, format)).collect(), with.clone())
        }
        other => other.clone(),
    };
    ValueSource { origin, ..value.clone() }
}

#[test]
fn members_are_constants_defaults_joined_or_of_the_upload() {
    let missing = "reject: member is missing";
    assert_eq!(all(&path("a")), ["1", missing, missing, "4"]);
    assert_eq!(all(&constant("c")), ["c", "c", "c", "c"]);
    let default = ValueSource { default: Some("none".to_owned()), ..path("a") };
    assert_eq!(all(&default), ["1", "none", "none", "4"]);
    assert_eq!(all(&join(&[path("a"), path("b")], ":")), ["1:x", missing, missing, missing]);
    let whole = join(&[constant("n"), default.clone(), path("b")], "/");
    assert_eq!(all(&whole), ["n/1/x", "n/none/y", "n/none/z", missing]);
    let or_else = ValueSource { default: Some("?".to_owned()), ..whole };
    assert_eq!(
        all(&join(&[or_else, constant("e")], "+")),
        ["n/1/x+e", "n/none/y+e", "n/none/z+e", "?+e"]
    );
    let named = |field| all(&of_upload(field))[2].clone();
    assert_eq!(named(UploadField::FileName), "van-7.csv.gz");
    assert_eq!(named(UploadField::FileStem), "van-7");
    assert_eq!(named(UploadField::Header("x-device".to_owned())), "d1");
    assert_eq!(named(UploadField::Query("trip".to_owned())), "t1");
    assert_eq!(named(UploadField::Query("other".to_owned())), missing);
}

#[test]
fn a_time_may_be_joined_of_a_date_and_a_time() {
    let mut source = MappingSource::new(Format::Csv);
    source.member = "id".into();
    let time = TimeSource {
        format: Some("%d.%m.%Y %H:%M".to_owned()),
        zone: Some("Europe/Berlin".to_owned()),
        ..TimeSource::default()
    };
    source.time = Some(ValueSource { time, ..join(&[path("day"), path("clock")], " ") });
    let mapping = source.compile().unwrap();
    let found = members(&mapping, b"id,day,clock\n1,10.03.2024,08:00\n2,,\n3,31.03.2024,02:30\n");
    assert_eq!(
        found,
        [
            "1 @1710054000000",
            "2",
            "reject: time '31.03.2024 02:30' is skipped by the clocks of the feed's 'zone'",
        ]
    );
}

#[test]
fn numbers_have_commas_or_fractions_of_zeros_and_latitudes_go_to_the_poles_if_allowed() {
    struct Seen(Vec<String>);
    impl Events for Seen {
        fn record(&mut self, record: &Record<'_>) {
            self.0.push(format!(
                "{:?} {:?}",
                record.place.map(|place| place.latitude_degrees),
                record.fields
            ));
        }
        fn reject(&mut self, _: u64, reason: &str) {
            self.0.push(reason.to_owned());
        }
    }
    let mut source = MappingSource::new(Format::Csv);
    source.rows.delimiter = Some(b';');
    source.decimal_comma = true;
    source.member = "#1".into();
    (source.longitude, source.latitude) = (Some("#2".into()), Some("#3".into()));
    source.fields = vec![
        ("n".to_owned(), "#4".into(), FieldKind::Integer),
        ("f".to_owned(), "#5".into(), FieldKind::Number),
    ];
    let rows =
        "a;8,5;50,25;5.0;1,5\na;8.5;89,5;1.7e3;-2,25\na;8;1,2,3;1;1\na;8;9;5.5;1\na;8;90.5;1;1\n";
    let scan = |mapping: &Mapping| {
        let mut seen = Seen(Vec::new());
        mapping.scan(rows.as_bytes(), &mut seen).unwrap();
        seen.0
    };
    let mapping = source.compile().unwrap();
    let expected = [
        "Some(50.25) [Integer(5), Number(1.5)]",
        "latitude 89.5 is not within -85.05112878 to 85.05112878 degrees",
        "latitude '1,2,3' is not a number",
        "n: '5.5' is not a whole number of 64 bits",
        "latitude 90.5 is not within -85.05112878 to 85.05112878 degrees",
    ];
    assert_eq!(scan(&mapping), expected);
    let found = scan(&mapping.to_the_poles(true));
    assert_eq!(found[1], "Some(89.5) [Integer(1700), Number(-2.25)]");
    assert_eq!(found[4], "latitude 90.5 is not within -90 to 90 degrees");
}
