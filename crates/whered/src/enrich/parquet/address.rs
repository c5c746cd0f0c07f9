//! Which column of a Parquet file holds addresses, and the address of every row.
//!
//! Not for looking them up. A column may hold text, bytes that are text, lists of text, IPv4
//! addresses as 32-bit numbers, or addresses as 4 or 16 bytes; dictionaries of any of these too.
//! A column of signed or 64-bit numbers counts only where `--column` names it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Fields, Schema};
use whered_ip::text::{ListChoice, read_list};

use super::super::detect::{ADDRESS_NAMES, numbered, unknown_column};

/// What a column that is named by `--column` may hold.
const ALLOWED: &str = "text, binary, a list of text, UInt32, UInt64, Int64, FixedSizeBinary(4) or \
                       FixedSizeBinary(16)";

/// The way to the column: that of the table, and members of structs below it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AddressColumn {
    steps: Vec<usize>,
}

fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(_, values) => is_text(values),
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView => true,
        _ => false,
    }
}

fn list_element(kind: &DataType) -> Option<&DataType> {
    match kind {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            Some(field.data_type())
        }
        _ => None,
    }
}

/// Whether a column of this type is looked at without being named.
fn may_be_address(kind: &DataType) -> bool {
    is_text(kind)
        || list_element(kind).is_some_and(is_text)
        || matches!(kind, DataType::UInt32 | DataType::FixedSizeBinary(4 | 16))
}

fn is_allowed(kind: &DataType) -> bool {
    let kind = match kind {
        DataType::Dictionary(_, values) => values,
        kind => kind,
    };
    may_be_address(kind) || matches!(kind, DataType::Int64 | DataType::UInt64)
}

impl AddressColumn {
    /// The column that `--column` names, or else the one with a usual name that holds an address
    /// in the first rows, or else the first text column that does.
    ///
    /// # Errors
    /// There is none: what to write.
    pub(crate) fn find(
        wanted: Option<&str>,
        sample: &RecordBatch,
    ) -> Result<AddressColumn, String> {
        let schema = sample.schema_ref();
        if let Some(name) = wanted {
            return AddressColumn::named(name, schema);
        }
        let holds_one = |at: &usize| {
            let column = AddressColumn { steps: vec![*at] };
            column.read(sample, ListChoice::First).iter().any(Option::is_some)
        };
        let columns = || 0..schema.fields().len();
        let kind = |at: usize| schema.field(at).data_type();
        let by_name = ADDRESS_NAMES.iter().find_map(|name| {
            columns().find(|&at| {
                may_be_address(kind(at)) && schema.field(at).name().eq_ignore_ascii_case(name)
            })
        });
        // A number or some bytes are an address only if the name says so.
        let is_readable = |at: &usize| is_text(kind(*at)) || list_element(kind(*at)).is_some();
        let found = by_name
            .filter(|at| sample.num_rows() == 0 || holds_one(at))
            .or_else(|| columns().filter(is_readable).find(holds_one))
            .or(by_name);
        found.map(|at| AddressColumn { steps: vec![at] }).ok_or_else(|| {
            let names = names(schema);
            let shown = names.iter().take(20).map(String::as_str).collect::<Vec<_>>().join(", ");
            let shown = shown.escape_debug();
            format!("no column holds IP addresses; name one by --column; there are: {shown}")
        })
    }

    fn named(name: &str, schema: &Schema) -> Result<AddressColumn, String> {
        let steps = by_path(name, schema.fields())
            .or_else(|| numbered(name, schema.fields().len()).map(|at| vec![at]))
            .ok_or_else(|| unknown_column(name, &names(schema), "column"))?;
        let mut kind = None;
        let mut fields = Some(schema.fields());
        for &step in &steps {
            kind = fields.and_then(|fields| fields.get(step)).map(|field| field.data_type());
            fields = match kind {
                Some(DataType::Struct(fields)) => Some(fields),
                _ => None,
            };
        }
        match kind {
            Some(kind) if is_allowed(kind) => Ok(AddressColumn { steps }),
            kind => {
                let found = kind.map_or_else(String::new, ToString::to_string);
                let shown = name.escape_debug();
                Err(format!("--column {shown}: holds {found}; allowed: {ALLOWED}"))
            }
        }
    }

    /// The address of each row, if it has one.
    pub(crate) fn read(&self, batch: &RecordBatch, list: ListChoice) -> Vec<Option<IpAddr>> {
        let none = || vec![None; batch.num_rows()];
        let Some((first, deeper)) = self.steps.split_first() else { return none() };
        let mut array: &ArrayRef = batch.column(*first);
        let mut parents = Vec::new();
        for &step in deeper {
            let Some(structure) = array.as_struct_opt() else { return none() };
            parents.push(structure);
            array = structure.column(step);
        }
        let mut found = addresses(array, list);
        for parent in parents.iter().filter(|parent| parent.null_count() > 0) {
            let rows = found.iter_mut().enumerate();
            rows.filter(|(row, _)| parent.is_null(*row)).for_each(|(_, address)| *address = None);
        }
        found
    }
}

fn names(schema: &Schema) -> Vec<String> {
    schema.fields().iter().map(|field| field.name().clone()).collect()
}

/// A column of that name, or a member of a struct by names with dots between them.
fn by_path(path: &str, fields: &Fields) -> Option<Vec<usize>> {
    if let Some((at, _)) = fields.find(path) {
        return Some(vec![at]);
    }
    let dots = path.match_indices('.').map(|(at, _)| at);
    dots.filter_map(|dot| {
        let (name, rest) = (path.get(..dot)?, path.get(dot + 1..)?);
        let (at, field) = fields.find(name)?;
        let DataType::Struct(members) = field.data_type() else { return None };
        let mut steps = vec![at];
        steps.extend(by_path(rest, members)?);
        Some(steps)
    })
    .next()
}

/// The address of each value of a column.
fn addresses(array: &dyn Array, list: ListChoice) -> Vec<Option<IpAddr>> {
    let mut found = Vec::with_capacity(array.len());
    match array.data_type() {
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let values = addresses(dictionary.values().as_ref(), list);
            if values.is_empty() {
                return vec![None; array.len()];
            }
            let keys = dictionary.normalized_keys();
            let value = |(row, key): (usize, &usize)| {
                if array.is_null(row) { None } else { values.get(*key).copied().flatten() }
            };
            found.extend(keys.iter().enumerate().map(value));
        }
        DataType::UInt32 => {
            let numbers = array.as_primitive::<UInt32Type>().iter();
            found.extend(numbers.map(|bits| Some(Ipv4Addr::from_bits(bits?).into())));
        }
        DataType::UInt64 => {
            let numbers = array.as_primitive::<UInt64Type>().iter();
            found.extend(numbers.map(|number| four(number?)));
        }
        DataType::Int64 => {
            let numbers = array.as_primitive::<Int64Type>().iter();
            found.extend(numbers.map(|number| four(u64::try_from(number?).ok()?)));
        }
        DataType::FixedSizeBinary(_) => {
            let values = array.as_fixed_size_binary().iter();
            found.extend(values.map(|bytes| from_bytes(bytes?)));
        }
        DataType::List(_) => {
            let values = array.as_list::<i32>().iter();
            found.extend(values.map(|values| of_list(values?.as_ref(), list)));
        }
        DataType::LargeList(_) => {
            let values = array.as_list::<i64>().iter();
            found.extend(values.map(|values| of_list(values?.as_ref(), list)));
        }
        DataType::FixedSizeList(..) => {
            let values = array.as_fixed_size_list().iter();
            found.extend(values.map(|values| of_list(values?.as_ref(), list)));
        }
        _ => each_text(array, |text| found.push(text.and_then(|text| read_list(text, list)))),
    }
    found.resize(array.len(), None);
    found
}

fn four(number: u64) -> Option<IpAddr> {
    Some(Ipv4Addr::from_bits(u32::try_from(number).ok()?).into())
}

fn from_bytes(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(bytes).into());
    }
    let bytes = <[u8; 16]>::try_from(bytes).ok()?;
    Some(IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical())
}

/// The chosen address of a list of texts; texts that are null are passed over.
fn of_list(values: &dyn Array, list: ListChoice) -> Option<IpAddr> {
    let mut joined: Vec<u8> = Vec::new();
    let mut join = |text: Option<&[u8]>| {
        joined.extend_from_slice(text.unwrap_or_default());
        joined.push(b',');
    };
    if let DataType::Dictionary(..) = values.data_type() {
        let dictionary = values.as_any_dictionary();
        let mut texts = Vec::new();
        each_text(dictionary.values().as_ref(), |text| texts.push(text.map(<[u8]>::to_vec)));
        if texts.is_empty() {
            return None;
        }
        for (row, key) in dictionary.normalized_keys().into_iter().enumerate() {
            let text = texts.get(key).and_then(Option::as_deref);
            join(text.filter(|_| values.is_valid(row)));
        }
    } else {
        each_text(values, join);
    }
    read_list(&joined, list)
}

/// Calls `take` with each text of a column of texts.
fn each_text(array: &dyn Array, mut take: impl FnMut(Option<&[u8]>)) {
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().iter().for_each(|t| take(t.map(str::as_bytes))),
        DataType::LargeUtf8 => {
            array.as_string::<i64>().iter().for_each(|t| take(t.map(str::as_bytes)));
        }
        DataType::Utf8View => {
            array.as_string_view().iter().for_each(|t| take(t.map(str::as_bytes)));
        }
        DataType::Binary => array.as_binary::<i32>().iter().for_each(take),
        DataType::LargeBinary => array.as_binary::<i64>().iter().for_each(take),
        DataType::BinaryView => array.as_binary_view().iter().for_each(take),
        _ => (0..array.len()).for_each(|_| take(None)),
    }
}
