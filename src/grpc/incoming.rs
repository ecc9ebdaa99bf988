//! Connections as they come, encrypted where the door has a certificate.

use std::{io, sync::Arc, time::Duration};

use futures::{Stream, StreamExt as _};
use rustls::ServerConfig;
use tokio::{net::TcpListener, net::TcpStream, sync::mpsc, time::timeout};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};

/// A peer has so long for its part of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Connections that nobody has taken yet.
const READY: usize = 64;

/// Plain connections.
pub fn plain(listener: TcpListener) -> impl Stream<Item = io::Result<TcpStream>> {
    TcpListenerStream::new(listener).map(|connection| {
        connection.inspect(|stream| {
            // It still works without, only slower.
            let _ = stream.set_nodelay(true);
        })
    })
}

/// Encrypted ones. A slow peer holds up nobody else; one that fails is not seen.
pub fn encrypted(listener: TcpListener, config: ServerConfig) -> impl Stream<Item = io::Result<TlsStream<TcpStream>>> {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (ready, connections) = mpsc::channel(READY);
    tokio::spawn(async move {
        let mut accepted = Box::pin(plain(listener));
        loop {
            let stream = tokio::select! {
                stream = accepted.next() => stream,
                () = ready.closed() => return,
            };
            let stream = match stream {
                Some(Ok(stream)) => stream,
                Some(Err(error)) => {
                    if ready.send(Err(error)).await.is_err() {
                        return;
                    }
                    continue;
                }
                None => return,
            };
            let (acceptor, ready) = (acceptor.clone(), ready.clone());
            tokio::spawn(async move {
                match timeout(HANDSHAKE, acceptor.accept(stream)).await {
                    // Nobody takes it: the door is being closed.
                    Ok(Ok(stream)) => drop(ready.send(Ok(stream)).await),
                    Ok(Err(error)) => tracing::debug!(%error, "no TLS on a gRPC connection"),
                    Err(_) => tracing::debug!("no TLS on a gRPC connection in time"),
                }
            });
        }
    });
    ReceiverStream::new(connections)
}
