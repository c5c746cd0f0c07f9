//! Backups of a running engine, as its users ask for them.

mod support;

use support::{Folder, open};
use whered_engine::{Engine, Setup};

fn put(engine: &Engine, key: &[u8]) {
    let rows = [(&b"member"[..], 1.0)];
    engine.keyspace().add_scores(0, key, &rows, Default::default()).expect("there is room");
}

#[test]
fn a_backup_is_refused_inside_of_a_transaction_which_a_snapshot_would_wait_for() {
    let (folder, target) = (Folder::new(), Folder::new());
    let engine = open(folder.path(), Setup::default());
    put(&engine, b"key");
    let written = engine.keyspace().isolated(|| engine.backup(&target.path().join("copy")));
    let refused = written.value.expect_err("it is inside of a transaction");
    assert_eq!(refused.to_string(), "a backup cannot be made inside of a transaction");
    engine.backup(&target.path().join("copy")).expect("it is outside of one");
    let copy = open(&target.path().join("copy"), Setup::default());
    assert!(copy.keyspace().exists(0, b"key"));
}
