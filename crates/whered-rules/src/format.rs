//! Which format a text of rules is in, by its first line that is no remark.
//!
//! Not for: reading it; each format has a reader of its own.

/// The formats that rules are read in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// This project's own ([`crate::text`]).
    Own,
    /// `iptables-save` or `ip6tables-save` ([`crate::iptables`]).
    Iptables,
    /// `nft -j list ruleset` ([`crate::nft`]).
    Nft,
    /// ClassBench's filter sets ([`crate::classbench`]).
    Classbench,
}

impl Format {
    /// The format that the first line is of; a text that looks like none is taken for our own.
    ///
    /// ```
    /// use whered_rules::Format;
    /// assert_eq!(Format::of("# Generated\n*filter\n"), Format::Iptables);
    /// assert_eq!(Format::of("\n  {\"nftables\": []}"), Format::Nft);
    /// assert_eq!(Format::of("@1.2.3.4/32\t0.0.0.0/0"), Format::Classbench);
    /// assert_eq!(Format::of("chain input policy drop {\n}\n"), Format::Own);
    /// ```
    pub fn of(rules: &str) -> Format {
        let is_remark = |line: &str| line.is_empty() || line.starts_with('#');
        let first = rules.lines().map(str::trim).find(|line| !is_remark(line)).unwrap_or_default();
        match first.as_bytes().first() {
            Some(b'*' | b':') => Format::Iptables,
            Some(b'{') => Format::Nft,
            Some(b'@') => Format::Classbench,
            _ => Format::Own,
        }
    }
}
