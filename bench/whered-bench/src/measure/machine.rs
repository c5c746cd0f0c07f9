//! What a record must say about the machine, so that somebody else can judge the figures.
//!
//! Not for choosing code paths. Read from `/proc` and `/sys` where they are; what is not there is
//! stated as `unknown`.

use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// A machine's description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// The processor's model name.
    pub processor: String,
    /// How many processors the system has.
    pub processors: usize,
    /// Levels and sizes, such as `L1 Data 32K`.
    pub caches: Vec<String>,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// The kernel's release.
    pub kernel: String,
    /// Transparent huge pages: the chosen word of the kernel's list.
    pub huge_pages: String,
}

impl Machine {
    /// This machine.
    #[must_use]
    pub fn this() -> Machine {
        let processors = read("/proc/cpuinfo");
        let memory = read("/proc/meminfo");
        let kib = field(&memory, "MemTotal").and_then(|text| text.split(' ').next()?.parse().ok());
        let kernel = read("/proc/sys/kernel/osrelease");
        let huge_pages = read("/sys/kernel/mm/transparent_hugepage/enabled");
        Machine {
            processor: known(field(&processors, "model name")),
            processors: count(&processors),
            caches: caches(Path::new("/sys/devices/system/cpu/cpu0/cache")),
            memory_mib: kib.unwrap_or(0) / 1024,
            kernel: known(Some(kernel.trim()).filter(|text| !text.is_empty())),
            huge_pages: known(chosen(&huge_pages)),
        }
    }

    /// A short name for file names: letters and digits of the processor's model.
    #[must_use]
    pub fn short_name(&self) -> String {
        let words = self.processor.split(|letter: char| !letter.is_ascii_alphanumeric());
        let name = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
        format!("{}-{}", name.to_lowercase(), self.processors)
    }

    /// The description as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "processor": self.processor,
            "processors": self.processors,
            "caches": self.caches,
            "memory_mib": self.memory_mib,
            "kernel": self.kernel,
            "transparent_huge_pages": self.huge_pages,
        })
    }

    /// The description as one line of text.
    #[must_use]
    pub fn to_line(&self) -> String {
        format!(
            "{} x {}, {}, {} MiB, kernel {}, transparent huge pages: {}",
            self.processors,
            self.processor,
            self.caches.join(", "),
            self.memory_mib,
            self.kernel,
            self.huge_pages
        )
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn known(text: Option<&str>) -> String {
    text.unwrap_or("unknown").to_owned()
}

/// Not those that this thread is held to: all of the machine.
fn count(processors: &str) -> usize {
    processors.lines().filter(|line| line.starts_with("processor")).count().max(1)
}

/// The first `name : value` line's value.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, value) = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(found, _)| found.trim() == name)?;
    Some(value.trim())
}

/// The word in brackets of `always [madvise] never`.
fn chosen(text: &str) -> Option<&str> {
    Some(text.split_once('[')?.1.split_once(']')?.0)
}

fn caches(folder: &Path) -> Vec<String> {
    let part = |index: usize, name: &str| {
        let path = folder.join(format!("index{index}")).join(name);
        fs::read_to_string(path).map(|text| text.trim().to_owned()).ok()
    };
    (0..8)
        .map_while(|index| {
            let (level, kind) = (part(index, "level")?, part(index, "type")?);
            Some(format!("L{level} {kind} {}", part(index, "size")?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_read() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 3.1 GHz\nmodel name\t: Other\n";
        assert_eq!(field(cpuinfo, "model name"), Some("Some CPU @ 3.1 GHz"));
        assert_eq!(field(cpuinfo, "flags"), None);
        assert_eq!(count(cpuinfo), 1);
        assert_eq!(chosen("always [madvise] never\n"), Some("madvise"));
        assert_eq!(chosen("no list"), None);
    }

    #[test]
    fn a_short_name_fits_into_a_file_name() {
        let mut machine = Machine::this();
        machine.processor = "AMD EPYC (test) @ 3.1".to_owned();
        machine.processors = 2;
        assert_eq!(machine.short_name(), "amd-epyc-test-3-1-2");
    }
}
