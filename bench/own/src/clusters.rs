//! Points in clusters, as people are: metropolitan areas, towns, regions, and some anywhere; each
//! is a function of its number.
//!
//! For: collections that are measured. Not for: anything that is to look like a map.
//! Cost: some trigonometry a point; make them before the clock runs.

use whered_geo::Place;

/// The place of a point.
pub(crate) fn place(number: u64) -> Place {
    let fraction = |salt: u64| random(salt, number) as f64 / 2f64.powi(64);
    let around = |center: u64, reach_degrees: f64, power: f64| {
        let at = |salt: u64| random(salt, center) as f64 / 2f64.powi(64);
        let distance = fraction(1).powf(power) * reach_degrees;
        let angle = fraction(2) * std::f64::consts::TAU;
        on_globe(
            at(3) * 340.0 - 170.0 + distance * angle.cos(),
            at(4) * 110.0 - 50.0 + distance * angle.sin(),
        )
    };
    match random(5, number) % 100 {
        0..55 => around(random(6, number) % 100, 0.8, 2.0),
        55..83 => around(100 + (20_000f64.powf(fraction(8)) as u64), 0.1, 1.5),
        83..95 => around(40_000 + random(6, number) % 50, 8.0, 0.5),
        _ => on_globe(fraction(1) * 360.0 - 180.0, fraction(2) * 170.0 - 85.0),
    }
}

fn on_globe(longitude_degrees: f64, latitude_degrees: f64) -> Place {
    Place { longitude_degrees, latitude_degrees: latitude_degrees.clamp(-85.0, 85.0) }
}

/// A place at most 200 m away.
pub(crate) fn beside(place: Place, random: u64) -> Place {
    let offset = |bits: u64| (bits & 0xffff) as f64 / 65_536.0 * 0.0025 - 0.00125;
    let longitude_degrees = (place.longitude_degrees + offset(random)).clamp(-180.0, 180.0);
    on_globe(longitude_degrees, place.latitude_degrees + offset(random >> 16))
}

/// A number that looks random (SplitMix64's finish).
pub(crate) fn random(salt: u64, index: u64) -> u64 {
    let mut mixed = (index ^ (salt << 48)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
