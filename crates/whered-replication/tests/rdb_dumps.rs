//! Dumps as servers write them: every encoding is read as the server's own commands give it.

mod rdb;

use rdb::{Drops, Dump, lines_by, lines_of, lines_within, unhex};
use whered_replication::rdb::{Event, Kind, Limits, Reader, Writer};

const SMALL: &str = include_str!("rdb/data/redis-7.0.hex");
const KEYS: &str = include_str!("rdb/data/keys.txt");

/// Dumps as servers wrote them, their magic, and the lines of the keys that Redis 7.0 cannot have.
const DUMPS: [(&str, &str, &str); 7] = [
    (SMALL, "REDIS0010", ""),
    (include_str!("rdb/data/redis-7.0-large.hex"), "REDIS0010", ""),
    (include_str!("rdb/data/redis-8.0.hex"), "REDIS0012", REDIS_8_0),
    (include_str!("rdb/data/redis-8.0-large.hex"), "REDIS0012", REDIS_8_0),
    (include_str!("rdb/data/valkey-9.1.hex"), "VALKEY080", VALKEY_9_1),
    (include_str!("rdb/data/valkey-9.1-large.hex"), "VALKEY080", VALKEY_9_1),
    (include_str!("rdb/data/valkey-9.1-for-redis.hex"), "REDIS0011", ""),
];
const REDIS_8_0: &str = include_str!("rdb/data/redis-8.0-more.txt");
const VALKEY_9_1: &str = include_str!("rdb/data/valkey-9.1-more.txt");

/// The server's answers, with scores in the form of the lines, and `more` lines.
fn keys(more: &str) -> Vec<String> {
    let line = |line: &str| match line.split_once(' ') {
        Some(("zset", rest)) => {
            let words = rest.split(' ').map(|word| match word.split_once('=') {
                Some((member, score)) => {
                    format!("{member}={:?}", score.parse::<f64>().expect("a score"))
                }
                None => word.to_owned(),
            });
            let words: Vec<String> = words.collect();
            let mut members = words[3..].to_vec();
            members.sort();
            format!("zset {} {}", words[..3].join(" "), members.join(" "))
        }
        _ => line.to_owned(),
    };
    let mut keys: Vec<String> = KEYS.lines().chain(more.lines()).map(line).collect();
    keys.sort();
    keys
}

#[test]
fn dumps_of_redis_7_and_8_and_valkey_9_hold_what_their_commands_say() {
    for (text, magic, more) in DUMPS {
        let dump = unhex(text);
        assert_eq!(&dump[..9], magic.as_bytes());
        assert_eq!(lines_of(&dump[..]).expect("it is whole"), keys(more));
        assert_eq!(lines_of(Drops(&dump)).expect("also by the byte"), keys(more));
    }
}

#[test]
fn the_dumps_of_newer_servers_have_their_own_types() {
    let of = |more: &str, kind: &str| more.lines().filter(|line| line.starts_with(kind)).count();
    assert_eq!([of(REDIS_8_0, "hash"), of(REDIS_8_0, "module")], [2, 1]);
    assert_eq!([of(VALKEY_9_1, "hash"), of(VALKEY_9_1, "module")], [2, 0]);
}

#[test]
fn what_the_writer_remarks_is_handed_out() {
    let dump = unhex(SMALL);
    let mut reader = Reader::new(&dump[..], Limits::default()).expect("the magic is known");
    let mut notes = Vec::new();
    while let Some(event) = reader.next_event().expect("it is whole") {
        if let Event::Note { name, value } = event {
            notes.push((name.to_vec(), value.to_vec()));
        }
    }
    assert!(notes.contains(&(b"redis-ver".to_vec(), b"7.0.15".to_vec())), "{notes:?}");
    assert_eq!(reader.offset(), dump.len() as u64);
}

#[test]
fn bytes_behind_the_dump_are_given_back() {
    let dump = [unhex(SMALL), b"*1\r\n$4\r\nPING\r\n".to_vec()].concat();
    let mut reader = Reader::new(&dump[..], Limits::default()).expect("the magic is known");
    while reader.next_event().expect("it is whole").is_some() {}
    let (unread, rest) = reader.into_parts();
    assert_eq!([&rest, unread].concat(), b"*1\r\n$4\r\nPING\r\n");
}

#[test]
fn scores_as_text_with_their_codes_are_read() {
    let dump = Dump::new("REDIS0003").raw(&[0xfe, 0]).key(3, "z").length(4);
    let dump = dump.string("a").raw(&[3]).raw(b"1.5").string("b").raw(&[254]);
    let dump = dump.string("c").raw(&[255]).string("d").raw(&[4]).raw(b"-1e9").raw(&[0xff]);
    let lines = lines_of(&dump.0[..]).expect("without a checksum, as version 3 is");
    assert_eq!(lines, ["zset 0 7a - 61=1.5 62=inf 63=-inf 64=-1000000000.0"]);
    let nan = Dump::new("REDIS0003").key(3, "z").length(1).string("a").raw(&[253, 0xff]);
    assert!(lines_of(&nan.0[..]).expect_err("NaN").to_string().contains("not a number"));
}

/// A list pack of entries, each with its encoding.
fn list_pack(entries: &[&[u8]]) -> Vec<u8> {
    let mut body = Vec::new();
    for entry in entries {
        body.extend_from_slice(entry);
        let length = entry.len();
        match length {
            0..128 => body.push(length as u8),
            _ => body.extend([(length >> 7) as u8, 0x80 | (length & 0x7f) as u8]),
        }
    }
    body.push(0xff);
    let total = (body.len() + 6) as u32;
    [&total.to_le_bytes()[..], &(entries.len() as u16).to_le_bytes(), &body].concat()
}

/// A zip list of entries, each with its encoding.
fn zip_list(entries: &[&[u8]]) -> Vec<u8> {
    let mut body = Vec::new();
    let (mut previous, mut tail) = (0, 10);
    for entry in entries {
        tail = 10 + body.len();
        let began = body.len();
        match previous {
            0..254 => body.push(previous as u8),
            _ => {
                body.push(0xfe);
                body.extend((previous as u32).to_le_bytes());
            }
        }
        body.extend_from_slice(entry);
        previous = body.len() - began;
    }
    body.push(0xff);
    let total = (body.len() + 10) as u32;
    let tail = tail as u32;
    let count = entries.len() as u16;
    [&total.to_le_bytes()[..], &tail.to_le_bytes(), &count.to_le_bytes(), &body].concat()
}

fn one_key(magic: &str, value_type: u8, value: &[u8]) -> Vec<u8> {
    Dump::new(magic).key(value_type, "z").string(value).end()
}

#[test]
fn every_encoding_of_a_list_pack_is_read() {
    let long = [&[0xe0, 130][..], &[b'l'; 130]].concat();
    let longest = [&[0xf0, 2, 0, 0, 0][..], b"xy"].concat();
    let pack = list_pack(&[
        &[0x05],
        &[0x7f],
        &[0x81, b'a'],
        &[0xdf, 0xff], // -1 in 13 bits
        &long,
        &[0xf1, 0x00, 0x80],
        &longest,
        &[0xf2, 0x00, 0x00, 0x80],
        &[0x81, b'd'],
        &[0xf3, 0xff, 0xff, 0xff, 0x7f],
        &[0x81, b'e'],
        &[0xf4, 0, 0, 0, 0, 0, 0, 0x20, 0],
        &[0xd0, 0x00], // -4096
        &[0x83, b'0', b'.', b'5'],
    ]);
    let lines = lines_of(&one_key("REDIS0010", 17, &pack)[..]).expect("it is whole");
    let l = "6c".repeat(130);
    let expected = format!(
        "zset 0 7a - 2d34303936=0.5 35=127.0 61=-1.0 64=2147483647.0 65=9007199254740992.0 \
         {l}=-32768.0 7879=-8388608.0"
    );
    assert_eq!(lines, [expected]);
}

#[test]
fn every_encoding_of_a_zip_list_is_read() {
    let long = [&[0x41, 0x2c][..], &[b'l'; 300]].concat();
    let longest = [&[0x80, 0, 0, 0, 2][..], b"xy"].concat();
    let list = zip_list(&[
        &long,
        &[0xf1],
        &longest,
        &[0xfd],
        &[0x01, b'a'],
        &[0xfe, 0x80],
        &[0x01, b'b'],
        &[0xc0, 0x00, 0x80],
        &[0x01, b'c'],
        &[0xf0, 0xff, 0xff, 0x7f],
        &[0x01, b'd'],
        &[0xd0, 0, 0, 0, 0x80],
        &[0x01, b'e'],
        &[0xe0, 1, 0, 0, 0, 0, 0, 0, 0x80],
        &[0xf6],
        &[0x03, b'i', b'n', b'f'],
    ]);
    let lines = lines_of(&one_key("REDIS0006", 12, &list)[..]).expect("it is whole");
    let l = "6c".repeat(300);
    let expected = format!(
        "zset 0 7a - 35=inf 61=-128.0 62=-32768.0 63=8388607.0 64=-2147483648.0 \
         65=-9.223372036854776e18 {l}=0.0 7879=12.0"
    );
    assert_eq!(lines, [expected]);
}

#[test]
fn packed_lists_that_lie_are_refused() {
    let good = list_pack(&[&[0x81, b'a'], &[0x05]]);
    assert!(lines_of(&one_key("REDIS0010", 17, &good)[..]).is_ok());
    let odd = list_pack(&[&[0x81, b'a'], &[0x05], &[0x06]]);
    let back = [&good[..8], &[3], &good[9..]].concat();
    let early = [&[8, 0, 0, 0][..], &good[4..]].concat();
    let count = [&good[..4], &[4, 0], &good[6..]].concat();
    let nan = list_pack(&[&[0x81, b'a'], &[0x83, b'n', b'a', b'n']]);
    let word = list_pack(&[&[0x81, b'a'], &[0x83, b'o', b'n', b'e']]);
    let end = good[..good.len() - 1].to_vec();
    let more = [&[13, 0, 0, 0][..], &good[4..], &[0xff]].concat();
    for (pack, why) in [
        (odd, "member without a score"),
        (back, "wrong length behind it"),
        (early, "a packed list of 8 bytes in a string of 12"),
        (count, "another number of entries"),
        (nan, "not a number"),
        (word, "'one' is no score"),
        (end, "a packed list of 12 bytes in a string of 11"),
        (more, "ends 1 bytes before"),
        (Vec::new(), "in the middle of an entry"),
    ] {
        let error = lines_of(&one_key("REDIS0010", 17, &pack)[..]).expect_err(why).to_string();
        assert!(error.contains(why), "{error}");
    }
    let list = zip_list(&[&[0x01, b'a'], &[0xf1]]);
    let previous = [&list[..13], &[9], &list[14..]].concat();
    let tail = [&list[..4], &[10, 0, 0, 0], &list[8..]].concat();
    for (list, why) in [(previous, "wrong length before it"), (tail, "last entry elsewhere")] {
        let error = lines_of(&one_key("REDIS0006", 12, &list)[..]).expect_err(why).to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_compressed_list_pack_is_read_and_a_compressed_lie_is_refused() {
    let text = [&[0xe0, 200][..], &[b'l'; 200]].concat();
    let pack = list_pack(&[&text, &[0x05]]);
    // Nine literals, the repeated byte, and the rest as literals.
    let (head, tail) = (&pack[..9], &pack[208..]);
    let packed = [&[8][..], head, &[0xe0, 190, 0], &[tail.len() as u8 - 1], tail].concat();
    let dump = |packed: &[u8], plain: usize| {
        let dump = Dump::new("REDIS0010").key(17, "z").raw(&[0xc3]);
        dump.length(packed.len()).length(plain).raw(packed).end()
    };
    let lines = lines_of(&dump(&packed, pack.len())[..]).expect("it is whole");
    assert_eq!(lines, [format!("zset 0 7a - {}=5.0", "6c".repeat(200))]);
    for (packed, plain) in [
        (packed.clone(), pack.len() - 1),
        (packed.clone(), pack.len() + 1),
        (packed[..packed.len() - 1].to_vec(), pack.len()),
        ([&packed[..], &[0, 0]].concat(), pack.len()),
        ([&[0xe0, 190, 0][..], &packed].concat(), pack.len()),
        (vec![0xe0, 255, 0], 1 << 30),
    ] {
        assert!(lines_of(&dump(&packed, plain)[..]).is_err(), "{packed:?} {plain}");
    }
}

#[test]
fn types_and_opcodes_that_two_servers_use_otherwise_go_by_the_magic() {
    let fields = |dump: Dump| dump.string("f").string("v");
    let time = [0; 8];
    // Valkey: field, value, time. Redis: time as a length, field, value.
    let valkey = fields(Dump::new("VALKEY080").key(22, "h").length(1)).raw(&time);
    let redis = fields(Dump::new("REDIS0012").key(22, "h").length(1).length(5));
    // Valkey: a job and its slots. Redis: classes of modules' data.
    let valkey = valkey.raw(&[243]).string("job").length(1).length(5).length(9);
    let redis = redis.raw(&[243, 1]).raw(b"CLAS").raw(&[2, 7, 5]).string("text").raw(&[0]);
    let (hash, import, zset) = ("hash 0 68 -", "import 6a6f62 [(5, 9)]", "zset 0 7a - 6d=2.5");
    for (dump, expected) in [(valkey, &[hash, import, zset][..]), (redis, &[hash, zset])] {
        let dump = dump.key(5, "z").length(1).string("m").raw(&2.5f64.to_le_bytes()).end();
        let lines = lines_of(&dump[..]).expect("it is whole");
        assert_eq!(lines, expected);
    }
}

#[test]
fn slots_that_a_valkey_imports_are_given_and_those_that_no_cluster_has_are_refused() {
    let dump = |ranges: &[(usize, usize)]| {
        let head = Dump::new("VALKEY080").raw(&[243]).string("job").length(ranges.len());
        let add = |dump: Dump, (first, last): &(usize, usize)| dump.length(*first).length(*last);
        ranges.iter().fold(head, add).end()
    };
    let read = |ranges: &[(usize, usize)]| lines_of(&dump(ranges)[..]);
    let lines = read(&[(0, 0), (7, 16383)]).expect("it is whole");
    assert_eq!(lines, ["import 6a6f62 [(0, 0), (7, 16383)]"]);
    for ranges in [&[(5, 4)][..], &[(0, 16384)], &[(0, 0); 16385]] {
        let refused = read(ranges).expect_err("no cluster has them").to_string();
        assert!(refused.contains("allowed: 0 to 16383"), "{refused}");
    }
}

#[test]
fn imports_that_were_written_are_read_with_the_keys_behind_them() {
    let ranges: Vec<(u16, u16)> = (0..8192).map(|slot| (2 * slot, 2 * slot)).collect();
    let imports = [(&b"one"[..], &[(5, 9), (300, 16383)][..]), (b"two", &ranges)];
    let mut writer = Writer::with_imports(Vec::new(), 3, 0, &imports).expect("it takes all");
    writer.sorted_set(b"z", 1, None).expect("it takes all");
    writer.member(b"m", 2.5).expect("it takes all");
    let lines = lines_of(&writer.end().expect("it takes all")[..]).expect("it is whole");
    let expected = [
        "import 6f6e65 [(5, 9), (300, 16383)]".to_owned(),
        format!("import 74776f {ranges:?}"),
        "zset 3 7a - 6d=2.5".to_owned(),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn every_other_type_is_skipped_by_its_structure() {
    let two = |dump: Dump| dump.length(2).string("a").string("b");
    let dump = two(Dump::new("REDIS0012").key(1, "a"));
    let dump = two(dump.key(2, "b"));
    let dump = dump.key(4, "c").length(1).string("f").raw(&[0xc0, 5]);
    let dump = dump.key(7, "d").raw(&[0x81, 1, 2, 3, 4, 5, 6, 7, 8, 2, 0x42, 0, 1, 5, 3]);
    let dump = dump.raw(&[0; 4]).raw(&[4]).raw(&[0; 8]).raw(&[5]).string("text").raw(&[0]);
    let dump = [9, 10, 11, 13, 16, 20, 23]
        .iter()
        .fold(dump, |dump, value_type| dump.key(*value_type, "e").string("anything"));
    let dump = two(dump.key(14, "f"));
    let dump = dump.key(18, "g").length(2).length(1).string("a").length(2).string("b");
    let dump = dump.key(24, "h").raw(&[0; 8]).length(1).length(0).string("f").string("v");
    let dump = dump.key(25, "i").raw(&[0; 8]).string("list pack");
    let dump = [(15, 3, 2, 8), (19, 8, 3, 8), (21, 8, 3, 16)].iter().fold(
        dump,
        |dump, (value_type, numbers, of_group, of_consumer)| {
            let dump = dump.key(*value_type, "s").length(1).string([0; 16]).string("pack");
            let dump = dump.raw(&vec![1; *numbers]).length(1).string("group");
            let dump = dump.raw(&vec![1; *of_group]).length(1).raw(&[0; 24]).length(1);
            let dump = dump.length(1).string("consumer").raw(&vec![0; *of_consumer]);
            dump.length(1).raw(&[0; 16])
        },
    );
    let dump = dump.raw(&[247, 7, 2, 1, 5]).string("auxiliary").raw(&[0]);
    let dump = dump.raw(&[245]).string("code").raw(&[244, 1, 2, 3]).raw(&[248, 9]).raw(&[249, 9]);
    let dump = dump.raw(&[251, 1, 1, 253, 1, 0, 0, 0]).key(0, "last").string("text").end();
    let lines = lines_of(&dump[..]).expect("it is whole");
    assert_eq!(lines.len(), 19, "{lines:#?}");
    assert!(lines.contains(&"string 0 6c617374 1000 74657874".to_owned()), "{lines:#?}");
    let count = |kind: &str| lines.iter().filter(|line| line.starts_with(kind)).count();
    let counts = ["list", "set", "hash", "stream", "module"].map(count);
    assert_eq!(counts, [4, 3, 7, 3, 1]);
}

#[test]
fn what_is_not_known_is_an_error_with_its_byte() {
    for (magic, value_type, why) in [
        ("REDIS0012", 8, "type 8 is not known"),
        ("REDIS0012", 26, "type 26 is not known"),
        ("VALKEY080", 25, "type 25 is not known"),
        ("REDIS0012", 6, "before Redis 4.0"),
        ("REDIS0012", 246, "release candidate"),
        ("REDIS0012", 242, "type 242 is not known"),
    ] {
        let dump = Dump::new(magic).raw(&[0xfe, 0]).key(value_type, "k").string("x").end();
        let error = lines_of(&dump[..]).expect_err(why);
        assert_eq!(error.offset(), 11);
        assert!(error.to_string().contains(why), "{error}");
    }
    for magic in ["REDIS0000", "REDIS0014", "REDIS 012", "VALKEY011", "VALKEY100", "redis0001"] {
        let error = lines_of(&Dump::new(magic).end()[..]).expect_err(magic);
        assert!(error.to_string().contains("begins no dump"), "{error}");
    }
}

#[test]
fn a_wrong_checksum_is_refused_and_none_is_taken() {
    let dump = Dump::new("REDIS0010").key(0, "k").string("v").end();
    let ended = dump.len() - 8;
    let none = [&dump[..ended], &[0; 8]].concat();
    assert_eq!(lines_of(&none[..]).expect("it has none"), lines_of(&dump[..]).expect("it fits"));
    let wrong = [&dump[..ended], &[1; 8]].concat();
    let error = lines_of(&wrong[..]).expect_err("it does not fit");
    assert_eq!(error.offset(), ended as u64);
    assert!(error.to_string().contains("checksum"), "{error}");
}

#[test]
fn a_text_beyond_the_limit_is_skipped_and_a_name_is_refused() {
    let limits = Limits { name_bytes_max: 4, value_bytes_max: 4 };
    let dump = Dump::new("REDIS0010").key(0, "k").string("12345").key(0, "l").string("1234").end();
    let lines = lines_within(&dump[..], limits).expect("it is whole");
    assert_eq!(lines, ["long string 0 6b -", "string 0 6c - 31323334"]);
    assert_eq!(Kind::LongString.to_string(), "long string");
    let dump = Dump::new("REDIS0010").key(0, "12345").string("v").end();
    let error = lines_within(&dump[..], limits).expect_err("the name is too long");
    assert!(error.to_string().contains("5 bytes; allowed: 4"), "{error}");
}

#[test]
fn a_payload_of_dump_is_read() {
    // ZADD z 1.5 a 2 b, SET t text, and DUMP of both by Redis 7.0.15.
    let payload = |body: Dump, version: u16| {
        let dump = body.raw(&version.to_le_bytes());
        let sum = rdb::crc64(&dump.0);
        dump.raw(&sum.to_le_bytes()).0
    };
    let pack = list_pack(&[&[0x81, b'a'], &[0x83, b'1', b'.', b'5']]);
    let good = payload(Dump(vec![17]).string(&pack), 10);
    let read = |payload: &[u8]| lines_by(Reader::of_payload(payload, Limits::default())?);
    assert_eq!(read(&good).expect("it is whole"), ["zset 0  - 61=1.5"]);
    let text = payload(Dump(vec![0]).string("v"), 80);
    assert_eq!(read(&text).expect("it is whole"), ["string 0  - 76"]);
    for place in 0..good.len() {
        assert!(read(&good[..place]).is_err());
        let mut flipped = good.clone();
        flipped[place] ^= 0x10;
        assert!(read(&flipped).is_err(), "{place}");
    }
    assert!(read(&payload(Dump(vec![0]).string("v"), 14)).is_err(), "a later version");
    let more = read(&payload(Dump(vec![0]).string("v").raw(b"x"), 10)).expect_err("more");
    assert!(more.to_string().contains("bytes follow"), "{more}");
}
