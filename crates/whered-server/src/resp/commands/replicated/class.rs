//! What each command that a primary sends means for its sorted sets.
//!
//! ```text
//! zadd zrem zremrangebyrank ...        SortedSet     run here
//! zunionstore ...                      Combination   run here; plain sets may be among its sources
//! del pexpireat persist                Key           run here
//! set mset sunionstore sort bitop ...  Replacement   a key has another type now: deleted here
//! hset lpush xadd publish function ... Nothing       no sorted set changes
//! cluster setslot, cluster failover    Cluster       nothing; a failed import may remove keys
//! anything else                        not known
//! ```
//!
//! A primary sends only what has changed something. So a command that changes a value of another
//! type in place has met no sorted set, and one that replaces whatever was there has replaced it.
//!
//! Sources: `COMMAND INFO` of Redis 7.0 to 8.4 and Valkey 9, and their modules of those versions.

use super::super::{Access, KeySpec};

/// What a command does to sorted sets.
#[derive(Clone, Copy, Debug)]
pub(super) enum CommandClass {
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
    /// `CLUSTER`: whose the slots are, which changes no sorted set but where an import fails.
    Cluster,
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

/// The class of a command of this name; `None` for one that is not known.
pub(super) fn class_of(name: &[u8]) -> Option<CommandClass> {
    let mut letters = [0; NAME_BYTES_MAX];
    let letters = letters.get_mut(..name.len())?;
    letters.copy_from_slice(name);
    letters.make_ascii_lowercase();
    of_sorted_sets(letters).or_else(|| of_others(letters))
}

fn of_sorted_sets(name: &[u8]) -> Option<CommandClass> {
    Some(match name {
        b"zadd" | b"zincrby" | b"zrem" | b"zremrangebyscore" | b"zremrangebyrank"
        | b"zremrangebylex" | b"zpopmin" | b"zpopmax" | b"zrangestore" | b"geoadd"
        | b"geosearchstore" | b"georadius" | b"georadiusbymember" => CommandClass::SortedSet,
        b"zunionstore" | b"zinterstore" | b"zdiffstore" => CommandClass::Combination,
        b"del" | b"unlink" | b"expire" | b"pexpire" | b"expireat" | b"pexpireat" | b"persist" => {
            CommandClass::Key
        }
        b"rename" | b"renamenx" => CommandClass::Rename,
        b"copy" => CommandClass::Copy,
        b"move" => CommandClass::Move,
        b"restore" | b"restore-asking" => CommandClass::Restore,
        b"flushdb" => CommandClass::FlushDatabase,
        b"flushall" => CommandClass::FlushAll,
        b"swapdb" => CommandClass::Swap,
        b"select" => CommandClass::Select,
        b"multi" => CommandClass::Multi,
        b"exec" => CommandClass::Exec,
        b"replconf" => CommandClass::Replconf,
        b"cluster" => CommandClass::Cluster,
        _ => return None,
    })
}

fn of_others(name: &[u8]) -> Option<CommandClass> {
    Some(match name {
        // `DELEX` without a condition removes a key of any type.
        b"set" | b"setex" | b"psetex" | b"getset" | b"delex" => CommandClass::Replacement(at(1)),
        b"mset" => CommandClass::Replacement(KeySpec::every(1, 2, Access::Overwrite)),
        b"msetex" => CommandClass::Replacement(KeySpec::counted_pairs(1, Access::Overwrite)),
        b"bitop" => CommandClass::Replacement(at(2)),
        b"sort" => CommandClass::Replacement(KeySpec::stored_by_sort()),
        b"sunionstore" | b"sinterstore" | b"sdiffstore" => CommandClass::ReplacementBySet(at(1)),
        b"sadd" => CommandClass::FillsSet(at(1)),
        b"smove" => CommandClass::FillsSet(at(2)),
        // Texts and counters.
        b"append" | b"decr" | b"decrby" | b"delifeq" | b"getdel" | b"getex" | b"incr"
        | b"incrby" | b"incrbyfloat" | b"msetnx" | b"setbit" | b"setnx" | b"setrange"
        | b"bitfield" | b"pfadd" | b"pfcount" | b"pfmerge"
        | b"pfdebug"
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
        | b"ping" | b"publish" | b"spublish" | b"function" | b"script" => CommandClass::Nothing,
        _ if is_of_known_module(name) => CommandClass::Nothing,
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
    let class = class_of(name);
    matches!(
        class,
        Some(CommandClass::Nothing | CommandClass::Replacement(_) | CommandClass::FillsSet(_))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands with the flag `write` in `COMMAND` of Redis 7.0.15 and 8.0.6 and Valkey 9.1.2, but
    /// for those that are sent as others (`ZMPOP` as `ZPOPMIN`) or not at all (`MIGRATE`).
    const WRITES: &str = "append bitfield bitop blmove blpop brpop brpoplpush copy decr decrby del delifeq \
         expire expireat flushall flushdb function geoadd georadius georadiusbymember \
         geosearchstore getdel getex getset hdel hexpire hexpireat hgetdel hgetex hincrby \
         hincrbyfloat hmset hpersist hpexpire hpexpireat hset hsetex hsetnx incr incrby \
         incrbyfloat linsert lmove lmpop lpop lpush lpushx lrem lset ltrim move mset msetex \
         msetnx persist pexpire pexpireat pfadd pfdebug pfmerge psetex rename renamenx \
         restore restore-asking rpop rpoplpush rpush rpushx sadd sdiffstore set setbit setex \
         setnx setrange sinterstore smove sort spop srem sunionstore swapdb unlink vadd vrem \
         vsetattr xack xadd xautoclaim xclaim xdel xgroup xreadgroup xsetid xtrim zadd \
         zdiffstore zincrby zinterstore zpopmax zpopmin zrangestore zrem zremrangebylex \
         zremrangebyrank zremrangebyscore zunionstore";

    /// Commands with the flag `may_replicate` of those versions, but for those of scripts, of which
    /// the effects are sent.
    const MAY_REPLICATE: &str = "pfcount publish spublish cluster";

    #[test]
    fn every_command_that_writes_in_redis_7_and_8_and_valkey_9_has_a_class() {
        let names = WRITES.split_ascii_whitespace().chain(MAY_REPLICATE.split_ascii_whitespace());
        let unknown: Vec<&str> = names.filter(|name| class_of(name.as_bytes()).is_none()).collect();
        assert_eq!(unknown, [""; 0]);
        assert!(class_of(b"FROBNICATE").is_none());
        assert!(matches!(class_of(b"ZADD"), Some(CommandClass::SortedSet)));
    }
}
