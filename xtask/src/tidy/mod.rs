//! `cargo xtask tidy`: the rules of this repository that the compiler cannot know.
//!
//! Each check is a plain function from texts (or cargo's metadata) to findings, in a module of
//! its own, tested on small made-up inputs; this module only feeds them the real tree.
//!
//! - [`arrows`]: which crate may use which;
//! - [`layers`]: which folder of a crate may use which, and circles of files;
//! - [`sizes`]: how long a source file may be, and names that collect everything;
//! - [`headers`]: every source file says what it is for;
//! - [`named_paths`]: ARCHITECTURE.md names only what exists;
//! - [`links`]: relative links of Markdown pages lead somewhere;
//! - [`reasons`]: every outside dependency has its sentence;
//! - [`ports`]: documented `redis-cli` lines name their server;
//! - [`machine_words`]: nothing mentions one particular machine;
//! - [`examples`](crate::examples): each block that readers type is run or says why not;
//! - [`performance`](crate::performance): docs/performance.md is what the results give;
//! - [`words`]: private words, long sentences and wide comments may only become fewer.
//!
//! Length of functions is clippy's business (`too_many_lines`, 70), which sees the syntax tree.
//! Licences, sources and banned versions of dependencies are cargo-deny's (`make deny`).

mod arrows;
mod headers;
pub(crate) mod layers;
mod links;
mod machine_words;
mod metadata;
mod named_paths;
mod ports;
mod reasons;
mod settings;
mod sizes;
pub(crate) mod words;

use crate::failure::ChoreError;
use crate::finding::Finding;
use crate::repository::Repository;

/// Runs every check on the real tree; warnings are printed, findings returned in path order.
pub(crate) fn run(repository: &Repository) -> Result<Vec<Finding>, ChoreError> {
    let settings = settings::Settings::parse(&repository.read("xtask/tidy/settings.toml")?)?;
    let texts = repository.texts()?;
    let workspace_manifest = repository.read("Cargo.toml")?;

    let mut findings = Vec::new();
    let packages = metadata::packages(repository)?;
    findings.extend(arrows::check(&packages, &texts));
    let sizes = sizes::check(&texts, &settings.large);
    for warning in &sizes.warnings {
        println!("warning: {warning}");
    }
    findings.extend(sizes.findings);
    findings.extend(headers::check(&texts));
    findings.extend(layers::check(&texts)?);
    findings.extend(named_paths::check(repository.paths(), &texts));
    findings.extend(links::check(repository.paths(), &texts));
    findings.extend(reasons::check(&workspace_manifest, &texts)?);
    findings.extend(ports::check(&texts));
    findings.extend(machine_words::check(&texts, &settings.forbidden));
    findings.extend(words::check(repository, &texts)?);
    findings.extend(crate::performance::check(repository)?);
    findings.extend(crate::examples::check(repository)?);

    findings.sort();
    findings.dedup();
    if findings.is_empty() {
        println!("tidy: {} files, nothing found", repository.paths().len());
    }
    Ok(findings)
}
