//! The formats of `whered enrich`.
//! One entry a format; the tests compare the names with those that the reader knows.

use super::{Entry, Job};

pub(super) const JOB: Job = Job {
    name: "logs",
    title: "Logs and tables",
    command: "whered enrich FILE --db DB --input-format NAME",
    about: "Without `--input-format` the first lines decide. Files may be packed with gzip, zstd, xz, \
            bzip2 or LZ4. More: [enriching](enrich.md).",
    entries: &[
        Entry {
            name: "combined",
            what: "access log of nginx or Apache, common or combined, behind a virtual host or syslog's prefix",
            example: &[
                "8.8.8.8 - - [20/Nov/2026:12:00:00 +0000] \"GET / HTTP/1.1\" 200 17 \"-\" \"curl/8\"",
            ],
            refused: "other orders of the parts; `--pattern` takes the server's own format string",
        },
        Entry {
            name: "csv",
            what: "rows with commas, semicolons or pipes, with or without a header",
            example: &["time,ip", "12:00,8.8.8.8"],
            refused: "other delimiters",
        },
        Entry {
            name: "tsv",
            what: "rows with tabs, with or without a header",
            example: &["time\tip", "12:00\t8.8.8.8"],
            refused: "quotes have no meaning",
        },
        Entry {
            name: "psv",
            what: "rows with pipes, with or without a header",
            example: &["time|ip", "12:00|8.8.8.8"],
            refused: "",
        },
        Entry {
            name: "ndjson",
            what: "JSON objects: one a line, an array, pretty-printed, or in `{\"Records\": [...]}`; \
                   so the logs of GCP, Azure and CloudTrail",
            example: &["{\"time\":\"12:00\",\"client\":{\"ip\":\"8.8.8.8\"}}"],
            refused: "addresses written with escapes",
        },
        Entry {
            name: "parquet",
            what: "Apache Parquet with a text column of addresses",
            example: &[],
            refused: "encrypted files",
        },
        Entry {
            name: "w3c",
            what: "W3C extended log, as of IIS",
            example: &["#Fields: time c-ip cs-method", "12:00:00 8.8.8.8 GET"],
            refused: "a file without `#Fields:`; another `#Fields:` in its middle",
        },
        Entry {
            name: "cloudfront",
            what: "Amazon CloudFront standard log",
            example: &["#Fields: date time c-ip", "2026-11-20\t12:00:00\t8.8.8.8"],
            refused: "as for `w3c`",
        },
        Entry {
            name: "zeek",
            what: "any log of Zeek in TSV",
            example: &["#separator \\x09", "#fields\tts\tid.orig_h", "1795521600.1\t8.8.8.8"],
            refused: "a file without `#fields`; Zeek's JSON is `ndjson`",
        },
        Entry {
            name: "alb",
            what: "AWS Application Load Balancer",
            example: &[
                "http 2026-11-20T12:00:00.186641Z app/lb/50dc6c495c0c9188 8.8.8.8:2817 10.0.0.9:80 0.0 0.001 0.0 200 200 34 366 \
                 \"GET http://a.example:80/ HTTP/1.1\" \"curl/8\" - - arn:aws:x \"Root=1-58337262\" \"-\" \"-\" 0 \
                 2026-11-20T12:00:00.186Z \"forward\" \"-\" \"-\" \"10.0.0.9:80\" \"200\" \"-\" \"-\"",
            ],
            refused: "",
        },
        Entry {
            name: "elb",
            what: "AWS Classic Load Balancer",
            example: &[
                "2026-11-20T12:00:00.945958Z lb 8.8.8.8:2817 10.0.0.1:80 0.000073 0.001048 0.000057 200 200 0 29 \
                 \"GET http://a.example:80/ HTTP/1.1\" \"curl/8\" - -",
            ],
            refused: "",
        },
        Entry {
            name: "s3",
            what: "Amazon S3 server access",
            example: &[
                "79a59df900b949e5 bucket [20/Nov/2026:12:00:00 +0000] 8.8.8.8 - 3E57427F3EXAMPLE REST.GET.OBJECT k \
                 \"GET /b/k HTTP/1.1\" 200 - 113 113 7 6 \"-\" \"curl/8\" - s9lz= SigV4 ECDHE-RSA AuthHeader b.s3.example TLSv1.2 - -",
            ],
            refused: "",
        },
        Entry {
            name: "vpc",
            what: "AWS VPC flow log, with or without a header",
            example: &[
                "2 123456789010 eni-1235b8ca 8.8.8.8 10.0.0.2 443 49152 6 20 4249 1418530010 1418530070 ACCEPT OK",
            ],
            refused: "own orders of the fields without a header",
        },
        Entry {
            name: "haproxy",
            what: "HAProxy, HTTP or TCP, behind syslog's prefix",
            example: &[
                "Nov 20 12:00:00 lb haproxy[14389]: 8.8.8.8:33317 [20/Nov/2026:12:00:00.655] http-in static/srv1 \
                 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 \"GET / HTTP/1.1\"",
            ],
            refused: "",
        },
        Entry {
            name: "squid",
            what: "Squid, native",
            example: &[
                "1066036250.603    345 8.8.8.8 TCP_MISS/304 194 GET http://a.example/ - DIRECT/198.51.100.1 -",
            ],
            refused: "",
        },
        Entry {
            name: "envoy",
            what: "Envoy, default format",
            example: &[
                "[2026-11-20T12:00:00.310Z] \"POST / HTTP/2\" 204 - 154 0 226 100 \"8.8.8.8\" \"nsq2http\" \"cc21d9b0\" \
                 \"locations\" \"tcp://10.0.2.1:80\"",
            ],
            refused: "",
        },
        Entry {
            name: "istio",
            what: "Istio, default format",
            example: &[
                "[2026-11-20T12:00:00.409Z] \"GET / HTTP/1.1\" 418 - via_upstream - \"-\" 0 135 4 4 \"-\" \"curl/8\" \"84961386\" \
                 \"httpbin:8000\" \"10.44.1.27:80\" outbound|8000||httpbin 10.44.1.23:37652 10.0.45.184:8000 8.8.8.8:46520 - default",
            ],
            refused: "",
        },
        Entry {
            name: "nginx-error",
            what: "nginx error log",
            example: &[
                "2026/11/20 12:00:00 [error] 123#45: *6 open() \"/srv/x\" failed (2: No such file or directory), client: 8.8.8.8, server: a",
            ],
            refused: "",
        },
        Entry {
            name: "iptables",
            what: "packets that the kernel logs for iptables, nft, ufw and firewalld, also by ulogd",
            example: &[
                "Nov 20 12:00:00 gate kernel: [UFW BLOCK] IN=eth0 OUT= SRC=8.8.8.8 DST=192.0.2.1 LEN=60 TOS=0x00 \
                 PREC=0x00 TTL=64 ID=1 DF PROTO=TCP SPT=443 DPT=22 WINDOW=64240 RES=0x00 SYN URGP=0",
            ],
            refused: "ulogd's other outputs",
        },
        Entry {
            name: "syslog",
            what: "messages of sshd and others in a system log",
            example: &[
                "Nov 20 12:00:00 host sshd[77]: Failed password for root from 8.8.8.8 port 4242 ssh2",
            ],
            refused: "messages without an address are bad records",
        },
    ],
};
