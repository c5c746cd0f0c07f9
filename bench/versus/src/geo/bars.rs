//! The bars: which ratio is wanted of which class.
//!
//! Not for measuring. A ratio says how many times as much the rival takes.

use whered_bench::geo::{ALL_MOVED, HELD_VIEW, Report};
use whered_bench::measure::{median, median_of_ratios};

/// What two rows are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// The rival's processor time for a command, divided by ours.
    Cpu,
    /// The rival's median latency, divided by ours.
    Median,
}

/// One bar against Redis.
pub(crate) struct Bar {
    /// What it is about, in words.
    pub(crate) measure: &'static str,
    /// The class.
    pub(crate) class: &'static str,
    /// What is compared.
    pub(crate) by: By,
    /// The ratio that must be.
    pub(crate) at_least: f64,
    /// The ratio that would be good.
    pub(crate) reach_for: Option<f64>,
}

const fn bar(
    measure: &'static str,
    class: &'static str,
    by: By,
    at_least: f64,
    reach_for: Option<f64>,
) -> Bar {
    Bar { measure, class, by, at_least, reach_for }
}

#[rustfmt::skip]
pub(crate) const BARS: &[Bar] = &[
    bar("BYRADIUS 200 km, 8 clients", "radius-200km/8x1", By::Cpu, 50.0, Some(100.0)),
    bar("BYRADIUS 200 km, 8 clients, p50", "radius-200km/8x1", By::Median, 25.0, None),
    bar("BYRADIUS 200 km, one client", "radius-200km/1x1", By::Cpu, 50.0, Some(100.0)),
    bar("BYBOX 200 200 km, 8 clients", "box-200km/8x1", By::Cpu, 130.0, Some(240.0)),
    bar("BYBOX 200 200 km, one client", "box-200km/1x1", By::Cpu, 130.0, Some(240.0)),
    bar("nearest 10 within 5 km, dense, pipeline 16", "nearest-5km-dense/8x16", By::Cpu, 1500.0, Some(3300.0)),
    bar("nearest 10 within 5 km, dense, unpipelined", "nearest-5km-dense/1x1", By::Cpu, 400.0, Some(650.0)),
    bar("nearest 10 within 1 km, dense, pipeline 16", "nearest-1km-dense/8x16", By::Cpu, 80.0, Some(120.0)),
    bar("nearest 10 within 1 km, thin, pipeline 16", "nearest-1km-thin/8x16", By::Cpu, 2.5, Some(3.0)),
    bar("nearest 10 within 5 km, thin, pipeline 16", "nearest-5km-thin/8x16", By::Cpu, 20.0, Some(30.0)),
    bar("nearest 10 within 1 km, sparse, pipeline 16", "nearest-1km-sparse/8x16", By::Cpu, 2.5, Some(3.0)),
    bar("nearest 10 within 5 km, sparse, pipeline 16", "nearest-5km-sparse/8x16", By::Cpu, 20.0, Some(30.0)),
    bar("GEODIST, same pair, pipeline 10, 200 clients", "geodist-same/200x10", By::Cpu, 1.4, Some(1.7)),
    bar("GEODIST, random pairs, pipeline 10", "geodist-random/200x10", By::Cpu, 1.6, Some(2.5)),
    bar("GEODIST, random pairs, pipeline 100", "geodist-random/200x100", By::Cpu, 4.0, Some(6.0)),
    bar("GEOPOS, pipeline 10", "geopos/200x10", By::Cpu, 1.4, Some(1.7)),
    bar("GEOHASH, pipeline 10", "geohash/200x10", By::Cpu, 1.4, Some(1.7)),
    bar("moves up to 200 m, pipeline 16", "moves-200m/8x16", By::Cpu, 2.3, Some(3.3)),
    bar("moves to anywhere, pipeline 16", "moves-anywhere/8x16", By::Cpu, 3.5, Some(6.0)),
    bar("moves, up to 10 M points, everysec on both sides", "everysec/moves-200m/8x16", By::Cpu, 2.0, Some(3.0)),
];

/// A bar with what was measured.
pub(crate) struct Judged {
    pub(crate) measure: String,
    pub(crate) measured: Option<f64>,
    pub(crate) wanted: String,
    pub(crate) reach_for: String,
    pub(crate) verdict: &'static str,
}

/// Holds a run against all bars.
pub(crate) fn judge(report: &Report, ours: &str, rival: &str) -> Vec<Judged> {
    let against_rival = BARS.iter().map(|bar| {
        let rows = report.row(bar.class, ours).zip(report.row(bar.class, rival));
        let ratio = rows.map(|(own, theirs)| match bar.by {
            By::Cpu => median_of_ratios(&own.cpu_nanoseconds, &theirs.cpu_nanoseconds),
            By::Median => {
                let middle = theirs.latencies.quantile_nanoseconds(0.5);
                middle / own.latencies.quantile_nanoseconds(0.5)
            }
        });
        at_least(bar.measure, ratio, bar.at_least, bar.reach_for)
    });
    against_rival.chain(own_bars(report, ours, rival)).collect()
}

/// Those about loading, memory, threads and growth.
fn own_bars(report: &Report, ours: &str, rival: &str) -> Vec<Judged> {
    let load_cost = |server| Some(report.load("load", server)?.loaded.cpu_nanoseconds_per_point);
    let loading = load_cost(ours).zip(load_cost(rival)).map(|(own, theirs)| theirs / own);
    let bytes = |what| Some(report.load(what, ours)?.bytes_per_point());
    let cost = |class: &str| Some(median(&report.row(class, ours)?.cpu_nanoseconds));
    let classes = ["nearest-5km-dense/8x16", "geodist-random/200x10", "moves-200m/8x16"];
    let shares = classes
        .iter()
        .filter_map(|class| Some(cost(class)? / cost(&format!("two-threads/{class}"))?));
    let nearest = cost("nearest-5km-dense/8x16").zip(cost("fewer-points/nearest-5km-dense/8x16"));
    let rate = |kind: &str| {
        let row = format!("two-threads/beside-search/{kind}/moves-200m/1x16");
        Some(median(&report.row(&row, ours)?.per_second))
    };
    let beside = rate("with-search").zip(rate("alone")).map(|(with, alone)| with / alone);
    let held = |class: &str| {
        let theirs = median(&report.row(class, rival)?.cpu_nanoseconds);
        Some(theirs / cost(&format!("{HELD_VIEW}/{class}"))?)
    };
    let held = held("moves-200m/8x16").zip(held("moves-anywhere/8x16"));
    vec![
        at_least("bulk load, 100 points a command, pipeline 10", loading, 4.0, Some(8.0)),
        at_most("bytes a point after inserts in random order", bytes("load"), 40.0, 33.0),
        at_most("bytes a point after every point has moved", bytes(ALL_MOVED), 44.0, 36.0),
        at_least(
            "two threads: operations per CPU-second, of one's",
            shares.reduce(f64::min),
            0.9,
            None,
        ),
        at_most(
            "nearest 10: cost against a million points (at most a tenth)",
            nearest.map(|(all, few)| all / few),
            2.0,
            1.5,
        ),
        at_least(
            "two threads: moves while the other searches, of their rate alone (with the driver on one core)",
            beside,
            0.5,
            None,
        ),
        at_least(
            "moves while a frozen view is held and copied from, beside its moves alone; the lesser ratio",
            held.map(|(near, anywhere)| near.min(anywhere)),
            1.2,
            Some(1.8),
        ),
    ]
}

fn at_least(measure: &str, measured: Option<f64>, wanted: f64, reach_for: Option<f64>) -> Judged {
    // A class that was not measured in any round has no number.
    let measured = measured.filter(|value| value.is_finite());
    let verdict = match (measured, reach_for) {
        (None, _) => "not measured",
        (Some(value), _) if value < wanted => "below the bar",
        (Some(value), Some(reach_for)) if value >= reach_for => "reached",
        _ => "met",
    };
    let reach_for = reach_for.map_or("-".to_owned(), |value| format!("{value}"));
    Judged {
        measure: measure.to_owned(),
        measured,
        wanted: format!(">= {wanted}"),
        reach_for,
        verdict,
    }
}

fn at_most(measure: &str, measured: Option<f64>, wanted: f64, reach_for: f64) -> Judged {
    let verdict = match measured {
        None => "not measured",
        Some(value) if value > wanted => "above the bar",
        Some(value) if value <= reach_for => "reached",
        _ => "met",
    };
    let reach_for = format!("{reach_for}");
    Judged {
        measure: measure.to_owned(),
        measured,
        wanted: format!("<= {wanted}"),
        reach_for,
        verdict,
    }
}
