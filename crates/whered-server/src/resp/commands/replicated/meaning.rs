//! What each command that a primary sends means for its sorted sets.
//!
//! ```text
//! zadd zrem zremrangebyrank ...        SortedSet     run here
//! zunionstore ...                      Combination   run here; plain sets may be among its sources
//! del pexpireat persist                Key           run here
//! set mset sunionstore sort bitop ...  Replacement   a key has another type now: deleted here
//! hset lpush xadd publish function ... Nothing       no sorted set changes
//! anything else                        not known
//! ```
//!
//! A primary sends only what has changed something. So a command that changes a value of another
//! type in place has met no sorted set, and one that replaces whatever was there has replaced it.
//!
//! Sources: `COMMAND INFO` of Redis 7.0 to 8.4 and Valkey 9, and their modules of those versions.

use super::super::{Access, KeySpec};

/// What a command means.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meaning {
    /// The commands behind it are about another database.
    Select,
    /// A transaction begins.
    Multi,
    /// It ends.
    Exec,
    /// Perhaps a request for the position.
    Replconf,
    /// It changes no sorted set.
    Nothing,
    /// It fills a plain set in place, which a combination may read later.
    FillsSet(KeySpec),
    /// It changes or makes a sorted set out of sorted sets.
    SortedSet,
    /// It makes a sorted set out of sorted sets and plain sets.
    Combination,
    /// It changes or removes keys, whatever they hold.
    Key,
    /// It replaces keys by values of other types.
    Replacement(KeySpec),
    /// As `Replacement`, by plain sets.
    ReplacementBySet(KeySpec),
    /// `RENAME`, `RENAMENX`.
    Rename,
    /// `COPY`.
    Copy,
    /// `MOVE`.
    Move,
    /// `RESTORE`.
    Restore,
    /// `FLUSHDB`.
    FlushDatabase,
    /// `FLUSHALL`.
    FlushAll,
    /// `SWAPDB`.
    Swap,
}

const fn at(index: usize) -> KeySpec {
    KeySpec::at(index, Access::Overwrite)
}

/// The longest name of a command that is known.
const NAME_BYTES_MAX: usize = 32;

/// What a command of this name means; `None` for one that is not known.
pub(super) fn meaning(name: &[u8]) -> Option<Meaning> {
    let mut letters = [0; NAME_BYTES_MAX];
    let letters = letters.get_mut(..name.len())?;
    letters.copy_from_slice(name);
    letters.make_ascii_lowercase();
    of_sorted_sets(letters).or_else(|| of_others(letters))
}

fn of_sorted_sets(name: &[u8]) -> Option<Meaning> {
    Some(match name {
        b"zadd" | b"zincrby" | b"zrem" | b"zremrangebyscore" | b"zremrangebyrank"
        | b"zremrangebylex" | b"zpopmin" | b"zpopmax" | b"zrangestore" | b"geoadd"
        | b"geosearchstore" | b"georadius" | b"georadiusbymember" => Meaning::SortedSet,
        b"zunionstore" | b"zinterstore" | b"zdiffstore" => Meaning::Combination,
        b"del" | b"unlink" | b"expire" | b"pexpire" | b"expireat" | b"pexpireat" | b"persist" => {
            Meaning::Key
        }
        b"rename" | b"renamenx" => Meaning::Rename,
        b"copy" => Meaning::Copy,
        b"move" => Meaning::Move,
        b"restore" | b"restore-asking" => Meaning::Restore,
        b"flushdb" => Meaning::FlushDatabase,
        b"flushall" => Meaning::FlushAll,
        b"swapdb" => Meaning::Swap,
        b"select" => Meaning::Select,
        b"multi" => Meaning::Multi,
        b"exec" => Meaning::Exec,
        b"replconf" => Meaning::Replconf,
        _ => return None,
    })
}

fn of_others(name: &[u8]) -> Option<Meaning> {
    Some(match name {
        b"set" | b"setex" | b"psetex" | b"getset" => Meaning::Replacement(at(1)),
        b"mset" => Meaning::Replacement(KeySpec::every(1, 2, Access::Overwrite)),
        b"bitop" => Meaning::Replacement(at(2)),
        b"sort" => Meaning::Replacement(KeySpec::stored(2)),
        b"sunionstore" | b"sinterstore" | b"sdiffstore" => Meaning::ReplacementBySet(at(1)),
        b"sadd" => Meaning::FillsSet(at(1)),
        b"smove" => Meaning::FillsSet(at(2)),
        // Texts and counters.
        b"append" | b"decr" | b"decrby" | b"delex" | b"delifeq" | b"getdel" | b"getex" | b"incr"
        | b"incrby" | b"incrbyfloat" | b"msetnx" | b"setbit" | b"setnx" | b"setrange"
        | b"bitfield" | b"pfadd" | b"pfmerge" | b"pfdebug"
        // Lists.
        | b"blmove" | b"blpop" | b"brpop" | b"brpoplpush" | b"linsert" | b"lmove" | b"lmpop"
        | b"lpop" | b"lpush" | b"lpushx" | b"lrem" | b"lset" | b"ltrim" | b"rpop" | b"rpoplpush"
        | b"rpush" | b"rpushx"
        // Sets and hashes.
        | b"spop" | b"srem" | b"hdel" | b"hexpire" | b"hexpireat" | b"hgetdel" | b"hgetex"
        | b"hincrby" | b"hincrbyfloat" | b"hmset" | b"hpersist" | b"hpexpire" | b"hpexpireat"
        | b"hset" | b"hsetex" | b"hsetnx"
        // Streams.
        | b"xack" | b"xackdel" | b"xadd" | b"xautoclaim" | b"xcfgset" | b"xclaim" | b"xdel"
        | b"xdelex" | b"xgroup" | b"xreadgroup" | b"xsetid" | b"xtrim"
        // Vector sets.
        | b"vadd" | b"vrem" | b"vsetattr"
        // No keys.
        | b"ping" | b"publish" | b"spublish" | b"function" | b"script" => Meaning::Nothing,
        _ if is_of_known_module(name) => Meaning::Nothing,
        _ => return None,
    })
}

/// Whether a command is of a module that comes with Redis or Valkey, whose types are its own.
fn is_of_known_module(name: &[u8]) -> bool {
    let modules: [&[u8]; 8] =
        [b"json.", b"bf.", b"cf.", b"cms.", b"topk.", b"tdigest.", b"ts.", b"ft."];
    modules.iter().any(|module| name.starts_with(module))
}

/// Whether the long arguments of a command of this name have no meaning for sorted sets. (A name of
/// a key that is so long is seen to be missing.)
pub(super) fn passes_over(name: &[u8]) -> bool {
    let meaning = meaning(name);
    matches!(meaning, Some(Meaning::Nothing | Meaning::Replacement(_) | Meaning::FillsSet(_)))
}
