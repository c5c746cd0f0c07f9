//! `GET /v1/tables`, `/v1/tables/{table}`, `/v1/tables/{table}/rows/{key...}` and
//! `/v1/tables/{table}/top`.
//!
//! The second gives rows: `format=json` (the usual one) a page of `count` of them with the `next`
//! cursor, null behind the last page; `format=ndjson` and `format=csv` all rows from the cursor on,
//! or `count` of them, as they are read. Rows that are there during a whole scan come once; rows
//! that come or change meanwhile may or may not be seen so. The third gives the row of a key, one
//! part of the path for each of its columns. The fourth gives the rows with the most (`order=asc`:
//! the least) of `column`.
//!
//! Not for: filling tables. Cost: rows are read some hundred at a time, each time under a short
//! lock.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use whered_engine::Engine;
use whered_engine::tables::{Table, TableError};

use super::answers;
use super::error::{ErrorCode, HttpError};
use super::ip::push_text;
use super::pages::{self, Page};
use super::query::Parameters;
use super::state::{HttpState, json_response};
use crate::cells;

/// Rows of a page when nothing is said, and at most.
const PAGE_ROWS: usize = 100;
const PAGE_ROWS_MAX: usize = 10_000;
/// Rows of `top` when nothing is said, and at most.
const TOP_ROWS: usize = 10;
/// Rows that are read under one lock, and bytes of one piece of an answer.
const STEP_ROWS: usize = 256;
const PIECE_BYTES: usize = 64 * 1024;
const FORMATS: &str = "json, ndjson, csv";

type Name = Result<Path<String>, PathRejection>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lines {
    Ndjson,
    Csv,
}

/// Descriptions of all tables.
#[utoipa::path(
    get,
    path = "/v1/tables",
    operation_id = "list_tables",
    tag = "tables",
    params(
        ("cursor" = Option<String>, Query, description = "next of the page before"),
        ("count" = Option<u64>, Query, description = "items of a page, 1 to 10000; absent: all"),
    ),
    responses((status = 200, description = "the answer", body = answers::Tables))
)]
pub(crate) async fn list(
    State(state): State<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, HttpError> {
    let parameters = Parameters::read(&uri, &pages::PARAMETERS)?;
    let tables = state.engine.feeds().tables();
    let names: Vec<&str> = tables.iter().map(|table| table.name()).collect();
    let page = Page::of(&parameters, &names)?;
    let shown: Value = tables[page.items].iter().map(|table| describe(table)).collect();
    Ok(json_response(json!({ "tables": shown, "next": page.next }).to_string().into_bytes()))
}

/// What is said of a table.
fn describe(table: &Table) -> Value {
    let schema = table.schema();
    let shown = |column: &whered_engine::tables::Column| json!({ "name": column.name, "kind": column.kind.name() });
    let mut body = Map::new();
    body.insert("name".to_owned(), table.name().into());
    body.insert("feed".to_owned(), table.feed().into());
    body.insert("rows".to_owned(), table.len().into());
    body.insert("memory_bytes".to_owned(), table.memory_bytes().into());
    body.insert("key".to_owned(), schema.key.iter().map(shown).collect());
    body.insert("columns".to_owned(), schema.columns.iter().map(shown).collect());
    Value::Object(body)
}

/// Rows of a table.
#[utoipa::path(
    get,
    path = "/v1/tables/{table}",
    operation_id = "list_rows",
    tag = "tables",
    params(
        ("table" = String, Path, description = "the table"),
        ("format" = Option<String>, Query, description = "json, ndjson or csv; absent: json"),
        ("cursor" = Option<String>, Query, description = "next of the page before"),
        ("count" = Option<u64>, Query, description = "rows, for json 1 to 10000; absent: 100, or all for the others"),
    ),
    responses((status = 200, description = "the answer", body = answers::TableRows))
)]
pub(crate) async fn rows(
    State(state): State<Arc<HttpState>>,
    name: Name,
    uri: Uri,
) -> Result<Response, HttpError> {
    let parameters = Parameters::read(&uri, &["cursor", "count", "format"])?;
    let table = found(&state.engine, name)?;
    let cursor = match parameters.text("cursor") {
        None => 0,
        Some(text) => text.parse().map_err(|_| {
            let allowed = "the 'next' of the page before";
            HttpError::bad_request("cursor", format!("'cursor' is '{text}'; allowed: {allowed}"))
        })?,
    };
    let lines = match parameters.text("format") {
        None | Some("json") => None,
        Some("ndjson") => Some(Lines::Ndjson),
        Some("csv") => Some(Lines::Csv),
        Some(other) => {
            let message = format!("'format' is '{other}'; allowed: {FORMATS}");
            return Err(HttpError::bad_request("format", message));
        }
    };
    let Some(lines) = lines else {
        let count = parameters.count("count", PAGE_ROWS_MAX)?.unwrap_or(PAGE_ROWS);
        return Ok(json_response(page(&table, cursor, count)?));
    };
    let count = parameters.count("count", usize::MAX)?;
    let kind = match lines {
        Lines::Ndjson => "application/x-ndjson",
        Lines::Csv => "text/csv; charset=utf-8",
    };
    let body = Body::new(RowsBody::new(table, cursor, count, lines));
    Ok(([(header::CONTENT_TYPE, kind)], body).into_response())
}

fn found(engine: &Engine, name: Name) -> Result<Arc<Table>, HttpError> {
    let Path(name) = name.map_err(|error| HttpError::bad_request("table", error.body_text()))?;
    table(engine, &name)
}

fn table(engine: &Engine, name: &str) -> Result<Arc<Table>, HttpError> {
    engine.feeds().table(name).ok_or_else(|| {
        let names: Vec<_> =
            engine.feeds().tables().iter().map(|table| table.name().to_owned()).collect();
        let message = match names.is_empty() {
            true => "no feed fills a table".to_owned(),
            false => format!("no such table '{name}'; tables: {}", names.join(", ")),
        };
        HttpError::not_found("table", message)
    })
}

/// A page as JSON.
fn page(table: &Table, mut cursor: u64, count: usize) -> Result<Vec<u8>, HttpError> {
    let mut body = b"{\"table\":".to_vec();
    push_text(&mut body, table.name());
    body.extend_from_slice(b",\"rows\":[");
    let mut left = count;
    while left > 0 {
        let wanted = left.min(STEP_ROWS);
        let next = table.scan(cursor, wanted, &mut |row| {
            if left < count {
                body.push(b',');
            }
            cells::push_json_row(&mut body, table.schema(), cells::of(row, table.schema()));
            left -= 1;
        });
        cursor = next.map_err(unanswered)?;
        if cursor == 0 {
            break;
        }
    }
    body.extend_from_slice(b"],\"next\":");
    match cursor {
        0 => body.extend_from_slice(b"null"),
        next => push_text(&mut body, &next.to_string()),
    }
    body.push(b'}');
    Ok(body)
}

/// Why a question to a table has no answer.
fn unanswered(error: TableError) -> HttpError {
    match error {
        TableError::NoOrder(line) => HttpError::bad_request("column", line),
        TableError::Unreadable(line) => HttpError::new(ErrorCode::Internal, Some("table"), line),
    }
}

/// Rows as lines, read while they are sent.
struct RowsBody {
    table: Arc<Table>,
    cursor: u64,
    left: usize,
    lines: Lines,
    is_begun: bool,
    is_finished: bool,
}

impl RowsBody {
    fn new(table: Arc<Table>, cursor: u64, count: Option<usize>, lines: Lines) -> RowsBody {
        let left = count.unwrap_or(usize::MAX);
        RowsBody { table, cursor, left, lines, is_begun: false, is_finished: false }
    }

    /// The next piece; empty at the end.
    ///
    /// # Errors
    /// The rows are not in memory and cannot be read: the client sees that the body breaks off.
    fn piece(&mut self) -> Result<Vec<u8>, TableError> {
        let mut piece = Vec::new();
        if !self.is_begun {
            self.is_begun = true;
            if self.lines == Lines::Csv {
                cells::push_csv_header(&mut piece, self.table.schema());
            }
        }
        while piece.len() < PIECE_BYTES && !self.is_finished {
            let (lines, schema, mut seen) = (self.lines, self.table.schema(), 0);
            let wanted = self.left.min(STEP_ROWS);
            let next = self.table.scan(self.cursor, wanted, &mut |row| {
                seen += 1;
                match lines {
                    Lines::Csv => cells::push_csv_row(&mut piece, cells::of(row, schema)),
                    Lines::Ndjson => {
                        cells::push_json_row(&mut piece, schema, cells::of(row, schema));
                        piece.push(b'\n');
                    }
                }
            });
            self.cursor = next?;
            self.left -= seen.min(self.left);
            self.is_finished = self.cursor == 0 || self.left == 0;
        }
        Ok(piece)
    }
}

impl HttpBody for RowsBody {
    type Data = Bytes;
    type Error = TableError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, TableError>>> {
        let piece = match self.piece() {
            Ok(piece) if piece.is_empty() => None,
            Ok(piece) => Some(Ok(http_body::Frame::data(piece.into()))),
            Err(error) => {
                tracing::error!("rows of the table '{}' break off: {error}", self.table.name());
                self.is_finished = true;
                Some(Err(error))
            }
        };
        Poll::Ready(piece)
    }
}

/// One row.
#[utoipa::path(
    get,
    path = "/v1/tables/{table}/rows/{*key}",
    operation_id = "get_row",
    tag = "tables",
    params(
        ("table" = String, Path, description = "the table"),
        ("key" = String, Path, description = "one part for each column of the key"),
    ),
    responses((status = 200, description = "the answer", body = answers::TableRow))
)]
pub(crate) async fn row(
    State(state): State<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, HttpError> {
    Parameters::read(&uri, &[])?;
    // The path as it was sent: an escaped slash is a part of a key and no end of it.
    let mut parts = uri.path().split('/').skip(3);
    let name = unescaped(parts.next().unwrap_or_default())?;
    let name = String::from_utf8_lossy(&name);
    let table = table(&state.engine, &name)?;
    let parts = parts.skip(1).map(unescaped).collect::<Result<Vec<_>, _>>()?;
    let key = cells::read_key(table.schema(), &parts)
        .map_err(|message| HttpError::bad_request("key", message))?;
    let Some(row) = table.get(&key).map_err(unanswered)? else {
        return Err(HttpError::not_found("key", format!("no such row in the table '{name}'")));
    };
    let mut body = b"{\"table\":".to_vec();
    push_text(&mut body, table.name());
    body.extend_from_slice(b",\"row\":");
    cells::push_json_row(&mut body, table.schema(), cells::of_owned(&row));
    body.push(b'}');
    Ok(json_response(body))
}

/// A part of a path without its escapes.
pub(super) fn unescaped(part: &str) -> Result<Vec<u8>, HttpError> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = rest.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = digits
            .and_then(|two| u8::from_str_radix(two, 16).ok())
            .ok_or_else(|| HttpError::bad_request("key", "a lone '%' in the path; allowed: %25"))?;
        bytes.push(byte);
        rest = &rest[2..];
    }
    Ok(bytes)
}

/// Rows in the order of a column.
#[utoipa::path(
    get,
    path = "/v1/tables/{table}/top",
    operation_id = "list_top_rows",
    tag = "tables",
    params(
        ("table" = String, Path, description = "the table"),
        ("column" = String, Query, description = "a column with an order"),
        ("count" = Option<u64>, Query, description = "1 to 10000; absent: 10"),
        ("order" = Option<String>, Query, description = "desc or asc; absent: desc"),
    ),
    responses((status = 200, description = "the answer", body = answers::TableRows))
)]
pub(crate) async fn top(
    State(state): State<Arc<HttpState>>,
    name: Name,
    uri: Uri,
) -> Result<Response, HttpError> {
    let parameters = Parameters::read(&uri, &["column", "count", "order"])?;
    let table = found(&state.engine, name)?;
    let column = parameters.text("column");
    let column = column.ok_or_else(|| HttpError::missing("column"))?.to_owned();
    let count = parameters.count("count", PAGE_ROWS_MAX)?.unwrap_or(TOP_ROWS);
    let descending = match parameters.text("order") {
        None | Some("desc") => true,
        Some("asc") => false,
        Some(other) => {
            let message = format!("'order' is '{other}'; allowed: desc, asc");
            return Err(HttpError::bad_request("order", message));
        }
    };
    let permit = Arc::clone(&state.searches).acquire_owned().await;
    let permit = permit.map_err(|_| HttpError::internal())?;
    // It looks at every row: the listener's thread goes on with other requests.
    let answered = tokio::task::spawn_blocking(move || {
        let answer = top_rows(&table, &column, count, descending);
        drop(permit);
        answer
    });
    answered.await.map_err(|_| HttpError::internal())?.map(json_response)
}

fn top_rows(
    table: &Table,
    column: &str,
    count: usize,
    descending: bool,
) -> Result<Vec<u8>, HttpError> {
    let rows = table.top(column, count, descending).map_err(unanswered)?;
    let mut body = b"{\"table\":".to_vec();
    push_text(&mut body, table.name());
    body.extend_from_slice(b",\"rows\":[");
    for (at, row) in rows.iter().enumerate() {
        if at > 0 {
            body.push(b',');
        }
        cells::push_json_row(&mut body, table.schema(), cells::of_owned(row));
    }
    body.extend_from_slice(b"]}");
    Ok(body)
}
