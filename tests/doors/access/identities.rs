//! Callers that are known by something else than a token of the file, and how many requests each may send.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use actix_web::{App, HttpResponse, HttpServer, web};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use callboard::{
    access::certificate::{chain, provider},
    si::v1::{RegisterResourceManagerRequest, scheduler_client::SchedulerClient},
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use serde_json::{Value, json};
use tonic::{
    Code,
    transport::{Certificate, Channel, ClientTlsConfig, Identity},
};

use crate::access::rig::{CONFIG, LIMIT, Server, certificate, line, standard, token, until};

/// An authority, and certificates that it signed.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("signed").pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// Certificate and key, in PEM form, for somebody called so.
    fn sign(&self, name: SanType) -> [String; 2] {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.subject_alt_names = vec![name];
        let key = KeyPair::generate().expect("a key");
        [params.signed_by(&key, &self.issuer).expect("signed").pem(), key.serialize_pem()]
    }
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().expect("a name"))
}

/// The status of a request over TLS, with a client certificate where there is one; `None`: there was no connection.
fn status(server: &Server, path: &str, identity: Option<&[String; 2]>) -> Option<u16> {
    let mut roots = RootCertStore::empty();
    for known in chain(&server.dir.path().join("tls.crt")).expect("it is there") {
        roots.add(known).expect("added");
    }
    let config = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().expect("TLS");
    let config = config.with_root_certificates(roots);
    let config = match identity {
        None => config.with_no_client_auth(),
        Some([certificate, key]) => {
            let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a certificate");
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
            config.with_client_auth_cert(vec![certificate], key).expect("they fit")
        }
    };
    let name = ServerName::try_from("localhost").expect("a name");
    let mut session = ClientConnection::new(Arc::new(config), name).expect("a session");
    let address = server.address("http").trim_start_matches("https://").to_owned();
    let mut socket = TcpStream::connect(address).expect("connected");
    let mut stream = rustls::Stream::new(&mut session, &mut socket);
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    // The end may come without the farewell of TLS.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).split(' ').nth(1)?.parse().ok()
}

fn with_authority(authority: &Authority) -> Server {
    let dir = tempfile::tempdir().expect("a directory");
    let [cert, key] = certificate(dir.path());
    let (tokens, ca) = (dir.path().join("tokens"), dir.path().join("clients.crt"));
    let lines = "viewer certificate:board.example name=board\noperator certificate:spiffe://prod/ops name=ops\n\
                 shim certificate:k8s.example name=k8s rms=rm-1\n";
    fs::write(&tokens, standard() + lines).expect("written");
    fs::write(&ca, &authority.pem).expect("written");
    let [tokens, ca] = [tokens, ca].map(|path| path.display().to_string());
    Server::start_in(dir, &["--tokens", &tokens, "--tls-cert", &cert, "--tls-key", &key, "--tls-client-ca", &ca])
}

#[tokio::test]
async fn a_client_certificate_says_who_somebody_is() {
    let authority = Authority::new();
    let server = with_authority(&authority);
    let asks = |path: &'static str, identity: Option<[String; 2]>| status(&server, path, identity.as_ref());
    let (board, ops) =
        (authority.sign(dns("board.example")), SanType::URI("spiffe://prod/ops".try_into().expect("a URI")));
    assert_eq!(asks("/ws/v1/clusters", None), Some(401), "a client without one is asked for a token");
    assert_eq!(asks("/healthz", None), Some(200));
    assert_eq!(asks("/ws/v1/clusters", Some(board.clone())), Some(200));
    let loud = authority.sign(dns("Board.EXAMPLE"));
    assert_eq!(asks("/ws/v1/clusters", Some(loud)), Some(200), "a DNS name is the same in capitals");
    let other = SanType::URI("spiffe://prod/OPS".try_into().expect("a URI"));
    assert_eq!(asks("/ws/v1/clusters", Some(authority.sign(other))), Some(401), "a URI is not");
    assert_eq!(asks("/debug/fullstatedump", Some(board.clone())), Some(403));
    assert_eq!(asks("/api/v1/audit", Some(authority.sign(ops))), Some(200));
    assert_eq!(asks("/ws/v1/clusters", Some(authority.sign(dns("stranger.example")))), Some(401));
    let forged = Authority::new().sign(dns("board.example"));
    assert_eq!(asks("/ws/v1/clusters", Some(forged)), None, "another authority's is not let in at all");
    // Taken back as a token is.
    fs::write(server.tokens(), standard()).expect("written");
    until(|| async { status(&server, "/ws/v1/clusters", Some(&board)) == Some(401) }).await;
}

#[tokio::test]
async fn a_client_certificate_counts_at_the_grpc_door() {
    let authority = Authority::new();
    let server = with_authority(&authority);
    let register = async |identity: Option<[String; 2]>, rm: &str| {
        let known = fs::read_to_string(server.dir.path().join("tls.crt")).expect("it is there");
        let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(known)).domain_name("localhost");
        if let Some([certificate, key]) = identity {
            tls = tls.identity(Identity::from_pem(certificate, key));
        }
        let channel = Channel::from_shared(server.address("grpc")).expect("an address").tls_config(tls).expect("TLS");
        let channel = channel.connect().await.expect("connected");
        let message = RegisterResourceManagerRequest { rm_id: rm.into(), config: CONFIG.into(), ..Default::default() };
        let answer = SchedulerClient::new(channel).register_resource_manager(message).await;
        answer.map_or_else(|status| status.code(), |_| Code::Ok)
    };
    let k8s = authority.sign(dns("k8s.example"));
    assert_eq!(register(None, "rm-1").await, Code::Unauthenticated);
    assert_eq!(register(Some(k8s.clone()), "rm-2").await, Code::PermissionDenied);
    assert_eq!(register(Some(k8s), "rm-1").await, Code::Ok);
    let board = authority.sign(dns("board.example"));
    assert_eq!(register(Some(board), "rm-1").await, Code::PermissionDenied, "a viewer is no shim");
}

#[tokio::test]
async fn the_authorities_of_clients_are_read_again() {
    let (authority, next) = (Authority::new(), Authority::new());
    let server = with_authority(&authority);
    let (old, new) = (authority.sign(dns("board.example")), next.sign(dns("board.example")));
    let asks = |identity: &[String; 2]| status(&server, "/ws/v1/clusters", Some(identity));
    assert_eq!((asks(&old), asks(&new)), (Some(200), None));
    let file = server.dir.path().join("clients.crt");
    // What holds none changes nothing.
    fs::write(&file, "nonsense").expect("written");
    until(|| async { server.log().contains("the authorities stay as they are") }).await;
    assert_eq!((asks(&old), asks(&new)), (Some(200), None));
    // Both for a while, as an authority is replaced; then the new one alone.
    fs::write(&file, format!("{}{}", authority.pem, next.pem)).expect("written");
    until(|| async { asks(&new) == Some(200) }).await;
    assert_eq!(asks(&old), Some(200));
    fs::write(&file, &next.pem).expect("written");
    until(|| async { asks(&old).is_none() }).await;
    assert_eq!(asks(&new), Some(200));
}

/// An issuer of tokens, as far as a server asks it.
struct TestIssuer {
    url: String,
    asked: Arc<AtomicUsize>,
    pair: EcdsaKeyPair,
}

fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl TestIssuer {
    fn start() -> TestIssuer {
        let random = SystemRandom::new();
        let text = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, text.as_ref(), &random).expect("it");
        let point = pair.public_key().as_ref();
        let key = json!({"kty": "EC", "crv": "P-256", "kid": "k1", "use": "sig", "x": b64(&point[1..33]), "y": b64(&point[33..])});
        let asked = Arc::<AtomicUsize>::default();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/realm", listener.local_addr().expect("its address"));
        let (issuer, count) = (url.clone(), asked.clone());
        let server = move || {
            HttpServer::new(move || {
                let (found, keys) =
                    (json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys")}), json!({"keys": [key]}));
                let count = count.clone();
                App::new()
                    .route(
                        "/realm/.well-known/openid-configuration",
                        web::get().to(move || {
                            let (found, count) = (found.clone(), count.clone());
                            async move {
                                count.fetch_add(1, Relaxed);
                                HttpResponse::Ok().json(found)
                            }
                        }),
                    )
                    .route(
                        "/realm/keys",
                        web::get().to(move || {
                            let keys = keys.clone();
                            async move { HttpResponse::Ok().json(keys) }
                        }),
                    )
            })
        };
        // On a thread of its own: a test waits for its server without letting others run.
        std::thread::spawn(move || {
            let server = server().workers(1).disable_signals().listen(listener).expect("it listens");
            actix_web::rt::System::new().block_on(server.run()).expect("it serves");
        });
        TestIssuer { url, asked, pair }
    }

    /// A token for this subject.
    fn token(&self, subject: &str, groups: &[&str], seconds: u64, more: &Value) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        let mut claims =
            json!({"iss": self.url, "aud": "callboard", "sub": subject, "exp": now + seconds, "groups": groups});
        for (key, value) in more.as_object().into_iter().flatten() {
            claims[key] = value.clone();
        }
        let text = format!("{}.{}", b64(r#"{"alg":"ES256","kid":"k1"}"#), b64(claims.to_string()));
        let signature = self.pair.sign(&SystemRandom::new(), text.as_bytes()).expect("signed");
        format!("{text}.{}", b64(signature))
    }
}

fn start_with(dir: &Path, more: &[&str]) -> Vec<String> {
    let tokens = dir.join("tokens");
    fs::write(&tokens, line("operator", "operator", "")).expect("written");
    let mut args = vec!["--tokens".to_owned(), tokens.display().to_string()];
    args.extend(more.iter().map(|word| (*word).to_owned()));
    args
}

async fn ask(server: &Server, token: &str, method: &str, path: &str, body: &Value) -> (u16, String) {
    let url = format!("{}{path}", server.address("http"));
    let request = server.http.request(method.parse().expect("a method"), url).bearer_auth(token).json(body);
    let response = request.send().await.expect("an answer");
    (response.status().as_u16(), response.text().await.unwrap_or_default())
}

#[tokio::test]
async fn tokens_of_an_issuer_are_believed() {
    let issuer = TestIssuer::start();
    let dir = tempfile::tempdir().expect("a directory");
    let roles = "board-admins=operator,shims=shim,everybody=viewer";
    let args = start_with(
        dir.path(),
        &["--oidc-issuer", &issuer.url, "--oidc-audience", "callboard", "--oidc-claim", "groups", "--oidc-role", roles],
    );
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let server = Server::start_in(dir, &args);
    let none = json!({});
    let viewer = issuer.token("vera", &["everybody"], 600, &none);
    assert_eq!(ask(&server, &viewer, "GET", "/ws/v1/clusters", &none).await.0, 200);
    let (status, why) = ask(&server, &viewer, "POST", "/api/v1/log/level", &json!({"level": "info"})).await;
    assert!(status == 403 && why.contains("oidc:vera"), "{why}");
    let admin = issuer.token("alice", &["everybody", "board-admins"], 600, &none);
    assert_eq!(ask(&server, &admin, "POST", "/api/v1/log/level", &json!({"level": "info"})).await.0, 200);
    assert!(
        ask(&server, &admin, "GET", "/api/v1/audit", &none).await.1.contains("oidc:alice"),
        "it is in the audit log"
    );
    let shim = issuer.token("k8s", &["shims"], 600, &json!({"callboard_rms": ["rm-1"]}));
    let register =
        async |rm: &str| ask(&server, &shim, "POST", "/si/v1/rm", &json!({"rmID": rm, "config": CONFIG})).await.0;
    assert_eq!([register("rm-2").await, register("rm-1").await], [403, 200]);
    for (what, bad) in [
        ("expired", issuer.token("vera", &["everybody"], 0, &json!({"exp": 1_600_000_000}))),
        ("of nobody", issuer.token("vera", &["others"], 600, &none)),
        ("for others", issuer.token("vera", &["everybody"], 600, &json!({"aud": "other"}))),
        (
            "of another issuer",
            TestIssuer { url: issuer.url.clone(), ..TestIssuer::start() }.token("eve", &["board-admins"], 600, &none),
        ),
    ] {
        assert_eq!(ask(&server, &bad, "GET", "/ws/v1/clusters", &none).await.0, 401, "{what}");
    }
    assert_eq!(server.status("operator", "GET", "/ws/v1/clusters").await, 200, "tokens of the file go on");
    assert!(issuer.asked.load(Relaxed) >= 1 && !server.log().contains(&viewer), "no token is in the log");
}

#[tokio::test]
async fn an_answer_ends_when_the_token_expires() {
    let issuer = TestIssuer::start();
    let dir = tempfile::tempdir().expect("a directory");
    let more = [
        "--oidc-issuer",
        &issuer.url,
        "--oidc-audience",
        "callboard",
        "--oidc-claim",
        "groups",
        "--oidc-role",
        "a=viewer",
    ];
    let args = start_with(dir.path(), &more);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let server = Server::start_in(dir, &args);
    // Within the grace, in which requests are let in.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let token = issuer.token("vera", &["a"], 0, &json!({"exp": now - 35}));
    let url = format!("{}/api/v1/events?follow=true", server.address("http"));
    let mut response = server.http.get(url).bearer_auth(token).send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    server.register().await;
    assert!(response.chunk().await.expect("not ended").is_some(), "what happens is told");
    let ended = async { while let Ok(Some(_)) = response.chunk().await {} };
    tokio::time::timeout(LIMIT, ended).await.expect("it ends");
}

#[tokio::test]
async fn one_who_sends_too_many_takes_nothing_from_the_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let tokens = dir.path().join("tokens");
    let namesake = line("viewer", "namesake", "").replace("name=namesake", "name=viewer");
    fs::write(&tokens, standard() + &namesake).expect("written");
    let tokens = tokens.display().to_string();
    let server = Server::start_in(dir, &["--tokens", &tokens, "--set", "http.requestsPerSecond=5"]);
    let mut refused = None;
    for _ in 0..100 {
        let response = server.send("viewer", "GET", "/ws/v1/clusters", None).await;
        if response.status() == 429 {
            refused = Some(response);
            break;
        }
        assert_eq!(response.status(), 200);
    }
    let refused = refused.expect("too many");
    assert_eq!(refused.headers()["retry-after"], "1");
    let text = refused.text().await.expect("a text");
    assert!(text.contains("too many requests of token viewer: more than http.requestsPerSecond allows"), "{text}");
    let problem = async || server.send("viewer", "GET", "/api/v1/overview", None).await;
    // Of the very answer that refuses: the next may be let in again.
    until(|| async {
        let answer = problem().await;
        let is_refused = answer.status() == 429;
        assert!(!is_refused || answer.headers()["content-type"] == "application/problem+json");
        is_refused
    })
    .await;
    assert_eq!(server.status("shim", "GET", "/ws/v1/clusters").await, 200, "another token");
    assert_eq!(server.status("namesake", "GET", "/ws/v1/clusters").await, 200, "another of the same name");
    assert_eq!(server.status("none", "GET", "/livez").await, 200, "a probe");
    let channel = Channel::from_shared(server.address("grpc")).expect("an address").connect().await.expect("connected");
    let register = async |caller: &str| {
        let message =
            RegisterResourceManagerRequest { rm_id: "rm-1".into(), config: CONFIG.into(), ..Default::default() };
        let mut request = tonic::Request::new(message);
        let value = format!("Bearer {}", token(caller)).parse().expect("a header");
        request.metadata_mut().insert("authorization", value);
        SchedulerClient::new(channel.clone()).register_resource_manager(request).await
    };
    let mut limited = None;
    for _ in 0..100 {
        match register("second").await {
            Err(status) if status.code() == Code::ResourceExhausted => {
                limited = Some(status);
                break;
            }
            _ => {}
        }
    }
    let limited = limited.expect("too many");
    assert!(
        limited.message().contains("token second") && limited.metadata().get("retry-after").is_some(),
        "{limited:?}"
    );
    assert!(register("shim").await.is_ok());
    let metrics = server.send("operator", "GET", "/ws/v1/metrics", None).await.text().await.expect("a text");
    for door in ["http", "grpc"] {
        let row = format!("callboard_requests_refused_total{{door=\"{door}\",reason=\"rate\"}} ");
        let count = metrics.lines().find_map(|line| line.strip_prefix(&row)).expect("counted");
        assert!(count.parse::<f64>().expect("a number") >= 1.0, "{count}");
    }
}
