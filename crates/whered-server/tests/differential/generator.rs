//! Random commands: mostly sensible ones over few keys and members, and about a fifth spoilt.
//!
//! Invariant: in a batch nothing that may change data follows a search, so that the engine still
//! holds what the search has seen when the replies are compared.

/// The words of one command.
pub(crate) type Words = Vec<Vec<u8>>;

/// The commands that never change data, whatever their arguments.
const READS: [&str; 19] = [
    "geopos",
    "geodist",
    "geohash",
    "geosearch",
    "zcard",
    "zscore",
    "zrange",
    "exists",
    "type",
    "keys",
    "scan",
    "dbsize",
    "ping",
    "echo",
    "info",
    "command",
    "hello",
    "auth",
    "client",
];

/// A source of batches; the same seed gives the same batches.
pub(crate) struct Generator {
    state: u64,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Generator {
        // Multiplied, so that the streams of neighbouring seeds do not overlap.
        Generator { state: seed.wrapping_mul(0xd134_2543_de82_ef95) }
    }

    /// Between one and sixty commands.
    pub(crate) fn batch(&mut self) -> Vec<Words> {
        let len = 1 + self.below(60) * self.below(2);
        let mut batch: Vec<Words> = Vec::new();
        let mut searched = false;
        while batch.len() < len {
            let mut words = self.command();
            if self.one_in(5) {
                self.spoil(&mut words);
            }
            if is(&words[0], "quit") || is(&words[0], "monitor") {
                continue;
            }
            if searched && !only_reads(&words) {
                break;
            }
            searched |= is(&words[0], "geosearch");
            batch.push(words);
        }
        batch
    }

    fn next(&mut self) -> u64 {
        // splitmix64
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    /// A number between -1 and 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    fn command(&mut self) -> Words {
        match self.below(100) {
            0..25 => self.geoadd(),
            25..50 => self.geosearch(),
            50..57 => self.members("GEOPOS"),
            57..61 => self.members("GEOHASH"),
            61..67 => self.geodist(),
            67..79 => self.zrange(),
            79..83 => self.zrem(),
            83..85 => vec![b"ZSCORE".to_vec(), self.key(), self.member()],
            85 => vec![b"ZCARD".to_vec(), self.key()],
            86..92 => self.keys_command(),
            _ => self.connection_command(),
        }
    }

    fn key(&mut self) -> Vec<u8> {
        match self.below(30) {
            0 => Vec::new(),
            1 => b"nosuch".to_vec(),
            2 => b"bin\0\r\nkey".to_vec(),
            // One place for all: here a range of members is defined.
            3 | 4 => b"same".to_vec(),
            number => format!("key:{}", number % 4).into_bytes(),
        }
    }

    fn member(&mut self) -> Vec<u8> {
        match self.below(40) {
            0 => Vec::new(),
            1 => b"\xff\0\r\n\"".to_vec(),
            2 => b"nosuch".to_vec(),
            3 => b"explain me".to_vec(),
            _ => format!("m{}", self.below(60)).into_bytes(),
        }
    }

    fn place(&mut self) -> (f64, f64) {
        let around: [(f64, f64, f64); 6] = [
            (13.0, 52.0, 1.0),
            (179.9, 10.0, 0.5),
            (-179.9, -30.0, 0.4),
            (20.0, 84.5, 0.5),
            (0.0, 0.0, 0.001),
            (0.0, -84.0, 1.0),
        ];
        match self.below(16) {
            0 => (180.0, 85.051_128_78),
            1 => (-180.0, -85.051_128_78),
            2..7 => (self.unit() * 180.0, self.unit() * 85.0),
            7 => (
                f64::from(self.below(19) as i32 * 20 - 180),
                f64::from(self.below(9) as i32 * 20 - 80),
            ),
            _ => {
                let (longitude, latitude, spread) = around[self.below(6)];
                let longitude = (longitude + self.unit() * spread).clamp(-180.0, 180.0);
                (longitude, latitude + self.unit() * spread)
            }
        }
    }

    fn number(&mut self, value: f64) -> Vec<u8> {
        match self.below(12) {
            0 => format!("{value:.3}").into_bytes(),
            1 => format!("{value:e}").into_bytes(),
            _ => format!("{value}").into_bytes(),
        }
    }

    fn geoadd(&mut self) -> Words {
        let key = self.key();
        let mut words = vec![b"GEOADD".to_vec(), key.clone()];
        for option in ["NX", "XX", "CH", "ch"] {
            if self.one_in(8) {
                words.push(option.into());
            }
        }
        for _ in 0..1 + self.below(8) * self.below(2) {
            let (longitude, latitude) = if key == b"same" { (7.0, 7.0) } else { self.place() };
            words.push(self.number(longitude));
            words.push(self.number(latitude));
            words.push(self.member());
        }
        words
    }

    fn geosearch(&mut self) -> Words {
        let mut options: Vec<Words> = Vec::new();
        if self.one_in(2) {
            options.push(vec![b"FROMMEMBER".to_vec(), self.member()]);
        } else {
            let (longitude, latitude) = self.place();
            let center = [self.number(longitude), self.number(latitude)];
            options.push([vec![b"fromlonlat".to_vec()], center.to_vec()].concat());
        }
        let size = self.size();
        if self.one_in(2) {
            options.push(vec![b"BYRADIUS".to_vec(), size, self.unit_name()]);
        } else {
            let height = self.size();
            options.push(vec![b"ByBox".to_vec(), size, height, self.unit_name()]);
        }
        if self.one_in(2) {
            options.push(vec![self.pick(&["ASC", "DESC", "asc"]).into()]);
        }
        if self.one_in(3) {
            options.push(vec![b"COUNT".to_vec(), (1 + self.below(20)).to_string().into()]);
            if self.one_in(3) {
                options.push(vec![b"ANY".to_vec()]);
            }
        }
        for option in ["WITHDIST", "WITHCOORD", "WITHHASH"] {
            if self.one_in(3) {
                options.push(vec![option.into()]);
            }
        }
        // Options come in any order.
        for at in 1..options.len() {
            let other = self.below(at + 1);
            options.swap(at, other);
        }
        let mut words = vec![b"GEOSEARCH".to_vec(), self.key()];
        words.extend(options.into_iter().flatten());
        words
    }

    fn size(&mut self) -> Vec<u8> {
        let power = self.below(8) as i32;
        let value = (self.unit() + 1.0) * 10f64.powi(power);
        match self.below(30) {
            0 => b"0".to_vec(),
            1 => b"1e12".to_vec(),
            _ => self.number(value),
        }
    }

    fn unit_name(&mut self) -> Vec<u8> {
        self.pick(&["m", "km", "KM", "ft", "mi", "M"]).into()
    }

    fn members(&mut self, name: &str) -> Words {
        let mut words = vec![name.into(), self.key()];
        for _ in 0..self.below(6) {
            words.push(self.member());
        }
        words
    }

    fn geodist(&mut self) -> Words {
        let mut words = vec![b"GEODIST".to_vec(), self.key(), self.member(), self.member()];
        if self.one_in(2) {
            words.push(self.unit_name());
        }
        words
    }

    fn zrem(&mut self) -> Words {
        let mut words = self.members("ZREM");
        words.push(self.member());
        words
    }

    fn zrange(&mut self) -> Words {
        let kind = self.below(3);
        let key = if kind == 2 { b"same".to_vec() } else { self.key() };
        let mut words = vec![b"ZRANGE".to_vec(), key, self.limit(kind), self.limit(kind)];
        match kind {
            1 => words.push(b"BYSCORE".to_vec()),
            2 => words.push(b"bylex".to_vec()),
            _ => {}
        }
        if self.one_in(3) {
            words.push(b"REV".to_vec());
        }
        if self.one_in(if kind == 0 { 12 } else { 3 }) {
            let (offset, count) = (self.below(12), self.below(12));
            words.push(b"LIMIT".to_vec());
            words.push((offset as i64 - 2).to_string().into());
            words.push((count as i64 - 2).to_string().into());
        }
        if self.one_in(if kind == 2 { 12 } else { 2 }) {
            words.push(b"WITHSCORES".to_vec());
        }
        words
    }

    fn limit(&mut self, kind: usize) -> Vec<u8> {
        let number = self.next() as i64;
        match kind {
            0 => (number % 40).to_string().into(),
            1 => match self.below(6) {
                0 => self.pick(&["-inf", "+inf", "(-inf", "inf", "(inf", "0", "(0"]).into(),
                1 => format!("({}", number.unsigned_abs() >> 12).into(),
                2 => format!("{}.5", number.unsigned_abs() >> 14).into(),
                _ => (number.unsigned_abs() >> 12).to_string().into(),
            },
            _ => match self.below(4) {
                0 => self.pick(&["-", "+"]).into(),
                1 => [b"(".to_vec(), self.member()].concat(),
                _ => [b"[".to_vec(), self.member()].concat(),
            },
        }
    }

    fn keys_command(&mut self) -> Words {
        let many = |generator: &mut Generator, name: &str| -> Words {
            let count = 1 + generator.below(3);
            let keys = (0..count).map(|_| generator.key());
            std::iter::once(name.into()).chain(keys.collect::<Vec<_>>()).collect()
        };
        match self.below(24) {
            0 => many(self, "DEL"),
            1 => many(self, "UNLINK"),
            2..8 => many(self, "EXISTS"),
            8..12 => vec![b"TYPE".to_vec(), self.key()],
            12..15 => vec![b"KEYS".to_vec(), self.pattern()],
            15..20 => self.scan(),
            20..23 => vec![b"DBSIZE".to_vec()],
            _ if self.one_in(4) => {
                let mut words = vec![self.pick(&["FLUSHALL", "FLUSHDB"]).into()];
                if self.one_in(2) {
                    words.push(self.pick(&["SYNC", "async", "now"]).into());
                }
                words
            }
            _ => vec![b"EXISTS".to_vec(), self.key()],
        }
    }

    fn pattern(&mut self) -> Vec<u8> {
        self.pick(&[
            "*",
            "key:*",
            "key:[0-2]",
            "key:[^1]",
            "?ey:?",
            "k*:3",
            "nosuch*",
            "",
            "[",
            "\\",
            "*a*e",
            "key:[2-0]",
        ])
        .into()
    }

    fn scan(&mut self) -> Words {
        let mut words: Words = vec![b"SCAN".to_vec(), b"0".to_vec()];
        words.extend([b"COUNT".to_vec(), b"1000".to_vec()]);
        if self.one_in(2) {
            words.extend([b"MATCH".to_vec(), self.pattern()]);
        }
        if self.one_in(3) {
            words.extend([b"TYPE".to_vec(), self.pick(&["zset", "ZSET", "string", "x"]).into()]);
        }
        words
    }

    fn connection_command(&mut self) -> Words {
        let words: &[&str] = match self.below(22) {
            0 => &["PING"],
            1 => &["ping", "hello"],
            2 => &["ECHO", "a\r\nb"],
            3 => &["HELLO", "2"],
            4 => &["HELLO", "3"],
            5 => &["HELLO"],
            6 => &["SELECT", "0"],
            7 => &["SELECT", "1"],
            8 => &["SELECT", "16"],
            9 => &["CLIENT", "GETNAME"],
            10 => &["CLIENT", "SETNAME", "me"],
            11 => &["CLIENT", "ID"],
            12 => &["CLIENT", "INFO"],
            13 => &["COMMAND", "COUNT"],
            14 => &["COMMAND", "INFO", "geoadd", "nosuch"],
            15 => &["COMMAND", "GETKEYS", "GEOADD", "k", "1", "2", "m"],
            16 => &["INFO"],
            17 => &["INFO", "server", "keyspace"],
            18 => &["AUTH", "default", "x"],
            19 => &["AUTH", "x"],
            20 => &["RESET"],
            _ => &["NOSUCHCOMMAND", "a", "b c"],
        };
        words.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    /// Makes a command wrong, most of the time.
    fn spoil(&mut self, words: &mut Words) {
        let at = self.below(words.len());
        match self.below(9) {
            0 if words.len() > 1 => words.truncate(at.max(1)),
            1 if at > 0 => drop(words.remove(at)),
            2 => {
                let word = words[at].clone();
                words.insert(at.max(1).min(words.len()), word);
            }
            3 if words.len() > 2 => {
                let other = 1 + self.below(words.len() - 1);
                words.swap(at.max(1), other);
            }
            4 => words.push(self.odd_word()),
            5 if self.one_in(6) => words[0] = self.odd_word(),
            6 => {
                let extra = self.command();
                words.extend(extra.into_iter().skip(2).take(3));
            }
            _ if at > 0 => words[at] = self.odd_word(),
            _ => words.push(b"x".to_vec()),
        }
    }

    fn odd_word(&mut self) -> Vec<u8> {
        let words: [&[u8]; 36] = [
            b"",
            b"nan",
            b"-nan",
            b"inf",
            b"-inf",
            b"1e400",
            b"-1",
            b"0",
            b"1e-400",
            b"0x10",
            b" 1",
            b"1 ",
            b"+5",
            b"99999999999999999999",
            b"9223372036854775807",
            b"-9223372036854775808",
            b"180.0001",
            b"-85.06",
            b"1e308",
            b"abc",
            b"\0",
            b"a\0b",
            b"\xff\xfe",
            b"a\r\nb",
            b"KM",
            b"yards",
            b"COUNT",
            b"ANY",
            b"ASC",
            b"BYBOX",
            b"WITHDIST",
            b"NX",
            b"LIMIT",
            b"REV",
            b"01",
            b"1.5",
        ];
        match self.below(40) {
            0 => vec![b'y'; 300],
            at => words[at % words.len()].to_vec(),
        }
    }
}

/// Whether a command cannot change data.
pub(crate) fn only_reads(words: &Words) -> bool {
    READS.iter().any(|name| is(&words[0], name))
}

fn is(word: &[u8], name: &str) -> bool {
    word.eq_ignore_ascii_case(name.as_bytes())
}
