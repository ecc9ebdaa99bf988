//! The query of a journal request.

use actix_web::http::StatusCode;

use super::problem::Problem;

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
/// A key that does not exist, or a value other than `true` and `false`.
pub fn parse(pairs: &[(String, String)]) -> Result<Wanted, Problem> {
    let mut wanted = Wanted { historical: true, follow: true };
    for (key, value) in pairs {
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
            Problem::new(StatusCode::BAD_REQUEST, detail).field(field)
        })?;
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn nothing_said_means_history_and_follow() {
        assert_eq!(parse(&[]).unwrap(), Wanted { historical: true, follow: true });
        let wanted = parse(&pairs(&[("historical", "false"), ("follow", "true")])).unwrap();
        assert_eq!(wanted, Wanted { historical: false, follow: true });
    }

    #[test]
    fn faults_are_named() {
        let fault = |key, value| parse(&pairs(&[(key, value)])).unwrap_err().to_string();
        assert_eq!(fault("follow", "1"), "follow is '1', but may be true or false only");
        assert_eq!(fault("tail", "1"), "query parameter 'tail' does not exist; there are: historical, follow");
    }
}
