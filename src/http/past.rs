//! A server that shows a moment of a flight (`callboard flight serve`): every answer says which, nothing can be changed, and
//! `/api/v1/flight` tells the flight and moves the moment.

use std::{future::Future, pin::Pin};

use actix_web::{
    Error, HttpRequest, HttpResponse,
    body::{BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Method, StatusCode,
        header::{HeaderName, HeaderValue},
    },
    middleware::Next,
    web::{Data, Payload},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    problem::Problem,
    route::{Access, Route},
    routes,
    shim::body,
    ws_v1::{
        reply::{self, Reply},
        url,
    },
};

/// In every answer of such a server: the moment that it shows.
pub const MOMENT: &str = "callboard-moment";
/// The route of the flight.
const PATH: &str = "/api/v1/flight";
/// Longest body, bytes.
const LONGEST: usize = 1 << 10;

/// The number of a record, and its time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "FlightPoint")]
pub struct Point {
    /// Number of the record after which it is.
    pub index: u64,
    /// Time of the record, RFC 3339 in UTC.
    pub time: String,
}

/// A flight, and the moment of it that is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Flight")]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    /// Resource manager.
    #[serde(rename = "rmID")]
    pub rm: String,
    /// Names of users, groups, applications and tags are others.
    pub redacted: bool,
    /// The first moment.
    pub first: Point,
    /// The last one.
    pub last: Point,
    /// The one that is shown.
    pub moment: Point,
    /// From this record on it leads to something else than it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub differs: Option<u64>,
    /// Why it ends there, where that is not its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends: Option<String>,
}

/// The moment that is wanted: one of both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "FlightMoment")]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// After the record of this number, or the last one before it.
    #[serde(default)]
    pub index: Option<u64>,
    /// At this time, RFC 3339.
    #[serde(default)]
    pub time: Option<String>,
}

/// What moves the moment.
pub type Moved<'a> = Pin<Box<dyn Future<Output = Result<Shown, String>> + Send + 'a>>;

/// The flight that a server shows.
pub trait Past: Send + Sync {
    /// How it is shown now.
    fn shown(&self) -> Shown;
    /// Shows another moment, the nearest that there is. The error says what of the wish is wrong.
    fn go_to(&self, wanted: Wanted) -> Moved<'_>;
}

/// The flight that is shown.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Access::Viewer
            .get(PATH)
            .to(get, "The flight that a server shows (callboard flight serve), and which moment of it")
            .gives::<Shown>(200)
            .problems(&[404]),
        Access::Operator
            .post(PATH)
            .to(post, "Shows another moment of the flight")
            .takes::<Wanted>()
            .gives::<Shown>(200)
            .problems(&[400, 404, 408, 413, 415]),
    ]
}

fn past(request: &HttpRequest) -> Result<Data<dyn Past>, Problem> {
    request.app_data::<Data<dyn Past>>().cloned().ok_or_else(|| {
        let detail = "this server shows the present: callboard flight serve shows moments of the past";
        Problem::new(StatusCode::NOT_FOUND, detail)
    })
}

async fn get(request: HttpRequest) -> Result<HttpResponse, Problem> {
    let past = past(&request)?;
    Ok(reply::send(&request, Reply::json(&past.shown())))
}

async fn post(request: HttpRequest, payload: Payload) -> Result<HttpResponse, Problem> {
    let (past, payload) = body::unless(past(&request), payload).await?;
    let bytes = body::short(&request, payload, LONGEST).await?;
    let wrong = |why: String| {
        let form = r#"{"index": 1234} or {"time": "2026-11-21T02:13:00Z"}"#;
        Problem::new(StatusCode::BAD_REQUEST, format!("the body is to be {form}: {why}"))
    };
    let body::Object(wanted) =
        serde_json::from_slice::<body::Object<Wanted>>(&bytes).map_err(|error| wrong(error.to_string()))?;
    if wanted.index.is_some() == wanted.time.is_some() {
        return Err(wrong("one of both is wanted".to_owned()));
    }
    let shown = past.go_to(wanted).await.map_err(wrong)?;
    Ok(reply::send(&request, Reply::json(&shown)))
}

/// Where a server shows the past: nothing is changed, and every answer says which moment it is.
pub async fn gate(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let Some(past) = request.app_data::<Data<dyn Past>>().cloned() else {
        return next.call(request).await.map(ServiceResponse::map_into_boxed_body);
    };
    let before = past.shown().moment;
    let mut answer = match refusal(request.method(), &url::plain(request.uri().path()), &before) {
        Some(problem) => {
            let (request, _payload) = request.into_parts();
            ServiceResponse::new(request, actix_web::ResponseError::error_response(&problem)).map_into_boxed_body()
        }
        None => next.call(request).await?.map_into_boxed_body(),
    };
    let Point { index, time } = past.shown().moment;
    if let Ok(value) = HeaderValue::from_str(&format!("index={index}; time={time}")) {
        answer.headers_mut().insert(HeaderName::from_static(MOMENT), value);
    }
    Ok(answer)
}

/// What would change something, or belongs to the present.
fn refusal(method: &Method, path: &str, at: &Point) -> Option<Problem> {
    let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    let of_shims = path == "/si" || path.starts_with("/si/");
    if (reads && !of_shims) || path == PATH || routes::is_trial(method, path) {
        return None;
    }
    let why = match reads {
        true => "sessions of shims are not in it, /api/v1/overview has its partitions",
        false => "nothing can be changed in it",
    };
    let detail = format!("this is the past, {} (after record {}): {why}", at.time, at.index);
    Some(Problem::new(StatusCode::CONFLICT, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changes_nothing_is_let_in() {
        let at = Point { index: 7, time: "2026-11-21T02:13:00Z".to_owned() };
        let refused = |method: &Method, path: &str| refusal(method, path, &at);
        for (method, path) in
            [(Method::GET, "/"), (Method::HEAD, "/ws/v1/queues"), (Method::POST, PATH), (Method::POST, "/api/v1/plan")]
        {
            assert!(refused(&method, path).is_none(), "{path}");
        }
        for (method, path) in [
            (Method::POST, "/si/v1/rm"),
            (Method::GET, "/si/v1/rm/rm-1/stream"),
            (Method::PUT, "/ws/v1/config"),
            (Method::POST, "/api/v1/partition/default/resource/drain"),
            (Method::DELETE, "/api/v1/x"),
        ] {
            let problem = refused(&method, path).expect("refused");
            assert!(problem.status == StatusCode::CONFLICT && problem.detail.contains("after record 7"), "{path}");
            let why = if method == Method::GET { "sessions of shims" } else { "nothing can be changed" };
            assert!(problem.detail.contains(why), "{path}: {}", problem.detail);
        }
    }
}
