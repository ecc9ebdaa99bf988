//! Whether a server's address refuses connections: then its process is gone, and its lease need not be waited for.

use std::{io::ErrorKind, time::Duration};

use tokio::{net::TcpStream, time::timeout};

use super::keys::Server;

/// Of a server that takes longer to answer nothing is known.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether its address takes connections, or nobody listens there; `None`: that is not known.
pub async fn takes(server: &Server) -> Option<bool> {
    match timeout(PATIENCE, TcpStream::connect(address(server)?)).await.ok()? {
        Ok(_) => Some(true),
        Err(error) => (error.kind() == ErrorKind::ConnectionRefused).then_some(false),
    }
}

/// Host and port of a door.
fn address(server: &Server) -> Option<String> {
    if server.http.is_empty() {
        return (!server.grpc.is_empty()).then(|| server.grpc.clone());
    }
    let uri: hyper::Uri = server.http.parse().ok()?;
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
    Some(format!("{}:{port}", uri.host()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_where_nobody_listens_refuses() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let server = Server { http: format!("http://{at}"), ..Server::default() };
        assert_eq!(takes(&server).await, Some(true));
        drop(listener);
        assert_eq!(takes(&server).await, Some(false));
        assert_eq!(takes(&Server { grpc: at.to_string(), ..Server::default() }).await, Some(false));
        assert_eq!(takes(&Server::default()).await, None);
        assert_eq!(address(&Server { http: "https://[::1]/".into(), ..server }).as_deref(), Some("[::1]:443"));
    }
}
