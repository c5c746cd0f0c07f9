//! Tests of tables: what comes out of sound ones, and what is said of wrong ones.

use super::super::read_csv;
use super::*;
use crate::{Database, WriterOptions, rows};

fn build(csv: &str) -> Result<(u64, Database), RowsError> {
    let mut writer = Writer::new(WriterOptions::default()).unwrap();
    let count = read_csv(csv.as_bytes(), &mut writer)?;
    Ok((count, Database::from_bytes(writer.finish().unwrap()).unwrap()))
}

fn json(database: &Database, address: &str) -> String {
    let id = database.lookup(address.parse().unwrap()).unwrap().record.unwrap();
    let mut out = Vec::new();
    database.write_record_json(id, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn fault(csv: &str) -> (u64, String, String) {
    let error = build(csv).unwrap_err();
    (error.line(), error.column().to_string(), error.to_string())
}

#[test]
fn every_type_of_cell_becomes_its_value() {
    let (count, database) = build(
        "\u{feff}network,s,d:double,f:float,a:uint16,b:uint32,c:uint64,e:uint128,i:int32,t:boolean,u:boolean,x:bytes\n\
         192.0.2.0/24,text,-1.5,0.25,1,2,3,340282366920938463463374607431768211455,-4,true,0,00fF\n",
    )
    .unwrap();
    assert_eq!(count, 1);
    assert_eq!(
        json(&database, "192.0.2.9"),
        "{\"s\":\"text\",\"d\":-1.5,\"f\":0.25,\"a\":1,\"b\":2,\"c\":3,\
         \"e\":340282366920938463463374607431768211455,\"i\":-4,\"t\":true,\"u\":false,\"x\":\"00FF\"}"
    );
}

#[test]
fn paths_build_maps_and_arrays_and_empty_cells_leave_them_out() {
    let (count, database) = build(
        "country.iso_code,address,subdivisions.0.iso_code,subdivisions.1.iso_code,country.names.en,odd\\.key\n\
         DE,192.0.2.1,BE,,Germany,\n\
         ,192.0.2.2,,SN,,\"a, \"\"b\"\"\n\
         second line\"\n\
         ,2001:db8::1,,,,\n",
    )
    .unwrap();
    assert_eq!(count, 3);
    assert_eq!(
        json(&database, "192.0.2.1"),
        r#"{"country":{"iso_code":"DE","names":{"en":"Germany"}},"subdivisions":[{"iso_code":"BE"}]}"#
    );
    assert_eq!(
        json(&database, "192.0.2.2"),
        r#"{"subdivisions":[{"iso_code":"SN"}],"odd.key":"a, \"b\"\nsecond line"}"#
    );
    assert_eq!(json(&database, "2001:db8::1"), "{}");
}

#[test]
fn wrong_cells_are_named_by_line_and_column() {
    for (csv, line, column) in [
        ("network,a:uint16\n1.0.0.0/8,1\n2.0.0.0/8,70000\n", 3, "a:uint16"),
        ("network,a:double\n1.0.0.0/8,inf\n", 2, "a:double"),
        ("network,a:float\n1.0.0.0/8,1e99\n", 2, "a:float"),
        ("network,a:boolean\n1.0.0.0/8,yes\n", 2, "a:boolean"),
        ("network,a:bytes\n1.0.0.0/8,abc\n", 2, "a:bytes"),
        ("network,a:bytes\n1.0.0.0/8,zz\n", 2, "a:bytes"),
        ("network,a:int32\n1.0.0.0/8,2147483648\n", 2, "a:int32"),
        ("network,a\nnonsense,1\n", 2, "network"),
        ("network,a\n1.0.0.0/33,1\n", 2, "network"),
        ("address,a\n1.0.0.0/8,1\n", 2, "address"),
        ("network,a\n1.0.0.0/8\n", 2, ""),
        ("network,a\n1.0.0.0/8,1,2\n", 2, ""),
    ] {
        let (found_line, found_column, text) = fault(csv);
        assert_eq!((found_line, found_column.as_str()), (line, column), "{text}");
        assert!(text.contains("allowed"), "{text}");
    }
}

#[test]
fn wrong_headers_are_refused() {
    for (csv, column) in [
        ("", ""),
        ("a,b\n", ""),
        ("network,address\n", "address"),
        ("network,a:text\n", "a:text"),
        ("network,a..b\n", "a..b"),
        ("network,a,a\n", "a"),
        ("network,a,a.b\n", "a.b"),
        ("network,a.b,a\n", "a"),
        ("network,a.1\n", "a.1"),
        ("network,a.0,a.2\n", "a.2"),
        ("network,a.0,a.b\n", "a.b"),
        ("network,a.b,a.0\n", "a.0"),
        ("network,0\n", "0"),
    ] {
        let (line, found, text) = fault(csv);
        assert_eq!((line, found.as_str()), (1, column), "{csv:?}: {text}");
    }
}

#[test]
fn cells_that_are_no_text_are_refused() {
    let mut writer = Writer::new(WriterOptions::default()).unwrap();
    let error = read_csv(b"network,a\n1.0.0.0/8,\xff\n", &mut writer).unwrap_err();
    assert_eq!((error.line(), error.column()), (2, "a"));
}

#[test]
fn a_network_of_the_wrong_family_is_refused_with_its_line() {
    let options = WriterOptions { ip_version: 4, ..Default::default() };
    let mut writer = Writer::new(options).unwrap();
    let csv = b"network,a\n1.0.0.0/8,x\n2001:db8::/32,y\n";
    let error = read_csv(csv, &mut writer).unwrap_err();
    assert_eq!((error.line(), error.column()), (3, "network"));
}

#[test]
fn a_quote_that_is_never_closed_is_refused_with_its_line_and_cell() {
    for csv in [
        "network,a\n192.0.2.0/24,\"one\n192.0.3.0/24,two\n",
        "network,a\n192.0.2.0/24,\"one",
        "network,a\n192.0.2.0/24,\"one\"\"\n",
    ] {
        let (line, _, message) = fault(csv);
        assert_eq!(line, 2, "{csv}");
        assert!(message.contains("a quote in cell 2 that is never closed"), "{message}");
    }
    for sound in ["\"one\"", "\"o\"\"ne\"", "o\"ne", "o\"\"ne", "\"a\"b", "\"\"", "\"\"\"\""] {
        build(&format!("network,a\n192.0.2.0/24,{sound}")).expect(sound);
    }
}

#[test]
fn a_path_without_end_is_refused_and_not_followed() {
    let (line, _, message) =
        fault(&format!("network,{}\n192.0.2.0/24,x\n", vec!["a"; 200_000].join(".")));
    assert_eq!(line, 1);
    assert!(
        message.contains("a path of 200000 names; allowed: paths of up to 512 names"),
        "{message}"
    );
    assert!(message.len() < 300, "what is shown of a long name is cut: {} bytes", message.len());
}

/// Reads files with options; gives the database and what was said.
fn load(
    options: RowsOptions,
    files: &[(&str, &str)],
) -> Result<(Database, RowsSummary), RowsError> {
    let mut writer = Writer::new(WriterOptions::default()).unwrap();
    let mut loader = RowsLoader::new(options, &mut writer);
    for (name, text) in files {
        loader.read(name, text.as_bytes())?;
    }
    let summary = loader.finish()?;
    Ok((Database::from_bytes(writer.finish().unwrap()).unwrap(), summary))
}

fn loaded(files: &[(&str, &str)]) -> Database {
    load(RowsOptions::default(), files).unwrap().0
}

#[test]
fn ranges_integers_and_every_usual_name_of_the_network_are_read() {
    for header_and_row in [
        "Network,a\n192.0.2.0/24,x",
        "CIDR,a\n192.0.2.0/24,x",
        "a,ip\nx,192.0.2.0/24",
        "prefix;a\n192.0.2.0/24;x",
        "IP Range\ta\n192.0.2.0-192.0.2.255\tx",
        "range|a\n192.0.2.0 - 192.0.2.255|x",
        "start_ip,end_ip,a\n192.0.2.0,192.0.2.255,x",
        "Start IP,End IP,a\n192.0.2.0,192.0.2.255,x",
        "a,ip_from,ip_to\nx,3221225984,3221226239",
        "startIpNum,endIpNum,a\n\"3221225984\",\"3221226239\",\"x\"",
        "from,to,a\n::ffff:192.0.2.0,::ffff:192.0.2.255,x",
        "address,prefix_length,a\n192.0.2.0,24,x",
        "ip,prefixlen,a\n192.0.2.0,24,x",
        "# a comment\n#network,a\n192.0.2.0/24,x",
    ] {
        let database = loaded(&[("rows", &format!("{header_and_row}\r\n"))]);
        assert_eq!(json(&database, "192.0.2.255"), r#"{"a":"x"}"#, "{header_and_row}");
        assert_eq!(database.networks().count(), 1, "{header_and_row}");
    }
    let database = loaded(&[(
        "rows",
        "first,last,a\n42540766411282592856903984951653826560,\
         42540766411282592875350729025363378175,x\n",
    )]);
    assert_eq!(json(&database, "2001:db8::1"), r#"{"a":"x"}"#);
}

#[test]
fn tables_without_a_header_get_names_from_the_caller_or_numbers() {
    let rows = "1.0.0.0,1.0.0.255,13335\n1.0.1.0,1.0.1.255,4134\n";
    let (database, summary) = load(RowsOptions::default(), &[("list.csv", rows)]).unwrap();
    assert_eq!(json(&database, "1.0.0.1"), r#"{"column3":13335}"#);
    assert!(summary.remarks[0].contains("--columns"), "{:?}", summary.remarks);
    let error = load(RowsOptions::default(), &[("l", "1.0.0.9,1.0.0.1,5\n")]).unwrap_err();
    assert!(error.to_string().contains("not below the first"), "{error}");
    let columns = ["start", "end", "asn"].map(str::to_string).to_vec();
    let options = RowsOptions { columns, ..RowsOptions::default() };
    for text in [rows.to_string(), format!("von,bis,nummer\n{rows}")] {
        let (database, summary) = load(options.clone(), &[("list.csv", &text)]).unwrap();
        assert_eq!(json(&database, "1.0.1.1"), r#"{"asn":4134}"#);
        assert_eq!(summary.rows, 2);
    }
}

#[test]
fn types_are_guessed_from_all_rows_of_all_files() {
    let v4 = "network,n,d,t,s,postal.code\n1.0.0.0/8,1,1,true,1,12345\n2.0.0.0/8,,,,,\n";
    let v6 = "network,n,d,t,s,postal.code\n2001:db8::/32,2,2.5,false,01,54321\n";
    let database = loaded(&[("v4", v4), ("v6", v6)]);
    assert_eq!(
        json(&database, "1.0.0.1"),
        r#"{"n":1,"d":1.0,"t":true,"s":"1","postal":{"code":"12345"}}"#
    );
    assert_eq!(json(&database, "2.0.0.1"), "{}");
    let options = RowsOptions { guesses_types: false, ..RowsOptions::default() };
    let (database, _) = load(options, &[("v4", v4)]).unwrap();
    assert_eq!(
        json(&database, "1.0.0.1"),
        r#"{"n":"1","d":"1","t":"true","s":"1","postal":{"code":"12345"}}"#
    );
}

#[test]
fn wrong_rows_are_counted_and_passed_over_when_that_is_asked_for() {
    let text = "start,end,a:uint16\n1.0.0.9,1.0.0.1,1\n2.0.0.0,2.0.0.255,x\n\
                3.0.0.0,3.0.0.255\n4.0.0.0,4.0.0.255,4\n99999999999999999999999999999999999999999,\
                1,1\n5.0.0.0,5.0.0.255,\"5\n6.0.0.0,6.0.0.255,6\n";
    let error = load(RowsOptions::default(), &[("rows", text)]).unwrap_err();
    assert_eq!((error.line(), error.column()), (2, "end"));
    assert!(error.to_string().contains("not below the first"), "{error}");
    let options = RowsOptions { skips_bad: true, ..RowsOptions::default() };
    let (database, summary) = load(options, &[("rows", text)]).unwrap();
    assert_eq!((summary.rows, summary.skipped), (2, 5));
    let (name, first) = summary.first_skipped.unwrap();
    assert_eq!((name.as_str(), first), ("rows", error));
    assert_eq!(json(&database, "4.0.0.1"), r#"{"a":4}"#);
    assert_eq!(json(&database, "6.0.0.1"), r#"{"a":6}"#);
}

#[test]
fn a_range_gives_way_where_it_crosses_an_alias_and_is_refused_inside_of_it() {
    let text = "start,end,a\n2001:f000::,2003:fff:ffff:ffff:ffff:ffff:ffff:ffff,x\n\
                1.0.0.0,1.0.0.255,y\n";
    let database = loaded(&[("rows", text)]);
    assert_eq!(json(&database, "2001:f000::1"), r#"{"a":"x"}"#);
    assert_eq!(json(&database, "2003::1"), r#"{"a":"x"}"#);
    assert_eq!(json(&database, "2002:100:1::1"), r#"{"a":"y"}"#);
    let inside = "start,end,a\n2002:1::,2002:2::,x\n";
    let error = load(RowsOptions::default(), &[("rows", inside)]).unwrap_err();
    assert!(error.to_string().contains("--no-ipv4-aliases"), "{error}");
}

#[test]
fn published_tables_without_a_header_are_known_by_their_names() {
    let database = loaded(&[(
        "IP2LOCATION-LITE-DB11.CSV",
        "\"0\",\"16777215\",\"-\",\"-\",\"-\",\"-\",\"0.000000\",\"0.000000\",\"-\",\"-\"\r\n\
         \"16777216\",\"16777471\",\"AU\",\"Australia\",\"Queensland\",\"Brisbane\",\
         \"-27.467940\",\"153.028090\",\"4000\",\"+10:00\"\r\n",
    )]);
    assert_eq!(
        json(&database, "1.0.0.1"),
        r#"{"country":{"iso_code":"AU","names":{"en":"Australia"}},"subdivisions":[{"names":{"en":"Queensland"}}],"city":{"names":{"en":"Brisbane"}},"location":{"latitude":-27.46794,"longitude":153.02809,"utc_offset":"+10:00"},"postal":{"code":"4000"}}"#
    );
    let database = loaded(&[
        (
            "dbip-city-lite-2026-11.csv",
            "1.0.0.0,1.0.0.255,OC,AU,Queensland,\"South Brisbane\",-27.4767,153.017\n",
        ),
        ("dbip-asn-lite-2026-11.csv", "2.0.0.0,2.0.0.255,3215,\"Orange S.A.\"\n"),
        (
            "ip2asn-v4.tsv",
            "3.0.0.0\t3.0.0.255\t0\tNone\tNot routed\n4.0.0.0\t4.0.0.255\t3356\tUS\tLEVEL3, Inc; x\n",
        ),
    ]);
    assert_eq!(
        json(&database, "1.0.0.1"),
        r#"{"continent":{"code":"OC"},"country":{"iso_code":"AU"},"subdivisions":[{"names":{"en":"Queensland"}}],"city":{"names":{"en":"South Brisbane"}},"location":{"latitude":-27.4767,"longitude":153.017}}"#
    );
    assert_eq!(
        json(&database, "2.0.0.1"),
        r#"{"autonomous_system_number":3215,"autonomous_system_organization":"Orange S.A."}"#
    );
    assert_eq!(
        json(&database, "4.0.0.1"),
        r#"{"autonomous_system_number":3356,"country":{"iso_code":"US"},"autonomous_system_organization":"LEVEL3, Inc; x"}"#
    );
    assert!(database.lookup("3.0.0.1".parse().unwrap()).unwrap().record.is_none());
}

#[test]
fn geofeeds_are_read_as_rfc_8805_writes_them() {
    let text = "# a geofeed\n192.0.2.0/25,US,US-AL,Alabaster,\n192.0.2.128/25,us,,,\n\
                2001:db8::/32,PL,PL-14,,02-784\n198.51.100.0/24,,,,\n203.0.113.5,DE\n";
    let database = loaded(&[("feed.csv", text)]);
    for (address, record) in [
        (
            "192.0.2.1",
            r#"{"country":{"iso_code":"US"},"subdivisions":[{"iso_code":"AL"}],"city":{"names":{"en":"Alabaster"}}}"#,
        ),
        ("192.0.2.129", r#"{"country":{"iso_code":"US"}}"#),
        (
            "2001:db8::1",
            r#"{"country":{"iso_code":"PL"},"subdivisions":[{"iso_code":"14"}],"postal":{"code":"02-784"}}"#,
        ),
        ("203.0.113.5", r#"{"country":{"iso_code":"DE"}}"#),
    ] {
        assert_eq!(json(&database, address), record, "{address}");
    }
    // "Do not geolocate."
    assert!(database.lookup("198.51.100.1".parse().unwrap()).unwrap().record.is_none());
    let layout = Layout::from_name("geofeed");
    let options = RowsOptions { layout, ..RowsOptions::default() };
    let wrong = "192.0.2.0/25,USA,,,\n";
    let error = load(options, &[("feed.csv", wrong)]).unwrap_err();
    assert!(error.to_string().contains("two letters"), "{error}");
}

const LOCATIONS: &str = "geoname_id,locale_code,continent_code,continent_name,country_iso_code,\
    country_name,subdivision_1_iso_code,subdivision_1_name,subdivision_2_iso_code,\
    subdivision_2_name,city_name,metro_code,time_zone,is_in_european_union\n\
    2921044,en,EU,Europe,DE,Germany,,,,,,,Europe/Berlin,1\n\
    2950157,en,EU,Europe,DE,Germany,BE,\"Land Berlin\",,,,,Europe/Berlin,1\n\
    2950159,en,EU,Europe,DE,Germany,BE,\"Land Berlin\",,,Berlin,,Europe/Berlin,1\n\
    6252001,en,NA,\"North America\",US,\"United States\",,,,,,,America/Chicago,0\n";

#[test]
fn blocks_are_joined_with_their_locations_in_every_language() {
    let german = LOCATIONS.replace(",en,", ",de,").replace("Germany", "Deutschland");
    let blocks = "network,geoname_id,registered_country_geoname_id,represented_country_geoname_id,\
        is_anonymous_proxy,is_satellite_provider,postal_code,latitude,longitude,accuracy_radius,\
        is_anycast\n192.0.2.0/24,2950159,6252001,,0,1,10115,52.5,13.4,20,\n\
        192.0.3.0/24,,6252001,,0,0,,,,,\n";
    let files = [("en.csv", LOCATIONS), ("de.csv", &*german), ("blocks.csv", blocks)];
    let database = loaded(&files);
    let country = r#"{"geoname_id":2921044,"is_in_european_union":true,"iso_code":"DE","names":{"en":"Germany","de":"Deutschland"}}"#;
    let us = r#"{"geoname_id":6252001,"iso_code":"US","names":{"en":"United States","de":"United States"}}"#;
    assert_eq!(
        json(&database, "192.0.2.1"),
        format!(
            r#"{{"city":{{"geoname_id":2950159,"names":{{"en":"Berlin","de":"Berlin"}}}},"continent":{{"geoname_id":6255148,"code":"EU","names":{{"en":"Europe","de":"Europe"}}}},"country":{country},"location":{{"latitude":52.5,"longitude":13.4,"accuracy_radius":20,"time_zone":"Europe/Berlin"}},"postal":{{"code":"10115"}},"registered_country":{us},"subdivisions":[{{"geoname_id":2950157,"iso_code":"BE","names":{{"en":"Land Berlin","de":"Land Berlin"}}}}],"traits":{{"is_satellite_provider":true}}}}"#
        )
    );
    assert_eq!(json(&database, "192.0.3.1"), format!(r#"{{"registered_country":{us}}}"#));
}

#[test]
fn a_city_without_a_name_in_one_language_is_no_subdivision() {
    // The first row has a lower number than that of the subdivision, and no name of the city.
    let german = "geoname_id,locale_code,country_iso_code,subdivision_1_iso_code,city_name\n\
        5,de,DE,BE,\n";
    let english = "geoname_id,locale_code,country_iso_code,subdivision_1_iso_code,city_name\n\
        5,en,DE,BE,Berlin\n7,en,DE,BE,\n";
    let blocks = "network,geoname_id\n192.0.2.0/24,5\n";
    let database = loaded(&[("de", german), ("en", english), ("blocks", blocks)]);
    assert_eq!(
        json(&database, "192.0.2.1"),
        r#"{"city":{"geoname_id":5,"names":{"en":"Berlin"}},"country":{"iso_code":"DE"},"subdivisions":[{"geoname_id":7,"iso_code":"BE"}]}"#
    );
}

#[test]
fn blocks_with_a_number_that_no_location_has_are_wrong_rows() {
    let blocks = "network,geoname_id\n192.0.2.0/24,7\n192.0.3.0/24,2950159\n";
    let files = [("locations", LOCATIONS), ("blocks", blocks)];
    let error = load(RowsOptions::default(), &files).unwrap_err();
    assert_eq!((error.line(), error.column()), (2, "geoname_id"));
    let options = RowsOptions { skips_bad: true, ..RowsOptions::default() };
    let (_, summary) = load(options, &files).unwrap();
    assert_eq!((summary.rows, summary.skipped), (1, 1));
    assert!(RowsLoader::is_locations(LOCATIONS.as_bytes()));
    assert!(!RowsLoader::is_locations(blocks.as_bytes()));
    let (_, summary) = load(RowsOptions::default(), &[("blocks", blocks)]).unwrap();
    assert!(summary.remarks[0].contains("Locations"), "{:?}", summary.remarks);
}

#[test]
fn wrong_encodings_are_named() {
    for bytes in [&b"\xff\xfen\x00"[..], b"\xfe\xff\x00n"] {
        let mut writer = Writer::new(WriterOptions::default()).unwrap();
        let error = rows::read_csv(bytes, &mut writer).unwrap_err();
        assert!(error.to_string().contains("iconv"), "{error}");
    }
}

#[test]
fn tables_that_are_cut_anywhere_are_read_or_refused_with_a_line() {
    let samples = [
        "start_ip;end_ip;a;b\r\n1.0.0.0;1.0.0.255;\"x\"\"y\";1\r\n# c\n2.0.0.0;2.0.0.9;z;2\n",
        "192.0.2.0/24,US,US-AL,Alabaster,\n2001:db8::/32,PL,PL-14,,02-784\n",
        LOCATIONS,
        "# {\"metadata\":{\"database_type\":\"T\"}}\nnetwork,a\n1.0.0.0/8,x\n",
        "{\"metadata\":{\"ip_version\":6}}\n{\"start_ip\":\"1.0.0.0\",\"end_ip\":\"1.0.0.9\",\"a\":1}\n",
    ];
    for sample in samples {
        for end in 0..=sample.len() {
            for skips_bad in [false, true] {
                let mut writer = Writer::new(WriterOptions::default()).unwrap();
                let options = RowsOptions { skips_bad, ..RowsOptions::default() };
                let mut loader = RowsLoader::new(options, &mut writer);
                if let Err(error) = loader.read("rows", &sample.as_bytes()[..end]) {
                    let lines = sample[..end].lines().count().max(1) as u64;
                    assert!((1..=lines).contains(&error.line()), "{end}: {error}");
                    assert!(!error.to_string().contains('\n'), "{error}");
                }
                loader.finish().unwrap();
                Database::from_bytes(writer.finish().unwrap()).unwrap().verify().unwrap();
            }
        }
    }
}

#[test]
fn rows_say_what_the_file_shall_state_of_itself() {
    for text in [
        "# {\"metadata\":{\"database_type\":\"T\",\"ip_version\":4}}\nnetwork,a\n1.0.0.0/8,x\n",
        "{\"metadata\":{\"database_type\":\"T\",\"ip_version\":4}}\n{\"network\":\"1.0.0.0/8\"}\n",
    ] {
        let (_, summary) = load(RowsOptions::default(), &[("rows", text)]).unwrap();
        let metadata = summary.metadata.unwrap();
        assert_eq!(metadata.database_type.as_deref(), Some("T"));
        assert_eq!((metadata.ip_version, summary.rows), (Some(4), 1));
    }
}

/// What a layout makes of rows: the records of the addresses, `-` where there is none.
fn by_layout(name: &str, rows: &str, addresses: &[&str]) -> Vec<String> {
    let mut writer = Writer::new(WriterOptions::default()).unwrap();
    let layout = Layout::from_name(name);
    let options = RowsOptions { layout, ..RowsOptions::default() };
    let mut loader = RowsLoader::new(options, &mut writer);
    loader.read("rows.csv", rows.as_bytes()).unwrap();
    loader.finish().unwrap();
    let database = Database::from_bytes(writer.finish().unwrap()).unwrap();
    let record = |address: &&str| {
        let found = database.lookup(address.parse().unwrap()).unwrap().record;
        found.map_or("-".to_string(), |_| json(&database, address))
    };
    addresses.iter().map(record).collect()
}

#[test]
fn rows_without_a_place_have_no_location_at_latitude_0_and_longitude_0() {
    let ip2location = "\"3221225984\",\"3221226239\",\"-\",\"-\",\"-\",\"-\",\"0.000000\",\"0.000000\",\"-\",\"-\"\n\
        \"3325256704\",\"3325256959\",\"DE\",\"Germany\",\"Hesse\",\"Frankfurt\",\"50.110000\",\"8.680000\",\"-\",\"+01:00\"\n";
    assert_eq!(
        by_layout("ip2location-db11", ip2location, &["192.0.2.1", "198.51.100.1"]),
        [
            "-",
            "{\"country\":{\"iso_code\":\"DE\",\"names\":{\"en\":\"Germany\"}},\
             \"subdivisions\":[{\"names\":{\"en\":\"Hesse\"}}],\"city\":{\"names\":{\"en\":\"Frankfurt\"}},\
             \"location\":{\"latitude\":50.11,\"longitude\":8.68,\"utc_offset\":\"+01:00\"}}"
        ]
    );
    let dbip = "192.0.2.0,192.0.2.255,ZZ,ZZ,,,0,0\n198.51.100.0,198.51.100.255,EU,DE,,,0.0,0.0\n\
                203.0.113.0,203.0.113.255,AF,GA,Estuaire,x,0,9.45\n";
    assert_eq!(
        by_layout("dbip-city", dbip, &["192.0.2.1", "198.51.100.1", "203.0.113.1"])[..2],
        ["-", "{\"continent\":{\"code\":\"EU\"},\"country\":{\"iso_code\":\"DE\"}}"]
    );
    // The equator is a place.
    let gabon = by_layout("dbip-city", dbip, &["203.0.113.1"]).concat();
    assert!(gabon.contains("\"location\":{\"latitude\":0.0,\"longitude\":9.45}"), "{gabon}");
}

#[test]
fn a_geofeed_row_without_data_says_that_its_network_is_not_located() {
    let feed = "192.0.2.0/24,US,US-AL,Alabaster,\n192.0.2.128/25,,,,\n198.51.100.0/24\n";
    assert_eq!(
        by_layout("geofeed", feed, &["192.0.2.1", "192.0.2.200", "198.51.100.1"])[1..],
        ["-", "-"]
    );
}

#[test]
fn ip2proxy_layouts_have_the_columns_of_their_number() {
    let rows = "\"3221225984\",\"3221225984\",\"VPN\",\"US\",\"United States\",\"-\",\"-\",\"ISP\",\"isp.example\",\"DCH\",\"64500\",\"AS name\",\"3\",\"SPAM\",\"Provider\"\n";
    assert_eq!(
        by_layout("ip2proxy-px11", rows, &["192.0.2.0"]),
        [
            "{\"proxy_type\":\"VPN\",\"country\":{\"iso_code\":\"US\",\"names\":{\"en\":\"United States\"}},\
          \"isp\":\"ISP\",\"domain\":\"isp.example\",\"user_type\":\"DCH\",\
          \"autonomous_system_number\":64500,\"autonomous_system_organization\":\"AS name\",\
          \"last_seen_days\":3,\"threat\":\"SPAM\",\"provider\":\"Provider\"}"
        ]
    );
}

const DELEGATED: &str = "2|ripencc|1764198000|5|19830705|20261126|+0100\n\
    ripencc|*|ipv4|*|3|summary\n\
    ripencc|DE|ipv4|192.0.2.0|768|19930901|allocated\n\
    ripencc|FR|ipv6|2001:db8::|32|19990812|allocated|e-stats\n\
    ripencc|DE|asn|64500|1|19930901|allocated\n\
    ripencc||ipv4|198.51.100.0|256||available|\n\
    ripencc|ZZ|ipv4|198.51.101.0|256||reserved|\n";

#[test]
fn statistics_of_registries_are_countries_by_range() {
    let (count, database) = build(DELEGATED).unwrap();
    assert_eq!(count, 2);
    for (address, code) in [("192.0.2.0", "DE"), ("192.0.4.255", "DE"), ("2001:db8::1", "FR")] {
        assert_eq!(
            json(&database, address),
            format!("{{\"country\":{{\"iso_code\":\"{code}\"}}}}")
        );
    }
    for address in ["192.0.5.0", "198.51.100.1", "198.51.101.1"] {
        assert!(database.lookup(address.parse().unwrap()).unwrap().record.is_none(), "{address}");
    }
    for (row, part) in [
        ("ripencc|DE|ipv4|192.0.2.0|0|19930901|allocated\n", "line 1, column value: found \"0\""),
        ("ripencc|DE|ipv4|255.255.255.0|257|19930901|allocated\n", "reach no further"),
        ("ripencc|DE|ipv4|x|256|19930901|allocated\n", "column start: found \"x\"; allowed: IPv4"),
        ("ripencc|DE|ipv6|2001:db8::|129|19930901|allocated\n", "a prefix length of its family"),
        ("ripencc|DEU|ipv4|192.0.2.0|256|19930901|allocated\n", "two letters (ISO 3166-1)"),
    ] {
        let error = build(row).unwrap_err().to_string();
        assert!(error.contains(part), "{row}: {error}");
    }
    for end in 0..DELEGATED.len() {
        // A cut row is a fault or nothing, never a panic.
        let _ = build(&DELEGATED[..end]);
    }
}

const ARRAY: &str = "\n[{\"network\":\"192.0.2.0/24\",\"a\":\"}]\\\"\"},\n  {\n \"network\" : \"2001:db8::/32\",\n \"record\":{\"b\":[1,{\"c\":2}]}}\n]\n";

#[test]
fn an_array_of_rows_is_read_as_their_lines_are_and_faults_have_their_line() {
    let mut writer = Writer::new(WriterOptions::default()).unwrap();
    let count = rows::read(RowsFormat::Ndjson, ARRAY.as_bytes(), &mut writer).unwrap();
    let database = Database::from_bytes(writer.finish().unwrap()).unwrap();
    assert_eq!(count, 2);
    assert_eq!(json(&database, "192.0.2.1"), "{\"a\":\"}]\\\"\"}");
    assert_eq!(json(&database, "2001:db8::1"), "{\"b\":[1,{\"c\":2}]}");
    for (text, part) in [
        (
            "[{\"network\":\"192.0.2.0/24\"},\n{\n\"network\":\"x\"}]",
            "line 3, column 11: found \"x\"",
        ),
        ("[1]", "line 1: found \"1\"; allowed: rows that are JSON objects"),
        ("[{\"network\":\"192.0.2.0/24\"}\n{", "line 2: found \"{\"; allowed: a comma"),
        ("[{\"network\":\"192.0.2.0/24\"}]\nx", "nothing behind the array"),
        ("[{\"network\":\"192.0.2.0/24\"},]", "rows that are JSON objects"),
    ] {
        let error = rows_of(text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    for end in 1..ARRAY.trim_end().len() {
        let cut = rows_of(&ARRAY[..end]);
        assert!(cut.is_err(), "cut at {end}");
    }
}

/// Rows of whatever format their first byte says.
fn rows_of(text: &str) -> Result<u64, RowsError> {
    let mut writer = Writer::new(WriterOptions::default()).unwrap();
    let mut loader = RowsLoader::new(RowsOptions::default(), &mut writer);
    loader.read("", text.as_bytes())
}
