"""Random writes at a Redis or Valkey primary, from a seed: every command that can touch a followed key.

A step is a list of commands that belong together: one command, a transaction, or commands in another
numbered database. The keys `fleet:*` are the ones that a replica follows, `other:*` are not. Many
commands are errors for the type that a key has at the moment; the primary refuses them and sends nothing.
"""

import random

# Few, so that commands meet each other's keys. Plain sets come into the second half only: keys of
# the first half can be combined without one, which a replica of sorted sets would not have.
FIRST = ["fleet:a", "fleet:b", "fleet:c", b"fleet:\xff\r\n "]
SECOND = ["fleet:e", "fleet:f", "fleet:g", "fleet:h"]
# Grows beyond the packed encodings, and is seldom replaced.
BIG = "fleet:big"
# All scores are 0 there: ranges by name need that. In other keys they depend on the levels of the
# skip list, which are random, so that stock servers differ after ZREMRANGEBYLEX.
LEX = "fleet:lex"
# The types in payloads of DUMP that are plain sets.
SET_TYPES = (2, 11, 20)
OTHERS = [f"other:{letter}" for letter in "abcd"]
OTHER_SETS = ["other:set-1", "other:set-2"]
MEMBERS = [f"member-{number}" for number in range(60)] + [str(number) for number in range(-20, 20)]
MEMBERS += ["", "m" * 70, b"\x00\xff\r\n", "4611686018427387904", "1.5", "x" * 300]
SCORES = ["0", "-0.0", "1", "-1", "0.5", "inf", "-inf", "1e300", "5e-324", "3.3333333333333335", "4503599627370495"]
SCORES += ["9007199254740993", "17.000000000000004", "127", "128", "-32769", "8388608"]
FAR_SECONDS = 4102444800  # The year 2100.

LIBRARY = """#!lua name=fleet
redis.register_function('fleet_move', function(keys, args)
  redis.pcall('ZADD', keys[1], args[1], args[2])
  redis.pcall('GEOADD', keys[1], 'CH', args[3], args[4], args[5])
  return redis.pcall('ZREM', keys[1], args[6])
end)"""

SCRIPT = """
redis.pcall('ZADD', KEYS[1], ARGV[1], ARGV[2])
redis.pcall('ZINCRBY', KEYS[2], ARGV[1], ARGV[2])
if tonumber(ARGV[3]) == 1 then redis.pcall('RENAME', KEYS[1], KEYS[2]) end
if tonumber(ARGV[3]) == 2 then redis.pcall('SET', KEYS[2], 'text') end
if tonumber(ARGV[3]) == 3 then redis.pcall('PEXPIRE', KEYS[1], 1500) end
return redis.pcall('ZPOPMIN', KEYS[1])"""


class Writes:
    """A source of steps; equal seeds give equal steps as long as equal payloads are put in.

    `strange` is the share of steps whose effect a replica of `fleet:*` in database 0 cannot know from
    the stream: from keys and databases that it does not follow into those that it does.
    """

    def __init__(self, seed, strange=0.0, payloads=()):
        self.rng = random.Random(seed)
        self.strange = strange
        # Values as DUMP gave them; the caller adds some from time to time.
        self.payloads = list(payloads)
        self.families = [
            (90, self.points), (60, self.scores), (10, self.removals), (10, self.pops), (9, self.stores),
            (7, self.times), (4, self.names), (5, self.texts), (4, self.lists), (4, self.sets),
            (4, self.hashes), (3, self.streams), (2, self.odd_types), (3, self.payload), (1, self.servers),
            (5, self.transaction), (4, self.script), (6, self.elsewhere), (0.03, self.flush),
        ]
        self.weights = [weight for weight, _ in self.families]

    def step(self):
        if self.rng.random() < self.strange:
            return self.unknowable()
        family = self.rng.choices(self.families, self.weights)[0][1]
        made = family()
        return made if isinstance(made[0], list) else [made]

    # Words.

    def key(self):
        """Mostly a followed key, of which the first ones come most often."""
        if self.rng.random() < 0.12:
            return self.rng.choice(OTHERS)
        return self.followed()

    def followed(self):
        draw = self.rng.random()
        if draw < 0.15:
            return BIG
        return self.one_of(FIRST if draw < 0.65 else SECOND)

    def typed(self, count=1, halves=(SECOND,)):
        """Names for commands that put another type in the place of what there is."""
        return self.alike(count, (FIRST, OTHERS) if self.one_in(12) else halves)

    def one_of(self, keys):
        return keys[min(int(self.rng.expovariate(0.7)), len(keys) - 1)]

    def alike(self, count, halves=(FIRST, FIRST, SECOND, OTHERS)):
        """Names of one kind, so that a command brings nothing in from elsewhere."""
        keys = self.rng.choice(halves)
        return [self.one_of(keys) for _ in range(count)]

    def member(self, key=None):
        if key == BIG:
            return f"vehicle-{self.rng.randrange(4000)}"
        return self.rng.choice(MEMBERS)

    def members(self, key=None, count=4):
        return [self.member(key) for _ in range(self.rng.randint(1, count))]

    def score(self):
        draw = self.rng.random()
        if draw < 0.25:
            return self.rng.choice(SCORES)
        if draw < 0.5:
            return self.rng.randint(-50, 50)
        if draw < 0.75:
            return self.rng.randrange(1 << 52)
        return repr(self.rng.uniform(-1e6, 1e6))

    def place(self):
        if self.one_in(3):
            return [f"{self.rng.uniform(-180, 180):.6f}", f"{self.rng.uniform(-85, 85):.6f}"]
        return self.central_place()

    def central_place(self):
        return [f"{self.rng.uniform(0, 16):.6f}", f"{self.rng.uniform(44, 54):.6f}"]

    def bound(self):
        return self.rng.choice(["", "("]) + str(self.score()).lstrip("(")

    def name_bound(self):
        return self.rng.choice(["-", "+", "[member-3", "(member-41", "[9", b"(\x00", "[m"])

    def one_in(self, count):
        return self.rng.randrange(count) == 0

    def maybe(self, *words):
        return list(words) if self.rng.random() < 0.5 else []

    # Sorted sets and points.

    def points(self):
        key = self.key()
        count = 300 if key == BIG and self.one_in(4) else 5
        flags = self.rng.choice([[], [], [], ["NX"], ["XX"], ["CH"], ["XX", "CH"]])
        words = ["GEOADD", key, *flags]
        for _ in range(self.rng.randint(1, count)):
            words += [*self.place(), self.member(key)]
        return words

    def scores(self):
        key = self.key()
        if self.one_in(15):
            return ["ZADD", LEX, *(part for member in self.members(count=12) for part in (0, member))]
        if self.one_in(4):
            return ["ZINCRBY", key, self.score(), self.member(key)]
        if self.one_in(6):
            flags = self.rng.choice([["INCR"], ["NX", "INCR"], ["XX", "INCR"], ["GT", "INCR"], ["LT", "CH", "INCR"]])
            return ["ZADD", key, *flags, self.score(), self.member(key)]
        flags = self.rng.choice([[], [], [], ["NX"], ["XX"], ["GT"], ["LT"], ["CH"], ["XX", "GT", "CH"], ["XX", "LT"]])
        words = ["ZADD", key, *flags]
        for _ in range(self.rng.randint(1, 200 if self.one_in(50) else 4)):
            words += [self.score(), self.member(key)]
        return words

    def removals(self):
        key = self.key()
        start = self.rng.randint(-30, 30)
        return self.rng.choice([
            ["ZREM", key, *self.members(key)],
            ["ZREM", key, *self.members(key)],
            ["ZREM", key, *self.members(key)],
            ["ZREMRANGEBYRANK", key, start, start + self.rng.randint(0, 4)],
            ["ZREM", key, *self.members(key)],
            ["ZREMRANGEBYSCORE", key, self.bound(), self.bound()],
            ["ZREMRANGEBYLEX", LEX, self.name_bound(), self.name_bound()],
            [self.rng.choice(["DEL", "UNLINK"]), key, self.one_of(SECOND)],
        ])

    def pops(self):
        keys = self.alike(self.rng.randint(1, 3))
        side = self.rng.choice(["MIN", "MAX"])
        return self.rng.choice([
            [f"ZPOP{side}", keys[0], *self.maybe(self.rng.randint(0, 5))],
            ["ZMPOP", len(keys), *keys, side, *self.maybe("COUNT", self.rng.randint(1, 4))],
            # In a transaction a command that would wait gives up at once.
            [["MULTI"], [f"BZPOP{side}", *keys, 0], ["EXEC"]],
            [["MULTI"], ["BZMPOP", 0, len(keys), *keys, side, "COUNT", 2], ["EXEC"]],
        ])

    def stores(self):
        count = self.rng.randint(1, 3)
        # Sources that are no plain sets, and a target on the same side of what is followed.
        target, *sources = self.alike(count + 1, (FIRST, FIRST, FIRST, OTHERS))
        if target in FIRST:
            sources[0] = BIG if self.one_in(4) else sources[0]
            target = BIG if self.one_in(150) else target if self.one_in(4) else self.one_of(SECOND)
        # Shapes in which Redis finds every point: far from the poles, and not half of the globe.
        shape = ["FROMMEMBER", self.member()] if self.one_in(8) else ["FROMLONLAT", *self.central_place()]
        shape += ["BYRADIUS", self.rng.choice([100, 250, 450]), "km"] if self.one_in(2) else ["BYBOX", 700, 500, "km"]
        some = self.rng.choice([[], ["COUNT", 3], ["COUNT", 2, "ANY"], ["DESC"]])
        store = self.rng.choice(["STORE", "STOREDIST"])
        combine = self.rng.choice(["ZUNIONSTORE", "ZINTERSTORE", "ZDIFFSTORE"])
        weighed = [] if combine == "ZDIFFSTORE" else self.maybe("WEIGHTS", *(self.rng.choice([1, -2, 0.5, 0]) for _ in sources))
        weighed += [] if combine == "ZDIFFSTORE" else self.maybe("AGGREGATE", self.rng.choice(["SUM", "MIN", "MAX"]))
        by = self.rng.choice([[0, -1], [2, 8], [0, -1, "REV"], ["-inf", "+inf", "BYSCORE"]])
        return self.rng.choice([
            ["GEOSEARCHSTORE", target, sources[0], *shape, *some, *self.maybe("STOREDIST")],
            ["GEORADIUS", sources[0], *self.central_place(), 400, "km", *some, store, target],
            ["GEORADIUSBYMEMBER", sources[0], self.member(), 300, "km", *some, store, target],
            [combine, target, count, *sources, *weighed],
            [combine, target, count, *sources, *weighed],
            ["ZRANGESTORE", target, sources[0], *by],
            ["ZRANGESTORE", self.one_of(SECOND), LEX, "-", "[n", "BYLEX", "LIMIT", 0, 9],
        ])

    # Keys.

    def times(self):
        key = self.key()
        soon = self.rng.randint(1, 3000)
        if key == BIG and not self.one_in(20):
            return [self.rng.choice(["PEXPIRE", "EXPIRE"]), key, 1_000_000 + soon]
        soon *= self.rng.choice([1, 1000, 1000])
        when = self.rng.choice([
            ["PEXPIRE", key, soon], ["PEXPIRE", key, soon], ["EXPIRE", key, self.rng.choice([1, 2000, 100000])],
            ["EXPIREAT", key, FAR_SECONDS + soon], ["PEXPIREAT", key, FAR_SECONDS * 1000 + soon],
            ["EXPIREAT", self.one_of(SECOND), 1], ["EXPIRE", self.one_of(SECOND), -5],
        ])
        when += self.rng.choice([[], [], [], ["NX"], ["XX"], ["GT"], ["LT"]])
        return self.rng.choice([when, when, when, ["PERSIST", key], ["GETEX", key, "PX", soon]])

    def names(self):
        one, two = self.alike(2)
        if one in FIRST and self.one_in(3):
            copy = ["COPY", BIG, two if self.one_in(2) else "fleet:moved", "REPLACE"]
            return [copy, ["RENAME", "fleet:moved", self.one_of(SECOND)]]
        target = self.rng.choice(OTHERS) if self.one_in(8) else two
        return self.rng.choice([
            ["RENAME", one, target], ["RENAMENX", one, target], ["COPY", one, target],
            ["COPY", one, target, "REPLACE"], ["COPY", one, two, "DB", 1, "REPLACE"], ["MOVE", self.one_of(SECOND), 1],
            ["COPY", one, two, "REPLACE"], ["TOUCH", one, two], ["DEL", two, self.one_of(SECOND)],
        ])

    def payload(self):
        key = self.key()
        if not self.payloads or self.one_in(10):
            return ["RESTORE", key, 0, b"no payload", "REPLACE"]
        soon = self.rng.choice([[0], [self.rng.randint(1, 5000)], [FAR_SECONDS * 1000 + 5, "ABSTTL"]])
        payload = self.rng.choice(self.payloads)
        if payload[0] in SET_TYPES:
            key = self.one_of(SECOND)
        more = self.rng.choice([[], [], ["IDLETIME", 5], ["FREQ", 7]])
        return ["RESTORE", key, soon[0], payload, *self.maybe("REPLACE"), *soon[1:], *more]

    # Other types, over sorted sets too.

    def texts(self):
        key, other = self.typed(2)
        soon = self.rng.randint(1, 3000)
        return self.rng.choice([
            ["SET", key, "text"], ["SET", key, "text", "PX", soon], ["SET", key, "v", "KEEPTTL"], ["SET", key, 5, "NX"],
            ["SET", key, "v", "XX", "GET"], ["SETEX", key, 2, "v"], ["PSETEX", key, soon, "v"], ["SETNX", key, 7],
            ["MSET", key, 1, other, 2], ["MSETNX", key, 1, other, 2], ["GETSET", key, "v"], ["GETDEL", key],
            ["APPEND", key, "more"], ["SETRANGE", key, 3, "abc"], ["INCR", key], ["INCRBY", key, 3], ["DECR", key],
            ["DECRBY", key, 3], ["INCRBYFLOAT", key, 1.5], ["SETBIT", key, 9, 1], ["BITOP", "OR", key, other],
            ["BITOP", "NOT", key, other], ["BITFIELD", key, "SET", "u8", 0, 200], ["PFADD", key, "a", "b"],
            ["PFMERGE", key, other], ["DELIFEQ", key, "text"], ["SET", key, "v", "IFEQ", "text"],
            ["MSETEX", 2, key, 1, other, 2, "PX", soon],
        ])

    def lists(self):
        key, other = self.typed(2)
        fresh = [["DEL", key], ["RPUSH", key, "a", "b", 1, "a"]]
        return self.rng.choice([
            ["LPUSH", key, 1, 2, 3], ["RPUSH", key, "a"], ["LPUSHX", key, 0], ["RPUSHX", key, 0], ["LPOP", key], ["RPOP", key, 2],
            [*fresh, ["LSET", key, 0, "v"]], [*fresh, ["LREM", key, 1, "a"]], ["LTRIM", key, 0, 1],
            [*fresh, ["LINSERT", key, "BEFORE", 1, 0]], [*fresh, ["LMOVE", key, other, "LEFT", "RIGHT"]],
            [*fresh, ["RPOPLPUSH", key, other]], [*fresh, ["LMPOP", 2, other, key, "LEFT"]],
            [*fresh, ["DEL", other], ["SORT", key, "ALPHA", "STORE", other]], ["SORT", key, "BY", "nosort", "STORE", key],
            [["MULTI"], *fresh, ["BLMOVE", key, key, "LEFT", "LEFT", 0], ["BRPOP", key, 0], ["BLPOP", key, 0],
             ["BLMPOP", 0, 1, key, "RIGHT"], ["EXEC"]],
            [["MULTI"], *fresh, ["BRPOPLPUSH", key, key, 0], ["EXEC"]],
        ])

    def sets(self):
        key, other, third = self.alike(3, (SECOND, SECOND, OTHER_SETS))
        return self.rng.choice([
            ["SADD", key, *self.members()], ["SADD", key, 1, 2, 3], ["SREM", key, *self.members()], ["SPOP", key],
            ["SPOP", key, 2], ["SMOVE", key, other, self.member()], ["SUNIONSTORE", key, other, third],
            ["SINTERSTORE", key, other, third], ["SDIFFSTORE", key, other, third], ["SUNIONSTORE", key, key, other],
        ])

    def hashes(self):
        [key] = self.typed()
        fresh = [["DEL", key], ["HSET", key, "f", 1, "g", 2]]
        step = self.rng.choice([
            ["HSET", key, "f", 1, "g", 2], ["HSETNX", key, "n", 1], ["HMSET", key, "h", 3], ["HINCRBY", key, "f", 2],
            ["HINCRBYFLOAT", key, "f", 0.5], ["HDEL", key, "f", "g"], ["HEXPIRE", key, 1, "FIELDS", 1, "f"],
            ["HPEXPIRE", key, 300, "FIELDS", 2, "f", "g"], ["HEXPIREAT", key, FAR_SECONDS, "FIELDS", 1, "f"],
            ["HPEXPIREAT", key, FAR_SECONDS * 1000, "FIELDS", 1, "f"],
            ["HPERSIST", key, "FIELDS", 1, "f"], ["HGETDEL", key, "FIELDS", 1, "f"],
            ["HGETEX", key, "PX", 200, "FIELDS", 1, "g"], ["HSETEX", key, "EX", 1, "FIELDS", 1, "f", "v"],
        ])
        return [*fresh, step] if self.one_in(2) else step

    def streams(self):
        [key] = self.typed()
        fresh = [["DEL", key], ["XADD", key, "1-1", "f", "v"], ["XADD", key, "2-2", "f", "v"]]
        group = [*fresh, ["XGROUP", "CREATE", key, "group", 0]]
        read = ["XREADGROUP", "GROUP", "group", "one", "COUNT", 2, "STREAMS", key, ">"]
        return self.rng.choice([
            ["XADD", key, "*", "f", "v"], ["XADD", key, "MAXLEN", "~", 5, "*", "f", "v"], ["XADD", key, "NOMKSTREAM", "*", "f", 1],
            [*fresh, ["XTRIM", key, "MAXLEN", 1]], [*fresh, ["XDEL", key, "1-1"]], [*fresh, ["XSETID", key, "9-9"]],
            [*group, ["XGROUP", "CREATECONSUMER", key, "group", "one"]], [*group, ["XGROUP", "DESTROY", key, "group"]],
            [*group, read, ["XACK", key, "group", "1-1"], ["XAUTOCLAIM", key, "group", "two", 0, 0]],
            [*group, read, ["XCLAIM", key, "group", "two", 0, "2-2"]],
        ])

    def odd_types(self):
        [key] = self.typed()
        return self.rng.choice([
            ["VADD", key, "VALUES", 3, 1, 2, 3, "a"], ["VREM", key, "a"], ["VSETATTR", key, "a", "{}"],
            ["SORT", key, "ALPHA", "DESC", "STORE", key], ["OBJECT", "FREQ", key], ["LOLWUT"], ["NO-SUCH-COMMAND", key],
        ])

    def servers(self):
        return self.rng.choice([
            ["PUBLISH", "channel", "text"], ["SPUBLISH", "channel", "text"], ["SCRIPT", "FLUSH"], ["PING"],
            ["FUNCTION", "LOAD", "REPLACE", LIBRARY], ["CONFIG", "SET", "zset-max-listpack-entries", self.rng.choice([0, 8, 128])],
            ["WAIT", 0, 1], ["SCRIPT", "LOAD", "return 1"],
        ])

    # Several at once.

    def simple(self):
        family = self.rng.choice([self.points, self.scores, self.removals, self.stores, self.times, self.names, self.texts, self.sets])
        made = family()
        return made if not isinstance(made[0], list) else ["PING"]

    def transaction(self):
        inside = [self.simple() for _ in range(self.rng.randint(1, 6))]
        return [["MULTI"], *inside, ["DISCARD" if self.one_in(12) else "EXEC"]]

    def script(self):
        one, two = self.alike(2)
        if self.one_in(3):
            words = [self.score(), self.member(), *self.place(), self.member(), self.member()]
            return ["FCALL", "fleet_move", 1, one, *words]
        return ["EVAL", SCRIPT, 2, one, two, self.score(), self.member(), self.rng.randint(0, 12)]

    def elsewhere(self):
        """In a database that is not followed, with names that are followed in theirs."""
        inside = [self.simple() for _ in range(self.rng.randint(1, 3))]
        inside = [words for words in inside if words[0] not in ("MOVE", "COPY")]
        if self.one_in(20):
            inside.append(["FLUSHDB"])
        if self.one_in(20):
            inside.append(["SWAPDB", 2, 3])
        return [["SELECT", self.rng.choice([1, 2, 15])], *inside, ["SELECT", 0]]

    def flush(self):
        return self.rng.choice([["FLUSHDB"], ["FLUSHDB", "ASYNC"], ["FLUSHALL"], ["FUNCTION", "FLUSH"]])

    def unknowable(self):
        return self.rng.choice(unknowable_steps(self))


def unknowable_steps(writes):
    """One step of each kind that brings in what a replica of `fleet:*` in database 0 does not have."""
    one, two = writes.followed(), writes.followed()
    other = writes.rng.choice(OTHERS)
    fill = ["ZADD", other, 1, "from outside", 2.5, "member-1"]
    geo = ["GEOADD", other, 8.5, 50.5, "from outside"]
    unset = ["DEL", other]

    def in_database_1(*commands):
        return [["SELECT", 1], *commands, ["SELECT", 0]]

    elsewhere = ["ZADD", one, 7, "from database 1"]
    return [
        [["SWAPDB", 0, 1]],
        in_database_1(["DEL", one], elsewhere, ["COPY", one, two, "DB", 0, "REPLACE"]),
        [["DEL", one], *in_database_1(["DEL", one], elsewhere, ["MOVE", one, 0])],
        [unset, fill, ["RENAME", other, one]],
        [unset, fill, ["COPY", other, one, "REPLACE"]],
        [unset, fill, ["ZUNIONSTORE", one, 2, other, two]],
        [unset, fill, ["ZINTERSTORE", one, 2, other, two]],
        [["DEL", two], ["ZADD", two, 1, "member-1", 2, "kept"], unset, fill, ["ZDIFFSTORE", one, 2, two, other]],
        [unset, fill, ["ZRANGESTORE", one, other, 0, -1]],
        [unset, geo, ["GEOSEARCHSTORE", one, other, "FROMLONLAT", 8, 50, "BYRADIUS", 500, "km"]],
        [unset, geo, ["GEORADIUS", other, 8, 50, 500, "km", "STORE", one]],
        [unset, geo, ["GEORADIUSBYMEMBER", other, "from outside", 500, "km", "STOREDIST", one]],
        # Redis misses points beyond the pole, and takes some of those that are equally far away.
        [
            ["DEL", "fleet:z"], ["GEOADD", "fleet:z", -73.3, 83.7, "beyond the pole", 1, 80, "before it"],
            ["GEOSEARCHSTORE", one, "fleet:z", "FROMLONLAT", 0.7, 78.9, "BYRADIUS", 1244351, "m"],
        ],
        [
            ["DEL", "fleet:z"], ["GEOADD", "fleet:z", *(part for n in range(30) for part in (8.5, 50.5, f"equal-{n}"))],
            ["GEOSEARCHSTORE", one, "fleet:z", "FROMLONLAT", 8, 50, "BYRADIUS", 500, "km", "ASC", "COUNT", 7],
        ],
        # A plain set is a source of these three, and followed keys of that type are not kept.
        [["DEL", two], ["SADD", two, "from a set"], ["ZUNIONSTORE", one, 1, two], ["DEL", two]],
        [["DEL", two, "fleet:z"], ["SADD", two, "m"], ["ZADD", "fleet:z", 3, "m"], ["ZINTERSTORE", one, 2, two, "fleet:z"], ["DEL", two]],
    ]
