//! `check` of a `[[pool.site]]`: what is asked to know whether the site works.
//!
//! Not for: asking (`crate::health`), reading the files of authorities (the start does).

use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Spanned;
use toml::de::DeValue;

use super::error::ConfigError;
use super::section::{Keys, Section, resolve_path};
use crate::health::{Check, SiteChecks, Target};

pub(super) const CHECK: Keys = Keys {
    title: "check of [[pool.site]]",
    allowed: &[
        "url",
        "args",
        "name",
        "status",
        "body",
        "ca",
        "interval_seconds",
        "timeout_seconds",
        "up_after",
        "down_after",
    ],
    later: &[],
};

const TARGETS: &str =
    "tcp://HOST:PORT, http://HOST[:PORT][/PATH], https://..., exec:/PATH [ARGUMENT ...]";
/// More often is an attack; less often is no check.
const INTERVAL_SECONDS: RangeInclusive<f64> = 0.05..=86_400.0;
const TIMEOUT_SECONDS: RangeInclusive<f64> = 0.01..=300.0;
const AFTER: RangeInclusive<u64> = 1..=1000;
const STATUSES: RangeInclusive<u64> = 200..=599;
/// One of each kind of service, and then some.
const CHECKS_MAX: usize = 16;

/// Reads the checks of every site of every pool.
pub(super) fn read_checks(top: &Section<'_>) -> Result<Vec<SiteChecks>, ConfigError> {
    let mut all = Vec::new();
    for pool in top.tables("pool", &super::pools::POOL)? {
        for site in pool.tables("site", &super::sites::SITE)? {
            let checks = read_of_site(&site)?;
            if checks.is_empty() {
                continue;
            }
            let (pool, site) = (pool.required_text("name")?, site.required_text("name")?);
            let (pool, site) = (pool.value.to_owned(), site.value.to_owned());
            all.push(SiteChecks { pool, site, checks });
        }
    }
    Ok(all)
}

/// A text, a table, or an array of these.
fn read_of_site(site: &Section<'_>) -> Result<Vec<Check>, ConfigError> {
    let Some(value) = site.value("check") else { return Ok(Vec::new()) };
    let DeValue::Array(array) = value.get_ref() else { return Ok(vec![read_one(site, value)?]) };
    if array.is_empty() || array.len() > CHECKS_MAX {
        let found = format!("holds {}", array.len());
        let allowed = format!("1 to {CHECKS_MAX} checks");
        return Err(site.refuse(&value.span(), "check", &found, &allowed));
    }
    array.iter().map(|value| read_one(site, value)).collect()
}

fn read_one(site: &Section<'_>, value: &Spanned<DeValue<'_>>) -> Result<Check, ConfigError> {
    match value.get_ref() {
        DeValue::String(text) => match Target::parse(text) {
            Ok(target) => Ok(Check::new(target)),
            Err(wrong) => {
                let found = format!("is '{text}', which {wrong}");
                Err(site.refuse(&value.span(), "check", &found, TARGETS))
            }
        },
        DeValue::Table(table) => {
            read_table(&Section::open(site.document, table, value.span(), &CHECK)?)
        }
        _ => Err(site.refuse(&value.span(), "check", "is neither text nor table", TARGETS)),
    }
}

fn read_table(section: &Section<'_>) -> Result<Check, ConfigError> {
    let url = section.required_text("url")?;
    let target = Target::parse(url.value).map_err(|wrong| {
        let found = format!("is '{}', which {wrong}", url.value);
        section.refuse(&url.span, "url", &found, TARGETS)
    })?;
    let mut check = Check::new(target);
    let seconds = |key, range| section.number(key, range);
    if let Some(interval) = seconds("interval_seconds", INTERVAL_SECONDS)? {
        check.interval = Duration::from_secs_f64(interval);
    }
    if let Some(timeout) = seconds("timeout_seconds", TIMEOUT_SECONDS)? {
        check.timeout = Duration::from_secs_f64(timeout);
    }
    for (key, after) in [("up_after", &mut check.up_after), ("down_after", &mut check.down_after)] {
        if let Some(found) = section.integer(key, AFTER)? {
            *after = found.value as u32;
        }
    }
    read_http(section, &mut check.target)?;
    let Some(more) = section.strings("args", "strings")? else { return Ok(check) };
    let Target::Exec { arguments, .. } = &mut check.target else {
        return Err(section.refuse(&more.span, "args", "stands beside a URL", "exec:/PATH as url"));
    };
    arguments.extend(more.value.iter().map(|argument| argument.value.to_owned()));
    Ok(check)
}

/// The keys that only HTTP knows.
fn read_http(section: &Section<'_>, target: &mut Target) -> Result<(), ConfigError> {
    let name = section.filled_text("name")?;
    let body = section.filled_text("body")?;
    let ca = section.filled_text("ca")?;
    let statuses = section.integers("status", STATUSES)?;
    let Target::Http(http) = target else {
        let spans = [
            ("name", name.map(|found| found.span)),
            ("body", body.map(|found| found.span)),
            ("ca", ca.map(|found| found.span)),
            ("status", statuses.map(|found| found.span)),
        ];
        return match spans.into_iter().find_map(|(key, span)| Some((key, span?))) {
            None => Ok(()),
            Some((key, span)) => {
                let found = "stands beside a check that is not HTTP";
                Err(section.refuse(&span, key, found, "http:// or https:// as url"))
            }
        };
    };
    if let Some(name) = name {
        // What fits a header and a certificate alike.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let is_name = name.value.parse::<whered_dns::Name>().is_ok();
        if !is_name || !name.value.chars().all(is_plain) {
            let found = format!("is '{}'", name.value);
            return Err(section.refuse(&name.span, "name", &found, "a domain name"));
        }
        http.name = Some(name.value.trim_end_matches('.').to_owned());
    }
    http.body = body.map(|found| found.value.to_owned());
    if let Some(statuses) = statuses {
        http.statuses = statuses.value.into_iter().map(|status| status as u16).collect();
    }
    if let Some(ca) = ca {
        if !http.is_https {
            return Err(section.refuse(
                &ca.span,
                "ca",
                "stands beside plain HTTP",
                "https:// as url",
            ));
        }
        http.ca = Some(resolve_path(section.document.path, ca.value));
    }
    Ok(())
}
