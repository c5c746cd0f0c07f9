//! The demo server's ports: read from what it announces, written into the examples.
//!
//! The documents say the default ports (RESP 6380, HTTP 8080, DNS 5300); the harness's server
//! has free ones. The replacement is textual, on whole numbers, all three in one pass.

const DEFAULT_RESP: &str = "6380";
const DEFAULT_HTTP: &str = "8080";
const DEFAULT_DNS: &str = "5300";

/// One port of each door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ports {
    /// Where redis-cli connects to.
    pub(crate) resp: u16,
    /// Where curl connects to.
    pub(crate) http: u16,
    /// Where dig sends to.
    pub(crate) dns: u16,
}

/// What the server has announced so far.
#[derive(Debug, Default)]
pub(crate) struct Announcement {
    resp: Option<u16>,
    http: Option<u16>,
    dns: Option<u16>,
}

impl Announcement {
    /// Reads one line of the server's standard output: `resp 127.0.0.1:6380` and the like; of
    /// several addresses of a door the first counts. Returns true at `ready`.
    pub(crate) fn read_line(&mut self, line: &str) -> bool {
        let mut words = line.split_whitespace();
        let door = match words.next() {
            Some("ready") => return true,
            Some("resp") => &mut self.resp,
            Some("http") => &mut self.http,
            Some("dns") => &mut self.dns,
            _ => return false,
        };
        let address = words.next().unwrap_or_default();
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        *door = door.or(port);
        false
    }

    /// The ports, or the name of a door that was not announced.
    pub(crate) fn ports(&self) -> Result<Ports, &'static str> {
        Ok(Ports {
            resp: self.resp.ok_or("resp")?,
            http: self.http.ok_or("http")?,
            dns: self.dns.ok_or("dns")?,
        })
    }
}

impl Ports {
    /// The text with the default ports replaced.
    pub(crate) fn replace(&self, text: &str) -> String {
        let mut replaced = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(|char: char| char.is_ascii_digit()) {
            let (before, from_number) = rest.split_at(start);
            let end =
                from_number.find(|char: char| !char.is_ascii_digit()).unwrap_or(from_number.len());
            let (number, after) = from_number.split_at(end);
            replaced.push_str(before);
            match number {
                DEFAULT_RESP => replaced.push_str(&self.resp.to_string()),
                DEFAULT_HTTP => replaced.push_str(&self.http.to_string()),
                DEFAULT_DNS => replaced.push_str(&self.dns.to_string()),
                _ => replaced.push_str(number),
            }
            rest = after;
        }
        replaced.push_str(rest);
        replaced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_from_the_announcement() {
        let mut announcement = Announcement::default();
        assert!(!announcement.read_line("whered 0.1.0"));
        assert!(!announcement.read_line("resp 127.0.0.1:4001"));
        assert!(!announcement.read_line("http 127.0.0.1:4002"));
        assert_eq!(announcement.ports(), Err("dns"));
        assert!(!announcement.read_line("dns [::1]:4003"));
        assert!(!announcement.read_line("dns 127.0.0.1:4004"));
        assert!(announcement.read_line("ready"));
        assert_eq!(announcement.ports(), Ok(Ports { resp: 4001, http: 4002, dns: 4003 }));
    }

    #[test]
    fn whole_numbers_are_replaced_and_others_are_not() {
        let ports = Ports { resp: 8080, http: 5300, dns: 41000 };
        assert_eq!(
            ports.replace(
                "redis-cli -p 6380; curl localhost:8080/x; dig -p 5300 6380.1 16380 80801"
            ),
            "redis-cli -p 8080; curl localhost:5300/x; dig -p 41000 8080.1 16380 80801"
        );
        assert_eq!(ports.replace("größer als 6380"), "größer als 8080");
    }
}
