//! The query of a journal request.

use actix_web::{http::StatusCode, web::Query};

use crate::http::problem::Problem;

/// What a reader of the journal wants. Nothing said: all of it, as RFC 44 has it.
#[derive(Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The events so far.
    pub historical: bool,
    /// Those to come.
    pub follow: bool,
}

/// Reads the query; of repeated keys the last one counts.
///
/// # Errors
/// It is no query; a key that does not exist, or a value other than `true` and `false`.
pub fn parse(text: &str) -> Result<Wanted, Problem> {
    let mut wanted = Wanted { historical: true, follow: true };
    let pairs = Query::<Vec<(String, String)>>::from_query(text).map_err(|error| {
        Problem::new(StatusCode::BAD_REQUEST, format!("the query '{text}' cannot be read: {error}"))
    })?;
    for (key, value) in pairs.iter() {
        let (place, field) = match key.as_str() {
            "historical" => (&mut wanted.historical, "historical"),
            "follow" => (&mut wanted.follow, "follow"),
            _ => {
                let detail = format!("query parameter '{key}' does not exist; there are: historical, follow");
                return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
            }
        };
        *place = value.parse().map_err(|_| {
            let detail = format!("{key} is '{value}', but may be true or false only");
            Problem::field(field, detail)
        })?;
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_said_means_history_and_follow() {
        assert_eq!(parse("").unwrap(), Wanted { historical: true, follow: true });
        assert_eq!(parse("historical=false&follow=true").unwrap(), Wanted { historical: false, follow: true });
    }

    #[test]
    fn faults_are_named() {
        assert_eq!(parse("follow=1").unwrap_err().detail, "follow is '1', but may be true or false only");
        let fault = "query parameter 'tail' does not exist; there are: historical, follow";
        assert_eq!(parse("follow=true&tail=1").unwrap_err().detail, fault);
    }
}
