//! What is told about a ruleset, by RESP and HTTP alike, and the thread that maintains rulesets.
//!
//! Not for: matching packets, nor for what is done in the background (the engine does both).
//! Cost: a description costs some words, none of it by rule.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use whered_engine::rules::Family;
use whered_engine::{Engine, NamedRuleset};

use crate::reload::lower_priority;

/// How often the thread looks without being told.
const PERIOD: Duration = Duration::from_millis(500);

/// Everything about a ruleset, in order.
pub(crate) fn describe(named: &NamedRuleset) -> Vec<(&'static str, Value)> {
    let edition = named.edition();
    let background = named.background();
    let file = named.file.as_ref();
    let failure = file.and_then(|file| file.status.last_failure());
    let fallback = |family| {
        edition.is_short_of_memory(family).then(|| {
            let bytes = named.options().memory_bytes;
            format!("hash tables: every faster form would take more than {bytes} bytes")
        })
    };
    let [v4, v6] = Family::BOTH;
    vec![
        ("name", named.name.clone().into()),
        ("source", if file.is_some() { "file" } else { "command" }.into()),
        ("file", file.map(|file| file.source.path.display().to_string()).into()),
        ("reload", file.map(|file| file.source.reload.name()).into()),
        ("reloads", file.map(|file| file.status.reloads()).into()),
        ("reload_failures", file.map(|file| file.status.failures()).into()),
        ("refused", failure.map(|failure| failure.message).into()),
        ("rules", edition.rules().into()),
        ("version", edition.version().into()),
        ("chains", edition.compiled_ruleset().chains().len().into()),
        ("compile_seconds", thousandths(named.compile_time).into()),
        ("bytes", edition.memory_bytes().into()),
        ("bytes_limit", named.options().memory_bytes.into()),
        ("changes_waiting", edition.changes().into()),
        ("folds", background.folds.into()),
        ("is_folding", background.is_folding.into()),
        ("planned_seconds", thousandths(background.planned).into()),
        ("plans_improved", background.improvements.into()),
        ("ipv4", edition.plan(v4).into()),
        ("ipv6", edition.plan(v6).into()),
        ("ipv4_fallback", fallback(v4).into()),
        ("ipv6_fallback", fallback(v6).into()),
    ]
}

fn thousandths(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e3).round() / 1e3
}

/// The thread that compiles changes of rules into the rest, and looks for faster forms.
pub(crate) struct RulesMaintenance {
    engine: Arc<Engine>,
    stopping: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl RulesMaintenance {
    /// Starts the thread, at the lowest priority: lookups have the cores first.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(engine: &Arc<Engine>) -> io::Result<RulesMaintenance> {
        let stopping = Arc::new(AtomicBool::new(false));
        let (of_thread, is_stopping) = (Arc::clone(engine), Arc::clone(&stopping));
        let thread =
            std::thread::Builder::new().name("whered-rules".to_owned()).spawn(move || {
                lower_priority();
                while !is_stopping.load(Ordering::Acquire) {
                    if !of_thread.maintain_rules() {
                        of_thread.wait_for_rules(PERIOD);
                    }
                }
            })?;
        Ok(RulesMaintenance { engine: Arc::clone(engine), stopping, thread })
    }

    /// Ends the thread when it has done its piece, of about a second.
    pub(crate) fn stop(self) {
        self.stopping.store(true, Ordering::Release);
        self.engine.wake_rules();
        if self.thread.join().is_err() {
            tracing::error!("the thread that tends rulesets has failed");
        }
    }
}
