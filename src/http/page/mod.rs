//! The web page at `/`: static files that are part of the program, and the headers that keep it to itself.
//!
//! The page holds no data and needs no token: all that it shows it reads from `/api/v1` and `/ws/v1`, with the token that
//! the reader gives.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{Uri, header},
    web::Data,
};
use serde_json::json;

use super::{
    api::board::BoardApi,
    route::{Access, Route},
};

/// Scripts, styles, images and connections from this server only; nothing inline, no frames, no forms to elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; connect-src 'self'";

/// A file of the page.
struct Asset {
    path: &'static str,
    kind: &'static str,
    text: &'static str,
}

macro_rules! asset {
    ($path:literal, $kind:literal, $file:literal) => {
        Asset { path: $path, kind: $kind, text: include_str!(concat!("assets/", $file)) }
    };
}

const ASSETS: [Asset; 24] = [
    asset!("/", "text/html; charset=utf-8", "index.html"),
    asset!("/page/page.css", "text/css; charset=utf-8", "page.css"),
    asset!("/page/main.js", "text/javascript; charset=utf-8", "main.js"),
    asset!("/page/api.js", "text/javascript; charset=utf-8", "api.js"),
    asset!("/page/past.js", "text/javascript; charset=utf-8", "past.js"),
    asset!("/page/format.js", "text/javascript; charset=utf-8", "format.js"),
    asset!("/page/patch.js", "text/javascript; charset=utf-8", "patch.js"),
    asset!("/page/table.js", "text/javascript; charset=utf-8", "table.js"),
    asset!("/page/summary.js", "text/javascript; charset=utf-8", "summary.js"),
    asset!("/page/applications.js", "text/javascript; charset=utf-8", "applications.js"),
    asset!("/page/detail.js", "text/javascript; charset=utf-8", "detail.js"),
    asset!("/page/actions.js", "text/javascript; charset=utf-8", "actions.js"),
    asset!("/page/queues.js", "text/javascript; charset=utf-8", "queues.js"),
    asset!("/page/nodes.js", "text/javascript; charset=utf-8", "nodes.js"),
    asset!("/page/people.js", "text/javascript; charset=utf-8", "people.js"),
    asset!("/page/trends.js", "text/javascript; charset=utf-8", "trends.js"),
    asset!("/page/events.js", "text/javascript; charset=utf-8", "events.js"),
    asset!("/page/whatif.js", "text/javascript; charset=utf-8", "whatif.js"),
    asset!("/page/search.js", "text/javascript; charset=utf-8", "search.js"),
    asset!("/page/cluster.js", "text/javascript; charset=utf-8", "cluster.js"),
    asset!("/page/server.js", "text/javascript; charset=utf-8", "server.js"),
    // Charts: uPlot 1.6.32 (MIT), as it is published.
    asset!("/page/uplot.js", "text/javascript; charset=utf-8", "vendor/uplot.js"),
    asset!("/page/uplot.css", "text/css; charset=utf-8", "vendor/uplot.css"),
    asset!("/page/uplot.license", "text/plain; charset=utf-8", "vendor/uplot.LICENSE"),
];

/// The files: these hold no data, and are given to everybody.
pub(super) fn routes() -> Vec<Route> {
    let file = |asset: &'static Asset| {
        let send = move |request| send(request, asset);
        let kind = asset.kind.split(';').next().unwrap_or(asset.kind);
        Access::Open.get(asset.path).to(send, "A file of the web page").bare(304).answer(200, kind, json!({}))
    };
    ASSETS.iter().map(file).collect()
}

/// [`POLICY`], and where this server is gone the page may look which of the others of its cluster is there.
fn policy(request: &HttpRequest, asset: &Asset) -> String {
    let mut policy = POLICY.to_owned();
    // What scripts of a page may do is what the page itself says.
    let board = request.app_data::<Data<BoardApi>>().filter(|_| asset.path == "/");
    let topology = board.map(|api| api.topology.clone());
    let Some(leaders) = topology.as_ref().and_then(|topology| topology.leaders()) else {
        return policy;
    };
    for other in leaders.others().iter() {
        let uri: Option<Uri> = other.parse().ok();
        let of = uri.as_ref().and_then(|uri| uri.scheme_str().zip(uri.authority()));
        if let Some((scheme, authority)) = of.filter(|(_, at)| !at.as_str().contains([';', ',', '\'', '@'])) {
            policy.push_str(&format!(" {scheme}://{authority}"));
        }
    }
    policy
}

async fn send(request: HttpRequest, asset: &'static Asset) -> HttpResponse {
    let policy = policy(&request, asset);
    let tag = format!("\"{:08x}\"", crc32fast::hash(asset.text.as_bytes()));
    let known = request.headers().get(header::IF_NONE_MATCH).is_some_and(|given| given.as_bytes() == tag.as_bytes());
    let mut response = if known { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    response
        .insert_header((header::CONTENT_TYPE, asset.kind))
        .insert_header((header::CACHE_CONTROL, "no-cache"))
        .insert_header((header::ETAG, tag))
        .insert_header((header::CONTENT_SECURITY_POLICY, policy))
        .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((header::REFERRER_POLICY, "no-referrer"))
        .insert_header((header::X_FRAME_OPTIONS, "DENY"));
    if known { response.finish() } else { response.body(asset.text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The policy allows no inline script or style, and no address of another server may be in the page.
    #[test]
    fn nothing_from_outside() {
        for asset in &ASSETS {
            // The charts name where they come from, once; nothing is read from there.
            let text = asset.text.replacen("/*! https://github.com/leeoniya/uPlot", "", 1);
            for forbidden in ["https://", "//cdn", "eval(", "<style", " style=\"", "onclick="] {
                assert!(!text.contains(forbidden), "{} has {forbidden}", asset.path);
            }
            // What is read becomes text, never elements.
            assert!(!text.contains("innerHTML") || asset.path == "/page/uplot.js", "{}", asset.path);
            let addresses = text.matches("http://").count();
            // The name space of SVG is an identifier, nothing is read from it.
            assert_eq!(addresses, asset.text.matches("http://www.w3.org/2000/svg").count(), "{}", asset.path);
        }
        let page = ASSETS[0].text;
        let scripts: Vec<&str> = page.match_indices("<script").map(|(at, _)| &page[at..at + 60]).collect();
        assert!(scripts.iter().all(|script| script.contains("src=\"/page/")), "{scripts:?}");
    }
}
