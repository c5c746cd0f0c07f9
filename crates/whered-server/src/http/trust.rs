//! Whether a request without a token may come from this machine's user and not from a web page.
//!
//! For: the headers by which a browser says where a request comes from. A page of any origin can
//! send requests to a loopback port, and by DNS rebinding reads their answers under its own name;
//! it cannot choose `Host`, `Origin` or `Sec-Fetch-Site`, and it does not know a token.
//! Not for: tokens (`admit`), which make all of this unnecessary.
//!
//! ```text
//! Host            a loopback name, the address that was connected to, or one of `hosts`   else 403
//! Origin          that of the listener, or one of `origins`; `null` is foreign            else 403
//! Sec-Fetch-Site  `none`, `same-origin`                                                   else 403
//! ```
//!
//! Every request, with a token or without: HTTP/1.1 needs one valid `Host` (400), and a body comes
//! with a length or in chunks (501).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::extract::Request;
use axum::http::uri::Authority as Target;
use axum::http::{HeaderMap, HeaderName, Version, header};

use super::cors::PageAccess;
use super::error::{ErrorCode, HttpError};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Names and origins of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TrustPolicy {
    /// Names and addresses without ports.
    pub(super) hosts: Vec<String>,
    /// Such as `https://maps.example.com`; `*` alone is every origin, for all but uploads.
    pub(super) origins: Vec<String>,
}

/// How a request has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Arrival {
    /// The address of this machine that it came to.
    pub(super) local: Option<SocketAddr>,
    pub(super) is_tls: bool,
    pub(super) is_upload: bool,
}

/// A host and a port, as `Host` and origins name them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Authority<'a> {
    host: Host<'a>,
    port: Option<u16>,
}

#[derive(Clone, Copy, Debug)]
enum Host<'a> {
    /// Without the dot at its end.
    Name(&'a str),
    /// IPv4 also where it is written as a mapped IPv6 address.
    Address(IpAddr),
}

impl PartialEq for Host<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Host::Name(one), Host::Name(other)) => one.eq_ignore_ascii_case(other),
            (Host::Address(one), Host::Address(other)) => one == other,
            _ => false,
        }
    }
}

impl Eq for Host<'_> {}

impl<'a> Authority<'a> {
    /// Reads `host`, `host:port` or `[address]:port`.
    fn parse(text: &'a str) -> Option<Authority<'a>> {
        let (host, rest) = match text.strip_prefix('[') {
            Some(literal) => {
                let (literal, rest) = literal.split_once(']')?;
                (Host::Address(IpAddr::V6(literal.parse::<Ipv6Addr>().ok()?).to_canonical()), rest)
            }
            None => {
                let (name, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
                let is_valid =
                    |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(&byte);
                if !name.bytes().all(is_valid) {
                    return None;
                }
                let name = name.strip_suffix('.').unwrap_or(name);
                (name.parse().map_or(Host::Name(name), Host::Address), rest)
            }
        };
        let port = match rest.strip_prefix(':') {
            None if rest.is_empty() => None,
            Some("") => None,
            Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(port.parse().ok()?)
            }
            _ => return None,
        };
        Some(Authority { host, port })
    }
}

/// Reads `scheme://host:port`; the port is that of the scheme where none is written.
fn origin(text: &str) -> Option<(&str, Authority<'_>)> {
    let (scheme, rest) = text.split_once("://")?;
    let mut authority = Authority::parse(rest)?;
    let usual = match scheme {
        _ if scheme.eq_ignore_ascii_case("http") => Some(80),
        _ if scheme.eq_ignore_ascii_case("https") => Some(443),
        _ => None,
    };
    authority.port = authority.port.or(usual);
    Some((scheme, authority))
}

/// Whether a text can stand in `hosts`: a name or an address without a port.
pub(crate) fn is_host(text: &str) -> bool {
    let authority = Authority::parse(text);
    !text.ends_with(':')
        && !text.contains('*')
        && authority.is_some_and(|found| found.port.is_none() && found.host != Host::Name(""))
}

/// Whether a text can stand in `origins`.
pub(crate) fn is_origin(text: &str) -> bool {
    // A pattern would match nothing: a host's name has no star.
    origin(text).is_some_and(|(scheme, found)| {
        ["http", "https"].contains(&scheme) && found.host != Host::Name("") && !text.contains('*')
    })
}

/// What stands in `origins` for every origin.
pub(crate) const EVERY_ORIGIN: &str = "*";

/// Checks what every request must have.
///
/// # Errors
/// 400 for a wrong `Host`, 501 for a `Transfer-Encoding` that is not `chunked` alone.
pub(super) fn check_form(request: &Request) -> Result<(), HttpError> {
    let headers = request.headers();
    let mut encodings = headers.get_all(header::TRANSFER_ENCODING).iter();
    if let Some(encoding) = encodings.next()
        && (encodings.next().is_some() || !encoding.as_bytes().eq_ignore_ascii_case(b"chunked"))
    {
        let message = "Transfer-Encoding is not understood; allowed: chunked alone";
        return Err(HttpError::new(
            ErrorCode::UnsupportedTransferEncoding,
            Some("Transfer-Encoding"),
            message,
        ));
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next();
    let wrong =
        |message: &str| Err(HttpError::new(ErrorCode::InvalidRequest, Some("Host"), message));
    if hosts.next().is_some() {
        return wrong("there is more than one Host; allowed: one");
    }
    match host {
        None if request.version() >= Version::HTTP_11 => wrong("HTTP/1.1 needs a Host"),
        None => Ok(()),
        Some(host) => match host.to_str().ok().and_then(Authority::parse) {
            Some(_) => Ok(()),
            None => wrong("Host is wrong; allowed: name, name:port, [IPv6 address]:port"),
        },
    }
}

impl TrustPolicy {
    /// Checks a request without a token.
    ///
    /// # Errors
    /// 403 with the reason, if it may come from a foreign web page.
    pub(super) fn check(
        &self,
        request: &Request,
        Arrival { local, is_tls, is_upload }: Arrival,
    ) -> Result<(), HttpError> {
        self.check_host(request, local)?;
        let local = canonical(local);
        let headers = request.headers();
        let (host, target) = named_hosts(request);
        let asked = target.or(host).and_then(Authority::parse);
        let mut is_listed = false;
        for value in headers.get_all(header::ORIGIN) {
            let found = value.to_str().unwrap_or("?");
            is_listed = self.lists_origin(found) || (self.is_public() && !is_upload);
            if !is_listed && !is_own_origin(found, asked, local, is_tls) {
                return Err(refused(
                    "Origin",
                    found,
                    "this listener's own, or one in 'origins' of \
                                                     [http]",
                ));
            }
        }
        check_site(headers, is_listed)
    }

    /// Checks only that the request names this listener.
    ///
    /// # Errors
    /// 403 with the reason, if `Host` or the target is another's.
    pub(super) fn check_host(
        &self,
        request: &Request,
        local: Option<SocketAddr>,
    ) -> Result<(), HttpError> {
        let local = canonical(local);
        let (host, target) = named_hosts(request);
        for named in [host, target].into_iter().flatten() {
            if !Authority::parse(named).is_some_and(|found| self.is_own_host(found.host, local)) {
                let allowed =
                    "a loopback name, this listener's address, or a name in 'hosts' of [http]";
                return Err(refused("Host", named, allowed));
            }
        }
        Ok(())
    }

    /// To which pages the answer may be shown: none that has not said where it is from.
    pub(super) fn page_access(&self, headers: &HeaderMap) -> Option<PageAccess> {
        let origin = headers.get(header::ORIGIN)?;
        if self.is_public() {
            return Some(PageAccess::Public);
        }
        let is_listed = origin.to_str().is_ok_and(|origin| self.lists_origin(origin));
        is_listed.then(|| PageAccess::Listed(origin.clone()))
    }

    fn is_public(&self) -> bool {
        self.origins.iter().any(|origin| origin == EVERY_ORIGIN)
    }

    fn is_own_host(&self, host: Host<'_>, local: Option<SocketAddr>) -> bool {
        let is_loopback = match host {
            Host::Name(name) => is_loopback_name(name),
            Host::Address(address) => {
                let is_local = local.is_some_and(|local| local.ip() == address);
                address.is_loopback() || (is_local && !address.is_unspecified())
            }
        };
        let is_named = |named: &String| Authority::parse(named).is_some_and(|it| it.host == host);
        is_loopback || self.hosts.iter().any(is_named)
    }

    fn lists_origin(&self, found: &str) -> bool {
        let Some((scheme, authority)) = origin(found) else { return false };
        self.origins
            .iter()
            .filter_map(|listed| origin(listed))
            .any(|(own, listed)| own.eq_ignore_ascii_case(scheme) && listed == authority)
    }
}

fn canonical(local: Option<SocketAddr>) -> Option<SocketAddr> {
    local.map(|local| SocketAddr::new(local.ip().to_canonical(), local.port()))
}

/// `Host`, and the host of a target such as http://host/path, which counts above `Host`.
fn named_hosts(request: &Request) -> (Option<&str>, Option<&str>) {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    (host, request.uri().authority().map(Target::as_str))
}

/// Names that browsers never ask a DNS server about (RFC 6761 section 6.3).
fn is_loopback_name(name: &str) -> bool {
    let end = name.len().checked_sub("localhost".len());
    end.and_then(|end| Some((name.get(..end)?, name.get(end..)?))).is_some_and(|(before, last)| {
        last.eq_ignore_ascii_case("localhost") && (before.is_empty() || before.ends_with('.'))
    })
}

/// Whether an origin is that of the listener: what was asked, or the address that was connected to.
fn is_own_origin(
    found: &str,
    asked: Option<Authority<'_>>,
    local: Option<SocketAddr>,
    is_tls: bool,
) -> bool {
    let (own_scheme, usual) = if is_tls { ("https", 443) } else { ("http", 80) };
    let Some((scheme, found)) = origin(found) else { return false };
    let asked = asked.map(|asked| Authority { port: asked.port.or(Some(usual)), ..asked });
    let is_local = local.is_some_and(|local| {
        let is_host = match found.host {
            Host::Name(name) => local.ip().is_loopback() && name.eq_ignore_ascii_case("localhost"),
            Host::Address(address) => address == local.ip(),
        };
        is_host && found.port == Some(local.port())
    });
    scheme.eq_ignore_ascii_case(own_scheme) && (asked == Some(found) || is_local)
}

fn check_site(headers: &HeaderMap, has_listed_origin: bool) -> Result<(), HttpError> {
    for site in headers.get_all(SEC_FETCH_SITE) {
        let is_own = [&b"none"[..], b"same-origin"].contains(&site.as_bytes());
        if !is_own && !has_listed_origin {
            let found = site.to_str().unwrap_or("?");
            return Err(refused("Sec-Fetch-Site", found, "none, same-origin"));
        }
    }
    Ok(())
}

fn refused(field: &'static str, found: &str, allowed: &str) -> HttpError {
    let message = format!(
        "{field} is '{}', which may be a foreign web page's; allowed without a token: {allowed}",
        found.escape_debug()
    );
    HttpError::new(ErrorCode::ForeignPage, Some(field), message)
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;
