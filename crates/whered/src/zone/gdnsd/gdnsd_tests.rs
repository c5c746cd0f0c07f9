//! What configurations of gdnsd become, and which are refused with their place.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

const ZONE: &str = "@ SOA ns1 hm 1 7200 30M 3D 900\n@ NS ns1\nns1 A 192.0.2.250\n";

/// A folder of gdnsd's with a configuration and one zone; removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(config: &str, zone: &str) -> Folder {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("whered-gdnsd-{}-{number}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        fs::create_dir_all(folder.0.join("zones")).expect("a folder");
        folder.write("config", config);
        folder.write("zones/example.test", &format!("{ZONE}{zone}"));
        folder
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    fn convert(&self) -> Result<Conversion, Vec<String>> {
        let shown = |fault: &Fault| {
            let text = fault.to_string();
            text.trim_start_matches(&format!("{}/", self.0.display())).to_owned()
        };
        convert(&self.0.join("config")).map_err(|faults| faults.iter().map(shown).collect())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn toml(config: &str, zone: &str) -> String {
    Folder::new(config, zone).convert().map(|made| made.toml).unwrap_or_else(|f| panic!("{f:?}"))
}

#[test]
fn addresses_that_nobody_watches_are_one_site_and_watched_ones_a_site_each() {
    let plain = toml(
        "plugins => { multifo => { web => [192.0.2.1, 192.0.2.2] } }",
        "www 300 DYNA multifo!web\n",
    );
    assert!(plain.ends_with(
        "[[pool]]\nname = \"multifo-web\"\nowners = [\"www.example.test\"]\npolicy = [\"healthy\"]\n\
         answers = 1\nttl_seconds = 300\n[[pool.site]]\nname = \"web\"\n\
         addresses = [\"192.0.2.1\", \"192.0.2.2\"]\n"
    ), "{plain}");
    let watched = toml(
        "service_types => { t => { plugin => tcp_connect, port => 80, interval => 4, timeout => 1,\n\
         down_thresh => 5, up_thresh => 7 } }\n\
         plugins => { multifo => { service_types => t, web => { up_thresh => 0.4, a => 192.0.2.1,\n\
         b => 2001:db8::2 } } }",
        "www 300/10 DYNA multifo!web\nother 300/10 DYNA multifo!web\nlong 900/500 DYNA multifo!web\n",
    );
    for part in [
        "owners = [\"www.example.test\", \"other.example.test\"]\npolicy = [\"failover:0.4\", \"healthy\"]\n\
         answers = 2\nttl_seconds = 20\n",
        "name = \"multifo-web-2\"\nowners = [\"long.example.test\"]\n",
        "ttl_seconds = 500\n",
        "name = \"web-a-v4\"\ngroup = \"web\"\naddresses = [\"192.0.2.1\"]\ncheck = { url = \
         \"tcp://192.0.2.1:80\", interval_seconds = 4, timeout_seconds = 1, up_after = 7, \
         down_after = 5 }\n",
        "check = { url = \"tcp://[2001:db8::2]:80\"",
        "# note: ",
    ] {
        assert!(watched.contains(part), "{part} is not in\n{watched}");
    }
}

#[test]
fn maps_become_lists_by_place_and_auto_ones_the_nearest() {
    let text = toml(
        "plugins => { geoip => { maps => {
           prod => { geoip2_db => x.mmdb, datacenters => [us, eu], nets => { ::c000:200/120 => eu },
             map => { EU => { default => [eu, us], GB => us }, NA => { US => { WA => [eu] } } } }
           auto => { geoip2_db => x.mmdb, datacenters => [us, eu],
             auto_dc_coords => { us => [38.9, -77], eu => [50.1, 8.7] } } }
         resources => {
           www => { map => prod, dcmap => { us => 192.0.2.1, eu => eu.cdn.test. } }
           near => { map => auto, dcmap => { us => 192.0.2.1, eu => [192.0.2.2, 2001:db8::2] } } } } }",
        "www 60 DYNC geoip!www\nnear 60 DYNA geoip!near\neu 60 DYNA geoip!near/eu\n",
    );
    for part in [
        "[[map]]\nname = \"prod\"\ndatabase = \"place\"\ndefault = [\"us\", \"eu\"]\n[map.continents]\n\
         \"EU\" = [\"eu\", \"us\"]\n[map.countries]\n\"GB\" = [\"us\"]\n[map.subdivisions]\n\
         \"US-WA\" = [\"eu\"]\n[map.networks]\n\"192.0.2.0/24\" = [\"eu\"]\n",
        "policy = [\"map:prod\", \"failover:0.5\", \"healthy\"]",
        "name = \"eu\"\ncname = \"eu.cdn.test\"\n",
        "policy = [\"healthy\", \"nearest\"]",
        "name = \"eu\"\nat = { longitude = 8.7, latitude = 50.1 }\n\
         addresses = [\"192.0.2.2\", \"2001:db8::2\"]\n",
        "name = \"geoip-near/eu\"\nowners = [\"eu.example.test\"]\npolicy = [\"failover:0.5\", \"healthy\"]",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert_eq!(text.matches("[[map]]").count(), 1, "the nearest needs no list");
}

#[test]
fn weights_pairs_failover_and_references_have_their_policies() {
    let text = toml(
        "service_types => {
           c => { plugin => extmon, cmd => [\"/bin/check\", \"-h\", \"%%ITEM%%\"], direct => true } }
         plugins => {
           weighted => { w => { a => [192.0.2.1, 10], b => [192.0.2.2, 30] },
                         e => { multi => true, a => [192.0.2.3, 5], b => [192.0.2.4, 5] } }
           simplefo => { p => { service_types => c, primary => 192.0.2.5, secondary => 192.0.2.6 } }
           multifo => { all => [192.0.2.7, 192.0.2.8] }
           metafo => { resources => { m => { datacenters => [x, y],
                                            dcmap => { x => 192.0.2.9, y => !all } } } }
           static => { s => host.other.test. } }",
        "w 10 DYNA weighted!w\ne 10 DYNA weighted!e\np 9 DYNA simplefo!p\nm 10 DYNA metafo!m\ns 10 DYNC static!s\n",
    );
    for part in [
        "policy = [\"healthy\", \"weighted\"]\nanswers = 1\nttl_seconds = 10\n[[pool.site]]\nname = \"a\"\n\
         addresses = [\"192.0.2.1\"]\nweight = 10\n",
        "name = \"e\"\naddresses = [\"192.0.2.3\", \"192.0.2.4\"]\n",
        "name = \"primary\"\naddresses = [\"192.0.2.5\"]\ncheck = { url = \"exec:/bin/check\", args = \
         [\"-h\", \"192.0.2.5\"], interval_seconds = 10, timeout_seconds = 5, up_after = 1, \
         down_after = 1 }\n",
        "name = \"y-all\"\ngroup = \"y\"\naddresses = [\"192.0.2.7\", \"192.0.2.8\"]\n",
        "cname = \"host.other.test\"\n",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn zones_keep_their_lines_and_lose_what_is_dynamic() {
    let folder = Folder::new(
        "options => { zones_default_ttl => 77 }\nplugins => $include{plugins.cfg}",
        "a 60 A 192.0.2.1\n  60 DYNA static!s ; why\nb.@Z A 192.0.2.2\n$INCLUDE inc sub\n$ORIGIN x\n\
         c IN 5m DYNA static!s\nt TXT \"a DYNA b\" ( \"c\"\n ; DYNA\n \"d\" )\nd CNAME b.@F\n",
    );
    folder.write("plugins.cfg", "static => { s => 192.0.2.9 }");
    folder.write("zones/.hidden", "rubbish");
    folder.write("inc-elsewhere", "");
    folder.write("zones/inc", "");
    fs::remove_file(folder.0.join("zones/inc")).expect("it is there");
    let missing = folder.convert().map(drop).expect_err("the file is missing");
    assert!(missing[0].starts_with("zones/example.test:7:1: "), "{missing:?}");
    folder.write("inc", "$ORIGIN deep\n$TTL 9\n@ A 192.0.2.3\ne DYNA static!s\nf.@F A 192.0.2.4\n");
    let zone = fs::read_to_string(folder.0.join("zones/example.test")).expect("a file");
    folder.write("zones/example.test", &zone.replace("$INCLUDE inc", "$INCLUDE ../inc"));
    let made = folder.convert().unwrap_or_else(|faults| panic!("{faults:?}"));
    let text = &made.zones[0].text;
    for line in [
        "$TTL 77",
        ";   60 DYNA static!s ; why",
        "b.example.test. A 192.0.2.2",
        "$ORIGIN sub.example.test.",
        "$ORIGIN deep.sub.example.test.",
        "f.sub.example.test. A 192.0.2.4",
        "$ORIGIN x.example.test.",
        "t TXT \"a DYNA b\" ( \"c\"",
        "d CNAME b.example.test.",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    let owners: Vec<_> = made.zones[0]
        .owners
        .iter()
        .map(|owner| (&*owner.name, owner.ttl_max_seconds, owner.ttl_min_seconds))
        .collect();
    assert_eq!(
        owners,
        [
            ("a.example.test", 60, 30),
            ("e.deep.sub.example.test", 9, 5),
            ("c.x.example.test", 300, 150)
        ]
    );
}

fn plugin(text: &str) -> String {
    format!("plugins => {{\n{text}\n}}")
}

/// Each configuration and zone is refused with this message, and all messages have places.
fn refuses(cases: &[(String, &str, &str)]) {
    for (config, zone, wrong) in cases {
        let folder = Folder::new(config, &format!("{zone}\n"));
        let faults = folder.convert().map(drop).expect_err(wrong);
        assert!(faults.iter().any(|fault| fault.contains(wrong)), "{wrong} is not in {faults:?}");
        let placed = |fault: &String| {
            let mut parts = fault.splitn(4, ':').skip(1);
            let mut number = || parts.next().and_then(|part| part.parse::<usize>().ok());
            number().and(number()).is_some()
        };
        assert!(faults.iter().all(placed), "{faults:?}");
    }
}

#[test]
fn resources_without_a_counterpart_are_refused_with_their_place() {
    refuses(&[
        (
            plugin("reflect => { }"),
            "w DYNA reflect!all",
            "zones/example.test:4:8: reflect has no 'all'; allowed: dns, edns, both, best",
        ),
        (plugin(""), "w DYNA own!x", "the plugin 'own' has no counterpart; allowed: geoip, "),
        (
            plugin("static => { }"),
            "w DYNA static!s",
            "zones/example.test:4:8: no such resource static!s",
        ),
        (plugin(""), "w DYNA multifo!x", "no plugin 'multifo' is configured"),
        (plugin(""), "w DYNA multifo", "zones/example.test:4:3: no plugin!resource"),
        (
            plugin("multifo => { x => [1.2.3] }"),
            "w DYNA multifo!x",
            "config:2:20: '1.2.3' is no address",
        ),
        (
            plugin("weighted => { x => { a => [192.0.2.1, 0] } }"),
            "w DYNA weighted!x",
            "config:2:39: the weight 0; allowed: 1 to 1048575",
        ),
        (
            plugin(
                "metafo => { resources => { x => { datacenters => [a], dcmap => { a => %metafo!x } } } }",
            ),
            "w DYNA metafo!x",
            "more than 16 resources refer to each other",
        ),
        (
            plugin("static => { s => a.test. }"),
            "w DYNA static!s",
            "zones/example.test:4:8: found DYNA with names as answers; allowed: DYNC",
        ),
        (
            plugin("multifo => { x => { service_types => gone, a => 192.0.2.1 } }"),
            "w DYNA multifo!x",
            "no service type 'gone'",
        ),
        (
            "service_types => { f => { plugin => carrier, file => x } }".to_owned(),
            "",
            "config:1:37: the monitor 'carrier' has no counterpart",
        ),
        (
            "service_types => { f => { plugin => null, interval => 0, port => 1 } }".to_owned(),
            "",
            "config:1:55: 'interval' is 0; allowed: 1 to 255",
        ),
    ]);
}

#[test]
fn options_and_maps_without_a_counterpart_are_refused_with_their_place() {
    let map = |text: &str| {
        plugin(&format!(
            "geoip => {{ maps => {{ m => {{ datacenters => [a, b] {text} }} }}\n\
             resources => {{ r => {{ map => m, dcmap => {{ a => 192.0.2.1, b => 192.0.2.2 }} }} }} }}"
        ))
    };
    refuses(&[
        (
            "options => { edns_client_subnet => false }\nplugins => { reflect => {} }".to_owned(),
            "",
            "config:1:36: 'edns_client_subnet' off",
        ),
        (
            "options => { surprise => 1 }".to_owned(),
            "",
            "config:1:26: the option 'surprise' is not known",
        ),
        ("surprise => 1".to_owned(), "", "config:1:13: unknown section 'surprise'"),
        (map(", ignore_ecs => true"), "", "'ignore_ecs' has no counterpart"),
        (
            map(", geoip2_db => x, map => { EU => { FR => { Paris => [a] } } }"),
            "",
            "'Paris' in FR is a city, which maps have no lists for",
        ),
        (map(", geoip2_db => x, map => { XX => [a] }"), "", "'XX' is no continent"),
        (map(", geoip2_db => x, map => { EU => [c] }"), "", "no such datacenter 'c'"),
        (
            map(
                ", geoip2_db => x, auto_dc_coords => { a => [1, 2], b => [3, 4] }, nets => { 10.0.0.0/8 => [b, a] }",
            ),
            "",
            "a list of several datacenters in a map with 'auto_dc_coords'",
        ),
        (map(", auto_dc_coords => { a => [1, 2] }"), "", "'auto_dc_coords' without 'geoip2_db'"),
        (map(", nets => { 10.0.0.0/64 => [a] }"), "", "'10.0.0.0/64' is no network"),
        (map(""), "w DYNA geoip!r/c", "no such datacenter 'c'; allowed: a, b"),
        (plugin(""), "w A 1.2.3", "zones/example.test:4:"),
        (plugin(""), "$GENERATE 1-2 a A 192.0.2.$", "an unknown directive"),
    ]);
}

#[test]
fn all_mistakes_of_all_files_are_told_at_once_in_their_order() {
    let folder = Folder::new(
        "options => { surprise => 1, min_ttl => x }\nplugins => { multifo => { x => [y, w], z => [] },\n\
         geoip => { maps => { m => { datacenters => [a], map => { XX => a, EU => { DE => b } }, nets => n } } } }\n\
         service_types => { s => { plugin => tcp_connect } }",
        "a DYNA multifo!x\nb DYNA multifo!z\nc DYNA multifo!gone\nd A 1.2.3\n  TXT \"of d\"\n\
         e MX mail\n",
    );
    folder.write("geoip/n", "10.0.0.0/8 => c\n10.0.0.0/33 => a\n");
    folder.write("zones/other.test", "@ NS (\n");
    let faults = folder.convert().map(drop).expect_err("many mistakes");
    let places: Vec<String> = faults
        .iter()
        .map(|fault| fault.splitn(4, ':').take(2).collect::<Vec<_>>().join(":"))
        .collect();
    let mut expected = vec!["config:1"; 2];
    expected.extend(["config:2"; 3]);
    expected.extend(["config:3"; 3]);
    expected.extend(["config:4", "geoip/n:1", "geoip/n:2"]);
    expected.extend([
        "zones/example.test:6",
        "zones/example.test:7",
        "zones/example.test:9",
        "zones/other.test:1",
    ]);
    assert_eq!(places, expected, "{faults:#?}");
}

#[test]
fn a_file_that_cannot_be_read_makes_no_mistakes_of_others() {
    let folder = Folder::new("plugins => {\n  multifo => $include{gone}\n}", "a DYNA multifo!x\n");
    let faults = folder.convert().map(drop).expect_err("one mistake");
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].starts_with("config:2:14: "), "{faults:?}");
}

#[test]
fn options_are_translated_or_remarked_on() {
    let folder = Folder::new(
        "options => { nsid => 65646765, max_edns_response => 9000, listen => [192.0.2.1, \"[::1]:54\"],\n\
         tcp_timeout => 9, zones_default_ttl => 3, max_ncache_ttl => 60, log_stats => 1 }",
        "a A 192.0.2.1\nb 9999999 A 192.0.2.2\n_acme-challenge.c 60 TXT x\n",
    );
    let made = folder.convert().unwrap_or_else(|faults| panic!("{faults:?}"));
    for part in [
        "\n[dns]\nserver_id = \"edge\"\nudp_size = 4096\n",
        "listen = [\"192.0.2.1:53\", \"[::1]:54\"]",
    ] {
        assert!(made.toml.contains(part), "{part} is not in\n{}", made.toml);
    }
    let notes: Vec<_> = made.notes.iter().map(ToString::to_string).collect();
    for key in ["max_edns_response", "listen", "tcp_timeout", "log_stats"] {
        assert!(notes.iter().any(|note| note.contains(key)), "{key} is not in {notes:#?}");
    }
    let text = &made.zones[0].text;
    for line in [
        "$TTL 5",
        "@ SOA ns1 hm 1 7200 30M 3D 5",
        "b 3600000 A 192.0.2.2",
        "_acme-challenge.c 0 TXT x",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}

#[test]
fn the_root_and_files_of_any_bytes_are_zones() {
    let folder = Folder::new("", "t TXT \"\u{e9}\" ; caf\u{e9}\n");
    folder.write(
        "zones/ROOT_ZONE",
        "@ SOA a. b. 1 2 3 4 5\n@ NS a.\nx.@Z 60 DYNA null\n@ 60 DYNA null\n",
    );
    let latin = [&b"@ SOA a. b. 1 2 3 4 5\n@ NS a. ; caf\xe9\nt TXT \"\xe9\"\n"[..]].concat();
    fs::write(folder.0.join("zones/0@25.2.0.192.in-addr.arpa"), latin).expect("writable");
    let made = folder.convert().unwrap_or_else(|faults| panic!("{faults:?}"));
    let names: Vec<_> =
        made.zones.iter().map(|zone| (&*zone.name, file_name(&zone.name))).collect();
    assert_eq!(
        names,
        [
            ("0/25.2.0.192.in-addr.arpa", "0@25.2.0.192.in-addr.arpa.zone".to_owned()),
            (".", "ROOT_ZONE.zone".to_owned()),
            ("example.test", "example.test.zone".to_owned()),
        ]
    );
    assert!(made.zones[0].text.contains("t TXT \"\\233\""), "{}", made.zones[0].text);
    let pool = "owners = [\".\", \"x\"]";
    let other = "owners = [\"x\", \".\"]";
    assert!(made.toml.contains(pool) || made.toml.contains(other), "{}", made.toml);
    folder.write("zones/EXAMPLE.test", ZONE);
    let faults = folder.convert().map(drop).expect_err("two files of a zone");
    assert!(faults[0].contains("has two files; allowed: one"), "{faults:?}");
}

#[test]
fn states_that_never_change_are_judged_when_converting() {
    let text = toml(
        "plugins => {
           multifo => { most => { a => 192.0.2.1, b => 192.0.2.2, c => { } } }
           metafo => { resources => { m => { datacenters => [x, y, z], dcmap => {
             x => { service_types => down, a => 192.0.2.3 }, y => 192.0.2.4, z => 192.0.2.5 } } } }
           weighted => { w => { service_types => down, a => [192.0.2.6, 1], b => [192.0.2.7, 2] } } }"
            .replace(", c => { }", "")
            .as_str(),
        "m 60 DYNA metafo!m\nw 60 DYNA weighted!w\n",
    );
    assert!(!text.contains("192.0.2.3"), "a datacenter that is down for ever has no site\n{text}");
    assert!(text.contains("name = \"y\"\naddresses = [\"192.0.2.4\"]\n"), "{text}");
    assert!(
        text.contains("addresses = [\"192.0.2.7\"]\nweight = 2\n"),
        "all down is all up\n{text}"
    );
}

#[test]
fn files_of_states_are_searched_for_the_very_address() {
    let service = "service_types => { f => { plugin => extfile, file => STATES, direct => true DOWN } }\n\
                   plugins => { multifo => { x => { service_types => f, a => 192.0.2.1, b => 192.0.2.12 } } }";
    for (down, present, states) in [
        ("", "192.0.2.1 => DOWN/30\n192.0.2.12 => UP\n", [false, true]),
        ("", "x => { 192.0.2.12 = \"DOWN\" }\n", [true, false]),
        ("", "1192.0.2.1 => DOWN\n19210.2.1 => DOWN\n", [true, true]),
        (", def_down => true", "192.0.2.1 => UP\n", [true, false]),
    ] {
        let folder = Folder::new("", "w 60 DYNA multifo!x\n");
        let file = folder.0.join("it's states");
        fs::write(&file, present).expect("writable");
        let quoted = format!("\"{}\"", file.display());
        folder.write("config", &service.replace("STATES", &quoted).replace(" DOWN", down));
        let made = folder.convert().unwrap_or_else(|faults| panic!("{faults:?}"));
        let found: Vec<bool> = made
            .toml
            .split("args = ")
            .skip(1)
            .map(|rest| {
                let mut words = serde_json::Deserializer::from_str(rest).into_iter::<Vec<String>>();
                let words = words.next().and_then(Result::ok).expect("an array of texts");
                std::process::Command::new("/bin/sh")
                    .args(words)
                    .status()
                    .expect("a shell")
                    .success()
            })
            .collect();
        assert_eq!(found, states, "{present} {}", made.toml);
    }
}

#[test]
fn weights_become_every_answer_with_its_probability() {
    let text = toml(
        "plugins => { weighted => {
           odds => { multi => true, a => [192.0.2.1, 30], b => [192.0.2.2, 20] }
           racks => { r => { a => [192.0.2.3, 1], b => [192.0.2.4, 1] }, s => { a => [192.0.2.5, 4] } } } }",
        "o 60 DYNA weighted!odds\nr 60 DYNA weighted!racks\n",
    );
    for part in [
        "name = \"odds-1\"\naddresses = [\"192.0.2.1\"]\nweight = 500000\n",
        "name = \"odds-2\"\naddresses = [\"192.0.2.1\", \"192.0.2.2\"]\nweight = 1000000\n",
        "name = \"racks-1\"\naddresses = [\"192.0.2.3\", \"192.0.2.4\"]\nweight = 500000\n",
        "name = \"racks-2\"\naddresses = [\"192.0.2.5\"]\nweight = 1000000\n",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn a_tree_cut_at_any_byte_is_read_or_refused() {
    let tree = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/gdnsd");
    let read = |name: &str| fs::read_to_string(tree.join(name)).expect("a file");
    for name in
        ["plugins.d/geoip", "plugins.d/plain", "plugins.d/metafo", "service.d/web.cfg", "maps.cfg"]
    {
        let text = read(name);
        for cut in (0..text.len()).filter(|cut| text.is_char_boundary(*cut)) {
            let read = vscf::read_text(&text[..cut]);
            assert!(read.is_ok() || read.is_err_and(|fault| fault.place.line > 0));
        }
    }
    let (config, zone) = (read("plugins.d/plain"), read("zones/example.test"));
    let folder = Folder::new("", "");
    for cut in (0..config.len()).step_by(7) {
        folder.write("config", &format!("plugins => {{ {} }}", &config[..cut]));
        let _ = folder.convert();
    }
    for cut in (0..zone.len()).step_by(3) {
        folder.write("zones/example.test", &zone[..cut]);
        let _ = folder.convert();
    }
}
