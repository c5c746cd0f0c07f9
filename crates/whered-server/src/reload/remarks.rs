//! Remarks on the files of rulesets: what is allowed and hardly meant.
//!
//! Not for: mistakes, which the engine refuses. Cost: the file is read once more.

use std::fs;

use whered_engine::ip::HostBitsFinder;
use whered_engine::{Engine, NamedRuleset};

/// Logs remarks on the files of all rulesets that serve.
pub(crate) fn remark_on_rulesets(engine: &Engine) {
    engine.generation().rulesets().iter().for_each(|named| remark_on_ruleset(named));
}

/// Logs that a ruleset's file has a prefix such as `10.0.0.1/8`, which is taken as `10.0.0.0/8`.
pub(super) fn remark_on_ruleset(named: &NamedRuleset) {
    let Some(path) = named.file.as_ref().map(|file| &file.source.path) else { return };
    // A file that is gone since it was loaded is for the watcher to tell of.
    let Ok(text) = fs::read(path) else { return };
    if let Some(remark) = HostBitsFinder::of(&text).remark() {
        tracing::warn!("{}: {remark}", path.display());
    }
}
