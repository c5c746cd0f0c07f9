//! What inputs are found to be, and what the flags change in that.
//!
//! Not for whole runs: tests/clients has those.

use super::*;

fn found(bytes: &str, column: Option<&str>) -> Result<Layout, String> {
    let wishes =
        Wishes { format: None, column, header: HeaderChoice::Auto, pattern: None, anywhere: false };
    detect(&wishes, bytes.as_bytes(), true)
}

#[test]
fn formats_headers_and_address_columns_are_found() {
    let log = "1.1.1.1 - - [x] \"GET\" 200 1\n";
    let shape = Shape::Log { has_virtual_host: false, address_part: 0 };
    assert_eq!(found(log, None).unwrap().shape, shape);
    let shape = Shape::Log { has_virtual_host: true, address_part: 1 };
    assert_eq!(found(&format!("example.com {log}"), None).unwrap().shape, shape);
    for (text, delimiter, column_count, address_column, header_bytes) in [
        ("a,ip\nx,1.1.1.1\n", b',', 2, 1, 5),
        ("host;c\nname;[::1]:80\n", b';', 2, 1, 7),
        ("x,\"1.1.1.1\",2.2.2.2\n", b',', 3, 1, 0),
        ("1.1.1.1\n", b',', 1, 0, 0),
        ("x\ty\n\t1.1.1.1", b'\t', 2, 1, 4),
        ("client_ip,ip\n-,-\n", b',', 2, 1, 13),
        ("", b',', 1, 0, 0),
    ] {
        let layout = found(text, None).unwrap();
        let shape = cell_shape(delimiter, column_count, address_column);
        assert_eq!((layout.shape, layout.header_bytes), (shape, header_bytes), "{text}");
    }
    let member = |name: &str| Shape::Ndjson { member: MemberPath::new(name.as_bytes()) };
    let text = "{\"a\":\"9.9.9.9\",\"client\":{\"ip\":\"1.1.1.1\"}}\n";
    assert_eq!(found(text, None).unwrap().shape, member("client.ip"));
    assert_eq!(found("{\"x\":1}\n{\"a\":\"::1\"}", None).unwrap().shape, member("a"));
}

#[test]
fn a_column_is_named_or_numbered_and_a_wrong_one_is_told() {
    let rows = "2,1\n1.1.1.1,3.3.3.3\n";
    let column = |name| match found(rows, Some(name)).map(|layout| layout.shape) {
        Ok(Shape::Csv { address_column, .. }) => Some(address_column),
        _ => None,
    };
    // A name goes before a number.
    assert_eq!(
        [column("2"), column("1"), column("3"), column("0")],
        [Some(0), Some(1), None, None]
    );
    for (text, name) in [(rows, "no\nsuch"), ("1.1.1.1 - - [x] \"GET\" 200 1\n", "99")] {
        let error = found(text, Some(name)).unwrap_err();
        assert!(error.contains("allowed: 1 to ") && !error.contains('\n'), "{error}");
    }
    assert!(found("a,b\nc,d\n", None).unwrap_err().contains("there are: a, b"));
    assert!(found("{}\n", None).unwrap_err().contains("--column"));
}
