//! The answers of all routes as schemas of the OpenAPI document.
//!
//! For: clients that are generated from the document. Not for: writing answers, which handlers do;
//! the wire tests compare every answer of 200 with its schema, and find a member that is missing
//! here or there.
//!
//! A member that is always there and may be null is an `Option` that is required; another `Option`
//! is there only in some answers.

#![expect(dead_code, reason = "schemas of the document; handlers write the answers")]

use std::collections::BTreeMap;

use serde_json::Value;
use utoipa::ToSchema;

use super::error::{ErrorBody, ErrorDetail};

/// Whether the process works, or what it takes.
#[derive(ToSchema)]
pub(super) struct Health {
    status: String,
    generation: u64,
    reason: Option<String>,
}

/// The record of an address.
#[derive(ToSchema)]
pub(super) struct IpAnswer {
    address: String,
    database: String,
    /// The network of the record, or that which has none.
    prefix: String,
    #[schema(required = true)]
    record: Option<Value>,
}

/// The records of many addresses, in their order.
#[derive(ToSchema)]
pub(super) struct IpAnswers {
    database: String,
    answers: Vec<IpOneAnswer>,
}

/// The record of one of many addresses, or why there is none.
#[derive(ToSchema)]
pub(super) struct IpOneAnswer {
    address: String,
    prefix: Option<String>,
    record: Option<Value>,
    error: Option<ErrorDetail>,
}

/// A page of descriptions.
#[derive(ToSchema)]
pub(super) struct Databases {
    generation: u64,
    databases: Vec<DatabaseDescription>,
    #[schema(required = true)]
    next: Option<String>,
}

/// A database.
#[derive(ToSchema)]
pub(super) struct DatabaseDescription {
    name: String,
    path: String,
    #[schema(rename = "type")]
    database_type: String,
    build_epoch_seconds: u64,
    ip_version: u64,
    record_size_bits: u64,
    nodes: u64,
    networks: u64,
    records: u64,
    file_size_bytes: u64,
    mode: String,
    memory_file_bytes: u64,
    memory_index_bytes: u64,
    memory_columns_bytes: u64,
    fields: Vec<String>,
    reload: String,
    generation: u64,
    loaded_at_milliseconds: u64,
    load_milliseconds: u64,
    reloads: u64,
    reload_failures: u64,
    uncovered_family: u64,
    #[schema(required = true)]
    last_reload_error: Option<String>,
    #[schema(required = true)]
    last_reload_error_at_milliseconds: Option<u64>,
    #[schema(required = true)]
    last_reload_error_file: Option<String>,
}

/// A page of the networks inside a prefix.
#[derive(ToSchema)]
pub(super) struct Networks {
    database: String,
    within: String,
    networks: Vec<Network>,
    #[schema(required = true)]
    next: Option<String>,
}

/// A network with its record.
#[derive(ToSchema)]
pub(super) struct Network {
    prefix: String,
    record: Value,
}

/// A page of descriptions.
#[derive(ToSchema)]
pub(super) struct Collections {
    collections: Vec<CollectionDescription>,
    #[schema(required = true)]
    next: Option<String>,
}

/// A collection.
#[derive(ToSchema)]
pub(super) struct CollectionDescription {
    name: String,
    name_base64: Option<String>,
    members: u64,
    /// `points` or `scores`.
    kind: String,
    /// West, south, east, north; without points there are none.
    #[schema(required = true)]
    bounds: Option<Vec<f64>>,
}

/// Where a member is.
#[derive(ToSchema)]
pub(super) struct MemberPosition {
    member: String,
    member_base64: Option<String>,
    longitude: f64,
    latitude: f64,
}

/// The members that are nearest, the nearest first.
#[derive(ToSchema)]
pub(super) struct NearAnswer {
    collection: String,
    collection_base64: Option<String>,
    count: u64,
    hits: Vec<NearHit>,
}

/// A member with its distance.
#[derive(ToSchema)]
pub(super) struct NearHit {
    member: String,
    member_base64: Option<String>,
    longitude: f64,
    latitude: f64,
    distance_meters: f64,
}

/// A page of the members inside an area.
#[derive(ToSchema)]
pub(super) struct WithinAnswer {
    collection: String,
    collection_base64: Option<String>,
    /// Of all pages.
    total: u64,
    hits: Vec<MemberPosition>,
    #[schema(required = true)]
    next: Option<String>,
    took_microseconds: u64,
}

/// The points of a box, counted by squares.
#[derive(ToSchema)]
pub(super) struct Clusters {
    collection: String,
    collection_base64: Option<String>,
    total: u64,
    clusters: Vec<Cluster>,
    took_microseconds: u64,
}

/// The points of one square.
#[derive(ToSchema)]
pub(super) struct Cluster {
    count: u64,
    longitude: f64,
    latitude: f64,
    /// Of a square with one point.
    member: Option<String>,
    member_base64: Option<String>,
}

/// Descriptions of all pools.
#[derive(ToSchema)]
pub(super) struct Pools {
    generation: u64,
    pools: Vec<PoolDescription>,
}

/// A pool.
#[derive(ToSchema)]
pub(super) struct PoolDescription {
    name: String,
    owners: Vec<String>,
    policy: Vec<String>,
    #[schema(required = true)]
    overrides: Option<String>,
    #[schema(required = true)]
    sites_from: Option<String>,
    answers: u64,
    ttl_seconds: u64,
    /// `all` or `none`.
    when_all_down: String,
    sites: Vec<String>,
    healthy: u64,
}

/// A page of sites.
#[derive(ToSchema)]
pub(super) struct Sites {
    generation: u64,
    sites: Vec<SiteState>,
    #[schema(required = true)]
    next: Option<String>,
}

/// A site, where and how it is now.
#[derive(ToSchema)]
pub(super) struct SiteState {
    pool: String,
    site: String,
    #[schema(required = true)]
    longitude: Option<f64>,
    #[schema(required = true)]
    latitude: Option<f64>,
    healthy: bool,
    state: String,
    #[schema(rename = "override")]
    override_state: String,
    addresses: Vec<String>,
}

/// The sites that a pool chooses for a client or a place.
#[derive(ToSchema)]
pub(super) struct Choice {
    pool: String,
    address: Option<String>,
    longitude: Option<f64>,
    latitude: Option<f64>,
    sites: Vec<String>,
    /// `answer`, `refuse` or `drop`.
    verdict: String,
    scope_length_bits: u64,
}

/// The sites for many clients, in their order.
#[derive(ToSchema)]
pub(super) struct Choices {
    pool: String,
    generation: u64,
    answers: Vec<OneChoice>,
}

/// The sites for one of many clients, or why there are none.
#[derive(ToSchema)]
pub(super) struct OneChoice {
    address: String,
    sites: Option<Vec<String>>,
    verdict: Option<String>,
    scope_length_bits: Option<u64>,
    error: Option<ErrorDetail>,
}

/// Which parts of the globe a pool sends to which site.
#[derive(ToSchema)]
pub(super) struct CatchmentAnswer {
    pool: String,
    database: String,
    generation: u64,
    cell_degrees: f64,
    sites: Vec<String>,
    /// West, south, index of the site (null: none), IPv4 addresses, networks.
    cells: Vec<Vec<Option<f64>>>,
    took_microseconds: u64,
}

/// Descriptions of all zones.
#[derive(ToSchema)]
pub(super) struct Zones {
    generation: u64,
    zones: Vec<ZoneDescription>,
}

/// What a secondary zone knows of its primaries.
#[derive(ToSchema)]
pub(super) struct SecondaryZone {
    state: String,
    #[schema(required = true)]
    primary: Option<String>,
    #[schema(required = true)]
    confirmed_at_millis: Option<u64>,
    refresh_at_millis: u64,
    #[schema(required = true)]
    expires_at_millis: Option<u64>,
    refreshes: u64,
    refreshes_failed: u64,
    #[schema(required = true)]
    last_error: Option<String>,
}

/// A zone.
#[derive(ToSchema)]
pub(super) struct ZoneDescription {
    name: String,
    serial: u64,
    records: u64,
    names: u64,
    memory_bytes: u64,
    #[schema(required = true)]
    path: Option<String>,
    #[schema(required = true)]
    follows_file: Option<bool>,
    #[schema(required = true)]
    reversed: Option<String>,
    #[schema(required = true)]
    dnssec: Option<String>,
    left_out: u64,
    #[schema(required = true)]
    last_reload_error: Option<String>,
    role: String,
    secondary: Option<SecondaryZone>,
}

/// What every job says of an address.
#[derive(ToSchema)]
pub(super) struct AddressReport {
    address: String,
    generation: u64,
    databases: Vec<DatabaseReport>,
    sets: Vec<SetReport>,
    packet: PacketQuestion,
    rules: Vec<RulesetReport>,
    pools: Vec<Value>,
}

/// What a database says of an address.
#[derive(ToSchema)]
pub(super) struct DatabaseReport {
    database: String,
    #[schema(required = true)]
    prefix: Option<String>,
    #[schema(required = true)]
    record: Option<Value>,
    error: Option<ErrorDetail>,
}

/// The smallest member of a set that holds an address.
#[derive(ToSchema)]
pub(super) struct SetReport {
    set: String,
    prefix: String,
    #[schema(required = true)]
    value: Option<String>,
    #[schema(required = true)]
    expires_at_millis: Option<u64>,
}

/// The packet that rules were asked about.
#[derive(ToSchema)]
pub(super) struct PacketQuestion {
    source: String,
    destination: String,
    protocol: u64,
    source_port: u64,
    destination_port: u64,
}

/// What a ruleset says of a packet.
#[derive(ToSchema)]
pub(super) struct RulesetReport {
    ruleset: String,
    verdict: String,
    #[schema(required = true)]
    rule: Option<RuleReport>,
}

/// The rule that decided.
#[derive(ToSchema)]
pub(super) struct RuleReport {
    number: u64,
    origin: String,
    text: String,
}

/// What runs, since when, and with what.
#[derive(ToSchema)]
pub(super) struct Status {
    version: String,
    #[schema(required = true)]
    commit: Option<String>,
    pid: u64,
    uptime_seconds: u64,
    generation: u64,
    ready: bool,
    #[schema(required = true)]
    reason: Option<String>,
    counts: StatusCounts,
    #[schema(required = true)]
    disk: Option<StatusDisk>,
    /// Addresses by protocol.
    listeners: BTreeMap<String, Vec<String>>,
}

/// How many there are.
#[derive(ToSchema)]
pub(super) struct StatusCounts {
    databases: u64,
    sets: u64,
    rulesets: u64,
    collections: u64,
    pools: u64,
    zones: u64,
    feeds: u64,
    tables: u64,
}

/// The disk of the data directory.
#[derive(ToSchema)]
pub(super) struct StatusDisk {
    path: String,
    #[schema(required = true)]
    size_bytes: Option<u64>,
    #[schema(required = true)]
    free_bytes: Option<u64>,
}

/// A page of descriptions.
#[derive(ToSchema)]
pub(super) struct Rulesets {
    generation: u64,
    rulesets: Vec<RulesetDescription>,
    #[schema(required = true)]
    next: Option<String>,
}

/// A ruleset.
#[derive(ToSchema)]
pub(super) struct RulesetDescription {
    name: String,
    /// `file` or `command`.
    source: String,
    #[schema(required = true)]
    file: Option<String>,
    #[schema(required = true)]
    reload: Option<String>,
    #[schema(required = true)]
    reloads: Option<u64>,
    #[schema(required = true)]
    reload_failures: Option<u64>,
    #[schema(required = true)]
    refused: Option<String>,
    rules: u64,
    /// Another number after each change.
    version: u64,
    chains: u64,
    compile_seconds: f64,
    bytes: u64,
    bytes_limit: u64,
    changes_waiting: u64,
    folds: u64,
    is_folding: bool,
    planned_seconds: f64,
    plans_improved: u64,
    ipv4: String,
    ipv6: String,
    #[schema(required = true)]
    ipv4_fallback: Option<String>,
    #[schema(required = true)]
    ipv6_fallback: Option<String>,
    /// Only of one ruleset.
    counters: Option<RulesetCounters>,
}

/// What a ruleset has counted.
#[derive(ToSchema)]
pub(super) struct RulesetCounters {
    policy: TrafficCount,
    rules: Vec<RuleCount>,
}

/// Packets and bytes.
#[derive(ToSchema)]
pub(super) struct TrafficCount {
    packets: u64,
    bytes: u64,
}

/// Packets and bytes of a rule.
#[derive(ToSchema)]
pub(super) struct RuleCount {
    rule: u64,
    packets: u64,
    bytes: u64,
}

/// The verdict of a packet.
#[derive(ToSchema)]
pub(super) struct PacketAnswer {
    verdict: String,
    #[schema(required = true)]
    rule: Option<u64>,
    #[schema(required = true)]
    at: Option<String>,
    /// Non-terminal rules that matched before.
    met: Vec<u64>,
    explanation: Option<Vec<String>>,
}

/// A page of the names of prefix sets.
#[derive(ToSchema)]
pub(super) struct Sets {
    sets: Vec<String>,
    #[schema(required = true)]
    next: Option<String>,
}

/// A prefix set.
#[derive(ToSchema)]
pub(super) struct SetDescription {
    set: String,
    members: u64,
    ipv4: u64,
    ipv6: u64,
    ranges: u64,
    expiring: u64,
    bytes: u64,
    compiled_bytes: u64,
    form: String,
    pending: u64,
    folds: u64,
}

/// The smallest member that holds an address, or all of them.
#[derive(ToSchema)]
pub(super) struct SetAnswer {
    set: String,
    address: String,
    /// The old name of `address`, for a request that has it.
    addr: Option<String>,
    #[schema(rename = "match")]
    smallest: Option<SetMember>,
    matches: Option<Vec<SetMember>>,
}

/// A member of a prefix set.
#[derive(ToSchema)]
pub(super) struct SetMember {
    prefix: String,
    #[schema(required = true)]
    value: Option<String>,
    #[schema(required = true)]
    expires_at_millis: Option<u64>,
}

/// The members that hold each of many addresses, in their order.
#[derive(ToSchema)]
pub(super) struct SetAnswers {
    set: String,
    answers: Vec<SetOneAnswer>,
}

/// The members for one of many addresses, or why there are none.
#[derive(ToSchema)]
pub(super) struct SetOneAnswer {
    address: String,
    #[schema(rename = "match")]
    smallest: Option<SetMember>,
    matches: Option<Vec<SetMember>>,
    error: Option<ErrorDetail>,
}

/// A page of the states of feeds.
#[derive(ToSchema)]
pub(super) struct Feeds {
    feeds: Vec<FeedState>,
    #[schema(required = true)]
    next: Option<String>,
}

/// A feed.
#[derive(ToSchema)]
pub(super) struct FeedState {
    name: String,
    backlog: FeedBacklog,
    lag_seconds: f64,
    uploads_per_second: f64,
    records_per_second: f64,
    uploads: u64,
    upload_bytes: u64,
    rejected_uploads: u64,
    records: u64,
    rejected_records: u64,
    batches: u64,
    journal_bytes: u64,
    last_batch: u64,
    memory: FeedMemory,
    #[schema(required = true)]
    last_error: Option<String>,
    #[schema(required = true)]
    failed: Option<String>,
    out_of_service: bool,
    durable: bool,
    #[schema(required = true)]
    full: Option<String>,
    tables: Vec<String>,
    #[schema(required = true)]
    spool: Option<FeedSpool>,
    links: Vec<FeedLink>,
}

/// What is spooled and not applied.
#[derive(ToSchema)]
pub(super) struct FeedBacklog {
    uploads: u64,
    bytes: u64,
}

/// What a feed takes in memory.
#[derive(ToSchema)]
pub(super) struct FeedMemory {
    resident: bool,
    bytes: u64,
    cold_bytes: u64,
}

/// The spool of a feed.
#[derive(ToSchema)]
pub(super) struct FeedSpool {
    groups: u64,
    bytes: u64,
    syncs: u64,
    uploads_per_sync: f64,
    mean_sync_millis: f64,
    p50_sync_millis: f64,
    p99_sync_millis: f64,
    max_sync_millis: f64,
    p99_group_uploads: f64,
}

/// A sink or stream of a feed.
#[derive(ToSchema)]
pub(super) struct FeedLink {
    name: String,
    kind: String,
    state: String,
    #[schema(required = true)]
    error: Option<String>,
    batch: u64,
    rows: u64,
    left_out: u64,
    missing: u64,
    retry_in_millis: u64,
}

/// An upload that is taken.
#[derive(ToSchema)]
pub(super) struct StoredUpload {
    id: String,
    status: String,
    repeated: bool,
    durable: bool,
}

/// What became of an upload.
#[derive(ToSchema)]
pub(super) struct UploadState {
    id: String,
    /// `spooled`, `applied` or `rejected`.
    status: String,
    records: Option<u64>,
    rejected_records: Option<u64>,
    reason: Option<String>,
    /// Null where the feed keeps no reasons.
    rejections: Option<Vec<Rejection>>,
}

/// A record that does not count.
#[derive(ToSchema)]
pub(super) struct Rejection {
    offset_bytes: u64,
    #[schema(required = true)]
    line: Option<u64>,
    #[schema(required = true)]
    column: Option<u64>,
    reason: String,
}

/// A page of descriptions.
#[derive(ToSchema)]
pub(super) struct Tables {
    tables: Vec<TableDescription>,
    #[schema(required = true)]
    next: Option<String>,
}

/// A table.
#[derive(ToSchema)]
pub(super) struct TableDescription {
    name: String,
    feed: String,
    rows: u64,
    memory_bytes: u64,
    key: Vec<TableColumn>,
    columns: Vec<TableColumn>,
}

/// A column of a table.
#[derive(ToSchema)]
pub(super) struct TableColumn {
    name: String,
    kind: String,
}

/// A page of rows: members are named after columns.
#[derive(ToSchema)]
pub(super) struct TableRows {
    table: String,
    rows: Vec<BTreeMap<String, Value>>,
    next: Option<String>,
}

/// One row.
#[derive(ToSchema)]
pub(super) struct TableRow {
    table: String,
    row: BTreeMap<String, Value>,
}

/// Why an answer is what it is; members that have no part in it are null.
#[derive(ToSchema)]
pub(super) struct Explanation {
    question: BTreeMap<String, Value>,
    #[schema(required = true)]
    generation: Option<u64>,
    #[schema(required = true)]
    database: Option<ExplainedDatabase>,
    #[schema(required = true)]
    prefix: Option<String>,
    #[schema(required = true)]
    record: Option<Value>,
    #[schema(required = true)]
    set_entry: Option<ExplainedEntry>,
    #[schema(required = true)]
    rule: Option<ExplainedRule>,
    #[schema(required = true)]
    map: Option<ExplainedList>,
    #[schema(required = true)]
    candidates: Option<Vec<Candidate>>,
    /// A name, names, names with shares, or a verdict.
    #[schema(required = true)]
    choice: Option<Value>,
    #[schema(required = true)]
    scope_length_bits: Option<u64>,
}

/// The database that was asked.
#[derive(ToSchema)]
pub(super) struct ExplainedDatabase {
    name: String,
    #[schema(rename = "type")]
    database_type: String,
    build_epoch_seconds: u64,
}

/// The member of a set that decided.
#[derive(ToSchema)]
pub(super) struct ExplainedEntry {
    set: String,
    prefix: String,
    #[schema(required = true)]
    value: Option<String>,
    expires_at_millis: Option<u64>,
}

/// What rules said last.
#[derive(ToSchema)]
pub(super) struct ExplainedRule {
    ruleset: String,
    verdict: String,
    #[schema(required = true)]
    number: Option<u64>,
    #[schema(required = true)]
    origin: Option<String>,
}

/// The list of a map that was kept.
#[derive(ToSchema)]
pub(super) struct ExplainedList {
    map: String,
    list: String,
}

/// What could be chosen.
#[derive(ToSchema)]
pub(super) struct Candidate {
    name: String,
    #[schema(required = true)]
    longitude_degrees: Option<f64>,
    #[schema(required = true)]
    latitude_degrees: Option<f64>,
    #[schema(required = true)]
    distance_meters: Option<f64>,
    #[schema(required = true)]
    healthy: Option<bool>,
    /// Of a site.
    eligible: Option<bool>,
}

/// The record of an address, or the reasons.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum IpOrReasons {
    Answer(IpAnswer),
    Reasons(Box<Explanation>),
}

/// The nearest members, or the reasons.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum NearOrReasons {
    Answer(NearAnswer),
    Reasons(Box<Explanation>),
}

/// The sites, or the reasons.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum ChoiceOrReasons {
    Answer(Choice),
    Reasons(Box<Explanation>),
}

/// The members that hold an address, or the reasons.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum SetOrReasons {
    Answer(SetAnswer),
    Reasons(Box<Explanation>),
}

/// The verdict of one packet, or of each of many.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum PacketAnswers {
    One(PacketAnswer),
    Many(Vec<PacketAnswerOrError>),
}

/// The verdict of one of many packets, or why there is none.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum PacketAnswerOrError {
    Answer(PacketAnswer),
    Wrong(ErrorBody),
}
