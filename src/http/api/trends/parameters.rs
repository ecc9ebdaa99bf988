//! What is asked of trends.

use actix_web::HttpRequest;

use crate::{
    domain::types::Nanos,
    http::{
        api::time,
        problem::Problem,
        shim::query::{one, parameters},
        ws_v1::state::now,
    },
};

/// Steps of an answer, where none are asked for, and at most.
const STEPS: i64 = 240;
const MOST: i64 = 2_000;

/// The kinds of things that have a usage over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// All of it.
    Partition,
    /// A queue and those below it.
    Queue,
    /// A user.
    User,
    /// A group.
    Group,
    /// A node.
    Node,
}

impl Of {
    /// All of them, by their names.
    pub const ALL: [(&str, Of); 5] = [
        ("partition", Of::Partition),
        ("queue", Of::Queue),
        ("user", Of::User),
        ("group", Of::Group),
        ("node", Of::Node),
    ];
}

/// See the module.
#[derive(Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The kind of thing that is asked about.
    pub of: Of,
    /// Its name.
    pub name: String,
    /// For a user or group: in this queue and those below it.
    pub queue: String,
    since: Nanos,
    until: Nanos,
    step: Nanos,
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
        let given = parameters(request, &["of", "name", "queue", "since", "until", "step"])?;
        let known = Of::ALL.map(|(name, _)| name).join(", ");
        let of = one(&given, "of").unwrap_or("partition");
        let found = Of::ALL.into_iter().find(|(name, _)| *name == of);
        let (_, of) = found.ok_or_else(|| Problem::field("of", format!("of \"{of}\" is not one of {known}")))?;
        let name = one(&given, "name").unwrap_or_default().to_owned();
        if name.is_empty() && of != Of::Partition {
            return Err(Problem::field("name", "name is missing: whose trends are wanted?"));
        }
        // Queues go by lowercase names.
        let name = if of == Of::Queue { name.to_lowercase() } else { name };
        let queue = one(&given, "queue").unwrap_or("root").to_lowercase();
        let moment = |field| one(&given, field).map(|text| time::moment(field, text, now)).transpose();
        let until = moment("until")?.unwrap_or(now).min(now);
        let since = moment("since")?.unwrap_or(until.minus(Nanos::from_secs(3_600)));
        if since >= until {
            return Err(Problem::field("since", "since is not earlier than until, or than now"));
        }
        let length = until.minus(since).0;
        let step = match one(&given, "step") {
            None => Nanos((length / STEPS).max(1)),
            Some(text) => time::length(text).filter(|step| *step > Nanos::ZERO).ok_or_else(|| {
                Problem::field("step", format!("step \"{text}\" is not a duration above 0 such as 10s or 1h"))
            })?,
        };
        if length / step.0 >= MOST {
            let detail = format!("this makes {} steps, and {MOST} are the most: choose longer steps", length / step.0);
            return Err(Problem::field("step", detail));
        }
        Ok(Wanted { of, name, queue, since, until, step })
    }

    /// Where steps begin and end; the last one may be shorter.
    pub fn times(&self) -> Vec<Nanos> {
        let count = self.until.minus(self.since).0 / self.step.0;
        let mut times: Vec<Nanos> =
            (0..=count).map(|step| self.since.plus(Nanos(self.step.0.saturating_mul(step)))).collect();
        if times.last().is_none_or(|last| *last < self.until) {
            times.push(self.until);
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    const NOW: Nanos = Nanos::from_secs(10_000_000);

    fn read(query: &str) -> Result<Wanted, (Option<String>, String)> {
        let request = TestRequest::with_uri(&format!("/trends{query}")).to_http_request();
        Wanted::read_at(&request, NOW).map_err(|problem| (problem.field, problem.detail))
    }

    #[test]
    fn all_of_it() {
        let wanted = read("?of=user&name=Eve&queue=root.A&since=90s&until=10s&step=30s").unwrap();
        assert_eq!((wanted.of, &*wanted.name, &*wanted.queue), (Of::User, "Eve", "root.a"));
        let ago = |seconds| NOW.minus(Nanos::from_secs(seconds));
        assert_eq!(wanted.times(), [ago(90), ago(60), ago(30), ago(10)]);
        let least = read("").unwrap();
        assert_eq!((least.of, least.times().len()), (Of::Partition, 241));
        assert_eq!(least.times().last(), Some(&NOW));
    }

    #[test]
    fn errors_name_parameter_value_and_way_out() {
        for (query, field, text) in [
            ("?of=app", "of", "of \"app\" is not one of partition, queue, user, group, node"),
            ("?of=queue", "name", "name is missing"),
            ("?since=x", "since", "since \"x\" is not a time such as"),
            ("?since=1h&until=2h", "since", "is not earlier than until"),
            ("?step=0s", "step", "\"0s\" is not a duration above 0"),
            ("?since=7d&step=1s", "step", "604800 steps, and 2000 are the most"),
            ("?who=x", "who", "unknown query parameter who=x; known: of, name"),
        ] {
            let (named, detail) = read(query).unwrap_err();
            assert!(named.as_deref() == Some(field) && detail.contains(text), "{query}: {named:?} {detail}");
        }
    }
}
