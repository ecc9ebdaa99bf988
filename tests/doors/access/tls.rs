//! Encrypted doors, with a certificate made for the test.

use std::{fs, net::TcpStream, sync::Arc};

use callboard::access::certificate::{chain, provider};
use rustls::{ClientConfig, ClientConnection, RootCertStore, pki_types::ServerName};
use std::io::{Read as _, Write as _};

use crate::access::rig::{Server, certificate, program, standard, token, until};

fn encrypted() -> Server {
    let dir = tempfile::tempdir().unwrap();
    let [cert, key] = certificate(dir.path());
    let tokens = dir.path().join("tokens");
    fs::write(&tokens, standard()).unwrap();
    Server::start_in(dir, &["--tokens", &tokens.display().to_string(), "--tls-cert", &cert, "--tls-key", &key])
}

/// One request over TLS; gives the answer, and the certificate that the server showed.
pub fn get(server: &Server, path: &str) -> Result<(String, Vec<u8>), String> {
    let mut roots = RootCertStore::empty();
    for known in chain(&server.dir.path().join("tls.crt")).unwrap() {
        roots.add(known).unwrap();
    }
    let config = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let mut session = ClientConnection::new(Arc::new(config), name).unwrap();
    let address = server.address("http").trim_start_matches("https://").to_owned();
    let mut socket = TcpStream::connect(&address).unwrap();
    let mut stream = rustls::Stream::new(&mut session, &mut socket);
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\r\n",
        token("viewer")
    );
    stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
    let mut answer = String::new();
    // The end may come without the farewell of TLS.
    let _ = stream.read_to_string(&mut answer);
    let shown = session.peer_certificates().unwrap()[0].to_vec();
    Ok((answer, shown))
}

#[tokio::test]
async fn http_is_encrypted() {
    let server = encrypted();
    let ready = &server.program.ready;
    assert!(ready.contains(" http=https://127.0.0.1:") && ready.contains(" grpc=https://"), "{ready}");
    let (answer, _) = get(&server, "/ws/v1/clusters").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("[]\n"), "{answer}");
    // Whoever does not encrypt gets nothing.
    let plain = server.address("http").replace("https://", "http://");
    assert!(reqwest::get(format!("{plain}/ws/v1/clusters")).await.is_err());
}

#[tokio::test]
async fn a_new_certificate_is_shown_to_new_connections() {
    let server = encrypted();
    let (_, first) = get(&server, "/healthz").unwrap();
    certificate(server.dir.path());
    until(|| async { get(&server, "/healthz").is_ok_and(|(_, shown)| shown != first) }).await;
}

#[tokio::test]
async fn new_certificates_are_in_the_audit_log() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).display().to_string();
    let [cert, key] = certificate(dir.path());
    let (tokens, clients) = (file("tokens"), file("clients"));
    fs::write(&tokens, standard()).unwrap();
    fs::copy(&cert, &clients).unwrap();
    let files = ["--tokens", &tokens, "--tls-cert", &cert, "--tls-key", &key, "--tls-client-ca", &clients];
    let server = Server::start_in(dir, &files);
    let told = async |parts: &[&str]| {
        until(|| async {
            let mut audit = program(&["audit", "--server", &server.address("http"), "--ca", &cert]);
            let done = audit.env("CALLBOARD_TOKEN", token("operator")).output().expect("it runs");
            let told = String::from_utf8_lossy(&done.stdout).into_owned();
            told.lines().any(|line| parts.iter().all(|part| line.contains(part)))
        })
        .await;
    };
    certificate(server.dir.path());
    told(&["--tls-cert file read files again done", &cert]).await;
    fs::copy(&cert, &clients).unwrap();
    told(&["--tls-client-ca file read files again done", &clients]).await;
    fs::write(&key, "nonsense").unwrap();
    told(&["--tls-cert file read files again failed", &key]).await;
    server.signal("HUP");
    told(&["SIGHUP signal read files again failed", &tokens, &key, &clients]).await;
}
