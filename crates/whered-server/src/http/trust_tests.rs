//! Which headers are trusted without a token.

use axum::body::Body;
use axum::http::Request;

use super::*;

const LOCAL: &str = "127.0.0.1:8080";

/// The status of a request with these headers, 200 if it is trusted.
fn status_at(trusted: &TrustPolicy, local: &str, target: &str, headers: &[(&str, &str)]) -> u16 {
    let mut request = Request::builder().uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::empty()).expect("a request");
    let local = local.parse().ok();
    let checked = check_form(&request)
        .and_then(|()| trusted.check(&request, Arrival { local, ..Arrival::default() }));
    use axum::response::IntoResponse;
    checked.map_or_else(|error| error.into_response().status().as_u16(), |()| 200)
}

fn status(headers: &[(&str, &str)]) -> u16 {
    status_at(&TrustPolicy::default(), LOCAL, "/v1/tables", headers)
}

#[test]
fn without_a_token_host_must_be_a_loopback_name_or_the_listeners_address() {
    for own in [
        "localhost",
        "LOCALHOST:8080",
        "localhost.:8080",
        "localhost:1",
        "localhost:",
        "app.localhost:8080",
        "127.0.0.1",
        "127.0.0.1:8080",
        "127.0.0.1.:8080",
        "127.9.9.9",
        "[::1]:8080",
        "[::1]",
        "[::ffff:127.0.0.1]:8080",
    ] {
        assert_eq!(status(&[("host", own)]), 200, "{own}");
    }
    for foreign in [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "notlocalhost",
        "127.0.0.1.evil.example",
        "192.0.2.1",
        "0.0.0.0:8080",
        "[2001:db8::1]:8080",
        "[::]:8080",
        "",
        ":8080",
        "127.1",
        "2130706433",
    ] {
        assert_eq!(status(&[("host", foreign)]), 403, "{foreign}");
    }
    let at = |local, host| status_at(&TrustPolicy::default(), local, "/", &[("host", host)]);
    assert_eq!(at("192.0.2.1:8080", "192.0.2.1:8080"), 200);
    assert_eq!(at("[::ffff:192.0.2.1]:8080", "192.0.2.1"), 200);
    assert_eq!(at("192.0.2.1:8080", "192.0.2.2:8080"), 403);
    assert_eq!(at("[2001:db8::1]:80", "[2001:DB8:0::1]"), 200);
}

#[test]
fn a_missing_a_second_or_a_malformed_host_is_400() {
    assert_eq!(status(&[]), 400);
    assert_eq!(status(&[("host", "localhost"), ("host", "localhost")]), 400);
    for wrong in [
        "a b",
        "user@localhost",
        "localhost:99999",
        "localhost:+80",
        "localhost:80:80",
        "[::1",
        "[localhost]",
        "[::1]8080",
        "::1",
        "local/host",
        "localhost\t",
    ] {
        assert_eq!(status(&[("host", wrong)]), 400, "{wrong}");
    }
    let old = Request::builder().uri("/").version(Version::HTTP_10).body(Body::empty());
    assert!(check_form(&old.expect("a request")).is_ok());
}

#[test]
fn an_absolute_target_is_a_host_too() {
    let at = |target, host| status_at(&TrustPolicy::default(), LOCAL, target, &[("host", host)]);
    assert_eq!(at("http://localhost:8080/v1/tables", "localhost:8080"), 200);
    assert_eq!(at("http://evil.example/v1/tables", "localhost:8080"), 403);
    assert_eq!(at("http://localhost:8080/v1/tables", "evil.example"), 403);
    assert_eq!(at("http://x@localhost:8080/v1/tables", "localhost"), 403);
}

#[test]
fn without_a_token_only_the_listeners_own_origin_is_trusted() {
    let with = |host, origin| status(&[("host", host), ("origin", origin)]);
    for own in ["http://localhost:8080", "http://127.0.0.1:8080", "HTTP://LOCALHOST:8080"] {
        assert_eq!(with("localhost:8080", own), 200, "{own}");
        assert_eq!(with("127.0.0.1:8080", own), 200, "{own}");
    }
    // What was asked: a tunnel's end, the port of HTTP.
    assert_eq!(with("localhost:9000", "http://localhost:9000"), 200);
    assert_eq!(with("localhost", "http://localhost"), 200);
    assert_eq!(with("localhost", "http://localhost:80"), 200);
    for foreign in [
        "null",
        "https://localhost:8080",
        "http://localhost",
        "http://localhost:8081",
        "http://[::1]:8080",
        "http://127.0.0.2:8080",
        "http://evil.example",
        "http://evil.example:8080",
        "http://app.localhost:8080",
        "file://",
        "",
        "localhost:8080",
        "http://localhost:8080/",
    ] {
        assert_eq!(with("localhost:8080", foreign), 403, "{foreign}");
    }
    let two = [("host", "localhost:8080"), ("origin", "http://localhost:8080"), ("origin", "null")];
    assert_eq!(status(&two), 403);
}

#[test]
fn without_a_token_only_none_and_same_origin_are_trusted_sites() {
    let with = |site| status(&[("host", "localhost:8080"), ("sec-fetch-site", site)]);
    assert_eq!((with("none"), with("same-origin")), (200, 200));
    for foreign in ["cross-site", "same-site", "", "None", "none, same-origin"] {
        assert_eq!(with(foreign), 403, "{foreign}");
    }
}

#[test]
fn the_configuration_names_further_hosts_and_origins() {
    let trusted = TrustPolicy {
        hosts: vec!["maps.example.com".to_owned(), "192.0.2.9".to_owned()],
        origins: vec!["https://maps.example.com".to_owned()],
    };
    let with = |headers: &[(&str, &str)]| status_at(&trusted, LOCAL, "/", headers);
    assert_eq!(with(&[("host", "MAPS.example.com.:443")]), 200);
    assert_eq!(with(&[("host", "192.0.2.9:80")]), 200);
    assert_eq!(with(&[("host", "x.maps.example.com")]), 403);
    let origin = |text| with(&[("host", "maps.example.com"), ("origin", text)]);
    assert_eq!(origin("https://maps.example.com"), 200);
    assert_eq!(origin("https://maps.example.com:443"), 200);
    assert_eq!(origin("https://maps.example.com:8443"), 403);
    assert_eq!(origin("https://example.com"), 403);
    let site = |origin| {
        let host = ("host", "maps.example.com");
        with(&[host, ("origin", origin), ("sec-fetch-site", "cross-site")])
    };
    assert_eq!(site("https://maps.example.com"), 200);
    assert_eq!(site("http://maps.example.com"), 403);
    for wrong in ["a:80", "a:", "", "http://a", "a b", "a/b"] {
        assert!(!is_host(wrong), "{wrong}");
    }
    for wrong in ["maps.example.com", "https://", "ftp://a", "https://a/", "null"] {
        assert!(!is_origin(wrong), "{wrong}");
    }
}

#[test]
fn a_transfer_encoding_other_than_chunked_alone_is_501() {
    let with = |values: &[&'static str]| {
        let mut headers = vec![("host", "localhost")];
        headers.extend(values.iter().map(|value| ("transfer-encoding", *value)));
        status(&headers)
    };
    assert_eq!((with(&["chunked"]), with(&["Chunked"])), (200, 200));
    for wrong in ["gzip, chunked", "chunked, chunked", "gzip", "identity", "", "chunked;a=b"] {
        assert_eq!(with(&[wrong]), 501, "{wrong}");
    }
    assert_eq!(with(&["chunked", "chunked"]), 501);
}
