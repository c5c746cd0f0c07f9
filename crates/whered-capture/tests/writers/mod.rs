//! Captures written by hand, byte by byte, so that nothing of the reader is trusted.

/// Either byte order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    Little,
    Big,
}

impl Order {
    pub(crate) const BOTH: [Order; 2] = [Order::Little, Order::Big];

    pub(crate) fn u16(self, number: u16) -> [u8; 2] {
        if self == Order::Little { number.to_le_bytes() } else { number.to_be_bytes() }
    }

    pub(crate) fn u32(self, number: u32) -> [u8; 4] {
        if self == Order::Little { number.to_le_bytes() } else { number.to_be_bytes() }
    }

    pub(crate) fn u64(self, number: u64) -> [u8; 8] {
        if self == Order::Little { number.to_le_bytes() } else { number.to_be_bytes() }
    }
}

pub(crate) fn pcap_head(order: Order, magic: u32, link: u32) -> Vec<u8> {
    let mut bytes = order.u32(magic).to_vec();
    bytes.extend(order.u16(2));
    bytes.extend(order.u16(4));
    for number in [0, 0, 65_535, link] {
        bytes.extend(order.u32(number));
    }
    bytes
}

pub(crate) fn pcap_record(order: Order, time: (u32, u32), frame: &[u8], original: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in [time.0, time.1, frame.len() as u32, original] {
        bytes.extend(order.u32(number));
    }
    bytes.extend(frame);
    bytes
}

/// A little-endian capture in microseconds.
pub(crate) fn pcap(link: u32, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = pcap_head(Order::Little, 0xa1b2_c3d4, link);
    for (index, frame) in frames.iter().enumerate() {
        let time = (index as u32, 0);
        bytes.extend(pcap_record(Order::Little, time, frame, frame.len() as u32));
    }
    bytes
}

pub(crate) fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let size = order.u32(body.len() as u32 + 12);
    [&order.u32(kind)[..], &size, &body, &size].concat()
}

pub(crate) fn section(order: Order) -> Vec<u8> {
    let versions = [order.u16(1), order.u16(0)].concat();
    block(
        order,
        0x0a0d_0d0a,
        &[&order.u32(0x1a2b_3c4d)[..], &versions, &order.u64(u64::MAX)].concat(),
    )
}

pub(crate) fn option(order: Order, code: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [order.u16(code), order.u16(value.len() as u16)].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

pub(crate) fn interface(order: Order, link: u16, snaplen: u32, options: &[Vec<u8>]) -> Vec<u8> {
    let head = [&order.u16(link)[..], &order.u16(0), &order.u32(snaplen)].concat();
    block(order, 1, &[head, options.concat()].concat())
}

pub(crate) fn enhanced(
    order: Order,
    interface: u32,
    ticks: u64,
    frame: &[u8],
    options: &[Vec<u8>],
) -> Vec<u8> {
    let mut body = Vec::new();
    let size = frame.len() as u32;
    for number in [interface, (ticks >> 32) as u32, ticks as u32, size, size] {
        body.extend(order.u32(number));
    }
    body.extend(frame);
    body.resize(body.len().next_multiple_of(4), 0);
    body.extend(options.concat());
    block(order, 6, &body)
}

pub(crate) fn simple(order: Order, original: u32, frame: &[u8]) -> Vec<u8> {
    block(order, 3, &[&order.u32(original)[..], frame].concat())
}

pub(crate) fn ethernet(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&[2; 6][..], &[4; 6], &ethertype.to_be_bytes(), payload].concat()
}

/// From 192.0.2.1 to 198.51.100.7, DSCP 46.
pub(crate) fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    ipv4_with(protocol, 0, &[], payload)
}

pub(crate) fn ipv4_with(protocol: u8, fragment: u16, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let size = (20 + options.len() + payload.len()) as u16;
    let mut bytes = vec![0x45 + (options.len() / 4) as u8, 46 << 2];
    bytes.extend(size.to_be_bytes());
    bytes.extend([0, 7]);
    bytes.extend(fragment.to_be_bytes());
    bytes.extend([64, protocol, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7]);
    bytes.extend(options);
    bytes.extend(payload);
    bytes
}

/// From 2001:db8::1 to 2001:db8::2, DSCP 46.
pub(crate) fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60 | (46 >> 2), (46 & 3) << 6 | 5, 1, 2];
    bytes.extend((payload.len() as u16).to_be_bytes());
    bytes.extend([next, 64]);
    for last in [1, 2] {
        bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    bytes.extend(payload);
    bytes
}

/// From port 40000 to 443.
pub(crate) fn tcp(flags: u8) -> Vec<u8> {
    let mut bytes = [40_000u16.to_be_bytes(), 443u16.to_be_bytes()].concat();
    bytes.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 1, 0, 0, 0, 0, 0]);
    bytes
}

pub(crate) fn udp() -> Vec<u8> {
    [&40_000u16.to_be_bytes()[..], &53u16.to_be_bytes(), &[0, 8, 0, 0]].concat()
}
