//! The mistakes, and what is silently wrong.
//!
//! Not for: how they are tried (`mistakes.rs`). `PORT` stands for what a setting gives.

/// A configuration with one mistake, or with something that is hardly meant.
pub(crate) struct Mistake {
    pub(crate) name: &'static str,
    pub(crate) setting: Setting,
    /// The wrong line ends with `#!`.
    pub(crate) config: &'static str,
    /// A part of the line that is said.
    pub(crate) says: &'static str,
}

/// What is around a configuration.
pub(crate) enum Setting {
    None,
    /// A file of this name, with these bytes.
    File(&'static str, &'static [u8]),
    Folder(&'static str),
    /// A folder that this process, or the user that it becomes, may not write.
    ClosedFolder(&'static str),
    /// Somebody listens at a port of TCP.
    HeldTcp,
    /// Somebody has a port of UDP.
    HeldUdp,
    /// Somebody listens at this path.
    HeldUnix(&'static str),
    /// A server holds the folder `data`.
    HeldData,
    /// The folder `data` has a journal whose first segment is changed.
    Journal(fn(&mut Vec<u8>)),
    /// It has a file whose name is nearly that of a segment.
    OddJournal,
    /// It has a snapshot that is none.
    Snapshot,
}

/// A configuration without a mistake.
pub(crate) const RIGHT: &str = r#"data_dir = "data"
[resp]
listen = ["127.0.0.1:0"]
unix_socket = "resp.sock"
[resp.tls]
listen = ["127.0.0.1:0"]
certificate = "one.pem"
key = "one.key"
[http]
listen = ["127.0.0.1:0"]
[dns]
listen = ["127.0.0.1:0"]
query_log = "queries"
[[database]]
name = "city"
path = "city.mmdb"
[[ruleset]]
name = "edge"
path = "edge.rules"
[[zone]]
name = "example.com"
path = "example.zone"
[[pool]]
name = "www"
owners = ["www.example.com"]
[[pool.site]]
name = "fra"
at = { longitude = 8.68, latitude = 50.11 }
addresses = ["192.0.2.10"]
[[feed]]
name = "seen"
format = "ndjson"
member = "m"
into = { table = "seen" }
drop_folder = "drop"
"#;

/// Refused by check and serve alike.
pub(crate) const MISTAKES: &[Mistake] = &[
    Mistake {
        name: "syntax",
        setting: Setting::None,
        config: "[resp #!
",
        says: "",
    },
    Mistake {
        name: "a primary that is no address",
        setting: Setting::None,
        config: "[[zone]]\nname = \"example.com\"\nprimaries = [\"ns1.example.net\"] #!\n",
        says: "allowed: servers such as",
    },
    Mistake {
        name: "a key that is not defined",
        setting: Setting::None,
        config: "[[zone]]\nname = \"example.com\"\nprimaries = [\"192.0.2.1 key k\"] #!\n",
        says: "which no [[tsig_key]] defines",
    },
    Mistake {
        name: "a zone that is signed here and given to others without a place for its serial",
        setting: Setting::None,
        config: "[[zone]] #!\nname = \"example.com\"\npath = \"z\"\nsign = true\nkeys = \"k\"\nnotify = [\"192.0.2.1\"]\n",
        says: "would forget at a restart which serial",
    },
    Mistake {
        name: "a zone in a catalog that comes from elsewhere",
        setting: Setting::None,
        config: "[[catalog]]\nname = \"c.example\"\nprimaries = [\"192.0.2.1\"]\n[[zone]]\nname = \"example.com\"\npath = \"z\"\ncatalog = \"c.example\" #!\n",
        says: "which no [[catalog]] without primaries is",
    },
    Mistake {
        name: "members of a catalog that is made here",
        setting: Setting::None,
        config: "[[catalog]]\nname = \"c.example\"\nmembers_max = 9 #!\n",
        says: "stands without 'primaries'",
    },
    Mistake {
        name: "a catalog with the name of a zone",
        setting: Setting::None,
        config: "[[zone]]\nname = \"example.com\"\npath = \"z\"\n[[catalog]]\nname = \"Example.com\" #!\n",
        says: "repeats the zone 'Example.com'",
    },
    Mistake {
        name: "a policy of updates without a key",
        setting: Setting::None,
        config: "[[zone]]\nname = \"example.com\"\npath = \"z\"\n[[zone.update]] #!\nacme = true\n",
        says: "no 'key' in [[zone.update]]",
    },
    Mistake {
        name: "a policy of updates for a name elsewhere",
        setting: Setting::None,
        config: "[[tsig_key]]\nname = \"k\"\nsecret = \"bWFrZSB5b3VyIG93biBzZWNyZXQ=\"\n[[zone]]\nname = \"example.com\"\npath = \"z\"\n[[zone.update]]\nkey = \"k\"\nnames = [\"*.example.net\"] #!\n",
        says: "which is not in example.com.",
    },
    Mistake {
        name: "a short secret",
        setting: Setting::None,
        config: "[[tsig_key]]\nname = \"k\"\nsecret = \"YQ==\" #!\n",
        says: "allowed: base 64 of 16 bytes or more",
    },
    Mistake {
        name: "unknown section",
        setting: Setting::None,
        config: "respo = 1 #!
",
        says: "unknown key 'respo' in the top level",
    },
    Mistake {
        name: "unknown key",
        setting: Setting::None,
        config: "[resp]
lisen = [] #!
",
        says: "unknown key 'lisen' in [resp]",
    },
    Mistake {
        name: "wrong type",
        setting: Setting::None,
        config: r#"[resp]
threads = "2" #!
"#,
        says: "'threads' in [resp] is a string",
    },
    Mistake {
        name: "out of range",
        setting: Setting::None,
        config: "[resp]
threads = 0 #!
",
        says: "allowed: 1 to 256",
    },
    Mistake {
        name: "no address",
        setting: Setting::None,
        config: r#"[resp]
listen = ["6380"] #!
"#,
        says: "addresses with ports",
    },
    Mistake {
        name: "address twice in a list",
        setting: Setting::None,
        config: r#"[resp]
listen = ["127.0.0.1:1", "127.0.0.1:1"] #!
"#,
        says: "every address once",
    },
    Mistake {
        name: "open RESP without a password",
        setting: Setting::None,
        config: r#"[resp]
listen = ["0.0.0.0:0"] #!
"#,
        says: "without a 'password'",
    },
    Mistake {
        name: "open HTTP without a token",
        setting: Setting::None,
        config: r#"[http]
listen = ["0.0.0.0:0"] #!
"#,
        says: "without a 'token'",
    },
    Mistake {
        name: "token with a space",
        setting: Setting::None,
        config: r#"[http]
token = "a b" #!
"#,
        says: "cannot stand in a header",
    },
    Mistake {
        name: "no hash",
        setting: Setting::None,
        config: r#"[resp]
password_sha256 = "12" #!
"#,
        says: "is no hash",
    },
    Mistake {
        name: "password and hash",
        setting: Setting::None,
        config: r#"[resp]
password = "x"
password_sha256 = "12" #!
"#,
        says: "one of the two",
    },
    Mistake {
        name: "password and its file",
        setting: Setting::None,
        config: r#"[resp]
password = "x"
password_file = "one.key" #!
"#,
        says: "stands beside 'password'",
    },
    Mistake {
        name: "password file missing",
        setting: Setting::None,
        config: r#"[resp]
password_file = "none" #!
"#,
        says: "which cannot be read: No such file",
    },
    Mistake {
        name: "password file empty",
        setting: Setting::File("empty", b"\n"),
        config: r#"[resp]
password_file = "empty" #!
"#,
        says: "which is empty",
    },
    Mistake {
        name: "password file of lines",
        setting: Setting::None,
        config: r#"[resp]
password_file = "one.pem" #!
"#,
        says: "which has more than one line",
    },
    Mistake {
        name: "token file is a folder",
        setting: Setting::Folder("some"),
        config: r#"[http]
token_file = "some" #!
"#,
        says: "which is not a regular file",
    },
    Mistake {
        name: "credential without a service",
        setting: Setting::None,
        config: r#"[http]
token_file = "credential:http" #!
"#,
        says: "CREDENTIALS_DIRECTORY is not set",
    },
    Mistake {
        name: "user twice",
        setting: Setting::None,
        config: r#"[[resp.user]]
name = "a"
password = "x"
[[resp.user]]
name = "a" #!
password = "x"
"#,
        says: "every name once",
    },
    Mistake {
        name: "user without a password",
        setting: Setting::None,
        config: r#"[[resp.user]] #!
name = "a"
"#,
        says: "no 'password'",
    },
    Mistake {
        name: "rule of no command",
        setting: Setting::None,
        config: r#"[[resp.user]] #!
name = "a"
password = "x"
commands = ["+lpsh"]
"#,
        says: "names no command",
    },
    Mistake {
        name: "socket permissions",
        setting: Setting::None,
        config: r#"[resp]
unix_socket = "s"
unix_socket_permissions = "999" #!
"#,
        says: r#""000" to "777""#,
    },
    Mistake {
        name: "TLS without a key",
        setting: Setting::None,
        config: r#"[resp.tls] #!
listen = ["127.0.0.1:0"]
certificate = "one.pem"
"#,
        says: "no 'key'",
    },
    Mistake {
        name: "client certificates without authority",
        setting: Setting::None,
        config: r#"[resp.tls]
listen = ["127.0.0.1:0"]
certificate = "one.pem"
key = "one.key"
client_certificate = "optional" #!
"#,
        says: "nothing without a 'client_ca'",
    },
    Mistake {
        name: "places of no database",
        setting: Setting::None,
        config: r#"[dns]
database = "none" #!
"#,
        says: "which no [[database]] defines",
    },
    Mistake {
        name: "cookie secret",
        setting: Setting::None,
        config: r#"[dns]
cookie_secret = "12" #!
"#,
        says: "32 hexadecimal digits",
    },
    Mistake {
        name: "group without a user",
        setting: Setting::None,
        config: r#"[server]
group = "x" #!
"#,
        says: "stands without 'user'",
    },
    Mistake {
        name: "level of the log",
        setting: Setting::None,
        config: r#"[log]
level = "loud" #!
"#,
        says: "off, error, warn, info, debug, trace",
    },
    Mistake {
        name: "form of the log",
        setting: Setting::None,
        config: r#"[log]
format = "xml" #!
"#,
        says: "text, json",
    },
    Mistake {
        name: "journal policy",
        setting: Setting::None,
        config: r#"[journal]
sync = "often" #!
"#,
        says: "always, everysec, off",
    },
    Mistake {
        name: "database twice",
        setting: Setting::None,
        config: r#"[[database]]
name = "city"
path = "city.mmdb"
[[database]]
name = "city" #!
path = "city.mmdb"
"#,
        says: "every name once",
    },
    Mistake {
        name: "database mode",
        setting: Setting::None,
        config: r#"[[database]]
name = "city"
path = "city.mmdb"
mode = "fast" #!
"#,
        says: "'mode' in [[database]] is 'fast'",
    },
    Mistake {
        name: "field twice",
        setting: Setting::None,
        config: r#"[[database]]
name = "city"
path = "city.mmdb"
fields = ["a", "a"] #!
"#,
        says: "every field once",
    },
    Mistake {
        name: "zone twice",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
[[zone]]
name = "Example.com." #!
path = "example.zone"
"#,
        says: "every name once",
    },
    Mistake {
        name: "zone of no name",
        setting: Setting::None,
        config: r#"[[zone]]
name = "a..b" #!
path = "x"
"#,
        says: "a domain name such as example.com",
    },
    Mistake {
        name: "keys of an unsigned zone",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
keys = "keys" #!
"#,
        says: "is there without sign = true; allowed: a directory of keys that sign",
    },
    Mistake {
        name: "a denial that is none",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
sign = true
denial = "nsec3" #!
"#,
        says: "is 'nsec3'; allowed: 'nsec' or 'compact'",
    },
    Mistake {
        name: "compact denial of a zone for other servers",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
sign = true
allow_transfer = ["192.0.2.1"]
denial = "compact" #!
"#,
        says: "'nsec', whose records other servers can have",
    },
    Mistake {
        name: "denial of an unsigned zone",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
denial = "compact" #!
"#,
        says: "is there without sign = true; allowed: how a zone that is signed here denies names",
    },
    Mistake {
        name: "a limit of signatures that no number has",
        setting: Setting::None,
        config: r#"[dns]
signature_limit = 70000 #!
"#,
        says: "0 to 65535",
    },
    Mistake {
        name: "signed and stripped",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
sign = true
unsigned = "strip" #!
"#,
        says: "is there with sign = true; allowed: one of both",
    },
    Mistake {
        name: "an alias of nothing",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
[[zone.alias]] #!
name = "www.example.com"
"#,
        says: "no 'target' in [[zone.alias]]",
    },
    Mistake {
        name: "an alias outside its zone",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
[[zone.alias]]
name = "www.example.net" #!
target = "lb.example.net"
"#,
        says: "a name in example.com. without '*'",
    },
    Mistake {
        name: "an alias of itself",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
[[zone.alias]]
target = "Example.com" #!
"#,
        says: "is the alias itself",
    },
    Mistake {
        name: "an alias twice",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
[[zone.alias]]
target = "a.example.net"
[[zone.alias]]
name = "EXAMPLE.com" #!
target = "b.example.net"
"#,
        says: "every name once",
    },
    Mistake {
        name: "an alias that is looked up all the time",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
[[zone.alias]]
target = "a.example.net"
ttl_seconds = 1 #!
"#,
        says: "5 to 86400",
    },
    Mistake {
        name: "a transfer without an alias's addresses",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
allow_transfer = ["192.0.2.1"] #!
[[zone.alias]]
target = "a.example.net"
"#,
        says: "stands beside [[zone.alias]]; allowed: a zone without aliases",
    },
    Mistake {
        name: "a resolver that is no address",
        setting: Setting::None,
        config: r#"[dns]
resolvers = ["dns.example.net"] #!
"#,
        says: "addresses such as",
    },
    Mistake {
        name: "an alias where the zone has an address",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone" #!
[[zone.alias]]
name = "other.example.com"
target = "a.example.net"
"#,
        says: "found A at other.example.com.",
    },
    Mistake {
        name: "dnstap to nobody",
        setting: Setting::None,
        config: r#"[dns]
[dns.dnstap] #!
messages = "both"
"#,
        says: "no 'socket' in [dns.dnstap]",
    },
    Mistake {
        name: "other messages of dnstap",
        setting: Setting::None,
        config: r#"[dns]
[dns.dnstap]
socket = "tap.sock"
messages = "all" #!
"#,
        says: "is 'all'; allowed: 'both', 'queries' or 'responses'",
    },
    Mistake {
        name: "a signed blocklist",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
sign = true #!
blocklist = { set = "s" }
"#,
        says: "a zone whose names are all in its file",
    },
    Mistake {
        name: "blocklist of a foreign address",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
blocklist = { set = "s", address = "192.0.2.1" } #!
"#,
        says: "127.0.0.0/8",
    },
    Mistake {
        name: "texts of no database",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
database_txt = { database = "none", fields = ["a"] } #!
"#,
        says: "which no [[database]] defines",
    },
    Mistake {
        name: "owner outside",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
[[pool]]
name = "p"
owners = ["www.example.org"] #!
policy = ["weighted"]
[[pool.site]]
name = "s"
addresses = ["192.0.2.9"]
"#,
        says: "which lies in no [[zone]]",
    },
    Mistake {
        name: "owner twice",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
[[pool]]
name = "p"
owners = ["a.example.com", "A.example.com"] #!
policy = ["weighted"]
[[pool.site]]
name = "s"
addresses = ["192.0.2.9"]
"#,
        says: "every name once",
    },
    Mistake {
        name: "unknown step",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
[[pool]]
name = "p"
owners = ["www.example.com"]
policy = ["closest"] #!
[[pool.site]]
name = "s"
addresses = ["192.0.2.9"]
"#,
        says: "unknown step 'closest'",
    },
    Mistake {
        name: "step of no ruleset",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
[[pool]]
name = "p"
owners = ["www.example.com"]
policy = ["rules:none"] #!
[[pool.site]]
name = "s"
addresses = ["192.0.2.9"]
"#,
        says: "which is no [[ruleset]]",
    },
    Mistake {
        name: "step of no map",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
[[pool]]
name = "p"
owners = ["www.example.com"]
policy = ["map:none"] #!
[[pool.site]]
name = "s"
addresses = ["192.0.2.9"]
"#,
        says: "which is no [[map]]",
    },
    Mistake {
        name: "map of no site",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
[[map]]
name = "m"
default = ["x"]
[[pool]] #!
name = "p"
owners = ["www.example.com"]
policy = ["map:m"]
[[pool.site]]
name = "s"
addresses = ["192.0.2.9"]
"#,
        says: "does not have",
    },
    Mistake {
        name: "country of no code",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
[[map]]
name = "m"
countries = { UK = ["s"] } #!
"#,
        says: "has the key 'UK'",
    },
    Mistake {
        name: "site without answers",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
[[pool]]
name = "p"
owners = []
policy = ["weighted"]
[[pool.site]] #!
name = "s"
"#,
        says: "no 'addresses'",
    },
    Mistake {
        name: "nearest without places",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
[[pool]]
name = "p"
owners = []
[[pool.site]] #!
name = "s"
addresses = ["192.0.2.9"]
"#,
        says: "no 'at'",
    },
    Mistake {
        name: "alias beside addresses",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
[[pool]]
name = "p"
owners = ["www.example.com"]
policy = ["weighted"]
[[pool.site]]
name = "s"
addresses = ["192.0.2.9"]
cname = "a.example.org" #!
"#,
        says: "stands beside others",
    },
    Mistake {
        name: "check of no scheme",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
[[pool]]
name = "p"
owners = ["www.example.com"]
policy = ["weighted"]
[[pool.site]]
name = "s"
addresses = ["192.0.2.9"]
check = "ping:x" #!
"#,
        says: "tcp://HOST:PORT",
    },
    Mistake {
        name: "a replica of what is no server",
        setting: Setting::None,
        config: "[[replica]]\nof = \"http://127.0.0.1\" #!\nmatch = [\"fleet:*\"]\n",
        says: "allowed: redis://HOST[:PORT], rediss://..., unix:///PATH",
    },
    Mistake {
        name: "a replica of a database that nobody has",
        setting: Setting::None,
        config: "[[replica]]\nof = \"redis://127.0.0.1\"\nmatch = [\"fleet:*\"]\ndatabase = 16 #!\n",
        says: "'database' in [[replica]] is 16; allowed: 0 to 15",
    },
    Mistake {
        name: "two replicas of the same keys",
        setting: Setting::None,
        config: "[[replica]]\nof = \"redis://127.0.0.1:1\"\nmatch = [\"fleet:*\"]\n\
                 [[replica]]\nof = \"redis://127.0.0.1:2\"\nmatch = [\"*:berlin\"] #!\n",
        says: "'fleet:*' of another [[replica]] can match the same keys",
    },
    Mistake {
        name: "a replica without patterns",
        setting: Setting::None,
        config: "[[replica]] #!\nof = \"redis://127.0.0.1:1\"\n",
        says: "'match' in [[replica]]",
    },
    Mistake {
        name: "certificates for a replica without TLS",
        setting: Setting::File("ca.pem", b"x"),
        config: "[[replica]]\nof = \"redis://127.0.0.1:1\"\nmatch = [\"a\"]\nca = \"ca.pem\" #!\n",
        says: "'ca' in [[replica]]",
    },
    Mistake {
        name: "a replica of a collection that a feed fills",
        setting: Setting::None,
        config: "data_dir = \"data\"\n[[feed]]\nname = \"seen\"\nformat = \"ndjson\"\nmember = \"m\"\n\
                 longitude = \"x\"\nlatitude = \"y\"\ninto = { collection = \"fleet:a\" }\n\
                 [[replica]]\nof = \"redis://127.0.0.1:1\"\nmatch = [\"fleet:*\"] #!\n",
        says: "names 'fleet:a', which [[feed]] 'seen' fills",
    },
    Mistake {
        name: "feed without a data_dir",
        setting: Setting::None,
        config: r#"[[feed]] #!
name = "f"
format = "ndjson"
member = "m"
into = { table = "t" }
"#,
        says: "would acknowledge uploads and lose them",
    },
    Mistake {
        name: "feed of no format",
        setting: Setting::None,
        config: r#"data_dir = "data"
[[feed]]
name = "f"
format = "yaml" #!
member = "m"
into = { table = "t" }
"#,
        says: "'format' in [[feed]] is 'yaml'",
    },
    Mistake {
        name: "sink of no kind",
        setting: Setting::None,
        config: r#"data_dir = "data"
[[feed]]
name = "f"
format = "ndjson"
member = "m"
into = { table = "t" }
[[feed.sink]]
url = "oracle://h/d" #!
"#,
        says: "a URL that begins with",
    },
    Mistake {
        name: "sink of no table",
        setting: Setting::None,
        config: r#"data_dir = "data"
[[feed]]
name = "f"
format = "ndjson"
member = "m"
into = { table = "t" }
[[feed.sink]]
url = "mysql://u@h/d"
tables = ["x"] #!
"#,
        says: "which this feed does not fill",
    },
    Mistake {
        name: "table of two feeds",
        setting: Setting::None,
        config: r#"data_dir = "data"
[[feed]]
name = "f"
format = "ndjson"
member = "m"
into = { table = "t" }
[[feed]]
name = "g"
format = "ndjson"
member = "m"
into = { table = "t" } #!
"#,
        says: "every name once",
    },
    Mistake {
        name: "certificate missing",
        setting: Setting::None,
        config: r#"[resp.tls]
listen = ["127.0.0.1:0"]
certificate = "none.pem" #!
key = "one.key"
"#,
        says: "none.pem",
    },
    Mistake {
        name: "certificate is none",
        setting: Setting::None,
        config: r#"[resp.tls]
listen = ["127.0.0.1:0"]
certificate = "rows.csv" #!
key = "one.key"
"#,
        says: "there is no certificate in it",
    },
    Mistake {
        name: "certificate is a folder",
        setting: Setting::Folder("some"),
        config: r#"[resp.tls]
listen = ["127.0.0.1:0"]
certificate = "some" #!
key = "one.key"
"#,
        says: "some",
    },
    Mistake {
        name: "key missing",
        setting: Setting::None,
        config: r#"[resp.tls]
listen = ["127.0.0.1:0"]
certificate = "one.pem"
key = "none.key" #!
"#,
        says: "none.key",
    },
    Mistake {
        name: "key is none",
        setting: Setting::None,
        config: r#"[resp.tls]
listen = ["127.0.0.1:0"]
certificate = "one.pem"
key = "two.pem" #!
"#,
        says: "two.pem",
    },
    Mistake {
        name: "key of another certificate",
        setting: Setting::None,
        config: r#"[resp.tls]
listen = ["127.0.0.1:0"]
certificate = "one.pem" #!
key = "two.key"
"#,
        says: "one.pem",
    },
    Mistake {
        name: "authority missing",
        setting: Setting::None,
        config: r#"[resp.tls]
listen = ["127.0.0.1:0"]
certificate = "one.pem"
key = "one.key"
client_ca = "none.pem" #!
"#,
        says: "none.pem",
    },
    Mistake {
        name: "authority is none",
        setting: Setting::None,
        config: r#"[resp.tls]
listen = ["127.0.0.1:0"]
certificate = "one.pem"
key = "one.key"
client_ca = "rows.csv" #!
"#,
        says: "there is no certificate in it",
    },
    Mistake {
        name: "HTTPS without a certificate",
        setting: Setting::None,
        config: r#"[http.tls] #!
listen = ["127.0.0.1:0"]
key = "one.key"
"#,
        says: "no 'certificate'",
    },
    Mistake {
        name: "certificate of HTTPS missing",
        setting: Setting::None,
        config: r#"[http.tls]
listen = ["127.0.0.1:0"]
certificate = "none.pem" #!
key = "one.key"
"#,
        says: "none.pem",
    },
    Mistake {
        name: "key of HTTPS is of another certificate",
        setting: Setting::None,
        config: r#"[http.tls]
listen = ["127.0.0.1:0"]
certificate = "one.pem" #!
key = "two.key"
"#,
        says: "one.pem",
    },
    Mistake {
        name: "authority of HTTPS is none",
        setting: Setting::None,
        config: r#"[http.tls]
listen = ["127.0.0.1:0"]
certificate = "one.pem"
key = "one.key"
client_ca = "rows.csv" #!
"#,
        says: "there is no certificate in it",
    },
    Mistake {
        name: "port of HTTPS held",
        setting: Setting::HeldTcp,
        config: r#"[http.tls]
listen = ["127.0.0.1:PORT"] #!
certificate = "one.pem"
key = "one.key"
"#,
        says: "cannot listen on",
    },
    Mistake {
        name: "authority of a check missing",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
[[pool]]
name = "p"
owners = ["www.example.com"]
policy = ["weighted"]
[[pool.site]]
name = "s"
addresses = ["192.0.2.9"]
check = { url = "https://192.0.2.9/", ca = "none.pem" } #!
"#,
        says: "none.pem",
    },
    Mistake {
        name: "authority of a check is none",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
[[pool]]
name = "p"
owners = ["www.example.com"]
policy = ["weighted"]
[[pool.site]]
name = "s"
addresses = ["192.0.2.9"]
check = { url = "https://192.0.2.9/", ca = "one.key" } #!
"#,
        says: "there is no certificate in it",
    },
    Mistake {
        name: "port of RESP and HTTP",
        setting: Setting::None,
        config: r#"[resp]
listen = ["127.0.0.1:7001"]
[http]
listen = ["127.0.0.1:7001"] #!
"#,
        says: "every port of an address once",
    },
    Mistake {
        name: "port of RESP and its TLS",
        setting: Setting::None,
        config: r#"[resp]
listen = ["127.0.0.1:7001"]
[resp.tls]
listen = ["127.0.0.1:7001"] #!
certificate = "one.pem"
key = "one.key"
"#,
        says: "every port of an address once",
    },
    Mistake {
        name: "port of HTTP and DNS",
        setting: Setting::None,
        config: r#"[http]
listen = ["127.0.0.1:7001"]
[dns]
listen = ["127.0.0.1:7001"] #!
"#,
        says: "every port of an address once",
    },
    Mistake {
        name: "port of all addresses and of one",
        setting: Setting::None,
        config: r#"[resp]
listen = ["0.0.0.0:7001"]
password = "x"
[dns]
listen = ["127.0.0.1:7001"] #!
"#,
        says: "every port of an address once",
    },
    Mistake {
        name: "address of another machine",
        setting: Setting::None,
        config: r#"[http]
listen = ["192.0.2.1:0"] #!
token = "x"
"#,
        says: "HTTP cannot listen on 192.0.2.1:0",
    },
    Mistake {
        name: "RESP at an address in use",
        setting: Setting::HeldTcp,
        config: r#"[resp]
listen = ["127.0.0.1:PORT"] #!
"#,
        says: "RESP cannot listen on",
    },
    Mistake {
        name: "HTTP at an address in use",
        setting: Setting::HeldTcp,
        config: r#"[http]
listen = ["127.0.0.1:PORT"] #!
"#,
        says: "HTTP cannot listen on",
    },
    Mistake {
        name: "DNS at an address in use",
        setting: Setting::HeldTcp,
        config: r#"[dns]
listen = ["127.0.0.1:PORT"] #!
"#,
        says: "DNS cannot listen on",
    },
    Mistake {
        name: "DNS at an address in use for UDP",
        setting: Setting::HeldUdp,
        config: r#"[dns]
listen = ["127.0.0.1:PORT"] #!
"#,
        says: "DNS cannot listen on",
    },
    Mistake {
        name: "second address in use",
        setting: Setting::HeldTcp,
        config: r#"[resp]
listen = [
  "127.0.0.1:0",
  "127.0.0.1:PORT"] #!
"#,
        says: "Address already in use",
    },
    Mistake {
        name: "socket path of a file",
        setting: Setting::None,
        config: r#"[resp]
unix_socket = "rows.csv" #!
"#,
        says: "there is something that is no socket",
    },
    Mistake {
        name: "socket folder missing",
        setting: Setting::None,
        config: r#"[resp]
unix_socket = "none/s" #!
"#,
        says: "No such file or directory",
    },
    Mistake {
        name: "socket path too long",
        setting: Setting::None,
        config: r#"[resp]
unix_socket = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" #!
"#,
        says: "cannot listen on",
    },
    Mistake {
        name: "socket of another process",
        setting: Setting::HeldUnix("held"),
        config: r#"[resp]
unix_socket = "held" #!
"#,
        says: "another process listens there",
    },
    Mistake {
        name: "unknown user",
        setting: Setting::None,
        config: r#"[server]
user = "no-such-user" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "there is no such user",
    },
    Mistake {
        name: "unknown group",
        setting: Setting::None,
        config: r#"[server]
user = "nobody"
group = "no-such-group" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "there is no such group",
    },
    Mistake {
        name: "user root",
        setting: Setting::None,
        config: r#"[server]
user = "root" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "is root",
    },
    Mistake {
        name: "folder of sets missing",
        setting: Setting::None,
        config: r#"[sets]
directory = "none" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "which is not there",
    },
    Mistake {
        name: "folder of backups is a file",
        setting: Setting::None,
        config: r#"[backup]
directory = "rows.csv" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "which is no directory",
    },
    Mistake {
        name: "query log in no folder",
        setting: Setting::None,
        config: r#"[dns]
listen = ["127.0.0.1:0"]
query_log = "none/q" #!
"#,
        says: "the query log",
    },
    Mistake {
        name: "query log is a folder",
        setting: Setting::Folder("some"),
        config: r#"[dns]
listen = ["127.0.0.1:0"]
query_log = "some" #!
"#,
        says: "Is a directory",
    },
    Mistake {
        name: "drop folder is a file",
        setting: Setting::None,
        config: r#"data_dir = "data"
[[feed]]
name = "f"
format = "ndjson"
member = "m"
drop_folder = "rows.csv" #!
into = { table = "t" }
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "the drop folder of the feed 'f'",
    },
    Mistake {
        name: "drop folder below a file",
        setting: Setting::None,
        config: r#"data_dir = "data"
[[feed]]
name = "f"
format = "ndjson"
member = "m"
drop_folder = "rows.csv/made" #!
into = { table = "t" }
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "the drop folder of the feed 'f'",
    },
    Mistake {
        name: "data_dir is a file",
        setting: Setting::None,
        config: r#"data_dir = "rows.csv" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "cannot use rows.csv as data directory",
    },
    Mistake {
        name: "data_dir below a file",
        setting: Setting::None,
        config: r#"data_dir = "rows.csv/made" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "as data directory",
    },
    Mistake {
        name: "data_dir of another program",
        setting: Setting::None,
        config: r#"data_dir = "." #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "has files and none of whered's",
    },
    Mistake {
        name: "data_dir that another process holds",
        setting: Setting::HeldData,
        config: r#"data_dir = "data" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "is in use by the process with number",
    },
    Mistake {
        name: "data_dir that cannot be written",
        setting: Setting::ClosedFolder("closed"),
        config: r#"data_dir = "closed" #!
PORT[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "cannot write in the data directory closed",
    },
    Mistake {
        name: "data_dir that cannot be made",
        setting: Setting::ClosedFolder("closed"),
        config: r#"data_dir = "closed/made" #!
PORT[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "cannot create the data directory closed/made",
    },
    Mistake {
        name: "journal of a later version",
        setting: Setting::Journal(|bytes| {
            bytes[8] = 9;
            bytes[12] = 0;
        }),
        config: r#"data_dir = "data" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "journal format 9 is unknown",
    },
    Mistake {
        name: "journal with a damaged header",
        setting: Setting::Journal(|bytes| bytes[20] ^= 0xff),
        config: r#"data_dir = "data" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "whered repair",
    },
    Mistake {
        name: "journal of another program",
        setting: Setting::Journal(|bytes| bytes[0] ^= 0xff),
        config: r#"data_dir = "data" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "this is not a journal of whered",
    },
    Mistake {
        name: "journal that is cut",
        setting: Setting::Journal(|bytes| bytes.truncate(100)),
        config: r#"data_dir = "data" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "the file ends within the header",
    },
    Mistake {
        name: "journal with an odd name",
        setting: Setting::OddJournal,
        config: r#"data_dir = "data" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "its name is nearly that of a journal segment",
    },
    Mistake {
        name: "snapshot that is none",
        setting: Setting::Snapshot,
        config: r#"data_dir = "data" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "snapshot-00000000000000000007.manifest",
    },
    Mistake {
        name: "database missing",
        setting: Setting::None,
        config: r#"[[database]]
name = "city"
path = "none.mmdb" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "none.mmdb: No such file or directory",
    },
    Mistake {
        name: "database is none",
        setting: Setting::None,
        config: r#"[[database]]
name = "city"
path = "rows.csv" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "rows.csv",
    },
    Mistake {
        name: "database is empty",
        setting: Setting::File("empty", b""),
        config: r#"[[database]]
name = "city"
path = "empty" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "empty",
    },
    Mistake {
        name: "database is cut",
        setting: Setting::None,
        config: r#"[[database]]
name = "city"
path = "cut.mmdb" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "cut.mmdb",
    },
    Mistake {
        name: "database is a folder",
        setting: Setting::Folder("some"),
        config: r#"[[database]]
name = "city"
path = "some" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "some",
    },
    Mistake {
        name: "rules missing",
        setting: Setting::None,
        config: r#"[[ruleset]]
name = "r"
path = "none.rules" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "none.rules: No such file or directory",
    },
    Mistake {
        name: "rules are none",
        setting: Setting::File(
            "bad.rules",
            b"chain input policy drop {\n src 10.0.0.0/99 accept\n}\n",
        ),
        config: r#"[[ruleset]]
name = "r"
path = "bad.rules" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "bad.rules:2",
    },
    Mistake {
        name: "rules ask no database",
        setting: Setting::File(
            "bad.rules",
            b"chain input policy drop {\n src.country = DE accept\n}\n",
        ),
        config: r#"[[ruleset]]
name = "r"
path = "bad.rules" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "bad.rules:2",
    },
    Mistake {
        name: "rules ask an unknown database",
        setting: Setting::File(
            "bad.rules",
            b"chain input policy drop {\n src.none:country = DE accept\n}\n",
        ),
        config: r#"[[database]]
name = "city"
path = "city.mmdb"
[[ruleset]]
name = "r"
path = "bad.rules" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: r#"found database "none""#,
    },
    Mistake {
        name: "rules ask an unknown field",
        setting: Setting::File(
            "bad.rules",
            b"chain input policy drop {\n src.city:contry.iso_code = DE accept\n}\n",
        ),
        config: r#"[[database]]
name = "city"
path = "city.mmdb"
[[ruleset]]
name = "r"
path = "bad.rules" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "no record of database 'city' has that field",
    },
    Mistake {
        name: "zone missing",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "none.zone" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "none.zone: No such file or directory",
    },
    Mistake {
        name: "zone is none",
        setting: Setting::File("bad.zone", b"@ SOA ns hm 1 2 3 4 5\n@ A 192.0.2.\n"),
        config: r#"[[zone]]
name = "example.com"
path = "bad.zone" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "bad.zone:2",
    },
    Mistake {
        name: "zone without SOA",
        setting: Setting::File("bad.zone", b"$TTL 60\n@ NS ns\n"),
        config: r#"[[zone]]
name = "example.com"
path = "bad.zone" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "bad.zone",
    },
    Mistake {
        name: "zone includes what is not there",
        setting: Setting::File(
            "bad.zone",
            b"$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\n$INCLUDE none.zone\n",
        ),
        config: r#"[[zone]]
name = "example.com"
path = "bad.zone" #!
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "none.zone",
    },
    Mistake {
        name: "zone that is signed",
        setting: Setting::File(
            "bad.zone",
            b"$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\n@ DNSKEY 257 3 13 AAAA\n",
        ),
        config: r#"[[zone]]
name = "example.com"
path = "bad.zone" #!
unsigned = "refuse"
[resp]
listen = ["127.0.0.1:0"]
"#,
        says: "DNSKEY",
    },
    Mistake {
        name: "pool at an alias of the zone",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
[[pool]] #!
name = "p"
owners = ["alias.example.com"]
policy = ["weighted"]
[[pool.site]]
name = "s"
addresses = ["192.0.2.9"]
"#,
        says: "has a CNAME",
    },
    Mistake {
        name: "pool below a delegation",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
[[pool]] #!
name = "p"
owners = ["www.below.example.com"]
policy = ["weighted"]
[[pool.site]]
name = "s"
addresses = ["192.0.2.9"]
"#,
        says: "is delegated at below.example.com",
    },
    Mistake {
        name: "text of a pool hides the SPF record of the apex",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
[[pool]] #!
name = "p"
owners = ["example.com"]
policy = ["weighted"]
[[pool.site]]
name = "s"
txt = ["hello"]
"#,
        says: "has TXT in its zone",
    },
    Mistake {
        name: "alias of a pool to its own owner",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
[[pool]] #!
name = "p"
owners = ["www.example.com"]
policy = ["weighted"]
[[pool.site]]
name = "s"
cname = "www.example.com"
"#,
        says: "leads back to the pool",
    },
    Mistake {
        name: "alias of a pool beside records",
        setting: Setting::None,
        config: r#"[[zone]]
name = "example.com"
path = "example.zone"
[[pool]] #!
name = "p"
owners = ["other.example.com"]
policy = ["weighted"]
[[pool.site]]
name = "s"
cname = "www.example.org"
"#,
        says: "a pool with a CNAME needs a name without any",
    },
    Mistake {
        name: "sink without a database",
        setting: Setting::None,
        config: r#"data_dir = "data"
[[feed]]
name = "f"
format = "ndjson"
member = "m"
into = { table = "t" }
[[feed.sink]] #!
url = "mysql://u@h"
"#,
        says: "feed 'f'",
    },
    Mistake {
        name: "fields of records that name nothing",
        setting: Setting::None,
        config: r#"data_dir = "data"
[[feed]]
name = "f"
format = "ndjson"
member = "@m" #!
into = { table = "t" }
"#,
        says: "@m",
    },
];

/// Served, and remarked on by check.
pub(crate) const REMARKS: &[Mistake] = &[
    Mistake {
        name: "nothing listens",
        setting: Setting::None,
        config: r#"data_dir = "data"
"#,
        says: "nothing listens",
    },
    Mistake {
        name: "zones without DNS",
        setting: Setting::None,
        config: r#"[resp]
listen = ["127.0.0.1:0"]
[[zone]]
name = "example.com"
path = "example.zone"
"#,
        says: "DNS is closed",
    },
    Mistake {
        name: "user without a list",
        setting: Setting::None,
        config: r#"[resp]
listen = ["127.0.0.1:0"]
[[resp.user]] #!
name = "ann"
password = "x"
commands = ["+cidr.match"]
keys = ["b:*"]
"#,
        says: "has no 'sets'",
    },
    Mistake {
        name: "certificate that has expired",
        setting: Setting::None,
        config: r#"[resp]
listen = ["127.0.0.1:0"]
[resp.tls]
listen = ["127.0.0.1:0"]
certificate = "two.pem" #!
key = "two.key"
"#,
        says: "has expired on 2001-02-03",
    },
    Mistake {
        name: "field of a database that no record has",
        setting: Setting::None,
        config: r#"[resp]
listen = ["127.0.0.1:0"]
[[database]]
name = "city"
path = "city.mmdb"
fields = ["contry.iso_code"] #!
"#,
        says: "which no record of it has",
    },
    Mistake {
        name: "text of a field that no record has",
        setting: Setting::None,
        config: r#"[resp]
listen = ["127.0.0.1:0"]
[dns]
listen = ["127.0.0.1:0"]
[[database]]
name = "city"
path = "city.mmdb"
[[zone]]
name = "example.com"
path = "example.zone"
database_txt = { database = "city", fields = ["contry"] } #!
"#,
        says: "which no record of the database 'city' has",
    },
    Mistake {
        name: "country that no record has",
        setting: Setting::None,
        config: r#"[resp]
listen = ["127.0.0.1:0"]
[dns]
listen = ["127.0.0.1:0"]
[[database]]
name = "city"
path = "city.mmdb"
[[zone]]
name = "example.com"
path = "example.zone"
[[map]]
name = "m"
countries = { FR = ["s"] } #!
[[pool]]
name = "p"
owners = ["www.example.com"]
policy = ["map:m"]
[[pool.site]]
name = "s"
addresses = ["192.0.2.9"]
"#,
        says: "lists FR, which no record of a database has",
    },
    Mistake {
        name: "set of a blocklist that nobody fills",
        setting: Setting::None,
        config: r#"[resp]
listen = ["127.0.0.1:0"]
[dns]
listen = ["127.0.0.1:0"]
[[zone]]
name = "example.com"
path = "example.zone"
blocklist = { set = "bad" } #!
"#,
        says: "a set that no feed fills",
    },
    Mistake {
        name: "set of overrides that nobody fills",
        setting: Setting::None,
        config: r#"[resp]
listen = ["127.0.0.1:0"]
[dns]
listen = ["127.0.0.1:0"]
[[zone]]
name = "example.com"
path = "example.zone"
[[pool]]
name = "p"
owners = ["www.example.com"]
policy = ["weighted"]
overrides = "mine" #!
[[pool.site]]
name = "s"
addresses = ["192.0.2.9"]
"#,
        says: "a set that no feed fills",
    },
    Mistake {
        name: "set of rules that nobody fills",
        setting: Setting::File("set.rules", b"chain input policy drop {\n src @bad accept\n}\n"),
        config: r#"[resp]
listen = ["127.0.0.1:0"]
[[ruleset]] #!
name = "r"
path = "set.rules"
"#,
        says: "a set that no feed fills",
    },
    Mistake {
        name: "secret that everybody may read",
        setting: Setting::None,
        config: r#"[resp]
listen = ["127.0.0.1:0"]
password = "x" #!
"#,
        says: "every user of this machine may open it",
    },
    Mistake {
        name: "secret file that everybody may read",
        setting: Setting::File("p", b"x"),
        config: r#"[resp]
listen = ["127.0.0.1:0"]
password_file = "p" #!
"#,
        says: "every user of this machine may open it",
    },
    Mistake {
        name: "command of a check that is not there",
        setting: Setting::None,
        config: r#"[resp]
listen = ["127.0.0.1:0"]
[dns]
listen = ["127.0.0.1:0"]
[[zone]]
name = "example.com"
path = "example.zone"
[[pool]]
name = "p"
owners = ["www.example.com"]
policy = ["weighted"]
[[pool.site]]
name = "s"
addresses = ["192.0.2.9"]
check = "exec:/none/x" #!
"#,
        says: "/none/x",
    },
    Mistake {
        name: "prefix with bits behind its length",
        setting: Setting::File(
            "bits.rules",
            b"chain input policy drop {\n src 10.0.0.1/8 accept\n}\n",
        ),
        config: r#"[resp]
listen = ["127.0.0.1:0"]
[[ruleset]]
name = "r"
path = "bits.rules"
"#,
        says: "bits.rules: remark: ",
    },
];
