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
    /// The widest vectors: `avx512`, `avx2`, `neon` or `scalar`.
    pub simd: &'static str,
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
            simd: simd(&processors),
            processors: count(&processors),
            caches: caches(Path::new("/sys/devices/system/cpu/cpu0/cache")),
            memory_mib: kib.unwrap_or(0) / 1024,
            kernel: known(Some(kernel.trim()).filter(|text| !text.is_empty())),
            huge_pages: known(chosen(&huge_pages)),
        }
    }

    /// The machine's folder in the results: vendor and model, SIMD level, processors.
    #[must_use]
    pub fn folder_name(&self) -> String {
        let words = self.processor.split(|letter: char| !letter.is_ascii_alphanumeric());
        let words = words.map(str::to_ascii_lowercase);
        let is_name = |word: &String| !matches!(&**word, "" | "r" | "tm" | "cpu" | "processor");
        let name: Vec<String> = words.filter(is_name).take(2).collect();
        format!("{}-{}-{}", name.join("-"), self.simd, self.processors)
    }

    /// The description as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "processor": self.processor,
            "simd": self.simd,
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

/// x86 lists what a processor can do as `flags`, Arm as `Features`.
fn simd(processors: &str) -> &'static str {
    let flags = field(processors, "flags").or_else(|| field(processors, "Features"));
    let has = |name: &str| flags.is_some_and(|flags| flags.split(' ').any(|flag| flag == name));
    match () {
        () if has("avx512f") => "avx512",
        () if has("avx2") => "avx2",
        () if has("asimd") => "neon",
        () => "scalar",
    }
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
    fn a_folder_name_has_vendor_simd_level_and_processors() {
        let mut machine = Machine::this();
        machine.processors = 2;
        machine.simd = "avx512";
        for (processor, name) in [
            ("AMD EPYC 7763 64-Core Processor", "amd-epyc-avx512-2"),
            ("Intel(R) Xeon(R) Processor @ 3.1", "intel-xeon-avx512-2"),
        ] {
            machine.processor = processor.to_owned();
            assert_eq!(machine.folder_name(), name);
        }
        assert_eq!(simd("flags\t\t: fpu avx avx2\n"), "avx2");
        assert_eq!(simd("Features\t: fp asimd\n"), "neon");
        assert_eq!(simd(""), "scalar");
    }
}
