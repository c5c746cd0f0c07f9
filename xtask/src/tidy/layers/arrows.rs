//! Which file of a crate uses which: imports and paths, with re-exports followed to the file that
//! defines the name.
//!
//! A file that only passes a name on (`pub use`) does not use the file that it comes from.

use std::collections::BTreeMap;

use super::modules::{Crate, Import, ModuleId};

/// From file to file, with the first line that has it.
pub(super) type Arrows = BTreeMap<(usize, usize), usize>;

/// Re-exports of re-exports are followed this far.
const DEPTH_MAX: usize = 16;

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Module(ModuleId),
    /// Something that is defined in this file.
    Item(usize),
}

/// Finds all arrows of a crate; none leads from a file to itself.
pub(super) fn arrows(found: &Crate) -> Arrows {
    let mut arrows = Arrows::new();
    for (id, module) in found.modules.iter().enumerate() {
        let mut add = |target: Option<Target>, line: usize| {
            if let Some(Target::Item(file)) = target
                && file != module.file
            {
                let first = arrows.entry((module.file, file)).or_insert(line);
                *first = line.min(*first);
            }
        };
        for import in module.imports.iter().filter(|import| !import.is_reexport) {
            if import.alias != "*" {
                add(found.resolve(id, &import.path, 0), import.line);
            }
        }
        for (path, line) in &module.mentions {
            add(found.resolve(id, path, 0), *line);
        }
    }
    arrows
}

impl Crate {
    /// Where a path leads that is written in a module; `None` outside the crate.
    fn resolve(&self, from: ModuleId, path: &[String], depth: usize) -> Option<Target> {
        let mut rest = path;
        let mut id = from;
        let mut is_absolute = false;
        while let Some((first, after)) = rest.split_first() {
            match first.as_str() {
                "crate" => id = 0,
                "self" => {}
                "super" => id = self.modules[id].parent?,
                _ => break,
            }
            is_absolute = true;
            rest = after;
        }
        if rest.is_empty() {
            return is_absolute.then_some(Target::Module(id));
        }
        self.member(id, rest, depth)
    }

    /// Where a path leads from the inside of a module.
    fn member(&self, id: ModuleId, path: &[String], depth: usize) -> Option<Target> {
        let (first, rest) = path.split_first()?;
        if depth > DEPTH_MAX {
            return None;
        }
        let module = &self.modules[id];
        if let Some(child) = module.children.get(first) {
            let inner = self.member(*child, rest, depth);
            return if rest.is_empty() { Some(Target::Module(*child)) } else { inner };
        }
        if module.items.contains(first) {
            return Some(Target::Item(module.file));
        }
        let imported = module.imports.iter().filter(|import| import.alias == *first);
        let from_import = |import: &Import| {
            // `use a;` names another crate or a child, which was looked for above.
            let is_itself = import.path.len() == 1 && import.path[0] == *first;
            let target = self.resolve(id, &import.path, depth + 1).filter(|_| !is_itself);
            self.onward(target, rest, depth)
        };
        if let Some(target) = imported.filter_map(from_import).next() {
            return Some(target);
        }
        let all = module.imports.iter().filter(|import| import.alias == "*");
        let from_all = |import: &Import| {
            let target = self.resolve(id, &import.path, depth + 1);
            match target {
                Some(Target::Module(inner)) if inner != id => self.member(inner, path, depth + 1),
                _ => None,
            }
        };
        all.filter_map(from_all).next()
    }

    fn onward(&self, target: Option<Target>, rest: &[String], depth: usize) -> Option<Target> {
        match target? {
            Target::Module(inner) if !rest.is_empty() => self.member(inner, rest, depth + 1),
            target => Some(target),
        }
    }
}

#[cfg(test)]
#[path = "arrows_tests.rs"]
mod tests;
