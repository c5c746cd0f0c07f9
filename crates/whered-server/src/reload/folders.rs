//! Which folders can change what a path leads to.
//!
//! Not for: watching them. A path leads over symbolic links, which may stand at its end or in its
//! middle; each link is an entry of some folder, and so is the file at last:
//!
//! ```text
//! /config/city.mmdb ──> ..data/city.mmdb    link in /config
//! /config/..data    ──> ..2026_11_20        link in /config   (Kubernetes swaps this one)
//! /config/..2026_11_20/city.mmdb            file in /config/..2026_11_20
//! ```

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// As many links as Linux follows.
const LINKS_MAX: usize = 40;

/// The folders that hold a link on the way to the file, or the file; without links in their names.
pub(super) fn on_the_way(path: &Path) -> BTreeSet<PathBuf> {
    let mut folders = BTreeSet::new();
    let mut at = PathBuf::from("/");
    let mut left = Vec::new();
    if path.is_relative() {
        // Without a working folder a relative path leads nowhere.
        let Ok(here) = std::env::current_dir() else { return folders };
        push(&mut left, path);
        push(&mut left, &here);
    } else {
        push(&mut left, path);
    }
    let mut links = 0;
    while let Some(part) = left.pop() {
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        match std::fs::read_link(&next) {
            Ok(target) if links < LINKS_MAX => {
                links += 1;
                folders.insert(at.clone());
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                push(&mut left, &target);
            }
            _ if left.is_empty() => {
                folders.insert(at.clone());
            }
            _ => at = next,
        }
    }
    folders
}

/// Puts the parts of a path on the stack, the first one on top.
fn push(left: &mut Vec<OsString>, path: &Path) {
    let parts = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    left.extend(parts);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("whered-folders-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder.canonicalize().unwrap()
    }

    #[test]
    fn every_link_on_the_way_has_its_folder() {
        let top = folder("links");
        let config = top.join("config");
        std::fs::create_dir_all(config.join("..2026")).unwrap();
        std::fs::write(config.join("..2026/city.mmdb"), b"").unwrap();
        symlink("..2026", config.join("..data")).unwrap();
        symlink("..data/city.mmdb", config.join("city.mmdb")).unwrap();
        symlink(&config, top.join("mounted")).unwrap();
        let found = on_the_way(&top.join("mounted/../mounted/city.mmdb"));
        let expected = [top.clone(), config.clone(), config.join("..2026")];
        assert_eq!(found, BTreeSet::from(expected));
        assert_eq!(
            on_the_way(&config.join("..2026/city.mmdb")),
            BTreeSet::from([config.join("..2026")])
        );
        std::fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn links_in_a_circle_and_missing_files_end() {
        let top = folder("circle");
        symlink("b", top.join("a")).unwrap();
        symlink("a", top.join("b")).unwrap();
        assert_eq!(on_the_way(&top.join("a/file")).first(), Some(&top));
        assert_eq!(on_the_way(&top.join("none")), BTreeSet::from([top.clone()]));
        std::fs::remove_dir_all(top).unwrap();
    }
}
