//! Results of made-up suites.

use serde_json::json;

use super::*;

pub(crate) fn result(machine: &str, json: &Value) -> SuiteResult {
    parse("s", machine, "bench/results/s/m/2026-01-01.json", json)
}

#[test]
fn of_two_engines_with_one_bar_the_better_counts() {
    let bar = |ratio: f64, verdict: &str| json!({"measure": "a", "ratio": ratio, "at_least": 5.0, "verdict": verdict});
    let found = result("m", &json!({"bars": [bar(6.0, "met"), bar(4.0, "below the bar")]}));
    assert_eq!(found.range("a"), Some((6.0, 6.0)));
    let wanted = ">= 5.0".to_owned();
    assert_eq!(found.bars, [Bar { measure: "a".to_owned(), wanted, is_missed: false }]);
}

#[test]
fn bars_of_each_form_are_read() {
    let found = result(
        "m",
        &json!({"bars": [
            {"measure": "a", "measured": 1.0, "wanted": "<= 2", "verdict": "met"},
            {"measure": "b", "measured": 3.0, "owed": 2.0, "at_most": true, "verdict": "missed"},
            {"measure": "c", "measured": null, "wanted": "<= 2", "verdict": "not measured"},
        ]}),
    );
    let bars: Vec<(&str, &str, bool)> =
        found.bars.iter().map(|bar| (&*bar.measure, &*bar.wanted, bar.is_missed)).collect();
    assert_eq!(bars, [("a", "<= 2", false), ("b", "<= 2.0", true)]);
}

#[test]
fn a_quotient_is_the_median_over_rounds() {
    let rows = json!([{"engine": "x", "ns": [4.0, 9.0, 100.0]}, {"engine": "y", "ns": [2.0, 3.0, 1.0]},
                      {"engine": "z", "ns": [2.0]}]);
    let found = result("m", &json!({"tables": [{"set": "t", "rows": rows}]}));
    assert_eq!(found.quotient("t x", "t y"), Some(3.0));
    assert_eq!(found.quotient("t x", "t z"), Some(4.5));
    assert_eq!(found.quotient("t x", "t w"), None);
}

#[test]
fn sections_rows_loads_and_measures_have_names() {
    let found = result(
        "m",
        &json!({
            "sections": [{"title": "T", "rows": [["", "by"], ["r", "3.5x"], ["q", "-"]],
                          "figures": {"servers": [{"server": "v", "cpu_rounds": [1.0]}]}}],
            "rows": [{"class": "c", "server": "v", "per_second": 7.0, "batch_p50_nanoseconds": 2e6}],
            "loads": [{"what": "load", "server": "v", "bytes_per_point": 37.0}],
            "measures": [{"name": "n", "values": [2.0, 1.0], "wanted": ">= 2", "verdict": "below the bar"}],
        }),
    );
    assert_eq!(found.range("T: r: by"), Some((3.5, 3.5)));
    assert_eq!(found.range("T: q: by"), None);
    assert_eq!(found.range("T: v"), Some((1.0, 1.0)));
    assert_eq!(found.range("c v a second"), Some((7.0, 7.0)));
    assert_eq!(found.range("c v p50"), Some((2.0, 2.0)));
    assert_eq!(found.range("load v bytes"), Some((37.0, 37.0)));
    assert_eq!(found.range("n"), Some((1.0, 2.0)));
    assert!(found.bars[0].is_missed);
}
