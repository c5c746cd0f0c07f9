//! Arrows of small made-up crates.

use super::*;
use crate::tidy::layers::modules::read_crate;

/// The arrows of a crate of these files, as `from > to`.
fn arrows_of(files: &[(&str, &str)]) -> Vec<String> {
    let read = |path: &str| {
        let found = files.iter().find(|(name, _)| *name == path);
        found.map(|(_, text)| (*text).to_owned())
    };
    let found = read_crate("src/lib.rs", &read).expect("a root");
    let name = |file: usize| found.files[file].trim_start_matches("src/").trim_end_matches(".rs");
    arrows(&found).keys().map(|(from, to)| format!("{} > {}", name(*from), name(*to))).collect()
}

#[test]
fn imports_and_paths_are_arrows_and_declarations_are_not() {
    let found = arrows_of(&[
        ("src/lib.rs", "mod a; mod b; mod c;"),
        ("src/a.rs", "use crate::b::{One, two as second};\nuse std::fmt;\npub struct A(One);"),
        ("src/b.rs", "pub struct One; pub fn two() { crate::c::three(); }"),
        ("src/c.rs", "pub(crate) fn three() {}"),
    ]);
    assert_eq!(found, ["a > b", "b > c"]);
}

#[test]
fn a_re_export_is_followed_and_is_no_use_by_itself() {
    let found = arrows_of(&[
        ("src/lib.rs", "mod a; mod b; pub use b::Deep;"),
        ("src/a.rs", "use crate::Deep; use crate::b::Other;"),
        ("src/b/mod.rs", "mod deep; mod rest; pub use deep::Deep; pub(crate) use rest::*;"),
        ("src/b/deep.rs", "pub struct Deep;"),
        ("src/b/rest.rs", "pub struct Other;"),
    ]);
    assert_eq!(found, ["a > b/deep", "a > b/rest"]);
}

#[test]
fn a_re_export_that_the_file_uses_itself_is_an_arrow() {
    let found = arrows_of(&[
        ("src/lib.rs", "mod b; pub use b::Deep; fn f(_: &Deep) {}"),
        ("src/b.rs", "pub struct Deep;"),
    ]);
    assert_eq!(found, ["lib > b"]);
}

#[test]
fn modules_are_followed_through_super_self_children_and_imports() {
    let found = arrows_of(&[
        ("src/lib.rs", "mod a; mod b;"),
        ("src/a/mod.rs", "mod one; mod two; fn f() { two::g(); }"),
        ("src/a/one.rs", "use super::two::g; use crate::b; fn h() { b::k() }"),
        (
            "src/a/two.rs",
            "pub fn g() { self::inner::x() } mod inner { use super::super::one; pub fn x() {} }",
        ),
        ("src/b.rs", "pub fn k() {}"),
    ]);
    assert_eq!(found, ["a/mod > a/two", "a/one > a/two", "a/one > b"]);
}

#[test]
fn what_only_tests_have_does_not_count() {
    let found = arrows_of(&[
        ("src/lib.rs", "mod a; mod b; #[cfg(test)] mod c;"),
        (
            "src/a.rs",
            "#[cfg(test)]\nuse crate::b::x;\nstruct S { #[cfg(test)] y: crate::b::Y, z: u8 }\n\
             #[cfg(test)]\n#[allow(dead_code)]\nfn f<A, B>(_: A, _: B) { crate::b::x() }\n\
             #[cfg(all(test, unix))]\nmod tests { use crate::b::x; }",
        ),
        ("src/b.rs", "pub fn x() {} pub struct Y;"),
        ("src/c.rs", "use crate::a::S;"),
    ]);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn code_after_what_only_tests_have_counts() {
    let found = arrows_of(&[
        ("src/lib.rs", "mod a; mod b;"),
        ("src/a.rs", "#[cfg(test)] const N: [u8; 2] = [1, 2];\n#[cfg(not(test))] use crate::b::x;"),
        ("src/b.rs", "pub fn x() {}"),
    ]);
    assert_eq!(found, ["a > b"]);
}

#[test]
fn methods_and_fields_with_a_name_of_a_re_export_are_no_use_of_it() {
    let found = arrows_of(&[
        ("src/lib.rs", "mod a; mod b;"),
        ("src/a.rs", "pub use crate::b::x; struct S; impl S { fn y(&self) { self.x; } }"),
        ("src/b.rs", "pub fn x() {}"),
    ]);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_file_by_path_is_read_and_re_exports_in_a_ring_end() {
    let found = arrows_of(&[
        ("src/lib.rs", "#[path = \"odd.rs\"] mod a; mod b; mod c;"),
        ("src/odd.rs", "use crate::b::Nothing; use crate::b::there;"),
        ("src/b.rs", "pub use crate::c::Nothing; pub fn there() {}"),
        ("src/c.rs", "pub use crate::b::Nothing;"),
    ]);
    assert_eq!(found, ["odd > b"]);
}
