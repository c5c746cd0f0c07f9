//! What the tests of all formats look at: everything that a scan said, as text, from the quick
//! scanner and from its twin, which must agree.

use crate::{Events, Mapping, Record, UploadError, Value};

/// All that was handed out.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Seen {
    pub(crate) text: String,
    /// Members of records, and an empty one for each record that was rejected for its member.
    pub(crate) members: Vec<String>,
}

impl Events for Seen {
    fn record(&mut self, record: &Record<'_>) {
        let show = |text: &[u8]| std::str::from_utf8(text).expect("texts are UTF-8").to_owned();
        let member = show(record.member);
        let mut line = format!("{} {member}", record.offset_bytes);
        if let Some(place) = record.place {
            line += &format!(" ({} {})", place.longitude_degrees, place.latitude_degrees);
        }
        if let Some(time) = record.time_millis {
            line += &format!(" @{time}");
        }
        for field in record.fields {
            line += &match field {
                Value::Absent => " [-]".to_owned(),
                Value::Integer(value) => format!(" {value}"),
                Value::Number(value) => format!(" {value:?}"),
                Value::Text(text) => format!(" [{}]", show(text)),
            };
        }
        for item in record.items {
            line += &format!(" {}x{}", item.count, show(item.key));
        }
        self.text += &line;
        self.text.push('\n');
        self.members.push(member);
    }

    fn reject(&mut self, offset_bytes: u64, reason: &str) {
        assert!(!reason.contains('\n'), "{reason:?}");
        if reason.starts_with("member is") {
            self.members.push(String::new());
        }
        self.text += &format!("{offset_bytes} reject: {reason}\n");
    }
}

/// The result of the quick scan.
pub(crate) fn seen(mapping: &Mapping, upload: &[u8]) -> Seen {
    let mut seen = Seen::default();
    let result = mapping.scan(upload, &mut seen);
    finish(&mut seen, result, upload);
    seen
}

fn finish(seen: &mut Seen, result: Result<crate::Totals, UploadError>, upload: &[u8]) {
    match result {
        Ok(totals) => {
            let lines = seen.text.matches(" reject: ").count() as u64;
            assert!(totals.rejected <= lines && totals.records <= seen.members.len() as u64);
        }
        Err(error) => {
            // In UTF-8 an upload is at most three times as long.
            assert!(error.offset_bytes() <= 3 * upload.len() as u64, "{error}");
            assert!(!error.message().contains('\n'), "{error}");
            seen.text += &format!("end: {error}\n");
        }
    }
}

/// The result of both scans.
#[track_caller]
pub(crate) fn both(mapping: &Mapping, upload: &[u8]) -> String {
    let quick = seen(mapping, upload);
    let mut slow = Seen::default();
    let result = mapping.scan_by_library(upload, &mut slow);
    finish(&mut slow, result, upload);
    assert_eq!(quick, slow, "the quick scan and its twin differ");
    quick.text
}

/// Why an upload is refused before it is kept.
#[track_caller]
pub(crate) fn check_error(mapping: &Mapping, upload: &[u8]) -> String {
    mapping.check(upload).expect_err("refused").to_string()
}
