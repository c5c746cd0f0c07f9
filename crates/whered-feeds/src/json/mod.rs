//! A place holder of the skeleton: paths are kept, nothing is read yet.
//!
//! For: whoever compiles against this crate's types.

use crate::error::{MappingError, UploadError};
use crate::event::{Events, Totals};
use crate::mapping::Mapping;
use crate::source::MappingSource;

#[derive(Clone, Debug)]
pub(crate) struct JsonPaths {}

impl JsonPaths {
    pub(crate) fn compile(
        _source: &MappingSource,
        _paths: &[String],
    ) -> Result<JsonPaths, MappingError> {
        Ok(JsonPaths {})
    }
}

pub(crate) fn scan<E: Events>(
    _mapping: &Mapping,
    _paths: &JsonPaths,
    _upload: &[u8],
    _start: usize,
    _events: &mut E,
    _quick: bool,
) -> Result<Totals, UploadError> {
    Ok(Totals::default())
}

pub(crate) fn check(_upload: &[u8], _start: usize) -> Result<(), UploadError> {
    Ok(())
}
