//! The parameters of `CONFIG`: their names, values and texts as Redis 7.0.15 has them.
//!
//! For: what client libraries, monitors and test harnesses ask for, and what `Settings` can change.
//! Not for: parameters of Redis that have no meaning here: asking for them finds nothing.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use whered_engine::DATABASE_COUNT;

use crate::resp::session::Session;
use crate::resp::settings::{OutputLimit, Settings};
use crate::resp::users;

/// One parameter.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) get: fn(&Session) -> String,
    /// Looks at a value and, if it is really meant, takes it; `None`: it never changes.
    pub(super) set: Option<Change>,
}

type Change = fn(&Session, &str, bool) -> Result<(), String>;

const fn fixed(name: &'static str, get: fn(&Session) -> String) -> Parameter {
    Parameter { name, get, set: None }
}

/// A parameter that has one value, which may be set again.
macro_rules! constant {
    ($name:literal, $value:literal) => {
        Parameter {
            name: $name,
            get: |_| $value.to_owned(),
            set: Some(|_, value, _| only($value, value)),
        }
    };
}

/// A whole number of the settings, with the least and the greatest value.
macro_rules! number {
    ($name:literal, $field:ident, $range:expr) => {
        Parameter {
            name: $name,
            get: |session| session.shared.settings.$field.load(Ordering::Relaxed).to_string(),
            set: Some(|session, value, really| {
                let value = whole(value, $range)?;
                if really {
                    session.shared.settings.$field.store(value as _, Ordering::Relaxed);
                }
                Ok(())
            }),
        }
    };
}

/// A number of bytes of the settings.
macro_rules! memory {
    ($name:literal, $field:ident) => {
        Parameter {
            name: $name,
            get: |session| session.shared.settings.$field.load(Ordering::Relaxed).to_string(),
            set: Some(|session, value, really| {
                let bytes = memory_value(value).ok_or(NO_MEMORY_VALUE)?;
                if really {
                    session.shared.settings.$field.store(bytes as _, Ordering::Relaxed);
                }
                Ok(())
            }),
        }
    };
}

const NO_MEMORY_VALUE: &str = "argument must be a memory value";

pub(super) const PARAMETERS: &[Parameter] = &[
    fixed("appendfsync", |session| session.shared.context.journal_sync.to_owned()),
    fixed("appendonly", |session| {
        if session.engine().journal_stats().is_some() { "yes" } else { "no" }.to_owned()
    }),
    fixed("bind", |session| {
        let listen = session.shared.options.listen.iter();
        listen.map(|address| address.ip().to_string()).collect::<Vec<_>>().join(" ")
    }),
    Parameter {
        name: "client-output-buffer-limit",
        get: |session| output_limits(&session.shared.settings),
        set: Some(set_output_limits),
    },
    memory!("client-query-buffer-limit", query_limit_bytes),
    fixed("databases", |_| DATABASE_COUNT.to_string()),
    fixed("io-threads", |session| session.shared.options.thread_count().to_string()),
    constant!("latency-monitor-threshold", "0"),
    constant!("latency-tracking", "yes"),
    Parameter {
        name: "maxclients",
        get: |session| session.shared.settings.max_clients.load(Ordering::Relaxed).to_string(),
        set: Some(|session, value, really| {
            let count = whole(value, 1..=u32::MAX.into())? as usize;
            // For so many the process has file descriptors, and some left for the journal.
            let most = session.shared.options.max_clients;
            if count > most {
                return Err(format!(
                    "The operating system is not able to handle the specified number of clients, \
                     try with {most}"
                ));
            }
            if really {
                session.shared.settings.max_clients.store(count, Ordering::Relaxed);
            }
            Ok(())
        }),
    },
    Parameter {
        name: "maxmemory",
        get: |session| session.shared.settings.max_memory_bytes.load(Ordering::Relaxed).to_string(),
        set: Some(|session, value, really| {
            let bytes = memory_value(value).ok_or(NO_MEMORY_VALUE)?;
            if really {
                session.shared.settings.max_memory_bytes.store(bytes, Ordering::Relaxed);
                session.engine().feeds().set_memory_max(bytes);
            }
            Ok(())
        }),
    },
    memory!("maxmemory-clients", buffers_limit_bytes),
    Parameter {
        name: "maxmemory-policy",
        get: |_| "noeviction".to_owned(),
        set: Some(|_, value, _| {
            let fits = value.eq_ignore_ascii_case("noeviction");
            let why = "argument(s) must be one of the following: noeviction";
            if fits { Ok(()) } else { Err(why.to_owned()) }
        }),
    },
    fixed("port", |session| session.shared.port.to_string()),
    constant!("proto-max-bulk-len", "536870912"),
    Parameter {
        name: "requirepass",
        // Only a hash is kept, which is nobody's password.
        get: |_| String::new(),
        set: Some(|session, value, really| {
            let password = (!value.is_empty()).then(|| users::hash(value.as_bytes()));
            if really {
                session.shared.users.set_default_password(password);
            }
            Ok(())
        }),
    },
    constant!("save", ""),
    number!("slowlog-log-slower-than", slow_micros, -1..=i64::MAX),
    Parameter {
        name: "slowlog-max-len",
        get: |session| session.shared.settings.slowlog_len.load(Ordering::Relaxed).to_string(),
        set: Some(|session, value, really| {
            let len = whole(value, 0..=i64::MAX)?.min(SLOWLOG_LEN_MAX) as usize;
            if really {
                session.shared.settings.slowlog_len.store(len, Ordering::Relaxed);
                session.shared.slowlog.shorten(len);
            }
            Ok(())
        }),
    },
    number!("tcp-keepalive", keepalive_seconds, 0..=i32::MAX.into()),
    number!("timeout", idle_seconds, 0..=i32::MAX.into()),
    fixed("tls-port", |session| {
        let tls = session.shared.options.tls.as_ref().and_then(|tls| tls.listen.first());
        tls.map_or(0, std::net::SocketAddr::port).to_string()
    }),
    fixed("unixsocket", |session| {
        let socket = session.shared.options.unix_socket.as_ref();
        socket.map_or_else(String::new, |socket| socket.path.display().to_string())
    }),
    fixed("unixsocketperm", |session| {
        let socket = session.shared.options.unix_socket.as_ref();
        socket.map_or_else(|| "0".to_owned(), |socket| format!("{:o}", socket.permissions))
    }),
    // Kept for those who set them on connecting: there is one form of sorted sets here.
    number!("zset-max-listpack-entries", small_set_len, 0..=i64::MAX),
    memory!("zset-max-listpack-value", small_set_member_bytes),
    number!("zset-max-ziplist-entries", small_set_len, 0..=i64::MAX),
    memory!("zset-max-ziplist-value", small_set_member_bytes),
];

/// More entries would be a memory leak by another name.
const SLOWLOG_LEN_MAX: i64 = 100_000;

fn only(allowed: &str, value: &str) -> Result<(), String> {
    if value == allowed { Ok(()) } else { Err(format!("here it can only be '{allowed}'")) }
}

fn whole(text: &str, range: std::ops::RangeInclusive<i64>) -> Result<i64, String> {
    let value: i64 =
        text.parse().map_err(|_| "argument couldn't be parsed into an integer".to_owned())?;
    if range.contains(&value) {
        return Ok(value);
    }
    let (least, most) = range.into_inner();
    Err(format!("argument must be between {least} and {most} inclusive"))
}

/// Bytes, with Redis's units: `k m g` are powers of 1000, `kb mb gb` of 1024.
pub(super) fn memory_value(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor).filter(|bytes| *bytes <= i64::MAX as u64)
}

fn output_limits(settings: &Settings) -> String {
    let shown = |name: &str, limit: &OutputLimit| {
        let load = |bytes: &AtomicUsize| bytes.load(Ordering::Relaxed);
        let seconds = limit.soft_seconds.load(Ordering::Relaxed);
        format!("{name} {} {} {seconds}", load(&limit.hard_bytes), load(&limit.soft_bytes))
    };
    // There are no replicas; a monitor that reads the three by place finds them all the same.
    let (normal, pubsub) = (&settings.normal_output, &settings.pubsub_output);
    format!("{} slave 0 0 0 {}", shown("normal", normal), shown("pubsub", pubsub))
}

fn set_output_limits(session: &Session, value: &str, really: bool) -> Result<(), String> {
    let words: Vec<&str> = value.split_whitespace().collect();
    if words.is_empty() || !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".to_owned());
    }
    let settings = &session.shared.settings;
    for limit in words.chunks_exact(4) {
        let class = match limit[0].to_ascii_lowercase().as_str() {
            "normal" => Some(&settings.normal_output),
            "pubsub" => Some(&settings.pubsub_output),
            "slave" | "replica" => None,
            _ => return Err("Invalid client class specified in buffer limit configuration.".into()),
        };
        let values = (memory_value(limit[1]), memory_value(limit[2]), limit[3].parse::<u64>());
        let (Some(hard), Some(soft), Ok(seconds)) = values else {
            let why = "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
            return Err(why.to_owned());
        };
        if let (Some(class), true) = (class, really) {
            let store =
                |into: &AtomicUsize, bytes: u64| into.store(bytes as usize, Ordering::Relaxed);
            store(&class.hard_bytes, hard);
            store(&class.soft_bytes, soft);
            let into: &AtomicU64 = &class.soft_seconds;
            into.store(seconds, Ordering::Relaxed);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_written_with_the_units_of_redis() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("100b", Some(100)),
            ("1k", Some(1000)),
            ("1KB", Some(1024)),
            ("2m", Some(2_000_000)),
            ("2mb", Some(2 << 20)),
            ("3gb", Some(3 << 30)),
            ("", None),
            ("mb", None),
            ("1.5gb", None),
            ("-1", None),
            ("99999999999999999999", None),
            ("9223372036854775807gb", None),
        ] {
            assert_eq!(memory_value(text), bytes, "{text}");
        }
    }

    #[test]
    fn parameters_stand_in_order_and_once() {
        assert!(PARAMETERS.is_sorted_by(|one, other| one.name < other.name));
    }
}
