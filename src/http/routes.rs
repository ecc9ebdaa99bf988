//! All routes of the HTTP doors, and which one a request is for.

use std::{borrow::Cow, sync::LazyLock};

use actix_web::http::Method;

use super::{
    api, openapi, page, past,
    route::{Access, Route},
    server, shim,
    ws_v1::{router, url},
};

static ALL: LazyLock<Vec<Route>> = LazyLock::new(|| {
    // Paths are tried in this order: those of a busy session first.
    [
        shim::routes(),
        api::routes(),
        past::routes(),
        router::routes(),
        server::routes(),
        openapi::routes(),
        page::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
});

/// All of them.
pub fn all() -> &'static [Route] {
    &ALL
}

/// The routes at a path as it came, whatever their method.
fn at(raw: &str) -> impl Iterator<Item = &'static Route> {
    // Services take an escaped slash as part of a segment, the router of `/ws/v1` as its end. Where something cannot be
    // decoded, it is no fixed segment.
    let decoded = |text| url::decode_path(text).unwrap_or(Cow::Borrowed(text));
    let segments: Vec<Cow<'_, str>> = raw.split('/').map(decoded).collect();
    let whole = decoded(raw);
    ALL.iter().filter(move |route| match route.is_routed() {
        true => router::matched(route.place.path, &whole).is_some(),
        false => fits(route.place.path, &segments),
    })
}

/// The segments are those of this path; a parameter in braces is one that is not empty.
fn fits(path: &str, segments: &[Cow<'_, str>]) -> bool {
    let mut fixed = path.split('/');
    let same = |given: &Cow<'_, str>| {
        fixed.next().is_some_and(|fixed| if fixed.starts_with('{') { !given.is_empty() } else { fixed == given })
    };
    segments.iter().all(same) && fixed.next().is_none()
}

/// The route of a request.
pub fn find(method: &Method, raw: &str) -> Option<&'static Route> {
    at(raw).find(|route| route.place.method == *method)
}

/// Who may send a request. Where the path does not take the method, whoever may use the path is told; and where nothing is
/// at the path, whoever reads.
pub fn access(method: &Method, raw: &str) -> Access {
    if *method == Method::OPTIONS {
        return Access::Open;
    }
    let mut others = None;
    for route in at(raw) {
        if route.place.method == *method {
            return route.place.access;
        }
        others.get_or_insert(route.place.access);
    }
    others.unwrap_or(Access::Viewer)
}

/// A request that is sent something, and changes nothing.
pub fn is_trial(method: &Method, raw: &str) -> bool {
    *method == Method::POST && find(method, raw).is_some_and(|route| !route.changes())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_route_is_there_twice_and_none_hides_another() {
        let mut seen = BTreeSet::new();
        for route in all() {
            assert!(
                seen.insert((route.place.path, route.place.method.as_str().to_owned())),
                "{} {}",
                route.place.method,
                route.place.path
            );
            let here: BTreeSet<&str> = at(route.place.path).map(|route| route.place.path).collect();
            assert_eq!(here, BTreeSet::from([route.place.path]));
        }
    }

    #[test]
    fn a_path_is_found_as_it_is_routed() {
        let path = |raw: &str| find(&Method::GET, raw).map(|route| route.place.path);
        assert_eq!(path("/api/v1/partition/p/queue/root.a"), Some("/api/v1/partition/{partition}/queue/{queue}"));
        assert_eq!(path("/api/v1/partition/p/queue/a%2Fb"), Some("/api/v1/partition/{partition}/queue/{queue}"));
        assert_eq!(path("/%61pi/v1/overview"), Some("/api/v1/overview"));
        assert_eq!(path("/debug%2Fstack"), Some("/debug/stack"));
        for none in
            ["/api/v1/partition//queue/x", "/api/v1/partition/p/queue/", "/api/v1/overview/", "/api%2Fv1/overview"]
        {
            assert_eq!(path(none), None, "{none}");
        }
        assert_eq!(find(&Method::DELETE, "/api/v1/overview").map(|route| route.place.path), None);
        assert_eq!(access(&Method::DELETE, "/si/v1/rm/a/nodes"), Access::Shim);
        let trials = ["/api/v1/plan", "/api/v1/whatif", "/ws/v1/validate-conf"];
        assert!(trials.iter().all(|path| is_trial(&Method::POST, path)));
        assert!(!is_trial(&Method::POST, "/si/v1/rm") && !is_trial(&Method::GET, "/api/v1/overview"));
    }
}
