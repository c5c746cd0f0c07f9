//! `cargo metadata`, reduced to what the checks read: packages and their arrows.
//!
//! Never touches the network: the calls are `--offline` and resolve no dependency.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::failure::ChoreError;
use crate::repository::Repository;

/// One package of this repository and what it depends on.
#[derive(Debug, Clone)]
pub(crate) struct Package {
    /// The package's name.
    pub(crate) name: String,
    /// Its folder relative to the root, for example `crates/whered-ip`.
    pub(crate) folder: String,
    /// Its dependencies that lie in the file system, of all kinds (normal, dev, build).
    pub(crate) arrows: Vec<Arrow>,
}

/// One dependency by path.
#[derive(Debug, Clone)]
pub(crate) struct Arrow {
    /// The package at the arrow's head.
    pub(crate) name: String,
    /// Its folder relative to the root; `None` when it lies outside the repository.
    pub(crate) folder: Option<String>,
}

/// Every package of the repository: the workspace's and those of manifests outside it (fuzz).
pub(crate) fn packages(repository: &Repository) -> Result<Vec<Package>, ChoreError> {
    let root = repository.root();
    let mut packages = parse_packages(&run(root, "Cargo.toml")?, root)?;
    for path in repository.paths() {
        let Some(folder) = path.strip_suffix("/Cargo.toml") else {
            continue;
        };
        if packages.iter().all(|package| package.folder != folder) {
            packages.extend(parse_packages(&run(root, path)?, root)?);
        }
    }
    Ok(packages)
}

fn run(root: &Path, manifest: &str) -> Result<Value, ChoreError> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version", "1", "--offline", "--no-deps"]);
    command.args(["--manifest-path", manifest]);
    let output = command
        .current_dir(root)
        .output()
        .map_err(|error| ChoreError::on_program("cargo", &error))?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(ChoreError::new(format!("cargo metadata of {manifest} failed: {reason}")));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| ChoreError::new(format!("cargo metadata of {manifest}: {error}")))
}

fn parse_packages(metadata: &Value, root: &Path) -> Result<Vec<Package>, ChoreError> {
    let mut packages = Vec::new();
    for package in list(metadata, "packages")? {
        let manifest = Path::new(text(package, "manifest_path")?);
        let folder = manifest.parent().and_then(|folder| relative(folder, root));
        let mut arrows = Vec::new();
        for dependency in list(package, "dependencies")? {
            let Some(path) = dependency.get("path").and_then(Value::as_str) else {
                continue;
            };
            arrows.push(Arrow {
                name: text(dependency, "name")?.to_owned(),
                folder: relative(Path::new(path), root),
            });
        }
        packages.push(Package {
            name: text(package, "name")?.to_owned(),
            folder: folder.unwrap_or_else(|| manifest.display().to_string()),
            arrows,
        });
    }
    Ok(packages)
}

fn relative(folder: &Path, root: &Path) -> Option<String> {
    let inside = folder.strip_prefix(root).ok()?;
    let parts: Option<Vec<&str>> = inside.iter().map(|part| part.to_str()).collect();
    parts.map(|parts| parts.join("/"))
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>, ChoreError> {
    let found = value.get(key).and_then(Value::as_array);
    found.ok_or_else(|| ChoreError::new(format!("cargo metadata has no list '{key}'")))
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, ChoreError> {
    let found = value.get(key).and_then(Value::as_str);
    found.ok_or_else(|| ChoreError::new(format!("cargo metadata has no text '{key}'")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn packages_keep_only_arrows_in_the_file_system() {
        let metadata = json!({"packages": [{
            "name": "a", "manifest_path": "/r/crates/a/Cargo.toml",
            "dependencies": [
                {"name": "b", "path": "/r/crates/b"},
                {"name": "far", "path": "/elsewhere/far"},
                {"name": "serde"},
            ],
        }]});
        let packages = parse_packages(&metadata, Path::new("/r")).unwrap();
        assert_eq!(packages[0].folder, "crates/a");
        assert_eq!(packages[0].arrows.len(), 2);
        assert_eq!(packages[0].arrows[0].folder.as_deref(), Some("crates/b"));
        assert_eq!(packages[0].arrows[1].folder, None);
    }

    #[test]
    fn metadata_of_another_shape_is_an_error() {
        assert!(parse_packages(&json!({}), Path::new("/r")).is_err());
        let package = json!({"packages": [{"name": "a"}]});
        assert!(parse_packages(&package, Path::new("/r")).is_err());
    }
}
