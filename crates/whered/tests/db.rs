//! `whered db build`, `merge`, `edit`, `fields` and `dump` as a person runs them.
//!
//! Not for: which tables are read how; `whered-mmdb` has tests of that.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A folder of its own for files of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, &str)]) -> Folder {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("db-{name}"));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the tests' folder can be written");
        for (file, text) in files {
            fs::write(path.join(file), text).expect("the tests' folder can be written");
        }
        Folder(path)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_whered"));
        let command = command.current_dir(&self.0).arg("db").args(arguments);
        command.output().expect("the program runs")
    }

    /// What a command that must succeed prints.
    fn out(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The message of a command that must fail.
    fn fault(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stdout));
        text(&output.stderr)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the program writes text")
}

#[test]
fn several_files_of_different_shapes_become_one_database() {
    let folder = Folder::new(
        "several",
        &[
            ("v4.csv", "start_ip,end_ip,asn\n192.0.2.0,192.0.2.255,64500\n"),
            ("v6.tsv", "Network\tASN\n2001:db8::/32\t64501\n"),
            ("more.ndjson", "{\"network\":\"198.51.100.0/24\",\"asn\":1}\n"),
        ],
    );
    let out = folder.out(&["build", "v4.csv", "v6.tsv", "more.ndjson", "-o", "out.mmdb"]);
    assert!(out.starts_with("out.mmdb: 3 networks, "), "{out}");
    assert_eq!(
        folder.out(&["dump", "out.mmdb"]),
        "{\"network\":\"192.0.2.0/24\",\"prefix\":\"192.0.2.0/24\",\"record\":{\"asn\":64500}}\n\
         {\"network\":\"198.51.100.0/24\",\"prefix\":\"198.51.100.0/24\",\"record\":{\"asn\":1}}\n\
         {\"network\":\"2001:db8::/32\",\"prefix\":\"2001:db8::/32\",\"record\":{\"ASN\":64501}}\n"
    );
}

#[test]
fn locations_may_come_behind_the_blocks_that_need_them() {
    let folder = Folder::new(
        "locations",
        &[
            ("blocks.csv", "network,geoname_id\n192.0.2.0/24,1\n"),
            (
                "locations.csv",
                "geoname_id,locale_code,country_iso_code,country_name\n1,en,DE,Germany\n",
            ),
        ],
    );
    folder.out(&["build", "blocks.csv", "locations.csv", "-o", "out.mmdb"]);
    let dump = folder.out(&["dump", "out.mmdb", "--field", "country.iso_code"]);
    assert_eq!(
        dump,
        "{\"network\":\"192.0.2.0/24\",\"prefix\":\"192.0.2.0/24\",\"country.iso_code\":\"DE\"}\n"
    );
}

#[test]
fn wrong_rows_name_file_line_and_column_and_can_be_passed_over() {
    let rows = "network,a:uint16\n192.0.2.0/24,1\n192.0.3.0/24,x\n192.0.4.0/24,3\n";
    let folder = Folder::new("wrong", &[("rows.csv", rows)]);
    let fault = folder.fault(&["build", "rows.csv", "-o", "out.mmdb"]);
    assert!(fault.contains("rows.csv: line 3, column a:uint16: found \"x\""), "{fault}");
    assert!(!folder.0.join("out.mmdb").exists());
    let output = folder.run(&["build", "rows.csv", "-o", "out.mmdb", "--skip-bad"]);
    assert!(output.status.success());
    assert!(text(&output.stdout).starts_with("out.mmdb: 2 networks"));
    let said = text(&output.stderr);
    assert!(said.contains("1 wrong row was passed over; the first: rows.csv: line 3"), "{said}");
}

#[test]
fn a_file_with_rows_is_never_replaced_when_the_output_was_forgotten() {
    let rows = "network,a\n192.0.2.0/24,x\n";
    let folder = Folder::new("forgotten", &[("a.csv", rows), ("b.csv", rows)]);
    let fault = folder.fault(&["build", "a.csv", "-o", "b.csv"]);
    assert!(fault.contains("b.csv: is there and is no database file"), "{fault}");
    assert_eq!(fs::read_to_string(folder.0.join("b.csv")).expect("it is there"), rows);
}

#[test]
fn the_last_row_wins_over_longer_prefixes_where_that_is_chosen() {
    let rows = "network,a\n192.0.2.0/25,x\n192.0.2.0/24,y\n";
    let folder = Folder::new("overlaps", &[("rows.csv", rows)]);
    folder.out(&["build", "rows.csv", "-o", "out.mmdb", "--overlaps", "last"]);
    let dump = folder.out(&["dump", "out.mmdb", "--field", "a"]);
    assert_eq!(dump, "{\"network\":\"192.0.2.0/24\",\"prefix\":\"192.0.2.0/24\",\"a\":\"y\"}\n");
}

#[test]
fn type_description_languages_and_ip_version_survive_a_dump_and_a_build() {
    let folder = Folder::new("metadata", &[("rows.csv", "network,a\n192.0.2.0/24,x\n")]);
    folder.out(&[
        "build",
        "rows.csv",
        "-o",
        "a.mmdb",
        "--database-type",
        "Offices",
        "--description",
        "ours",
        "--language",
        "de",
        "--language",
        "fr",
        "--ip-version",
        "4",
    ]);
    let stated = |file: &str| {
        let info = folder.out(&["info", file]);
        let lines = info.lines().filter(|line| {
            ["type", "description", "languages", "ip version"]
                .iter()
                .any(|name| line.starts_with(name))
        });
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let dumps: [&[&str]; 3] = [
        &["dump", "a.mmdb", "--types"],
        &["dump", "a.mmdb", "--metadata"],
        &["dump", "a.mmdb", "--metadata", "--format", "csv", "--field", "a"],
    ];
    for dump in dumps {
        fs::write(folder.0.join("dump"), folder.out(dump)).expect("the folder can be written");
        folder.out(&["build", "dump", "-o", "b.mmdb"]);
        assert_eq!(stated("b.mmdb"), stated("a.mmdb"), "{dump:?}");
        assert_eq!(folder.out(&["diff", "a.mmdb", "b.mmdb"]), "");
    }
    assert!(!folder.out(&["dump", "a.mmdb"]).contains("metadata"));
}

#[test]
fn a_dump_is_the_same_on_any_number_of_threads() {
    let mut rows = "network,a\n".to_owned();
    for number in 0..9_000 {
        rows += &format!("10.{}.{}.0/24,{}\n", number / 256, number % 256, number / 3);
    }
    let folder = Folder::new("threads", &[("rows.csv", &rows)]);
    folder.out(&["build", "rows.csv", "-o", "out.mmdb"]);
    let one = folder.out(&["dump", "out.mmdb", "--threads", "1"]);
    for threads in ["2", "7"] {
        assert_eq!(folder.out(&["dump", "out.mmdb", "--threads", threads]), one);
    }
}

#[test]
fn merging_goes_deep_replaces_or_takes_single_fields() {
    let folder = Folder::new(
        "merge",
        &[
            ("a.ndjson", "{\"network\":\"192.0.2.0/24\",\"a.x\":1,\"a.y\":2}\n"),
            ("b.ndjson", "{\"network\":\"192.0.2.0/25\",\"a.x\":3,\"b\":4}\n"),
            ("rows.csv", "network,c\n2001:db8::/32,5\n"),
        ],
    );
    for name in ["a", "b"] {
        folder.out(&["build", &format!("{name}.ndjson"), "-o", &format!("{name}.mmdb")]);
    }
    let merged = |flags: &[&str]| {
        let arguments = [&["merge", "a.mmdb", "b.mmdb", "-o", "out.mmdb"], flags].concat();
        folder.out(&arguments);
        let dump = folder.out(&["dump", "out.mmdb"]);
        dump.lines()
            .map(|line| line.split_once("\"record\":").expect("a row").1.to_owned())
            .collect::<Vec<_>>()
    };
    let rest = r#"{"a":{"x":1,"y":2}}}"#;
    assert_eq!(merged(&[]), [r#"{"a":{"x":3,"y":2},"b":4}}"#, rest]);
    assert_eq!(merged(&["--by", "replace"]), [r#"{"a":{"x":3},"b":4}}"#, rest]);
    assert_eq!(merged(&["--path", "b"]), [r#"{"a":{"x":1,"y":2},"b":4}}"#, rest]);
    assert_eq!(merged(&["--rows", "rows.csv"])[2], r#"{"c":5}}"#);
    let fault = folder.fault(&["merge", "a.mmdb", "-o", "out.mmdb"]);
    assert!(fault.contains("two database files or more"), "{fault}");
}

#[test]
fn edits_reach_single_networks_all_fields_and_metadata() {
    let folder = Folder::new("edit", &[("rows.csv", "network,a,b,c\n192.0.2.0/24,1,2,3\n")]);
    folder.out(&["build", "rows.csv", "-o", "a.mmdb", "--build-epoch-seconds", "7"]);
    folder.out(&[
        "edit",
        "a.mmdb",
        "-o",
        "b.mmdb",
        "--set",
        "192.0.2.128/25 d.e:uint16=4",
        "--unset",
        "192.0.2.0/24 a",
        "--delete",
        "192.0.2.0/26",
        "--set",
        "2001:db8::/32 b=x",
        "--rename-field",
        "b=f",
        "--drop-field",
        "c",
        "--database-type",
        "T",
    ]);
    assert_eq!(
        folder.out(&["dump", "b.mmdb"]),
        "{\"network\":\"192.0.2.64/26\",\"prefix\":\"192.0.2.64/26\",\"record\":{\"f\":2}}\n\
         {\"network\":\"192.0.2.128/25\",\"prefix\":\"192.0.2.128/25\",\"record\":{\"d\":{\"e\":4},\"f\":2}}\n\
         {\"network\":\"2001:db8::/32\",\"prefix\":\"2001:db8::/32\",\"record\":{\"f\":\"x\"}}\n"
    );
    let info = folder.out(&["info", "b.mmdb"]);
    assert!(
        info.contains("type            T\n") && info.contains("1970-01-01T00:00:07Z"),
        "{info}"
    );
    folder.out(&["edit", "b.mmdb", "-o", "c.mmdb", "--keep-field", "d.e"]);
    let dump = folder.out(&["dump", "c.mmdb", "--types"]);
    assert!(dump.contains(r##"{"d":{"e":{"#uint16":4}}}"##), "{dump}");
    for (flag, value) in [("--set", "192.0.2.0/24"), ("--set", "x a=1"), ("--delete", "x")] {
        let fault = folder.fault(&["edit", "a.mmdb", "-o", "d.mmdb", flag, value]);
        assert!(fault.contains(flag) && fault.contains("allowed: "), "{fault}");
    }
}

#[test]
fn fields_are_named_with_how_often_they_have_a_value() {
    let rows = "network,a,b.c\n192.0.2.0/25,x,1\n192.0.2.128/25,y,\n2001:db8::/32,,2\n";
    let folder = Folder::new("fields", &[("rows.csv", rows)]);
    folder.out(&["build", "rows.csv", "-o", "out.mmdb"]);
    assert_eq!(
        folder.out(&["fields", "out.mmdb"]),
        "networks   share  type    field\n       2   66.7%  string  a\n       2   66.7%  uint32  b.c\n"
    );
    assert_eq!(
        folder.out(&["fields", "out.mmdb", "--format", "json"]).lines().next(),
        Some(r#"{"field":"a","types":["string"],"networks":2,"all_networks":3}"#)
    );
}

#[test]
fn an_input_without_any_network_is_refused_and_replaces_nothing() {
    let locations = "geoname_id,locale_code,country_iso_code,country_name\n1,en,DE,Germany\n";
    let folder = Folder::new(
        "empty",
        &[
            ("rows.csv", "network,a\n192.0.2.0/24,1\n"),
            ("header.csv", "network,a\n"),
            ("Locations-en.csv", locations),
            ("Locations-none.csv", "geoname_id,locale_code,country_iso_code,country_name\n"),
            ("Blocks.csv", "network,geoname_id\n192.0.2.0/24,1\n"),
            ("Blocks-none.csv", "network,geoname_id\n"),
            ("metadata.ndjson", "{\"metadata\":{\"ip_version\":4}}\n"),
            ("array.json", "[]"),
        ],
    );
    folder.out(&["build", "rows.csv", "-o", "kept.mmdb"]);
    let before = folder.out(&["dump", "kept.mmdb"]);
    for (inputs, file) in [
        (&["header.csv"][..], "header.csv"),
        (&["rows.csv", "header.csv"], "header.csv"),
        (&["Locations-en.csv"], "Locations-en.csv"),
        (&["Locations-none.csv", "Blocks.csv"], "Locations-none.csv"),
        (&["Locations-en.csv", "Blocks-none.csv"], "Blocks-none.csv"),
        (&["metadata.ndjson"], "metadata.ndjson"),
        (&["array.json"], "array.json"),
    ] {
        let arguments = [&["build"], inputs, &["-o", "kept.mmdb"]].concat();
        let fault = folder.fault(&arguments);
        assert!(fault.contains(file) && fault.contains("no network"), "{inputs:?}: {fault}");
        assert_eq!(fault.lines().count(), 1, "{fault}");
    }
    assert_eq!(folder.out(&["dump", "kept.mmdb"]), before);
    folder.out(&["build", "--allow-empty", "header.csv", "-o", "kept.mmdb"]);
    assert_eq!(folder.out(&["dump", "kept.mmdb"]), "");
    folder.out(&["build", "rows.csv", "-o", "base.mmdb"]);
    let fault = folder.fault(&["merge", "base.mmdb", "--rows", "header.csv", "-o", "out.mmdb"]);
    assert!(fault.contains("gives no network"), "{fault}");
}

#[test]
fn the_languages_of_joined_locations_are_all_that_were_given() {
    let locations = |locale: &str| {
        format!("geoname_id,locale_code,country_iso_code,country_name\n1,{locale},DE,x\n")
    };
    let (en, de, zh) = (locations("en"), locations("de"), locations("zh-CN"));
    let folder = Folder::new(
        "languages",
        &[
            ("Blocks.csv", "network,geoname_id\n192.0.2.0/24,1\n"),
            ("L-en.csv", &en),
            ("L-de.csv", &de),
            ("L-zh.csv", &zh),
        ],
    );
    folder.out(&["build", "Blocks.csv", "L-en.csv", "L-zh.csv", "L-de.csv", "-o", "a.mmdb"]);
    let info = folder.out(&["info", "a.mmdb"]);
    assert!(info.contains("languages       de, en, zh-CN\n"), "{info}");
    assert!(info.contains("built by whered (en)"), "{info}");
    folder.out(&[
        "build",
        "Blocks.csv",
        "L-en.csv",
        "L-de.csv",
        "-o",
        "b.mmdb",
        "--language",
        "en",
    ]);
    assert!(folder.out(&["info", "b.mmdb"]).contains("languages       en\n"));
}

#[test]
fn an_edit_of_a_field_that_no_record_has_names_close_ones_and_writes_nothing() {
    let rows = "network,country.iso_code,asn,b\n192.0.2.0/24,DE,1,2\n198.51.100.0/24,FR,3,\n";
    let folder = Folder::new("edit-names", &[("rows.csv", rows)]);
    folder.out(&["build", "rows.csv", "-o", "a.mmdb"]);
    for (flag, value, part) in [
        ("--rename-field", "ans=as_number", "no record has such a field; allowed: asn"),
        ("--drop-field", "country.isocode", "allowed: country.iso_code"),
        ("--keep-field", "iso_code", "allowed: country.iso_code"),
        ("--unset", "192.0.2.0/24 ans", "no record in 192.0.2.0/24 has such a field; allowed: asn"),
        ("--unset", "198.51.100.0/24 b", "no record in 198.51.100.0/24 has such a field"),
        ("--drop-field", "organization", "allowed: fields that some record has"),
    ] {
        let fault = folder.fault(&["edit", "a.mmdb", "-o", "b.mmdb", flag, value]);
        assert!(fault.contains(flag) && fault.contains(part), "{fault}");
    }
    assert!(!folder.0.join("b.mmdb").exists());
    folder.out(&["edit", "a.mmdb", "-o", "b.mmdb", "--drop-field", "b", "--drop-field", "country"]);
}

#[test]
fn a_rename_onto_a_field_that_is_there_is_refused() {
    let rows = "network,a,b,c.d\n192.0.2.0/24,1,,3\n198.51.100.0/24,1,2,3\n";
    let folder = Folder::new("edit-rename", &[("rows.csv", rows)]);
    folder.out(&["build", "rows.csv", "-o", "a.mmdb"]);
    for value in ["a=b", "a=c", "a=c.d", "c.d=a"] {
        let fault = folder.fault(&["edit", "a.mmdb", "-o", "b.mmdb", "--rename-field", value]);
        let part = "that is to get its name; allowed: names that the record does not have";
        assert!(fault.contains(part) && fault.contains("/24"), "{value}: {fault}");
    }
    // Renames follow each other, so that two fields can change their names.
    let renames = ["--rename-field", "a=t", "--rename-field", "b=a", "--rename-field", "t=b"];
    folder.out(&[&["edit", "a.mmdb", "-o", "b.mmdb"][..], &renames].concat());
    let dump = folder.out(&["dump", "b.mmdb"]);
    assert!(dump.contains("\"a\":2") && dump.contains("\"b\":1"), "{dump}");
}

#[test]
fn rows_in_other_encodings_and_in_json_arrays_are_read() {
    let folder = Folder::new(
        "encodings",
        &[(
            "array.json",
            "[\n {\"network\": \"192.0.2.0/24\",\n  \"name\": \"é}]\"},\n {\"ip\":\"2001:db8::\"}]",
        )],
    );
    let utf16: Vec<u8> = "\u{feff}network,name\r\n192.0.2.0/24,é\r\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    fs::write(folder.0.join("utf16.csv"), utf16).unwrap();
    fs::write(folder.0.join("latin1.csv"), b"network,name\n192.0.2.0/24,\xe9\n").unwrap();
    for arguments in [
        &["build", "utf16.csv", "-o", "a.mmdb"][..],
        &["build", "--encoding", "iso-8859-1", "latin1.csv", "-o", "a.mmdb"],
    ] {
        folder.out(arguments);
        let row = "{\"network\":\"192.0.2.0/24\",\"prefix\":\"192.0.2.0/24\",\"record\":{\"name\":\"é\"}}\n";
        assert_eq!(folder.out(&["dump", "a.mmdb"]), row);
    }
    let fault = folder.fault(&["build", "array.json", "-o", "a.mmdb"]);
    assert!(fault.contains("line 4, column 2: "), "{fault}");
    folder.out(&["build", "--skip-bad", "array.json", "-o", "a.mmdb"]);
    let row = "{\"network\":\"192.0.2.0/24\",\"prefix\":\"192.0.2.0/24\",\"record\":{\"name\":\"é}]\"}}\n";
    assert_eq!(folder.out(&["dump", "a.mmdb"]), row);
}

#[test]
fn a_zip_archive_is_refused_with_the_way_to_unpack_it() {
    let folder = Folder::new("zip", &[]);
    fs::write(folder.0.join("GeoLite2.zip"), b"PK\x03\x04\x14\0\0\0\x08\0rows").unwrap();
    let fault = folder.fault(&["build", "GeoLite2.zip", "-o", "a.mmdb"]);
    assert!(fault.contains("zip") && fault.contains("unzip"), "{fault}");
}

#[test]
fn a_dump_builds_the_same_networks_whatever_its_aliases_are() {
    let folder = Folder::new("round-trip", &[]);
    let all = "{\"network\":\"0.0.0.0/0\",\"record\":{\"a\":1}}\n";
    let mapped = "{\"metadata\":{\"ipv4_aliases\":false}}\n{\"network\":\"1.0.0.0/8\",\"a\":1}\n\
                  {\"network\":\"::ffff:1.2.0.0/112\",\"a\":2}\n{\"network\":\"2002:1::/32\",\"a\":3}\n";
    let own = format!("{all}{}", all.replace("0.0.0.0/0", "2002::/16").replace('1', "2"));
    for (rows, flag) in [
        (all, None),
        (all, Some("--no-ipv4-aliases")),
        (&all.replace("0.0.0.0/0", "::/0"), None),
        (&all.replace("0.0.0.0/0", "::/64"), Some("--no-ipv4-aliases")),
        (&all.replace("0.0.0.0/0", "0.0.0.0/1"), None),
        (&all.replace("0.0.0.0/0", "2001:db8::/32"), None),
        (mapped, None),
        (&own, Some("--no-ipv4-aliases")),
    ] {
        fs::write(folder.0.join("rows.ndjson"), rows).unwrap();
        let arguments = ["build", "rows.ndjson", "-o", "a.mmdb"].into_iter().chain(flag);
        folder.out(&arguments.collect::<Vec<_>>());
        let dump = folder.out(&["dump", "--types", "a.mmdb"]);
        fs::write(folder.0.join("dump.ndjson"), &dump).unwrap();
        folder.out(&["build", "dump.ndjson", "-o", "b.mmdb"]);
        assert_eq!(folder.out(&["diff", "a.mmdb", "b.mmdb"]), "", "{rows}\n{dump}");
        // Without types the aliases, or none, are the same all the same.
        for dump in
            [&["dump", "a.mmdb"][..], &["dump", "--format", "csv", "--field", "a", "a.mmdb"]]
        {
            let dump = folder.out(dump);
            fs::write(folder.0.join("dump.rows"), &dump).unwrap();
            folder.out(&["build", "dump.rows", "-o", "b.mmdb"]);
            let networks = |file: &str| folder.out(&["diff", "--summary", "a.mmdb", file]);
            let counts = networks("b.mmdb");
            assert!(counts.starts_with("0 added, 0 removed"), "{rows}\n{dump}\n{counts}");
        }
        // An edit that changes nothing and a merge with itself are the same, too.
        folder.out(&["edit", "a.mmdb", "-o", "b.mmdb", "--database-type", "T"]);
        assert_eq!(folder.out(&["diff", "a.mmdb", "b.mmdb"]), "", "edited: {rows}");
        folder.out(&["merge", "a.mmdb", "a.mmdb", "-o", "b.mmdb"]);
        assert_eq!(folder.out(&["diff", "a.mmdb", "b.mmdb"]), "", "merged: {rows}");
    }
    // Without types, a database of one record for all of IPv4 is built again as well.
    fs::write(folder.0.join("rows.ndjson"), all).unwrap();
    folder.out(&["build", "rows.ndjson", "-o", "a.mmdb"]);
    let both = all.replacen("\"0.0.0.0/0\"", "\"0.0.0.0/0\",\"prefix\":\"0.0.0.0/0\"", 1);
    assert_eq!(folder.out(&["dump", "a.mmdb"]), both);
}

#[test]
fn every_test_database_is_built_again_from_its_dump() {
    let shared = std::env::var_os("WHERED_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
        PathBuf::from,
    );
    let shared = shared.join("data/maxmind-db/test-data");
    let Ok(files) = fs::read_dir(&shared) else {
        let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|item| item == "shared"), "no {}", shared.display());
        return;
    };
    let folder = Folder::new("test-data", &[]);
    let mut count = 0;
    for file in files {
        let path = file.unwrap().path();
        let name = path.display().to_string();
        // Files that are broken on purpose have no dump.
        if path.extension().is_none_or(|end| end != "mmdb")
            || !folder.run(&["verify", &name]).status.success()
        {
            continue;
        }
        let dump = folder.out(&["dump", "--types", &name]);
        fs::write(folder.0.join("dump.ndjson"), dump).unwrap();
        folder.out(&["build", "dump.ndjson", "-o", "again.mmdb"]);
        assert_eq!(folder.out(&["diff", &name, "again.mmdb"]), "", "{name}");
        count += 1;
    }
    assert!(count > 20, "{count}");
}
