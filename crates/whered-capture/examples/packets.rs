//! Prints the packets or flows of a capture, one a line, and the totals at the end.
//!
//! Run: `cargo run -p whered-capture --example packets -- FILE`, or with the bytes on standard
//! input. Not for: compressed files.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};

use whered_capture::Capture;

fn main() -> Result<(), Box<dyn Error>> {
    let input: Box<dyn Read> = match std::env::args_os().nth(1) {
        Some(path) => Box::new(File::open(path)?),
        None => Box::new(io::stdin().lock()),
    };
    let mut output = BufWriter::new(io::stdout().lock());
    let mut capture = Capture::new(input)?;
    let mut outcome = Ok(());
    while let Some(item) = capture.next() {
        let packet = match item {
            Ok(packet) => packet,
            Err(error) => {
                outcome = Err(error.into());
                break;
            }
        };
        write!(
            output,
            "{} {} {} {}",
            packet.number, packet.source, packet.destination, packet.protocol
        )?;
        for port in [packet.source_port, packet.destination_port].into_iter().flatten() {
            write!(output, " {port}")?;
        }
        if let Some(name) = packet.input.and_then(|input| capture.interface_name(input)) {
            write!(output, " in={name}")?;
        }
        writeln!(output)?;
    }
    writeln!(output, "{}: {}", capture.format(), capture.totals())?;
    output.flush()?;
    outcome
}
