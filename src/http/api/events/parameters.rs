//! What a reader of the log asks for.

use std::time::{SystemTime, UNIX_EPOCH};

use actix_web::HttpRequest;

use crate::{
    domain::{
        event::{Event, EventKind},
        types::Nanos,
    },
    http::{
        api::time,
        problem::Problem,
        shim::query::{one, parameters},
    },
};

/// See the module.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// First id; without one the oldest that is kept, or the next one for a follower.
    pub from: Option<u64>,
    /// Number of events.
    pub count: Option<u64>,
    /// New events too, for ever.
    pub follow: bool,
    /// Which events.
    pub filter: Filter,
}

/// Which events are wanted: those that fit every part that is given.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The object, or the second object.
    pub object: Option<String>,
    /// One of these kinds; empty for all.
    pub kinds: Vec<EventKind>,
    /// Of this time or later.
    pub since: Option<Nanos>,
}

impl Filter {
    /// Everything is wanted.
    pub fn is_empty(&self) -> bool {
        *self == Filter::default()
    }

    /// This event is wanted.
    pub fn wants(&self, event: &Event) -> bool {
        self.object.as_ref().is_none_or(|object| **object == *event.object || **object == *event.reference)
            && (self.kinds.is_empty() || self.kinds.contains(&event.kind))
            && self.since.is_none_or(|since| event.at >= since)
    }
}

impl Wanted {
    /// Reads the parameters of a request.
    ///
    /// # Errors
    /// Names the parameter, its value and what may be given.
    pub fn read(request: &HttpRequest) -> Result<Wanted, Problem> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Wanted::read_at(request, Nanos(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)))
    }

    fn read_at(request: &HttpRequest, now: Nanos) -> Result<Wanted, Problem> {
        let given = parameters(request, &["from", "count", "follow", "object", "type", "since"])?;
        Ok(Wanted {
            from: one(&given, "from").map(|text| number("from", text)).transpose()?,
            count: one(&given, "count").map(count).transpose()?,
            follow: match one(&given, "follow") {
                None | Some("false") => false,
                Some("true" | "") => true,
                Some(other) => {
                    return Err(Problem::field("follow", format!("follow \"{other}\" is neither true nor false")));
                }
            },
            filter: Filter {
                object: one(&given, "object").map(str::to_owned),
                kinds: kinds(&given)?,
                since: one(&given, "since").map(|text| time::moment("since", text, now)).transpose()?,
            },
        })
    }
}

fn number(field: &str, text: &str) -> Result<u64, Problem> {
    let number = text.parse().ok().filter(|_| !text.starts_with('+'));
    number.ok_or_else(|| Problem::field(field, format!("{field} \"{text}\" is not a number from 0 to {}", u64::MAX)))
}

fn count(text: &str) -> Result<u64, Problem> {
    match number("count", text)? {
        0 => Err(Problem::field("count", "count \"0\" asks for nothing: give 1 or more, or leave it out for all")),
        count => Ok(count),
    }
}

fn kinds(given: &[(String, String)]) -> Result<Vec<EventKind>, Problem> {
    let texts = given.iter().filter(|(name, _)| name == "type").flat_map(|(_, value)| value.split(','));
    let kind = |text: &str| {
        let kind = EventKind::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(text));
        kind.ok_or_else(|| {
            let known = EventKind::ALL.map(EventKind::name).join(", ");
            Problem::field("type", format!("type \"{text}\" is not one of {known}"))
        })
    };
    texts.map(kind).collect()
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    const NOW: Nanos = Nanos::from_secs(1_000_000);

    fn read(query: &str) -> Result<Wanted, (Option<String>, String)> {
        let request = TestRequest::with_uri(&format!("/api/v1/events{query}")).to_http_request();
        Wanted::read_at(&request, NOW).map_err(|problem| (problem.field, problem.detail))
    }

    #[test]
    fn everything_may_be_left_out() {
        assert_eq!(read(""), Ok(Wanted::default()));
        assert!(Wanted::default().filter.is_empty());
    }

    #[test]
    fn everything_may_be_given() {
        let wanted = Wanted {
            from: Some(0),
            count: Some(7),
            follow: true,
            filter: Filter {
                object: Some("root.a b".into()),
                kinds: vec![EventKind::App, EventKind::UserGroup, EventKind::Node],
                since: Some(Nanos::from_secs(1_000_000 - 90)),
            },
        };
        let query = "?from=0&count=7&follow=true&object=root.a%20b&type=app,USERGROUP&type=Node&since=1m30s";
        assert_eq!(read(query), Ok(wanted));
        let since = read("?since=1970-01-02T00:00:00.5%2B01:00").unwrap().filter.since;
        assert_eq!(since, Some(Nanos::from_millis(23 * 3_600_000 + 500)));
    }

    #[test]
    fn errors_name_parameter_value_and_way_out() {
        for (query, field, value) in [
            ("?from=x", "from", "\"x\" is not a number from 0 to 18446744073709551615"),
            ("?from=-1", "from", "\"-1\" is not"),
            ("?from=+1", "from", "is not a number"),
            ("?count=0", "count", "give 1 or more"),
            ("?count=", "count", "\"\" is not a number"),
            ("?follow=yes", "follow", "\"yes\" is neither true nor false"),
            ("?type=app,pod", "type", "\"pod\" is not one of REQUEST, APP, NODE, QUEUE, USERGROUP"),
            ("?since=yesterday", "since", "\"yesterday\" is not a time such as"),
            ("?since=-5m", "since", "is not a time such as"),
            ("?start=5", "start", "unknown query parameter start=5; known: from, count"),
        ] {
            let (named, detail) = read(query).unwrap_err();
            assert!(named.as_deref() == Some(field) && detail.contains(value), "{query}: {named:?} {detail}");
        }
    }
}
