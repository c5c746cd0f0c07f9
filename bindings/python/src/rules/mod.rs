//! `Rules`: an ordered ruleset, and which rule packets meet.
//!
//! For: the class. Not for: formats of rules, their compiled form and the reference evaluator
//! (`whered-rules`), fields of packets (`fields.rs`), rows (`packets.rs`).
//!
//! ```text
//! columns ──► batches of packets ──► Matcher::find_batch ──► numbers of verdicts and of rules
//! ```

mod fields;
mod packets;

use std::collections::HashMap;
use std::ffi::CString;
use std::net::IpAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Int32Array};
use arrow_schema::DataType;
use pyo3::exceptions::{PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use whered_ip::HostBitsFinder;
use whered_rules::classify::plan::Budget;
use whered_rules::compile::Matcher;
use whered_rules::iptables::OtherTables;
use whered_rules::naive::{Outcome, Sets};
use whered_rules::normal::NoPlaces;
use whered_rules::text::rule_text;
use whered_rules::{Format, Predicate, ReadOptions, RulesError, Ruleset, Test, Verdict};

use crate::address;
use crate::arrow::output::{Column, Table};
use crate::columns::Invalid;
use crate::database::of_system;
use crate::pieces;
use crate::prefix_set::PrefixSet;
use crate::strings::{Layout, Pool};
use fields::{Field, Given, RowFault};
use packets::{Answer, nowhere, packet_of, packets_of, values_of};

/// Adds the class to the package.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Rules>()
}

/// How long a good form of the rules may be looked for.
const PLAN_TIME: Duration = Duration::from_millis(500);

/// An ordered ruleset, compiled: which rule does this packet meet?
///
/// Made by `Rules.read` and `Rules.parse` from whered's own format, `iptables-save`, `nft -j list
/// ruleset` or ClassBench. A ruleset never changes; any number of threads may ask.
///
/// Rules that ask where an address is (`country`, `asn`, a distance) are refused with their line,
/// since there are no databases here. So are rules that ask for a set which the file does not hold,
/// unless `sets` gives it as a `PrefixSet`.
///
/// >>> import whered
/// >>> rules = whered.Rules.parse('''
/// ... chain input policy drop {
/// ...     src 10.0.0.0/8 proto tcp dport {22 443} accept
/// ... }
/// ... ''')
/// >>> len(rules)
/// 1
/// >>> rules.match_packet("10.1.2.3", protocol="tcp", destination_port=22)["verdict"]
/// 'accept'
#[pyclass(module = "whered", frozen)]
pub(crate) struct Rules {
    ruleset: Ruleset,
    matcher: Matcher,
    sets: GivenSets,
    /// The arguments that rules look at, with the first rule of each.
    asked: Vec<(Field, String)>,
    /// The strings of verdicts, and the number of each.
    verdicts: Pool,
    verdict_numbers: HashMap<Verdict, u32>,
    rule_strings: Pool,
}

/// Sets by name, as the caller gave them.
struct GivenSets(HashMap<String, Py<PrefixSet>>);

impl Sets for GivenSets {
    fn contains(&self, set: &str, address: IpAddr) -> bool {
        self.0.get(set).is_some_and(|set| set.get().contains(address))
    }

    fn is_at(&self, _predicate: &Predicate, _address: IpAddr) -> bool {
        false
    }
}

/// What part of a text is read, and how.
struct Source<'a> {
    name: &'a str,
    format: Option<&'a str>,
    chain: Option<&'a str>,
    table: Option<&'a str>,
    skip_tables: bool,
}

impl Source<'_> {
    /// # Errors
    ///
    /// `ValueError` with all problems of the text, a line each.
    fn ruleset(&self, text: &str) -> PyResult<Ruleset> {
        let wrong = |what: String| PyValueError::new_err(format!("{}: {what}", self.name));
        let format = match self.format {
            None => Format::detect(text),
            Some(name) => Format::named(name).ok_or_else(|| {
                let names: Vec<&str> = Format::readable().map(Format::name).collect();
                let names = names.join(", ");
                PyValueError::new_err(format!("format={name:?}: allowed are {names}"))
            })?,
        };
        let (table, chain) = (self.table, self.chain);
        let other_tables =
            if self.skip_tables { OtherTables::Skip } else { OtherTables::default() };
        let options = ReadOptions { table, chain, other_tables };
        let ruleset = format.read(self.name, text, options).map_err(|error| of_rules(&error))?;
        if format.has_tables() {
            return Ok(ruleset);
        }
        if table.is_some() {
            return Err(wrong("table= is for iptables and nft; these rules have no tables".into()));
        }
        let Some(chain) = chain else { return Ok(ruleset) };
        let names = ruleset.base_chains().map(|id| ruleset.chain(id).name.clone());
        let names = names.collect::<Vec<_>>().join(", ");
        let entered = ruleset.entered_by(chain);
        entered.ok_or_else(|| wrong(format!("chain={chain:?}: allowed are {names}")))
    }
}

/// All problems of a text, a line each.
fn of_rules(error: &RulesError) -> PyErr {
    let problems: Vec<String> = error.problems().iter().map(ToString::to_string).collect();
    PyValueError::new_err(problems.join("\n"))
}

/// # Errors
///
/// `ValueError` for rules that ask for sets which nobody gives, a line each, and for sets that no
/// rule asks for.
fn check_sets(ruleset: &Ruleset, given: &GivenSets) -> PyResult<()> {
    let mut problems = Vec::new();
    let mut asked = Vec::new();
    for rule in fields::reachable(ruleset) {
        for condition in &rule.conditions {
            let Test::Set(_, name) = &condition.test else { continue };
            if ruleset.set_named(name).is_some_and(|set| set.elements.is_some()) {
                continue;
            }
            asked.push(name.as_str());
            if !given.0.contains_key(name) {
                problems.push(format!(
                    "{}: found set {name:?}, whose members are not in the file: pass it as \
                     sets={{{name:?}: whered.PrefixSet(...)}}",
                    rule.origin
                ));
            }
        }
    }
    for name in given.0.keys() {
        if !asked.contains(&name.as_str()) {
            problems.push(format!("sets has {name:?}, which no rule asks for"));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(PyValueError::new_err(problems.join("\n"))) }
}

impl Rules {
    fn of_text(
        py: Python<'_>,
        text: &str,
        source: &Source<'_>,
        sets: Option<HashMap<String, Py<PrefixSet>>>,
    ) -> PyResult<Rules> {
        if let Some(remark) = HostBitsFinder::of(text.as_bytes()).remark() {
            let remark = CString::new(format!("{}: {remark}", source.name)).unwrap_or_default();
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &remark, 1)?;
        }
        let sets = GivenSets(sets.unwrap_or_default());
        py.detach(|| {
            let ruleset = source.ruleset(text)?;
            check_sets(&ruleset, &sets)?;
            let start = Instant::now();
            let budget = Budget { time: PLAN_TIME, ..Budget::default() };
            let matcher = Matcher::build(&ruleset, &NoPlaces, budget, &|| start.elapsed());
            let matcher = matcher.map_err(|error| of_rules(&error))?;
            Ok(Rules::new(ruleset, matcher, sets))
        })
    }

    fn new(ruleset: Ruleset, matcher: Matcher, sets: GivenSets) -> Rules {
        let mut verdicts = vec![Verdict::Continue, Verdict::Maybe];
        verdicts.extend(ruleset.rules().iter().filter_map(|rule| rule.action.verdict()));
        verdicts.extend(ruleset.chains().iter().filter_map(|chain| chain.policy.clone()));
        let mut verdict_numbers = HashMap::new();
        let mut strings: Vec<String> = Vec::new();
        for verdict in verdicts {
            verdict_numbers.entry(verdict).or_insert_with_key(|verdict| {
                strings.push(verdict.to_string());
                strings.len() as u32 - 1
            });
        }
        let written: Vec<String> =
            ruleset.rules().iter().map(|rule| rule_text(&ruleset, rule)).collect();
        Rules {
            matcher,
            sets,
            asked: fields::tested(&ruleset),
            verdicts: Pool::new(strings.iter().map(|text| Some(text.as_str()))),
            verdict_numbers,
            rule_strings: Pool::new(written.iter().map(|text| Some(text.trim()))),
            ruleset,
        }
    }

    /// # Errors
    ///
    /// `ValueError` that names a rule which looks at something that is not given.
    fn check_given(&self, is_given: impl Fn(Field) -> bool) -> PyResult<()> {
        match self.asked.iter().find(|(field, _)| !is_given(*field)) {
            None => Ok(()),
            Some((field, origin)) => {
                let name = field.name();
                Err(PyValueError::new_err(format!(
                    "{origin} asks for the packet's {name}: pass {name}="
                )))
            }
        }
    }

    fn line(&self, outcome: &Outcome) -> Option<i32> {
        outcome.rule.map(|id| self.ruleset.rule(id).origin.line as i32)
    }
}

#[pymethods]
impl Rules {
    /// Reads a file of rules.
    ///
    /// `format` is "own", "iptables", "nft" or "classbench"; without it the content decides.
    /// `chain` is the chain that packets enter. Of iptables and nft `table` is the table that is
    /// read, "filter" or the only one; `skip_tables=True` leaves other tables of iptables out,
    /// which are an error otherwise. `sets` are the sets that the file does not hold, by name.
    ///
    /// Raises `OSError` for a file that cannot be read, and `ValueError` with file, line and column
    /// of all that is wrong. Warns of prefixes with bits set behind their length. Cost: up to half
    /// a second.
    ///
    /// >>> import pathlib, whered
    /// >>> _ = pathlib.Path("edge.rules").write_text("chain input policy accept {\n}\n")
    /// >>> len(whered.Rules.read("edge.rules"))
    /// 0
    #[staticmethod]
    #[pyo3(signature = (
        path, *, format=None, chain=None, table=None, skip_tables=false, sets=None
    ))]
    fn read(
        py: Python<'_>,
        path: PathBuf,
        format: Option<&str>,
        chain: Option<&str>,
        table: Option<&str>,
        skip_tables: bool,
        sets: Option<HashMap<String, Py<PrefixSet>>>,
    ) -> PyResult<Rules> {
        let name = path.display().to_string();
        let bytes = py.detach(|| std::fs::read(&path));
        let bytes = bytes.map_err(|error| of_system(&path, &error))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let good = error.utf8_error().valid_up_to();
            let lines = error.as_bytes()[..good].iter().filter(|byte| **byte == b'\n').count();
            let what = "found bytes that are no text: allowed is UTF-8";
            PyValueError::new_err(format!("{name}:{}: {what}", lines + 1))
        })?;
        let source = Source { name: &name, format, chain, table, skip_tables };
        Rules::of_text(py, &text, &source, sets)
    }

    /// Reads rules from a text; the arguments are those of `read`, and `name` is what messages call
    /// the text.
    ///
    /// >>> import whered
    /// >>> whered.Rules.parse("chain input policy maybe {\n}\n")
    /// Traceback (most recent call last):
    ///     ...
    /// ValueError: rules:1:20: found "maybe": allowed is accept, drop, reject or continue
    #[staticmethod]
    #[pyo3(signature = (
        text, *, format=None, chain=None, table=None, skip_tables=false, sets=None, name="rules"
    ))]
    #[allow(clippy::too_many_arguments, reason = "they are Python's keywords")]
    fn parse(
        py: Python<'_>,
        text: &str,
        format: Option<&str>,
        chain: Option<&str>,
        table: Option<&str>,
        skip_tables: bool,
        sets: Option<HashMap<String, Py<PrefixSet>>>,
        name: &str,
    ) -> PyResult<Rules> {
        Rules::of_text(py, text, &Source { name, format, chain, table, skip_tables }, sets)
    }

    /// The fate of one packet: a dict of `verdict`, `line` and `rule`, the rule that decided, which
    /// are `None` where the policy did, and `noted`, the lines of the log, mark and count rules
    /// that the packet met before.
    ///
    /// Addresses are strings or objects of `ipaddress`. The other fields are those of `match`, one
    /// value each. Raises `ValueError` for a value that is not allowed, and for a field that is not
    /// given although rules look at it. Cost: some µs.
    ///
    /// >>> import whered
    /// >>> rules = whered.Rules.parse("chain input policy drop {\n  src 10.0.0.0/8 accept\n}\n")
    /// >>> rules.match_packet("10.1.2.3")
    /// {'verdict': 'accept', 'line': 2, 'rule': 'src 10.0.0.0/8 accept', 'noted': []}
    #[pyo3(signature = (source, destination=None, **fields))]
    fn match_packet<'py>(
        &self,
        py: Python<'py>,
        source: &Bound<'py, PyAny>,
        destination: Option<&Bound<'py, PyAny>>,
        fields: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let source = address::of_object(source)?;
        let values = values_of(fields, Given::of_value)?;
        let is_known = |field: Field| values.iter().any(|(known, _)| *known == field);
        self.check_given(|field| match field {
            Field::Destination => destination.is_some(),
            field => is_known(field),
        })?;
        let destination = match destination {
            Some(destination) => address::of_object(destination)?,
            None => nowhere(&Ok(source)),
        };
        let mut packets = [packet_of((Ok(source), Ok(destination)))];
        let mut names: Vec<Vec<String>> = values.iter().map(|_| Vec::new()).collect();
        for ((field, given), names) in values.iter().zip(&mut names) {
            given.fill(*field, 0..1, &mut packets, names);
        }
        let [packet] = packets;
        let packet = packet.map_err(|missing| match missing {
            RowFault::Invalid(what) => PyValueError::new_err(what),
            RowFault::Null => PyValueError::new_err("the packet has no protocol"),
        })?;
        let outcome = self.matcher.find(&packet, &self.sets);
        let line = |id: &whered_rules::RuleId| self.ruleset.rule(*id).origin.line;
        let answer = PyDict::new(py);
        answer.set_item("verdict", outcome.verdict.to_string())?;
        answer.set_item("line", outcome.rule.as_ref().map(line))?;
        answer.set_item("rule", outcome.rule.and_then(|id| self.rule_strings.text(id.index())))?;
        answer.set_item("noted", outcome.matched.iter().map(line).collect::<Vec<_>>())?;
        Ok(answer)
    }

    /// The fate of each packet of a table: a table of `verdict`, `line` and `rule` with a row for
    /// each row. Line and rule are those of the rule that decided, null where the policy did.
    ///
    /// `source` is a column of addresses as for `Database.lookup`. `destination` is another one.
    /// The other fields are columns, or one text or whole number for all rows: `protocol` (name or
    /// number), `source_port`, `destination_port`, `state` ("new", "established", "related",
    /// "invalid", "untracked"), `icmp_type`, `icmp_code`, `tcp_flags` (a number or names such as
    /// "syn,ack"), `input` and `output` (interfaces), `dscp`, `mark`. A field that rules look at
    /// must be given.
    ///
    /// Where an address or the protocol is null, the answer is null. Null of another field means
    /// none: port 0, untracked, no interface. What is not allowed is null with `invalid="null"`,
    /// and a `ValueError` that names the row with `invalid="raise"`. `strings` is the Arrow type of
    /// verdicts and rules.
    ///
    /// Raises `ValueError` also for columns of different lengths. Cost: some 0.3 µs a row on each
    /// of `threads` threads; the GIL is released.
    ///
    /// >>> import whered
    /// >>> rules = whered.Rules.parse("chain input policy drop {\n  proto tcp dport 22 drop\n}\n")
    /// >>> ports = {"protocol": "tcp", "destination_port": [22, 23]}
    /// >>> table = rules.match(source=["10.0.0.1", "10.0.0.2"], **ports)
    /// >>> table.to_pydict()
    /// {'verdict': ['drop', 'drop'], 'line': [2, None], 'rule': ['proto tcp dport 22 drop', None]}
    #[pyo3(signature = (
        *, source, destination=None, strings="utf8_view", invalid="null", threads=1, **fields
    ))]
    #[allow(clippy::too_many_arguments, reason = "they are Python's keywords")]
    fn r#match(
        &self,
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        destination: Option<&Bound<'_, PyAny>>,
        strings: &str,
        invalid: &str,
        threads: usize,
        fields: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Table> {
        let (layout, invalid) = (Layout::of_name(strings)?, Invalid::of_name(invalid)?);
        let packets = packets_of(source, destination, fields)?;
        self.check_given(|field| match field {
            Field::Destination => packets.destination.is_some(),
            field => packets.values.iter().any(|(known, _)| *known == field),
        })?;
        let starts = (0..packets.rows.max(1)).step_by(pieces::ROWS);
        let all: Vec<Range<usize>> =
            starts.map(|start| start..(start + pieces::ROWS).min(packets.rows)).collect();
        let mut answers: Vec<Answer> = all.iter().map(|_| Answer::default()).collect();
        pieces::run(py, all.iter().zip(&mut answers).collect(), threads, |(rows, answer)| {
            *answer = self.answer(&packets, rows, invalid)?;
            Ok(())
        })?;
        py.detach(|| {
            let text = |name, pool: &Pool, numbers: fn(&Answer) -> &Vec<u32>| {
                let arrays = answers.iter().map(|answer| layout.of_numbers(pool, numbers(answer)));
                let arrays = arrays.collect::<PyResult<_>>()?;
                Ok::<Column, PyErr>(Column::new(name, layout.data_type(), arrays))
            };
            let lines = answers.iter().map(|answer| {
                Arc::new(Int32Array::from_iter(answer.lines.iter().copied())) as ArrayRef
            });
            Ok(Table::new(vec![
                text("verdict", &self.verdicts, |answer| &answer.verdicts)?,
                Column::new("line", DataType::Int32, lines.collect()),
                text("rule", &self.rule_strings, |answer| &answer.rules)?,
            ]))
        })
    }

    /// The number of rules.
    fn __len__(&self) -> usize {
        self.ruleset.rules().len()
    }

    fn __repr__(&self) -> String {
        let entry = &self.ruleset.chain(self.ruleset.entry()).name;
        format!("<whered.Rules: {} rules, entered by chain {entry}>", self.__len__())
    }
}
