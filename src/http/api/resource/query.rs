//! The query of a journal request.

use crate::{
    http::{problem::Problem, shim::query},
    messages::journal::Attach,
};

/// Reads the query. Nothing said: all of it, as RFC 44 has it.
///
/// # Errors
/// It is no query; a key that does not exist or is given twice, or a value other than `true` and `false`.
pub fn parse(text: &str) -> Result<Attach, Problem> {
    let given = query::read(text, &["historical", "follow"], &[])?;
    let flag = |key: &str| match query::one(&given, key) {
        None => Ok(true),
        Some(value) => {
            value.parse().map_err(|_| Problem::field(key, format!("{key} is '{value}', but may be true or false only")))
        }
    };
    Ok(Attach { historical: flag("historical")?, follow: flag("follow")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_said_means_history_and_follow() {
        assert_eq!(parse("").unwrap(), Attach { historical: true, follow: true });
        assert_eq!(parse("historical=false&follow=true").unwrap(), Attach { historical: false, follow: true });
    }

    #[test]
    fn faults_are_named() {
        assert_eq!(parse("follow=1").unwrap_err().detail, "follow is '1', but may be true or false only");
        let fault = "unknown query parameter tail=1; known: historical, follow";
        assert_eq!(parse("follow=true&tail=1").unwrap_err().detail, fault);
    }
}
