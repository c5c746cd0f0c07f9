//! Tests of whole inputs: every format gives the same points, and a cut anywhere gives the
//! whole records of the beginning, or a line that says what is wrong.

use super::*;

type Point = (f64, f64, String);

/// The points of an input, what was bad, and how it ended.
fn run(
    text: &[u8],
    options: &LoadOptions,
) -> (Vec<Point>, Vec<String>, Result<LoadSummary, String>) {
    let (mut points, mut bad) = (Vec::new(), Vec::new());
    let mut on_point = |x: f64, y: f64, member: &[u8]| {
        points.push((x, y, String::from_utf8_lossy(member).into_owned()));
    };
    let loaded = scan(text, options, &mut on_point, &mut |line| bad.push(line.to_owned()));
    (points, bad, loaded.map_err(|error| error.to_string()))
}

/// The points of an input that has no fault.
fn points(text: &str, options: &LoadOptions) -> Vec<Point> {
    let (points, bad, loaded) = run(text.as_bytes(), options);
    assert_eq!((bad.as_slice(), loaded.map(|_| ())), (&[][..], Ok(())), "{text}");
    points
}

fn named(path: &str) -> LoadOptions {
    LoadOptions { path: path.into(), ..LoadOptions::default() }
}

fn expected() -> Vec<Point> {
    vec![(8.68, 50.11, "a".to_owned()), (-0.5, 7.0, "b".to_owned())]
}

const SAME: &[(&str, &str)] = &[
    ("a.csv", "id,lon,lat\na,8.68,50.11\nb,-0.5,7\n"),
    ("a.csv", "NAME;LATITUDE;LONGITUDE\r\na;50.11;8.68\r\nb;7;-0.5\r\n"),
    ("a.psv", "feature_name|id|prim_lat_dec|prim_long_dec\nx|a|50.11|8.68\nx|b|7|-0.5\n"),
    ("a.csv", "y\tx\tkey\n50.11\t8.68\ta\n7\t-0.5\tb\n"),
    (
        "airports.csv",
        "\"id\",\"ident\",\"latitude_deg\",\"longitude_deg\"\n\"a\",\"KA\",50.11,8.68\n\"b\",\"KB\",7,-0.5\n",
    ),
    (
        "worldcities.csv",
        "\"city\",\"lat\",\"lng\",\"id\"\n\"Z\",\"50.11\",\"8.68\",\"a\"\n\"Z\",\"7\",\"-0.5\",\"b\"\n",
    ),
    ("stops.txt", "stop_id,stop_name,stop_lat,stop_lon\na,Z,50.11,8.68\nb,Z,7,-0.5\n"),
    ("occurrence.txt", "gbifID\tdecimalLatitude\tdecimalLongitude\na\t50.11\t8.68\nb\t7\t-0.5\n"),
    ("a.csv", "id,geom\na,POINT(8.68 50.11)\nb,SRID=4326;POINT(-0.5 7)\n"),
    ("a.csv", "wkt,id\n\"POINT Z (8.68 50.11 3)\",a\n\"point(-0.5 7)\",b\n"),
    ("a.csv", "id,place\na,Point(8.68 50.11)\nb,Point(-0.5 7)\n"),
    (
        "a.csv",
        "id,the_geom\na,0101000020E61000005C8FC2F5285C2140AE47E17A140E4940\nb,SRID=4326;POINT(-0.5 7)\n",
    ),
    (
        "a.json",
        "[{\"id\":\"a\",\"lon\":8.68,\"lat\":50.11},{\"id\":\"b\",\"lon\":\"-0.5\",\"lat\":7}]",
    ),
    (
        "a.json",
        "[\n  {\n    \"id\": \"a\",\n    \"longitude_deg\": 8.68,\n    \"latitude_deg\": 50.11\n  },\n  {\n    \"id\": \"b\",\n    \"longitude_deg\": -0.5,\n    \"latitude_deg\": 7\n  }\n]\n",
    ),
    ("a.json", "{\"a\":{\"lng\":8.68,\"lat\":50.11},\"b\":{\"lng\":-0.5,\"lat\":7}}"),
    (
        "a.json",
        "{\n \"a\": {\n  \"Longitude\": 8.68,\n  \"Latitude\": 50.11\n },\n \"b\": {\"Longitude\":-0.5,\"Latitude\":7}\n}\n",
    ),
    (
        "a.json",
        "{\n\"id\":\"a\",\n\"x\":8.68,\n\"y\":50.11\n}\n{\n\"id\":\"b\",\n\"x\":-0.5,\n\"y\":7\n}\n",
    ),
    (
        "a.json",
        "[{\"id\":\"a\",\"coord\":\"Point(8.68 50.11)\"},{\"id\":\"b\",\"coord\":\"POINT(-0.5 7)\"}]",
    ),
    (
        "a.json",
        "[{\"id\":\"a\",\"location\":{\"type\":\"Point\",\"coordinates\":[8.68,50.11]}},{\"id\":\"b\",\"location\":{\"type\":\"Point\",\"coordinates\":[-0.5,7]}}]",
    ),
    (
        "a.json",
        "{\"version\":0.6,\"osm3s\":{\"x\":[{}]},\n\"elements\": [\n{\"type\":\"node\",\"id\":\"a\",\
         \"lat\":50.11,\"lon\":8.68},\n{\"type\":\"node\",\"id\":\"b\",\"lat\":7,\"lon\":-0.5,\
         \"tags\":{\"name\":\"]}\"}}\n]}\n",
    ),
    (
        "a.ndjson",
        "{\"id\":\"a\",\"LON\":8.68,\"LAT\":50.11}\n\n{\"id\":\"b\",\"LON\":-0.5,\"LAT\":7}\n",
    ),
    (
        "a.geojson",
        "[{\"type\":\"Feature\",\"id\":\"a\",\"geometry\":{\"type\":\"Point\",\"coordinates\":[8.68,50.11]}},{\"type\":\"Feature\",\"properties\":{\"name\":\"b\"},\"geometry\":{\"type\":\"Point\",\"coordinates\":[-0.5,7]}}]",
    ),
];

#[test]
fn every_form_of_a_list_gives_the_same_points() {
    for (name, text) in SAME {
        assert_eq!(points(text, &named(name)), expected(), "{name} {text}");
        // The first bytes alone say as much, but for quotes between tabs.
        assert_eq!(points(text, &named("-")), expected(), "{text}");
    }
}

#[test]
fn an_input_cut_at_any_byte_gives_its_first_records_or_a_line() {
    for (name, text) in SAME {
        for end in 0..text.len() {
            let (points, bad, loaded) = run(&text.as_bytes()[..end], &named(name));
            // The last number or name may be cut short; all before it is whole.
            let whole = points.len().saturating_sub(1);
            assert_eq!(points[..whole], expected()[..whole], "{name} cut at {end}");
            let line = loaded.err().into_iter().chain(bad).find(|line| line.contains('\n'));
            assert_eq!(line, None, "{name} cut at {end}");
        }
    }
}

#[test]
fn a_cut_list_of_json_never_ends_well() {
    for (name, text) in SAME.iter().filter(|(name, _)| *name == "a.json") {
        let text = text.trim_end();
        for end in 1..text.len() {
            let (_, bad, loaded) = run(&text.as_bytes()[..end], &named(name));
            // Behind the first of several whole objects is an end, too.
            let is_whole =
                text.as_bytes()[..end].trim_ascii_end().ends_with(b"}\n".trim_ascii_end())
                    && text[end..].trim_start().starts_with('{');
            assert!(loaded.is_err() || !bad.is_empty() || is_whole, "{text} cut at {end}");
        }
    }
}

const GEONAMES: &str = "3039154\tEl Tarter\tEl Tarter\tEhl, \"Tarter\t42.57952\t1.65362\tP\tPPL\tAD\t\t02\t\t\t\t1052\t\t1721\tEurope/Andorra\t2012-11-03\n\
    3039163\t\"Sant\tSant\t\t42.46372\t1.49129\tP\tPPLA\tAD\t\t06\t\t\t\t8022\t\t921\tEurope/Andorra\t2013-11-23\n";

#[test]
fn the_columns_of_geonames_are_known_by_their_position() {
    let places =
        [(1.65362, 42.57952, "3039154".to_owned()), (1.49129, 42.46372, "3039163".to_owned())];
    for path in ["cities15000.txt", "allCountries.tsv", "-"] {
        assert_eq!(points(GEONAMES, &named(path)), places);
    }
    let options = LoadOptions { member: Some("asciiname".to_owned()), ..named("AD.txt") };
    let members = points(GEONAMES, &options).into_iter().map(|(.., member)| member);
    assert_eq!(members.collect::<Vec<_>>(), ["El Tarter", "Sant"]);
}

#[test]
fn one_geometry_a_line_has_the_number_of_its_line() {
    let text = "POINT(8.68 50.11)\n\nSRID=4326;POINT(1 2)\r\n";
    let found = points(text, &named("-"));
    assert_eq!(found, [(8.68, 50.11, "1".to_owned()), (1.0, 2.0, "3".to_owned())]);
    let (_, bad, _) =
        run(b"POINT EMPTY\nSRID=3857;POINT(1 2)\nPOLYGON((1 2))\nx\n", &named("a.wkt"));
    assert_eq!(bad.len(), 4);
    assert!(
        bad[1].starts_with("input: line 2 (byte 12): its geometry has SRID 3857; allowed: 4326")
    );
}

#[test]
fn a_table_without_a_header_has_its_columns_by_number() {
    let options = LoadOptions {
        geometry: Some("2".to_owned()),
        member: Some("1".to_owned()),
        ..named("a.csv")
    };
    assert_eq!(points("a,POINT(8.68 50.11)\nb,POINT(-0.5 7)\n", &options), expected());
    assert_eq!(points("id,where\na,POINT(8.68 50.11)\nb,POINT(-0.5 7)\n", &options), expected());
}

#[test]
fn a_member_of_no_usual_name_is_an_identifier_and_is_reported() {
    let text = "station_name,station_id,lat,lon\nx,a,50.11,8.68\nx,b,7,-0.5\n";
    let (found, _, loaded) = run(text.as_bytes(), &named("a.csv"));
    let loaded = loaded.unwrap();
    assert_eq!(found, expected());
    assert_eq!(loaded.choice, MemberChoice::Unusual);
    assert_eq!(loaded.member, "column 'station_id'");
    let (_, _, loaded) = run(b"lat,lon,city\n1,2,x\n", &named("a.csv"));
    assert_eq!(
        loaded.unwrap_err(),
        "input: no column 'member'; there are: lat, lon, city; allowed: --member NAME or NUMBER"
    );
}

#[test]
fn bad_records_of_a_list_spoil_themselves_only() {
    let text = "[{\"id\":\"a\",\"lon\":8.68,\"lat\":50.11},\n7,\n{nonsense},\n[1],{\"id\":\"c\",\"lon\":null,\"lat\":1},\n{\"id\":\"b\",\"lon\":-0.5,\"lat\":7}]";
    let (found, bad, loaded) = run(text.as_bytes(), &named("a.json"));
    assert_eq!(found, expected());
    assert_eq!(loaded.unwrap().bad, 4);
    let starts = [
        "line 2 (byte 36): is no JSON object",
        "line 3 (byte 39): ",
        "line 4 (byte 51): is no JSON object",
        "line 4 (byte 55): has no field 'lon'",
    ];
    for (line, start) in bad.iter().zip(starts) {
        assert!(line.starts_with(&format!("input: {start}")), "{line}");
    }
    let text =
        "{\"a\":{\"lon\":8.68,\"lat\":50.11},\n\"c\":{\"lon\":1},\"b\":{\"lon\":-0.5,\"lat\":7}}";
    let (found, bad, _) = run(text.as_bytes(), &named("a.json"));
    assert_eq!(found, expected());
    assert_eq!(bad, ["input: line 2 (byte 35): has no field 'latitude'"]);
}

#[test]
fn repeated_members_of_a_list_are_counted() {
    for text in [
        "[{\"id\":1,\"lon\":1,\"lat\":2},{\"id\":1,\"lon\":2,\"lat\":2},{\"id\":2,\"lon\":2,\"lat\":2}]",
        "{\"a\":{\"lon\":1,\"lat\":2},\"a\":{\"lon\":2,\"lat\":2},\"b\":{\"lon\":2,\"lat\":2}}",
    ] {
        let (_, _, loaded) = run(text.as_bytes(), &named("a.json"));
        let loaded = loaded.unwrap();
        assert_eq!((loaded.repeated_members, loaded.replaced), (1, 1), "{text}");
    }
}

#[test]
fn a_record_of_100_mb_is_refused_in_bounded_memory() {
    let mut text = b"[{\"id\":\"".to_vec();
    text.resize(100 << 20, b'x');
    let (found, _, loaded) = run(&text, &named("a.json"));
    assert!(found.is_empty());
    assert!(loaded.unwrap_err().contains("a record of more than 64 MiB; allowed: less"));
}

#[test]
fn a_pbf_file_that_is_no_map_is_said_to_be_that() {
    let options = named("positions.pbf");
    let (_, _, loaded) = run(b"\x0a\x0d\x0a\x032.0\x10\x00\x18\x80\x80", &options);
    assert_eq!(
        loaded.unwrap_err(),
        "input: byte 0: is no OpenStreetMap PBF but a GTFS-realtime feed (positions of vehicles: \
         feeds take them as JSON); allowed: a file that begins with a blob OSMHeader"
    );
    let (_, _, loaded) = run(b"\x1a\x8f\x1e\x0a\x05water\x12", &options);
    assert!(loaded.unwrap_err().contains("but a vector tile;"));
}
