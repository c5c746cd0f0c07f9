//! Feeds of a configuration: a right one is read as it stands, a wrong one gives its exact line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use whered_engine::feeds::FeedInput;
use whered_engine::tables::RowsOf;

use crate::config::Config;

const FEED: &str = r#"
[[feed]]
name = "sightings"
format = "xml"
record = "upload/sighting"
member = "@object"
map = "@map"
x = "@x"
y = "@y"
time = "@t"
fields = { level = { path = "@level", type = "integer" }, name = "@name" }
items = { each = "loot", key = "@item", count = "@n" }
into = { collection = "seen", table = "loot" }
consolidate = { merge_within_meters = 25.0 }
token = "t0ken"
drop_folder = "incoming"
upload_size_max = "2mb"
spool_size_max = 1_073_741_824
batch_delay_millis = 0
content_hash = true
[[feed.zone]]
name = "forest"
x = [0, 4096]
y = [0, 4096]
west = 8.0
south = 50.0
east = 8.1
north = 50.1
[[feed.table]]
name = "positions"
of = "positions"
key = ["member", "position"]
columns = { seen = "count", longitude = "mean(longitude)", level = "last(level)" }
[[feed.stream]]
url = "redis://127.0.0.1:6379"
stream = "uploads"
field = "payload"
[[feed.sink]]
url = "mysql://user:password@127.0.0.1/game"
tables = ["positions"]
[[feed.sink]]
name = "archive"
url = "postgres://127.0.0.1/archive"
adopt = true
[[feed]]
name = "blocked"
format = "netset"
into = { set = "blocked" }
"#;

/// The least that a feed has.
const SMALL: &str = "[[feed]]\nname = 'a'\nformat = 'ndjson'\nmember = 'id'\n";

#[track_caller]
fn refuses(text: &str, line: &str) {
    let message = Config::from_toml(text, Path::new("edge.toml")).expect_err(text).to_string();
    assert_eq!(message, format!("edge.toml:{line}"));
}

#[test]
fn a_feed_into_a_set_is_as_strict_as_the_section_of_sets() {
    for (section, is_strict) in [("", false), ("[sets]\nstrict = true\n", true)] {
        let text = format!("{section}{FEED}");
        let config = Config::from_toml(&text, Path::new("conf/edge.toml")).unwrap();
        let set = config.feeds[1].source.set.as_ref().unwrap();
        assert_eq!(set.is_strict, is_strict);
    }
}

#[test]
fn a_feed_is_read_with_its_tables_streams_and_sinks() {
    let config = Config::from_toml(FEED, Path::new("conf/edge.toml")).unwrap();
    let [feed, blocked] = &config.feeds[..] else { panic!("two feeds") };
    assert_eq!((feed.name.as_str(), feed.token.as_deref()), ("sightings", Some("t0ken")));
    assert_eq!(feed.drop_folder, Some(PathBuf::from("conf/incoming")));
    let source = &feed.source;
    assert_eq!(source.collection.as_deref(), Some("seen"));
    assert_eq!(source.merge_within_meters, Some(25.0));
    assert_eq!(source.limits.upload_size_bytes_max, 2 << 20);
    assert_eq!(source.limits.spool_size_bytes_max, 1 << 30);
    assert_eq!(source.limits.batch_delay, Duration::ZERO);
    assert!(source.limits.content_hash);
    let [loot, positions] = &source.tables[..] else { panic!("two tables") };
    assert_eq!(
        (loot.of, &loot.key[..]),
        (RowsOf::Items, &["member".to_owned(), "item".to_owned()][..])
    );
    let shown = |table: &whered_engine::tables::TableSource| {
        let columns =
            table.columns.iter().map(|column| format!("{} = {}", column.name, column.rule));
        columns.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(shown(loot), "count = sum(count), seen = count, last_seen = max(time)");
    assert_eq!(positions.of, RowsOf::Positions);
    let columns = "seen = count, longitude = mean(longitude), level = last(level)";
    assert_eq!(shown(positions), columns, "the order of the file");
    assert_eq!((feed.streams[0].name.as_str(), feed.streams[0].from_start), ("uploads", true));
    assert!(!feed.streams[0].join);
    let sinks: Vec<_> = feed.sinks.iter().map(|sink| (sink.name.as_str(), sink.adopt)).collect();
    assert_eq!(sinks, [("sink1", false), ("archive", true)]);
    assert!(matches!(blocked.source.input, FeedInput::Prefixes(_)));
    let set = blocked.source.set.as_ref().unwrap();
    assert_eq!((set.name.as_str(), set.replaces), ("blocked", true));
    assert_eq!(config.to_setup().feeds.len(), 2);
}

#[test]
fn a_feed_needs_a_name_a_format_and_somewhere_to_go() {
    refuses(
        "[[feed]]\nname = 'a/b'\n",
        "2:8: 'name' in [[feed]] is 'a/b'; allowed: up to 64 letters, digits, '_', '-' and '.', the last not in front",
    );
    refuses(
        "[[feed]]\nname = 'a'\nformat = 'yaml'\n",
        "3:10: 'format' in [[feed]] is 'yaml'; allowed: xml, ndjson, csv, tsv, gpx, json, geojson, \
         and formats of prefix lists with into = { set = ... }",
    );
    refuses(
        SMALL,
        "1:1: [[feed]] keeps nothing; allowed: into = { collection = \"...\" }, into = { table = \
         \"...\" }, into = { set = \"...\" }, [[feed.table]]",
    );
    refuses(
        &format!("{SMALL}into = {{ table = 't' }}\n{SMALL}"),
        "7:8: 'name' in [[feed]] repeats the feed 'a' of line 2; allowed: every name once",
    );
    refuses(
        &format!("{SMALL}upload_size_max = '12 apples'\ninto = {{ table = 't' }}\n"),
        "5:19: 'upload_size_max' in [[feed]] is '12 apples'; allowed: bytes, 1024 to 1073741824, or \
         a text such as \"64mb\"",
    );
    refuses(
        "[[feed]]\nname = 'a'\nformat = 'plain'\ninto = { set = 's', table = 't' }\n",
        "4:16: 'table' in into of [[feed]] stands beside a 'set'; allowed: one of the two",
    );
}

#[test]
fn mistakes_of_tables_fields_and_links_are_told_at_their_places() {
    let table = |lines: &str| {
        format!("{SMALL}into = {{ table = 't' }}\n[[feed.table]]\nname = 'u'\n{lines}\n")
    };
    refuses(
        &table("of = 'rows'\nkey = ['member']"),
        "8:6: 'of' in [[feed.table]] is 'rows'; allowed: records, items, positions",
    );
    refuses(
        &table("key = ['member']\ncolumns = { n = 'sum' }"),
        "9:17: 'columns' in [[feed.table]] has the rule 'sum' for 'n'; allowed: count, sum(FIELD), \
         min(FIELD), max(FIELD), mean(FIELD), first(FIELD), last(FIELD)",
    );
    let message = Config::from_toml(&table("key = ['nope']"), Path::new("e")).unwrap_err();
    assert_eq!(message.line(), Some(6), "{message}");
    assert!(message.to_string().contains("no field 'nope'"), "{message}");
    let message = Config::from_toml(
        &table("key = ['member']\ncolumns = { n = 'sum(member)' }"),
        Path::new("e"),
    );
    assert!(message.unwrap_err().to_string().contains("sum(member)"));
    refuses(
        &format!("{SMALL}fields = {{ time = 't' }}\n"),
        "5:12: 'fields' in [[feed]] has the field 'time', which records have; allowed: a name of \
         its own",
    );
    refuses(
        &format!("{SMALL}fields = {{ a = 1 }}\n"),
        "5:12: 'fields' in [[feed]] has a whole number for 'a'; allowed: a path such as \"@level\", \
         or { path = ..., type = ... }",
    );
    refuses(
        &format!("{SMALL}into = {{ table = 't' }}\n[[feed.sink]]\nurl = 'sqlite://x'\n"),
        "7:7: 'url' in [[feed.sink]] is none of the known kinds; allowed: a URL that begins with \
         mysql://, mariadb://, postgres://, postgresql://",
    );
    refuses(
        &format!(
            "{SMALL}into = {{ table = 't' }}\n[[feed.sink]]\nurl = 'mysql://x'\ntables = ['u']\n"
        ),
        "8:11: 'tables' in [[feed.sink]] names 'u', which this feed does not fill; allowed: t",
    );
    refuses(
        &format!(
            "{SMALL}into = {{ table = 't' }}\n[[feed.zone]]\nname = 'z'\nx = [0, 0]\ny = [0, 1]\nwest = 1\neast = 2\nsouth = 1\nnorth = 2\n"
        ),
        "8:5: 'x' in [[feed.zone]] is something else; allowed: two numbers that differ, such as \
         [0, 4096]",
    );
}

#[test]
fn mistakes_of_the_mapping_are_told_at_their_keys() {
    let wrong = "[[feed]]\nname = 'a'\nformat = 'ndjson'\nmember = 'id'\nlongitude = 'x'\n";
    let error = Config::from_toml(wrong, Path::new("edge.toml")).unwrap_err();
    assert!(error.to_string().contains("in [[feed]]"), "{error}");
    assert!(error.to_string().contains("; allowed: "), "{error}");
}

#[test]
fn a_feed_without_a_data_directory_is_told_with_its_place_unless_a_flag_names_one() {
    let mut config = Config::from_toml(FEED, Path::new("edge.toml")).unwrap();
    let refusal = config.unkept_writes().expect("nothing is kept");
    assert!(refusal.starts_with("edge.toml:2:1: [[feed]] 'sightings' without"), "{refusal}");
    config.data_dir = Some(PathBuf::from("data"));
    assert_eq!(config.unkept_writes(), None);
}

#[test]
fn spools_sync_first_unless_the_section_of_feeds_says_otherwise() {
    use whered_engine::store::SyncPolicy;
    let read = |text: &str| Config::from_toml(text, Path::new("edge.toml"));
    let loose = read("[journal]\nsync = \"off\"\n").unwrap();
    assert_eq!((loose.journal.sync, loose.feed_sync), (SyncPolicy::Off, SyncPolicy::Always));
    let asked = read("[feeds]\nsync = \"everysec\"\n").unwrap();
    assert_eq!(asked.feed_sync, SyncPolicy::EverySecond);
    let error = read("[feeds]\nsync = \"sometimes\"\n").unwrap_err().to_string();
    let expected =
        "edge.toml:2:8: 'sync' in [feeds] is 'sometimes'; allowed: always, everysec, off";
    assert_eq!(error, expected);
}

/// A feed of a format with these lines, of which the first is the fifth of the file.
fn feed(format: &str, lines: &str) -> String {
    format!("[[feed]]\nname = 'a'\nformat = '{format}'\ninto = {{ table = 't' }}\n{lines}\n")
}

#[test]
fn values_are_paths_or_tables_that_say_where_they_come_from() {
    let text = feed(
        "csv",
        r#"member = { join = ["fleet", { header = "X-Device" }, { file = "stem", default = "f" }], with = ":" }
longitude = { path = "place", number = 2 }
latitude = { path = "place", number = 1 }
time = { join = ["day", "clock"], with = " ", format = "%d.%m.%Y %H:%M", zone = "Europe/Berlin", twice_shown = "later" }
fields = { seen = { query = "seen", type = "time", unit = "ms" }, kind = { constant = "car" } }
delimiter = ";"
skip_lines = 3
comment = "\#"
decimal_comma = true
encoding = "windows-1252""#,
    )
    .replace("\\#", "#");
    let config = Config::from_toml(&text, Path::new("edge.toml")).unwrap();
    let FeedInput::Records(mapping) = &config.feeds[0].source.input else { panic!("records") };
    let names: Vec<_> = mapping.fields().map(|(name, _)| name).collect();
    assert_eq!(names, ["kind", "seen"].iter().rev().copied().collect::<Vec<_>>());
    assert_eq!(mapping.upload_fields().count(), 3);
}

#[test]
fn a_path_that_can_match_nothing_is_refused_with_its_line() {
    let path =
        |format: &str, path: &str| feed(format, &format!("record = ''\nmember = \"{path}\""));
    for (format, wrong) in [
        ("ndjson", "@id"),
        ("ndjson", "a/b"),
        ("ndjson", "../id"),
        ("json", "a..b"),
        ("csv", "points.0"),
        ("csv", "points[0]"),
        ("csv", "../@id"),
        ("tsv", "#0"),
        ("gpx", "@a/b"),
        ("gpx", "#1"),
    ] {
        let text = path(format, wrong).replace("record = ''\n", "");
        let error = Config::from_toml(&text, Path::new("edge.toml")).expect_err(wrong).to_string();
        assert!(
            error.starts_with("edge.toml:5:10: 'member' in [[feed]]: ")
                && error.contains("; allowed: "),
            "{format}: {error}"
        );
    }
}

#[test]
fn a_value_with_a_mistake_is_refused_with_its_line() {
    for (lines, expected) in [
        (
            "member = {}",
            "5:10: a value of [[feed]] has nothing that says where it comes from; allowed: one of path, constant, file, header, query, join",
        ),
        (
            "member = { path = 'a', query = 'b' }",
            "5:10: a value of [[feed]] has path and query; allowed: one of path, constant, file, header, query, join",
        ),
        (
            "member = { path = 'a', with = ':' }",
            "5:31: 'with' in a value of [[feed]] is there without a join; allowed: it next to join",
        ),
        (
            "member = { file = 'suffix' }",
            "5:19: 'file' in a value of [[feed]] is 'suffix'; allowed: name, or stem for the name without its ending",
        ),
        (
            "member = 'a'\ntime = { path = 't', unit = 'min' }",
            "6:29: 'unit' in a value of [[feed]] is 'min'; allowed: s, ms, us, ns",
        ),
        (
            "member = 'a'\ntime = { path = 't', format = '%d.%m.%Y' }",
            "6:8: 'time' in [[feed]]: the format \"%d.%m.%Y\", which has no offset; allowed: a zone next to it, or %z or %s in it",
        ),
        (
            "member = 'a'\ntime = { path = 't', zone = 'Mars' }",
            "6:8: 'time' in [[feed]]: the zone \"Mars\"; allowed: a name of the IANA database such as Europe/Berlin, UTC, or an offset such as +02:00",
        ),
        (
            "member = 'a'\nencoding = 'utf-7'",
            "6:12: 'encoding' in [[feed]]: \"utf-7\"; allowed: a name that the web knows, such as utf-16, iso-8859-1 or windows-1252",
        ),
        (
            "member = 'a'\ndelimiter = ';'",
            "6:13: 'delimiter' in [[feed]]: in a feed of ndjson; allowed: it in a feed of csv or tsv",
        ),
        (
            "member = 'a'\nnamespaces = { k = 'urn:k' }",
            "6:14: 'namespaces' in [[feed]]: in a feed of ndjson; allowed: them in a feed of xml or gpx",
        ),
        (
            "member = 'a'\nfields = { n = { path = 'n', zone = 'UTC' } }",
            "6:10: 'fields.n' in [[feed]]: format, zone, unit or twice_shown of no time; allowed: these with type = \"time\"",
        ),
    ] {
        refuses(&feed("ndjson", lines), expected);
    }
}
