//! Writes the seeds of every target into `fuzz/corpus`: small inputs that reach deep at once.
//!
//! Not for: what the fuzzer has found itself; that lies in the same folders under its own names.
//! Run in this folder: `cargo run --example seeds`.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::{fs, io};

use whered_dns::message::Query;
use whered_dns::{Name, RecordType};
use whered_mmdb::{Value, Writer, WriterOptions};

fn main() -> io::Result<()> {
    dns_message()?;
    zone()?;
    journal()?;
    mmdb()?;
    dat()?;
    rows()?;
    resp()?;
    capture()?;
    feeds()?;
    commands()
}

fn save(target: &str, name: &str, parts: &[&[u8]]) -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(format!("seed-{name}")), parts.concat())
}

/// Behind four bytes for the context: queries of every kind of owner, with and without EDNS.
fn dns_message() -> io::Result<()> {
    let name = |text: &str| -> Name { text.parse().expect("a name") };
    let place = |address: &str| -> IpAddr { address.parse().expect("an address") };
    let context = [4, 24, 4, 0xd0];
    let owners = [
        ("www.example.com", RecordType::A),
        ("alias2.example.com", RecordType::AAAA),
        ("cross.example.com", RecordType::A),
        ("loop-a.example.com", RecordType::A),
        ("down.example.com", RecordType::A),
        ("x.wild.example.com", RecordType::MX),
        ("nothing.example.com", RecordType::A),
        ("sub.example.com", RecordType::DS),
        ("host.sub.example.com", RecordType::A),
        ("ds.example.com", RecordType::A),
        ("large.example.com", RecordType::TXT),
        ("example.com", RecordType::ANY),
        ("example.com", RecordType::AXFR),
        ("new.ent2.example.com", RecordType::AAAA),
        (".", RecordType::NS),
    ];
    for (index, (owner, record_type)) in owners.into_iter().enumerate() {
        let query = Query::new(&name(owner), record_type);
        save("dns_message", &format!("plain-{index:02}"), &[&context, &query.build()])?;
        let query = query.edns(1232).dnssec_ok().build();
        save("dns_message", &format!("edns-{index:02}"), &[&context, &query])?;
    }
    let pool = || Query::new(&name("pool.example.com"), RecordType::A).id(0x1234).flags(0x0100);
    let large = || Query::new(&name("x.y.wpool.example.com"), RecordType::AAAA);
    let queries = [
        ("ecs4", pool().client_subnet(place("198.51.100.255"), 21).build()),
        ("ecs6", large().client_subnet(place("2001:db8::1"), 56).build()),
        ("ecs-none", pool().client_subnet(place("0.0.0.0"), 0).build()),
        ("ecs-twice", pool().option(8, &[0, 1, 0, 0]).option(8, &[0, 1, 0, 0]).build()),
        ("nsid-cookie", pool().option(3, b"").option(10, b"12345678").build()),
        ("badvers", pool().edns_version(1).build()),
        ("chaos", pool().class(3).build()),
        ("response", pool().flags(0x8000).build()),
        ("notify", pool().flags(0x2000).build()),
    ];
    for (name, query) in queries {
        save("dns_message", name, &[&[6, 20, 4, 0xd0], &query])?;
        save("dns_message", &format!("{name}-small"), &[&[5, 255, 0, 0], &query])?;
    }
    Ok(())
}

fn zone() -> io::Result<()> {
    const HEAD: &str = "$TTL 300\n@ SOA ns1 host 1 2h 3 4 60\n@ NS ns1\n";
    let bodies = [
        (
            "hosts",
            "ns1 A 192.0.2.1\n AAAA 2001:db8::1\n*.wild A 192.0.2.3\n\\097b\\.c A 192.0.2.4\n",
        ),
        ("aliases", "a CNAME b\nb CNAME c.example.net.\nl CNAME l2\nl2 CNAME l\npool TXT x\n"),
        ("delegations", "sub NS ns.sub\nns.sub A 192.0.2.4\nsub DS 1 13 2 (00112233\n 44) ; x\n"),
        ("mail", "@ MX 10 mail\nmail MINFO a b\n_s._tcp SRV 1 2 3 mail\np PTR @\nm MB a\n"),
        (
            "texts",
            "t TXT \"x y\" z \"\\\"\\200\"\nh HINFO a b\nx X25 311\ns SPF \"v\"\nc CAA 0 issue \"ca\"\n",
        ),
        (
            "rare",
            "n NAPTR 1 2 \"u\" \"s\" \"!.*!x!\" .\nr RP a b\nf AFSDB 1 a\nk KX 1 a\nrt RT 1 a\n\
             u URI 1 2 \"x\"\nl LOC 1 N 2 E 3m\ne EUI48 00-11-22-33-44-55\n",
        ),
        (
            "keys",
            "d DNSKEY 256 3 13 AAAA\ns SSHFP 1 1 00112233\nt TLSA 1 1 1 00\no OPENPGPKEY AAAA\n\
             z ZONEMD 1 1 1 00112233445566778899aabb\nn NSEC a A TXT\nn3 NSEC3PARAM 1 0 1 -\n\
             g RRSIG A 13 2 3600 20300101000000 20200101000000 1 example.com. AAAA\n",
        ),
        ("generic", "g TYPE65280 \\# 4 0A000001\nh A \\# 4 0A000001\ni TYPE16 \\# 3 (02\n 6162)\n"),
        ("services", "s SVCB 1 . alpn=h2 port=53\nh HTTPS 0 b\nh2 HTTPS 1 . ipv4hint=192.0.2.1\n"),
        (
            "directives",
            "$ORIGIN in.example.com.\na A 192.0.2.5\n$INCLUDE other\n$INCLUDE self x\n\
             $TTL 1w2d3h4m5s\nb 5 IN A 192.0.2.6\nc IN 5 A 192.0.2.6\n",
        ),
    ];
    for (name, body) in bodies {
        save("zone", name, &[HEAD.as_bytes(), body.as_bytes()])?;
    }
    save("zone", "marked", &[b"\xef\xbb\xbf@ 5 IN SOA . . (1\n2 3 4 5)\n\tNS a\n@ NS A\n"])?;
    save("zone", "no-ns", &[b"@ 5 SOA a b 1 2 3 4 5\n"])?;
    let key =
        b"example.com. 60 IN DNSKEY 257 3 15 l02Woi0iS8Aa25FQkUd9RMzZHJpBoRQwAQEX1SxZJA4=\n\0\
        Private-key-format: v1.2\nAlgorithm: 15 (ED25519)\n\
        PrivateKey: ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=\n";
    save("zone_keys", "of-rfc-8080", &[key])?;
    let states = b"; a comment\nretired 13 7\nold 13 1\nnew 13 2\nstep publish\nserved 1 2\n";
    save("zone_keys", "states", &[states])
}

fn journal() -> io::Result<()> {
    let raw: [&[u8]; 3] = [b"", b"whered\0J\x01\0\0\0", b"SQLite format 3\0"];
    for (index, bytes) in raw.into_iter().enumerate() {
        save("journal", &format!("raw-{index}"), &[&[0], bytes])?;
    }
    let forged: [&[u8]; 5] = [
        &[4, 1, 0, 8, 0, 1, 7, 20, 0, 2, 8, 0, 4, 3, 2, 8, 0, 3, 9, 255],
        &[4, 1, 0, 8, 0, 1, 7, 20, 7, 0, 9, 9, 4, 3, 2, 8],
        &[0, 1, 7, 20, 0, 3, 7, 20],
        &[6, 1, 0, 9, 0, 1, 1, 1],
        &[128, 1, 1, 200, 4, 1, 0, 8],
    ];
    for (index, frames) in forged.into_iter().enumerate() {
        save("journal", &format!("forged-{index}"), &[&[1], frames])?;
    }
    let changed: [&[u8]; 7] = [
        &[],
        &[0, 0, 16, 255],
        &[5, 40, 16, 3, 0x15, 40, 16, 3],
        &[9, 0, 16, 100],
        &[0x2b, 0, 16, 200, 0x1a, 0, 17, 5],
        &[14, 0, 0, 0],
        &[15, 0, 0, 1, 12, 0, 17, 0],
    ];
    for (index, changes) in changed.into_iter().enumerate() {
        save("journal", &format!("changed-{index}"), &[&[2], changes])?;
    }
    let lives: [&[u8]; 4] = [
        &[0, 10, 1, 200, 3, 0, 0, 3, 7, 5, 0, 1, 4, 0, 7, 0],
        &[0, 255, 0, 255, 0, 255, 0, 255, 4, 0, 0, 255, 3, 0, 7, 77],
        &[5, 3, 0, 9, 4, 0, 7, 1, 0, 9, 4, 0, 7, 9],
        &[6, 0, 0, 9, 4, 0, 0, 9, 4, 0, 7, 9],
    ];
    for (index, steps) in lives.into_iter().enumerate() {
        save("journal", &format!("lived-{index}"), &[&[3], steps])?;
    }
    Ok(())
}

/// A database of each record size and IP version with a value of every type.
fn mmdb() -> io::Result<()> {
    let text = |text: &str| Value::String(text.to_owned());
    let map = |pairs: Vec<(&str, Value)>| {
        Value::Map(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    };
    let country = map(vec![("country", map(vec![("iso_code", text("DE"))]))]);
    let every_type = map(vec![
        ("a", Value::Array(vec![text("é"), Value::Uint16(1), Value::Array(Vec::new())])),
        ("bytes", Value::Bytes(vec![1, 2, 255])),
        ("location", map(vec![("latitude", Value::Double(52.5))])),
        ("float", Value::Float(1.5)),
        ("u32", Value::Uint32(1 << 20)),
        ("u64", Value::Uint64(1 << 40)),
        ("u128", Value::Uint128(1 << 100)),
        ("i32", Value::Int32(-5)),
        ("true", Value::Boolean(true)),
        ("long", text(&"x".repeat(300))),
        ("subdivisions", Value::Array(vec![map(vec![("names", map(vec![("en", text("B"))]))])])),
    ]);
    for ip_version in [4, 6] {
        for bits in [24, 28, 32] {
            let options = WriterOptions {
                database_type: "Seed".to_owned(),
                description: vec![("en".to_owned(), "a seed".to_owned())],
                languages: vec!["en".to_owned()],
                ip_version,
                record_size_bits: Some(bits),
                build_epoch_seconds: 1_800_000_000,
            };
            let mut writer = Writer::new(options).expect("options that are allowed");
            let mut networks = vec![("192.0.2.0/24", &country), ("128.0.0.0/1", &every_type)];
            if ip_version == 6 {
                networks.push(("2001:db8::/32", &every_type));
            }
            for (network, value) in networks {
                let network = network.parse().expect("a prefix");
                writer.insert(network, value.clone()).expect("a record within the limits");
            }
            let bytes = writer.finish().expect("it fits");
            save("mmdb", &format!("ip{ip_version}-{bits}"), &[&bytes])?;
        }
    }
    Ok(())
}

/// Trees of a legacy file: a chain of nodes down to 10.0.0.0/6, and the same below `::/96`.
fn dat() -> io::Result<()> {
    const NO_COUNTRY: u32 = 16_776_960;
    let tree = |bits: u128, length_bits: u32, country: u32| {
        let mut bytes = Vec::new();
        for depth in 0..length_bits {
            let is_last = depth + 1 == length_bits;
            let next = if is_last { NO_COUNTRY + country } else { depth + 1 };
            let is_right = bits >> (127 - depth) & 1 == 1;
            let pair = if is_right { [NO_COUNTRY, next] } else { [next, NO_COUNTRY] };
            bytes.extend(pair.iter().flat_map(|record| record.to_le_bytes()[..3].to_vec()));
        }
        bytes
    };
    let ten = u128::from(Ipv4Addr::new(10, 0, 0, 0).to_bits());
    let ipv4 = tree(ten << 96, 6, 225);
    let ipv6 = tree(ten, 102, 77);
    let text = b"\0\0\0GEO-106FREE 20260704 Build 1";
    save("dat", "country", &[&[1], &ipv4, text])?;
    save("dat", "country-106", &[&[106], &ipv4, b"\0\0\0"])?;
    save("dat", "country-ipv6", &[&[12], &ipv6, text])?;
    save("dat", "no-marker", &[&[0], &ipv4])?;
    save("dat", "city", &[&[2], &ipv4, text])?;
    offset_editions()
}

/// Legacy files with records behind the tree: 0.0.0.0/1 or ::/1 leads to one record.
fn offset_editions() -> io::Result<()> {
    let city = b"\0\xe1CA\0S\xe3o Jos\xe9\09511\0\x40\xe2\x20\x87\x21\x09\x9d\x50\x0c";
    let system = b"\0AS64500 Caf\xe9\0";
    let plain = b"\0Cable/DSL\0";
    for (edition, record) in
        [(2, &city[..]), (6, city), (30, city), (31, city), (9, system), (21, system)]
    {
        let tree = [2, 0, 0, 1, 0, 0];
        save("dat", &format!("edition-{edition}"), &[&[edition], &tree, record, b"\0\0\0\x01"])?;
    }
    for edition in [4, 5, 11, 22, 23, 24] {
        let tree = [2, 0, 0, 0, 1, 0, 0, 0];
        save("dat", &format!("edition-{edition}"), &[&[edition], &tree, plain, b"\0\0\0\x01"])?;
    }
    for edition in [32, 33] {
        let tree = [2, 0, 0, 1, 0, 0];
        save("dat", &format!("edition-{edition}"), &[&[edition], &tree, plain, b"\0\0\0\x01"])?;
    }
    for (edition, base, number) in
        [(3, 16_000_000_u32, 700_u32), (7, 16_700_000, 1026), (10, 16_776_960, 2)]
    {
        let [left, right] = [base + number, base].map(u32::to_le_bytes);
        let tree = [&left[..3], &right[..3]].concat();
        save("dat", &format!("edition-{edition}"), &[&[edition], &tree, b"\0\0\0text"])?;
    }
    Ok(())
}

fn rows() -> io::Result<()> {
    let tables = [
        (
            "every-type",
            "network,country.iso_code,a.0:double,a.1:float,b:uint16,c:uint32,d:uint64,e:uint128,\
             f:int32,g:boolean,h:bytes\n192.0.2.0/24,DE,52.5,1.5,1,2,3,4,-5,true,00ff\n\
             2001:db8::/32,,,,,,,,,,\n",
        ),
        ("addresses", "address,name\n192.0.2.1,\"a \"\"b\"\"\nc\"\n::1,x\n"),
        ("nested", "a.b.c,a.b.d,network,e.0.f,e.1.g,e.1.h\n1,2,10.0.0.0/8,3,,4\n,,11.0.0.0/8,,,\n"),
        ("wrong", "network,a:uint16\n192.0.2.0/24,70000\n"),
        ("escaped", "network,a\\.b.c\n::/0,1\n::/1,2\n"),
    ];
    for (index, (name, text)) in tables.into_iter().enumerate() {
        save("rows", name, &[&[(index as u8) << 1], text.as_bytes()])?;
    }
    let lines = [
        (
            "ndjson-fields",
            "{\"network\":\"192.0.2.0/24\",\"a.b\":\"x\",\"a.c.0:uint16\":1,\"d\":[1.5,-2,null,{}]}\n",
        ),
        (
            "ndjson-record",
            "{\"address\":\"::1\",\"record\":{\"a.b\":[\"\\u00e9\\ud83d\\ude00\"]}}\n",
        ),
        (
            "ndjson-types",
            "{\"typed_record\":{\"a\":{\"#uint128\":5},\"##b\":{\"#bytes\":\"00ff\"},\"c\":\
             {\"#float\":\"inf\"}},\"network\":\"2001:db8::/32\"}\n",
        ),
        ("ndjson-wrong", "{\"network\":\"192.0.2.0/24\",\"a\":01}\n"),
    ];
    for (name, text) in lines {
        save("rows", name, &[&[16], text.as_bytes()])?;
    }
    Ok(())
}

/// Behind the byte that chooses: a capture or a log of every format, told by its first bytes.
fn capture() -> io::Result<()> {
    const CHOICE: &[u8] = &[0xff];
    let fields = "ts\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\tconn_state";
    let zeek = format!(
        "#separator \\x09\n#unset_field\t-\n#fields\t{fields}\n\
         1.5\t10.0.0.1\t1\t10.0.0.2\t2\ttcp\tSF\n-\t::1\t8\t::2\t0\ticmp\tOTH\n#close\n"
    );
    let json = "{\"ts\":1.5,\"id.orig_h\":\"::1\",\"id.orig_p\":1,\"id.resp_h\":\"::2\",\
         \"id.resp_p\":2,\"proto\":\"udp\",\"conn_state\":\"S0\",\"orig_pkts\":1}\n";
    let table = "src,dst,proto,sport,dport,state,in,tcp_flags,dscp,time,bytes\n\
         10.0.0.1,\"10.0.0.2\",tcp,1,2,new,\"e\"\"0\",SYN|ACK,af11,1970-01-01T00:00:00Z,9\n";
    let lines = "10.0.0.1 10.0.0.2 tcp 1 2 in=eth0\n::1 ::2 icmp 128 0\n";
    for (name, text) in
        [("zeek", zeek.as_str()), ("zeek-json", json), ("csv", table), ("lines", lines)]
    {
        save("capture", name, &[CHOICE, text.as_bytes()])?;
    }
    let words = |numbers: &[u32]| -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    };
    // UDP over IPv4 behind a tag, and over IPv6 behind a fragment header.
    let ports = [0, 53, 1, 187, 0, 8, 0, 0];
    let addresses = [10, 0, 0, 1, 10, 0, 0, 2];
    let tag = [0x81, 0, 0, 5, 8, 0];
    let four = [0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
    let tagged = [&[2; 12][..], &tag, &four, &addresses, &ports].concat();
    let six = [0x60, 0, 0, 0, 0, 16, 44, 64];
    let fragment = [17, 0, 0, 1, 0, 0, 0, 9];
    let fragmented = [&[2; 12][..], &[0x86, 0xdd], &six, &[7; 32], &fragment, &ports].concat();
    let head = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1]);
    let record = |frame: &[u8]| {
        let size = frame.len() as u32;
        [words(&[1, 2, size, size]), frame.to_vec()].concat()
    };
    save("capture", "pcap", &[CHOICE, &head, &record(&tagged), &record(&fragmented)])?;

    let section = words(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28]);
    let options = [&[2, 0, 4, 0][..], b"eth0", &[9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]].concat();
    let interface = [words(&[1, 40, 1, 0]), options, words(&[40])].concat();
    let padded = tagged.len().next_multiple_of(4);
    let total = (32 + padded + 8) as u32;
    let size = tagged.len() as u32;
    let mut enhanced = words(&[6, total, 0, 1, 2, size, size]);
    enhanced.extend(&tagged);
    enhanced.resize(28 + padded, 0);
    enhanced.extend(words(&[4 << 16 | 2, 2, total]));
    let total = (16 + padded) as u32;
    let mut simple = words(&[3, total, size]);
    simple.extend(&tagged);
    simple.resize(12 + padded, 0);
    simple.extend(words(&[total]));
    save("capture", "pcapng", &[CHOICE, &section, &interface, &enhanced, &simple])
}

/// Behind one byte for the password and the pieces: pipelines, inline requests, garbage.
fn resp() -> io::Result<()> {
    let inputs: [&[u8]; 9] = [
        b"*2\r\n$4\r\nPING\r\n$2\r\nhi\r\nPING \"a b\"\r\n*0\r\n\r\n*1\r\n$0\r\n\r\n*-7\r\n",
        b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPI",
        b"  GET  x \r\na \"\\x41\\n\\q\" '\\'' ''\npre\"quoted\" y\n",
        b"'unbalanced\r\n",
        b"*1\r\n:1\r\n",
        b"*x\r\n",
        b"PI\0NG\r\n*1\0\r\n",
        b"-1.5e3 x\n0x1p-3 y\n+inf z\n9223372036854775808\n",
        b"h[^a-e]*?\\* hello\n*a*b*c aabbcc\n[z-a\\]] m\n",
    ];
    for (index, input) in inputs.into_iter().enumerate() {
        save("resp", &format!("{index}"), &[&[0], input])?;
        save("resp", &format!("{index}-pieces"), &[&[(index as u8) << 1 | 1], input])?;
    }
    Ok(())
}

fn commands() -> io::Result<()> {
    let inputs = [
        "GEOADD g NX CH 2.3 48.8 Paris\r\nGEODIST g Paris a km\r\nGEOHASH g Paris x\r\n",
        "GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km DESC COUNT 1 ANY WITHDIST WITHHASH\r\n",
        "GEOSEARCH g FROMMEMBER a BYBOX 40000 40000 km ASC WITHCOORD\r\n",
        "GEORADIUS g 15 37 200 km STORE t\r\nGEORADIUSBYMEMBER_RO g a 1 m\r\nGEOPOS g a x\r\n",
        "GEOSEARCHSTORE t g FROMLONLAT 0 0 BYRADIUS 9e9 km STOREDIST\r\nZRANGE t 0 -1 WITHSCORES\r\n",
        "ZRANGE g (1 +inf BYSCORE REV LIMIT 0 1\r\nZRANGE g [a + BYLEX\r\nZREM g a\r\nZCARD g\r\n",
        "SELECT 3\r\nKEYS *\r\nSCAN 0 MATCH g* COUNT 5 TYPE zset\r\nDBSIZE\r\nFLUSHALL ASYNC\r\n",
        "HELLO 3 SETNAME me\r\nCLIENT LIST\r\nCLIENT INFO\r\nINFO everything\r\nRESET\r\n",
        "COMMAND COUNT\r\nCOMMAND INFO geoadd\r\nCOMMAND DOCS geosearch\r\nCOMMAND GETKEYS ZREM g a\r\n",
        "IP.GET d 192.0.2.1\r\nIP.GET d 192.0.2.1 a.0 x\r\nIP.NET d ::1\r\nIP.LIST\r\n",
        "IP.MGET d FIELDS 1 location.latitude 192.0.2.1 nonsense\r\nIP.GET x 1.2.3.4\r\n",
        "CIDR.ADD s EX 100 VALUE v 10.0.0.0/8\r\nCIDR.MATCH s 10.1.1.1 ALL WITHVALUE\r\nCIDR.LIST\r\n",
        "CIDR.MMATCH s 192.0.2.1 ::1\r\nCIDR.REM s 192.0.2.0/24\r\nCIDR.COUNT s\r\n",
        "STEER p 192.0.2.1 EXPLAIN\r\nSITE.ADD p x 1 2 192.0.2.3\r\nSITE.MOVE p x 3 4\r\nSITE.LIST p\r\n",
        "SITE.DOWN p fra\r\nSITE.UP p fra\r\nSITE.REM p x\r\nSTEER p ::1\r\nROLE\r\nQUIT\r\n",
        "CLIENT REPLY SKIP\r\nPING\r\nECHO x\r\nCLIENT REPLY OFF\r\nPING\r\nUNKNOWN a b\r\n",
    ];
    for (index, input) in inputs.into_iter().enumerate() {
        save("commands", &format!("{index:02}"), &[input.as_bytes()])?;
    }
    Ok(())
}

/// Behind the byte for the format: two right records of each, which teach their shape.
fn feeds() -> io::Result<()> {
    let xml = br#"<s m="7" x="1.5" y="2.5" t="1700000000" i="3"><c>a</c><l k="9" n="2"/></s>"#;
    save("feeds", "xml", &[&[0], &xml[..], b"\n", xml])?;
    let simple = br#"<s m="7" x="1.5" y="2.5" t="1700000000"/>"#;
    save("feeds", "xml-simple", &[&[0], b"<u c=\"1\">", simple, simple, b"</u>"])?;
    let line = br#"{"m":"7","x":1.5,"y":2.5,"t":1700000000,"l":[{"k":9,"n":2},{"k":"a"}]}"#;
    save("feeds", "ndjson", &[&[1], &line[..], b"\n", line, b"\n"])?;
    let rows = b"m,x,y,t,i,n\n7,1.5,2.5,1700000000,3,\n\"8\",1,2,,,\"4\"\n";
    save("feeds", "csv", &[&[2], rows])?;
    save("feeds", "tsv", &[&[3], b"m\tx\ty\tt\ti\tn\n7\t1\t2\t1700000000\t3\t4\n"])?;
    let point = br#"<wpt lat="1" lon="2"><time>2023-11-14T22:13:20Z</time><name>a</name></wpt>"#;
    save("feeds", "gpx", &[&[4], b"<gpx>", point, point, b"</gpx>"])
}
