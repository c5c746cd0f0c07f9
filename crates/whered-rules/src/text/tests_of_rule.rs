//! Reads the conditions of one rule in the own format.
//!
//! For: everything between the start of a rule and its action.
//! Not for: what comes around it (`parse`).
//!
//! Invariants: as in `parse`; a list is never empty.
//! Concurrency: pure. Cost: linear.

use std::net::IpAddr;
use std::sync::Arc;

use whered_ip::Prefix;

use super::lex::{Kind, Token};
use super::parse::{Parser, Step};
use crate::model::{
    AddressItem, Comparison, Condition, Detail, DetailTest, IcmpMatch, InterfacePattern, Point,
    Predicate, Side, Subject, Test, Uncertain,
};
use crate::names;
use crate::packet::State;
use crate::ranges::Ranges;

/// The words that may begin a condition or end a rule, for error messages.
const ALLOWED: &str = "a condition (not, src, dst, src.FIELD, dst.FIELD, distance, family, proto, \
    sport, dport, port, icmp, icmpv6, flags, in, out, state, dscp, mark, masked, with, maybe) or an \
    action (accept, drop, reject, site, jump, goto, return, log, set-mark, continue, queue, also)";

impl<'t> Parser<'t> {
    pub(super) fn condition(&mut self) -> Step<Condition> {
        let negated = self.takes("not");
        let token = self.peek().clone();
        if token.kind != Kind::Word {
            return self.refuse(ALLOWED);
        }
        self.next();
        let test = match &*token.text {
            "src" => self.address_test(Side::Source)?,
            "dst" => self.address_test(Side::Destination)?,
            "family" => Test::Family(self.family()?),
            "proto" => Test::Protocol(self.list(Self::protocol)?),
            "sport" => Test::Port(Side::Source, self.list(Self::port)?),
            "dport" => Test::Port(Side::Destination, self.list(Self::port)?),
            "port" => Test::EitherPort(self.list(Self::port)?),
            "icmp" => Test::Icmp(self.list(|parser| parser.icmp(false))?),
            "icmpv6" => Test::Icmpv6(self.list(|parser| parser.icmp(true))?),
            "flags" => self.flags_test()?,
            "in" => Test::Input(self.list(Self::interface)?),
            "out" => Test::Output(self.list(Self::interface)?),
            "state" => Test::State(self.list(Self::state)?),
            "dscp" => Test::Dscp(self.list(Self::dscp)?),
            "mark" => {
                let (value, mask) = self.mark("a mark, as 1, 0x10 or 0x10/0xff")?;
                Test::Mark { value, mask }
            }
            "distance" => self.distance()?,
            "masked" => self.masked_address()?,
            "with" => Test::Detail(self.detail()?),
            "maybe" => {
                let kind = self.name("a kind of test, as limit")?;
                if self.peek().kind != Kind::Quoted {
                    return self.refuse("a test in double quotes");
                }
                let text = Arc::from(&*self.next().text);
                Test::Uncertain(Uncertain { kind: Arc::from(&*kind.text), text })
            }
            text => match (text.strip_prefix("src."), text.strip_prefix("dst.")) {
                (Some(path), _) if !path.is_empty() => {
                    return self.field(Side::Source, path, negated);
                }
                (_, Some(path)) if !path.is_empty() => {
                    return self.field(Side::Destination, path, negated);
                }
                _ => return self.refuse_token(&token, ALLOWED),
            },
        };
        Ok(Condition::new(test, negated))
    }

    /// One item, or `{ item item, item }`, which may go over several lines.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Step<T>) -> Step<Vec<T>> {
        if !self.takes("{") {
            return Ok(vec![item(self)?]);
        }
        let mut items = Vec::new();
        loop {
            while self.peek().kind == Kind::LineEnd || self.peek().is(",") {
                self.next();
            }
            if self.peek().is("}") && !items.is_empty() {
                self.next();
                return Ok(items);
            }
            items.push(item(self)?);
        }
    }

    fn address_test(&mut self, side: Side) -> Step<Test> {
        const ALLOWED: &str = "an address, a prefix, a range, a list of them in { } or @set";
        match self.peek().kind {
            Kind::QuotedSet => return Ok(Test::Set(side, self.next().text.into_owned())),
            Kind::Word if self.peek().text.starts_with('@') => {
                let token = self.next();
                if token.text.len() == 1 {
                    return self.refuse_token(&token, "a set's name right after the @");
                }
                return Ok(Test::Set(side, token.text[1..].to_owned()));
            }
            Kind::Word => {}
            _ if self.peek().is("{") => {}
            _ => return self.refuse(ALLOWED),
        }
        Ok(Test::Address(side, self.list(Self::address)?))
    }

    /// An address, a prefix or `first-last`.
    pub(super) fn address(&mut self) -> Step<AddressItem> {
        let token = self.word("an address, a prefix or a range")?;
        match read_address(&token.text) {
            Ok(item) => Ok(item),
            Err(message) => {
                self.problems.push(token.line, token.column, message);
                Err(super::parse::Skip)
            }
        }
    }

    /// `src 10.0.0.5 255.0.0.255`: side, bits, mask.
    fn masked_address(&mut self) -> Step<Test> {
        const ALLOWED: &str = "src or dst";
        let token = self.word(ALLOWED)?;
        let side = match &*token.text {
            "src" => Side::Source,
            "dst" => Side::Destination,
            _ => return self.refuse_token(&token, ALLOWED),
        };
        const ADDRESS: &str = "an address, and a mask of its family written as one";
        let mut parts = Vec::new();
        for _ in 0..2 {
            let token = self.word(ADDRESS)?;
            let Ok(address) = token.text.parse::<IpAddr>() else {
                return self.refuse_token(&token, ADDRESS);
            };
            if parts.iter().any(|first: &IpAddr| first.is_ipv4() != address.is_ipv4()) {
                return self.refuse_token(&token, ADDRESS);
            }
            parts.push(address);
        }
        Ok(Test::MaskedAddress { side, value: parts[0], mask: parts[1] })
    }

    /// `ttl {1-9 64}`, or with a mask `connection-mark 0x1/0xff`.
    fn detail(&mut self) -> Step<DetailTest> {
        const ALLOWED: &str = "a detail's name in lower case, as ttl";
        let token = self.word(ALLOWED)?;
        let Some(detail) = Detail::named(&token.text) else {
            return self.refuse_token(&token, ALLOWED);
        };
        let items = self.list(|parser| parser.detail_value(&detail))?;
        let masks: Vec<u64> = items.iter().map(|(_, mask)| *mask).collect();
        if masks.iter().any(|mask| *mask != masks[0]) {
            return self.refuse_token(&token, "one mask for all values");
        }
        let ranges = items.into_iter().map(|((first, last), _)| (first.into(), last.into()));
        Ok(DetailTest { detail, mask: masks[0], ranges: Ranges::new(ranges.collect()) })
    }

    /// `n`, `n-m` or `n/mask`.
    fn detail_value(&mut self, detail: &Detail) -> Step<((u64, u64), u64)> {
        const ALLOWED: &str = "a number, a range, a number with a mask, or a name of this detail";
        let token = self.word(ALLOWED)?;
        let text = &*token.text;
        let (values, mask) = match text.split_once('/') {
            Some((values, mask)) => (values, Detail::parse_plain(mask)),
            None => (text, Some(u64::MAX)),
        };
        let whole = detail.parse(values).map(|value| (value, value));
        let ends = || {
            let (first, last) = values.split_once('-')?;
            detail.parse(first).zip(detail.parse(last)).filter(|(first, last)| first <= last)
        };
        match (whole.or_else(ends), mask) {
            (Some(values), Some(mask)) => Ok((values, mask)),
            _ => self.refuse_token(&token, ALLOWED),
        }
    }

    fn protocol(&mut self) -> Step<(u8, u8)> {
        const ALLOWED: &str = "a protocol's name, a number from 0 to 255 or a range of numbers";
        let token = self.word(ALLOWED)?;
        if let Some(number) = names::protocol_number(&token.text) {
            return Ok((number, number));
        }
        self.range(&token, u8::MAX.into(), ALLOWED).map(|(a, b)| (a as u8, b as u8))
    }

    fn port(&mut self) -> Step<(u16, u16)> {
        const ALLOWED: &str = "a port from 0 to 65535 or a range, as 80-89";
        let token = self.word(ALLOWED)?;
        self.range(&token, u16::MAX.into(), ALLOWED).map(|(a, b)| (a as u16, b as u16))
    }

    fn dscp(&mut self) -> Step<(u8, u8)> {
        const ALLOWED: &str = "a DSCP class, as ef, a number from 0 to 63 or a range of numbers";
        let token = self.word(ALLOWED)?;
        if let Some(number) = names::dscp_number(&token.text) {
            return Ok((number, number));
        }
        self.range(&token, 63, ALLOWED).map(|(a, b)| (a as u8, b as u8))
    }

    /// `n` or `n-m`, not above `largest` and not backwards.
    fn range(&mut self, token: &Token<'_>, largest: u32, allowed: &str) -> Step<(u32, u32)> {
        match read_range(&token.text, largest) {
            Some(range) => Ok(range),
            None => self.refuse_token(token, allowed),
        }
    }

    /// `type`, `type/code`, either as a range, or a name.
    fn icmp(&mut self, version_6: bool) -> Step<IcmpMatch> {
        let allowed = "an ICMP type by name or number, as echo-request, 3 or 3/1";
        let token = self.word(allowed)?;
        if let Some((number, code)) = names::icmp_type(&token.text, version_6) {
            return Ok(IcmpMatch {
                types: (number, number),
                codes: code.map_or((0, 255), |code| (code, code)),
            });
        }
        let (types, codes) = match token.text.split_once('/') {
            Some((types, codes)) => (read_range(types, 255), read_range(codes, 255)),
            None => (read_range(&token.text, 255), Some((0, 255))),
        };
        match (types, codes) {
            (Some(types), Some(codes)) => Ok(IcmpMatch {
                types: (types.0 as u8, types.1 as u8),
                codes: (codes.0 as u8, codes.1 as u8),
            }),
            _ => self.refuse_token(&token, allowed),
        }
    }

    /// `flags {syn} of {syn ack}`.
    fn flags_test(&mut self) -> Step<Test> {
        let sum = |list: Vec<u8>| list.into_iter().fold(0, |all, flag| all | flag);
        let (line, column) = (self.peek().line, self.peek().column);
        let compare = sum(self.list(Self::flag)?);
        self.demand("of")?;
        let mask = sum(self.list(Self::flag)?);
        if compare & !mask != 0 {
            let message = "found flags before \"of\" that are not among those after it, so this \
                could never hold: allowed is a part of them";
            self.problems.push(line, column, message.to_owned());
            return Err(super::parse::Skip);
        }
        Ok(Test::TcpFlags { mask, compare })
    }

    fn flag(&mut self) -> Step<u8> {
        const ALLOWED: &str = "fin, syn, rst, psh, ack, urg, ece, cwr, all or none";
        let token = self.word(ALLOWED)?;
        match &*token.text {
            "all" => Ok(0xff),
            "none" => Ok(0),
            text => match names::tcp_flag(text) {
                Some(flag) => Ok(flag),
                None => self.refuse_token(&token, ALLOWED),
            },
        }
    }

    fn interface(&mut self) -> Step<InterfacePattern> {
        let token = self.name("an interface's name, or how it begins, as eth+")?;
        Ok(match (token.text.strip_suffix('+'), token.kind) {
            (Some(start), Kind::Word) => InterfacePattern::Begins(start.to_owned()),
            _ => InterfacePattern::Exact(token.text.into_owned()),
        })
    }

    fn state(&mut self) -> Step<State> {
        const ALLOWED: &str = "invalid, new, established, related or untracked";
        let token = self.word(ALLOWED)?;
        match State::from_name(&token.text) {
            Some(state) => Ok(state),
            None => self.refuse_token(&token, ALLOWED),
        }
    }

    /// Parses the text after `src.country`.
    fn field(&mut self, side: Side, path: &str, negated: bool) -> Step<Condition> {
        let mut negated = negated;
        let comparison = if self.takes("in") {
            Comparison::Equal
        } else if self.takes("not") {
            self.demand("in")?;
            negated = !negated;
            Comparison::Equal
        } else if self.takes("!=") {
            negated = !negated;
            Comparison::Equal
        } else {
            self.comparison("=, !=, <, <=, >, >=, in or not in")?
        };
        let value = |parser: &mut Self| {
            let token = parser.name("a value")?;
            Ok(token.text.into_owned())
        };
        let values = match comparison {
            Comparison::Equal => self.list(value)?,
            _ => vec![value(self)?],
        };
        let subject = Subject::Field { path: path.to_owned(), values };
        let predicate = Predicate { side, subject, comparison };
        Ok(Condition::new(Test::Place(predicate), negated))
    }

    fn comparison(&mut self, allowed: &str) -> Step<Comparison> {
        for comparison in [
            Comparison::Equal,
            Comparison::Less,
            Comparison::LessOrEqual,
            Comparison::Greater,
            Comparison::GreaterOrEqual,
        ] {
            if self.takes(comparison.symbol()) {
                return Ok(comparison);
            }
        }
        self.refuse(allowed)
    }

    /// Parses the text after `distance`: `(src, 8.68 50.11) < 500 km`.
    fn distance(&mut self) -> Step<Test> {
        self.demand("(")?;
        let side = if self.takes("src") {
            Side::Source
        } else if self.takes("dst") {
            Side::Destination
        } else {
            return self.refuse("src or dst");
        };
        self.demand(",")?;
        let point = self.point()?;
        self.demand(")")?;
        let comparison = self.comparison("<, <=, > or >=")?;
        let amount = self.word("a distance, as 500 km")?;
        let Some(number) = read_decimal(&amount.text).filter(|number| *number >= 0.0) else {
            return self.refuse_token(&amount, "a number that is not negative");
        };
        let unit = self.word("m, km or mi")?;
        let meters = match &*unit.text {
            "m" => number,
            "km" => number * 1000.0,
            "mi" => number * 1609.344,
            _ => return self.refuse_token(&unit, "m, km or mi"),
        };
        let subject = Subject::Distance { point, meters };
        Ok(Test::Place(Predicate { side, subject, comparison }))
    }

    /// A longitude and a latitude, or a name.
    fn point(&mut self) -> Step<Point> {
        let first = self.name("a longitude and a latitude, or a point's name")?;
        let number = read_decimal(&first.text).filter(|_| first.kind == Kind::Word);
        let Some(longitude_degrees) = number else {
            return Ok(Point::Named(first.text.into_owned()));
        };
        if !(-180.0..=180.0).contains(&longitude_degrees) {
            return self.refuse_token(&first, "a longitude from -180 to 180");
        }
        self.takes(",");
        let second = self.word("a latitude from -90 to 90")?;
        match read_decimal(&second.text).filter(|degrees| (-90.0..=90.0).contains(degrees)) {
            Some(latitude_degrees) => Ok(Point::At { longitude_degrees, latitude_degrees }),
            None => self.refuse_token(&second, "a latitude from -90 to 90"),
        }
    }
}

/// A plain decimal number: digits, one point, a minus.
fn read_decimal(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.' || byte == b'-');
    if plain { text.parse().ok().filter(|number: &f64| number.is_finite()) } else { None }
}

/// `n` or `n-m` (also `n:m`), not above `largest` and not backwards.
pub(crate) fn read_range(text: &str, largest: u32) -> Option<(u32, u32)> {
    let (first, last) = match text.split_once(['-', ':']) {
        Some((first, last)) => (names::parse_number(first)?, names::parse_number(last)?),
        None => {
            let number = names::parse_number(text)?;
            (number, number)
        }
    };
    (first <= last && last <= largest).then_some((first, last))
}

/// An address, a prefix or `first-last`; the error is the message of a problem.
pub(crate) fn read_address(text: &str) -> Result<AddressItem, String> {
    let wrong = || {
        crate::error::found_message(
            text,
            "an address, a prefix as 10.0.0.0/8 or a range as 10.0.0.1-10.0.0.9",
        )
    };
    if let Some((first, last)) = text.split_once('-') {
        let first: IpAddr = first.parse().map_err(|_| wrong())?;
        let last: IpAddr = last.parse().map_err(|_| wrong())?;
        if first.is_ipv4() != last.is_ipv4() || first > last {
            return Err(crate::error::found_message(
                text,
                "a range from the lower to the higher address of one family",
            ));
        }
        return Ok(AddressItem::Range(first, last));
    }
    match text.parse::<Prefix>() {
        Ok(prefix) => Ok(AddressItem::Prefix(prefix)),
        Err(error) if error.offset() == Some(0) => Err(wrong()),
        Err(error) => {
            let longest = if text.contains(':') { 128 } else { 32 };
            let allowed = format!("a length from 0 to {longest}");
            Err(crate::error::found_message(&format!("/{}", error.found()), &allowed))
        }
    }
}
