//! URLs of primaries, right and wrong.

use super::*;

fn place(url: &str) -> String {
    Address::parse(url).expect(url).endpoint.to_string()
}

#[test]
fn urls_name_a_host_a_port_and_a_path() {
    assert_eq!(place("redis://a"), "a:6379");
    assert_eq!(place("valkey://a:1/"), "a:1");
    assert_eq!(place("redis://[::1]:7"), "[::1]:7");
    assert_eq!(place("rediss://[::1]"), "[::1]:6379");
    assert_eq!(place("unix:///run/redis.sock"), "/run/redis.sock");
    assert!(Address::parse("rediss://a").expect("right").tls.is_some());
    assert!(Address::parse("redis://a").expect("right").tls.is_none());
}

#[test]
fn user_and_password_are_decoded_and_shown_to_nobody() {
    let address = Address::parse("redis://ann:s%40e%3Acret@a:1").expect("right");
    assert_eq!(address.credentials.user.as_deref(), Some("ann"));
    assert_eq!(address.credentials.password.as_deref(), Some("s@e:cret"));
    assert!(!format!("{address:?}").contains("cret"));
    let address = Address::parse("redis://:p@q@a").expect("right");
    assert_eq!(
        (address.credentials.user, address.credentials.password),
        (None, Some("p@q".to_owned()))
    );
}

#[test]
fn a_wrong_url_is_refused_with_what_is_allowed() {
    for url in [
        "a:1",
        "http://a",
        "redis://",
        "redis://:1",
        "redis://a:0",
        "redis://a:65536",
        "redis://a:x",
        "redis://[::1",
        "redis://[::1]x",
        "redis://a/2",
        "redis://a?b",
        "unix://a",
        "unix:///",
        "redis://%4@a",
        "redis://x:%ff@a",
        "redis://a b",
    ] {
        let error = Address::parse(url).expect_err(url);
        assert!(error.contains("allowed") || error.contains("percent"), "{url}: {error}");
    }
    let error = Address::parse("redis://ann:secret@a:x").expect_err("no port");
    assert!(!error.contains("secret"), "{error}");
}
