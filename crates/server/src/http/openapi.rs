//! `/openapi.json`: the description of all routes for programs.
//!
//! - OA1. The description has exactly the routes, methods and parameters that the code has: a test
//!   compares them.

use super::response::{JSON, Response};

const DESCRIPTION: &str = include_str!("openapi.json");

pub(super) fn description() -> Response {
    Response::new(200, JSON, DESCRIPTION)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::super::{PATHS, Route};
    use super::*;

    /// The calls that read a parameter, as they stand in the code.
    const LOOKING: [&str; 4] = ["find(\"", "is_on(\"", "flag(\"", "number(\""];

    fn document() -> Value {
        serde_json::from_str(DESCRIPTION).unwrap()
    }

    /// Returns the parameters that a source reads, without its tests.
    fn looked_for(source: &str) -> BTreeSet<String> {
        let source = source.split("#[cfg(test)]").next().unwrap();
        let of = |word: &str| {
            let found = source.split(word).skip(1).filter_map(|rest| rest.split('"').next());
            found.map(str::to_owned).collect::<Vec<_>>()
        };
        LOOKING.into_iter().flat_map(of).collect()
    }

    /// Returns the part of a source between two places.
    fn between(source: &'static str, start: &str, end: &str) -> &'static str {
        let from = source.find(start).expect("it begins");
        let length = source[from..].find(end).expect("it ends");
        &source[from..from + length]
    }

    fn parameters_of(route: Route) -> BTreeSet<String> {
        let status = include_str!("status.rs");
        let request = include_str!("exec/request.rs");
        match route {
            Route::Exec => looked_for(request),
            Route::Export => {
                let timeout = looked_for(between(request, "fn timeout(", "#[cfg(test)]"));
                looked_for(include_str!("exp.rs")).union(&timeout).cloned().collect()
            }
            Route::Import => {
                let own = looked_for(include_str!("imp.rs"));
                looked_for(include_str!("imp/request.rs")).union(&own).cloned().collect()
            }
            Route::Write => looked_for(include_str!("write.rs")),
            Route::Validate => looked_for(include_str!("validate.rs")),
            Route::Check => looked_for(between(status, "fn check(", "\n}\n")),
            Route::InfluxQuery => looked_for(between(status, "fn influx_query(", "\n}\n")),
            _ => BTreeSet::new(),
        }
    }

    #[test]
    fn the_description_has_the_routes_and_methods_that_there_are() {
        let document = document();
        let paths = document["paths"].as_object().unwrap();
        let described = paths.keys().map(String::as_str).collect::<BTreeSet<_>>();
        assert_eq!(described, PATHS.iter().map(|(path, _)| *path).collect(), "OA1");
        for (path, route) in PATHS {
            let methods = paths[path].as_object().unwrap().keys();
            let methods = methods.map(|method| method.to_uppercase()).collect::<Vec<_>>();
            assert_eq!(methods, route.methods(), "OA1: {path}");
        }
    }

    #[test]
    fn the_description_has_the_parameters_that_are_looked_for() {
        let document = document();
        for (path, route) in PATHS {
            for (method, operation) in document["paths"][path].as_object().unwrap() {
                let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
                let of_query = parameters.iter().filter(|it| it["in"] == "query");
                let names = of_query.map(|it| it["name"].as_str().unwrap().to_owned());
                let expected = parameters_of(route);
                assert_eq!(names.collect::<BTreeSet<_>>(), expected, "OA1: {method} {path}");
            }
        }
        assert!(parameters_of(Route::Exec).len() > 10, "they are found at all");
    }

    #[test]
    fn the_description_says_who_is_not_asked() {
        let document = document();
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
        for (path, route) in PATHS {
            for (method, operation) in document["paths"][path].as_object().unwrap() {
                let is_open = operation["security"].as_array().is_some_and(Vec::is_empty);
                assert_eq!(is_open, route.is_open(), "OA1: {method} {path}");
            }
        }
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
