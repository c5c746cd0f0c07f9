//! A zone as a master file that any server reads: each record in one line, its data in the form for
//! types that nobody knows (RFC 3597).
//!
//! Not for: files that people read.

use std::io::{self, Write};

use super::Zone;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

impl Zone {
    /// Writes all records, the SOA first.
    ///
    /// ```
    /// use whered_dns::{Name, Zone};
    /// let text = b"@ 60 IN SOA ns hostmaster 7 1d 2h 4w 5m\n@ 60 NS ns\nns 60 A 192.0.2.1\n";
    /// let origin: Name = "example.com".parse()?;
    /// let read = |text: &[u8]| Zone::from_master_file(&origin, text, &mut |_| Err("no".into()));
    /// let (zone, mut copy) = (read(text)?, Vec::new());
    /// zone.write_master_file(&mut copy)?;
    /// assert!(copy.ends_with(b"ns.example.com. 60 IN TYPE1 \\# 4 c0000201\n"));
    /// assert!(read(&copy)?.records().eq(zone.records()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn write_master_file(&self, out: &mut impl Write) -> io::Result<()> {
        let mut line = Vec::with_capacity(512);
        for record in self.records() {
            line.clear();
            let (owner, ttl, number) = (&record.owner, record.ttl_seconds, record.record_type.0);
            write!(line, "{owner} {ttl} IN TYPE{number} \\# {}", record.data.len())?;
            if !record.data.is_empty() {
                line.push(b' ');
            }
            for byte in &record.data {
                line.push(DIGITS[usize::from(byte >> 4)]);
                line.push(DIGITS[usize::from(byte & 15)]);
            }
            line.push(b'\n');
            out.write_all(&line)?;
        }
        Ok(())
    }
}
