//! What a reader of the log asks for.

use actix_web::HttpRequest;

use crate::{
    domain::{
        event::{Event, EventKind, ORDERED},
        types::Nanos,
    },
    http::{
        api::time,
        problem::Problem,
        shim::query::{self, one},
        ws_v1::{state::now, time_text},
    },
};

/// Events that `last` may ask for.
const MOST: usize = 10_000;

/// See the module.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// First id; without one the oldest that is kept, or the next one for a follower.
    pub from: Option<u64>,
    /// Number of events.
    pub count: Option<u64>,
    /// The last so many before `before`, instead of the first.
    pub last: Option<usize>,
    /// Older ones than this id.
    pub before: Option<u64>,
    /// New events too, for ever.
    pub follow: bool,
    /// Those of the log of this resource manager, by its ids.
    pub rm: Option<String>,
    /// Which events.
    pub filter: Filter,
}

/// Which events are wanted: those that fit every part that is given.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The object, or the second object.
    pub object: Option<String>,
    /// Of queues below it too.
    pub children: bool,
    /// One of these kinds; empty for all.
    pub kinds: Vec<EventKind>,
    /// Of this time or later.
    pub since: Option<Nanos>,
    /// Of this time or earlier.
    pub until: Option<Nanos>,
}

impl Filter {
    /// Everything is wanted.
    pub fn is_empty(&self) -> bool {
        *self == Filter::default()
    }

    /// This event is wanted.
    pub fn wants(&self, event: &Event) -> bool {
        self.object.as_ref().is_none_or(|object| self.is(object, &event.object) || self.is(object, &event.reference))
            && (self.kinds.is_empty() || self.kinds.contains(&event.kind))
            && self.since.is_none_or(|since| event.at >= since)
            && self.until.is_none_or(|until| event.at <= until)
    }

    fn is(&self, wanted: &str, object: &str) -> bool {
        object == wanted
            || self.children
                && wanted.split('.').next() == Some("root")
                && object.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('.'))
    }

    /// Neither this event nor any after it is wanted.
    pub fn is_over(&self, event: &Event) -> bool {
        self.until.is_some_and(|until| event.at > until.plus(ORDERED))
    }
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
        let known = ["from", "count", "last", "before", "follow", "object", "children", "type", "since", "until", "rm"];
        let given = query::read(request.query_string(), &known, &["type"])?;
        let moment = |field| one(&given, field).map(|text| time::moment(field, text, now)).transpose();
        let wanted = Wanted {
            from: one(&given, "from").map(|text| number("from", text)).transpose()?,
            count: one(&given, "count").map(count).transpose()?,
            last: one(&given, "last").map(last).transpose()?,
            before: one(&given, "before").map(|text| number("before", text)).transpose()?,
            follow: flag(&given, "follow")?,
            rm: one(&given, "rm").map(str::to_owned),
            filter: Filter {
                object: one(&given, "object").map(str::to_owned),
                children: flag(&given, "children")?,
                kinds: kinds(&given)?,
                since: moment("since")?,
                until: moment("until")?,
            },
        };
        wanted.check()?;
        Ok(wanted)
    }

    /// The parameters fit together.
    fn check(&self) -> Result<(), Problem> {
        let no = |field: &str, detail: &str| Err(Problem::field(field, detail));
        match self {
            Wanted { last: Some(_), from: Some(_), .. } => {
                no("last", "last counts back from before: leave out from, or give count instead")
            }
            Wanted { last: Some(_), count: Some(_), .. } => no("last", "give last or count, not both"),
            Wanted { last: Some(_), follow: true, .. } => {
                no("last", "last does not follow: read on with from and the next that the last line names")
            }
            // Every event without a second object would have it.
            Wanted { filter: Filter { object: Some(object), .. }, .. } if object.is_empty() => {
                no("object", "object is empty: name one, or leave it out for all")
            }
            Wanted { last: None, before: Some(_), .. } => no("before", "before needs last, such as last=200"),
            Wanted { filter: Filter { since: Some(since), until: Some(until), .. }, .. } if since > until => {
                no("since", &format!("since {} is later than until {}", time_text(*since), time_text(*until)))
            }
            Wanted { follow: true, filter: Filter { until: Some(_), .. }, .. } => {
                no("until", "follow goes on for ever: leave out until")
            }
            _ => Ok(()),
        }
    }
}

fn flag(given: &[(String, String)], field: &str) -> Result<bool, Problem> {
    match one(given, field) {
        None | Some("false") => Ok(false),
        Some("true" | "") => Ok(true),
        Some(other) => Err(Problem::field(field, format!("{field} \"{other}\" is neither true nor false"))),
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

fn last(text: &str) -> Result<usize, Problem> {
    let number = usize::try_from(number("last", text)?).ok().filter(|last| (1..=MOST).contains(last));
    number.ok_or_else(|| Problem::field("last", format!("last is {text}; it may be 1 to {MOST}")))
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
            last: None,
            before: None,
            follow: true,
            rm: Some("rm-1".into()),
            filter: Filter {
                object: Some("root.a b".into()),
                children: true,
                kinds: vec![EventKind::App, EventKind::UserGroup, EventKind::Node],
                since: Some(Nanos::from_secs(1_000_000 - 90)),
                until: None,
            },
        };
        let query = "?rm=rm-1&from=0&count=7&follow=true&object=root.a%20b&children=true&type=app,USERGROUP&type=Node&since=1m30s";
        assert_eq!(read(query), Ok(wanted));
        let since = read("?since=1970-01-02T00:00:00.5%2B01:00").unwrap().filter.since;
        assert_eq!(since, Some(Nanos::from_millis(23 * 3_600_000 + 500)));
        let last = read("?last=200&before=900&until=1m").unwrap();
        assert_eq!((last.last, last.before), (Some(200), Some(900)));
        assert_eq!(last.filter.until, Some(Nanos::from_secs(1_000_000 - 60)));
    }

    #[test]
    fn a_queue_has_children() {
        let filter = |object: &str, children| Filter { object: Some(object.into()), children, ..Filter::default() };
        let is = |filter: &Filter, name: &str| filter.is(filter.object.as_deref().unwrap(), name);
        assert!(is(&filter("root.a", true), "root.a.b") && is(&filter("root.a", true), "root.a"));
        assert!(!is(&filter("root.a", true), "root.ab") && !is(&filter("root.a", false), "root.a.b"));
        assert!(!is(&filter("app", true), "app.1"), "an application has none by name");
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
            ("?children=1", "children", "\"1\" is neither true nor false"),
            ("?type=app,pod", "type", "\"pod\" is not one of REQUEST, APP, NODE, QUEUE, USERGROUP"),
            ("?since=yesterday", "since", "\"yesterday\" is not a time such as"),
            ("?since=-5m", "since", "is not a time such as"),
            ("?last=0", "last", "last is 0; it may be 1 to 10000"),
            ("?last=10001", "last", "it may be 1 to 10000"),
            ("?last=5&from=3", "last", "leave out from"),
            ("?last=5&count=3", "last", "give last or count"),
            ("?last=5&follow=true", "last", "last does not follow"),
            ("?before=5", "before", "before needs last"),
            ("?since=1h&until=2h", "since", "is later than until"),
            ("?follow=true&until=5m", "until", "leave out until"),
            ("?from=1&from=5", "from", "is given twice, as '1' and '5'"),
            ("?start=5", "start", "unknown query parameter start=5; known: from, count"),
        ] {
            let (named, detail) = read(query).unwrap_err();
            assert!(named.as_deref() == Some(field) && detail.contains(value), "{query}: {named:?} {detail}");
        }
    }
}
