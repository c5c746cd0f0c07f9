//! A record while the columns of its row come in, in any order.
//!
//! For: values by column, and what can be said only when all are there (the ICMP of a family,
//! ports of a protocol that has none). Not for: texts of rows.
//!
//! Invariant: a finished record has both addresses, of one family, and a protocol.

use std::net::IpAddr;

use super::column::Column;
use super::value::{self, Protocol};
use crate::interfaces::Interfaces;
use crate::ip::protocol;
use crate::record::{ConnectionState, PacketRecord};

pub(crate) struct RecordBuilder {
    pub(crate) record: PacketRecord,
    pub(crate) source: Option<IpAddr>,
    pub(crate) destination: Option<IpAddr>,
    pub(crate) protocol: Option<Protocol>,
}

impl RecordBuilder {
    pub(crate) fn new() -> Self {
        // The number comes when the record is counted.
        let record = PacketRecord::numbered(0);
        RecordBuilder { record, source: None, destination: None, protocol: None }
    }

    /// Takes a value. An empty one and `-` say nothing. The error is what is allowed.
    pub(crate) fn set(
        &mut self,
        column: Column,
        text: &[u8],
        interfaces: &mut Interfaces,
    ) -> Result<(), &'static str> {
        let text = text.trim_ascii();
        if text.is_empty() || text == b"-" {
            return Ok(());
        }
        fn within<N: TryFrom<u64>>(
            text: &[u8],
            allowed: &'static str,
        ) -> Result<Option<N>, &'static str> {
            let number = value::number(text).and_then(|number| N::try_from(number).ok());
            number.map(Some).ok_or(allowed)
        }
        const PORT: &str = "0 to 65535";
        const BYTE: &str = "0 to 255";
        let record = &mut self.record;
        match column {
            Column::Time => {
                let allowed = "seconds since 1970, or YYYY-MM-DDTHH:MM:SS in UTC";
                record.time_nanoseconds = Some(value::time(text).ok_or(allowed)?);
            }
            Column::Source => self.source = Some(address(text)?),
            Column::Destination => self.destination = Some(address(text)?),
            Column::Protocol => {
                let allowed = "a protocol's number, or tcp, udp, icmp, icmpv6, sctp, dccp, \
                     udplite, gre, esp, ah and others";
                self.protocol = Some(value::protocol(text).ok_or(allowed)?);
            }
            Column::SourcePort => record.source_port = within(text, PORT)?,
            Column::DestinationPort => record.destination_port = within(text, PORT)?,
            Column::IcmpType => record.icmp_type = within(text, BYTE)?,
            Column::IcmpCode => record.icmp_code = within(text, BYTE)?,
            Column::TcpFlags => {
                let allowed = "0 to 255, or names such as SYN|ACK";
                record.tcp_flags = Some(value::tcp_flags(text).ok_or(allowed)?);
            }
            Column::Dscp => {
                let allowed = "0 to 63, or ef, cs0 to cs7, af11 to af43";
                record.dscp = Some(value::dscp(text).ok_or(allowed)?);
            }
            Column::State => {
                let allowed = "new, established, related, invalid, untracked";
                record.state = Some(ConnectionState::from_name(text).ok_or(allowed)?);
            }
            Column::Input => record.input = Some(interfaces.intern(text)?),
            Column::Output => record.output = Some(interfaces.intern(text)?),
            Column::Bytes => record.bytes = within(text, "a number of bytes")?,
        }
        Ok(())
    }

    /// The record of this row, without its number. The error is what was found and what is allowed.
    pub(crate) fn finish(mut self) -> Result<PacketRecord, (&'static str, &'static str)> {
        let record = &mut self.record;
        record.source = self.source.ok_or(("no src", "an address"))?;
        record.destination = self.destination.ok_or(("no dst", "an address"))?;
        let is_ipv6 = record.source.is_ipv6();
        if is_ipv6 != record.destination.is_ipv6() {
            return Err(("addresses of two families", "both of one family"));
        }
        record.protocol = match self.protocol.ok_or(("no proto", "a protocol"))? {
            Protocol::Number(number) => number,
            Protocol::Icmp if is_ipv6 => protocol::ICMPV6,
            Protocol::Icmp => protocol::ICMP,
        };
        if protocol::has_ports(record.protocol) {
            return Ok(self.record);
        }
        // Where a table has no columns for them, type and code of ICMP stand in those of the ports.
        let (first, second) = (record.source_port.take(), record.destination_port.take());
        let icmp = if is_ipv6 { protocol::ICMPV6 } else { protocol::ICMP };
        if record.protocol == icmp && record.icmp_type.is_none() && record.icmp_code.is_none() {
            let byte = |number: Option<u16>| number.map(u8::try_from).transpose();
            let too_large = |_| ("an ICMP type or code above 255", "0 to 255");
            record.icmp_type = byte(first).map_err(too_large)?;
            record.icmp_code = byte(second).map_err(too_large)?;
        }
        Ok(self.record)
    }
}

pub(crate) fn address(text: &[u8]) -> Result<IpAddr, &'static str> {
    whered_ip::text::parse(text).ok_or("an IPv4 or IPv6 address")
}
