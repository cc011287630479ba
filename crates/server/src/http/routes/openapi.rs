//! `/openapi.json`: the description of all routes for programs, made from their table.
//!
//! - openapi-1. The description has exactly the routes, methods and parameters of the table; a
//!   handler reads no others (params-2).
//!
//! `openapi.json` has the parts that are the same for all routes: bodies, schemas, errors.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::ROUTES;
use crate::http::response::{JSON, Response};
use crate::http::route::{
    AnswerSpec, LoginRule, ParameterPlace, ParameterSpec, ParameterType, Route,
};

static DESCRIPTION: LazyLock<String> = LazyLock::new(|| format!("{:#}", document()));

/// The errors of all routes that may need a login.
const GUARDED_ERRORS: [u16; 4] = [400, 401, 403, 503];

pub(super) fn description() -> Response {
    Response::new(200, JSON, DESCRIPTION.as_str())
}

fn document() -> Value {
    let mut document: Value =
        serde_json::from_str(include_str!("openapi.json")).expect("a test reads it");
    document["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    for route in &ROUTES {
        let operations = route
            .methods
            .iter()
            .map(|method| (method.to_ascii_lowercase(), operation(route, *method == "POST")));
        let operations: Map<String, Value> = operations.collect();
        for path in route.paths {
            document["paths"][path] = operations.clone().into();
        }
    }
    document
}

fn operation(route: &Route, has_body: bool) -> Value {
    let is_guarded = route.access.login == LoginRule::AsConfigured;
    let errors = GUARDED_ERRORS.iter().filter(|_| is_guarded).chain(route.errors);
    let errors = errors.map(|status| {
        let name = if *status == 401 { "Unauthorized" } else { "Error" };
        (status.to_string(), json!({ "$ref": format!("#/components/responses/{name}") }))
    });
    let answers = route.answers.iter().map(|it| (it.status.to_string(), answer(it)));
    let responses: Map<String, Value> = errors.chain(answers).collect();
    let mut operation = json!({ "summary": route.summary, "responses": responses });
    let described = route.parameters.iter().filter(|it| it.place != ParameterPlace::Ignored);
    let parameters: Vec<Value> = described.map(parameter).collect();
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some(body) = route.body.filter(|_| has_body) {
        operation["requestBody"] = json!({ "$ref": format!("#/components/requestBodies/{body}") });
    }
    if !is_guarded {
        operation["security"] = json!([]);
    }
    operation
}

fn answer(answer: &AnswerSpec) -> Value {
    let schema = match answer.schema {
        Some(name) => json!({ "schema": { "$ref": format!("#/components/schemas/{name}") } }),
        None => json!({}),
    };
    let content = answer.media_types.iter().map(|it| ((*it).to_owned(), schema.clone()));
    let content: Map<String, Value> = content.collect();
    match content.is_empty() {
        true => json!({ "description": answer.about }),
        false => json!({ "description": answer.about, "content": content }),
    }
}

fn parameter(spec: &ParameterSpec) -> Value {
    let schema = match spec.ty {
        ParameterType::Text => json!({ "type": "string" }),
        ParameterType::Flag => json!({ "type": "boolean" }),
        ParameterType::Integer => json!({ "type": "integer" }),
        ParameterType::Number => json!({ "type": "number" }),
        ParameterType::OneOf(values) => json!({ "type": "string", "enum": values }),
    };
    let place = if spec.is_query() { "query" } else { "header" };
    let mut parameter =
        json!({ "name": spec.name, "in": place, "description": spec.about, "schema": schema });
    if spec.place == ParameterPlace::RequiredQuery {
        parameter["required"] = true.into();
    }
    parameter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_has_the_routes_methods_and_parameters_of_the_table() {
        let document = document();
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
        let exec = &document["paths"]["/api/v1/sql/execute"];
        let methods = exec.as_object().unwrap().keys().collect::<Vec<_>>();
        assert_eq!(methods, ["get", "head", "post"], "openapi-1");
        assert!(exec["get"]["requestBody"].is_null() && exec["post"]["requestBody"].is_object());
        assert_eq!(exec["get"]["parameters"][0]["name"], "query", "openapi-1");
        assert_eq!(exec["get"]["parameters"].as_array().unwrap().len(), 13, "openapi-1");
        assert_eq!(exec["get"]["responses"]["401"]["$ref"], "#/components/responses/Unauthorized");
        assert!(exec["get"]["security"].is_null());
        let ping = &document["paths"]["/ping"]["get"];
        assert_eq!(
            *ping,
            json!({
                "summary": "The presence of a server, for clients of InfluxDB",
                "security": [],
                "responses": { "204": { "description": "There is a server." } },
            })
        );
        let paths = document["paths"].as_object().unwrap();
        let count = ROUTES.iter().map(|route| route.paths.len()).sum::<usize>();
        assert_eq!(paths.len(), count, "openapi-1: no path is there twice");
        assert_eq!(paths["/imp"]["post"]["parameters"].as_array().unwrap().len(), 11, "openapi-1");
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn check(document: &Value, value: &Value) {
            match value {
                Value::Object(fields) => {
                    if let Some(Value::String(reference)) = fields.get("$ref") {
                        let target = document.pointer(reference.trim_start_matches('#'));
                        assert!(target.is_some(), "{reference}");
                    }
                    fields.values().for_each(|value| check(document, value));
                }
                Value::Array(values) => values.iter().for_each(|value| check(document, value)),
                _ => {}
            }
        }
        let document = document();
        check(&document, &document);
    }
}
