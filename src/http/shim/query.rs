//! Query parameters: few, and unknown ones are an error that names them.

use actix_web::HttpRequest;

use crate::http::problem::Problem;

/// The parameters of a request, all of which are among `known`.
pub fn parameters(request: &HttpRequest, known: &[&str]) -> Result<Vec<(String, String)>, Problem> {
    let parsed = actix_web::web::Query::<Vec<(String, String)>>::from_query(request.query_string());
    let pairs = parsed.map_err(|error| Problem::field("query", format!("unreadable query: {error}")))?.into_inner();
    if let Some((name, value)) = pairs.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        let known =
            if known.is_empty() { "none is known here".to_owned() } else { format!("known: {}", known.join(", ")) };
        return Err(Problem::field(name, format!("unknown query parameter {name}={value}; {known}")));
    }
    Ok(pairs)
}

/// One of them, the last where it is given twice.
pub fn one<'a>(parameters: &'a [(String, String)], name: &str) -> Option<&'a str> {
    parameters.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}
