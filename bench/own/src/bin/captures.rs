//! Reads captures of 200 MB that it makes in memory, and prints packets a second.
//!
//! Run: `cargo run --release -p whered-own-bench --bin captures`. Shapes: TCP over Ethernet with 60
//! bytes a frame (as dense as it gets) and with 600, as pcap and as pcapng with a name and flags;
//! the same flows as rows of a table and as lines. Every run checks its count and a sum of ports.
//! Not for comparisons with others.

use std::error::Error;
use std::io::{self, Write};
use std::time::Instant;

use whered_capture::Capture;

const SIZE_BYTES: usize = 200_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    measure("pcap/frames-of-60", &pcap(60))?;
    measure("pcap/frames-of-600", &pcap(600))?;
    measure("pcapng/frames-of-60", &pcapng(60))?;
    measure("csv/seven-columns", &table(b"src,dst,proto,sport,dport,state,in\n", b','))?;
    measure("lines/five-words", &table(b"", b' '))
}

struct Input {
    bytes: Vec<u8>,
    count: u64,
    port_sum: u64,
}

fn measure(name: &str, made: &Input) -> Result<(), Box<dyn Error>> {
    for _ in 0..3 {
        let start = Instant::now();
        let (mut count, mut port_sum) = (0, 0);
        for packet in Capture::new(&made.bytes[..])? {
            let packet = packet?;
            count += 1;
            port_sum += packet.source_port.map_or(0, u64::from);
        }
        let seconds = start.elapsed().as_secs_f64();
        if (count, port_sum) != (made.count, made.port_sum) {
            return Err("another count or sum than was written".into());
        }
        writeln!(
            io::stdout(),
            "{name}: {count} packets, {:.2} M packets/s, {:.0} MB/s",
            count as f64 / seconds / 1e6,
            made.bytes.len() as f64 / seconds / 1e6
        )?;
    }
    Ok(())
}

/// A SYN over Ethernet whose addresses and port follow from its number.
fn frame(number: u64, size: usize) -> Vec<u8> {
    let mut frame = vec![0; size];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&((size - 14) as u16).to_be_bytes());
    frame[23] = 6;
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    frame[26..34].copy_from_slice(&mixed.to_be_bytes());
    frame[34..36].copy_from_slice(&port(number).to_be_bytes());
    frame[36..38].copy_from_slice(&443u16.to_be_bytes());
    frame[47] = 2;
    frame
}

fn port(number: u64) -> u16 {
    (number % 65_521) as u16
}

fn repeat(head: Vec<u8>, mut add: impl FnMut(u64, &mut Vec<u8>)) -> Input {
    let mut made = Input { bytes: head, count: 0, port_sum: 0 };
    made.bytes.reserve(SIZE_BYTES + 4096);
    while made.bytes.len() < SIZE_BYTES {
        add(made.count, &mut made.bytes);
        made.port_sum += u64::from(port(made.count));
        made.count += 1;
    }
    made
}

fn numbers(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn pcap(size: usize) -> Input {
    repeat(numbers(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1]), |number, bytes| {
        bytes.extend(numbers(&[number as u32, 7, size as u32, size as u32]));
        bytes.extend(frame(number, size));
    })
}

fn pcapng(size: usize) -> Input {
    let mut head = numbers(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28]);
    head.extend(numbers(&[1, 28, 1, 0, 4 << 16 | 2]));
    head.extend(b"eth0");
    head.extend(numbers(&[28]));
    let total = (32 + size + 12) as u32;
    repeat(head, |number, bytes| {
        bytes.extend(numbers(&[6, total, 0, 0, number as u32, size as u32, size as u32]));
        bytes.extend(frame(number, size));
        bytes.extend(numbers(&[4 << 16 | 2, 1, 0, total]));
    })
}

fn table(head: &[u8], delimiter: u8) -> Input {
    repeat(head.to_vec(), |number, bytes| {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let mut row = format!(
            "{}.{}.{}.{},{}.{}.{}.{},tcp,{},443",
            mixed[0],
            mixed[1],
            mixed[2],
            mixed[3],
            mixed[4],
            mixed[5],
            mixed[6],
            mixed[7],
            port(number)
        );
        if delimiter == b',' {
            row.push_str(",new,eth0");
        }
        bytes.extend(row.bytes().map(|byte| if byte == b',' { delimiter } else { byte }));
        bytes.push(b'\n');
    })
}
