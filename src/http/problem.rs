//! Errors of the HTTP doors: `application/problem+json` (RFC 9457).

use std::{fmt, sync::Arc};

use actix_web::{
    HttpRequest, HttpResponse, Responder, ResponseError,
    body::BoxBody,
    error::BlockingError,
    http::{StatusCode, header},
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    actors::topology::Refusals,
    config::Fault,
    messages::{
        leaders::Leader,
        places::Busy,
        rm::{Refusal, RefusalKind, bounded},
    },
    si::{decode::Malformed, intake},
};

/// The address of the server that leads a resource manager.
pub const LEADER: &str = "callboard-leader";

/// An error answer.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Status of the HTTP answer.
    pub status: StatusCode,
    /// What is wrong, with the value at fault.
    pub detail: String,
    /// The field at fault.
    pub field: Option<String>,
    /// All faults of a refused configuration.
    pub faults: Vec<Fault>,
    /// Methods that the path knows (405).
    pub allow: Option<Arc<str>>,
    /// Why its sender was not let in, as metrics name it (401, 403).
    pub denied: Option<&'static str>,
    /// The server that takes the call (307).
    pub leader: Option<Arc<Leader>>,
}

/// The answer.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct Body<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Error<'a>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ConfigurationFault")]
struct Error<'a> {
    line: usize,
    column: usize,
    rule: &'static str,
    message: &'a str,
}

impl Problem {
    /// An error with this text.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        Problem {
            status,
            detail: bounded(detail.into()),
            field: None,
            faults: Vec::new(),
            allow: None,
            denied: None,
            leader: None,
        }
    }

    /// 400 for a field.
    pub fn field(field: &str, detail: impl Into<String>) -> Problem {
        Problem { field: Some(field.to_owned()), ..Problem::new(StatusCode::BAD_REQUEST, detail) }
    }

    /// A text of a request may have so many bytes.
    ///
    /// # Errors
    /// 400 for the field: it has more.
    pub fn check_length(field: &str, text: &str, most: usize) -> Result<(), Problem> {
        if text.len() <= most {
            return Ok(());
        }
        Err(Problem::field(field, format!("{field} has {} bytes: at most {most} are allowed", text.len())))
    }

    /// The JSON text.
    pub fn json(&self) -> String {
        let mut errors = Vec::with_capacity(self.faults.len());
        for Fault { line, column, rule, message } in &self.faults {
            errors.push(Error { line: *line, column: *column, rule, message });
        }
        let body = Body {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: &self.detail,
            field: self.field.as_deref(),
            errors,
        };
        // Plain texts and numbers: nothing that JSON cannot hold.
        serde_json::to_string(&body).unwrap_or_default()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status, self.detail)
    }
}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        self.status
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status);
        response.insert_header((header::CONTENT_TYPE, "application/problem+json"));
        if self.status == StatusCode::TOO_MANY_REQUESTS || self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.insert_header((header::RETRY_AFTER, "1"));
        }
        if let Some(allow) = &self.allow {
            response.insert_header((header::ALLOW, &**allow));
        }
        if let Some(leader) = self.leader.as_ref().filter(|leader| !leader.http.is_empty()) {
            // The address with the path of the request follows where that is known (`server::locate`).
            response.insert_header((LEADER, leader.http.as_str()));
        }
        response.body(self.json())
    }
}

impl Responder for Problem {
    type Body = BoxBody;

    fn respond_to(self, _request: &HttpRequest) -> HttpResponse {
        self.error_response()
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        let status = match refusal.kind {
            RefusalKind::Unknown => StatusCode::NOT_FOUND,
            RefusalKind::State | RefusalKind::Epoch => StatusCode::CONFLICT,
            RefusalKind::Invalid => StatusCode::BAD_REQUEST,
            RefusalKind::Gone => StatusCode::GONE,
            RefusalKind::Key => StatusCode::UNPROCESSABLE_ENTITY,
            RefusalKind::Busy => StatusCode::TOO_MANY_REQUESTS,
            RefusalKind::Closing => StatusCode::SERVICE_UNAVAILABLE,
            // Without an address there is nowhere to send it to.
            RefusalKind::Moved => match &refusal.leader {
                Some(leader) if !leader.http.is_empty() => StatusCode::TEMPORARY_REDIRECT,
                _ => StatusCode::SERVICE_UNAVAILABLE,
            },
        };
        Problem { leader: refusal.leader, ..Problem::new(status, refusal.detail) }
    }
}

impl From<BlockingError> for Problem {
    fn from(_: BlockingError) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down")
    }
}

impl From<Busy> for Problem {
    fn from(busy: Busy) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, busy.to_string())
    }
}

impl From<Refusals> for Problem {
    fn from(refusals: Refusals) -> Problem {
        match refusals {
            Refusals::Config(refused) => {
                let problem = Problem::field("config", refused.message);
                Problem { faults: refused.faults, ..problem }
            }
            Refusals::Other(refusal) => refusal.into(),
        }
    }
}

impl From<intake::Fault> for Problem {
    fn from(fault: intake::Fault) -> Problem {
        match fault {
            intake::Fault::Malformed(malformed) => malformed.into(),
            intake::Fault::Large(detail) => Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail),
        }
    }
}

impl From<Malformed> for Problem {
    fn from(malformed: Malformed) -> Problem {
        Problem { field: malformed.field, ..Problem::new(StatusCode::BAD_REQUEST, malformed.detail) }
    }
}
