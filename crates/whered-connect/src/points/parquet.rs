//! Points of Parquet files: GeoParquet's geometries, or columns of longitude and latitude.
//!
//! For: GeoParquet 1.0 and 1.1 with points as WKB or as a struct of x and y, the geometry types of
//! Parquet itself, and plain columns. Not for other shapes, and not for other coordinate reference
//! systems than OGC:CRS84 and EPSG:4326: both have the longitude as x here, as GeoParquet says.
//!
//! ```text
//! metadata "geo" ── primary column, encoding, CRS ─┐
//! names of columns ────────────────────────────────┴─> columns ── batches ──> sink
//! ```
//!
//! Only the columns that are needed are read. Memory: a batch and a page of each of them. A file is
//! needed, since its columns are listed at its end; the caller makes one of standard input.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema};
use parquet::basic::LogicalType;
use serde_json::Value;

use super::detect;
use super::sample::{Candidates, Position, Rows};
use super::sink::{Sink, Source};
use super::{Format, LoadOptions, Spot, names, wkb, wkt};
use crate::error::ConnectError;
use crate::parquet_files::ParquetFiles;

/// Whether a file is a Parquet file, by its name or by its first bytes.
pub(super) fn is_parquet(path: &Path) -> bool {
    let begins_so = || {
        // A pipe would lose its first bytes.
        let is_file = fs::metadata(path).is_ok_and(|about| about.is_file());
        let mut head = [0; 4];
        let mut read = || File::open(path).and_then(|mut file| file.read_exact(&mut head));
        is_file && read().is_ok() && [b"PAR1", b"PARE"].contains(&&head)
    };
    path != Path::new("-") && (detect::by_name(path) == Some(Format::Parquet) || begins_so())
}

/// The file as messages and the progress have it.
pub(super) fn source(options: &LoadOptions) -> Result<Source, ConnectError> {
    let name = name(options);
    let about = match &options.spooled {
        Some(file) => file.metadata(),
        None => fs::metadata(&options.path),
    };
    let about = about.map_err(|error| ConnectError::new(format!("{name}: {error}")))?;
    if !about.is_file() {
        let what = "Parquet is read from its end; allowed: a file, or - for standard input";
        return Err(ConnectError::new(format!("{name}: {what}")));
    }
    Ok(Source { name, read_bytes: Arc::default(), size_bytes: Some(about.len()) })
}

fn name(options: &LoadOptions) -> String {
    match options.spooled {
        Some(_) => "standard input".to_owned(),
        None => options.path.display().to_string(),
    }
}

/// Reads all rows into the sink; `read_bytes` grows with them.
pub(super) fn read(
    options: &LoadOptions,
    read_bytes: &AtomicU64,
    sink: &mut Sink<'_>,
) -> Result<(), ConnectError> {
    let path = &options.path;
    let name = name(options);
    let fault = |what: String| ConnectError::new(format!("{name}: {what}"));
    let spooled = options.spooled.as_ref().map(|file| file.try_clone()).transpose();
    let spooled = spooled.map_err(|error| fault(error.to_string()))?;
    let mut files =
        ParquetFiles::open(std::slice::from_ref(path), spooled).map_err(ConnectError::new)?;
    let columns = Columns::find(&files, options).map_err(fault)?;
    files.project(columns.indexes());
    let shown = |column: usize| format!("column '{}'", columns.name(column).escape_debug());
    let mut rows = Rows::new(columns.members(options).map_err(fault)?, shown);
    let size_bytes = source(options)?.size_bytes.unwrap_or(0);
    let row_count = files.row_count.max(1);
    let mut note = |row: u64| {
        let done = u128::from(size_bytes) * u128::from(row) / u128::from(row_count);
        read_bytes.store(u64::try_from(done).unwrap_or(size_bytes), Ordering::Relaxed);
    };
    let read = read_batches(&mut files, &columns, &mut rows, sink, &mut note, &fault);
    // What was read before a fault is good.
    rows.end(sink)?;
    read
}

fn read_batches(
    files: &mut ParquetFiles,
    columns: &Columns,
    rows: &mut Rows,
    sink: &mut Sink<'_>,
    note: &mut dyn FnMut(u64),
    fault: &dyn Fn(String) -> ConnectError,
) -> Result<(), ConnectError> {
    let mut row_number = 0_u64;
    while let Some(batch) = files.next_batch().map_err(ConnectError::new)? {
        let found = columns.of_batch(&batch).map_err(fault)?;
        for row in 0..batch.num_rows() {
            row_number += 1;
            let member = |column: usize| {
                let array = batch.column_by_name(columns.name(column));
                array.ok_or_else(|| "has no member".to_owned()).and_then(|array| text(array, row))
            };
            rows.take(Spot::Row(row_number), found.position(row), member, sink)?;
        }
        note(row_number);
    }
    Ok(())
}

/// How a column holds points.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Encoding {
    Wkb,
    Wkt,
    /// A struct of x and y.
    Native,
}

/// Where the place of a row is.
enum PositionColumns {
    Geometry { path: String, encoding: Encoding },
    Two { longitude: String, latitude: String },
}

struct Columns {
    schema: Schema,
    position: PositionColumns,
    /// The columns that may name the members.
    candidates: Vec<usize>,
}

impl Columns {
    /// By what the caller says, else by the metadata of GeoParquet, else by the usual names.
    fn find(files: &ParquetFiles, options: &LoadOptions) -> Result<Columns, String> {
        let schema = files.schema.as_ref().clone();
        let position = position_columns(files, options)?;
        let mut columns = Columns { schema, position, candidates: Vec::new() };
        columns.candidates = columns.members(options)?.columns;
        for column in &columns.candidates {
            let field = columns.schema.field(*column);
            if !is_text(field.data_type()) {
                let (name, found) = (field.name().escape_debug(), field.data_type());
                let allowed = "allowed for --member: text or whole numbers";
                return Err(format!("column '{name}' is of type {found}; {allowed}"));
            }
        }
        Ok(columns)
    }

    fn members(&self, options: &LoadOptions) -> Result<Candidates, String> {
        let fields = self.schema.fields();
        match &options.member {
            Some(asked) => Ok(Candidates::requested(column(&self.schema, asked, "member")?)),
            None => {
                // A column of another type cannot name members.
                let names = fields.iter().map(|field| match is_text(field.data_type()) {
                    true => field.name().as_str(),
                    false => "",
                });
                Candidates::of_names(names)
                    .ok_or_else(|| no_column(&self.schema, "member", "member"))
            }
        }
    }

    fn name(&self, column: usize) -> &str {
        self.schema.fields().get(column).map_or("", |field| field.name())
    }

    /// The columns that are read.
    fn indexes(&self) -> Vec<usize> {
        let paths = match &self.position {
            PositionColumns::Geometry { path, .. } => vec![path],
            PositionColumns::Two { longitude, latitude } => vec![longitude, latitude],
        };
        let of_paths = paths.into_iter().filter_map(|path| root(&self.schema, path));
        self.candidates.iter().copied().chain(of_paths).collect()
    }

    fn of_batch(&self, batch: &RecordBatch) -> Result<PositionArrays, String> {
        let array = |path: &str| {
            let found = descend(batch, path);
            found.ok_or_else(|| format!("column '{}' is not there", path.escape_debug()))
        };
        let number = |path: &str| {
            let array = array(path)?;
            match is_number(array.data_type()) {
                true => Ok(array),
                false => {
                    let (name, found) = (path.escape_debug(), array.data_type());
                    Err(format!("column '{name}' is of type {found}; allowed: numbers"))
                }
            }
        };
        Ok(match &self.position {
            PositionColumns::Two { longitude, latitude } => {
                PositionArrays::Two { longitude: number(longitude)?, latitude: number(latitude)? }
            }
            PositionColumns::Geometry { path, encoding: Encoding::Native } => {
                let whole = array(path)?;
                let axis = |axis: &str| {
                    let both = whole.as_struct_opt().and_then(|both| both.column_by_name(axis));
                    let both = both.filter(|array| is_number(array.data_type()));
                    both.cloned().ok_or_else(|| {
                        let name = path.escape_debug();
                        format!(
                            "column '{name}' has no number '{axis}'; allowed: points as x and y"
                        )
                    })
                };
                PositionArrays::Native { longitude: axis("x")?, latitude: axis("y")?, whole }
            }
            PositionColumns::Geometry { path, encoding } => {
                PositionArrays::Geometry(array(path)?, *encoding)
            }
        })
    }
}

/// The columns with the place.
fn position_columns(
    files: &ParquetFiles,
    options: &LoadOptions,
) -> Result<PositionColumns, String> {
    let schema = &files.schema;
    let LoadOptions { longitude, latitude, geometry, .. } = options;
    let geo = files.metadata.iter().find(|entry| entry.key == "geo");
    let geo = geo.and_then(|entry| entry.value.as_deref());
    let geo = geo.map(Geo::parse).transpose()?;
    if geometry.is_none() && (longitude.is_some() || latitude.is_some()) {
        let usual = || names::coordinates(field_names(schema));
        let of = |asked: &Option<String>, usual: Option<usize>, flag: &str| match asked {
            Some(asked) => path(schema, asked, flag),
            None => usual
                .map(|column| schema.field(column).name().clone())
                .ok_or_else(|| no_column(schema, flag, flag)),
        };
        return Ok(PositionColumns::Two {
            longitude: of(longitude, usual().map(|both| both.0), "longitude")?,
            latitude: of(latitude, usual().map(|both| both.1), "latitude")?,
        });
    }
    if let Some(asked) = geometry {
        let path = path(schema, asked, "geometry")?;
        return geometry_column(files, geo.as_ref(), path);
    }
    if let Some(geo) = &geo {
        return geometry_column(files, Some(geo), geo.primary_column.clone());
    }
    if let Some((longitude, latitude)) = names::coordinates(field_names(schema)) {
        let name = |column: usize| schema.field(column).name().clone();
        return Ok(PositionColumns::Two { longitude: name(longitude), latitude: name(latitude) });
    }
    let by_type = (0..schema.fields().len()).find(|column| logical_crs(files, *column).is_some());
    match by_type.or_else(|| names::geometry(field_names(schema))) {
        Some(column) => geometry_column(files, None, schema.field(column).name().clone()),
        None => Err(format!(
            "no column 'longitude'; there are: {}; allowed: --longitude and --latitude, or \
             --geometry",
            shown_names(schema)
        )),
    }
}

/// A column with geometries, whose encoding and CRS are those of the metadata or of its type.
fn geometry_column(
    files: &ParquetFiles,
    geo: Option<&Geo>,
    path: String,
) -> Result<PositionColumns, String> {
    let schema = &files.schema;
    let shown = path.escape_debug().to_string();
    let column = root(schema, &path).ok_or_else(|| no_column(schema, &path, "geometry"))?;
    if let Some(about) = geo.and_then(|geo| geo.column(&path)) {
        check_crs(about.get("crs")).map_err(|what| format!("column '{shown}' {what}"))?;
        let encoding = about.get("encoding").and_then(Value::as_str).unwrap_or("WKB");
        let encoding = match encoding {
            "WKB" => Encoding::Wkb,
            "point" => Encoding::Native,
            other => {
                let other = other.escape_debug();
                return Err(format!(
                    "column '{shown}' is encoded as '{other}'; allowed: WKB, point"
                ));
            }
        };
        return Ok(PositionColumns::Geometry { path, encoding });
    }
    if let Some(crs) = logical_crs(files, column) {
        let is_known = crs.is_none_or(|crs| {
            let of_json = serde_json::from_str::<Value>(crs).ok();
            matches!(crs, "OGC:CRS84" | "EPSG:4326" | "srid:4326")
                || of_json.is_some_and(|crs| check_crs(Some(&crs)).is_ok())
        });
        if !is_known {
            let crs: String = crs.unwrap_or_default().escape_debug().take(80).collect();
            return Err(format!(
                "column '{shown}' has the CRS {crs}; allowed: OGC:CRS84, EPSG:4326"
            ));
        }
        return Ok(PositionColumns::Geometry { path, encoding: Encoding::Wkb });
    }
    let found = find_type(schema, &path);
    let encoding = match found {
        Some(
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_),
        ) => Encoding::Wkb,
        Some(DataType::Struct(_)) => Encoding::Native,
        Some(found) if is_text(found) => Encoding::Wkt,
        found => {
            let found = found.map_or_else(String::new, ToString::to_string);
            let allowed = "allowed for a geometry: WKB, WKT, or a struct of x and y";
            return Err(format!("column '{shown}' is of type {found}; {allowed}"));
        }
    };
    Ok(PositionColumns::Geometry { path, encoding })
}

/// The CRS of a column of the geometry types of Parquet; nothing for other columns, and nothing
/// inside for the CRS that these types have by default, OGC:CRS84.
fn logical_crs(files: &ParquetFiles, column: usize) -> Option<Option<&str>> {
    let root = files.parquet_schema.as_ref()?.root_schema();
    match root.get_fields().get(column)?.get_basic_info().logical_type_ref()? {
        LogicalType::Geometry(kind) => Some(kind.crs.as_deref()),
        LogicalType::Geography(kind) => Some(kind.crs.as_deref()),
        _ => None,
    }
}

/// The metadata of GeoParquet.
struct Geo {
    primary_column: String,
    whole: Value,
}

impl Geo {
    fn parse(text: &str) -> Result<Geo, String> {
        let whole: Value = serde_json::from_str(text)
            .map_err(|error| format!("its metadata 'geo' is no JSON: {error}"))?;
        let primary_column = whole.get("primary_column").and_then(Value::as_str);
        let primary_column = primary_column.unwrap_or("geometry").to_owned();
        Ok(Geo { primary_column, whole })
    }

    fn column(&self, name: &str) -> Option<&Value> {
        self.whole.get("columns")?.get(name)
    }
}

/// Refuses a CRS, as PROJJSON, that is not a longitude and a latitude of WGS 84. Without one it is
/// OGC:CRS84.
fn check_crs(crs: Option<&Value>) -> Result<(), String> {
    const ALLOWED: &str = "allowed: OGC:CRS84, EPSG:4326";
    let Some(crs) = crs else { return Ok(()) };
    if crs.is_null() {
        return Err(format!("has an unknown CRS (null); {ALLOWED}"));
    }
    let id = crs.get("id");
    let authority = id.and_then(|id| id.get("authority")).and_then(Value::as_str).unwrap_or("");
    let code = match id.and_then(|id| id.get("code")) {
        Some(Value::String(code)) => code.clone(),
        Some(Value::Number(code)) => code.to_string(),
        _ => String::new(),
    };
    if matches!((authority, code.as_str()), ("OGC", "CRS84") | ("EPSG", "4326")) {
        return Ok(());
    }
    let name = crs.get("name").and_then(Value::as_str).unwrap_or("unnamed");
    let name: String = name.escape_debug().take(60).collect();
    match authority {
        "" => Err(format!("has the CRS '{name}' without an identifier; {ALLOWED}")),
        _ => Err(format!("has the CRS {authority}:{code} ('{name}'); {ALLOWED}")),
    }
}

fn field_names(schema: &Schema) -> impl Iterator<Item = &str> + Clone {
    schema.fields().iter().map(|field| field.name().as_str())
}

/// A column by its name or its number from 1.
fn column(schema: &Schema, asked: &str, flag: &str) -> Result<usize, String> {
    let by_number = || {
        let number: usize = asked.parse().ok()?;
        number.checked_sub(1).filter(|column| *column < schema.fields().len())
    };
    let found = schema.fields().iter().position(|field| field.name() == asked);
    found.or_else(by_number).ok_or_else(|| no_column(schema, asked, flag))
}

/// A column, or a dotted path into a struct, by its name; or a column by its number.
fn path(schema: &Schema, asked: &str, flag: &str) -> Result<String, String> {
    match find_type(schema, asked) {
        Some(_) => Ok(asked.to_owned()),
        None => column(schema, asked, flag).map(|column| schema.field(column).name().clone()),
    }
}

/// The type at a path.
fn find_type<'s>(schema: &'s Schema, path: &str) -> Option<&'s DataType> {
    if let Ok(field) = schema.field_with_name(path) {
        return Some(field.data_type());
    }
    let mut names = path.split('.');
    let first = schema.field_with_name(names.next()?).ok()?.data_type();
    names.try_fold(first, |found, name| match found {
        DataType::Struct(fields) => {
            fields.iter().find(|field| field.name() == name).map(|field| field.data_type())
        }
        _ => None,
    })
}

/// The column in which a path begins.
fn root(schema: &Schema, path: &str) -> Option<usize> {
    let first = path.split('.').next().unwrap_or_default();
    schema.index_of(path).or_else(|_| schema.index_of(first)).ok()
}

/// The values at a path.
fn descend(batch: &RecordBatch, path: &str) -> Option<ArrayRef> {
    if let Some(array) = batch.column_by_name(path) {
        return Some(array.clone());
    }
    let mut names = path.split('.');
    let first = batch.column_by_name(names.next()?)?.clone();
    names.try_fold(first, |array, name| array.as_struct_opt()?.column_by_name(name).cloned())
}

fn no_column(schema: &Schema, wanted: &str, flag: &str) -> String {
    let (wanted, names) = (wanted.escape_debug(), shown_names(schema));
    format!("no column '{wanted}'; there are: {names}; allowed: --{flag} NAME or NUMBER")
}

fn shown_names(schema: &Schema) -> String {
    let names: Vec<String> =
        field_names(schema).take(20).map(|name| name.escape_debug().to_string()).collect();
    names.join(", ")
}

/// The columns of a batch with the place.
enum PositionArrays {
    Geometry(ArrayRef, Encoding),
    Native { whole: ArrayRef, longitude: ArrayRef, latitude: ArrayRef },
    Two { longitude: ArrayRef, latitude: ArrayRef },
}

impl PositionArrays {
    fn position(&self, row: usize) -> Position {
        const NONE: &str = "has no geometry";
        match self {
            PositionArrays::Two { longitude, latitude } => {
                let longitude = number(longitude, row).ok_or("has no longitude")?;
                Ok((longitude, number(latitude, row).ok_or("has no latitude")?))
            }
            PositionArrays::Native { whole, longitude, latitude } => {
                if whole.is_null(row) {
                    return Err(NONE.to_owned());
                }
                let both = number(longitude, row).zip(number(latitude, row)).ok_or(NONE)?;
                if both.0.is_nan() && both.1.is_nan() {
                    let what = "its geometry is an empty POINT; allowed: a POINT with a place";
                    return Err(what.to_owned());
                }
                Ok(both)
            }
            PositionArrays::Geometry(array, Encoding::Wkt) => {
                let bytes = text(array, row).map_err(|_| NONE)?;
                wkt::point(&String::from_utf8_lossy(&bytes))
            }
            PositionArrays::Geometry(array, _) => {
                if array.is_null(row) {
                    return Err(NONE.to_owned());
                }
                let bytes = match array.data_type() {
                    DataType::Binary => array.as_binary::<i32>().value(row),
                    DataType::LargeBinary => array.as_binary::<i64>().value(row),
                    DataType::BinaryView => array.as_binary_view().value(row),
                    DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().value(row),
                    other => return Err(format!("its geometry is of type {other}; allowed: WKB")),
                };
                wkb::point(bytes)
            }
        }
    }
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(data_type, DataType::Float32 | DataType::Float64 | DataType::Decimal128(..))
        || is_text(data_type)
}

/// A number, or a text that reads as one.
fn number(array: &dyn Array, row: usize) -> Option<f64> {
    if array.is_null(row) {
        return None;
    }
    match array.data_type() {
        DataType::Float64 => Some(array.as_primitive::<Float64Type>().value(row)),
        DataType::Float32 => Some(f64::from(array.as_primitive::<Float32Type>().value(row))),
        DataType::Decimal128(_, scale) => {
            let digits = array.as_primitive::<Decimal128Type>().value(row);
            format!("{digits}e{}", -i32::from(*scale)).parse().ok()
        }
        _ => std::str::from_utf8(&text(array, row).ok()?).ok()?.trim().parse().ok(),
    }
}

/// Whether the values of a type can name members.
fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        other => other.is_integer(),
    }
}

/// A value as a text.
fn text(array: &dyn Array, row: usize) -> Result<Cow<'_, [u8]>, String> {
    let missing = || "has no member".to_owned();
    if array.is_null(row) {
        return Err(missing());
    }
    macro_rules! whole {
        ($kind:ty) => {
            Cow::Owned(array.as_primitive::<$kind>().value(row).to_string().into_bytes())
        };
    }
    Ok(match array.data_type() {
        DataType::Utf8 => Cow::Borrowed(array.as_string::<i32>().value(row).as_bytes()),
        DataType::LargeUtf8 => Cow::Borrowed(array.as_string::<i64>().value(row).as_bytes()),
        DataType::Utf8View => Cow::Borrowed(array.as_string_view().value(row).as_bytes()),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary_opt().ok_or_else(missing)?;
            let key = number(dictionary.keys(), row).ok_or_else(missing)?;
            // Keys are whole numbers below the count of values, as Arrow has checked.
            return text(dictionary.values(), key as usize);
        }
        DataType::Int8 => whole!(Int8Type),
        DataType::Int16 => whole!(Int16Type),
        DataType::Int32 => whole!(Int32Type),
        DataType::Int64 => whole!(Int64Type),
        DataType::UInt8 => whole!(UInt8Type),
        DataType::UInt16 => whole!(UInt16Type),
        DataType::UInt32 => whole!(UInt32Type),
        DataType::UInt64 => whole!(UInt64Type),
        _ => return Err(missing()),
    })
}

#[cfg(test)]
#[path = "parquet_tests.rs"]
mod tests;
