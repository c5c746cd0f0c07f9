//! A chart of cost against size, both axes logarithmic, written as SVG by hand.
//!
//! Not for: anything but lines over powers of two and ten. The colours have enough contrast on
//! white, and every line has its name at its end, so that nobody needs to tell them by colour.

use std::fmt::Write;

/// A line of a chart.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name, written at its end.
    pub name: String,
    /// Size and cost, both above zero.
    pub points: Vec<(f64, f64)>,
    /// A rival's: drawn with dashes.
    pub is_rival: bool,
}

/// One chart beside others.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What it shows.
    pub title: String,
    /// What the sizes are.
    pub across: String,
    /// The lines.
    pub series: Vec<Series>,
}

const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 50.0;
const COLOURS: [&str; 8] =
    ["#1b5e9b", "#b3382c", "#2e7d32", "#7b3fa0", "#9a6200", "#00727a", "#a0306d", "#4a4a4a"];

/// A logarithmic axis.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn place(&self, value: f64) -> f64 {
        let share = (value / self.low).ln() / (self.high / self.low).ln();
        self.from + (self.to - self.from) * share
    }
}

/// Panels side by side.
#[must_use]
pub fn to_svg(title: &str, panels: &[Panel]) -> String {
    let width = WIDTH * panels.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<title>{}</title>\n\
         <rect width=\"{width}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n",
        escaped(title)
    );
    for (place, panel) in panels.iter().enumerate() {
        let _ = writeln!(out, "<g transform=\"translate({} 0)\">", WIDTH * place as f64);
        draw(&mut out, panel);
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}

fn draw(out: &mut String, panel: &Panel) {
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"24\" font-size=\"14\" font-weight=\"bold\">{}</text>",
        escaped(&panel.title)
    );
    let points = || panel.series.iter().flat_map(|series| &series.points);
    let least = |one: fn(&(f64, f64)) -> f64| points().map(one).fold(f64::MAX, f64::min);
    let most = |one: fn(&(f64, f64)) -> f64| points().map(one).fold(0.0, f64::max);
    if points().next().is_none() {
        return;
    }
    let across = Axis {
        low: least(|point| point.0),
        high: most(|point| point.0).max(least(|point| point.0) * 2.0),
        from: LEFT,
        to: WIDTH - RIGHT,
    };
    let up = Axis {
        low: 10f64.powf(least(|point| point.1).log10().floor()),
        high: 10f64.powf((most(|point| point.1) * 1.01).log10().ceil()),
        from: HEIGHT - BOTTOM,
        to: TOP,
    };
    grid(out, &across, &up, &panel.across);
    let mut ends: Vec<f64> = Vec::new();
    for (place, series) in panel.series.iter().enumerate() {
        line(out, series, COLOURS[place % COLOURS.len()], &across, &up, &mut ends);
    }
}

fn grid(out: &mut String, across: &Axis, up: &Axis, name: &str) {
    let mut cost = up.low;
    while cost <= up.high * 1.001 {
        let y = up.place(cost);
        let label = match cost {
            cost if cost < 1000.0 => format!("{cost} ns"),
            cost if cost < 1e6 => format!("{} µs", cost / 1e3),
            cost => format!("{} ms", cost / 1e6),
        };
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT} {y:.1}H{:.1}\" stroke=\"#dddddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            across.to,
            LEFT - 6.0,
            y + 4.0
        );
        cost *= 10.0;
    }
    let mut size = across.low;
    while size <= across.high * 1.001 {
        let x = across.place(size);
        let y = up.from;
        let _ = writeln!(
            out,
            "<path d=\"M{x:.1} {y:.1}v5\" stroke=\"#888888\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{size}</text>",
            y + 18.0
        );
        size *= 4.0;
    }
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
        (across.from + across.to) / 2.0,
        HEIGHT - 12.0,
        escaped(name)
    );
}

fn line(
    out: &mut String,
    series: &Series,
    colour: &str,
    across: &Axis,
    up: &Axis,
    ends: &mut Vec<f64>,
) {
    let Some(&(last, cost)) = series.points.last() else { return };
    let dashes = if series.is_rival { " stroke-dasharray=\"5 3\"" } else { "" };
    let mut path = String::new();
    for (place, (size, cost)) in series.points.iter().enumerate() {
        let letter = if place == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{letter}{:.1} {:.1}", across.place(*size), up.place(*cost));
    }
    let _ = writeln!(
        out,
        "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>"
    );
    // A name moves away from the others that end near by: the nearest free place, up or down.
    let wanted = up.place(cost) + 4.0;
    let is_free =
        |y: f64| (TOP..HEIGHT).contains(&y) && ends.iter().all(|end| (end - y).abs() > 11.5);
    let mut places =
        (0..40).flat_map(|step| [wanted + 6.0 * f64::from(step), wanted - 6.0 * f64::from(step)]);
    let y = places.find(|y| is_free(*y)).unwrap_or(wanted);
    ends.push(y);
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{y:.1}\" fill=\"{colour}\">{}</text>",
        across.place(last) + 6.0,
        escaped(&series.name)
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_drawn_and_named_once() {
        let series = |name: &str, cost: f64| Series {
            name: name.to_owned(),
            points: vec![(16.0, cost), (16_384.0, cost * 3.0)],
            is_rival: name.starts_with('r'),
        };
        let mut list =
            vec![series("ours", 3.0), series("rival <1>", 3.1), series("rival 2", 40_000.0)];
        // Many that end at one place are moved apart, or written over each other in the end.
        list.extend((0..90).map(|_| series("ours", 3.0)));
        let panel = Panel { title: "a & b".to_owned(), across: "rules".to_owned(), series: list };
        let svg = to_svg("both", &[panel.clone(), Panel { series: Vec::new(), ..panel }]);
        assert_eq!(svg.matches("stroke-width=\"2\"").count(), 93);
        assert_eq!(svg.matches("stroke-dasharray").count(), 2);
        assert_eq!(svg.matches("rival &lt;1&gt;").count(), 1);
        assert!(svg.contains("a &amp; b") && svg.contains(">16384<") && !svg.contains("NaN"));
    }
}
