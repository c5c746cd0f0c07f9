//! A sample of each published format against the entries that it means, its guess, and its cuts.

use super::*;

/// The entries of a text, each as `block value seconds`.
fn entries(reading: &SetReading, text: &[u8]) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let read = reading.read(text, |entry| {
        let value = entry.value.map(|value| format!(" {}", String::from_utf8_lossy(&value)));
        let seconds = entry.ttl_seconds.map(|seconds| format!(" {seconds}s"));
        let (value, seconds) = (value.unwrap_or_default(), seconds.unwrap_or_default());
        found.push(format!("{}{value}{seconds}", entry.block));
    });
    read.map(|()| found).map_err(|error| error.to_string())
}

fn guessed(text: &str) -> Result<Vec<String>, String> {
    entries(&SetReading::default(), text.as_bytes())
}

fn owned(texts: &[&str]) -> Result<Vec<String>, String> {
    Ok(texts.iter().map(ToString::to_string).collect())
}

fn of(name: &str) -> SetReading {
    SetReading::of(name.parse().unwrap())
}

/// A reading with these options.
fn with(options: &[(SetOption, &str)]) -> SetReading {
    let mut reading = SetReading::default();
    for (option, text) in options {
        reading.set_option(*option, text).unwrap();
    }
    reading
}

const AWS: &str = r#"{
  "syncToken": "1700000000", "createDate": "2023-11-14-22-13-20",
  "prefixes": [
    {"ip_prefix": "3.4.12.4/32", "region": "eu-west-1", "service": "AMAZON",
     "network_border_group": "eu-west-1"},
    {"ip_prefix": "3.4.12.4/32", "region": "eu-west-1", "service": "EC2"}
  ],
  "ipv6_prefixes": [{"service": "S3", "ipv6_prefix": "2600:1f14::/35"}]
}"#;
const AZURE: &str = r#"{"changeNumber": 301, "cloud": "Public", "values": [
  {"name": "ActionGroup", "id": "ActionGroup", "properties": {"changeNumber": 26, "region": "",
    "addressPrefixes": ["4.145.74.52/30", "2603:1000:4:402::178/125"], "networkFeatures": ["API"]}},
  {"name": "Empty", "id": "Empty", "properties": {"addressPrefixes": []}},
  {"name": "Sql", "id": "Sql", "properties": {"addressPrefixes": ["4.150.0.0/16"]}}]}"#;
const GITHUB: &str = r#"{"verifiable_password_authentication": false,
  "ssh_key_fingerprints": {"SHA256_ED25519": "+DiY3wvvV6TuJJhbpZisF"},
  "ssh_keys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMq"],
  "hooks": ["192.30.252.0/22", "2a0a:a440::/29"], "web": ["192.30.252.0/22"], "importer": [],
  "domains": {"website": ["*.github.com"]}}"#;
const DROP: &str = "{\"cidr\":\"1.10.16.0/20\",\"sblid\":\"SBL256894\",\"rir\":\"apnic\"}\n\
    {\"cidr\":\"1.19.0.0/16\",\"sblid\":\"SBL434604\",\"rir\":\"apnic\"}\n\
    {\"type\":\"metadata\",\"timestamp\":1700000000,\"size\":81,\"records\":2,\"copyright\":\"x\"}\n";
const ALERTS: &str = r#"[{"capacity": 0, "created_at": "2024-01-01T00:00:00Z", "decisions": [
    {"duration": "3h59m27.4s", "id": 1, "origin": "cscli", "scenario": "manual 'ban'",
     "scope": "Ip", "simulated": false, "type": "ban", "value": "192.0.2.7"},
    {"duration": "-5s", "scenario": "b", "scope": "Range", "type": "ban", "value": "10.0.0.0/8"}],
  "scenario": "crowdsecurity/ssh-bf", "simulated": false, "source": {"scope": "Ip",
    "value": "9.9.9.9"}}, {"decisions": null}]"#;
const RIR: &str = "2|apnic|20240101|5|19830613|20240101|+1000\napnic|*|asn|*|1|summary\n\
    apnic|*|ipv4|*|3|summary\napnic|*|ipv6|*|1|summary\n\
    apnic|JP|asn|173|1|20020801|allocated\napnic|AU|ipv4|1.0.0.0|256|20110811|assigned\n\
    apnic|CN|ipv4|1.0.1.0|768|20110414|allocated|A92E1062\napnic||ipv4|1.1.0.0|256||reserved|x\n\
    apnic|JP|ipv6|2001:200::|35|19990813|allocated\n";

/// The name of a format, a text, its entries, and whether every cut of it is noticed.
const SAMPLES: &[(&str, &str, &[&str], bool)] = &[
    ("aws", AWS, &["3.4.12.4/32 AMAZON", "3.4.12.4/32 EC2", "2600:1f14::/35 S3"], true),
    (
        "gcp",
        r#"{"syncToken": "17", "creationTime": "2023-11-14T22:13:20", "prefixes": [
  {"ipv4Prefix": "34.1.208.0/20", "service": "Google Cloud", "scope": "africa-south1"},
  {"service": "Google Cloud", "scope": "asia-east1", "ipv6Prefix": "2600:1900:4030::/44"}]}"#,
        &["34.1.208.0/20 africa-south1", "2600:1900:4030::/44 asia-east1"],
        true,
    ),
    (
        "gcp",
        r#"{"syncToken": "17", "creationTime": "x", "prefixes": [{"ipv4Prefix": "8.8.4.0\/24"}]}"#,
        &["8.8.4.0/24"],
        true,
    ),
    (
        "azure",
        AZURE,
        &["4.145.74.52/30 ActionGroup", "2603:1000:4:402::178/125 ActionGroup", "4.150.0.0/16 Sql"],
        true,
    ),
    (
        "cloudflare",
        r#"{"result": {"ipv4_cidrs": ["173.245.48.0/20"], "ipv6_cidrs": ["2400:cb00::/32"],
            "etag": "38f79d"}, "success": true, "errors": [], "messages": []}"#,
        &["173.245.48.0/20", "2400:cb00::/32"],
        true,
    ),
    (
        "github",
        GITHUB,
        &["192.30.252.0/22 hooks", "2a0a:a440::/29 hooks", "192.30.252.0/22 web"],
        true,
    ),
    (
        "fastly",
        r#"{"addresses": ["23.235.32.0/20", "43.249.72.0/22"], "ipv6_addresses": ["2a04:4e40::/32"]}"#,
        &["23.235.32.0/20", "43.249.72.0/22", "2a04:4e40::/32"],
        true,
    ),
    (
        "oracle",
        r#"{"last_updated_timestamp": "2024-01-01T00:00:00.1", "regions": [
  {"region": "us-phoenix-1", "cidrs": [{"cidr": "129.146.0.0/21", "tags": ["OCI"]},
    {"cidr": "134.70.8.0/21", "tags": ["OSN", "OBJECT_STORAGE"]}]},
  {"cidrs": [{"cidr": "138.2.0.0/18", "tags": []}], "region": "us-ashburn-1"}]}"#,
        &["129.146.0.0/21 us-phoenix-1", "134.70.8.0/21 us-phoenix-1", "138.2.0.0/18 us-ashburn-1"],
        true,
    ),
    ("spamhaus-drop", DROP, &["1.10.16.0/20 SBL256894", "1.19.0.0/16 SBL434604"], true),
    ("crowdsec", ALERTS, &["192.0.2.7/32 manual 'ban' 14368s", "10.0.0.0/8 b 0s"], true),
    (
        "crowdsec",
        r#"[{"duration": "1h", "id": 1, "origin": "CAPI", "scenario": "s", "scope": "Ip",
            "type": "ban", "value": "2001:db8::1"}]"#,
        &["2001:db8::1/128 s 3600s"],
        true,
    ),
    (
        "crowdsec",
        r#"{"deleted": [{"duration": "-1h", "scope": "Ip", "value": "10.0.0.1"}], "new": [
            {"duration": "90m", "scenario": "s", "scope": "Range", "value": "198.51.100.0/24"}]}"#,
        &["198.51.100.0/24 s 5400s"],
        true,
    ),
    (
        "dshield",
        "#   DShield.org Recommended Block List\n#\nStart\tEnd\tNetmask\tAttacks\tName\tCountry\temail\n\
         45.143.200.0\t45.143.200.255\t24\t4034\tVENUS\tNL\tabuse@example.com\n\
         92.63.197.0\t92.63.197.255\t24\t3021\t\t\t\n",
        &["45.143.200.0/24 VENUS", "92.63.197.0/24"],
        false,
    ),
    (
        "p2p",
        "# list\nSome: organisation, Ltd.:1.2.3.4-5.6.7.8\nOther:001.002.003.000-001.002.003.255\n",
        &["1.2.3.4-5.6.7.8 Some: organisation, Ltd.", "1.2.3.0/24 Other"],
        false,
    ),
    (
        "dat",
        "# eMule\n001.002.003.000 - 001.002.003.255 , 000 , Bad, people\n\
         010.000.000.008 - 010.000.000.009 , 127 , Ten\n8.8.8.8 - 8.8.8.8 , 200 , allowed\n",
        &["1.2.3.0/24 Bad, people", "10.0.0.8/31 Ten"],
        false,
    ),
    ("rir", RIR, &["1.0.0.0/24 AU", "1.0.1.0-1.0.3.255 CN", "2001:200::/35 JP"], true),
    (
        "bgpdump",
        "TABLE_DUMP2|1700000000|B|198.51.100.1|64496|1.0.0.0/24|64496 13335|IGP|198.51.100.1|0|0||NAG||\n\
         BGP4MP|1700000000|A|2001:db8::1|64496|2001:db8:5::/48|64496 {64500,64501}|IGP|::|0|0||NAG||\n",
        &["1.0.0.0/24 13335", "2001:db8:5::/48 {64500,64501}"],
        false,
    ),
    (
        "hosts",
        "127.0.0.1\tlocalhost\n127.0.1.1\tbox.example box\n# names\n::1     ip6-localhost ip6-loopback\n\
         fe80::1%lo0 localhost # link\n",
        &[
            "127.0.0.1/32 localhost",
            "127.0.1.1/32 box.example",
            "::1/128 ip6-localhost",
            "fe80::1/128 localhost",
        ],
        false,
    ),
    (
        "nginx",
        "# blocked\n  deny 192.0.2.0/24; deny 198.51.100.7; # two\ndeny 2001:db8::/32;\nallow all;\n",
        &["192.0.2.0/24", "198.51.100.7/32", "2001:db8::/32"],
        false,
    ),
    (
        "apache",
        "<RequireAll>\n  Require all granted\n  Require not ip 192.0.2.0/24 10.1\n\
         \x20 require not ip 2001:db8::/32\n</RequireAll>\n",
        &["192.0.2.0/24", "10.1.0.0/16", "2001:db8::/32"],
        false,
    ),
    (
        "apache",
        "Order allow,deny\nAllow from all\nDeny from 10.0.0.0/255.0.0.0 172.16.\n",
        &["10.0.0.0/8", "172.16.0.0/16"],
        false,
    ),
];

#[test]
fn published_formats_are_guessed_and_read_as_they_mean() {
    for (name, text, expected, _) in SAMPLES {
        let format = SetReading::default().format_of(text.as_bytes());
        assert_eq!(format, Ok(name.parse().unwrap()), "{text}");
        assert_eq!(guessed(text), owned(expected), "{name}");
        for ends in ["\r\n", "\r"] {
            let text = format!("\u{feff}{}", text.replace('\n', ends));
            assert_eq!(guessed(&text), owned(expected), "{name} with {ends:?}");
        }
    }
}

#[test]
fn samples_cut_at_every_byte_never_panic_and_say_so_where_the_end_is_known() {
    for (name, text, expected, is_noticed) in SAMPLES {
        for end in 0..text.trim_end().len() {
            let cut = &text.as_bytes()[..end];
            let _ = entries(&SetReading::default(), cut);
            let read = entries(&of(name), cut);
            assert!(!(*is_noticed && read.is_ok()), "{name} cut at {end}: {read:?}");
            let whole = expected.len().saturating_sub(1);
            let is_prefix = |found: &Vec<String>| {
                found.len() <= expected.len()
                    && found.iter().take(whole).zip(*expected).filter(|(a, b)| a != b).count() <= 1
            };
            assert!(read.as_ref().map_or(true, is_prefix), "{name} cut at {end}: {read:?}");
            for byte in [0, b'"', b'\\', b'{', b']', b',', b'/', b'-', b'|', b'\t', b'9', 0xff] {
                let mut changed = text.as_bytes().to_vec();
                changed[end] = byte;
                let _ = entries(&SetReading::default(), &changed);
                let _ = entries(&of(name), &changed);
            }
        }
    }
}

#[test]
fn lists_have_addresses_as_people_write_them() {
    let text = "\u{feff}// hand made\r\n! and so on\n10.0.0.0/255.0.0.0 // mask\r172.16.0.0/0.15.255.255\n\
                1.2.3.4-9 ! short\n[2001:db8::1]\n[2001:db8::]/32 # why\n0.0.0.0/0.0.0.0;all\n\
                192.0.2.9/255.255.255.255\n2001:db8::/ffff:ffff::\n::ffff:1.2.3.4\n[::1]-[::9]\n";
    let expected = [
        "10.0.0.0/8",
        "172.16.0.0/12",
        "1.2.3.4-1.2.3.9",
        "2001:db8::1/128",
        "2001:db8::/32",
        "0.0.0.0/0",
        "192.0.2.9/32",
        "2001:db8::/32",
        "1.2.3.4/32",
        "::1-::9",
    ];
    assert_eq!(guessed(text).as_deref(), Ok(&expected.map(str::to_owned)[..]));
    for (text, message) in [
        ("10.0.0.0/255.0.255.0", "column 10: found \"255.0.255.0\": allowed is a mask whose ones"),
        ("10.0.0.0/0.255.0.255", "allowed is a mask whose ones all come first"),
        ("1.2.3.4/0.0.0.0", "found \"0.0.0.0\": allowed is a length: this is one address"),
        ("0.0.0.0/255.255.255.255", "allowed is a length: this is one address"),
        ("10.0.0.0/ffff::", "allowed is a length of 0 to 32 bits"),
        ("1.2.3.9-4", "a range that goes upwards"),
        ("1.2.3.4-256", "an IPv4 or IPv6 address"),
        ("1.2.3.4-009", "an IPv4 or IPv6 address"),
        ("001.002.003.004", "an IPv4 or IPv6 address"),
        ("10.0.0.1\n[1.2.3.4]", "an IPv4 or IPv6 address"),
        (
            "10.0.0.1\n!10.0.0.2",
            "line 2, column 2: found \"10.0.0.2\": allowed is a comment behind",
        ),
        ("10.0.0.0/8 ! 10.0.0.0/24 not", "allowed is a comment behind the !"),
        ("10.0.0.1\r\n\rten", "line 3, column 1: found \"ten\""),
    ] {
        let error = guessed(text).unwrap_err();
        assert!(error.contains(message), "{text}: {error}");
    }
    let utf16 = entries(&SetReading::default(), b"\xff\xfe1\x000\x00").unwrap_err();
    assert!(utf16.contains("allowed is UTF-8"), "{utf16}");
}

#[test]
fn tables_have_any_usual_header_or_none_and_ranges_in_two_columns() {
    for (text, expected) in [
        ("IP Prefix;country\n10.0.0.0/8;DE\n", &["10.0.0.0/8 DE"][..]),
        ("id\tcidr\tname\n1\t10.0.0.0/8\ta b\n", &["10.0.0.0/8 a b"]),
        (
            "start_ip,end_ip,country\n1.0.0.0,1.0.0.255,AU\n::1,::9,\n",
            &["1.0.0.0/24 AU", "::1-::9"],
        ),
        (
            "\"ip_from\",\"ip_to\",\"cc\"\n\"16777216\",\"16777471\",\"AU\"\n\
             \"281470681743360\",\"281470698520575\",\"-\"\n",
            &["1.0.0.0/24 AU", "0.0.0.0/8 -"],
        ),
        ("0,340282366920938463463374607431768211455\n", &[]),
        (
            "1.0.0.0,1.0.0.255,AU\r\n1.0.1.0,1.0.3.255,CN\r\n",
            &["1.0.0.0/24 AU", "1.0.1.0-1.0.3.255 CN"],
        ),
        ("10.0.0.0/8|a\n192.0.2.5-192.0.2.9|b", &["10.0.0.0/8 a", "192.0.2.5-192.0.2.9 b"]),
        ("\"10.0.0.0/8\"\n\"::1\"\n", &["10.0.0.0/8", "::1/128"]),
        ("# made\nnetwork,org\n10.0.0.0/8,\"a \"\"b\"\", c\"\n", &["10.0.0.0/8 a \"b\", c"]),
        ("network,org\n10.0.0.0/8,\"two\nlines\"\n::/8,x\n", &["10.0.0.0/8 two\nlines", "::/8 x"]),
        (
            "ip,prefix_length,as\n10.0.0.0,8,64496\n10.1.0.0/16,,7\n",
            &["10.0.0.0/8 64496", "10.1.0.0/16 7"],
        ),
        ("address,netmask\n10.0.0.0,255.255.0.0\n", &["10.0.0.0/16"]),
    ] {
        if expected.is_empty() {
            assert!(guessed(text).is_err(), "{text}");
        } else {
            let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
            assert_eq!(guessed(text), Ok(expected), "{text}");
        }
    }
}

#[test]
fn columns_are_named_or_numbered() {
    let text = b"port;src_ip;dst_ip;note\n80;10.0.0.1;192.0.2.1;x\n443;10.0.0.2;192.0.2.2;\n";
    for (options, expected) in [
        (&[(SetOption::Column, "dst_ip")][..], ["192.0.2.1/32 x", "192.0.2.2/32"]),
        (&[(SetOption::Column, "DST IP")], ["192.0.2.1/32 x", "192.0.2.2/32"]),
        (
            &[(SetOption::Column, "2"), (SetOption::ValueColumn, "port")],
            ["10.0.0.1/32 80", "10.0.0.2/32 443"],
        ),
        (
            &[(SetOption::Column, "2,3"), (SetOption::Delimiter, "semicolon")],
            ["10.0.0.1-192.0.2.1 x", "10.0.0.2-192.0.2.2"],
        ),
    ] {
        assert_eq!(entries(&with(options), text).as_deref(), Ok(&expected.map(str::to_owned)[..]));
    }
    let text = b"16777216,16777471,AU\n0,4294967296,-\n";
    let found = entries(&with(&[(SetOption::Column, "1,2")]), text);
    assert_eq!(found.unwrap(), ["1.0.0.0/24 AU", "::-::1:0:0 -"]);
}

#[test]
fn tables_refuse_what_they_cannot_read_rightly() {
    let column = |text| with(&[(SetOption::Column, text)]);
    let auto = SetReading::default;
    for (reading, text, message) in [
        (
            auto(),
            "src_ip,dst_ip\n10.0.0.1,10.0.0.2\n",
            "allowed is a named column: src_ip or dst_ip",
        ),
        (column("ip"), "network,a\n10.0.0.0/8,1\n", "a header with the column ip"),
        (column("3"), "10.0.0.0/8,1\n", "a row with 3 fields"),
        (column("ip"), "10.0.0.1,a\n", "column 1: found \"10.0.0.1,a\""),
        (column("1"), "10.0.0.300,x\n10.0.0.1,y\n", "found \"10.0.0.300\""),
        (
            auto(),
            "network,a\n10.0.0.0/8\n",
            "line 2, column 1: found \"10.0.0.0/8\": allowed is 2 fields",
        ),
        (auto(), "network,a\n10.0.0.0/8,b,c\n", "allowed is 2 fields"),
        (
            auto(),
            "network,a\n10.0.0.0/8,\"b\n",
            "found \"\\\"b\\n\": allowed is a field whose quotes",
        ),
        (auto(), "network,a\n10.0.0.0/8,\"b\"c\n", "found \"c\": allowed is a delimiter"),
        (auto(), "network,a\n,b\n", "allowed is a row with a block"),
        (
            auto(),
            "start,end\n1.0.0.9,1.0.0.1\n",
            "line 2, column 9: found \"1.0.0.1\": allowed is an end",
        ),
        (auto(), "start,end\n1.0.0.9,::1\n", "allowed is an end in the family"),
        (auto(), "start,end\n1.0.0.9,16777999\n", "both addresses or both integers"),
        (auto(), "start,end\n9,5\n", "allowed is an end"),
        (auto(), "start,end\n0,340282366920938463463374607431768211456\n", "at most 128 bits"),
        (
            auto(),
            "ip,prefix_length\n10.0.0.0,33\n",
            "column 10: found \"33\": allowed is the length",
        ),
        (
            with(&[(SetOption::Format, "csv")]),
            "a,b\n",
            "allowed is a header with the column network",
        ),
        (with(&[(SetOption::Column, "1"), (SetOption::Path, "a[]")]), "[]", "allowed is one"),
        (with(&[(SetOption::Column, "1"), (SetOption::Format, "rir")]), "x", "for tables"),
        (with(&[(SetOption::Path, "a"), (SetOption::Format, "plain")]), "x", "for JSON"),
        (with(&[(SetOption::Path, "a"), (SetOption::Format, "aws")]), "x", "its own paths"),
        (with(&[(SetOption::Path, "a")]), "10.0.0.1", "allowed is JSON"),
    ] {
        let error = entries(&reading, text.as_bytes()).unwrap_err();
        assert!(error.contains(message), "{text}: {error}");
    }
}

#[test]
fn json_is_read_at_paths_and_a_slip_in_a_path_is_a_mistake() {
    let text = r#"{"a": {"nets": [{"cidr": "10.0.0.0/8", "tag": {"n": 1}}, {"cidr": null, "cidr": "::/8"}]},
        "name": "all", "more": [["10.1.0.0/16"], []]}"#;
    let read = |path: &str, value: &str| {
        let mut reading = with(&[(SetOption::Path, path)]);
        if !value.is_empty() {
            reading.set_option(SetOption::ValuePath, value).unwrap();
        }
        entries(&reading, text.as_bytes())
    };
    assert_eq!(read("a.nets[].cidr", ""), owned(&["10.0.0.0/8", "::/8"]));
    assert_eq!(read("$.a.nets[].cidr", "a.nets[].tag.n"), owned(&["10.0.0.0/8 1", "::/8"]));
    assert_eq!(
        read("a.nets[].cidr, more[][]", "name"),
        owned(&["10.0.0.0/8 all", "::/8 all", "10.1.0.0/16 all"])
    );
    assert_eq!(read("more[][],b[]?", ""), owned(&["10.1.0.0/16"]));
    for (path, value, message) in [
        ("a.nets[].cdir", "", "column 17: found \"{\\\"cidr\\\""),
        ("a.nets[].cidr,b[].c", "", "a value at b[].c, or the path b[].c? if"),
        ("b[].c", "", "allowed is a value at b[].c"),
        ("a.nets[]", "", "allowed is a text in quotes"),
        ("a.nets", "", "allowed is a text in quotes"),
        ("a.nets[].cidr", "b[].c", "a value path within an element of a.nets[].cidr"),
    ] {
        let error = read(path, value).unwrap_err();
        assert!(error.contains(message), "{path}: {error}");
    }
    let rows = "{\"ip\":\"10.0.0.1\",\"c\":\"DE\"}\n\n{\"ip\":\"10.0.0.2\"}\n";
    let reading = with(&[(SetOption::Path, "ip"), (SetOption::ValuePath, "c")]);
    assert_eq!(entries(&reading, rows.as_bytes()), owned(&["10.0.0.1/32 DE", "10.0.0.2/32"]));
    let error = entries(&reading, b"{\"ip\":\"10.0.0.1\"}\n{\"op\":1}\n").unwrap_err();
    assert!(
        error.contains("line 2, column 1: found \"{\\\"op\\\":1}\": allowed is a value at ip"),
        "{error}"
    );
    let ndjson = of("ndjson");
    assert_eq!(
        entries(&ndjson, b"\"10.0.0.1\"\n{\"prefix\": \"::/8\", \"value\": 7}\r\n"),
        owned(&["10.0.0.1/32", "::/8 7"])
    );
    for wrong in ["", "a[0]", "a..b", "a[", "a b?c", ".", "[]a", "a,,b"] {
        assert!(wrong.parse::<JsonPaths>().is_err(), "{wrong}");
    }
}

#[test]
fn one_list_of_many_is_read_by_its_name() {
    let named = |set: &str, text: &str| entries(&with(&[(SetOption::Set, set)]), text.as_bytes());
    assert_eq!(named("EC2", AWS), owned(&["3.4.12.4/32 EC2"]));
    assert_eq!(named("Sql", AZURE), owned(&["4.150.0.0/16 Sql"]));
    assert_eq!(named("web", GITHUB), owned(&["192.30.252.0/22 web"]));
    assert_eq!(named("CN", RIR), owned(&["1.0.1.0-1.0.3.255 CN"]));
    assert_eq!(named("reserved", RIR), owned(&["1.1.0.0/24"]));
    let access = "allow 10.0.0.0/8;\ndeny 192.0.2.1;\n";
    assert_eq!(named("deny", access), owned(&["192.0.2.1/32"]));
    let error = guessed(access).unwrap_err();
    assert!(error.contains("the name of one of several: allow, deny"), "{error}");
    let error = named("S4", AWS).unwrap_err();
    assert!(error.contains("a set called S4; the text has AMAZON, EC2, S3"), "{error}");
}

#[test]
fn texts_of_programs_refuse_what_would_make_another_set() {
    for (name, text, message) in [
        (
            "crowdsec",
            r#"[{"duration": "1h", "scope": "Country", "value": "DE"}]"#,
            "the scope Ip or",
        ),
        (
            "crowdsec",
            r#"[{"duration": "1h", "scope": "Ip", "simulated": true, "value": "::1"}]"#,
            "found \"true\": allowed is false",
        ),
        (
            "crowdsec",
            r#"[{"duration": "1x", "scope": "Ip", "value": "::1"}]"#,
            "a duration such as",
        ),
        ("crowdsec", r#"[{"scope": "Ip", "value": "::1"}]"#, "a block with a duration"),
        ("spamhaus-drop", &DROP.replace(":2,", ":3,"), "line 3, column 1"),
        ("spamhaus-drop", "{\"cidr\":\"::/8\",\"sblid\":\"x\"}\n", "without it the text is cut"),
        ("cloudflare", r#"{"result": null, "success": false, "errors": [1]}"#, "a value at result"),
        ("rir", &RIR.replace("|256|", "|0|"), "a count of IPv4 addresses"),
        ("rir", &RIR.replace("1.0.1.0|768", "255.255.255.0|768"), "a count of IPv4 addresses"),
        ("rir", &RIR.replace("|35|", "|129|"), "the length of an IPv6 prefix"),
        ("rir", &RIR.replace("assigned", "lost"), "found \"lost\": allowed is allocated"),
        ("rir", &RIR.replace("ipv4|*|3", "ipv4|*|4"), "as many records"),
        ("rir", "2|apnic|20240101|5|19830613|20240101|+1000\n", "at least one record"),
        ("bgpdump", "BGP4MP|1|W|::1|1|10.0.0.0/8\n", "allowed is TABLE_DUMP2"),
        ("dshield", "1.0.0.0\t1.0.0.255\t23\tx\n", "the length of one network"),
        ("p2p", "x:1.2.3.9-1.2.3.4\n", "NAME:FIRST-LAST"),
        ("p2p", "x:1.2.3.4-256.0.0.0\n", "NAME:FIRST-LAST"),
        ("dat", "1.2.3.4 - 1.2.3.9 , 256 , x\n", "a level of 0 to 255"),
        ("dat", "1.2.3.4 - 1.2.3.9\n", "FIRST - LAST"),
        ("hosts", "10.0.0.1\n", "an IPv4 or IPv6 address and a name"),
        ("hosts", "10.0.0.1 10.0.0.2\n", "an IPv4 or IPv6 address and a name"),
        ("nginx", "deny 10.0.0.1\n", "a directive that ends with ;"),
        ("nginx", "deny all;\n", "allowed is addresses"),
        ("nginx", "deny unix:;\n", "found \"unix:\""),
        ("nginx", "server { deny 10.0.0.1; }\n", "found \"server\""),
        ("apache", "Require host example.com\n", "allowed is Require [not] ip"),
        ("apache", "Deny from example.com\n", "found \"example.com\""),
        ("apache", "Deny from all\nDeny from 10.0.0.1\n", "allowed is addresses"),
    ] {
        let error = entries(&of(name), text.as_bytes()).unwrap_err();
        assert!(error.contains(message), "{name} {text}: {error}");
    }
    let none = "<RequireNone>\nRequire ip 10.0.0.1\n</RequireNone>\nRequire ip 192.0.2.0/24\n";
    let found = entries(&SetReading { set: Some("deny".into()), ..of("apache") }, none.as_bytes());
    assert_eq!(found.unwrap(), ["10.0.0.1/32"]);
}

#[test]
fn a_doubtful_guess_is_refused_with_the_formats_that_it_may_be() {
    for (text, message) in [
        ("1.2.3.4-1.2.3.9,100,Name\n", "may be csv or dat"),
        (r#"{"nets": ["10.0.0.0/8"]}"#, "allowed is a named format: json with a path"),
        ("{\"ip\": \"10.0.0.1\"}\n{\"ip\": \"10.0.0.2\"}\n", "ndjson with a path"),
        (r#"[{"ip": "10.0.0.1"}]"#, "json with a path"),
    ] {
        let error = guessed(text).unwrap_err();
        assert!(error.contains(message), "{text}: {error}");
    }
    // What no format knows is a mistake at its place.
    assert!(guessed("10.0.0.1\nten\n").unwrap_err().contains("line 2, column 1: found \"ten\""));
}

#[test]
fn the_paths_of_all_providers_are_paths() {
    for provider in Provider::ALL {
        let layout = provider.layout(None);
        assert_ne!(layout.blocks_text(), "", "{provider:?}");
        let name = SetFormat::Provider(provider).name();
        assert_eq!(name.parse(), Ok(SetFormat::Provider(provider)));
    }
}

#[test]
fn durations_are_rounded_up() {
    for (text, seconds) in [
        ("3h59m27.4s", Some(14_368)),
        ("1ms", Some(1)),
        ("0", Some(0)),
        ("0s", Some(0)),
        ("1.5h", Some(5_400)),
        ("-3s", Some(0)),
        ("2µs", Some(1)),
        ("", None),
        ("-", None),
        ("5", None),
        ("5x", None),
        ("..s", None),
        ("999999999999999999h", None),
    ] {
        assert_eq!(super::json::duration_seconds(text.as_bytes()), seconds, "{text}");
    }
}
