//! `/si/v1`: the shim's door over HTTP. JSON in, numbered lines out.

mod answers;
pub(super) mod body;
mod heartbeat;
pub mod info;
pub mod once;
mod pace;
pub(super) mod query;
pub mod registration;
mod requests;
mod stream;
mod ws;

use actix_web::web;

use super::server::{not_found, resource};

/// Registers the paths.
pub fn configure(config: &mut web::ServiceConfig) {
    // Paths are tried in this order: those of a busy session first.
    config
        .service(resource("/si/v1/rm/{rm}/allocations", "POST").route(web::post().to(requests::allocations)))
        .service(resource("/si/v1/rm/{rm}/answers", "POST").route(web::post().to(answers::answers)))
        .service(
            resource("/si/v1/rm", "GET, POST")
                .route(web::get().to(info::all))
                .route(web::post().to(registration::register)),
        )
        .service(
            resource("/si/v1/rm/{rm}", "GET, DELETE")
                .route(web::get().to(info::one))
                .route(web::delete().to(registration::unregister)),
        )
        .service(resource("/si/v1/rm/{rm}/nodes", "POST").route(web::post().to(requests::nodes)))
        .service(resource("/si/v1/rm/{rm}/applications", "POST").route(web::post().to(requests::applications)))
        .service(resource("/si/v1/rm/{rm}/heartbeat", "POST").route(web::post().to(heartbeat::heartbeat)))
        .service(resource("/si/v1/rm/{rm}/configuration", "PUT").route(web::put().to(registration::configure)))
        .service(resource("/si/v1/rm/{rm}/stream", "GET").route(web::get().to(stream::stream)))
        .service(resource("/si/v1/rm/{rm}/ws", "GET").route(web::get().to(ws::ws)))
        .service(web::resource("/si/v1{rest:(/.*)?}").to(not_found));
}
