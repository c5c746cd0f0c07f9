//! `[log]`: what the server writes of itself, and how.
//!
//! Not for: writing it (the program does), the DNS query log (`[dns]`).

use super::error::ConfigError;
use super::section::{Keys, Section};

pub(super) const LOG: Keys = Keys { title: "[log]", allowed: &["level", "format"], later: &[] };

/// How the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogConfig {
    /// The least that is written.
    pub level: LogLevel,
    /// What a line looks like.
    pub format: LogFormat,
}

/// From which level on lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What needs somebody.
    Error,
    /// What may need somebody.
    Warn,
    /// What has happened.
    #[default]
    Info,
    /// What helps to find a fault.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    const ALL: [LogLevel; 6] = [
        LogLevel::Off,
        LogLevel::Error,
        LogLevel::Warn,
        LogLevel::Info,
        LogLevel::Debug,
        LogLevel::Trace,
    ];

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            LogLevel::Off => "off",
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
            LogLevel::Trace => "trace",
        }
    }
}

/// What a line looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Reads `[log]`.
pub(super) fn read_log(top: &Section<'_>, config: &mut LogConfig) -> Result<(), ConfigError> {
    let Some(section) = top.table("log", &LOG)? else {
        return Ok(());
    };
    if let Some(level) = section.text("level")? {
        let known = LogLevel::ALL.into_iter().find(|known| known.name() == level.value);
        config.level = known.ok_or_else(|| {
            let names = LogLevel::ALL.map(LogLevel::name).join(", ");
            section.refuse(&level.span, "level", &format!("is '{}'", level.value), &names)
        })?;
    }
    if let Some(format) = section.text("format")? {
        config.format = match format.value {
            "text" => LogFormat::Text,
            "json" => LogFormat::Json,
            other => {
                let found = format!("is '{other}'");
                return Err(section.refuse(&format.span, "format", &found, "text, json"));
            }
        };
    }
    Ok(())
}
