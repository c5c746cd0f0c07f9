//! The bars of issue 7 with what was measured, as the head of the record.
//!
//! Not for measuring. A bar over several mixes states its worst one.

use std::fmt::Write;

use serde_json::Value;
use whered_bench::dns::rounds::Figures;
use whered_bench::dns::{Mix, Report, Shape};

/// One zone and mix with all servers; the first is the echo.
pub(crate) struct Compared {
    pub(crate) shape: Shape,
    pub(crate) mix: Mix,
    pub(crate) figures: Vec<Figures>,
}

impl Compared {
    fn of(&self, name: &str) -> Option<&Figures> {
        self.figures.iter().find(|figures| figures.name == name)
    }
}

/// The table of bars.
pub(crate) fn to_markdown(report: &Report, compared: &[Compared]) -> String {
    let mut text =
        String::from("| bar | at least | reach for | measured |\n| --- | --- | --- | --- |\n");
    let mut line = |bar: &str, owed: &str, reach: &str, found: Option<String>| {
        let found = found.unwrap_or_else(|| "not measured".to_owned());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {bar} | {owed} | {reach} | {found} |");
    };
    line(
        "queries/s against the echo, the worst mix",
        "0.90",
        "0.95",
        worst(compared, None, |own, one| own.rate_ratio(one), "echo", "x", true),
    );
    for (shape, owed, reach) in
        [(Shape::Small, "150", "gdnsd's + 20"), (Shape::Large, "450", "350")]
    {
        line(
            &format!("CPU above the echo, ns, {}", shape.name()),
            owed,
            reach,
            worst(compared, Some(shape), |own, one| own.above(one), "echo", " ns", false),
        );
    }
    let rivals = [
        ("gdnsd", Shape::Small, "0.98", "1.0"),
        ("gdnsd", Shape::Large, "1.0", "1.1"),
        ("nsd", Shape::Large, "1.35", "1.45"),
        ("knot", Shape::Large, "1.45", "1.6"),
        ("bind", Shape::Large, "-", "-"),
        ("pdns", Shape::Large, "-", "-"),
    ];
    for (rival, shape, owed, reach) in rivals {
        line(
            &format!("CPU per query against {rival}, {}", shape.name()),
            owed,
            reach,
            worst(compared, Some(shape), |own, one| own.cpu_ratio(one), rival, "x", true),
        );
    }
    line("batched receiving against one per event", "15 % less CPU", "20 %", batched(report));
    line("two threads against one, CPU", "1.05x", "-", threads(report));
    line("lost during reloads", "0", "-", reloads(report));
    text
}

/// The worst of all mixes: the least where more is better.
fn worst(
    compared: &[Compared],
    shape: Option<Shape>,
    measure: impl Fn(&Figures, &Figures) -> f64,
    against: &str,
    unit: &str,
    more_is_better: bool,
) -> Option<String> {
    let wanted = compared.iter().filter(|one| shape.is_none_or(|shape| shape == one.shape));
    let found = wanted.filter_map(|one| {
        let value = measure(one.of("whered")?, one.of(against)?);
        Some((value, format!("{}, {}", one.shape.name(), one.mix.name())))
    });
    let mut found: Vec<(f64, String)> = found.collect();
    found.sort_by(|one, other| one.0.total_cmp(&other.0));
    if !more_is_better {
        found.reverse();
    }
    let text = |value: f64| match unit {
        "x" => format!("{value:.3}x"),
        _ => format!("{value:.0}{unit}"),
    };
    let (value, place) = found.first()?;
    let others: Vec<_> = found.iter().skip(1).map(|(value, _)| text(*value)).collect();
    Some(format!("**{}** ({place}); others {}", text(*value), others.join(", ")))
}

fn sections<'a>(report: &'a Report, key: &str) -> Vec<&'a Value> {
    report.sections.iter().filter_map(|section| section.json.get(key)).collect()
}

fn batched(report: &Report) -> Option<String> {
    let parts: Vec<String> = sections(report, "ways")
        .iter()
        .filter_map(|ways| {
            let many = ways.as_array()?.iter().find(|way| way["way"] == "many 32")?;
            Some(format!("{:.1} % less", 100.0 * (1.0 - many["cpu_to_one"].as_f64()?)))
        })
        .collect();
    (!parts.is_empty()).then(|| format!("{} (the echo, then whered)", parts.join(", ")))
}

fn threads(report: &Report) -> Option<String> {
    let servers = sections(report, "servers");
    let two = servers.iter().filter_map(|servers| servers.as_array()).find_map(|servers| {
        let of = |name: &str| servers.iter().find(|server| server["server"] == name);
        Some((of("1 threads")?["cpu_nanoseconds"].as_f64()?, of("2 threads")?))
    });
    let (one, two) = two?;
    Some(format!("{:.3}x", two["cpu_nanoseconds"].as_f64()? / one))
}

fn reloads(report: &Report) -> Option<String> {
    let zones = sections(report, "zones");
    let lines = zones.first()?.as_array()?.iter().map(|zone| {
        format!("{} of {} ({})", zone["lost"], zone["asked"], zone["zone"].as_str().unwrap_or(""))
    });
    Some(lines.collect::<Vec<_>>().join("; "))
}
