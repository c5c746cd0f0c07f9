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
        "w 1 DYNA weighted!w\ne 1 DYNA weighted!e\np 9 DYNA simplefo!p\nm 1 DYNA metafo!m\ns 1 DYNC static!s\n",
    );
    for part in [
        "policy = [\"healthy\", \"weighted\"]\nanswers = 1\nttl_seconds = 1\n[[pool.site]]\nname = \"a\"\n\
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
            ("e.deep.sub.example.test", 9, 4),
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
            "w DYNA reflect!both",
            "the plugin 'reflect' has no counterpart",
        ),
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
            plugin("weighted => { x => { g => { a => [192.0.2.1, 1] } } }"),
            "w DYNA weighted!x",
            "config:2:27: groups of weighted addresses have no counterpart",
        ),
        (
            plugin(
                "weighted => { x => { multi => true, a => [192.0.2.1, 1], b => [192.0.2.2, 2] } }",
            ),
            "w DYNA weighted!x",
            "config:2:20: 'multi' with weights that differ has no counterpart",
        ),
        (
            plugin("multifo => { x => { service_types => down, a => 192.0.2.1 } }"),
            "w DYNA multifo!x",
            "the service type 'down' is always down",
        ),
        (
            plugin("multifo => { x => { service_types => gone, a => 192.0.2.1 } }"),
            "w DYNA multifo!x",
            "no service type 'gone'",
        ),
        (
            "service_types => { f => { plugin => extfile, file => x } }".to_owned(),
            "",
            "config:1:37: the monitor 'extfile' has no counterpart",
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
            "options => { edns_client_subnet => false }".to_owned(),
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
        (map(", auto_dc_coords => { a => [1, 2] }"), "", "the datacenter 'b' has no coordinates"),
        (map(", nets => { 10.0.0.0/64 => [a] }"), "", "'10.0.0.0/64' is no network"),
        (map(""), "w DYNA geoip!r/c", "no such datacenter in geoip!r"),
        (plugin(""), "w A 1.2.3", "zones/example.test:4:"),
        (plugin(""), "$GENERATE 1-2 a A 192.0.2.$", "an unknown directive"),
    ]);
}

#[test]
fn all_mistakes_are_told_at_once() {
    let folder = Folder::new(
        "options => { surprise => 1 }\nplugins => { multifo => { x => [y], z => [] } }",
        "a DYNA multifo!x\nb DYNA multifo!z\nc DYNA multifo!gone\n",
    );
    assert_eq!(folder.convert().map(drop).expect_err("four mistakes").len(), 4);
}
