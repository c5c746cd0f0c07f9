//! pcap and pcapng, written by hand: every link type, header and block, and every kind of damage.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod writers;

use std::io::{self, Read};

use whered_capture::{Capture, CaptureError, ErrorKind, Format, PacketRecord, Skip, Totals};
use writers::*;

fn read(bytes: &[u8]) -> (Vec<PacketRecord>, Option<CaptureError>, Totals) {
    let mut capture = match Capture::new(bytes) {
        Ok(capture) => capture,
        Err(error) => return (Vec::new(), Some(error), Totals::default()),
    };
    let (mut records, mut last) = (Vec::new(), None);
    for item in capture.by_ref() {
        assert!(last.is_none(), "nothing comes after an error");
        match item {
            Ok(record) => records.push(record),
            Err(error) => last = Some(error),
        }
    }
    (records, last, *capture.totals())
}

/// The records of a capture without errors.
fn records(bytes: &[u8]) -> Vec<PacketRecord> {
    let (records, error, _) = read(bytes);
    assert!(error.is_none(), "{}", error.unwrap());
    records
}

/// What becomes of one frame of this link type.
fn one(link: u32, frame: Vec<u8>) -> Result<PacketRecord, Skip> {
    let (records, error, totals) = read(&pcap(link, &[frame]));
    assert!(error.is_none(), "{}", error.unwrap());
    assert_eq!(totals.records(), 1);
    assert_eq!(records.len() as u64 + totals.skipped_sum(), 1);
    let skipped = Skip::ALL.into_iter().find(|&reason| totals.skipped(reason) > 0);
    records.first().copied().ok_or_else(|| skipped.unwrap())
}

fn ports(record: &PacketRecord) -> (Option<u16>, Option<u16>) {
    (record.source_port, record.destination_port)
}

#[test]
fn a_tcp_packet_has_all_of_its_fields() {
    let record = one(1, ethernet(0x0800, &ipv4(6, &tcp(0x12)))).unwrap();
    assert_eq!(record.source, "192.0.2.1".parse::<std::net::IpAddr>().unwrap());
    assert_eq!(record.destination, "198.51.100.7".parse::<std::net::IpAddr>().unwrap());
    assert_eq!((record.number, record.protocol), (1, 6));
    assert_eq!(ports(&record), (Some(40_000), Some(443)));
    assert_eq!((record.tcp_flags, record.dscp), (Some(0x12), Some(46)));
    assert_eq!((record.icmp_type, record.icmp_code, record.state), (None, None, None));
    assert_eq!((record.bytes, record.time_nanoseconds), (Some(54), Some(0)));
    assert!(!record.is_later_fragment);

    let record = one(1, ethernet(0x86dd, &ipv6(17, &udp()))).unwrap();
    assert_eq!(record.source, "2001:db8::1".parse::<std::net::IpAddr>().unwrap());
    assert_eq!(record.destination, "2001:db8::2".parse::<std::net::IpAddr>().unwrap());
    assert_eq!((record.protocol, record.dscp), (17, Some(46)));
    assert_eq!(ports(&record), (Some(40_000), Some(53)));
}

#[test]
fn every_magic_number_and_order_of_pcap() {
    let frame = ethernet(0x0800, &ipv4(17, &udp()));
    for order in Order::BOTH {
        for (magic, nanoseconds, more) in
            [(0xa1b2_c3d4, 5_000, 0), (0xa1b2_3c4d, 5, 0), (0xa1b2_cd34, 5_000, 8)]
        {
            let mut bytes = pcap_head(order, magic, 1);
            for seconds in [1_700_000_000, 4_294_967_295] {
                let mut record = pcap_record(order, (seconds, 5), &frame, 1_000);
                record.splice(16..16, vec![9; more]);
                bytes.extend(record);
            }
            let found = records(&bytes);
            assert_eq!(found.len(), 2);
            assert_eq!(found[0].time_nanoseconds, Some(1_700_000_000_000_000_000 + nanoseconds));
            assert_eq!(found[1].time_nanoseconds, Some(4_294_967_295_000_000_000 + nanoseconds));
            assert_eq!((found[1].number, found[1].bytes), (2, Some(1_000)));
        }
    }
}

/// Frames of MPLS, PPP, 802.11 and NFLOG.
fn of_further_link_types() -> Vec<(u32, Vec<u8>)> {
    let (four, six) = (ipv4(6, &tcp(2)), ipv6(6, &tcp(2)));
    let behind = |head: &[u8], packet: &[u8]| [head, packet].concat();
    let snap = |ethertype: [u8; 2]| [&[0xaa, 0xaa, 3, 0, 0, 0][..], &ethertype].concat();
    let radiotap = |rest: &[u8]| [&[0, 0, 4 + rest.len() as u8, 0][..], rest].concat();
    let attribute = |order: Order, kind: u16, value: &[u8]| {
        let size = order.u16(4 + value.len() as u16);
        let mut bytes = [&size[..], &order.u16(kind), value].concat();
        if kind != 9 {
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    };
    vec![
        (1, ethernet(0x8847, &behind(&[0, 1, 0, 64, 0, 2, 1, 64], &four))),
        (1, ethernet(0x8848, &behind(&[0, 2, 1, 64], &six))),
        (1, ethernet(0x8864, &behind(&[0x11, 0, 0, 1, 0, 60, 0, 0x21], &four))),
        (1, ethernet(60, &behind(&snap([8, 0]), &four))),
        (9, behind(&[0xff, 3, 0, 0x21], &four)),
        (9, behind(&[0x21], &four)),
        (9, behind(&[0, 0x57], &six)),
        (9, behind(&[0x02, 0x81, 0, 2, 1, 64], &six)),
        (50, behind(&[0xff, 3, 0, 0x57], &six)),
        (51, behind(&[0x11, 0, 0, 1, 0, 60, 0, 0x57], &six)),
        (105, behind(&[&[8, 2][..], &[0; 22], &snap([8, 0])].concat(), &four)),
        (105, behind(&[&[8, 3][..], &[0; 28], &snap([0x86, 0xdd])].concat(), &six)),
        (105, behind(&[&[0x88, 1][..], &[0; 24], &snap([8, 0])].concat(), &four)),
        (105, behind(&[&[0x88, 0x81][..], &[0; 28], &snap([8, 0])].concat(), &four)),
        (
            127,
            behind(
                &[&radiotap(&[2, 0, 0, 0, 0x20])[..], &[0x88, 1], &[0; 26], &snap([8, 0])].concat(),
                &four,
            ),
        ),
        (
            127,
            behind(
                &[
                    &radiotap(&[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])[..],
                    &[8, 1],
                    &[0; 22],
                    &snap([8, 0]),
                ]
                .concat(),
                &four,
            ),
        ),
        (
            239,
            [
                &[2, 0, 0, 0][..],
                &attribute(Order::Little, 1, &[0; 4]),
                &attribute(Order::Little, 9, &four),
            ]
            .concat(),
        ),
        (
            239,
            [
                &[10, 0, 0, 0][..],
                &attribute(Order::Big, 10, b"a\0"),
                &attribute(Order::Big, 9, &six),
            ]
            .concat(),
        ),
    ]
}

#[test]
fn every_link_type_leads_to_the_same_packet() {
    let (four, six) = (ipv4(6, &tcp(2)), ipv6(6, &tcp(2)));
    let behind = |head: &[u8], packet: &[u8]| [head, packet].concat();
    let cooked = |kind: u8, ethertype: [u8; 2]| {
        [&[0, kind, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0][..], &ethertype].concat()
    };
    let cooked2 = |kind: u8, ethertype: [u8; 2]| {
        let rest = [0, 0, 0, 0, 0, 3, 0, 1, kind, 6, 1, 2, 3, 4, 5, 6, 0, 0];
        [&ethertype[..], &rest].concat()
    };
    let tag = [0, 5];
    let tagged = |tags: &[[u8; 2]], last: [u8; 2]| {
        let mut types: Vec<[u8; 2]> = tags.to_vec();
        types.push(last);
        let behind: Vec<u8> = types[1..].iter().flat_map(|next| [tag, *next].concat()).collect();
        [&[2; 12][..], &types[0], &behind].concat()
    };
    let mut cases: Vec<(u32, Vec<u8>)> = vec![
        (1, ethernet(0x0800, &four)),
        (1, ethernet(0x86dd, &six)),
        (1, behind(&tagged(&[[0x81, 0]], [8, 0]), &four)),
        (1, behind(&tagged(&[[0x88, 0xa8], [0x81, 0]], [0x86, 0xdd]), &six)),
        (1, behind(&tagged(&[[0x91, 0], [0x81, 0], [0x81, 0]], [8, 0]), &four)),
        (12, four.clone()),
        (14, six.clone()),
        (101, four.clone()),
        (101, six.clone()),
        (228, four.clone()),
        (229, six.clone()),
        (0, behind(&[2, 0, 0, 0], &four)),
        (0, behind(&[0, 0, 0, 2], &four)),
        (0, behind(&[30, 0, 0, 0], &six)),
        (0, behind(&[0, 0, 0, 24], &six)),
        (108, behind(&[0, 0, 0, 2], &four)),
        (108, behind(&[0, 0, 0, 28], &six)),
        (113, behind(&cooked(0, [8, 0]), &four)),
        (113, behind(&cooked(4, [0x86, 0xdd]), &six)),
        (113, behind(&[&cooked(0, [0x81, 0])[..], &tag, &[8, 0]].concat(), &four)),
        (276, behind(&cooked2(0, [8, 0]), &four)),
        (276, behind(&cooked2(4, [0x86, 0xdd]), &six)),
        // The upper half of the number tells the size of checksums.
        (0xf400_0001, ethernet(0x0800, &four)),
    ];
    cases.extend(of_further_link_types());
    for (link, frame) in cases {
        let record = one(link, frame.clone()).unwrap_or_else(|skip| panic!("{link}: {skip:?}"));
        assert_eq!(ports(&record), (Some(40_000), Some(443)), "link type {link}");
        assert_eq!(record.tcp_flags, Some(2), "link type {link}");
        // Whatever is cut off, it is counted.
        for size in 0..frame.len() - 6 {
            let outcome = one(link, frame[..size].to_vec());
            assert_eq!(outcome.unwrap_err(), Skip::Cut, "link type {link}, {size} bytes");
        }
    }
}

#[test]
fn what_is_not_ip_is_counted() {
    assert_eq!(one(1, ethernet(0x0806, &[0; 28])), Err(Skip::NotIp));
    assert_eq!(one(1, ethernet(46, &[0; 46])), Err(Skip::NotIp));
    assert_eq!(one(108, vec![0, 0, 0, 7, 0, 0]), Err(Skip::NotIp));
    assert_eq!(one(1, ethernet(0x8100, &[0, 5, 0x81, 0].repeat(20))), Err(Skip::BadHeader));
    assert_eq!(one(228, ipv6(6, &tcp(2))), Err(Skip::BadHeader));
    assert_eq!(one(1, ethernet(0x0800, &ipv6(6, &tcp(2)))), Err(Skip::BadHeader));
    assert_eq!(one(101, vec![0x50; 40]), Err(Skip::BadHeader));
}

#[test]
fn frames_of_802_11_that_hold_no_single_plain_packet_are_not_ip() {
    let plain = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &ipv4(6, &tcp(2))].concat();
    for (head, what) in [
        ([&[8, 0x42][..], &[0; 22]].concat(), "encrypted"),
        ([&[0x80, 0][..], &[0; 22]].concat(), "a beacon"),
        ([&[0x48, 1][..], &[0; 22]].concat(), "no data"),
        ([&[0x88, 1][..], &[0; 22], &[0x80, 0]].concat(), "several in one"),
    ] {
        assert_eq!(one(105, [&head[..], &plain].concat()), Err(Skip::NotIp), "{what}");
    }
    assert_eq!(one(239, vec![2, 0, 0, 0, 3, 0, 1, 0]), Err(Skip::BadHeader));
    assert_eq!(one(1, ethernet(0x8847, &[0, 1, 1, 64, 0x10])), Err(Skip::NotIp));
}

#[test]
fn a_first_fragment_may_end_before_the_flags_of_tcp() {
    let short = one(101, ipv4_with(6, 0x2000, &[], &tcp(2)[..8])).unwrap();
    assert_eq!((ports(&short), short.tcp_flags), ((Some(40_000), Some(443)), None));
    assert_eq!(one(101, ipv4_with(6, 0x2000, &[], &tcp(2)[..3])), Err(Skip::BadHeader));
    // A packet that says to be whole is not.
    assert_eq!(one(101, ipv4(6, &tcp(2)[..8])), Err(Skip::BadHeader));
    let head = [&[6, 0, 0, 1, 0, 0, 0, 9][..], &tcp(2)[..8]].concat();
    let short = one(101, ipv6(44, &head)).unwrap();
    assert_eq!((ports(&short), short.tcp_flags), ((Some(40_000), Some(443)), None));
    assert_eq!((short.ttl, short.length), (Some(64), Some(56)));
}

#[test]
fn every_transport_has_its_fields() {
    for protocol in [17, 33, 132, 136] {
        let record = one(101, ipv4(protocol, &udp())).unwrap();
        assert_eq!((record.protocol, ports(&record)), (protocol, (Some(40_000), Some(53))));
        assert_eq!(record.tcp_flags, None);
    }
    let icmp = |record: PacketRecord| (record.icmp_type, record.icmp_code, ports(&record));
    let none = (None, None);
    let echo = (Some(3), Some(13), none);
    assert_eq!(icmp(one(101, ipv4(1, &[3, 13, 0, 0])).unwrap()), echo);
    assert_eq!(icmp(one(101, ipv6(58, &[3, 13, 0, 0])).unwrap()), echo);
    // The other family's ICMP is a protocol like any other.
    assert_eq!(icmp(one(101, ipv4(58, &[3, 13])).unwrap()), (None, None, none));
    assert_eq!(icmp(one(101, ipv6(1, &[3, 13])).unwrap()), (None, None, none));
    assert_eq!(icmp(one(101, ipv4(47, &udp())).unwrap()), (None, None, none));
    assert_eq!(icmp(one(101, ipv4(50, &[])).unwrap()), (None, None, none));
}

#[test]
fn ipv4_options_fragments_and_lengths() {
    let record = one(101, ipv4_with(6, 0, &[1; 40], &tcp(16))).unwrap();
    assert_eq!(ports(&record), (Some(40_000), Some(443)));

    let first = one(101, ipv4_with(17, 0x2000, &[], &udp())).unwrap();
    assert_eq!((first.is_later_fragment, ports(&first)), (false, (Some(40_000), Some(53))));
    let later = one(101, ipv4_with(17, 0x2001, &[], &udp())).unwrap();
    assert_eq!((later.is_later_fragment, ports(&later)), (true, (None, None)));
    assert_eq!(later.protocol, 17);

    // An Ethernet trailer behind a short packet is no port.
    let padded = [ipv4(17, &[1, 2]), vec![7; 30]].concat();
    assert_eq!(one(1, ethernet(0x0800, &padded)), Err(Skip::BadHeader));
    // Before segmentation, the length is 0.
    let mut offloaded = ipv4(6, &tcp(24));
    offloaded[2..4].fill(0);
    assert_eq!(one(101, offloaded).unwrap().tcp_flags, Some(24));
    let mut small = ipv4(6, &tcp(24));
    small[0] = 0x44;
    assert_eq!(one(101, small), Err(Skip::BadHeader));
    let mut lying = ipv4(6, &tcp(24));
    lying[2..4].copy_from_slice(&[0, 19]);
    assert_eq!(one(101, lying), Err(Skip::BadHeader));
}

#[test]
fn ipv6_extension_headers_and_fragments() {
    let hop_by_hop = |next: u8| vec![next, 0, 1, 4, 0, 0, 0, 0];
    let routing = |next: u8| [vec![next, 2, 0, 0], vec![0; 20]].concat();
    let authentication = |next: u8| [vec![next, 4, 0, 0], vec![0; 20]].concat();
    let fragment = |next: u8, offset: u16| {
        [&[next, 0][..], &(offset << 3 | 1).to_be_bytes(), &[0, 0, 0, 9]].concat()
    };
    let chain =
        [hop_by_hop(60), hop_by_hop(43), routing(44), fragment(51, 0), authentication(6), tcp(2)];
    let record = one(101, ipv6(0, &chain.concat())).unwrap();
    assert_eq!((record.protocol, ports(&record)), (6, (Some(40_000), Some(443))));
    assert!(!record.is_later_fragment);

    let later = one(101, ipv6(0, &[hop_by_hop(44), fragment(6, 5), tcp(2)].concat())).unwrap();
    assert_eq!((later.protocol, ports(&later)), (6, (None, None)));
    assert!(later.is_later_fragment && later.tcp_flags.is_none());

    assert_eq!(one(101, ipv6(59, &[])).unwrap().protocol, 59);
    // A header that says to be longer than its packet.
    assert_eq!(one(101, ipv6(0, &[6, 255, 0, 0, 0, 0, 0, 0])), Err(Skip::BadHeader));
    let mut jumbo = ipv6(0, &[hop_by_hop(17), udp()].concat());
    jumbo[4..6].fill(0);
    assert_eq!(ports(&one(101, jumbo).unwrap()), (Some(40_000), Some(53)));
    // Headers without end, as many as fit.
    let endless = hop_by_hop(0).repeat(8_000);
    assert_eq!(one(101, ipv6(0, &endless)), Err(Skip::BadHeader));
}

/// Two sections in different orders, with names, resolutions and every block of packets.
fn pcapng_sample() -> Vec<u8> {
    let packet = ipv4(17, &udp());
    let frame = ethernet(0x0800, &packet);
    let (little, big) = (Order::Little, Order::Big);
    let end = || option(little, 0, &[]);
    let options = [option(little, 2, b"eth0"), option(little, 9, &[9]), end()];
    let flags = |order: Order, flags: u32| option(order, 2, &order.u32(flags));
    let old = [
        &little.u16(1)[..],
        &little.u16(7),
        &little.u32(0),
        &little.u32(3),
        &little.u32(packet.len() as u32),
        &little.u32(900),
        &packet,
    ];
    let power = [option(big, 2, b"lan"), option(big, 9, &[0x80 | 10])];
    let offset = [option(big, 14, &big.u64(100)), option(big, 2, b"eth0")];
    [
        section(little),
        interface(little, 1, 0, &options),
        block(little, 4, &[1; 40]),
        enhanced(little, 0, 1_700_000_000_000_000_007, &frame, &[]),
        interface(little, 101, 26, &[]),
        enhanced(little, 1, 5, &packet, &[flags(little, 2), end()]),
        enhanced(little, 0, 5, &frame, &[option(little, 1, b"a word"), flags(little, 2)]),
        block(little, 2, &old.concat()),
        interface(little, 147, 0, &[]),
        enhanced(little, 2, 5, &frame, &[]),
        section(big),
        interface(big, 1, 42, &power),
        interface(big, 228, 0, &offset),
        simple(big, 2_000, &frame[..42]),
        enhanced(big, 0, 3 << 9, &frame, &[flags(big, 1)]),
        enhanced(big, 1, 7, &packet, &[]),
    ]
    .concat()
}

#[test]
fn pcapng_sections_interfaces_and_blocks() {
    let bytes = pcapng_sample();
    let mut capture = Capture::new(&bytes[..]).unwrap();
    assert_eq!(capture.format(), Format::PcapNg);
    let found: Vec<PacketRecord> = capture.by_ref().map(Result::unwrap).collect();
    assert!(found.iter().all(|record| ports(record) == (Some(40_000), Some(53))));
    let name = |interface: Option<_>| interface.and_then(|it| capture.interface_name(it));
    let seen: Vec<_> = found
        .iter()
        .map(|record| {
            (record.number, record.time_nanoseconds, name(record.input), name(record.output))
        })
        .collect();
    let expected = [
        (1, Some(1_700_000_000_000_000_007), Some("eth0"), None),
        (2, Some(5_000), None, None),
        (3, Some(5), None, Some("eth0")),
        (4, Some(3_000), None, None),
        (6, None, Some("lan"), None),
        (7, Some(1_500_000_000), Some("lan"), None),
        (8, Some(100_000_007_000), Some("eth0"), None),
    ];
    assert_eq!(seen, expected);
    assert_eq!(found[0].input, found[6].input, "one name has one number");
    assert_eq!((found[3].bytes, found[4].bytes), (Some(900), Some(2_000)));
    assert_eq!(capture.totals().skipped(Skip::LinkType), 1);
    assert_eq!(capture.totals().to_string(), "8 records, 1 skipped (1 unsupported link type)");
    assert_eq!(capture.offset_bytes(), bytes.len() as u64);
}

#[test]
fn errors_name_the_packet_and_its_offset() {
    let frame = ethernet(0x0800, &ipv4(17, &udp()));
    let mut bytes = pcap(1, &[frame.clone(), ethernet(0x0806, &[0; 28]), frame.clone()]);
    let third = 24 + 16 + 42 + 16 + 42;
    bytes.truncate(third + 16 + 41);
    let (found, error, totals) = read(&bytes);
    let error = error.unwrap();
    assert_eq!((found.len(), totals.records(), totals.skipped(Skip::NotIp)), (1, 2, 1));
    assert_eq!(error.kind(), ErrorKind::Truncated);
    assert_eq!((error.packet_number(), error.offset_bytes()), (Some(3), Some(third as u64)));
    let text = "packet 3 at byte 140: found the end of the source after 57 bytes, \
                allowed: a record of 58 bytes at least";
    assert_eq!(error.to_string(), text);

    let good = [section(Order::Big), interface(Order::Big, 1, 0, &[])].concat();
    let with = |block: Vec<u8>| read(&[good.clone(), block].concat()).1.unwrap();
    let error = with(enhanced(Order::Big, 1, 0, &frame, &[]));
    assert_eq!((error.kind(), error.packet_number()), (ErrorKind::Malformed, Some(1)));
    assert_eq!(error.found(), "interface 1");
    let mut other_end = enhanced(Order::Big, 0, 0, &frame, &[]);
    *other_end.last_mut().unwrap() ^= 4;
    assert_eq!(with(other_end).found(), "another size at the block's end");
    let long = enhanced(Order::Big, 0, 0, &frame, &[[0, 9, 1, 0].to_vec()]);
    assert_eq!(with(long).found(), "an option beyond its block");
    assert_eq!(with(block(Order::Big, 6, &[0; 16])).found(), "a packet block too short");
    assert_eq!(read(&interface(Order::Big, 1, 0, &[])).1.unwrap().kind(), ErrorKind::UnknownFormat);

    let unsupported = read(&pcap(195, &[])).1.unwrap();
    assert_eq!(
        (unsupported.kind(), unsupported.found()),
        (ErrorKind::Unsupported, "link type 195")
    );
    assert_eq!(read(&pcap(1, &[])[..23]).1.unwrap().kind(), ErrorKind::Truncated);
}

#[test]
fn declared_lengths_are_limited() {
    let mut bytes = pcap(1, &[vec![0; 60]]);
    bytes[32..36].fill(0xff);
    assert_eq!(read(&bytes).1.unwrap().kind(), ErrorKind::Limit);
    bytes[32..36].copy_from_slice(&(16u32 << 20).to_le_bytes());
    assert_eq!(read(&bytes).1.unwrap().kind(), ErrorKind::Truncated);

    let huge = |kind: u32| {
        let mut bytes = section(Order::Little);
        bytes.extend([kind.to_le_bytes(), 0xffff_fffcu32.to_le_bytes(), [0; 4], [0; 4]].concat());
        read(&bytes).1.unwrap().kind()
    };
    assert_eq!(huge(6), ErrorKind::Limit);
    // A block that is not looked at is skipped, whatever its size.
    assert_eq!(huge(5), ErrorKind::Truncated);
}

fn samples() -> Vec<Vec<u8>> {
    let frames = vec![
        ethernet(0x0800, &ipv4_with(6, 0, &[1; 8], &tcp(2))),
        ethernet(0x0806, &[0; 28]),
        ethernet(
            0x86dd,
            &ipv6(
                0,
                &[vec![44, 0, 0, 0, 0, 0, 0, 0], vec![17, 0, 0, 1, 0, 0, 0, 9], udp()].concat(),
            ),
        ),
    ];
    vec![pcap(1, &frames), pcapng_sample()]
}

#[test]
fn a_capture_cut_anywhere_keeps_what_came_before() {
    for bytes in samples() {
        let whole = records(&bytes);
        for size in 0..bytes.len() {
            let (found, error, _) = read(&bytes[..size]);
            assert_eq!(found, whole[..found.len()], "{size} bytes");
            // A cut between two records cannot be told from the end.
            assert!(error.is_none_or(|error| !error.to_string().contains('\n')));
        }
    }
}

#[test]
fn no_flipped_byte_panics() {
    for bytes in samples() {
        for at in 0..bytes.len() {
            for mask in [0x01, 0x80, 0xff, 0x10, 0x04] {
                let mut damaged = bytes.clone();
                damaged[at] ^= mask;
                let (found, _, totals) = read(&damaged);
                assert!(found.len() as u64 + totals.skipped_sum() <= totals.records());
            }
        }
    }
}

/// Gives a byte at a time, and fails at the end if it is told to.
struct Trickle<'a> {
    rest: &'a [u8],
    fails: bool,
}

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.fails && self.rest.is_empty() {
            return Err(io::Error::other("the line\nis cut"));
        }
        let size = buffer.len().min(1);
        self.rest.read(&mut buffer[..size])
    }
}

#[test]
fn the_sizes_of_reads_make_no_difference() {
    for bytes in samples() {
        let slow = Capture::new(Trickle { rest: &bytes, fails: false }).unwrap();
        let found: Result<Vec<_>, _> = slow.collect();
        assert_eq!(found.unwrap(), records(&bytes));

        let mut broken: Vec<_> =
            Capture::new(Trickle { rest: &bytes, fails: true }).unwrap().collect();
        let error = broken.pop().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreadable);
        assert!(!error.to_string().contains('\n'));
        assert_eq!(broken.len(), records(&bytes).len());
    }
}

#[test]
fn a_capture_longer_than_the_buffer() {
    let frames: Vec<Vec<u8>> = (0..3_000usize)
        .map(|index| ethernet(0x0800, &[ipv4(17, &udp()), vec![0; index % 1_400]].concat()))
        .collect();
    let mut frames = frames;
    frames[1_500].resize(1 << 20, 0);
    let found = records(&pcap(1, &frames));
    assert_eq!(found.len(), 3_000);
    for (index, record) in found.iter().enumerate() {
        assert_eq!(record.time_nanoseconds, Some(index as i64 * 1_000_000_000));
        assert_eq!(record.bytes, Some(frames[index].len() as u64));
    }
}

proptest::proptest! {
    /// Whatever the bytes, there are records and at most one error, and both are within limits.
    #[test]
    fn any_bytes_in_any_format(
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400),
        format in proptest::sample::select(Format::ALL.to_vec()),
    ) {
        if let Ok(capture) = Capture::with_format(&bytes[..], format) {
            proptest::prop_assert!(capture.count() <= bytes.len() + 1);
        }
    }

    #[test]
    fn any_packet_behind_any_link(
        link in proptest::sample::select(vec![0u32, 1, 101, 108, 113, 228, 229, 276]),
        version in proptest::sample::select(vec![0x45u8, 0x60, 0x4f]),
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..120),
    ) {
        let mut packet = bytes;
        if let Some(first) = packet.first_mut() {
            *first = version;
        }
        let frame = match link {
            1 => ethernet(if version == 0x60 { 0x86dd } else { 0x0800 }, &packet),
            _ => packet,
        };
        let _ = one(link, frame);
    }
}
