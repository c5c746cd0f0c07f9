//! The one table of routes. The router, the OpenAPI document, the names of metrics and the texts of
//! the fallbacks come from it; the reference page is checked against it.
//!
//! For: adding a route. Its handler has `#[utoipa::path]` with method, path, parameters and answer,
//! and one entry in [`table`]. The first line of the handler's comment is its summary in the
//! document. Not for: what holds for every request (`mod.rs`).

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Bytes;
use axum::extract::MatchedPath;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::error::{ErrorCode, HttpError};
use super::state::HttpState;
use super::{
    collections, console, databases, explain, feeds, ip, near, openapi, pools, probes, rules, sets,
    status, stream, tables, zones,
};

/// What metrics call requests that have no route.
const OTHER: &str = "other";

/// Every route: one entry a path, with all of its methods.
fn table() -> OpenApiRouter<Arc<HttpState>> {
    OpenApiRouter::with_openapi(openapi::frame())
        .routes(routes!(console::page))
        .routes(routes!(console::file))
        .routes(routes!(probes::healthz))
        .routes(routes!(probes::readyz))
        .routes(routes!(probes::metrics))
        .routes(routes!(document))
        .routes(routes!(ip::ip))
        .routes(routes!(ip::batch))
        .routes(routes!(databases::list))
        .routes(routes!(databases::one))
        .routes(routes!(databases::networks))
        .routes(routes!(collections::list))
        .routes(routes!(collections::one))
        .routes(routes!(collections::member))
        .routes(routes!(near::near))
        .routes(routes!(collections::within, collections::within_polygon))
        .routes(routes!(collections::clusters))
        .routes(routes!(collections::points))
        .routes(routes!(pools::list))
        .routes(routes!(pools::one))
        .routes(routes!(pools::choose, pools::choose_many))
        .routes(routes!(pools::catchment))
        .routes(routes!(pools::sites))
        .routes(routes!(zones::list))
        .routes(routes!(zones::one))
        .routes(routes!(explain::explain))
        .routes(routes!(status::status))
        .routes(routes!(stream::stream))
        .routes(routes!(rules::list))
        .routes(routes!(rules::one))
        .routes(routes!(rules::find))
        .routes(routes!(sets::list))
        .routes(routes!(sets::one))
        .routes(routes!(sets::matches, sets::match_many))
        .routes(routes!(feeds::list))
        .routes(routes!(feeds::one, feeds::push))
        .routes(routes!(feeds::upload))
        .routes(routes!(tables::list))
        .routes(routes!(tables::rows))
        .routes(routes!(tables::row))
        .routes(routes!(tables::top))
}

/// What is computed once from the table.
struct Catalog {
    /// The OpenAPI document as JSON.
    document: Bytes,
    /// The names of routes without wildcards, by the paths that the router knows them by.
    names: BTreeMap<String, String>,
    /// The names of parameters in the query, by the same paths.
    parameters: BTreeMap<String, Vec<String>>,
    /// The methods that each path takes.
    methods: BTreeMap<String, String>,
    no_such_path: String,
}

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| Catalog::new(table().into_openapi()));

impl Catalog {
    fn new(document: OpenApi) -> Catalog {
        let paths: Vec<String> = document.paths.paths.keys().cloned().collect();
        let items = || document.paths.paths.iter();
        let parameters = items().map(|(path, item)| (path.clone(), openapi::query_names(item)));
        let parameters = parameters.collect();
        let methods = items().map(|(path, item)| (path.clone(), openapi::methods(item).join(", ")));
        let methods = methods.collect();
        let document = openapi::finish(document);
        let names = paths.into_iter().map(|path| (path.clone(), openapi::plain(&path))).collect();
        let shown: Vec<&str> = document.paths.paths.keys().map(String::as_str).collect();
        let mut json = serde_json::to_vec(&document).expect("a document has a JSON form");
        json.push(b'\n');
        Catalog {
            document: json.into(),
            names,
            parameters,
            methods,
            no_such_path: format!("no such path; paths: {}", shown.join(", ")),
        }
    }
}

/// The router of the table, with refusals for what is not in it.
pub(super) fn router() -> Router<Arc<HttpState>> {
    let (router, _) = table().split_for_parts();
    router
        .fallback(async || {
            HttpError::new(ErrorCode::PathNotFound, Some("path"), &*CATALOG.no_such_path)
        })
        .method_not_allowed_fallback(async |matched: MatchedPath| {
            let methods = CATALOG.methods.get(matched.as_str()).map_or("", String::as_str);
            let message = format!("method not allowed; allowed: {methods}");
            HttpError::new(ErrorCode::MethodNotAllowed, Some("method"), message)
        })
}

/// The parameters that a route takes in its query.
pub(super) fn parameters_of(matched: Option<&MatchedPath>) -> &'static [String] {
    let known = matched.and_then(|matched| CATALOG.parameters.get(matched.as_str()));
    known.map_or(&[], Vec::as_slice)
}

/// The route as metrics name it: never more names than there are routes.
pub(super) fn name_of(matched: Option<&MatchedPath>) -> &'static str {
    let name = matched.and_then(|matched| CATALOG.names.get(matched.as_str()));
    name.map_or(OTHER, String::as_str)
}

/// This document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "get_openapi",
    tag = "health and metrics",
    responses((status = 200, description = "an OpenAPI 3.1 document"))
)]
async fn document() -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json")];
    (headers, CATALOG.document.clone()).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    fn paths() -> serde_json::Map<String, Value> {
        let document: Value = serde_json::from_slice(&CATALOG.document).expect("JSON");
        document["paths"].as_object().expect("an object of paths").clone()
    }

    #[test]
    fn every_route_has_a_name_without_a_wildcard() {
        assert_eq!(CATALOG.names.len(), paths().len());
        assert_eq!(
            CATALOG.names.get("/v1/tables/{table}/rows/{*key}").map(String::as_str),
            Some("/v1/tables/{table}/rows/{key}")
        );
        assert_eq!(name_of(None), "other");
    }

    #[test]
    fn every_operation_has_a_summary_an_id_of_its_own_and_each_part_of_its_path() {
        let mut ids = BTreeSet::new();
        for (path, item) in paths() {
            for (method, operation) in item.as_object().expect("an object of operations") {
                let id = operation["operationId"].as_str().expect("an id");
                assert!(ids.insert(id.to_owned()), "{id} is there twice");
                assert!(operation["summary"].as_str().is_some_and(|text| text.len() > 5), "{id}");
                assert!(operation["responses"]["default"].is_object(), "{method} {path}");
                let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
                let named = |parameter: &Value| {
                    (parameter["in"] == "path").then(|| parameter["name"].to_string())
                };
                let declared: Vec<_> = parameters.iter().filter_map(named).collect();
                let parts = path.split('/').filter_map(|part| part.strip_prefix('{'));
                let parts: Vec<_> =
                    parts.map(|part| format!("\"{}\"", part.trim_end_matches('}'))).collect();
                assert_eq!(declared, parts, "{method} {path}");
            }
        }
    }

    /// The part of the reference that a row of the table of paths links to.
    fn section_of<'a>(page: &'a str, path: &str) -> Option<&'a str> {
        let row = page.lines().find(|line| line.starts_with(&format!("| [`{path}`]("))).unwrap();
        let (_, link) = row.split_once("](#")?;
        let anchor = &link[..link.find(')')?];
        let slug = |title: &str| title.to_lowercase().replace(' ', "-");
        let mut sections = page.split("\n## ").skip(1);
        sections.find(|section| slug(section.lines().next().unwrap_or_default()) == anchor)
    }

    /// The names of the rows of all tables of parameters.
    fn rows_of_parameters(section: &str) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        let mut is_table = false;
        for line in section.lines() {
            is_table = line.starts_with("| parameter |") || is_table && line.starts_with('|');
            let Some(cell) = line.split('|').nth(1).filter(|_| is_table) else { continue };
            names.extend(cell.split('`').skip(1).step_by(2));
        }
        names
    }

    #[test]
    fn parameters_of_the_reference_are_those_of_the_document() {
        let page = include_str!("../../../../docs/reference/http.md");
        let (_, pages) = page.split_once("\n### Pages").expect("lists have a section");
        let (pages, _) = pages.split_once("\n### ").expect("it ends");
        let of_pages = rows_of_parameters(pages);
        assert_eq!(of_pages, BTreeSet::from(["count", "cursor"]));
        // By the sections' first lines: what the document has there.
        let mut of_sections: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let mut seen = 0;
        for (path, item) in paths() {
            for (method, operation) in item.as_object().expect("an object of operations") {
                let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
                let in_query = parameters.iter().filter(|one| one["in"] == "query");
                for name in in_query.map(|one| one["name"].as_str().expect("a name")) {
                    let section = section_of(page, &path).expect("a section of the page");
                    let forms = [format!("`{name}`"), format!("`{name}=")];
                    let is_said = forms.iter().any(|form| section.contains(form));
                    let is_said = is_said || of_pages.contains(name);
                    assert!(is_said, "the section of {method} {path} says nothing of `{name}`");
                    of_sections.entry(section).or_default().insert(name.to_owned());
                    seen += 1;
                }
            }
        }
        assert!(seen > 60, "{seen}");
        for (section, known) in of_sections {
            for name in rows_of_parameters(section) {
                let title = section.lines().next().unwrap_or_default();
                assert!(known.contains(name), "no path of '{title}' takes `{name}`");
            }
        }
    }

    #[test]
    fn every_answer_in_json_has_a_schema() {
        let document: Value = serde_json::from_slice(&CATALOG.document).expect("JSON");
        // These answer with something else: pages, text, numbers, a stream, this document.
        let others = [
            "/",
            "/console/{file}",
            "/metrics",
            "/openapi.json",
            "/v1/stream",
            "/v1/collections/{name}/points",
        ];
        for (path, item) in paths() {
            for (method, operation) in item.as_object().expect("an object of operations") {
                let responses = operation["responses"].as_object().expect("an object of answers");
                for (status, response) in responses.iter().filter(|(it, _)| *it != "default") {
                    let schema = &response["content"]["application/json"]["schema"];
                    let is_other = others.contains(&path.as_str());
                    assert_eq!(schema.is_object(), !is_other, "{method} {path} {status}");
                    let name = schema["$ref"].as_str().and_then(|text| text.rsplit('/').next());
                    let schemas = &document["components"]["schemas"];
                    assert!(is_other || schemas[name.unwrap_or_default()].is_object(), "{path}");
                }
            }
        }
    }

    #[test]
    fn every_path_and_every_code_is_in_the_reference() {
        let page = include_str!("../../../../docs/reference/http.md");
        for (path, item) in paths() {
            let methods: Vec<_> = item.as_object().expect("an object").keys().collect();
            let methods: Vec<_> = methods.iter().map(|method| method.to_uppercase()).collect();
            let has_row = |line: &str| {
                line.starts_with(&format!("| [`{path}`]("))
                    && line.contains(&format!(" | {} | ", methods.join(", ")))
            };
            assert!(page.lines().any(has_row), "no row for {methods:?} {path}");
        }
        let document: Value = serde_json::from_slice(&CATALOG.document).expect("JSON");
        let codes = &document["components"]["schemas"]["ErrorCode"]["enum"];
        let codes = codes.as_array().expect("a list of codes");
        assert!(codes.len() > 20);
        for name in codes {
            let code: ErrorCode = serde_json::from_value(name.clone()).expect("a code");
            let row = format!("| `{}` | {} | ", name.as_str().unwrap(), code.status().as_u16());
            assert!(page.lines().any(|line| line.starts_with(&row)), "no row: {row}");
        }
    }
}
