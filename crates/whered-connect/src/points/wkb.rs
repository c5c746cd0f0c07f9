//! Points as well-known binary: WKB (OGC 06-103r4), and EWKB as PostGIS writes it.
//!
//! For: columns of GeoParquet, and the hexadecimal digits in which databases print a geometry. Not
//! for other shapes, which are refused by name.
//!
//! ```text
//! | order 1 | kind u32 | SRID u32, if the kind says so | x f64 | y f64 | z, m f64 |
//! kind = 1 + 1000 for z + 2000 for m, or 1 with bits: 2^31 z, 2^30 m, 2^29 SRID
//! ```

const HAS_Z: u32 = 1 << 31;
const HAS_M: u32 = 1 << 30;
const HAS_SRID: u32 = 1 << 29;
const SHAPES: [&str; 17] = [
    "POINT",
    "LINESTRING",
    "POLYGON",
    "MULTIPOINT",
    "MULTILINESTRING",
    "MULTIPOLYGON",
    "GEOMETRYCOLLECTION",
    "CIRCULARSTRING",
    "COMPOUNDCURVE",
    "CURVEPOLYGON",
    "MULTICURVE",
    "MULTISURFACE",
    "CURVE",
    "SURFACE",
    "POLYHEDRALSURFACE",
    "TIN",
    "TRIANGLE",
];

/// The fault of a coordinate reference system that is not WGS 84.
pub(super) fn wrong_system(srid: &str) -> String {
    format!("its geometry has SRID {srid}; allowed: 4326 (WGS 84)")
}

/// Longitude and latitude of a point.
pub(super) fn point(bytes: &[u8]) -> Result<(f64, f64), String> {
    let cut = || format!("its geometry of {} bytes is no point in WKB", bytes.len());
    let (order, rest) = bytes.split_first().ok_or_else(cut)?;
    let is_little = match order {
        0 => false,
        1 => true,
        _ => return Err(cut()),
    };
    let number = |bytes: &[u8; 4]| {
        if is_little { u32::from_le_bytes(*bytes) } else { u32::from_be_bytes(*bytes) }
    };
    let (kind, mut rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
    let kind = number(kind);
    if kind & HAS_SRID != 0 {
        let (srid, behind) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
        rest = behind;
        if number(srid) != 4326 {
            return Err(wrong_system(&number(srid).to_string()));
        }
    }
    let base = kind & !(HAS_Z | HAS_M | HAS_SRID);
    let (shape, dimensions) = (base % 1000, base / 1000);
    if shape != 1 || dimensions > 3 {
        let shape = (shape as usize).checked_sub(1).and_then(|index| SHAPES.get(index));
        return Err(match shape.filter(|_| dimensions <= 3) {
            Some(shape) => format!("its geometry is a {shape}; allowed: POINT"),
            None => format!("its geometry is of kind {kind} of WKB; allowed: POINT"),
        });
    }
    let has_z = kind & HAS_Z != 0 || matches!(dimensions, 1 | 3);
    let has_m = kind & HAS_M != 0 || matches!(dimensions, 2 | 3);
    let count = 2 + usize::from(has_z) + usize::from(has_m);
    let (numbers, behind) = rest.as_chunks::<8>();
    if numbers.len() != count || !behind.is_empty() {
        return Err(cut());
    }
    let coordinate = |index: usize| {
        let bytes = numbers.get(index).copied().unwrap_or_default();
        if is_little { f64::from_le_bytes(bytes) } else { f64::from_be_bytes(bytes) }
    };
    let (longitude, latitude) = (coordinate(0), coordinate(1));
    if longitude.is_nan() && latitude.is_nan() {
        return Err("its geometry is an empty POINT; allowed: a POINT with a place".to_owned());
    }
    Ok((longitude, latitude))
}

/// Whether a text is a geometry in hexadecimal digits, by its first ones.
pub(super) fn is_hex(text: &[u8]) -> bool {
    text.len() >= 10
        && (text.starts_with(b"00") || text.starts_with(b"01"))
        && text.iter().all(u8::is_ascii_hexdigit)
}

/// As [`point`], of hexadecimal digits.
pub(super) fn point_of_hex(text: &[u8]) -> Result<(f64, f64), String> {
    let digit =
        |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |pair: &[u8; 2]| Some(digit(&pair[0])? << 4 | digit(&pair[1])?);
    let (pairs, behind) = text.as_chunks::<2>();
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    let bytes = bytes.filter(|_| behind.is_empty());
    point(&bytes.ok_or("its geometry is no whole number of bytes in hexadecimal digits")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A point by hand.
    fn written(is_little: bool, kind: u32, srid: Option<u32>, numbers: &[f64]) -> Vec<u8> {
        let word = |word: u32| if is_little { word.to_le_bytes() } else { word.to_be_bytes() };
        let mut bytes = vec![u8::from(is_little)];
        bytes.extend(word(kind));
        bytes.extend(srid.into_iter().flat_map(word));
        for number in numbers {
            bytes.extend(if is_little { number.to_le_bytes() } else { number.to_be_bytes() });
        }
        bytes
    }

    #[test]
    fn points_of_both_byte_orders_and_all_dimensions_are_read() {
        for is_little in [false, true] {
            for (kind, srid, numbers) in [
                (1, None, &[8.68, 50.11][..]),
                (1001, None, &[8.68, 50.11, 1.0]),
                (2001, None, &[8.68, 50.11, 1.0]),
                (3001, None, &[8.68, 50.11, 1.0, 2.0]),
                (1 | HAS_Z, None, &[8.68, 50.11, 1.0]),
                (1 | HAS_Z | HAS_M, None, &[8.68, 50.11, 1.0, 2.0]),
                (1 | HAS_SRID, Some(4326), &[8.68, 50.11]),
                (1 | HAS_SRID | HAS_Z, Some(4326), &[8.68, 50.11, 3.0]),
            ] {
                let whole = written(is_little, kind, srid, numbers);
                assert_eq!(point(&whole), Ok((8.68, 50.11)), "{kind}");
                let hex: String = whole.iter().map(|byte| format!("{byte:02X}")).collect();
                assert_eq!(point_of_hex(hex.as_bytes()), Ok((8.68, 50.11)));
                assert!(is_hex(hex.as_bytes()));
                for end in 0..whole.len() {
                    assert!(point(&whole[..end]).is_err(), "{kind} cut at {end}");
                }
                for end in 0..hex.len() {
                    assert!(point_of_hex(&hex.as_bytes()[..end]).is_err(), "{kind} cut at {end}");
                }
                assert!(point(&[&whole[..], &[0]].concat()).is_err(), "a byte too many");
            }
        }
    }

    #[test]
    fn other_shapes_systems_and_empty_points_are_refused_by_name() {
        for (bytes, part) in [
            (written(true, 1 | HAS_SRID, Some(3857), &[1.0, 2.0]), "has SRID 3857; allowed: 4326"),
            (written(true, 1, None, &[f64::NAN, f64::NAN]), "is an empty POINT"),
            (written(true, 2, None, &[]), "is a LINESTRING; allowed: POINT"),
            (written(false, 1003, None, &[]), "is a POLYGON; allowed: POINT"),
            (written(true, 99, None, &[]), "is of kind 99 of WKB"),
            (written(true, 4001, None, &[1.0, 2.0]), "is of kind 4001 of WKB"),
            (vec![7; 21], "is no point in WKB"),
        ] {
            let error = point(&bytes).expect_err("no point");
            assert!(error.contains(part), "{error}");
        }
    }
}
