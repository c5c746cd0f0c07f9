//! Every operation survives its own encoding, and no damaged payload is read as something else.

use super::*;

fn samples() -> Vec<Operation<'static>> {
    let cell = |bits| Cell::from_bits(bits).expect("a 52-bit number");
    let block = |text: &str| text.parse::<Block>().expect("a block");
    let place = Place { longitude_degrees: 8.68, latitude_degrees: 50.11 };
    let addresses = vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
    let points: Vec<(&[u8], Cell)> = vec![(b"a", cell(1)), (b"", cell((1 << 52) - 1))];
    let members: Vec<&[u8]> = vec![b"a", b"\r\n"];
    let blocks = vec![block("10.0.0.0/8"), block("2001:db8::/32")];
    let ranges = vec![block("10.0.0.3-10.0.0.9"), block("::1-::7"), block("10.0.0.0/8")];
    let plain = loaded(&ranges, &[None]);
    let valued = loaded(&ranges, &[None, Some(b"x"), Some(b"")]);
    let mut samples = vec![
        Operation::AddPoints { number: 3, key: b"k", points: points.into() },
        Operation::RemoveMembers { number: 0, key: b"k", members: members.clone().into() },
        Operation::DeleteKeys { number: 15, keys: members.into() },
        Operation::Flush { number: ALL_NUMBERS },
        Operation::AddPrefixes {
            set: "s",
            expires_at_millis: Some(77),
            value: Some(b"v"),
            blocks: blocks.clone().into(),
        },
        Operation::AddPrefixes {
            set: "s",
            expires_at_millis: None,
            value: None,
            blocks: blocks.clone().into(),
        },
        Operation::RemovePrefixes { set: "s", blocks: blocks.into() },
        Operation::AddPrefixes {
            set: "s",
            expires_at_millis: Some(7),
            value: Some(b""),
            blocks: ranges.clone().into(),
        },
        Operation::RemovePrefixes { set: "", blocks: ranges.into() },
        Operation::LoadMembers { set: "s", replaces: true, members: Cow::Owned(plain) },
        Operation::LoadMembers { set: "s", replaces: false, members: Cow::Owned(valued) },
        Operation::LoadMembers { set: "s", replaces: true, members: Cow::default() },
        Operation::DeleteSets { sets: vec!["a b", ""].into() },
        Operation::MoveSite { pool: "www", site: "fra", place },
        Operation::PutSite {
            pool: "www",
            site: "fra",
            place: Some(place),
            healthy: true,
            addresses: addresses.into(),
        },
        Operation::OverrideSite { pool: "www", site: "fra", code: 0 },
        Operation::RemoveSite { pool: "www", site: "fra" },
        Operation::SetChallenge {
            owner: "_acme-challenge.".into(),
            token: "",
            expires_at_millis: 9,
        },
        Operation::RemoveChallenge { owner: "".into(), token: Some("t") },
        Operation::RemoveChallenge { owner: "x".into(), token: None },
        Operation::ChangeZone { zone: "example.com.".into(), parts: vec![1, 2, 3].into() },
        Operation::ChangeZone { zone: "".into(), parts: Vec::new().into() },
        Operation::DiscardZone { zone: "example.com." },
    ];
    samples.extend(values());
    samples.extend(links());
    samples.extend(rules());
    samples
}

fn links() -> Vec<Operation<'static>> {
    let replication_id = "0123456789abcdef0123456789abcdef01234567".parse().expect("40 digits");
    let stream = StreamPosition { replication_id, offset: -1, database: 7 };
    let set = Operation::SetPosition { link: "fleet", number: 16, stream };
    let scores: Vec<(&[u8], f64)> = vec![(b"a", -1.5)];
    let add = Operation::AddScores { number: 16, key: b"k", scores: scores.into() };
    vec![
        set.clone(),
        Operation::ForgetPosition { link: "", number: 142 },
        Operation::Promote { number: 18, database: 15 },
        Operation::SetImports { number: 142, imports: Vec::new().into() },
        Operation::SetImports {
            number: 16,
            imports: vec![
                SlotImport { name: b"job".to_vec(), ranges: vec![(0, 0), (7, 16383)] },
                SlotImport { name: Vec::new(), ranges: Vec::new() },
            ]
            .into(),
        },
        Operation::SwapNumbers { number: 16, other: 143 },
        Operation::Batch(vec![add, set]),
    ]
}

fn rules() -> Vec<Operation<'static>> {
    use whered_rules::ChainId;
    let set = |numbers| Operation::SetRules {
        ruleset: "edge",
        format: Format::Nft,
        text: "{}\n".into(),
        numbers,
    };
    let spot = Spot { chain: ChainId(2), next: Some(7) };
    let last = Spot { chain: ChainId(0), next: None };
    vec![
        set(None),
        set(Some((vec![3, 1].into(), 9))),
        set(Some((Vec::new().into(), 1))),
        Operation::UnsetRules { ruleset: "edge" },
        Operation::InsertRule { ruleset: "edge", number: 9, spot, text: "drop" },
        Operation::InsertRule { ruleset: "", number: 1, spot: last, text: "" },
        Operation::DeleteRule { ruleset: "edge", number: u32::MAX },
        Operation::ReplaceRule { ruleset: "edge", number: 3, text: "accept" },
    ]
}

fn loaded(blocks: &[Block], values: &[Option<&[u8]>]) -> MemberList {
    let mut list = MemberList::new();
    for (place, block) in blocks.iter().enumerate() {
        list.push(*block, values[place % values.len()], None);
    }
    list
}

fn values() -> Vec<Operation<'static>> {
    let scores: Vec<(&[u8], f64)> = vec![(b"a", -1.5), (b"", f64::INFINITY)];
    let pair = KeyPair { from_number: 1, to_number: 2, from: b"k", to: b"" };
    let values = vec![
        Operation::AddScores { number: 3, key: b"k", scores: scores.clone().into() },
        Operation::RemoveRanks { number: 0, key: b"k", first: 1, end: u64::MAX },
        Operation::SetText { number: 1, key: b"k", expires_at_millis: Some(9), text: b"\r\n" },
        Operation::SetText { number: 1, key: b"k", expires_at_millis: None, text: b"" },
        Operation::StoreScores { number: 15, key: b"", scores: scores.into() },
        Operation::SetExpiry { number: 0, key: b"k", expires_at_millis: Some(1) },
        Operation::SetExpiry { number: 0, key: b"k", expires_at_millis: None },
        Operation::Rename(pair),
        Operation::Copy(pair),
        Operation::SwapNumbers { number: 4, other: 5 },
    ];
    let mut all = values.clone();
    let mut mixed = values.clone();
    mixed.push(Operation::UnsetRules { ruleset: "edge" });
    all.push(Operation::Batch(values));
    all.push(Operation::Batch(mixed));
    all.push(Operation::Batch(Vec::new()));
    all
}

#[test]
fn every_operation_reads_back_as_it_was_written() {
    for operation in samples() {
        let payload = operation.encode();
        assert_eq!(payload.len(), operation.size_bytes(), "{operation:?}");
        let read = Operation::decode(operation.kind(), &payload).expect("just written");
        // Not by `==`: the two live for different times.
        assert_eq!(format!("{read:?}"), format!("{operation:?}"));
    }
}

#[test]
fn a_mapped_member_of_an_older_journal_is_read_as_the_ipv4_member_it_stands_for() {
    let blocks = |texts: [&str; 2]| texts.map(|text| text.parse::<Block>().unwrap()).to_vec();
    let written = blocks(["::ffff:10.0.0.0/104", "::ffff:192.0.2.5-::ffff:192.0.2.9"]);
    let meant = blocks(["10.0.0.0/8", "192.0.2.5-192.0.2.9"]);
    let operations = |blocks: Vec<Block>| {
        let members = Cow::Owned(loaded(&blocks, &[None]));
        [
            Operation::AddPrefixes {
                set: "s",
                expires_at_millis: None,
                value: None,
                blocks: blocks.clone().into(),
            },
            Operation::RemovePrefixes { set: "s", blocks: blocks.into() },
            Operation::LoadMembers { set: "s", replaces: true, members },
        ]
    };
    for (old, meant) in operations(written).into_iter().zip(operations(meant)) {
        let payload = old.encode();
        let read = Operation::decode(old.kind(), &payload).unwrap();
        assert_eq!(format!("{read:?}"), format!("{meant:?}"));
    }
}

#[test]
fn damaged_payloads_are_refused_or_read_as_an_operation_but_never_panic() {
    for operation in samples() {
        let payload = operation.encode();
        for length in 0..payload.len() {
            let _ = Operation::decode(operation.kind(), &payload[..length]);
        }
        for at in 0..payload.len() {
            for value in [0, 1, 4, 6, 127, 255] {
                let mut changed = payload.clone();
                changed[at] = value;
                let _ = Operation::decode(operation.kind(), &changed);
            }
        }
    }
}

#[test]
fn bytes_behind_the_end_of_an_operation_are_refused() {
    for operation in samples() {
        let mut payload = operation.encode();
        payload.push(0);
        let read = Operation::decode(operation.kind(), &payload);
        assert!(read.is_err(), "{operation:?} became {read:?}");
    }
}

#[test]
fn an_unknown_kind_or_version_is_an_error_that_says_what_is_known() {
    assert!(
        Operation::decode(99, &[1])
            .unwrap_err()
            .contains("knows 1 to 20, 24 to 27, 32 to 36, 48 to 51, and 60 to 63")
    );
    assert!(Operation::decode(1, &[9]).unwrap_err().contains("reads version 1"));
    assert!(Operation::decode(1, &[]).unwrap_err().contains("byte 0"));
}

#[test]
fn a_batch_takes_no_batch_and_one_of_the_keyspace_nothing_else() {
    let inner = Operation::Batch(Vec::new());
    let site = Operation::RemoveSite { pool: "www", site: "fra" };
    let mixed = Operation::Batch(vec![site.clone()]);
    assert_eq!(mixed.kind(), MIXED_BATCH_KIND, "older programs refuse it by its kind");
    for operation in [inner, site] {
        let payload = Operation::Batch(vec![operation]).encode();
        assert!(Operation::decode(BATCH_KIND, &payload).unwrap_err().contains("in a batch"));
    }
    for inner in [Operation::Batch(Vec::new()), mixed] {
        let payload = Operation::Batch(vec![inner]).encode();
        let refusal = Operation::decode(MIXED_BATCH_KIND, &payload).unwrap_err();
        assert!(refusal.contains("in a batch"), "{refusal}");
    }
}

#[test]
fn a_score_that_is_no_number_is_refused() {
    let scores: Vec<(&[u8], f64)> = vec![(b"a", f64::NAN)];
    let payload = Operation::AddScores { number: 0, key: b"k", scores: scores.into() }.encode();
    assert!(Operation::decode(11, &payload).unwrap_err().contains("no number"));
}

/// Payloads as the first release has written them: they stay readable for ever.
#[test]
fn journals_of_the_first_kinds_still_read_the_same() {
    let add = b"\x01\x03\x01\0\0\0k\x07\0\0\0\0\0\0\0\x01\0\0\0m";
    let read = format!("{:?}", Operation::decode(1, add).expect("a kept payload"));
    let points: Vec<(&[u8], Cell)> = vec![(b"m", Cell::from_bits(7).unwrap())];
    let expected = Operation::AddPoints { number: 3, key: b"k", points: points.into() };
    assert_eq!(read, format!("{expected:?}"));
    let remove = b"\x01\x00\x01\0\0\0k\x01\0\0\0m";
    assert!(matches!(Operation::decode(2, remove), Ok(Operation::RemoveMembers { .. })));
    assert!(matches!(
        Operation::decode(3, b"\x01\x0f\x01\0\0\0k"),
        Ok(Operation::DeleteKeys { .. })
    ));
    assert!(matches!(
        Operation::decode(4, b"\x01\xff"),
        Ok(Operation::Flush { number: ALL_NUMBERS })
    ));
}

#[test]
fn overrides_of_a_journal_without_probes_are_read_as_they_were_meant() {
    let payload =
        |code: u8| [&[1, 3, 0, 0, 0], &b"www"[..], &[3, 0, 0, 0], b"fra", &[code]].concat();
    for code in 0..3 {
        let expected = Operation::OverrideSite { pool: "www", site: "fra", code };
        assert_eq!(Operation::decode(9, &payload(code)), Ok(expected));
    }
    assert!(Operation::decode(9, &payload(3)).unwrap_err().contains("override"));
}

#[test]
fn a_number_that_no_database_has_and_a_position_in_one_that_is_no_links_are_refused() {
    let flush = |number| Operation::Flush { number }.encode();
    assert!(Operation::decode(4, &flush(143)).is_ok());
    let refused = Operation::decode(4, &flush(144)).unwrap_err();
    assert!(refused.contains("database number 144; allowed: 0 to 143"), "{refused}");
    for number in [0, 15, 17, 144, 255] {
        let payload = Operation::ForgetPosition { link: "l", number }.encode();
        let refused = Operation::decode(FORGET_POSITION_KIND, &payload).unwrap_err();
        assert!(refused.contains("which is no link's"), "{number}: {refused}");
    }
}

#[test]
fn a_range_of_slots_that_no_cluster_has_is_refused() {
    for (first, last) in [(5, 4), (16383, 16384), (u16::MAX, u16::MAX)] {
        let imports = vec![SlotImport { name: b"job".to_vec(), ranges: vec![(first, last)] }];
        let payload = Operation::SetImports { number: 16, imports: imports.into() }.encode();
        let refused = Operation::decode(SET_IMPORTS_KIND, &payload).unwrap_err();
        assert!(refused.contains("allowed: 0 to 16383"), "{first} {last}: {refused}");
    }
}
