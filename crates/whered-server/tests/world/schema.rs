//! Answers compared with their schemas in `/openapi.json`.
//!
//! For: every answer of 200 or 202 in JSON that a wire test reads; the client (`http.rs`) calls
//! it. Stricter than a JSON Schema: a member that the schema does not name is a fault. A keyword
//! that the document does not use today is refused, so that nothing is passed over.

use serde_json::Value;

/// What an answer is compared with.
pub(crate) struct Document<'a>(pub(crate) &'a Value);

impl Document<'_> {
    /// Panics where the answer of an operation is not as its schema says.
    pub(crate) fn compare(&self, method: &str, path: &str, status: u16, answer: &Value) {
        let Some((template, item)) = self.item(path) else { panic!("no path {path}") };
        let operation = &item[method.to_ascii_lowercase()];
        let response = &operation["responses"][status.to_string()];
        let schema = &response["content"]["application/json"]["schema"];
        assert!(schema.is_object(), "{method} {template} has no schema for {status}");
        if let Err(fault) = self.check(schema, answer, "answer") {
            panic!("{method} {path} is not as the document says: {fault}\n{answer}");
        }
    }

    /// The path of the document that a request has, an exact one first.
    fn item(&self, path: &str) -> Option<(&str, &Value)> {
        let parts: Vec<&str> = path.split('/').collect();
        let is_open = |part: &str| part.starts_with('{');
        let fits = |template: &str, is_rest_allowed: bool| {
            let known: Vec<&str> = template.split('/').collect();
            let has_rest = parts.len() > known.len() && known.last().is_some_and(|it| is_open(it));
            (parts.len() == known.len() || is_rest_allowed && has_rest)
                && known.iter().zip(&parts).all(|(known, part)| is_open(known) || known == part)
        };
        let paths = self.0["paths"].as_object().expect("an object of paths");
        let exact = paths.iter().find(|(template, _)| *template == path);
        let one_each = || paths.iter().find(|(template, _)| fits(template, false));
        // The last part of some paths takes all that follows.
        let with_rest = || {
            let open = paths.iter().filter(|(template, _)| fits(template, true));
            open.max_by_key(|(template, _)| template.split('/').count())
        };
        let found = exact.or_else(one_each).or_else(with_rest);
        found.map(|(template, item)| (template.as_str(), item))
    }

    fn check(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let Some(keywords) = schema.as_object() else {
            return Err(format!("{at}: a schema that is no object: {schema}"));
        };
        for (keyword, said) in keywords {
            match keyword.as_str() {
                "description" | "format" | "required" => {}
                "$ref" => {
                    let name = said.as_str().and_then(|text| text.rsplit('/').next());
                    let schemas = &self.0["components"]["schemas"];
                    let schema = name.and_then(|name| schemas.get(name));
                    self.check(schema.expect("a schema of the document"), value, at)?;
                }
                "type" => is_of_type(said, value, at)?,
                "minimum" => {
                    let is_less = value.as_f64() < said.as_f64();
                    if is_less && value.is_number() {
                        return Err(format!("{at}: {value} is less than {said}"));
                    }
                }
                "enum" => {
                    let is_known = said.as_array().is_some_and(|list| list.contains(value));
                    if !is_known {
                        return Err(format!("{at}: {value} is none of {said}"));
                    }
                }
                "items" => {
                    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(said, item, &format!("{at}[{index}]"))?;
                    }
                }
                "oneOf" => self.one_of(said, value, at)?,
                "properties" | "additionalProperties" | "propertyNames" => {}
                other => panic!("{at}: the keyword {other} of {schema} is new to the tests"),
            }
        }
        if let Some(members) = value.as_object() {
            self.members(schema, members, at)?;
        }
        Ok(())
    }

    fn one_of(&self, choices: &Value, value: &Value, at: &str) -> Result<(), String> {
        let choices = choices.as_array().expect("a list of schemas");
        let checked: Vec<_> = choices.iter().map(|one| self.check(one, value, at)).collect();
        match checked.iter().filter(|one| one.is_ok()).count() {
            1 => Ok(()),
            0 => Err(format!("{at} is none of {}: {checked:?}", choices.len())),
            count => Err(format!("{at} is {count} of {} at once", choices.len())),
        }
    }

    fn members(
        &self,
        schema: &Value,
        members: &serde_json::Map<String, Value>,
        at: &str,
    ) -> Result<(), String> {
        let is_object_schema = schema.get("type").is_some();
        for (name, member) in members.iter().filter(|_| is_object_schema) {
            let known = schema["properties"].get(name).or(schema.get("additionalProperties"));
            let Some(known) = known else {
                return Err(format!("{at} has the member {name}, which the document does not"));
            };
            self.check(known, member, &format!("{at}.{name}"))?;
        }
        let required = schema["required"].as_array().into_iter().flatten();
        for name in required.filter_map(Value::as_str) {
            if !members.contains_key(name) {
                return Err(format!("{at} lacks the member {name}"));
            }
        }
        Ok(())
    }
}

fn is_of_type(types: &Value, value: &Value, at: &str) -> Result<(), String> {
    let one = |name: &Value| match name.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => panic!("{at}: the type {name} is new to the tests"),
    };
    let is_it = match types {
        Value::Array(list) => list.iter().any(one),
        name => one(name),
    };
    if is_it { Ok(()) } else { Err(format!("{at}: {value} is no {types}")) }
}
