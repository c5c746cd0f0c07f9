//! `whered steer explain`: why a client of a pool is sent where it is.
//!
//! Not for: choosing. A running server is asked for its reasons, or an engine is opened here from a
//! configuration; then there is no journal, so that sets, collections and what commands have
//! changed about sites are as at a first start, which is told.

use std::io::{self, Write};
use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::Value;
use whered_connect::uploads::percent_encoded;
use whered_dns::Client;
use whered_engine::{Engine, EngineOptions};

use crate::outcome::{Failure, Outcome, complain};
use crate::serve::read_config;
use crate::server::{HttpServer, RespServer};

/// What can be asked about pools.
#[derive(Subcommand)]
pub(crate) enum SteerCommand {
    /// Explain which site a client gets
    ///
    /// Exit code 1 if it gets none.
    Explain(SteerExplainArguments),
}

/// Who is sent where.
#[derive(Args)]
pub(crate) struct SteerExplainArguments {
    /// A pool, or a domain name that one answers at
    pub(crate) name: String,
    /// The client's address, as in its packet or in EDNS Client Subnet
    #[arg(long, value_name = "ADDR", value_parser = crate::cli::parse_address)]
    pub(crate) client: IpAddr,
    #[command(flatten)]
    pub(crate) server: RespServer,
    /// Use a configuration file instead of a server
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "password_file"])]
    pub(crate) config: Option<PathBuf>,
    /// Print the reasons as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Explains one choice.
pub(crate) fn explain(arguments: &SteerExplainArguments) -> Result<Outcome, Failure> {
    let reasons = match &arguments.config {
        Some(file) => reasons_of_file(arguments, file)?,
        None if arguments.server.is_http() => reasons_by_http(arguments)?,
        None => {
            let mut server = arguments.server.open()?;
            let client = arguments.client.to_string();
            let words = ["STEER", arguments.name.as_str(), client.as_str(), "EXPLAIN"];
            let text = server.command(&words).map_err(Failure::new)?;
            serde_json::from_str(&text).map_err(Failure::new)?
        }
    };
    let mut out = io::stdout().lock();
    if arguments.json {
        writeln!(out, "{reasons}")?;
    } else {
        write_text(&mut out, &reasons)?;
    }
    Ok(if reasons["choice"].is_null() { Outcome::NotFound } else { Outcome::Found })
}

fn reasons_by_http(arguments: &SteerExplainArguments) -> Result<Value, Failure> {
    let (pool, client) = (percent_encoded(&arguments.name), arguments.client);
    let path = format!("/v1/pools/{pool}/choose?address={client}&explain=1");
    HttpServer::of(&arguments.server).open()?.get(&path).map_err(Failure::new)
}

fn reasons_of_file(
    arguments: &SteerExplainArguments,
    file: &std::path::Path,
) -> Result<Value, Failure> {
    let setup = read_config(file)?.into_setup();
    let moves =
        |pool: &&whered_engine::PoolSource| pool.overrides.is_some() || pool.sites_from.is_some();
    if let Some(pool) = setup.pools.iter().find(moves) {
        complain(&format!(
            "pool '{}' asks for a set or a collection, which are empty here; ask a server with --server",
            pool.name
        ));
    }
    let options = EngineOptions { setup, ..EngineOptions::default() };
    let (engine, _) = Engine::open(options).map_err(|error| Failure::file(file, error))?;
    let address = arguments.client.to_canonical();
    let prefix_length_bits = if address.is_ipv4() { 32 } else { 128 };
    let client = Client { address, prefix_length_bits, from_ecs: false };
    engine.explain_steer(&arguments.name, &client).map_err(Failure::new)
}

/// One line a fact, those that were not consulted left out.
fn write_text(out: &mut impl Write, reasons: &Value) -> io::Result<()> {
    let plain = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let mut line = |what: &str, text: String| writeln!(out, "{what:<9} {text}");
    line("pool", plain(&reasons["question"]["pool"]))?;
    line("client", plain(&reasons["question"]["address"]))?;
    if let entry @ Value::Object(_) = &reasons["set_entry"] {
        let text = format!(
            "{} -> {} (set {})",
            plain(&entry["prefix"]),
            plain(&entry["value"]),
            plain(&entry["set"])
        );
        line("override", text)?;
    }
    if !reasons["database"].is_null() {
        let name = plain(&reasons["database"]["name"]);
        line("prefix", format!("{} (database {name})", plain(&reasons["prefix"])))?;
        line("record", plain(&reasons["record"]))?;
    }
    if let rule @ Value::Object(_) = &reasons["rule"] {
        let origin = match &rule["origin"] {
            Value::Null => "the policy".to_owned(),
            origin => plain(origin),
        };
        let (ruleset, verdict) = (plain(&rule["ruleset"]), plain(&rule["verdict"]));
        line("rule", format!("{verdict} by {origin} (ruleset {ruleset})"))?;
    }
    if let map @ Value::Object(_) = &reasons["map"] {
        let name = match plain(&map["map"]) {
            name if name.is_empty() => "the pool's map".to_owned(),
            name => format!("map {name}"),
        };
        line("list", format!("{} ({name})", plain(&map["list"])))?;
    }
    for site in reasons["candidates"].as_array().into_iter().flatten() {
        let distance = match site["distance_meters"].as_f64() {
            Some(meters) => format!("{:.0} km", meters / 1000.0),
            None => "at an unknown distance".to_owned(),
        };
        let health = if site["healthy"] == true { "up" } else { "down" };
        let left_out = if site["eligible"] == true { "" } else { ", left out" };
        line("site", format!("{}: {distance}, {health}{left_out}", plain(&site["name"])))?;
    }
    let choice = match &reasons["choice"] {
        Value::Array(several) if several.iter().all(Value::is_string) => {
            several.iter().map(plain).collect::<Vec<_>>().join(", ")
        }
        Value::Array(shares) => {
            let share = |entry: &Value| {
                let percent = entry["share"].as_f64().unwrap_or_default() * 100.0;
                format!("{} {percent:.1} %", plain(&entry["name"]))
            };
            format!("by weight: {}", shares.iter().map(share).collect::<Vec<_>>().join(", "))
        }
        Value::Null => "none".to_owned(),
        Value::Object(verdict) => plain(&verdict["verdict"]),
        other => plain(other),
    };
    line("choice", choice)?;
    line("scope", format!("/{}", plain(&reasons["scope_length_bits"])))
}
