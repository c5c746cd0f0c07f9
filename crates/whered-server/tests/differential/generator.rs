//! Random commands: mostly sensible ones over few keys and members, and about a fifth spoilt.
//!
//! Invariant: in a batch nothing that may change data follows a search, so that the engine still
//! holds what the search has seen when the replies are compared.

/// The words of one command.
pub(crate) type Words = Vec<Vec<u8>>;

/// The commands that never change data, whatever their arguments.
const READS: [&str; 48] = [
    "geopos",
    "geodist",
    "geohash",
    "geosearch",
    "georadius_ro",
    "georadiusbymember_ro",
    "zcard",
    "zcount",
    "zscore",
    "zmscore",
    "zrank",
    "zrevrank",
    "zrange",
    "zrevrange",
    "zrangebyscore",
    "zrevrangebyscore",
    "zscan",
    "zlexcount",
    "zrangebylex",
    "zrevrangebylex",
    "zrandmember",
    "zunion",
    "zinter",
    "zdiff",
    "zintercard",
    "mget",
    "strlen",
    "get",
    "ttl",
    "pttl",
    "expiretime",
    "pexpiretime",
    "object",
    "memory",
    "exists",
    "touch",
    "type",
    "keys",
    "scan",
    "randomkey",
    "dbsize",
    "ping",
    "echo",
    "info",
    "command",
    "hello",
    "auth",
    "client",
];

/// Commands that must be answered now and then, so that their tests mean something.
pub(crate) const NAMES: [&str; 95] = [
    "geoadd",
    "geopos",
    "geodist",
    "geohash",
    "geosearch",
    "geosearchstore",
    "georadius",
    "georadius_ro",
    "georadiusbymember",
    "georadiusbymember_ro",
    "zadd",
    "zincrby",
    "zrem",
    "zremrangebyrank",
    "zremrangebyscore",
    "zpopmin",
    "zpopmax",
    "zcard",
    "zcount",
    "zscore",
    "zmscore",
    "zrank",
    "zrevrank",
    "zrange",
    "zrevrange",
    "zrangebyscore",
    "zrevrangebyscore",
    "zrangestore",
    "zscan",
    "zlexcount",
    "zrangebylex",
    "zrevrangebylex",
    "zrandmember",
    "zunion",
    "zinter",
    "zdiff",
    "zintercard",
    "mget",
    "strlen",
    "zunionstore",
    "zinterstore",
    "zdiffstore",
    "zremrangebylex",
    "zmpop",
    "append",
    "incr",
    "incrby",
    "decr",
    "decrby",
    "incrbyfloat",
    "getdel",
    "getex",
    "getset",
    "mset",
    "msetnx",
    "setex",
    "psetex",
    "setnx",
    "set",
    "get",
    "expire",
    "pexpire",
    "expireat",
    "pexpireat",
    "persist",
    "ttl",
    "pttl",
    "expiretime",
    "pexpiretime",
    "rename",
    "renamenx",
    "copy",
    "move",
    "swapdb",
    "del",
    "unlink",
    "exists",
    "touch",
    "type",
    "keys",
    "scan",
    "randomkey",
    "dbsize",
    "object",
    "memory",
    "flushall",
    "flushdb",
    "ping",
    "echo",
    "info",
    "command",
    "hello",
    "client",
    "select",
    "reset",
];

/// The searches, whose replies are looked into.
const SEARCHES: [&str; 5] =
    ["geosearch", "georadius", "georadius_ro", "georadiusbymember", "georadiusbymember_ro"];

/// Reads of ranges of names.
pub(crate) const BY_NAME: [&str; 3] = ["zlexcount", "zrangebylex", "zrevrangebylex"];

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
            if ends_soon(&words) {
                continue;
            }
            if searched && !only_reads(&words) {
                break;
            }
            searched |= SEARCHES.iter().any(|name| is(&words[0], name));
            searched |= words.iter().any(|word| is(word, "bylex"));
            searched |= BY_NAME.iter().chain(&["zrandmember"]).any(|name| is(&words[0], name));
            // What such a range removes can be random: see the rules of `compare`.
            let removes_by_name = is(&words[0], "zremrangebylex");
            let stores = destination(&words).is_some();
            batch.push(words);
            // What was stored is compared before it is used.
            if stores || removes_by_name {
                break;
            }
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
            0..16 => self.geoadd(),
            16..32 => self.geosearch(),
            32..38 => self.georadius(),
            38..41 => self.storing(),
            41..43 => self.members("GEOPOS"),
            43..45 => self.members("GEOHASH"),
            45..47 => self.geodist(),
            47..52 => self.zrange(),
            52..57 => self.older_range(),
            57..67 => self.sorted_set_write(),
            67..72 => self.sorted_set_read(),
            72..77 => self.combination(),
            77..79 => self.text(),
            79..84 => self.text_change(),
            84..89 => self.expiry(),
            89..94 => self.keys_command(),
            94..97 => self.transfer(),
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
            5 | 6 => format!("text:{}", self.below(3)).into_bytes(),
            7 | 8 => b"scores".to_vec(),
            9 => b"large".to_vec(),
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

    /// An older form of the search.
    fn georadius(&mut self) -> Words {
        let read_only = self.one_in(3);
        let by_member = self.one_in(2);
        let name = match (by_member, read_only) {
            (true, true) => "georadiusbymember_ro",
            (true, false) => "GEORADIUSBYMEMBER",
            (false, true) => "georadius_ro",
            (false, false) => "GEORADIUS",
        };
        let mut words = vec![name.into(), self.key()];
        if by_member {
            words.push(self.member());
        } else {
            let (longitude, latitude) = self.place();
            words.extend([self.number(longitude), self.number(latitude)]);
        }
        words.extend([self.size(), self.unit_name()]);
        if self.one_in(2) {
            words.push(self.pick(&["ASC", "DESC", "asc"]).into());
        }
        for option in ["WITHDIST", "WITHCOORD", "WITHHASH"] {
            if self.one_in(3) {
                words.push(option.into());
            }
        }
        if self.one_in(3) {
            words.extend([b"COUNT".to_vec(), (1 + self.below(20)).to_string().into()]);
            if self.one_in(3) {
                words.push(b"ANY".to_vec());
            }
        }
        if self.one_in(20) {
            words.extend([b"STORE".to_vec(), b"stored".to_vec()]);
        }
        words
    }

    /// A search or range whose result goes to a key: small, and away from the poles, where Redis
    /// finds all that there is.
    fn storing(&mut self) -> Words {
        let destination = self.pick(&["stored", "key:1", "text:1"]).as_bytes().to_vec();
        if self.one_in(3) {
            let mut words = self.zrange();
            words.retain(|word| !is(word, "withscores"));
            words.splice(0..1, [b"ZRANGESTORE".to_vec(), destination]);
            return words;
        }
        let longitude = self.number(13.0);
        let latitude = self.number(52.0);
        let radius = (1 + self.below(300)).to_string().into_bytes();
        let unit = self.pick(&["km", "mi"]).as_bytes().to_vec();
        if self.one_in(2) {
            let mut words = vec![b"GEOSEARCHSTORE".to_vec(), destination, self.key()];
            words.extend([b"FROMLONLAT".to_vec(), longitude, latitude]);
            words.extend([b"BYRADIUS".to_vec(), radius, unit]);
            if self.one_in(2) {
                words.push(b"STOREDIST".to_vec());
            }
            return words;
        }
        let mut words = vec![b"georadius".to_vec(), self.key(), longitude, latitude, radius, unit];
        words.extend([self.pick(&["STORE", "storedist"]).into(), destination]);
        words
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

    /// Several keys behind their number.
    fn counted_keys(&mut self) -> Words {
        let count = 1 + self.below(4);
        let mut words = vec![count.to_string().into_bytes()];
        words.extend((0..count).map(|_| self.sorted_key()));
        words
    }

    /// A key that holds a sorted set more often than others.
    fn sorted_key(&mut self) -> Vec<u8> {
        match self.below(12) {
            0 => self.key(),
            1 => b"large".to_vec(),
            2 => b"stored".to_vec(),
            3 | 4 => b"scores".to_vec(),
            number => format!("key:{}", number % 4).into_bytes(),
        }
    }

    /// Unions, intersections and differences.
    fn combination(&mut self) -> Words {
        let names =
            ["ZUNION", "zinter", "ZDIFF", "ZINTERCARD", "ZUNIONSTORE", "zinterstore", "ZDIFFSTORE"];
        let name = self.pick(&names);
        let (lower, keys) = (name.to_ascii_lowercase(), self.counted_keys());
        let stores = lower.ends_with("store");
        let count = keys.len() - 1;
        let mut words: Words = vec![name.into()];
        if stores {
            words.push(self.pick(&["stored", "key:1", "text:1", "scores"]).into());
        }
        words.extend(keys);
        let mut options: Vec<Words> = Vec::new();
        if lower.starts_with("zunion") || lower.starts_with("zinters") || lower == "zinter" {
            if self.one_in(3) {
                let mut weights = vec![b"WEIGHTS".to_vec()];
                let all = ["1", "2", "0.5", "-1", "0", "inf", "-inf", "1e300", "3.25", "0x2"];
                weights.extend((0..count).map(|_| self.pick(&all).into()));
                options.push(weights);
            }
            if self.one_in(3) {
                let aggregate = self.pick(&["SUM", "min", "MAX", "Sum"]);
                options.push(vec![b"AGGREGATE".to_vec(), aggregate.into()]);
            }
        }
        if lower == "zintercard" && self.one_in(2) {
            let limit = self.pick(&["0", "1", "3", "100", "-1", "x"]);
            options.push(vec![b"LIMIT".to_vec(), limit.into()]);
        } else if !stores && self.one_in(2) {
            options.push(vec![b"withscores".to_vec()]);
        }
        for at in 1..options.len() {
            let other = self.below(at + 1);
            options.swap(at, other);
        }
        words.extend(options.into_iter().flatten());
        words
    }

    fn random_member(&mut self) -> Words {
        let mut words: Words = vec!["ZRANDMEMBER".into(), self.key()];
        if self.one_in(3) {
            return words;
        }
        let count = self.pick(&["0", "1", "3", "100000", "-1", "-5", "-300"]);
        words.push(count.into());
        if self.one_in(2) {
            words.push(b"WITHSCORES".to_vec());
        }
        words
    }

    /// A member's name as limit of a range.
    fn by_name(&mut self, name: &str) -> Words {
        let key = if self.one_in(5) { self.key() } else { b"same".to_vec() };
        vec![name.into(), key, self.limit(2), self.limit(2)]
    }

    /// What strings are for beyond `SET` and `GET`.
    fn text_change(&mut self) -> Words {
        let key = |generator: &mut Generator| -> Vec<u8> {
            match generator.below(8) {
                0 => generator.key(),
                1..4 => format!("number:{}", generator.below(3)).into(),
                _ => format!("text:{}", generator.below(3)).into(),
            }
        };
        let own = key(self);
        let amount = self.pick(&["1", "-1", "5", "9223372036854775807", "-9223372036854775808"]);
        match self.below(20) {
            0 => vec!["APPEND".into(), own, self.odd_word()],
            1 => vec!["STRLEN".into(), own],
            2 => vec!["INCR".into(), own],
            3 => vec!["decr".into(), own],
            4 => vec!["INCRBY".into(), own, amount.into()],
            5 => vec!["DECRBY".into(), own, amount.into()],
            6 | 7 => {
                let by = self.pick(&[
                    "0.1",
                    "-0.1",
                    "1e10",
                    "3.0e3",
                    "1e-10",
                    "123456789.987654321",
                    "-7",
                    "1e19",
                    "0.00000000000000001",
                    "5e-18",
                ]);
                vec!["INCRBYFLOAT".into(), own, by.into()]
            }
            8 => vec!["GETDEL".into(), own],
            9 => vec!["GETSET".into(), own, self.below(500).to_string().into()],
            10 => vec!["SETNX".into(), own, self.below(500).to_string().into()],
            11 => vec!["SETEX".into(), own, self.far_time("ex"), self.odd_word()],
            12 => vec!["PSETEX".into(), own, self.far_time("px"), self.odd_word()],
            13 => {
                let mut words: Words = vec!["GETEX".into(), own];
                match self.below(4) {
                    0 => {}
                    1 => words.push(b"PERSIST".to_vec()),
                    _ => {
                        let option = self.pick(&["EX", "px", "EXAT", "pxat"]);
                        words.extend([option.into(), self.far_time(option)]);
                    }
                }
                words
            }
            14..17 => {
                let mut words: Words = vec!["MGET".into(), own];
                words.extend((0..self.below(4)).map(|_| key(self)));
                words
            }
            17..19 => {
                let mut words: Words = vec!["MSET".into(), own, self.odd_word()];
                for _ in 0..self.below(3) {
                    words.extend([key(self), self.below(500).to_string().into()]);
                }
                words
            }
            _ => {
                let fresh = format!("fresh:{}", self.below(6)).into_bytes();
                let mut words: Words = vec!["MSETNX".into(), fresh, self.odd_word()];
                if self.one_in(2) {
                    words.extend([key(self), b"x".to_vec()]);
                }
                words
            }
        }
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

    /// `ZRANGEBYSCORE` and the like.
    fn older_range(&mut self) -> Words {
        let kind = usize::from(self.one_in(2));
        let names = [["ZREVRANGE", "zrevrange"], ["ZRANGEBYSCORE", "zrevrangebyscore"]];
        let mut words = vec![self.pick(&names[kind]).into(), self.key()];
        words.extend([self.limit(kind), self.limit(kind)]);
        if self.one_in(2) {
            words.push(b"WITHSCORES".to_vec());
        }
        if kind == 1 && self.one_in(3) {
            let (offset, count) = (self.below(12) as i64 - 2, self.below(12) as i64 - 2);
            words.extend(["LIMIT".into(), offset.to_string().into(), count.to_string().into()]);
        }
        words
    }

    fn score(&mut self) -> Vec<u8> {
        let number = self.next();
        match self.below(12) {
            0 => self.pick(&["inf", "-inf", "1e300", "0x10", "1e18", "123456789012345678"]).into(),
            1 => format!("{}.25", number as i64 % 100).into(),
            2 => format!("{}", self.unit()).into(),
            3 => (number as i64 % 50).to_string().into(),
            4 => format!("{:e}", self.unit() * 1e20).into(),
            5..8 => (number % 20).to_string().into(),
            _ => (number >> 12).to_string().into(),
        }
    }

    fn sorted_set_write(&mut self) -> Words {
        match self.below(23) {
            20 => self.by_name("ZREMRANGEBYLEX"),
            21 | 22 => {
                let mut words: Words = vec![b"ZMPOP".to_vec()];
                words.extend(self.counted_keys());
                words.push(self.pick(&["MIN", "max"]).into());
                if self.one_in(2) {
                    words.extend([b"COUNT".to_vec(), self.below(5).to_string().into()]);
                }
                words
            }
            0..9 => self.zadd(),
            9..12 => vec!["ZINCRBY".into(), self.key(), self.score(), self.member()],
            12..15 => self.zrem(),
            15 => {
                vec!["ZREMRANGEBYRANK".into(), self.key(), self.limit(0), self.limit(0)]
            }
            16 => {
                vec!["ZREMRANGEBYSCORE".into(), self.key(), self.limit(1), self.limit(1)]
            }
            _ => {
                let mut words = vec![self.pick(&["ZPOPMIN", "zpopmax"]).into(), self.key()];
                if self.one_in(2) {
                    words.push(self.below(5).to_string().into());
                }
                words
            }
        }
    }

    fn zadd(&mut self) -> Words {
        // Enough members for the large form of a sorted set.
        if self.one_in(10) {
            let mut words: Words = vec!["ZADD".into(), "large".into()];
            for _ in 0..60 {
                let score = self.below(1000).to_string();
                words.extend([score.into(), format!("large {}", self.below(300)).into()]);
            }
            return words;
        }
        let mut words = vec!["ZADD".into(), self.key()];
        for option in ["NX", "XX", "gt", "LT", "ch"] {
            if self.one_in(7) {
                words.push(option.into());
            }
        }
        let increments = self.one_in(6);
        if increments {
            words.push(b"INCR".to_vec());
        }
        let pairs = if increments { 1 } else { 1 + self.below(6) * self.below(2) };
        for _ in 0..pairs {
            words.extend([self.score(), self.member()]);
        }
        words
    }

    fn sorted_set_read(&mut self) -> Words {
        match self.below(16) {
            12 => self.random_member(),
            13 => self.by_name("ZLEXCOUNT"),
            14 | 15 => {
                let name = self.pick(&["ZRANGEBYLEX", "zrevrangebylex"]);
                let mut words = self.by_name(name);
                if self.one_in(3) {
                    let (offset, count) = (self.below(12) as i64 - 2, self.below(12) as i64 - 2);
                    words.extend(["LIMIT".into(), offset.to_string().into()]);
                    words.push(count.to_string().into());
                }
                words
            }
            0 | 1 => vec!["ZSCORE".into(), self.key(), self.member()],
            2 => vec!["ZCARD".into(), self.key()],
            3 | 4 => vec!["ZCOUNT".into(), self.key(), self.limit(1), self.limit(1)],
            5 | 6 => self.members("ZMSCORE"),
            7 => vec!["ZRANK".into(), self.key(), self.member()],
            8 => vec!["zrevrank".into(), self.key(), self.member()],
            _ => {
                let mut words = vec!["ZSCAN".into(), self.key(), "0".into()];
                words.extend([b"COUNT".to_vec(), b"1000".to_vec()]);
                if self.one_in(2) {
                    let pattern = self.pick(&["*", "m1*", "[", "?[0-4]", "nosuch"]);
                    words.extend([b"MATCH".to_vec(), pattern.into()]);
                }
                words
            }
        }
    }

    fn text(&mut self) -> Words {
        let key =
            if self.one_in(4) { self.key() } else { format!("text:{}", self.below(3)).into() };
        if self.one_in(3) {
            return vec!["GET".into(), key];
        }
        let value = match self.below(6) {
            0 => vec![b'x'; 30 + self.below(30)],
            1 => Vec::new(),
            2 => self.below(20_000).to_string().into_bytes(),
            _ => self.odd_word(),
        };
        let mut words = vec!["SET".into(), key, value];
        for option in ["NX", "xx", "GET", "KEEPTTL"] {
            if self.one_in(6) {
                words.push(option.into());
            }
        }
        if self.one_in(4) {
            let option = self.pick(&["EX", "px", "EXAT", "pxat"]);
            words.extend([option.into(), self.far_time(option)]);
        }
        words
    }

    /// A time in the future that does not come during a test.
    fn far_time(&mut self, option: &str) -> Vec<u8> {
        let option = option.to_ascii_lowercase();
        let base = match (option.ends_with("at"), option.starts_with('p')) {
            (true, true) => 4_102_444_800_000,
            (true, false) => 4_102_444_800,
            _ => 20_000_000,
        };
        (base + self.below(1_000_000)).to_string().into()
    }

    fn expiry(&mut self) -> Words {
        let reads = ["TTL", "PTTL", "expiretime", "pexpiretime"];
        match self.below(10) {
            0..5 => {
                let option = self.pick(&["EXPIRE", "pexpire", "EXPIREAT", "pexpireat"]);
                let time = match self.below(8) {
                    0 => self.pick(&["0", "-1", "-9223372036854775808"]).into(),
                    _ => self.far_time(option),
                };
                let mut words = vec![option.into(), self.key(), time];
                for option in ["NX", "XX", "gt", "LT"] {
                    if self.one_in(5) {
                        words.push(option.into());
                    }
                }
                words
            }
            5 => vec!["PERSIST".into(), self.key()],
            _ => vec![self.pick(&reads).into(), self.key()],
        }
    }

    fn transfer(&mut self) -> Words {
        let name = self.pick(&["RENAME", "renamenx", "COPY", "COPY", "MOVE", "SWAPDB"]);
        let mut words = vec![name.into()];
        match name {
            "MOVE" => words.extend([self.key(), self.below(3).to_string().into()]),
            "SWAPDB" => {
                words.extend([self.below(2).to_string().into(), self.below(2).to_string().into()]);
            }
            _ => words.extend([self.key(), self.key()]),
        }
        if name == "COPY" {
            if self.one_in(3) {
                words.extend(["DB".into(), self.below(3).to_string().into()]);
            }
            if self.one_in(2) {
                words.push(b"replace".to_vec());
            }
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
        match self.below(32) {
            24 | 25 => many(self, "TOUCH"),
            26 => vec![b"RANDOMKEY".to_vec()],
            27..30 => {
                let name = self.pick(&["ENCODING", "refcount", "IDLETIME", "FREQ"]);
                vec![b"OBJECT".to_vec(), name.into(), self.key()]
            }
            30 | 31 => {
                let mut words = vec![b"MEMORY".to_vec(), b"USAGE".to_vec(), self.key()];
                if self.one_in(3) {
                    words.extend([b"SAMPLES".to_vec(), self.below(5).to_string().into()]);
                }
                words
            }
            0 => many(self, "DEL"),
            1 => many(self, "UNLINK"),
            2..8 => many(self, "EXISTS"),
            8..12 => vec![b"TYPE".to_vec(), self.key()],
            12..15 => vec![b"KEYS".to_vec(), self.pattern()],
            15..20 => self.scan(),
            20..=22 => vec![b"DBSIZE".to_vec()],
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
    let reads = READS.iter().chain(&SEARCHES).any(|name| is(&words[0], name));
    reads && destination(words).is_none()
}

/// The key that a result goes to, if the command stores one.
pub(crate) fn destination(words: &Words) -> Option<&Vec<u8>> {
    let stores = ["geosearchstore", "zrangestore", "zunionstore", "zinterstore", "zdiffstore"];
    if stores.iter().any(|name| is(&words[0], name)) {
        return words.get(1);
    }
    if !is(&words[0], "georadius") && !is(&words[0], "georadiusbymember") {
        return None;
    }
    let stores = |word: &Vec<u8>| is(word, "store") || is(word, "storedist");
    // The last one counts.
    let at = words.iter().rposition(stores)?;
    words.get(at + 1)
}

/// Whether a key could end while the test runs, and not in the same moment in both servers.
fn ends_soon(words: &Words) -> bool {
    let at = if is(&words[0], "set") { 3 } else { 2 };
    let names = ["set", "expire", "pexpire", "expireat", "pexpireat", "setex", "psetex", "getex"];
    if !names.iter().any(|name| is(&words[0], name)) || words.len() <= at {
        return false;
    }
    let is_absolute = words.iter().any(|word| is(word, "exat"));
    let far = if is_absolute { 4_000_000_000 } else { 10_000_000 };
    let far = if words.iter().any(|word| is(word, "pxat")) { 4_000_000_000_000 } else { far };
    words[at..].iter().any(|word| {
        let number = std::str::from_utf8(word).ok().and_then(|word| word.parse::<i64>().ok());
        number.is_some_and(|number| (1..far).contains(&number))
    })
}

fn is(word: &[u8], name: &str) -> bool {
    word.eq_ignore_ascii_case(name.as_bytes())
}
