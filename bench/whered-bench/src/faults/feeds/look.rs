//! What is there after a kill: the table, the collection, the quarantine file, the SQL tables.
//!
//! Not for sending. Everything is read when nothing is under way any more: all files taken, the end
//! of the stream applied, nothing spooled, and the sinks at the feed's last batch.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use super::super::pause;
use super::super::value::{Client, Value};
use super::super::victim::Victim;
use super::peers::Kind;
use super::twin::Rows;
use super::{FEED, Site, Told};

const QUIET_LIMIT: Duration = Duration::from_secs(90);

/// Waits, and compares everything with the twin.
pub(super) fn settle(site: &mut Site<'_>, victim: &Victim) -> Result<(), String> {
    let mut client = victim.client()?;
    renew_files(site)?;
    let last = last_of_stream(site)?;
    wait("all uploads are applied", || {
        let is_taken = files(site)?.is_empty();
        let is_read = last.as_ref().is_none_or(|mark| {
            matches!(client.ask(&["TABLE.GET", "objects", mark]), Ok(Value::Array(_)))
        });
        Ok(is_taken && is_read && feed(victim)?["backlog"]["uploads"] == 0)
    })?;
    let rows = table(&mut client)?;
    let (lanes, twin) = (&mut site.lanes, &mut site.twin);
    for (_, lane) in lanes {
        lane.settle(&rows, twin, site.must_keep)?;
    }
    twin.compare("the table", &rows)?;
    let wanted = Value::count(rows.len());
    let points = client.ask(&["ZCARD", "seen"])?;
    if points != wanted {
        return Err(format!("the collection has {points:?} points, the table {wanted:?} rows"));
    }
    let path = site.setup.data.join("quarantine").join(format!("{FEED}.ndjson"));
    let lines = fs::read_to_string(path).unwrap_or_default().lines().count() as u64;
    if lines != twin.flawed {
        let flawed = twin.flawed;
        return Err(format!("{lines} quarantine lines for {flawed} bad records"));
    }
    if site.must_keep { compare_sinks(site, victim) } else { Ok(()) }
}

fn compare_sinks(site: &mut Site<'_>, victim: &Victim) -> Result<(), String> {
    let wanted = site.peers.iter().filter(|peer| peer.kind != Kind::Redis).count();
    wait("the sinks have the last batch", || {
        let feed = feed(victim)?;
        let links = feed["links"].as_array().map_or(&[][..], Vec::as_slice);
        let is_there = |link: &&Json| {
            let is_well = link["state"] == "connected" && link["error"].is_null();
            link["kind"] == "sink" && is_well && link["batch"] == feed["last_batch"]
        };
        // A sink that has not come to report is not there yet.
        Ok(links.iter().filter(is_there).count() == wanted)
    })?;
    let mut handed_on = 0;
    for peer in site.peers.iter().filter(|peer| peer.kind != Kind::Redis) {
        site.twin.compare(peer.kind.name(), &peer.rows(&site.name)?)?;
        handed_on += site.twin.rows.len() as u64;
        site.told.compared += 1;
    }
    site.told = Told { handed_on, ..std::mem::take(&mut site.told) };
    Ok(())
}

fn wait(what: &str, mut is_so: impl FnMut() -> Result<bool, String>) -> Result<(), String> {
    let end = Instant::now() + QUIET_LIMIT;
    while !is_so()? {
        if Instant::now() >= end {
            return Err(format!("{what}: not after {QUIET_LIMIT:?}"));
        }
        pause(Duration::from_millis(5));
    }
    Ok(())
}

/// What the server says of the feed.
fn feed(victim: &Victim) -> Result<Json, String> {
    let page = victim.page(&format!("/v1/feeds/{FEED}"))?;
    let body = page.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).map_err(|error| format!("/v1/feeds/{FEED}: {error}: {page}"))
}

/// The plain files of the drop folder.
fn files(site: &Site<'_>) -> Result<Vec<String>, String> {
    let folder = site.incoming();
    let fault = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().is_ok_and(|kind| kind.is_file()) && !name.starts_with('.') {
            names.push(name);
        }
    }
    Ok(names)
}

/// Renames what a kill has left in the drop folder away and back: it is complete, and the server
/// would wait for ten seconds to be sure of that.
fn renew_files(site: &Site<'_>) -> Result<(), String> {
    let folder = site.incoming();
    for name in files(site)? {
        let hidden = folder.join(format!(".{name}"));
        // The server may have taken it meanwhile.
        if fs::rename(folder.join(&name), &hidden).is_ok() {
            let back = fs::rename(&hidden, folder.join(&name));
            back.map_err(|error| format!("{}: {error}", hidden.display()))?;
        }
    }
    Ok(())
}

/// The mark of the stream's last entry.
fn last_of_stream(site: &Site<'_>) -> Result<Option<String>, String> {
    let Some(redis) = site.redis() else { return Ok(None) };
    let mut client = Client::connect(redis.address())?;
    let found = client.ask(&["XREVRANGE", &site.stream(), "+", "-", "COUNT", "1"])?;
    let entry = found.elements().and_then(<[Value]>::first).and_then(Value::elements);
    let fields = entry.and_then(|entry| entry.get(1)).and_then(Value::elements);
    let Some(text) = fields.and_then(|fields| fields.get(1)).and_then(Value::text) else {
        return Ok(None);
    };
    let first: Json = serde_json::from_str(text.lines().next().unwrap_or_default())
        .map_err(|error| format!("the stream's last entry: {error}"))?;
    Ok(first["m"].as_str().map(str::to_owned))
}

/// All rows of the table, which nothing changes meanwhile.
fn table(client: &mut Client) -> Result<Rows, String> {
    let (mut rows, mut cursor) = (Rows::new(), "0".to_owned());
    loop {
        let page = client.ask(&["TABLE.SCAN", "objects", &cursor, "COUNT", "1000"])?;
        let odd = || format!("TABLE.SCAN: found {page:?}");
        let [next, found] = page.elements().ok_or_else(odd)? else { return Err(odd()) };
        for row in found.elements().ok_or_else(odd)? {
            let row = match row.elements().ok_or_else(odd)? {
                [
                    Value::Bulk(member),
                    Value::Integer(seen),
                    Value::Integer(total),
                    Value::Integer(largest),
                ] => (member.clone(), (*seen, *total, *largest)),
                _ => return Err(format!("TABLE.SCAN: the row {row:?}")),
            };
            if rows.insert(row.0, row.1).is_some() {
                return Err(format!("TABLE.SCAN: a row twice in {page:?}"));
            }
        }
        cursor = next.text().ok_or_else(odd)?.to_owned();
        if cursor == "0" {
            return Ok(rows);
        }
    }
}
