//! Documents, right and wrong, by shape and by library.

use proptest::prelude::*;

use crate::testing::{both, check_error};
use crate::{FieldKind, Format, ItemsSource, Mapping, MappingSource, ValueSource, Zone};

fn source() -> MappingSource {
    let mut source = MappingSource::new(Format::Xml);
    source.record = "upload/sighting".to_owned();
    source.member = "@object".into();
    source.longitude = Some("@x".into());
    source.latitude = Some("@y".into());
    source.time = Some("@t".into());
    source
}

fn mapping() -> Mapping {
    let mut source = source();
    source.fields = vec![
        ("level".to_owned(), "@level".into(), FieldKind::Integer),
        ("name".to_owned(), "info/name|@name".into(), FieldKind::Text),
        ("client".to_owned(), "../@client".into(), FieldKind::Text),
    ];
    source.items = Some(ItemsSource {
        each: "loot".to_owned(),
        key: "@item".to_owned(),
        count: Some("@n".to_owned()),
    });
    source.compile().unwrap()
}

fn simple() -> Mapping {
    source().compile().unwrap()
}

#[test]
fn attributes_children_ancestors_and_items_are_found() {
    let upload = r#"<?xml version="1.0" encoding="utf-8"?>
<!-- a comment --><upload client='3 &amp; 4'>
  <sighting object="7" x="8.25" y="50.5" t="1700000000" level="9"/>
  <sighting object="8" x="1" y="2"><info><name> M&#228;x </name></info>
    <loot item="11" n="2"/>
    <loot item="a&lt;b"></loot><loot item='12' n='3'/>
  </sighting>
  <other><sighting object="99"/></other>
  <sighting t="1700000001" x='1' y='2' object='&#57;' name='both'/>
</upload>
"#;
    let starts: Vec<usize> = upload.match_indices("<sighting").map(|(at, _)| at).collect();
    assert_eq!(
        both(&mapping(), upload.as_bytes()),
        format!(
            "{} 7 (8.25 50.5) @1700000000000 9 [-] [3 & 4]\n\
             {} 8 (1 2) [-] [M\u{e4}x] [3 & 4] 2x11 1xa<b 3x12\n\
             {} 9 (1 2) @1700000001000 [-] [both] [3 & 4]\n",
            starts[0], starts[1], starts[3]
        )
    );
}

/// A document of these records, and what both scans say of it.
fn records(mapping: &Mapping, records: &[&str]) -> String {
    both(mapping, format!("<upload>{}</upload>", records.join("\n")).as_bytes())
}

const GOOD: &str = r#"<sighting object="7" x="1" y="2"/>"#;

#[test]
fn records_that_are_wrong_are_rejected_alone() {
    for (bad, reason) in [
        (r#"<sighting x="1" y="2"/>"#, "member is missing"),
        (r#"<sighting object="" x="1" y="2"/>"#, "member is empty"),
        (r#"<sighting object="8" y="2"/>"#, "longitude is missing"),
        (r#"<sighting object="8" x="" y="2"/>"#, "longitude is missing"),
        (r#"<sighting object="8" x="one" y="2"/>"#, "longitude 'one' is not a number"),
        (r#"<sighting object="8" x="nan" y="2"/>"#, "longitude 'nan' is not a number"),
        (
            r#"<sighting object="8" x="1" y="89"/>"#,
            "latitude 89 is not within -85.05112878 to 85.05112878 degrees",
        ),
        (
            r#"<sighting object="8" x="1" y="2" t="9999999999"/>"#,
            "time '9999999999' is not in 1970 to 2199",
        ),
        (
            r#"<sighting object="8" object="9" x="1" y="2"/>"#,
            "an attribute that cannot be read: position 20: duplicated attribute, previous declaration at position 9",
        ),
        (
            r#"<sighting object=8 x="1" y="2"/>"#,
            "an attribute that cannot be read: position 16: attribute value must be enclosed in `\"` or `'`",
        ),
        (
            r#"<sighting object="&who;" x="1" y="2"/>"#,
            "attribute 'object': at 1..4: unrecognized entity `who`",
        ),
        (r#"<sighting object="8 x="1" y="2"/>"#, ""),
        (r#"<sighting object="8" x="1" y="2>"#, "a tag that does not end"),
        (r#"<sighting object="8" x="1" y="2""#, "a tag that does not end"),
        (
            r#"<sighting object="8" x="1" y="2"><loot item="1">"#,
            "not closed before the next 'sighting'",
        ),
        (r#"<sighting object="8" x="1" y="2"><loot item="1" </sighting>"#, ""),
        (r#"<sighting object="8" x="1" y="2"><loot item="1"></sighting>"#, ""),
        (r#"<sighting object="8" x="1" y="2"></loot></sighting>"#, ""),
        (r#"<sighting object="8" x="1" y="2">&who;</sighting>"#, "the entity 'who' is not known"),
        (r#"<sighting object="8" x="1" y="2">a & b</sighting>"#, "an '&' that begins no entity"),
        (r#"<sighting object="8" x="1" <y="2"><loot item="1"/></sighting>"#, ""),
        (r#"<sighting object="8" x="1" y="2"><loot/></sighting>"#, "an item's key is missing"),
        (
            r#"<sighting object="8" x="1" y="2"><loot item="1" n="x"/></sighting>"#,
            "item count 'x' is not a whole number",
        ),
    ] {
        let text = records(&mapping(), &[GOOD, GOOD, bad, GOOD, GOOD]);
        assert_eq!(text.matches(" 7 (1 2)").count(), 4, "{bad}\n{text}");
        assert!(text.matches(" reject: ").count() >= 1 && !text.contains("end: "), "{bad}\n{text}");
        assert!(text.contains(&format!("78 reject: {reason}")), "{bad}\n{text}");
    }
}

#[test]
fn what_makes_the_rest_unreadable_ends_the_scan_behind_what_was_read() {
    for (upload, message) in [
        (format!("<upload>{GOOD}"), "the upload ends within 'upload'"),
        (format!("<upload>{GOOD}<sighting object=\"8"), "the upload ends within a tag"),
        (format!("<upload>{GOOD}<sighting object=\"8\">"), "the upload ends within 'sighting'"),
        (format!("<upload>{GOOD}</sighting></upload>"), "'sighting' closes 'upload'"),
        (format!("<upload>{GOOD}</upload><upload/>"), "a second root"),
        (format!("<upload>{GOOD}</upload>rest"), "text behind the root"),
        (format!("<upload>{GOOD}<!-- never"), "comment"),
        (format!("<upload>{GOOD}{}", "<a>".repeat(100)), "elements deeper than 64"),
        (format!("<upload>{GOOD}&who;</upload>"), "the entity 'who' is not known"),
    ] {
        let text = both(&simple(), upload.as_bytes());
        let (first, rest) = text.split_once('\n').unwrap();
        assert_eq!(first, "8 7 (1 2)");
        assert!(rest.starts_with("end: byte ") && rest.contains(message), "{upload}\n{text}");
    }
}

#[test]
fn other_encodings_end_the_scan_at_their_first_byte() {
    let upload =
        [b"<upload>", GOOD.as_bytes(), b"<a>\xff</a>", GOOD.as_bytes(), b"</upload>"].concat();
    assert_eq!(
        both(&simple(), &upload),
        "8 7 (1 2)\nend: byte 45: not UTF-8 from here on; the rest is not read\n"
    );
}

#[test]
fn entities_are_never_defined_by_an_upload() {
    let bomb = format!(
        "<!DOCTYPE upload [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;\">]>\
         <upload>{GOOD}<sighting object=\"&b;\" x=\"1\" y=\"2\"/></upload>"
    );
    assert_eq!(
        check_error(&simple(), bomb.as_bytes()),
        "byte 0: a document type; uploads may not have one"
    );
    assert!(both(&simple(), bomb.as_bytes()).starts_with("end: byte 0: a document type"));
}

#[test]
fn what_is_no_such_document_is_refused_before_it_is_kept() {
    let mapping = simple();
    assert!(
        mapping
            .check(b"\xef\xbb\xbf \n<?xml version='1.0' encoding='UTF-8'?><!-- --><upload>")
            .is_ok()
    );
    for (upload, message) in [
        (&b"{\"object\":7}"[..], "byte 0: '{' where XML begins with '<'"),
        (b"<gpx/>", "byte 0: the root is 'gpx'; records are in 'upload/sighting'"),
        (
            b"<?xml version='1.0' encoding='EBCDIC'?><upload/>",
            "byte 0: encoding 'EBCDIC' is declared; allowed: UTF-8, UTF-16, and encodings that the \
             web knows",
        ),
        (b"<\0x\0/\0>\0", "byte 0: the root is 'x'; records are in 'upload/sighting'"),
        (b"", "byte 0: the upload is empty"),
        (b"<!-- nothing -->", "byte 0: no element in its beginning"),
        (b"<upload <", "byte 0: the root's tag does not end"),
    ] {
        assert_eq!(check_error(&mapping, upload), message);
    }
}

#[test]
fn an_endless_record_is_rejected_alone() {
    let long = "7".repeat(2 << 20);
    let bad = format!("<sighting object=\"{long}\" x=\"1\" y=\"2\"/>");
    let text = records(&simple(), &[GOOD, &bad, GOOD]);
    assert!(text.contains("43 reject: a record of more than 1048576 bytes\n"), "{text:.200}");
    let wide = format!(
        "<sighting object=\"8\" x=\"1\" y=\"2\">{}</sighting>",
        "<loot item=\"1\"/>".repeat((1 << 16) + 1)
    );
    let text = records(&mapping(), &[GOOD, &wide, GOOD]);
    assert_eq!((text.matches(" 7 (1 2)").count(), text.matches("reject: ").count()), (2, 1));
}

#[test]
fn broken_tags_do_not_make_a_scan_slow() {
    // Each of them would swallow the rest if the tag were looked for up to the end.
    let upload = format!("<upload>{}</upload>", "<sighting object=\"8\" x=\"".repeat(200_000));
    let text = both(&simple(), upload.as_bytes());
    assert_eq!(text.matches("reject: ").count(), 200_000);
}

#[test]
fn points_of_gpx_need_no_paths() {
    let mapping = MappingSource::new(Format::Gpx).compile().unwrap();
    let upload = r#"<?xml version="1.0"?><gpx version="1.1" creator="x" xmlns="http://www.topografix.com/GPX/1/1">
<wpt lat="50.5" lon="8.25"><ele>100</ele><name>Church</name></wpt>
<trk><name>Walk</name><trkseg>
<trkpt lat="50.1" lon="8.1"><ele>100.5</ele><time>2023-11-14T22:13:20Z</time></trkpt>
<trkpt lat="50.2" lon="8.2"><ele>101.5</ele><time>2023-11-14T22:13:21.5Z</time></trkpt>
<trkpt lat="50.3" lon="8.3"/>
</trkseg></trk>
<trk><trkseg><trkpt lat="50.1" lon="8.1"/></trkseg></trk>
</gpx>"#;
    let text = both(&mapping, upload.as_bytes());
    let lines: Vec<&str> = text.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(
        lines,
        [
            "Church (8.25 50.5)",
            "Walk (8.1 50.1) @1700000000000",
            "Walk (8.2 50.2) @1700000001500",
            "Walk (8.3 50.3)",
            "reject: member is missing",
        ]
    );
}

#[test]
fn coordinates_of_a_map_become_places() {
    let mut source = MappingSource::new(Format::Xml);
    source.record = "upload/sighting".to_owned();
    source.member = "@object".into();
    source.zone = Some("../@map".into());
    source.x = Some("@x".into());
    source.y = Some("@y".into());
    let zone = |name: &str, west_degrees: f64| Zone {
        name: name.to_owned(),
        x: (0.0, 100.0),
        y: (0.0, 100.0),
        west_degrees,
        south_degrees: 0.0,
        east_degrees: west_degrees + 10.0,
        north_degrees: 10.0,
    };
    source.zones = vec![zone("wood", 0.0), zone("hill", 10.0)];
    let mapping = source.compile().unwrap();
    let upload = |map: &str| {
        format!(
            "<upload map=\"{map}\">{GOOD}{GOOD}<sighting object=\"8\" x=\"101\" y=\"0\"/></upload>"
        )
    };
    assert_eq!(
        both(&mapping, upload("hill").as_bytes()),
        "19 7 (10.1 9.8)\n53 7 (10.1 9.8)\n87 reject: 101 0 is outside zone 'hill'\n"
    );
    assert!(
        both(&mapping, upload("dale").as_bytes()).contains("19 reject: zone 'dale' is not known")
    );
}

#[test]
fn mappings_that_make_no_sense_say_so() {
    let error = |change: &dyn Fn(&mut MappingSource)| {
        let mut source = source();
        change(&mut source);
        source.compile().unwrap_err().to_string()
    };
    let paths = "a path such as @attribute, child, child/@attribute, ../@attribute or .";
    for path in ["@", "a//b", "@a/b", "a/..", "..", "../a/b", "a b", "@a|"] {
        let text = error(&|source| source.member = path.into());
        assert!(text.ends_with(&format!("allowed: {paths}")), "{path}: {text}");
    }
    assert!(error(&|source| source.record = "a//b".to_owned()).starts_with("record: "));
    assert_eq!(
        error(&|source| source.latitude = None),
        "longitude: no latitude; allowed: both or neither"
    );
    assert_eq!(
        error(&|source| source.zone = Some("@map".into())),
        "zone: longitude and latitude as well; allowed: longitude and latitude, or zone, x and y"
    );
}

fn named(record: &str, member: &str, others: &[&str]) -> MappingSource {
    let mut source = MappingSource::new(Format::Xml);
    source.record = record.to_owned();
    source.member = member.into();
    let fields = others.iter().map(|path| ((*path).to_owned(), (*path).into(), FieldKind::Text));
    source.fields = fields.collect();
    source
}

/// Without the offsets.
fn rest(found: &str) -> Vec<&str> {
    found.lines().map(|line| line.split_once(' ').expect("an offset").1).collect()
}

#[test]
fn names_are_found_by_namespace_whatever_their_prefix() {
    let mut source = named("s:Siri/s:Vehicle", "s:Ref", &["s:Line/@code", "g:pos", "../@day"]);
    source.namespaces =
        vec![("s".to_owned(), "urn:siri".to_owned()), ("g".to_owned(), "urn:gml".to_owned())];
    let mapping = source.clone().compile().unwrap();
    let vehicle = |p: &str, g: &str, n: usize| {
        format!(
            "<{p}Vehicle><{p}Ref>v{n}</{p}Ref><{p}Line code='{n}'/><{g}pos>{n} 2</{g}pos></{p}Vehicle>"
        )
    };
    let body = |p: &str, g: &str| (0..5).map(|n| vehicle(p, g, n)).collect::<String>();
    let expected: Vec<String> = (0..5).map(|n| format!("v{n} [{n}] [{n} 2] [d]")).collect();
    for (head, p, g, tail) in [
        ("<Siri xmlns='urn:siri' xmlns:gml='urn:gml' day='d'>", "", "gml:", "</Siri>"),
        ("<ns2:Siri xmlns:ns2='urn:siri' xmlns='urn:gml' day='d'>", "ns2:", "", "</ns2:Siri>"),
        ("<s:Siri xmlns:s='urn:siri' xmlns:g='urn:gml' day='d'>", "s:", "g:", "</s:Siri>"),
    ] {
        let upload = format!("{head}{}{tail}", body(p, g));
        assert_eq!(rest(&both(&mapping, upload.as_bytes())), expected, "{head}");
        assert!(mapping.check(upload.as_bytes()).is_ok());
        for cut in 0..upload.len() {
            both(&mapping, &upload.as_bytes()[..cut]);
        }
    }
    // The same prefix is another namespace in a part, and in a record.
    let upload = format!(
        "<s:Siri xmlns:s='urn:siri' xmlns:g='urn:gml'>{}<s:Vehicle><s:Ref>a</s:Ref><g:pos \
         xmlns:g='urn:other'>9</g:pos></s:Vehicle><s:Vehicle xmlns:s='urn:x'><s:Ref>b</s:Ref>\
         </s:Vehicle>{}</s:Siri>",
        body("s:", "g:"),
        body("s:", "g:")
    );
    let found = both(&mapping, upload.as_bytes());
    assert_eq!((found.lines().count(), rest(&found)[5]), (11, "a [-] [-] [-]"));
    assert_eq!(
        check_error(&mapping, b"<s:Siri xmlns:s='urn:other'/>"),
        "byte 0: the root is 's:Siri' of another namespace; records are in 's:Siri/s:Vehicle'"
    );
    source.member = "x:Ref".into();
    assert_eq!(
        source.clone().compile().unwrap_err().to_string(),
        "member: the prefix \"x\"; allowed: a prefix of 'namespaces': s, g"
    );
    let mut source = named("Siri/Vehicle", "Ref", &[]);
    source.namespaces = vec![("default".to_owned(), "urn:siri".to_owned())];
    let mapping = source.compile().unwrap();
    let upload =
        "<a:Siri xmlns:a='urn:siri'><a:Vehicle><Ref>no</Ref><a:Ref>v</a:Ref></a:Vehicle></a:Siri>";
    assert_eq!(rest(&both(&mapping, upload.as_bytes())), ["v"]);
}

#[test]
fn a_child_is_chosen_by_an_attribute_in_any_order() {
    let paths = ["tag[@k='name']/@v", "tag[@k=\"a/b\"]", "tag[@k='shop']/@v"];
    let mapping = named("osm/node", "@id", &paths).compile().unwrap();
    let upload = "<osm><node id='1'><tag k='name' v='A'/><tag k='shop' v='x'/></node>\
                  <node id='2'><tag k='shop' v='y'/><tag k='name' v='B'/></node>\
                  <node id='3'><tag k='name' v='C'/><tag k='shop' v='z'/></node>\
                  <node id='4'><tag k='a/b'>t</tag><tag v='w' k='shop'/></node><node id='5'/></osm>";
    assert_eq!(
        rest(&both(&mapping, upload.as_bytes())),
        ["1 [A] [-] [x]", "2 [B] [-] [y]", "3 [C] [-] [z]", "4 [-] [t] [w]", "5 [-] [-] [-]"]
    );
}

#[test]
fn the_nth_child_of_the_element_around_is_that_of_the_nth_record() {
    let mut source = named("kml/Track/coord", "../name", &["../when[n]"]);
    source.longitude = Some(ValueSource { number: Some(1), ..ValueSource::from(".") });
    source.latitude = Some(ValueSource { number: Some(2), ..ValueSource::from(".") });
    let mapping = source.compile().unwrap();
    let grouped = "<kml><Track><name>a</name><when>1</when><when>2</when><coord>8 50 1</coord>\
                   <coord>9 51 1</coord></Track><Track><name>b</name><when>3</when>\
                   <coord>8 50</coord><coord>8.5 50</coord></Track>\
                   <Track><name>c</name><coord>7 50 0</coord></Track></kml>";
    let expected = [
        "a (8 50) [1]",
        "a (9 51) [2]",
        "b (8 50) [3]",
        "reject: there are fewer 'when' before it than records",
        "c (7 50) [-]",
    ];
    assert_eq!(rest(&both(&mapping, grouped.as_bytes())), expected);
    let mixed = "<kml><Track><name>a</name><when>1</when><coord>8 50 1</coord><when>2</when>\
                 <coord>9 51 1</coord></Track></kml>";
    assert_eq!(rest(&both(&mapping, mixed.as_bytes())), expected[..2]);
}

#[test]
fn uploads_in_other_encodings_are_the_same_records() {
    let mapping = named("u/s", "@m", &["c"]).compile().unwrap();
    let text = "<u><s m='Gr\u{f6}\u{df}e'><c>\u{e9}</c></s><s m='b'><c>\u{20ac}</c></s></u>";
    let expected = ["Gr\u{f6}\u{df}e [\u{e9}]", "b [\u{20ac}]"];
    let wide: Vec<u8> =
        format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(rest(&both(&mapping, &wide)), expected);
    let mut narrow = b"<?xml version='1.0' encoding='windows-1252'?>".to_vec();
    narrow.extend(text.chars().map(|letter| match letter {
        '\u{20ac}' => 0x80,
        letter => u8::try_from(u32::from(letter)).unwrap(),
    }));
    assert_eq!(rest(&both(&mapping, &narrow)), expected);
    for upload in [&wide, &narrow] {
        for cut in 0..upload.len() {
            both(&mapping, &upload[..cut]);
            let _ = mapping.check(&upload[..cut]);
        }
    }
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => "-?[0-9]{1,2}(\\.[0-9]{1,5})?",
        1 => "[a-z \u{e4}>/=]{0,5}",
        1 => Just("&amp;&#65;".to_owned()),
        1 => "[ -~\n\t\r]{0,3}",
    ]
}

fn record() -> impl Strategy<Value = String> {
    let loot = (value(), value(), 0..3).prop_map(|(item, n, form)| match form {
        0 => format!("<loot item=\"{item}\" n=\"{n}\"/>"),
        1 => format!("\n  <loot n='{n}' item=\"{item}\" />"),
        _ => format!("<loot item=\"{item}\"> {n} </loot>"),
    });
    let loot = proptest::collection::vec(loot, 0..4).prop_map(|loot| loot.concat());
    (value(), value(), value(), value(), loot, 0..8).prop_map(|(a, x, y, t, loot, form)| match form {
        0..3 => format!("<sighting object=\"{a}\" x=\"{x}\" y=\"{y}\" t=\"{t}\"/>\n"),
        3 => format!("<sighting x='{x}' object='{a}' y='{y}' name=\"{t}\" />\n\n"),
        4 => format!("<sighting object=\"{a}\" x=\"{x}\" y=\"{y}\"><info><name>{t}</name></info>{loot}</sighting>"),
        5 => format!("<sighting object=\"{a}\" x=\"{x}\" y=\"{y}\"><name>{t}</name><info/></sighting>"),
        _ => format!("<sighting object=\"{a}\" x=\"{x}\" y=\"{y}\">{loot}</sighting>\n"),
    })
}

#[test]
fn a_reason_is_one_line_whatever_the_upload_has() {
    let record = "<sighting object=\"a&\nmp;\" x=\"1\" y=\"2\"/>";
    both(&mapping(), format!("<upload>{record}{record}</upload>").as_bytes());
    both(&mapping(), format!("<upload>{record}{record}&\nmp;</upload>").as_bytes());
}

proptest! {
    /// `both` compares the shapes with quick-xml.
    #[test]
    fn shapes_and_library_agree(records in proptest::collection::vec(record(), 1..24)) {
        both(&mapping(), format!("<upload client=\"x\">{}</upload>", records.concat()).as_bytes());
    }

    #[test]
    fn no_change_of_bytes_is_too_odd(
        records in proptest::collection::vec(record(), 1..6),
        changes in proptest::collection::vec(
            (any::<prop::sample::Index>(), prop_oneof![Just(b'<'), Just(b'>'), Just(b'"'), Just(b'&'), any::<u8>()]),
            0..4,
        ),
    ) {
        let twice = [&records[..], &records[..]].concat().concat();
        let mut upload = format!("<upload>{twice}</upload>").into_bytes();
        for (place, byte) in changes {
            let place = place.index(upload.len());
            upload[place] = byte;
        }
        both(&mapping(), &upload);
    }
}
