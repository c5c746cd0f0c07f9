//! Makes legacy country files: the crate itself only reads them.

use std::net::IpAddr;
use whered_ip::Prefix;

const BASE: u32 = 16_776_960;

/// A legacy country file with these countries; later prefixes overwrite earlier ones.
pub fn write(is_ipv6: bool, prefixes: &[(Prefix, u8)], info: &str) -> Vec<u8> {
    let mut nodes = vec![[BASE; 2]];
    for &(prefix, country) in prefixes {
        let (bits, length) = match prefix.address() {
            IpAddr::V4(address) if is_ipv6 => {
                (u128::from(address.to_bits()), 96 + u32::from(prefix.length_bits()))
            }
            IpAddr::V4(address) => {
                (u128::from(address.to_bits()) << 96, u32::from(prefix.length_bits()))
            }
            IpAddr::V6(address) => (address.to_bits(), u32::from(prefix.length_bits())),
        };
        assert!(length > 0, "a legacy tree has at least its root");
        let mut node = 0;
        for position in 0..length {
            let side = (bits >> (127 - position) & 1) as usize;
            if position + 1 == length {
                nodes[node][side] = BASE + u32::from(country);
            } else if nodes[node][side] >= BASE {
                let inherited = nodes[node][side];
                nodes[node][side] = nodes.len() as u32;
                node = nodes.len();
                nodes.push([inherited; 2]);
            } else {
                node = nodes[node][side] as usize;
            }
        }
    }
    let mut bytes = Vec::new();
    for record in nodes.iter().flatten() {
        bytes.extend(&record.to_le_bytes()[..3]);
    }
    bytes.extend([0; 3]);
    bytes.extend(info.as_bytes());
    bytes.extend([0xff, 0xff, 0xff, if is_ipv6 { 12 } else { 106 }]);
    bytes
}
