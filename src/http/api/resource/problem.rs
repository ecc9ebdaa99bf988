//! Errors as `application/problem+json` (RFC 9457).

use std::fmt;

use actix::MailboxError;
use actix_web::{HttpResponse, ResponseError, http::StatusCode};
use serde::Serialize;

/// What went wrong with a request.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    detail: String,
    field: Option<&'static str>,
}

#[derive(Serialize)]
struct Body<'a> {
    r#type: &'a str,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
}

impl Problem {
    /// A problem of a status, with the text for people.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        Problem { status, detail: detail.into(), field: None }
    }

    /// Names the field at fault.
    pub fn field(mut self, field: &'static str) -> Problem {
        self.field = Some(field);
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        self.status
    }

    fn error_response(&self) -> HttpResponse {
        let body = Body {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: &self.detail,
            field: self.field,
        };
        // Text and numbers only: this cannot fail.
        let body = serde_json::to_string(&body).unwrap_or_default();
        HttpResponse::build(self.status).content_type("application/problem+json").body(body)
    }
}

/// The actor that would answer has ended.
pub fn gone(_: MailboxError) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the partition is being stopped; try again")
}
