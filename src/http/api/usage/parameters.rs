//! What is asked of the history of usage.

use std::sync::Arc;

use actix_web::HttpRequest;

use crate::{
    domain::{types::Nanos, usage::By},
    http::{
        api::time,
        problem::Problem,
        shim::query::{one, parameters},
        ws_v1::{state::now, time_text},
    },
};

/// Steps in an answer at most.
const STEPS: i64 = 10_000;

/// See the module.
#[derive(Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Whose usage.
    pub by: By,
    /// In this queue and those below it.
    pub queue: Option<Arc<str>>,
    /// From when on; `None` for as far back as is known.
    pub since: Option<Nanos>,
    /// Until when.
    pub until: Nanos,
    /// In steps of this length.
    pub step: Option<Nanos>,
}

impl Wanted {
    /// Reads the parameters of a request.
    ///
    /// # Errors
    /// Names the parameter, its value and what may be given.
    pub fn read(request: &HttpRequest) -> Result<Wanted, Problem> {
        Wanted::read_at(request, now())
    }

    fn read_at(request: &HttpRequest, now: Nanos) -> Result<Wanted, Problem> {
        let given = parameters(request, &["by", "queue", "since", "until", "step"])?;
        let known = By::ALL.map(By::name).join(", ");
        let by =
            one(&given, "by").ok_or_else(|| Problem::field("by", format!("by is missing; it is one of {known}")))?;
        let named = By::ALL.into_iter().find(|known| known.name() == by);
        let by = named.ok_or_else(|| Problem::field("by", format!("by \"{by}\" is not one of {known}")))?;
        let moment = |field| one(&given, field).map(|text| time::moment(field, text, now)).transpose();
        let (since, until) = (moment("since")?, moment("until")?.unwrap_or(now).min(now));
        if let Some(since) = since.filter(|since| *since > until) {
            let detail = format!("since {} is later than until {}", time_text(since), time_text(until));
            return Err(Problem::field("since", detail));
        }
        let step = one(&given, "step").map(|text| step(text, since, until)).transpose()?;
        // Queues go by lowercase names.
        let queue = one(&given, "queue").map(|queue| queue.to_lowercase().into());
        Ok(Wanted { by, queue, since, until, step })
    }
}

fn step(text: &str, since: Option<Nanos>, until: Nanos) -> Result<Nanos, Problem> {
    let step = time::length(text)
        .filter(|step| *step > Nanos::ZERO)
        .ok_or_else(|| Problem::field("step", format!("step \"{text}\" is not a duration above 0 such as 1h or 1d")))?;
    let Some(since) = since else {
        return Err(Problem::field("step", format!("step {text} needs since, such as since=7d")));
    };
    let steps = until.minus(since).0 / step.0;
    if steps > STEPS {
        let detail = format!("step {text} makes {steps} steps, and {STEPS} are the most: choose longer steps");
        return Err(Problem::field("step", detail));
    }
    Ok(step)
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    const NOW: Nanos = Nanos::from_secs(10_000_000);

    fn read(query: &str) -> Result<Wanted, (Option<String>, String)> {
        let request = TestRequest::with_uri(&format!("/history{query}")).to_http_request();
        Wanted::read_at(&request, NOW).map_err(|problem| (problem.field, problem.detail))
    }

    #[test]
    fn all_of_it() {
        let day = Nanos::from_secs(86_400);
        let wanted = Wanted {
            by: By::Group,
            queue: Some("root.a".into()),
            since: Some(NOW.minus(Nanos::from_secs(7 * 86_400))),
            until: NOW.minus(day),
            step: Some(day),
        };
        assert_eq!(read("?by=group&queue=root.A&since=7d&until=1d&step=1d"), Ok(wanted));
        let least = Wanted { by: By::User, queue: None, since: None, until: NOW, step: None };
        assert_eq!(read("?by=user"), Ok(least));
        // Nothing is known of the future.
        assert_eq!(read("?by=queue&until=2100-01-01T00:00:00Z").unwrap().until, NOW);
    }

    #[test]
    fn errors_name_parameter_value_and_way_out() {
        for (query, field, text) in [
            ("", "by", "by is missing; it is one of user, group, queue"),
            ("?by=node", "by", "by \"node\" is not one of user, group, queue"),
            ("?by=user&since=x", "since", "since \"x\" is not a time such as"),
            ("?by=user&until=-1h", "until", "until \"-1h\" is not a time"),
            ("?by=user&since=1h&until=2h", "since", "is later than until"),
            ("?by=user&since=1h&step=0s", "step", "\"0s\" is not a duration above 0"),
            ("?by=user&step=1h", "step", "step 1h needs since"),
            ("?by=user&since=7d&step=1s", "step", "step 1s makes 604800 steps, and 10000 are the most"),
            ("?by=user&user=x", "user", "unknown query parameter user=x; known: by, queue, since, until, step"),
        ] {
            let (named, detail) = read(query).unwrap_err();
            assert!(named.as_deref() == Some(field) && detail.contains(text), "{query}: {named:?} {detail}");
        }
    }
}
