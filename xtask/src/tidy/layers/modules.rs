//! A crate's modules: which file each is in, what it defines, imports and mentions.
//!
//! Not for: what a name means (`arrows`). Code below `#[cfg(test)]` is left out: tests may look
//! wherever they like.
//!
//! Limits: names that macros make are not seen, and a `use` inside a function counts for its
//! module.

use std::collections::{BTreeMap, BTreeSet};

use super::tokens::{Kind, Token, tokens};

/// An index into [`Crate::modules`].
pub(super) type ModuleId = usize;

/// All modules of a crate; the root is the first.
#[derive(Debug, Default)]
pub(super) struct Crate {
    /// Paths of files, relative to the crate's folder.
    pub(super) files: Vec<String>,
    /// Every module, inline ones too.
    pub(super) modules: Vec<Module>,
}

/// One module.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// An index into [`Crate::files`].
    pub(super) file: usize,
    /// The module around it.
    pub(super) parent: Option<ModuleId>,
    /// The modules that it declares.
    pub(super) children: BTreeMap<String, ModuleId>,
    /// Names of what it defines itself.
    pub(super) items: BTreeSet<String>,
    /// What its `use` lines bring in.
    pub(super) imports: Vec<Import>,
    /// Paths and single names in its code, each with its first line.
    pub(super) mentions: BTreeMap<Vec<String>, usize>,
}

/// One name that a `use` line brings in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Import {
    /// The name in this module; `*` for everything.
    pub(super) alias: String,
    /// As written; without the `*`.
    pub(super) path: Vec<String>,
    /// Whether the line has a visibility.
    pub(super) is_reexport: bool,
    /// Counted from 1.
    pub(super) line: usize,
}

/// Reads a crate whose root is `root`, for example `src/lib.rs`. `read` gives a file's text by its
/// path relative to the crate's folder, if it exists.
pub(super) fn read_crate(root: &str, read: &dyn Fn(&str) -> Option<String>) -> Option<Crate> {
    let text = read(root)?;
    let mut reader = Reader { found: Crate::default(), read };
    let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
    reader.file(root, &text, folder, None);
    Some(reader.found)
}

struct Reader<'a> {
    found: Crate,
    read: &'a dyn Fn(&str) -> Option<String>,
}

/// What is read now: a module, and where files of its children are.
struct Scope {
    id: ModuleId,
    /// The folder of files that `#[path]` is relative to.
    file_folder: String,
    /// The folder of files of child modules.
    children_folder: String,
}

impl Reader<'_> {
    fn file(
        &mut self,
        path: &str,
        text: &str,
        children_folder: &str,
        parent: Option<ModuleId>,
    ) -> ModuleId {
        self.found.files.push(path.to_owned());
        let file = self.found.files.len() - 1;
        let id = self.module(file, parent);
        let found = tokens(text);
        if !has_inner_cfg_test(&found) {
            let file_folder = path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
            let scope = Scope { id, file_folder, children_folder: children_folder.to_owned() };
            self.body(&scope, &found);
        }
        id
    }

    fn module(&mut self, file: usize, parent: Option<ModuleId>) -> ModuleId {
        self.found.modules.push(Module { file, parent, ..Module::default() });
        self.found.modules.len() - 1
    }

    fn body(&mut self, scope: &Scope, tokens: &[Token]) {
        let mut at = 0;
        let mut depth = 0_usize;
        let mut path_attribute = None;
        while let Some(token) = tokens.get(at) {
            match &token.kind {
                Kind::Mark('#') if is_open(tokens.get(at + 1), '[') => {
                    let end = end_of_group(tokens, at + 1);
                    let attribute = &tokens[at + 2..end.saturating_sub(1).max(at + 2)];
                    path_attribute = path_of(attribute).or(path_attribute);
                    at = if is_cfg_test(attribute) { end_of_item(tokens, end) } else { end };
                    continue;
                }
                Kind::Mark('{') => depth += 1,
                Kind::Mark('}') => depth = depth.saturating_sub(1),
                Kind::Word(word) if word == "use" && !is_open(tokens.get(at + 1), '<') => {
                    let end = end_of_item(tokens, at);
                    self.use_line(scope.id, tokens, at, end);
                    at = end;
                    continue;
                }
                Kind::Word(word) if word == "mod" && depth == 0 => {
                    at = self.child(scope, tokens, at, path_attribute.take());
                    continue;
                }
                Kind::Word(_) => {
                    let module = &mut self.found.modules[scope.id];
                    if let Some(item) = item_name(tokens, at).filter(|_| depth == 0) {
                        module.items.insert(item);
                    }
                    at = mention(module, tokens, at);
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// `mod name;` or `mod name { ... }`; gives where to go on.
    fn child(&mut self, scope: &Scope, tokens: &[Token], at: usize, path: Option<String>) -> usize {
        let Some(name) = tokens.get(at + 1).and_then(Token::word) else { return at + 1 };
        let folder = join(&scope.children_folder, name);
        if is_open(tokens.get(at + 2), '{') {
            let end = end_of_group(tokens, at + 2);
            let id = self.module(self.found.modules[scope.id].file, Some(scope.id));
            self.found.modules[scope.id].children.insert(name.to_owned(), id);
            let inner =
                Scope { id, file_folder: scope.file_folder.clone(), children_folder: folder };
            self.body(&inner, &tokens[at + 3..end.saturating_sub(1).max(at + 3)]);
            return end;
        }
        let candidates = match path {
            Some(path) => vec![(join(&scope.file_folder, &path), folder)],
            None => vec![
                (format!("{folder}.rs"), folder.clone()),
                (format!("{folder}/mod.rs"), folder.clone()),
            ],
        };
        for (file, folder) in candidates {
            if let Some(text) = (self.read)(&file) {
                let id = self.file(&file, &text, &folder, Some(scope.id));
                self.found.modules[scope.id].children.insert(name.to_owned(), id);
                break;
            }
        }
        at + 2
    }

    fn use_line(&mut self, id: ModuleId, tokens: &[Token], at: usize, end: usize) {
        let before = at.checked_sub(1).and_then(|index| tokens.get(index));
        let is_reexport =
            before.is_some_and(|token| token.is_word("pub") || token.is_punctuation(')'));
        let imports = &mut self.found.modules[id].imports;
        let first = imports.len();
        use_tree(&tokens[at + 1..end], &mut Vec::new(), imports);
        for import in &mut imports[first..] {
            import.is_reexport = is_reexport;
        }
    }
}

/// Reads one tree of a `use` line after `prefix`; gives how many tokens it has.
fn use_tree(tokens: &[Token], prefix: &mut Vec<String>, imports: &mut Vec<Import>) -> usize {
    let depth = prefix.len();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match &token.kind {
            Kind::Separator => {}
            Kind::Mark('{') => {
                at += 1;
                while tokens.get(at).is_some_and(|token| !token.is_punctuation('}')) {
                    at += use_tree(&tokens[at..], prefix, imports);
                    at += usize::from(is_open(tokens.get(at), ','));
                }
                prefix.truncate(depth);
                return at + 1;
            }
            Kind::Mark('*') => {
                let path = prefix.clone();
                imports.push(Import {
                    alias: "*".to_owned(),
                    path,
                    is_reexport: false,
                    line: token.line,
                });
                prefix.truncate(depth);
                return at + 1;
            }
            Kind::Word(word) if word == "as" => {
                let alias = tokens.get(at + 1).and_then(Token::word).unwrap_or("_").to_owned();
                imports.push(Import {
                    alias,
                    path: prefix.clone(),
                    is_reexport: false,
                    line: token.line,
                });
                prefix.truncate(depth);
                return at + 2;
            }
            // `a::{self}` is `a`.
            Kind::Word(word) if word == "self" && !prefix.is_empty() => {}
            Kind::Word(word) => prefix.push(word.clone()),
            _ => break,
        }
        at += 1;
    }
    if prefix.len() > depth || at > 0 {
        let line = tokens[at.saturating_sub(1)].line;
        let alias = prefix.last().cloned().unwrap_or_default();
        imports.push(Import { alias, path: prefix.clone(), is_reexport: false, line });
    }
    prefix.truncate(depth);
    at.max(1)
}

/// Notes the path that begins at a word; gives where to go on.
fn mention(module: &mut Module, tokens: &[Token], at: usize) -> usize {
    let is_field_or_rest = at.checked_sub(1).is_some_and(|before| {
        tokens[before].is_punctuation('.')
            && !(before > 0 && tokens[before - 1].is_punctuation('.'))
            || tokens[before].kind == Kind::Separator
    });
    let mut path: Vec<String> = tokens[at].word().map(str::to_owned).into_iter().collect();
    let mut next = at + 1;
    while tokens.get(next).is_some_and(|token| token.kind == Kind::Separator) {
        let Some(word) = tokens.get(next + 1).and_then(Token::word) else { break };
        path.push(word.to_owned());
        next += 2;
    }
    if !is_field_or_rest {
        module.mentions.entry(path).or_insert(tokens[at].line);
    }
    next
}

/// The name that an item's keyword at this place defines.
fn item_name(tokens: &[Token], at: usize) -> Option<String> {
    let keyword = tokens[at].word()?;
    let name_at = match keyword {
        "struct" | "enum" | "union" | "trait" | "type" | "static" | "fn" => at + 1,
        "const" if !tokens.get(at + 1)?.is_word("fn") => at + 1,
        "macro_rules" => at + 2,
        _ => return None,
    };
    let skips_mut = tokens.get(name_at).is_some_and(|token| token.is_word("mut"));
    tokens.get(name_at + usize::from(skips_mut))?.word().map(str::to_owned)
}

fn is_open(token: Option<&Token>, mark: char) -> bool {
    token.is_some_and(|token| token.is_punctuation(mark))
}

/// The index after the bracket that closes the one at `at`.
fn end_of_group(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token.kind {
            Kind::Mark('(' | '[' | '{') => depth += 1,
            Kind::Mark(')' | ']' | '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}

/// The index after the item, field or statement that begins at `at`, its other attributes included.
fn end_of_item(tokens: &[Token], mut at: usize) -> usize {
    while is_open(tokens.get(at), '#') && is_open(tokens.get(at + 1), '[') {
        at = end_of_group(tokens, at + 1);
    }
    let is_item = is_item(tokens, at);
    while let Some(token) = tokens.get(at) {
        match token.kind {
            Kind::Mark(';') => return at + 1,
            Kind::Mark(',') if !is_item => return at + 1,
            Kind::Mark(')' | ']' | '}') => return at,
            Kind::Mark('{') if is_item && !tokens[at - 1].kind.eq(&Kind::Separator) => {
                let end = end_of_group(tokens, at);
                // A constant's block is a part of its value.
                return end + usize::from(is_open(tokens.get(end), ';'));
            }
            Kind::Mark('(' | '[' | '{') => at = end_of_group(tokens, at),
            _ => at += 1,
        }
    }
    at
}

/// Whether an item begins here, and not a field, an arm or an expression.
fn is_item(tokens: &[Token], mut at: usize) -> bool {
    if tokens.get(at).is_some_and(|token| token.is_word("pub")) {
        at += 1;
        if is_open(tokens.get(at), '(') {
            at = end_of_group(tokens, at);
        }
    }
    const KEYWORDS: &[&str] = &[
        "use",
        "mod",
        "fn",
        "impl",
        "struct",
        "enum",
        "union",
        "const",
        "static",
        "type",
        "trait",
        "unsafe",
        "async",
        "extern",
        "macro_rules",
    ];
    let is_named = !is_open(tokens.get(at + 1), ':');
    is_named && tokens.get(at).and_then(Token::word).is_some_and(|word| KEYWORDS.contains(&word))
}

/// `cfg(test)` or `cfg(all(test, ...))`.
fn is_cfg_test(attribute: &[Token]) -> bool {
    let words: Vec<&str> = attribute.iter().filter_map(Token::word).collect();
    matches!(words.as_slice(), ["cfg", "test"] | ["cfg", "all", "test", ..])
}

fn has_inner_cfg_test(tokens: &[Token]) -> bool {
    let mut at = 0;
    while is_open(tokens.get(at), '#') && is_open(tokens.get(at + 1), '!') {
        let end = end_of_group(tokens, at + 2);
        if is_cfg_test(&tokens[at + 2..end]) {
            return true;
        }
        at = end;
    }
    false
}

fn path_of(attribute: &[Token]) -> Option<String> {
    match attribute {
        [name, equals, Token { kind: Kind::Text(text), .. }]
            if name.is_word("path") && equals.is_punctuation('=') =>
        {
            Some(text.clone())
        }
        _ => None,
    }
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}
