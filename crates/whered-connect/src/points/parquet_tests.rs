//! Tests of what a Parquet file says of its points.

use super::*;

use std::path::Path;
use std::sync::Arc;

use arrow_array::{BinaryArray, Float64Array, StringArray, StructArray};
use arrow_schema::Field;
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;

use super::super::read_parquet;
use super::super::sink::Target;

const WKB: &str = r#"{"version":"1.1.0","primary_column":"geometry","columns":{"geometry":
    {"encoding":"WKB","geometry_types":["Point"]}}}"#;

/// A file of forty points and one row without any.
fn written(geometry: ArrayRef, geo: Option<String>) -> Vec<u8> {
    let names: ArrayRef =
        Arc::new((0..41).map(|row| Some(format!("p{row}"))).collect::<StringArray>());
    let batch = RecordBatch::try_from_iter([("id", names), ("geometry", geometry)]).unwrap();
    let mut out = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut out, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    if let Some(geo) = geo {
        writer.append_key_value_metadata(KeyValue::new("geo".to_owned(), geo));
    }
    writer.close().unwrap();
    out
}

fn place(row: usize) -> (f64, f64) {
    (row as f64 / 7.0, -(row as f64) / 9.0)
}

fn as_wkb() -> ArrayRef {
    let rows: Vec<Option<Vec<u8>>> = (0..41)
        .map(|row| {
            let (x, y) = place(row);
            let bytes = [&[1, 1, 0, 0, 0][..], &x.to_le_bytes(), &y.to_le_bytes()].concat();
            (row < 40).then_some(bytes)
        })
        .collect();
    Arc::new(BinaryArray::from_iter(rows))
}

fn as_struct() -> ArrayRef {
    let axis = |of: fn((f64, f64)) -> f64| -> ArrayRef {
        let values = (0..41).map(|row| (row < 40).then(|| of(place(row))));
        Arc::new(values.collect::<Float64Array>())
    };
    let field = |name: &str| Arc::new(Field::new(name, DataType::Float64, true));
    let (x, y) = (axis(|place| place.0), axis(|place| place.1));
    Arc::new(StructArray::from(vec![(field("x"), x), (field("y"), y)]))
}

/// How many points were read and how many rows were bad, or the line that says why not.
fn run(path: &Path, bytes: &[u8]) -> Result<(u64, u64), String> {
    std::fs::write(path, bytes).unwrap();
    let options = LoadOptions { path: path.to_owned(), ..LoadOptions::default() };
    let mut points = Vec::new();
    let mut on_point = |x: f64, y: f64, member: &[u8]| points.push((x, y, member.to_vec()));
    let target = Target::Closure(&mut on_point);
    let mut on_bad = |line: &str| assert!(!line.contains('\n'), "{line}");
    let loaded = read_parquet(target, &options, &mut on_bad, &mut |_| {});
    let loaded = loaded.map_err(|error| error.to_string())?;
    for (row, (x, y, member)) in points.into_iter().enumerate().filter(|_| loaded.bad == 1) {
        if member == format!("p{row}").into_bytes() && (x, y) != place(row) {
            return Err(format!("row {row} is at {x} {y}"));
        }
    }
    Ok((loaded.written, loaded.bad))
}

#[test]
fn a_file_cut_at_any_byte_or_with_any_byte_changed_is_one_line_and_never_a_panic() {
    let path = std::env::temp_dir().join(format!("whered-points-{}", std::process::id()));
    let native = WKB.replace("\"WKB\"", "\"point\"");
    for whole in [
        written(as_wkb(), Some(WKB.to_owned())),
        written(as_struct(), Some(native)),
        written(as_wkb(), None),
    ] {
        assert_eq!(run(&path, &whole), Ok((40, 1)));
        for size in 1..whole.len() {
            let line = run(&path, &whole[..size]).expect_err("half a file");
            assert!(!line.contains('\n') && line.contains("; allowed: "), "{line}");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x55;
            if let Err(line) = run(&path, &changed) {
                assert!(!line.contains('\n'), "{line}");
            }
        }
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn only_a_longitude_and_a_latitude_of_wgs_84_is_a_place() {
    let of = |text: &str| check_crs(Some(&serde_json::from_str(text).unwrap()));
    assert_eq!(check_crs(None), Ok(()));
    assert_eq!(of(r#"{"id":{"authority":"OGC","code":"CRS84"}}"#), Ok(()));
    assert_eq!(of(r#"{"id":{"authority":"EPSG","code":4326}}"#), Ok(()));
    for (crs, part) in [
        ("null", "has an unknown CRS (null)"),
        (r#"{"name":"Web","id":{"authority":"EPSG","code":3857}}"#, "EPSG:3857 ('Web')"),
        (r#"{"id":{"authority":"OGC","code":"CRS83"}}"#, "OGC:CRS83"),
        (r#"{"name":"mine"}"#, "the CRS 'mine' without an identifier"),
        ("7", "without an identifier"),
    ] {
        let error = of(crs).unwrap_err();
        assert!(
            error.contains(part) && error.ends_with("allowed: OGC:CRS84, EPSG:4326"),
            "{error}"
        );
    }
}
