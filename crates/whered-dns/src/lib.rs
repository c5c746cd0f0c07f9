//! whered-dns.
