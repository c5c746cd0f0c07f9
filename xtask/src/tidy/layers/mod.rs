//! Arrows inside a crate: which folder may use which, and how large a circle of files may be.
//!
//! ```text
//! tokens ─► modules ─► arrows (file to file) ─┬─► circles: at most 8 files
//!                                             └─► folders: as layers.toml allows
//! ```
//! The folder of `src/feeds/open.rs` is `feeds`, that of `src/clock.rs` is `clock`; `lib` and
//! `main` are not checked, since they only gather. `xtask/tidy/layers.toml` lists the crates. It is
//! a ratchet: an arrow that it allows and nothing uses, or a count that is too high, is a finding,
//! too. `cargo xtask layers` prints the present arrows and circles.

mod arrows;
mod circles;
mod modules;
mod settings;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::failure::ChoreError;
use crate::finding::{Finding, line_where};
use crate::repository::{Repository, TextFile};
use arrows::Arrows;
use settings::{Layers, PATH};

/// A larger circle needs an entry with a reason.
const CIRCLE_FILES_MAX: usize = 8;

/// A crate's files and the arrows between them.
struct CrateLayers {
    /// Relative to the crate's folder.
    files: Vec<String>,
    arrows: Arrows,
    circles: Vec<Vec<usize>>,
}

/// Holds the crates that layers.toml lists to it.
pub(crate) fn check(texts: &[TextFile]) -> Result<Vec<Finding>, ChoreError> {
    let listed = texts.iter().find(|file| file.path == PATH);
    let listed = listed.ok_or_else(|| ChoreError::new(format!("{PATH} is missing")))?;
    let mut findings = Vec::new();
    for layers in settings::parse(&listed.text)? {
        let measured = measure(&layers.name, texts)?;
        findings.extend(check_circles(&layers, &measured, &listed.text));
        findings.extend(check_folders(&layers, &measured, &listed.text));
    }
    Ok(findings)
}

/// Prints folders' arrows as layers.toml has them, and each circle with its arrows.
pub(crate) fn print(repository: &Repository) -> Result<Vec<Finding>, ChoreError> {
    let texts = repository.texts()?;
    for layers in settings::parse(&repository.read(PATH)?)? {
        let measured = measure(&layers.name, &texts)?;
        println!("{}", measured.shown(&layers.name));
    }
    Ok(Vec::new())
}

fn measure(name: &str, texts: &[TextFile]) -> Result<CrateLayers, ChoreError> {
    let folder = format!("crates/{name}/");
    let read = |path: &str| {
        let whole = format!("{folder}{path}");
        texts.iter().find(|file| file.path == whole).map(|file| file.text.clone())
    };
    let found = modules::read_crate("src/lib.rs", &read);
    let found = found.or_else(|| modules::read_crate("src/main.rs", &read));
    let found = found.ok_or_else(|| ChoreError::new(format!("{PATH}: no crate {name}")))?;
    let arrows = arrows::arrows(&found);
    let circles = circles::circles(found.files.len(), &arrows);
    Ok(CrateLayers { files: found.files, arrows, circles })
}

/// `feeds` of `src/feeds/open.rs`, `clock` of `src/clock.rs`.
fn folder_of(file: &str) -> &str {
    let inside = file.strip_prefix("src/").unwrap_or(file);
    inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs")
}

impl CrateLayers {
    /// Folders and what they use, each with the first file and line.
    fn folder_arrows(&self) -> BTreeMap<&str, BTreeMap<&str, (&str, usize)>> {
        let mut folders: BTreeMap<&str, BTreeMap<&str, (&str, usize)>> = BTreeMap::new();
        for file in &self.files {
            folders.entry(folder_of(file)).or_default();
        }
        for ((from, to), line) in &self.arrows {
            let (file, used) = (self.files[*from].as_str(), folder_of(&self.files[*to]));
            if folder_of(file) != used {
                let uses = folders.entry(folder_of(file)).or_default();
                uses.entry(used).or_insert((file, *line));
            }
        }
        folders.retain(|folder, _| !matches!(*folder, "lib" | "main"));
        folders
    }

    fn shown(&self, name: &str) -> String {
        let mut text = format!("[{name}.folders]\n");
        for (folder, uses) in self.folder_arrows() {
            let uses: Vec<String> = uses.keys().map(|used| format!("\"{used}\"")).collect();
            let _ = writeln!(text, "{folder} = [{}]", uses.join(", "));
        }
        for circle in &self.circles {
            let _ = writeln!(text, "\n# a circle of {} files", circle.len());
            for file in circle {
                let inside = |(from, to): &(usize, usize)| from == file && circle.contains(to);
                let uses = self.arrows.iter().filter(|(arrow, _)| inside(arrow));
                let uses = uses.map(|((_, to), line)| format!("{} :{line}", self.files[*to]));
                let uses: Vec<String> = uses.collect();
                let _ = writeln!(text, "#   {} -> {}", self.files[*file], uses.join(", "));
            }
        }
        text
    }
}

fn check_circles(layers: &Layers, measured: &CrateLayers, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let line_of = |file: &str| line_where(text, |line| line.contains(file));
    let mut needed = Vec::new();
    for circle in measured.circles.iter().filter(|circle| circle.len() > CIRCLE_FILES_MAX) {
        let names: Vec<&str> = circle.iter().map(|file| measured.files[*file].as_str()).collect();
        let entry = layers.circles.iter().find(|entry| names.contains(&entry.file.as_str()));
        let what = format!("a circle of {} files: {}", names.len(), names.join(", "));
        match entry {
            None => {
                let path = format!("crates/{}/{}", layers.name, names[0]);
                let allowed = format!("{CIRCLE_FILES_MAX}, or an entry of {PATH} with a reason");
                findings.push(Finding::new(path, 1, what, allowed));
            }
            Some(entry) if entry.count != names.len() => {
                let allowed = format!("the {} of this entry; lower it when it fell", entry.count);
                findings.push(Finding::new(PATH, line_of(&entry.file), what, allowed));
                needed.push(entry);
            }
            Some(entry) => needed.push(entry),
        }
    }
    for entry in layers.circles.iter().filter(|entry| !needed.contains(entry)) {
        let what = format!("no circle above {CIRCLE_FILES_MAX} files has {}", entry.file);
        findings.push(Finding::new(PATH, line_of(&entry.file), what, "entries that are needed"));
    }
    findings
}

fn check_folders(layers: &Layers, measured: &CrateLayers, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let found = measured.folder_arrows();
    let header = format!("[{}.folders]", layers.name);
    let start = line_where(text, |line| line.trim() == header);
    let below = text.lines().enumerate().skip(start);
    let below: Vec<(usize, &str)> = below.take_while(|(_, line)| !line.starts_with('[')).collect();
    let line_of = |folder: &str| {
        let is_row = |line: &str| line.split('=').next().is_some_and(|key| key.trim() == folder);
        below.iter().find(|(_, line)| is_row(line)).map_or(start, |(index, _)| index + 1)
    };
    for (folder, uses) in &found {
        let Some(allowed) = layers.folders.get(*folder) else {
            let what = format!("{} has a folder {folder} that is not listed", layers.name);
            findings.push(Finding::new(PATH, start, what, "a row with what it may use"));
            continue;
        };
        if allowed.iter().any(|name| name == "*") {
            continue;
        }
        for (used, (file, line)) in uses {
            if !allowed.iter().any(|name| name == used) {
                let path = format!("crates/{}/{file}", layers.name);
                let what = format!("{folder} uses {used}");
                let allowed =
                    if allowed.is_empty() { "nothing".into() } else { allowed.join(", ") };
                findings.push(Finding::new(path, *line, what, allowed));
            }
        }
    }
    for (folder, allowed) in &layers.folders {
        let uses: BTreeSet<&str> =
            found.get(folder.as_str()).into_iter().flat_map(|uses| uses.keys().copied()).collect();
        let is_there = found.contains_key(folder.as_str());
        let unused = allowed.iter().filter(|used| *used != "*" && !uses.contains(used.as_str()));
        let unused: Vec<&str> = unused.map(String::as_str).collect();
        if !is_there || !unused.is_empty() {
            let what = match is_there {
                true => format!("{folder} does not use {}", unused.join(", ")),
                false => format!("{} has no folder {folder}", layers.name),
            };
            findings.push(Finding::new(PATH, line_of(folder), what, "arrows that there are"));
        }
    }
    findings
}

#[cfg(test)]
#[path = "layers_tests.rs"]
mod tests;
