//! Query parameters: few, and unknown ones are an error that names them.

use actix_web::HttpRequest;

use crate::http::problem::Problem;

/// The parameters of a request, all of which are among `known`, each of them once.
pub fn parameters(request: &HttpRequest, known: &[&str]) -> Result<Vec<(String, String)>, Problem> {
    read(request.query_string(), known, &[])
}

/// The same of a query; those in `several` may be given more than once.
pub fn read(query: &str, known: &[&str], several: &[&str]) -> Result<Vec<(String, String)>, Problem> {
    let parsed = actix_web::web::Query::<Vec<(String, String)>>::from_query(query);
    let pairs = parsed.map_err(|error| Problem::field("query", format!("unreadable query: {error}")))?.into_inner();
    for (at, (name, value)) in pairs.iter().enumerate() {
        if !known.contains(&name.as_str()) {
            let known =
                if known.is_empty() { "none is known here".to_owned() } else { format!("known: {}", known.join(", ")) };
            return Err(Problem::field(name, format!("unknown query parameter {name}={value}; {known}")));
        }
        if let Some((_, before)) = pairs[..at].iter().find(|(other, _)| other == name)
            && !several.contains(&name.as_str())
        {
            let detail = format!("query parameter {name} is given twice, as '{before}' and '{value}': give it once");
            return Err(Problem::field(name, detail));
        }
    }
    Ok(pairs)
}

/// One of them.
pub fn one<'a>(parameters: &'a [(String, String)], name: &str) -> Option<&'a str> {
    parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// One that is true or false; false where it is not given.
pub fn yes(parameters: &[(String, String)], name: &str) -> Result<bool, Problem> {
    match one(parameters, name) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => Err(Problem::field(name, format!("{name}={other} is not one of true, false"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_no_boolean_is_named() {
        let refused = yes(&[("redact".to_owned(), "1".to_owned())], "redact").unwrap_err();
        assert_eq!(refused.field.as_deref(), Some("redact"));
        assert_eq!(refused.detail, "redact=1 is not one of true, false");
    }

    #[test]
    fn what_is_unknown_or_said_twice_is_refused() {
        let read = |query| read(query, &["for", "type"], &["type"]).map_err(|problem| (problem.field, problem.detail));
        let pairs = read("type=a&for=x+y&type=b").unwrap();
        assert_eq!((one(&pairs, "for"), pairs.len()), (Some("x y"), 3));
        let twice = "query parameter for is given twice, as 'empty' and 'room': give it once";
        assert_eq!(read("for=empty&for=room"), Err((Some("for".to_owned()), twice.to_owned())));
        let unknown = "unknown query parameter until=5m; known: for, type";
        assert_eq!(read("until=5m"), Err((Some("until".to_owned()), unknown.to_owned())));
    }
}
