//! What of a configuration is allowed and hardly meant, as far as it shows without an engine.
//!
//! Not for: mistakes; remarks on what databases, zones and rules hold (`whered check`).

use std::path::Path;

use jiff::Timestamp;

use super::Config;
use crate::certificates::read_certificates;
use crate::health::Target;
use crate::validity::validity;

impl Config {
    /// What is allowed and hardly meant: a line for each, with its place.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = self.notes.remarks.clone();
        for user in &self.resp.users {
            let path = format!("resp.user.{}", user.name);
            let missing = crate::resp::missing_lists(user).into_iter();
            remarks.extend(missing.map(|text| self.remark(&path, &text)));
        }
        let resp = &self.resp;
        let has_resp = !resp.listen.is_empty() || resp.tls.is_some() || resp.unix_socket.is_some();
        if !has_resp && !self.http.is_open() && self.dns.listen.is_empty() {
            let text = "nothing listens; a listener opens with its section, [resp], [http] or \
                        [dns], or with --resp, --http or --dns";
            // It is about the file as a whole.
            remarks.push(self.remark("", text));
        } else if self.absent.dns && self.dns.listen.is_empty() && !self.zones.is_empty() {
            let text = "zones are defined and DNS is closed: there is no [dns]";
            remarks.push(self.remark("zone", text));
        }
        let listeners = [("resp", &self.resp.tls), ("http", &self.http.tls)];
        for (section, tls) in
            listeners.into_iter().filter_map(|(of, tls)| Some((of, tls.as_ref()?)))
        {
            let files =
                [("certificate", Some(&tls.certificate)), ("client_ca", tls.client_ca.as_ref())];
            for (key, file) in files {
                let text = file.and_then(|file| validity_remark(key, file));
                remarks
                    .extend(text.map(|text| self.remark(&format!("{section}.tls.{key}"), &text)));
            }
        }
        for site in &self.checks {
            let path = format!("pool.{}.site.{}.check", site.pool, site.site);
            for check in &site.checks {
                let text = command_remark(&check.target);
                remarks.extend(text.map(|text| self.remark(&path, &text)));
            }
        }
        remarks
    }

    /// A remark with the place of a key.
    pub fn remark(&self, path: &str, text: &str) -> String {
        match self.locations.find(path) {
            Some(at) => format!("{at}: remark: {text}"),
            None => text.to_owned(),
        }
    }
}

/// A certificate that is over or not yet valid: clients will refuse it.
fn validity_remark(key: &str, file: &Path) -> Option<String> {
    let certificates = read_certificates(file).ok()?;
    let (from, to) = validity(certificates.first()?)?;
    let now = Timestamp::now().strftime("%Y%m%d%H%M%S").to_string();
    let day = |time: &str| format!("{}-{}-{}", &time[..4], &time[4..6], &time[6..8]);
    let shown = file.display();
    if to < now {
        Some(format!("'{key}' is {shown}, which has expired on {}", day(&to)))
    } else if now < from {
        Some(format!("'{key}' is {shown}, which is valid from {} on", day(&from)))
    } else {
        None
    }
}

/// A command that is not there: its site will be down.
fn command_remark(target: &Target) -> Option<String> {
    let Target::Exec { program, .. } = target else { return None };
    let why = match program.metadata() {
        Err(error) => error.to_string(),
        Ok(found) if !found.is_file() => "it is no file".to_owned(),
        Ok(_) => return None,
    };
    Some(format!("the command {} of 'check' cannot be run: {why}", program.display()))
}
