//! The OpenAPI document around the routes: its head, and what all operations share.
//!
//! Not for: routes and their parameters (`routes`, and the handlers' own files).

use utoipa::OpenApi as _;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Components, ContentBuilder, OpenApi, PathItem, Ref, RefOr, Response, ResponseBuilder, Server,
};

use super::error::ErrorBody;

const TOKEN: &str = "token";

/// Queries in memory over JSON: IP databases, prefix sets, packet rules, points, feeds and tables.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(title = "whered", license(name = "MIT OR Apache-2.0")),
    components(schemas(ErrorBody))
)]
struct Frame;

/// The document without routes.
pub(super) fn frame() -> OpenApi {
    Frame::openapi()
}

/// A path of the router as OpenAPI writes it: `{*key}` is `{key}`.
pub(super) fn plain(path: &str) -> String {
    path.replace("{*", "{")
}

/// The document with what holds for every operation: errors, and the token.
pub(super) fn finish(mut document: OpenApi) -> OpenApi {
    let paths = std::mem::take(&mut document.paths.paths);
    document.paths.paths = paths
        .into_iter()
        .map(|(path, mut item)| {
            operations(&mut item).for_each(|operation| {
                let responses = &mut operation.responses.responses;
                responses.insert("default".to_owned(), RefOr::T(refusal()));
            });
            (plain(&path), item)
        })
        .collect();
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    let components = document.components.get_or_insert_with(Components::new);
    components.add_security_scheme(TOKEN, SecurityScheme::Http(scheme));
    let anybody = SecurityRequirement::default();
    document.security = Some(vec![anybody, SecurityRequirement::new(TOKEN, [""; 0])]);
    document.servers = Some(vec![Server::new("/")]);
    document
}

/// The methods that a path takes, as the client writes them.
pub(super) fn methods(item: &PathItem) -> Vec<&'static str> {
    let get: &[_] = if item.get.is_some() { &["GET", "HEAD"] } else { &[] };
    let post: &[_] = if item.post.is_some() { &["POST"] } else { &[] };
    [get, post].concat()
}

/// The names of the parameters that a path takes in its query.
pub(super) fn query_names(item: &PathItem) -> Vec<String> {
    let operations = [&item.get, &item.post].into_iter().flatten();
    let parameters = operations.flat_map(|operation| operation.parameters.iter().flatten());
    let in_query = parameters.filter_map(|parameter| match parameter {
        RefOr::T(one) if one.parameter_in == ParameterIn::Query => Some(one.name.clone()),
        _ => None,
    });
    in_query.collect()
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post].into_iter().filter_map(Option::as_mut)
}

fn refusal() -> Response {
    let body = Ref::from_schema_name("ErrorBody");
    ResponseBuilder::new()
        .description("a refusal")
        .content("application/json", ContentBuilder::new().schema(Some(body)).build())
        .build()
}
