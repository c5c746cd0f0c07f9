//! Arrows of made-up workspaces.

use super::*;

fn package(name: &str, folder: &str, uses: &[&str]) -> Package {
    let arrows = uses
        .iter()
        .map(|name| Arrow { name: (*name).to_owned(), folder: Some(format!("crates/{name}")) });
    Package { name: name.to_owned(), folder: folder.to_owned(), arrows: arrows.collect() }
}

fn findings_of(package: Package) -> Vec<Finding> {
    check(&[package], &[])
}

#[test]
fn arrows_of_the_table_pass() {
    for (name, may_use) in TABLE {
        assert_eq!(findings_of(package(name, &format!("crates/{name}"), may_use)), []);
    }
    for (folder, may_use) in BINDINGS {
        assert_eq!(findings_of(package("binding", folder, may_use)), []);
    }
}

#[test]
fn no_row_of_the_table_allows_a_circle() {
    // Every row names only packages whose own rows come earlier: an order, hence no circle.
    for (index, (name, may_use)) in TABLE.iter().enumerate() {
        for used in *may_use {
            let place = TABLE.iter().position(|(other, _)| other == used).unwrap();
            assert!(place < index, "{name} uses {used}, which has a later row");
        }
    }
}

#[test]
fn an_arrow_that_points_up_is_found_at_its_line() {
    let text =
        "[package]\nname = \"whered-ip\"\n[dependencies]\nwhered-geo = { workspace = true }\n";
    let manifest =
        TextFile { path: "crates/whered-ip/Cargo.toml".to_owned(), text: text.to_owned() };
    let found = check(&[package("whered-ip", "crates/whered-ip", &["whered-geo"])], &[manifest]);
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].to_string(),
        "crates/whered-ip/Cargo.toml:4: whered-ip uses whered-geo; allowed: whered-simd, whered-random"
    );
}

#[test]
fn the_server_may_not_reach_into_an_index() {
    let found = findings_of(package("whered-server", "crates/whered-server", &["whered-geo"]));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].allowed, "whered-engine, whered-dns, whered-replication");
}

#[test]
fn an_unknown_crate_needs_a_row() {
    let found = findings_of(package("whered-new", "crates/whered-new", &[]));
    assert!(found[0].what.contains("has no row"));
    let found = findings_of(package("tools", "tools", &[]));
    assert!(found[0].what.contains("has no row"));
}

#[test]
fn chores_use_anything_and_are_used_by_nothing() {
    assert_eq!(findings_of(package("whered-versus", "bench/versus", &["whered-server"])), []);
    let mut engine = package("whered-engine", "crates/whered-engine", &[]);
    engine.arrows.push(Arrow { name: "xtask".to_owned(), folder: Some("xtask".to_owned()) });
    assert_eq!(findings_of(engine)[0].allowed, "nothing depends on xtask");
}

#[test]
fn only_packages_of_bench_use_the_library_of_benchmarks() {
    let using = |name: &str, folder: &str| {
        let mut package = package(name, folder, &[]);
        let (name, folder) = ("whered-bench".to_owned(), "bench/whered-bench".to_owned());
        package.arrows.push(Arrow { name, folder: Some(folder) });
        findings_of(package)
    };
    assert_eq!(using("whered-own-bench", "bench/own"), []);
    let found = using("whered", "crates/whered");
    assert_eq!(found[0].allowed, "nothing depends on bench/whered-bench");
}

#[test]
fn a_path_outside_the_repository_is_found() {
    let mut engine = package("whered-engine", "crates/whered-engine", &[]);
    engine.arrows.push(Arrow { name: "far".to_owned(), folder: None });
    assert_eq!(findings_of(engine).len(), 1);
}

#[test]
fn a_folder_is_called_as_its_package_and_nothing_is_called_common() {
    let found = findings_of(package("whered-ip", "crates/ip", &[]));
    assert!(found[0].what.contains("lies in crates/ip"));
    let found = findings_of(package("whered-common", "crates/whered-common", &[]));
    assert!(found.iter().any(|finding| finding.what.contains("is called common")));
}

#[test]
fn a_dependency_is_recognised_in_each_of_its_spellings() {
    assert!(names_dependency("whered-ip = { workspace = true }", "whered-ip"));
    assert!(names_dependency("whered-ip.workspace = true", "whered-ip"));
    assert!(names_dependency("[dependencies.whered-ip]", "whered-ip"));
    assert!(!names_dependency("whered-ipx = \"1\"", "whered-ip"));
}
