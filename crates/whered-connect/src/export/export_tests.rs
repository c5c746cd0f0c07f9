//! Files are read back by the libraries that others read them with, and compared with their rows.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMillisecondType};
use arrow_array::{Array, RecordBatch};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

use super::*;
use crate::rows::{Column, Kind, OwnedCell, Schema};

fn schema() -> Schema {
    let column = |name: &str, kind| Column { name: name.to_owned(), kind };
    Schema {
        name: "positions".to_owned(),
        key: vec![column("member", Kind::Text), column("position", Kind::Integer)],
        values: vec![
            column("longitude", Kind::Number),
            column("latitude", Kind::Number),
            column("last_seen", Kind::Time),
        ],
    }
}

fn row(number: i64) -> Vec<OwnedCell> {
    let is_empty = number % 7 == 3;
    let or_absent = |cell| if is_empty { OwnedCell::Absent } else { cell };
    vec![
        OwnedCell::Text(format!("member {number}, \"quoted\"").into_bytes()),
        OwnedCell::Integer(number),
        or_absent(OwnedCell::Number(number as f64 / 1_000.0 - 10.0)),
        or_absent(OwnedCell::Number(50.0 - number as f64 / 2_000.0)),
        or_absent(OwnedCell::Time(1_700_000_000_000 + number)),
    ]
}

/// So many rows in a file of that format.
fn file(format: FileFormat, rows: i64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut columns = Columns::new(&schema(), false);
    let mut file = File::begin(format, &columns, &mut out).expect("memory takes it");
    for number in 0..rows {
        columns.push(&row(number)).expect("is UTF-8");
        if columns.is_full() {
            file.write(&mut columns).expect("memory takes it");
        }
    }
    file.write(&mut columns).expect("memory takes it");
    file.end(&columns).expect("memory takes it");
    out
}

/// Compares batches with the rows that they were made of.
fn check(batches: &[RecordBatch], rows: i64) {
    let mut number = 0;
    for batch in batches {
        let texts = batch["member"].as_string::<i32>();
        let geometries = batch["geometry"].as_binary::<i32>();
        for place in 0..batch.num_rows() {
            let numbers = |name: &str| {
                let array = batch[name].as_primitive::<Float64Type>();
                if array.is_null(place) {
                    OwnedCell::Absent
                } else {
                    OwnedCell::Number(array.value(place))
                }
            };
            let times = batch["last_seen"].as_primitive::<TimestampMillisecondType>();
            let time = if times.is_null(place) {
                OwnedCell::Absent
            } else {
                OwnedCell::Time(times.value(place))
            };
            let found = vec![
                OwnedCell::Text(texts.value(place).as_bytes().to_vec()),
                OwnedCell::Integer(batch["position"].as_primitive::<Int64Type>().value(place)),
                numbers("longitude"),
                numbers("latitude"),
                time,
            ];
            assert_eq!(found, row(number));
            match (&found[2], &found[3]) {
                (OwnedCell::Number(longitude), OwnedCell::Number(latitude)) => {
                    let bytes = geometries.value(place);
                    assert_eq!(&bytes[..5], [1, 1, 0, 0, 0]);
                    assert_eq!(bytes[5..13], longitude.to_le_bytes());
                    assert_eq!(bytes[13..], latitude.to_le_bytes());
                }
                _ => assert!(geometries.is_null(place)),
            }
            number += 1;
        }
    }
    assert_eq!(number, rows);
}

#[test]
fn parquet_reads_back_with_the_metadata_of_geoparquet() {
    for rows in [0, 1, 40_000] {
        let bytes = bytes::Bytes::from(file(FileFormat::Parquet, rows));
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).expect("is Parquet");
        let metadata = reader.metadata().file_metadata().key_value_metadata().cloned();
        let geo = metadata.expect("there is some").into_iter().find(|entry| entry.key == "geo");
        let geo: Value =
            serde_json::from_str(&geo.expect("it is GeoParquet").value.expect("is text"))
                .expect("is JSON");
        assert_eq!(geo["version"], "1.1.0");
        assert_eq!(geo["columns"]["geometry"]["encoding"], "WKB");
        let bounds = &geo["columns"]["geometry"]["bbox"];
        match rows {
            0 => assert!(bounds.is_null()),
            1 => assert_eq!(*bounds, serde_json::json!([-10.0, 50.0, -10.0, 50.0])),
            _ => assert_eq!(
                *bounds,
                serde_json::json!([
                    -10.0,
                    50.0 - 39_999.0 / 2_000.0,
                    39_999.0 / 1_000.0 - 10.0,
                    50.0
                ])
            ),
        }
        let batches = reader.build().expect("is Parquet").collect::<Result<Vec<_>, _>>();
        check(&batches.expect("is whole"), rows);
    }
}

#[test]
fn arrow_reads_back_with_the_extension_of_geoarrow() {
    for rows in [0, 20_000] {
        let bytes = file(FileFormat::Arrow, rows);
        let reader = arrow_ipc::reader::FileReader::try_new(std::io::Cursor::new(bytes), None);
        let reader = reader.expect("is Arrow");
        let schema = reader.schema();
        let geometry = schema.field_with_name("geometry").expect("has places");
        assert_eq!(geometry.metadata()["ARROW:extension:name"], "geoarrow.wkb");
        let batches = reader.collect::<Result<Vec<_>, _>>();
        check(&batches.expect("is whole"), rows);
    }
}

#[test]
fn csv_reads_back() {
    let bytes = file(FileFormat::Csv, 10);
    let mut reader = csv::Reader::from_reader(&bytes[..]);
    let head: Vec<&str> = vec!["member", "position", "longitude", "latitude", "last_seen"];
    assert_eq!(reader.headers().expect("has a head"), head);
    let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("is a row")).collect();
    assert_eq!(rows.len(), 10);
    let first = ["member 0, \"quoted\"", "0", "-10", "50", "2023-11-14 22:13:20.000Z"];
    assert_eq!(rows[0], first[..]);
    assert_eq!(rows[3], ["member 3, \"quoted\"", "3", "", "", ""][..]);
}

#[test]
fn texts_that_are_not_utf_8_need_to_be_asked_for() {
    let mut odd = row(0);
    odd[0] = OwnedCell::Text(b"\xff".to_vec());
    let error = Columns::new(&schema(), false).push(&odd).expect_err("is not UTF-8").to_string();
    assert!(error.starts_with("column member: ") && error.contains("--binary"), "{error}");
    let mut columns = Columns::new(&schema(), true);
    columns.push(&odd).expect("bytes are allowed");
    assert_eq!(columns.take().expect("a row")["member"].as_binary::<i32>().value(0), b"\xff");
}
