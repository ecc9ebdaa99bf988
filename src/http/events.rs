//! `/ws/v1/events/batch` and `/ws/v1/events/stream`.

use actix::Addr;
use actix_web::{HttpRequest, HttpResponse};

use crate::actors::event::EventActor;

/// A page of the ring.
pub async fn batch(_req: &HttpRequest, _events: &Addr<EventActor>) -> HttpResponse {
    HttpResponse::NotImplemented().finish()
}

/// An endless stream of JSON lines.
pub async fn stream(_req: &HttpRequest, _events: &Addr<EventActor>) -> HttpResponse {
    HttpResponse::NotImplemented().finish()
}
