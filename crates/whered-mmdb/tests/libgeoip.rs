//! All legacy editions agree with libGeoIP, asked through a small C program: the record and the
//! network of random addresses and of both ends of every network.

#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]

mod support;

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{Random, legacy};
use whered_ip::Prefix;
use whered_mmdb::{Database, FieldPath, Format, LegacyEdition, RecordId};

/// The compiled peer, in a folder that goes away with this value.
struct Peer {
    folder: PathBuf,
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Nothing depends on it.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Peer {
    fn compile() -> Option<Peer> {
        let probe = ["-include", "GeoIPCity.h", "-x", "c", "-fsyntax-only", "/dev/null"];
        match Command::new("cc").args(probe).output() {
            Ok(output) if output.status.success() => {}
            _ => {
                support::skip("peers", "there is no C compiler cc with the header GeoIPCity.h");
                return None;
            }
        }
        let folder = std::env::temp_dir().join(format!("whered-libgeoip-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let peer = Peer { folder };
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/peer.c");
        let compiled = Command::new("cc")
            .args(["-Wall", "-Wextra", "-Werror"])
            .arg(source)
            .arg("-o")
            .arg(peer.program())
            .arg("-lGeoIP")
            .output()
            .unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        Some(peer)
    }

    fn program(&self) -> PathBuf {
        self.folder.join("peer")
    }

    /// The name of the edition and an answer for each address.
    fn ask(&self, bytes: &[u8], edition: LegacyEdition, addresses: &[IpAddr]) -> Vec<String> {
        let file = self.folder.join(format!("{}.dat", edition.number()));
        std::fs::write(&file, bytes).unwrap();
        let family = if legacy::is_ipv6(edition) { "6" } else { "4" };
        let mut child = Command::new(self.program())
            .arg(file)
            .args([family, question(edition)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines: String = addresses.iter().map(|address| format!("{address}\n")).collect();
        let mut input = child.stdin.take().unwrap();
        let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        assert!(output.status.success(), "{edition:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_string).collect()
    }
}

fn question(edition: LegacyEdition) -> &'static str {
    use LegacyEdition as E;
    match edition {
        E::Country | E::CountryV6 | E::NetSpeed => "id",
        E::RegionRev0 | E::RegionRev1 => "region",
        E::CityRev0 | E::CityRev1 | E::CityRev0V6 | E::CityRev1V6 => "record",
        _ => "name",
    }
}

/// What the peer would say, from what this crate says.
fn own(database: &Database, edition: LegacyEdition, address: IpAddr) -> String {
    let answer = database.lookup(address).unwrap();
    let Some(id) = answer.record else {
        return "nothing".to_string();
    };
    let text = |path: &str| {
        let path: FieldPath = path.parse().unwrap();
        database.text(id, &path).unwrap().map(std::borrow::Cow::into_owned)
    };
    let shown = |path: &str| text(path).unwrap_or_else(|| "-".to_string());
    let number = |path: &str| database.number(id, &path.parse().unwrap()).unwrap();
    let mask = answer.prefix.length_bits();
    match question(edition) {
        "id" if edition == LegacyEdition::NetSpeed => {
            let speeds = ["", "Dialup", "Cable/DSL", "Corporate"];
            let speed = speeds.iter().position(|speed| *speed == shown("connection_type")).unwrap();
            format!("{mask}\t{speed}\t{}", ["--", "AP", "EU", "AD"][speed])
        }
        "id" => format!("{mask}\t{}\t{}", id.to_u32(), shown("country.iso_code")),
        "region" => {
            format!("{mask}\t{}\t{}", shown("country.iso_code"), shown("subdivisions.0.iso_code"))
        }
        "record" => format!(
            "{mask}\t{}\t{}\t{}\t{}\t{:.4}\t{:.4}\t{}\t{}",
            text("country.iso_code").unwrap_or_else(|| "--".to_string()),
            shown("subdivisions.-1.iso_code"),
            shown("city.names.en"),
            shown("postal.code"),
            number("location.latitude").unwrap(),
            number("location.longitude").unwrap(),
            number("location.metro_code").unwrap_or(0.0),
            number("location.area_code").unwrap_or(0.0),
        ),
        _ => format!("{mask}\t{}", name(database, id, &text)),
    }
}

/// The text of an edition that has one; the two fields of an autonomous system together.
fn name(database: &Database, id: RecordId, text: &dyn Fn(&str) -> Option<String>) -> String {
    let path = "autonomous_system_number".parse().unwrap();
    if let Some(number) = database.number(id, &path).unwrap() {
        return format!("AS{number} {}", text("autonomous_system_organization").unwrap());
    }
    ["isp", "organization", "domain", "connection_type"].into_iter().find_map(text).unwrap()
}

/// Both ends of every network, and addresses from anywhere.
fn addresses(database: &Database, edition: LegacyEdition, random: &mut Random) -> Vec<IpAddr> {
    let is_ipv6 = legacy::is_ipv6(edition);
    let as_asked = |address: IpAddr| match address {
        // The peer takes only IPv6 addresses in such a file.
        IpAddr::V4(address) if is_ipv6 => {
            IpAddr::V6(Ipv6Addr::from_bits(u128::from(address.to_bits())))
        }
        other => other,
    };
    let mut addresses = Vec::new();
    for item in database.networks() {
        let (prefix, _) = item.unwrap();
        addresses.extend([prefix.address(), last(prefix)].map(as_asked));
    }
    for _ in 0..500 {
        let bits = (8 + random.below(5) as u32) << 24 | random.next_u64() as u32 & 0x00ff_ffff;
        addresses.push(as_asked(IpAddr::V4(Ipv4Addr::from_bits(bits))));
        if is_ipv6 {
            let bits = 0x2001_0db8 << 32 | u64::from(random.next_u64() as u32) & 0xff00_ffff;
            let bits = u128::from(bits) << 64 | u128::from(random.next_u64());
            addresses.push(IpAddr::V6(Ipv6Addr::from_bits(bits)));
        }
    }
    addresses
}

fn last(prefix: Prefix) -> IpAddr {
    let free = |bits: u8| (1_u128 << bits).wrapping_sub(1);
    match prefix.address() {
        IpAddr::V4(address) => {
            let host = free(32 - prefix.length_bits()) as u32;
            IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() | host))
        }
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() | free(128 - prefix.length_bits())))
        }
    }
}

#[test]
fn every_edition_agrees_with_libgeoip() {
    let Some(peer) = Peer::compile() else { return };
    let mut random = Random(31);
    for edition in legacy::EDITIONS {
        for count in [1, 20, 400] {
            let records = legacy::random_records(edition, count, &mut random);
            let bytes = legacy::write_edition(edition, &records, "GEO-000 20120102 Build 1");
            let database = Database::from_bytes(bytes.clone()).unwrap();
            assert_eq!(database.format(), Format::Legacy(edition));
            assert_eq!(database.metadata().build_epoch_seconds, 1_325_462_400);
            database.verify().unwrap();
            let addresses = addresses(&database, edition, &mut random);
            let answers = peer.ask(&bytes, edition, &addresses);
            let (name, answers) = answers.split_first().unwrap();
            assert_eq!(name, database.metadata().database_type.as_str());
            assert_eq!(answers.len(), addresses.len());
            let mut found = 0;
            for (address, answer) in addresses.iter().zip(answers) {
                let own = own(&database, edition, *address);
                assert_eq!(&own, answer, "{edition:?}: {address}");
                found += usize::from(own != "nothing");
            }
            assert!(found > 1, "{edition:?}: only {found} of {}", addresses.len());
        }
    }
}
