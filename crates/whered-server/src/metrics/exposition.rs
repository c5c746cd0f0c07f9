//! The older text format of Prometheus (0.0.4), made from the OpenMetrics text.
//!
//! Not for: the metrics themselves. The samples are the same in both formats; what differs is the
//! names and types in the comments, and the end.
//!
//! Source: the exposition formats in Prometheus's documentation, OpenMetrics 1.0.0.

use std::fmt::Write as _;

/// Writes OpenMetrics text as text of format 0.0.4.
///
/// A counter's name there ends in `_total`, as its samples do. An info is a gauge whose name ends in
/// `_info`. Neither units nor an end are written.
pub(crate) fn to_version_0_0_4(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    // The help stands before the type, which says how the metric is called.
    let mut help = None;
    for line in open_metrics.lines() {
        let mut words = line.splitn(4, ' ');
        let head = (words.next(), words.next(), words.next(), words.next());
        match head {
            (Some("#"), Some("HELP"), Some(name), Some(words)) => help = Some((name, words)),
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                let (suffix, kind) = match kind {
                    "counter" => ("_total", "counter"),
                    "info" => ("_info", "gauge"),
                    "unknown" => ("", "untyped"),
                    kind => ("", kind),
                };
                if let Some((_, words)) = help.take().filter(|(of, _)| *of == name) {
                    let _ = writeln!(text, "# HELP {name}{suffix} {words}");
                }
                let _ = writeln!(text, "# TYPE {name}{suffix} {kind}");
            }
            (Some("#"), ..) => {}
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_types_are_those_of_the_older_format_and_samples_stay() {
        let open_metrics = "# HELP w_build The version.\n# TYPE w_build info\n\
                            w_build_info{version=\"1\"} 1\n\
                            # HELP w_calls Calls.\n# TYPE w_calls counter\n# UNIT w_calls calls\n\
                            w_calls_total{of=\"a b # c\"} 2\n# TYPE w_open gauge\nw_open 3\n# EOF\n";
        let expected = "# HELP w_build_info The version.\n# TYPE w_build_info gauge\n\
                        w_build_info{version=\"1\"} 1\n\
                        # HELP w_calls_total Calls.\n# TYPE w_calls_total counter\n\
                        w_calls_total{of=\"a b # c\"} 2\n# TYPE w_open gauge\nw_open 3\n";
        assert_eq!(to_version_0_0_4(open_metrics), expected);
    }
}
