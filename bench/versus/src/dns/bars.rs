//! The bars of issue 7 with what was measured, as the head of the record.
//!
//! Not for measuring. A bar over several mixes states its worst one.

use std::borrow::Borrow;
use std::fmt::Write;

use serde_json::Value;
use whered_bench::dns::rounds::Figures;
use whered_bench::dns::{Mix, Shape, UNSIGNED};
use whered_bench::measure::RecordKind;

/// The record of DNS beside rivals.
pub(crate) const RECORD: RecordKind = RecordKind { suite: "dns", bars: to_markdown };

/// One zone and mix with all servers.
struct Compared {
    zone: String,
    mix: String,
    figures: Vec<Figures>,
}

impl Compared {
    /// The figures of a section; none for one that compares no servers over a mix.
    fn read(section: &Value) -> Option<Compared> {
        let word = |name: &str| Some(section[name].as_str()?.to_owned());
        let figures = section["servers"].as_array()?.iter().map(figures).collect::<Option<_>>()?;
        Some(Compared { zone: word("zone")?, mix: word("mix")?, figures })
    }

    fn of(&self, name: &str) -> Option<&Figures> {
        self.figures.iter().find(|figures| figures.name == name)
    }
}

fn figures(server: &Value) -> Option<Figures> {
    let rounds = |name: &str| -> Option<Vec<f64>> {
        server[name].as_array()?.iter().map(Value::as_f64).collect()
    };
    Some(Figures {
        name: server["server"].as_str()?.to_owned(),
        cpu: rounds("cpu_rounds")?,
        per_second: rounds("rate_rounds")?,
        reply_bytes: server["reply_bytes"].as_f64()?,
        lost: server["lost"].as_u64()?,
        wrong: 0,
    })
}

/// The table of bars, by the figures of all sections.
fn to_markdown(sections: &[&Value]) -> String {
    let compared: Vec<Compared> =
        sections.iter().filter_map(|section| Compared::read(section)).collect();
    let of = |shape: Shape| move |one: &Compared| one.zone == shape.name();
    let (lists, compared): (Vec<_>, Vec<_>) = compared.into_iter().partition(of(Shape::Blocklist));
    let (places, compared): (Vec<_>, Vec<_>) = compared.into_iter().partition(of(Shape::Geo));
    let is_signed = |one: &Compared| one.of(UNSIGNED).is_some();
    let (signed, compared): (Vec<_>, Vec<_>) = compared.into_iter().partition(is_signed);
    let mut text =
        String::from("| bar | at least | reach for | measured |\n| --- | --- | --- | --- |\n");
    let mut line = |bar: &str, owed: &str, reach: &str, found: Option<String>| {
        let found = found.unwrap_or_else(|| "not measured".to_owned());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {bar} | {owed} | {reach} | {found} |");
    };
    for (shape, owed, reach) in [(Shape::Small, "8", "15"), (Shape::Large, "2.5", "4")] {
        let bar = format!("without the network, M/s, {}", shape.name());
        line(&bar, owed, reach, without_network(sections, shape));
    }
    line(
        "queries/s against the echo, the worst mix",
        "0.90",
        "0.95",
        worst(&compared, None, |own, one| own.rate_ratio(one), "echo", "x", true),
    );
    line(
        "DNSBL answers from 500,000 members against the echo",
        "0.88",
        "0.92",
        worst(&lists, None, |own, one| own.rate_ratio(one), "echo", "x", true),
    );
    for (shape, owed, reach) in
        [(Shape::Small, "150", "gdnsd's + 20"), (Shape::Large, "450", "350")]
    {
        line(
            &format!("CPU above the echo, ns, {}", shape.name()),
            owed,
            reach,
            worst(&compared, Some(shape), |own, one| own.above(one), "echo", " ns", false),
        );
    }
    line("CPU above a plain answer with ECS, by place, ns", "300", "150", above_plain(&places));
    for rival in ["gdnsd", "pdns"] {
        let (owed, reach) = if rival == "gdnsd" { ("0.9", "1.0") } else { ("-", "-") };
        line(
            &format!("CPU per query against {rival}, by place"),
            owed,
            reach,
            worst(&chosen(&places), None, |own, one| own.cpu_ratio(one), rival, "x", true),
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
            worst(&compared, Some(shape), |own, one| own.cpu_ratio(one), rival, "x", true),
        );
    }
    for (shape, owed, reach) in
        [(Shape::SignedSmall, "1.15", "1.05"), (Shape::SignedGeo, "1.15", "1.05")]
    {
        line(
            &format!("signed against unsigned, CPU, {}", shape.name()),
            owed,
            reach,
            worst(&signed, Some(shape), |own, one| one.cpu_ratio(own), UNSIGNED, "x", false),
        );
    }
    for (rival, shape, owed, reach) in [
        ("knot", Shape::SignedLarge, "1.2", "1.5"),
        ("nsd", Shape::SignedLarge, "1.2", "1.5"),
        ("knot", Shape::SignedGeo, "1", "1.5"),
        ("pdns", Shape::SignedGeo, "1", "4"),
    ] {
        line(
            &format!("CPU per query against {rival}, {}", shape.name()),
            owed,
            reach,
            worst(&signed, Some(shape), |own, one| own.cpu_ratio(one), rival, "x", true),
        );
    }
    line("batched receiving against one per event", "15 % less CPU", "20 %", batched(sections));
    line("two threads against one, CPU", "1.05x", "-", threads(sections));
    line("p99 on a second socket at half load, 32 a call", "2x", "-", turns(sections));
    line("lost during reloads", "0", "-", reloads(sections));
    text
}

/// Those with a choice.
fn chosen(places: &[Compared]) -> Vec<&Compared> {
    places.iter().filter(|one| one.mix != Mix::Hit.name()).collect()
}

/// What a choice costs beside a plain answer to a question with the same option.
fn above_plain(places: &[Compared]) -> Option<String> {
    let above = |one: &Compared| Some(one.of("whered")?.above(one.of("echo")?));
    let plain = above(places.iter().find(|one| one.mix == Mix::Hit.name())?)?;
    let each = chosen(places).into_iter().filter_map(|one| {
        let more = above(one)? - plain;
        Some(format!("{more:.0} ({})", one.mix))
    });
    Some(each.collect::<Vec<_>>().join(", "))
}

/// The worst of all mixes: the least where more is better.
fn worst(
    compared: &[impl Borrow<Compared>],
    shape: Option<Shape>,
    measure: impl Fn(&Figures, &Figures) -> f64,
    against: &str,
    unit: &str,
    more_is_better: bool,
) -> Option<String> {
    let wanted = compared.iter().map(Borrow::borrow);
    let wanted = wanted.filter(|one| shape.is_none_or(|shape| shape.name() == one.zone));
    let found = wanted.filter_map(|one| {
        let value = measure(one.of("whered")?, one.of(against)?);
        Some((value, format!("{}, {}", one.zone, one.mix)))
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

fn of_kind<'a>(sections: &[&'a Value], key: &str) -> Vec<&'a Value> {
    sections.iter().filter_map(|section| section.get(key)).collect()
}

fn without_network(sections: &[&Value], shape: Shape) -> Option<String> {
    let lines = of_kind(sections, "lines").into_iter().filter_map(Value::as_array).flatten();
    let rates: Vec<String> = lines
        .filter(|line| line["zone"] == shape.name())
        .filter_map(|line| {
            let rate = 1e3 / line["cpu_nanoseconds"].as_f64()?;
            Some(format!("{rate:.1} ({})", line["mix"].as_str()?))
        })
        .collect();
    (!rates.is_empty()).then(|| rates.join(", "))
}

fn turns(sections: &[&Value]) -> Option<String> {
    let ways = of_kind(sections, "turns").into_iter().find_map(Value::as_array)?;
    let way = ways.iter().find(|way| way["way"] == "many 32")?;
    let [alone, half, flooded] = ["alone", "half_load", "flooded"]
        .map(|load| way[format!("{load}_micros")][1].as_f64().unwrap_or(f64::NAN));
    Some(format!(
        "{:.1}x ({alone:.0} us alone, {half:.0}, {flooded:.0} when flooded)",
        half / alone
    ))
}

fn batched(all: &[&Value]) -> Option<String> {
    let parts: Vec<String> = of_kind(all, "ways")
        .iter()
        .filter_map(|ways| {
            let many = ways.as_array()?.iter().find(|way| way["way"] == "many 32")?;
            Some(format!("{:.1} % less", 100.0 * (1.0 - many["cpu_to_one"].as_f64()?)))
        })
        .collect();
    (!parts.is_empty()).then(|| format!("{} (the echo, then whered)", parts.join(", ")))
}

fn threads(all: &[&Value]) -> Option<String> {
    let servers = of_kind(all, "servers");
    let two = servers.iter().filter_map(|servers| servers.as_array()).find_map(|servers| {
        let of = |name: &str| servers.iter().find(|server| server["server"] == name);
        Some((of("1 threads")?["cpu_nanoseconds"].as_f64()?, of("2 threads")?))
    });
    let (one, two) = two?;
    Some(format!("{:.3}x", two["cpu_nanoseconds"].as_f64()? / one))
}

fn reloads(all: &[&Value]) -> Option<String> {
    let zones = of_kind(all, "zones");
    let lines = zones.first()?.as_array()?.iter().map(|zone| {
        format!("{} of {} ({})", zone["lost"], zone["asked"], zone["zone"].as_str().unwrap_or(""))
    });
    Some(lines.collect::<Vec<_>>().join("; "))
}
