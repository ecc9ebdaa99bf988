//! Which names, pages and kinds of request a server without tokens answers. A browser sends requests for every page that it shows:
//! whoever may reach the server may do everything, and those pages must not.

use std::{borrow::Cow, fmt, net::IpAddr, str::FromStr};

use actix_web::{
    Error, HttpMessage as _, HttpResponse,
    body::{BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Method, StatusCode, Uri,
        header::{self, HeaderMap, HeaderName, HeaderValue},
    },
    middleware::Next,
    web::Data,
};

use super::{doors::Doors, guard, route::Route, routes, ws_v1::url};
use crate::access::Caller;

/// Says where a request comes from; pages cannot set it, and not all browsers send it.
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// An origin of pages: `http://board.example:8080`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    scheme: String,
    host: String,
    /// `None`: that of the scheme.
    port: Option<u16>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Origin, String> {
        let wrong = || format!("\"{text}\" is not an origin such as https://board.example or http://10.0.0.7:8080");
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let scheme = uri.scheme_str().filter(|scheme| ["http", "https"].contains(scheme)).ok_or_else(wrong)?;
        let whole = matches!(uri.path(), "" | "/") && uri.query().is_none() && !text.contains(['@', '#', '*']);
        let host = uri.host().filter(|host| whole && !host.is_empty()).ok_or_else(wrong)?;
        let usual = if scheme == "http" { 80 } else { 443 };
        let port = uri.port_u16().filter(|port| *port != usual);
        Ok(Origin { scheme: scheme.to_owned(), host: name(host), port })
    }
}

/// A host's name as it is compared.
fn name(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// The address that a host's name is, where it is one.
fn address(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some(bare.parse::<IpAddr>().ok()?.to_canonical())
}

/// Why a request is not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stranger {
    /// It names another host: a page may have had its name turned to this machine.
    #[error(
        "this server has no tokens and answers to localhost and its own address only, not to \"{0}\": start it with --allow-origin \
         http://NAME:PORT for another name, or with --tokens"
    )]
    Host(String),
    /// It was sent by a page of another origin.
    #[error(
        "this server has no tokens and takes nothing from pages of \"{0}\": start it with --allow-origin {0} to let them do \
         everything, or with --tokens"
    )]
    Origin(String),
    /// It was sent by a page of another site, which the browser does not name.
    #[error("this server has no tokens and takes nothing from pages of other sites: start it with --tokens")]
    Site,
    /// Any page could have sent it.
    #[error("a POST needs Content-Type: application/json, not {0}")]
    Kind(String),
}

impl Stranger {
    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        if let Stranger::Kind(_) = self { StatusCode::UNSUPPORTED_MEDIA_TYPE } else { StatusCode::FORBIDDEN }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Origins {
    /// Whoever has no token of this server is let in.
    open: bool,
    bound: IpAddr,
    listed: Vec<Origin>,
}

impl Origins {
    /// For a door at this address; `open`: without tokens. Pages of `listed` origins may do what the server's own may.
    pub fn new(open: bool, bound: IpAddr, listed: Vec<Origin>) -> Origins {
        Origins { open, bound: bound.to_canonical(), listed }
    }

    /// Whether a request may go on.
    ///
    /// # Errors
    /// It may be sent by a page that is none of this server's.
    pub fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Stranger> {
        if !self.open {
            return Ok(());
        }
        // Without it no browser asks.
        let asked = text(headers, &header::HOST).or_else(|| uri.authority().map(|authority| authority.as_str()));
        let host =
            asked.map(|asked| asked.parse::<Uri>().ok().and_then(|uri| uri.host().map(name)).unwrap_or_default());
        if let (Some(host), Some(asked)) = (&host, asked)
            && !self.answers_to(host)
        {
            return Err(Stranger::Host(shown(asked)));
        }
        let anybody = is_readable(method, uri.path());
        match text(headers, &header::ORIGIN) {
            _ if anybody => {}
            Some(origin) if self.own(origin, asked) || self.lists(origin) => {}
            Some(origin) => return Err(Stranger::Origin(shown(origin))),
            // What has no data may be linked to.
            None if guard::is_open(method, uri.path()) => {}
            None => {
                if text(headers, &SITE).is_some_and(|site| matches!(site, "cross-site" | "same-site")) {
                    return Err(Stranger::Site);
                }
            }
        }
        if *method == Method::POST {
            let kind = text(headers, &header::CONTENT_TYPE).unwrap_or_default();
            let essence = kind.split(';').next().unwrap_or_default().trim();
            // Trials change nothing. The route is looked for last, as nearly all are JSON.
            if !essence.eq_ignore_ascii_case("application/json")
                && routes::find(method, uri.path()).is_some_and(Route::changes)
            {
                return Err(Stranger::Kind(if kind.is_empty() { "none".to_owned() } else { shown(kind) }));
            }
        }
        Ok(())
    }

    /// The host is this machine, the address of the door, or one of a listed origin.
    fn answers_to(&self, host: &str) -> bool {
        let known = match address(host) {
            // A name can be turned to any machine, an address cannot: at all addresses of this machine any will do.
            Some(address) => address.is_loopback() || address == self.bound || self.bound.is_unspecified(),
            None => host == "localhost",
        };
        known || self.listed.iter().any(|origin| origin.host == host)
    }

    /// The origin is that of the server itself, as the request names it.
    fn own(&self, origin: &str, host: Option<&str>) -> bool {
        let (Ok(origin), Some(host)) = (origin.parse::<Origin>(), host) else { return false };
        format!("{}://{host}", origin.scheme).parse() == Ok(origin)
    }

    fn lists(&self, origin: &str) -> bool {
        origin.parse().is_ok_and(|origin| self.listed.contains(&origin))
    }
}

/// Pages of all origins may read these, as dashboards do (REST 1.3), but for what is sent something.
pub fn is_readable(method: &Method, raw: &str) -> bool {
    let reads = [Method::GET, Method::HEAD, Method::OPTIONS].contains(method);
    let is_there = |path: Cow<'_, str>| path.starts_with("/ws/v1/");
    reads && url::decode_path(raw).is_ok_and(is_there) && routes::find(&Method::POST, raw).is_none()
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    // What is no text is nothing that this server is called.
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

/// The beginning of what was sent.
fn shown(text: &str) -> String {
    text.chars().take(200).collect()
}

/// Middleware: refuses what [`Origins::check`] does not let through, and lets pages of listed origins read the answers.
pub async fn gate(
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let Some(doors) = request.app_data::<Data<Doors>>().cloned() else {
        return next.call(request).await.map(ServiceResponse::map_into_boxed_body);
    };
    let origin = request.headers().get(header::ORIGIN).cloned();
    let origin = origin.filter(|origin| origin.to_str().is_ok_and(|origin| doors.origins.lists(origin)));
    let checked = doors.origins.check(request.method(), request.uri(), request.headers());
    let mut response = match checked {
        Err(stranger) => {
            tracing::debug!(method = %request.method(), path = request.path(), "{stranger}");
            doors.refused.http("origin");
            // Without tokens, as only then anybody is a stranger.
            guard::count_refused(&request, &doors, Some(&Caller::Anyone));
            let payload = request.take_payload();
            let response = guard::refused(request.request(), payload, stranger.status(), stranger.to_string()).await;
            request.into_response(response)
        }
        Ok(()) if origin.is_some() && asks_first(&request) => request.into_response(preflight()),
        Ok(()) => next.call(request).await?.map_into_boxed_body(),
    };
    if let Some(origin) = origin {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
    }
    Ok(response)
}

/// A browser asks whether a page may send something.
fn asks_first(request: &ServiceRequest) -> bool {
    *request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

fn preflight() -> HttpResponse {
    HttpResponse::NoContent()
        .insert_header((header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, DELETE, OPTIONS"))
        .insert_header((
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "X-Requested-With,Content-Type,Accept,Origin,Authorization",
        ))
        .insert_header((header::ACCESS_CONTROL_MAX_AGE, "600"))
        .finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    fn at(bound: &str, listed: &[&str]) -> Origins {
        let listed = listed.iter().map(|origin| origin.parse().unwrap()).collect();
        Origins::new(true, bound.parse().unwrap(), listed)
    }

    fn check(origins: &Origins, method: &Method, path: &str, pairs: &[(&str, &str)]) -> Option<u16> {
        let checked = origins.check(method, &path.parse().unwrap(), &headers(pairs));
        checked.err().map(|stranger| stranger.status().as_u16())
    }

    #[test]
    fn hosts() {
        let get = |origins: &Origins, host| check(origins, &Method::GET, "/ws/v1/clusters", &[("Host", host)]);
        let local = at("127.0.0.1", &["https://board.example:8443"]);
        for own in
            ["localhost", "LocalHost:9080", "localhost.", "127.0.0.1:80", "127.9.9.9", "[::1]:9080", "board.example"]
        {
            assert_eq!(get(&local, own), None, "{own}");
        }
        for other in ["evil.example:9080", "192.0.2.1", "127.0.0.1.evil.example", "", "localhost@evil.example", "a b"] {
            assert_eq!(get(&local, other), Some(403), "{other}");
        }
        assert_eq!(check(&local, &Method::GET, "/ws/v1/clusters", &[]), None, "no browser sends none");
        let everywhere = at("0.0.0.0", &[]);
        assert_eq!((get(&everywhere, "192.0.2.1:9080"), get(&everywhere, "evil.example")), (None, Some(403)));
        assert_eq!(get(&at("::ffff:192.0.2.1", &[]), "192.0.2.1"), None);
        let tokens = Origins { open: false, ..local };
        assert_eq!(get(&tokens, "evil.example"), None, "tokens tell who asks");
    }

    #[test]
    fn pages() {
        let (get, post) = (Method::GET, Method::POST);
        let local = at("127.0.0.1", &["https://board.example", "http://10.0.0.7:80"]);
        let page = |method, path, origin| {
            let pairs = [("Host", "localhost:9080"), ("Origin", origin), ("Content-Type", "application/json")];
            check(&local, method, path, &pairs)
        };
        for own in ["http://localhost:9080", "https://board.example", "https://board.example:443", "http://10.0.0.7"] {
            assert_eq!(page(&post, "/si/v1/rm", own), None, "{own}");
        }
        for other in [
            "http://localhost",
            "http://localhost:3000",
            "http://127.0.0.1:9080",
            "http://board.example",
            "null",
            "https://evil.example",
        ] {
            assert_eq!(page(&post, "/si/v1/rm", other), Some(403), "{other}");
            assert_eq!(page(&get, "/si/v1/rm/rm-1/ws", other), Some(403), "{other}");
            assert_eq!(page(&get, "/api/v1/overview", other), Some(403), "{other}");
            assert_eq!(page(&get, "/ws/v1x", other), Some(403), "{other}");
            assert_eq!(page(&post, "/ws/v1/validate-conf", other), Some(403), "{other}");
            assert_eq!(page(&get, "/ws/v1/partitions", other), None, "{other}");
            assert_eq!(page(&get, "/%77s/v1/partitions", other), None, "{other}");
        }
        // Requests that browsers send without an origin.
        let site = |path, site| check(&local, &get, path, &[("Host", "localhost"), ("Sec-Fetch-Site", site)]);
        for other in ["cross-site", "same-site"] {
            assert_eq!((site("/si/v1/rm/rm-1/stream", other), site("/api/v1/overview", other)), (Some(403), Some(403)));
            assert_eq!((site("/", other), site("/healthz", other), site("/ws/v1/clusters", other)), (None, None, None));
        }
        for own in ["none", "same-origin"] {
            assert_eq!(site("/si/v1/rm/rm-1/stream", own), None);
        }
    }

    #[test]
    fn kinds() {
        let local = at("127.0.0.1", &[]);
        let post = |path, kind: &[(&str, &str)]| check(&local, &Method::POST, path, kind);
        for json in ["application/json", "Application/JSON; charset=utf-8"] {
            assert_eq!(post("/si/v1/rm", &[("Content-Type", json)]), None, "{json}");
        }
        for other in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "text/plain; application/json",
            "multipart/form-data; boundary=x",
        ] {
            assert_eq!(post("/api/v1/partition/p/resource/drain", &[("Content-Type", other)]), Some(415), "{other}");
        }
        assert_eq!(post("/api/v1/partition/p/resource/journal/1/cancel", &[]), Some(415));
        assert_eq!((post("/ws/v1/validate-conf", &[]), post("/api/v1/plan", &[]), post("/", &[])), (None, None, None));
        assert_eq!(post("/api/v1/whatif", &[]), None, "nor does this trial");
        assert_eq!(post("/%73i/v1/rm", &[]), Some(415));
        assert_eq!(check(&local, &Method::GET, "/si/v1/rm", &[("Content-Type", "text/plain")]), None);
    }

    #[test]
    fn origins_are_read_as_browsers_write_them() {
        let read = |text: &str| text.parse::<Origin>();
        assert_eq!(read("HTTP://Board.Example:80"), read("http://board.example"));
        assert_eq!(read("https://board.example/"), read("https://board.example:443"));
        assert_ne!(read("https://board.example:80"), read("https://board.example"));
        for bad in [
            "",
            "*",
            "null",
            "board.example",
            "ftp://x",
            "http://",
            "http://x/y",
            "http://x?y",
            "http://a@x",
            "http://x#y",
            "https://*.example",
        ] {
            assert!(read(bad).unwrap_err().contains("is not an origin such as"), "{bad}");
        }
    }
}
