//! Members to texts: what `read_set` reads back with the same addresses.
//!
//! ```text
//! plain    a block a line
//! ipset    create NAME ..., create NAME-6 ..., then add lines: what `ipset restore` takes
//! nft      table inet whered { set NAME { ... elements = { ... } } set NAME-6 { ... } }
//! json     [                                    one member a line
//! ```
//!
//! ipset and nft keep families apart, and so do these texts. nft merges members that overlap, and
//! one of them that expires may take others with it: summarise such sets first. ipset has no ranges
//! of IPv6 and no prefix of no bits: both are written as the prefixes that they consist of. Values
//! become comments, without what the format cannot hold; `plain` has neither values nor expiries.
//!
//! Cost: what printing takes; nothing is kept but where the text is.

use std::io::Write as _;

use super::SetFormat;
use crate::{Block, PrefixMatch};

/// Writes members, given in the order of [`Block`], as a text.
///
/// # Examples
///
/// ```
/// use whered_ip::{Block, LayeredSet, SetFormat, SetWriter};
///
/// let mut set = LayeredSet::new();
/// set.insert("192.0.2.0/24".parse::<Block>()?, Some(b"lab"), None, 0);
/// let mut writer = SetWriter::new(SetFormat::Json, "nets", set.len(), 0).expect("it is written");
/// let mut text = Vec::new();
/// set.iter(0).for_each(|member| writer.member(&member, &mut text));
/// writer.end(&mut text);
/// assert_eq!(text, b"[\n{\"prefix\":\"192.0.2.0/24\",\"value\":\"lab\"}\n]\n");
/// # Ok::<(), whered_ip::BlockError>(())
/// ```
#[derive(Debug)]
pub struct SetWriter {
    format: SetFormat,
    name: String,
    len: usize,
    now_millis: u64,
    at: Place,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Begin,
    Ipv4,
    Ipv6,
}

/// The longest comment of ipset and nft.
const COMMENT_BYTES: usize = 127;

impl SetWriter {
    /// A writer for `len` members of a set with this name; expiries become the seconds from
    /// `now_millis` on. `None` for formats that are only read: `csv` and `nft-json`.
    #[must_use]
    pub fn new(format: SetFormat, name: &str, len: usize, now_millis: u64) -> Option<SetWriter> {
        if matches!(format, SetFormat::Csv | SetFormat::NftJson) {
            return None;
        }
        // Names of the kernel's sets have up to 31 bytes, of these letters in both programs.
        let is_allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let mut name: String =
            name.chars().map(|c| if is_allowed(&c) { c } else { '_' }).take(29).collect();
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            name.insert(0, 's');
            name.truncate(29);
        }
        Some(SetWriter { format, name, len, now_millis, at: Place::Begin })
    }

    /// Appends a member.
    pub fn member(&mut self, member: &PrefixMatch<'_>, out: &mut Vec<u8>) {
        let place = if member.block.is_ipv4() { Place::Ipv4 } else { Place::Ipv6 };
        let is_first = self.at != place;
        if self.at == Place::Begin {
            self.begin(out);
        }
        match self.format {
            SetFormat::Ipset => self.ipset_lines(member, out),
            SetFormat::Nft => {
                if is_first {
                    self.nft_set(place, out);
                }
                out.extend_from_slice(if is_first { b"\t\t\t" } else { b",\n\t\t\t" });
                self.nft_element(member, out);
            }
            SetFormat::Json => {
                out.extend_from_slice(if self.at == Place::Begin { b"\n" } else { b",\n" });
                self.json_member(member, out);
            }
            _ => print(out, format_args!("{}\n", BlockText(&member.block))),
        }
        self.at = place;
    }

    /// Appends what stands behind the last member.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        if self.at == Place::Begin {
            self.begin(out);
        }
        match self.format {
            SetFormat::Nft => {
                if self.at != Place::Begin {
                    out.extend_from_slice(b"\n\t\t}\n\t}\n");
                }
                out.extend_from_slice(b"}\n");
            }
            SetFormat::Json => out.extend_from_slice(b"\n]\n"),
            _ => {}
        }
        self.at = Place::Begin;
    }

    fn begin(&self, out: &mut Vec<u8>) {
        let name = &self.name;
        match self.format {
            SetFormat::Ipset => {
                // A range may become some prefixes.
                let room = self.len.saturating_mul(8).max(1 << 16);
                for (name, family) in [(name.clone(), "inet"), (format!("{name}-6"), "inet6")] {
                    print(
                        out,
                        format_args!(
                            "create {name} hash:net family {family} maxelem {room} timeout 0 comment\n"
                        ),
                    );
                }
            }
            SetFormat::Nft => out.extend_from_slice(b"table inet whered {\n"),
            SetFormat::Json => out.push(b'['),
            _ => {}
        }
    }

    fn nft_set(&self, place: Place, out: &mut Vec<u8>) {
        if self.at != Place::Begin {
            out.extend_from_slice(b"\n\t\t}\n\t}\n");
        }
        let (suffix, kind) =
            if place == Place::Ipv4 { ("", "ipv4_addr") } else { ("-6", "ipv6_addr") };
        // A name of nft has no points.
        let name = self.name.replace('.', "_");
        print(
            out,
            format_args!(
                "\tset {name}{suffix} {{\n\t\ttype {kind}\n\t\tflags interval,timeout\n\
                 \t\tauto-merge\n\t\telements = {{\n"
            ),
        );
    }

    fn nft_element(&self, member: &PrefixMatch<'_>, out: &mut Vec<u8>) {
        print(out, format_args!("{}", BlockText(&member.block)));
        if let Some(seconds) = self.seconds(member) {
            print(out, format_args!(" timeout {seconds}s"));
        }
        comment(member, out);
    }

    fn ipset_lines(&self, member: &PrefixMatch<'_>, out: &mut Vec<u8>) {
        let name = &self.name;
        let (suffix, longest) = if member.block.is_ipv4() { ("", 32) } else { ("-6", 128) };
        let mut line = |shown: &dyn std::fmt::Display| {
            print(out, format_args!("add {name}{suffix} {shown}"));
            if let Some(seconds) = self.seconds(member) {
                print(out, format_args!(" timeout {seconds}"));
            }
            comment(member, out);
            out.push(b'\n');
        };
        for prefix in member.block.prefixes() {
            if prefix.length_bits() == 0 {
                // Two halves of all there is.
                let (low, high) =
                    if longest == 32 { ("0.0.0.0", "128.0.0.0") } else { ("::", "8000::") };
                line(&format_args!("{low}/1"));
                line(&format_args!("{high}/1"));
            } else if prefix.length_bits() == longest {
                line(&prefix.address());
            } else {
                line(&prefix);
            }
        }
    }

    fn json_member(&self, member: &PrefixMatch<'_>, out: &mut Vec<u8>) {
        let shown = BlockText(&member.block);
        let seconds = self.seconds(member);
        if member.value.is_none() && seconds.is_none() {
            print(out, format_args!("\"{shown}\""));
            return;
        }
        print(out, format_args!("{{\"prefix\":\"{shown}\""));
        if let Some(value) = member.value {
            out.extend_from_slice(b",\"value\":\"");
            escape(&String::from_utf8_lossy(value), out);
            out.push(b'"');
        }
        if let Some(seconds) = seconds {
            print(out, format_args!(",\"seconds\":{seconds}"));
        }
        out.push(b'}');
    }

    /// How long the member has, at least a second.
    fn seconds(&self, member: &PrefixMatch<'_>) -> Option<u64> {
        let left = member.expires_at_millis?.saturating_sub(self.now_millis);
        Some(left.div_ceil(1000).max(1))
    }
}

/// Appends to memory, which cannot fail.
fn print(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

/// A block as lists write it: an address alone has no length.
struct BlockText<'a>(&'a Block);

impl std::fmt::Display for BlockText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.first() == self.0.last() {
            write!(f, "{}", self.0.first())
        } else {
            write!(f, "{}", self.0)
        }
    }
}

/// Appends the value as a comment, without quotes and what is not printed.
fn comment(member: &PrefixMatch<'_>, out: &mut Vec<u8>) {
    let Some(value) = member.value else { return };
    let mut shown = String::new();
    for c in String::from_utf8_lossy(value).chars() {
        let c = if c.is_control() || c == '"' || c == '\\' { ' ' } else { c };
        if shown.len() + c.len_utf8() > COMMENT_BYTES {
            break;
        }
        shown.push(c);
    }
    // ipset takes no empty one.
    if !shown.is_empty() {
        print(out, format_args!(" comment \"{shown}\""));
    }
}

/// Appends a text as JSON has it between quotes.
fn escape(text: &str, out: &mut Vec<u8>) {
    for c in text.chars() {
        match c {
            '"' | '\\' => print(out, format_args!("\\{c}")),
            '\n' => out.extend_from_slice(b"\\n"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\r' => out.extend_from_slice(b"\\r"),
            c if c.is_control() => print(out, format_args!("\\u{:04x}", u32::from(c))),
            c => print(out, format_args!("{c}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AddressRanges, LayeredSet, read_set};

    fn sample() -> LayeredSet {
        let mut set = LayeredSet::new();
        let blocks = [
            ("0.0.0.0/0", None, None),
            ("10.0.0.3-10.0.0.9", Some(&b"a \"quoted\"\nline"[..]), Some(61_500)),
            ("192.0.2.1", Some(b"\xff\\"), None),
            ("2001:db8::/32", None, Some(1)),
            ("2001:db8::1-2001:db8::5", Some(b""), None),
        ];
        for (text, value, at) in blocks {
            set.insert(text.parse::<Block>().expect("a block"), value, at, 0);
        }
        set
    }

    fn written(format: SetFormat, set: &LayeredSet) -> String {
        let mut writer = SetWriter::new(format, "a b.c", set.len(), 500).expect("it is written");
        let mut out = Vec::new();
        set.iter(0).for_each(|member| writer.member(&member, &mut out));
        writer.end(&mut out);
        String::from_utf8(out).expect("texts are UTF-8")
    }

    #[test]
    fn what_is_written_is_read_back_with_the_same_addresses() {
        for set in [sample(), LayeredSet::new()] {
            for format in [SetFormat::Plain, SetFormat::Ipset, SetFormat::Nft, SetFormat::Json] {
                let text = written(format, &set);
                let mut read = Vec::new();
                read_set(format, text.as_bytes(), |entry| read.push(entry))
                    .unwrap_or_else(|error| panic!("{error} in {text}"));
                let addresses: AddressRanges = read.iter().map(|entry| entry.block).collect();
                assert_eq!(addresses, set.addresses(0), "{text}");
                if format != SetFormat::Ipset {
                    let blocks: Vec<Block> = read.iter().map(|entry| entry.block).collect();
                    let members: Vec<Block> = set.iter(0).map(|member| member.block).collect();
                    assert_eq!(blocks, members, "{text}");
                }
                if format == SetFormat::Json && !set.is_empty() {
                    assert_eq!(read[1].value.as_deref(), Some(&b"a \"quoted\"\nline"[..]));
                    assert_eq!(read[1].ttl_seconds, Some(61));
                }
            }
        }
    }

    #[test]
    fn names_that_the_kernel_refuses_are_changed() {
        let text = written(SetFormat::Nft, &sample());
        assert!(text.contains("set a_b_c {") && text.contains("set a_b_c-6 {"), "{text}");
        assert!(written(SetFormat::Ipset, &sample()).starts_with("create a_b.c hash:net"));
        assert!(SetWriter::new(SetFormat::Csv, "s", 0, 0).is_none());
    }
}
