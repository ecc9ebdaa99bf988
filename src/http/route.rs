//! One method of one path: who may use it, what handles it, and how it is described.
//!
//! Each part of the doors says its routes once, beside their handlers; `routes` has them all. Registration, the guard and the
//! OpenAPI document read that list, so a path that is in one of them only cannot be.

use std::sync::Arc;

use actix_web::{
    FromRequest, Handler, Responder,
    http::{Method, StatusCode},
    web::{self, ServiceConfig},
};
use schemars::SchemaGenerator;
use serde_json::Value;

use super::{
    operation::{self, Schema},
    problem::Problem,
};
use crate::access::Role;

/// Who may use a route of a server that has tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody: it has no data.
    Open,
    /// Whoever reads.
    Viewer,
    /// The shim of the resource manager in the path, where there is one.
    Shim,
    /// Whoever may change the configuration of that resource manager.
    Configure,
    /// Operators: who may drain nodes and stop queues.
    Operator,
}

impl Access {
    /// A place that takes a method.
    pub fn at(self, method: Method, path: &'static str) -> Place {
        Place { method, path, access: self }
    }

    /// One that takes `GET`.
    pub fn get(self, path: &'static str) -> Place {
        self.at(Method::GET, path)
    }

    /// One that takes `POST`.
    pub fn post(self, path: &'static str) -> Place {
        self.at(Method::POST, path)
    }

    /// The least role that suffices for certain; `None` where no token is needed.
    pub fn role(self) -> Option<Role> {
        match self {
            Access::Open => None,
            Access::Viewer => Some(Role::Viewer),
            Access::Shim => Some(Role::Shim),
            Access::Configure | Access::Operator => Some(Role::Operator),
        }
    }
}

/// Method and path of a route, and who may use it.
#[derive(Debug)]
pub struct Place {
    /// Method of the request.
    pub method: Method,
    /// Path, with parameters in braces.
    pub path: &'static str,
    /// Who may use it.
    pub access: Access,
}

/// A place with what handles it and how it is described.
pub struct Route {
    /// Where it is.
    pub place: Place,
    /// Gives a service its handler; `None`: the router of `/ws/v1` has it.
    handler: Option<Box<Serve>>,
    /// What the OpenAPI document says, but for `schemas`.
    pub(super) document: Value,
    /// Schemas of types, and where they go.
    pub(super) schemas: Vec<(String, Schema)>,
}

type Serve = dyn Fn(actix_web::Route) -> actix_web::Route + Send + Sync;

impl Place {
    /// A route with its handler. What it takes and answers is said next.
    pub fn to<H, Args>(self, handler: H, summary: &str) -> Route
    where
        H: Handler<Args> + Send + Sync,
        Args: FromRequest + 'static,
        H::Output: Responder + 'static,
    {
        let always = if self.access == Access::Open { &[403, 405, 500][..] } else { &[401, 403, 405, 429, 500] };
        let to = Box::new(move |route: actix_web::Route| route.to(handler.clone()));
        Route { handler: Some(to), ..self.routed(summary) }.problems(always)
    }

    /// A route whose handler the router of `/ws/v1` finds.
    pub fn routed(self, summary: &str) -> Route {
        let document = operation::begin(&self.method.as_str().to_lowercase(), self.path, self.access.role(), summary);
        Route { place: self, handler: None, document, schemas: Vec::new() }
    }
}

impl Route {
    /// The router of `/ws/v1` has it.
    pub fn is_routed(&self) -> bool {
        self.handler.is_none()
    }

    /// It may change something. Trials are sent something, and change nothing.
    pub fn changes(&self) -> bool {
        !matches!(self.place.method, Method::GET | Method::HEAD)
            && !matches!(self.place.access, Access::Open | Access::Viewer)
    }

    /// Its part of the OpenAPI document.
    pub fn describe(&self, schemas: &mut SchemaGenerator) -> Value {
        let mut document = self.document.clone();
        for (at, schema) in &self.schemas {
            if let Some(place) = document.pointer_mut(at) {
                *place = schema(schemas);
            }
        }
        document
    }
}

/// Registers these routes: a path takes the methods that are here, 405 for others.
pub fn register(config: &mut ServiceConfig, routes: &[Route]) {
    for (at, first) in routes.iter().enumerate() {
        if routes[..at].iter().any(|before| before.place.path == first.place.path) {
            continue;
        }
        let here = || routes.iter().filter(|route| route.place.path == first.place.path);
        let allow: Arc<str> = here().map(|route| route.place.method.as_str()).collect::<Vec<_>>().join(", ").into();
        let services = here().filter_map(|route| Some((route.handler.as_ref()?, route.place.method.clone())));
        let mut services = services.map(|(handler, method)| handler(web::method(method))).peekable();
        if services.peek().is_none() {
            continue;
        }
        let others = web::to(move || {
            let detail = format!("this path takes {allow}");
            let problem =
                Problem { allow: Some(allow.clone()), ..Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail) };
            std::future::ready(problem)
        });
        config.service(
            services.fold(web::resource(first.place.path).default_service(others), actix_web::Resource::route),
        );
    }
}
