//! Connections as they come, encrypted where the door has a certificate. One that asks for nothing is closed.

use std::{
    io,
    net::IpAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures::{Stream, StreamExt as _};
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::{Sleep, sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::server::Connected;

use super::paced::{Arrived, Paced};
use crate::access::certificate;

/// Connections that nobody has taken yet.
const READY: usize = 64;

/// Plain connections, each of which has so long for its first request.
pub fn plain(listener: TcpListener, patience: Duration) -> impl Stream<Item = io::Result<Patient<TcpStream>>> {
    accepted(listener).map(move |connection| {
        connection.map(|stream| {
            let peer = peer(&stream);
            Patient::new(stream, peer, Vec::new(), patience)
        })
    })
}

fn peer(stream: &TcpStream) -> Option<IpAddr> {
    Some(stream.peer_addr().ok()?.ip())
}

fn accepted(listener: TcpListener) -> impl Stream<Item = io::Result<TcpStream>> {
    TcpListenerStream::new(listener).map(|connection| {
        connection.inspect(|stream| {
            // It still works without, only slower.
            let _ = stream.set_nodelay(true);
        })
    })
}

/// Encrypted ones, each of which has so long for its part of the handshake, and then for its first request. A slow peer
/// holds up nobody else; one that fails is not seen.
pub fn encrypted(
    listener: TcpListener,
    config: ServerConfig,
    patience: Duration,
) -> impl Stream<Item = io::Result<Patient<TlsStream<TcpStream>>>> {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (ready, connections) = mpsc::channel(READY);
    tokio::spawn(async move {
        let mut accepted = Box::pin(accepted(listener));
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
                let peer = peer(&stream);
                match timeout(patience, acceptor.accept(stream)).await {
                    // Nobody takes it: the door is being closed.
                    Ok(Ok(stream)) => {
                        let shown = certificate::names(stream.get_ref().1.peer_certificates());
                        drop(ready.send(Ok(Patient::new(stream, peer, shown, patience))).await);
                    }
                    Ok(Err(error)) => tracing::debug!(%error, "no TLS on a gRPC connection"),
                    Err(_) => tracing::debug!("no TLS on a gRPC connection in time"),
                }
            });
        }
    });
    ReceiverStream::new(connections)
}

/// A connection whose frames are handed on in order ([`Paced`]), and that fails when no request has come over it in time: a peer that never speaks HTTP/2, or never asks for
/// anything, holds nothing for long. Once there was a request, pings tell whether the peer is there.
pub struct Patient<S> {
    io: S,
    request: Connection,
    paced: Paced,
    end: Option<Pin<Box<Sleep>>>,
}

/// What a connection shares with its requests, each of which carries it in its extensions.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    /// Whether a request has come over it.
    asked: Arc<AtomicBool>,
    /// Requests of plain streams that are being handed in.
    pub arrived: Arc<Arrived>,
    /// Address of the client.
    address: Option<IpAddr>,
    /// Names of the certificate that the client has shown.
    shown: Arc<[Box<str>]>,
}

impl Connection {
    /// Here is a request.
    pub fn came(&self) {
        self.asked.store(true, Relaxed);
    }

    /// Names of the certificate that the client has shown.
    pub fn shown(&self) -> &[Box<str>] {
        &self.shown
    }

    /// Address of the client.
    pub fn peer(&self) -> Option<IpAddr> {
        self.address
    }
}

impl<S> Patient<S> {
    fn new(io: S, address: Option<IpAddr>, shown: Vec<Box<str>>, patience: Duration) -> Patient<S> {
        let request = Connection { address, shown: shown.into(), ..Connection::default() };
        let paced = Paced::new(request.arrived.clone());
        Patient { io, request, paced, end: Some(Box::pin(sleep(patience))) }
    }
}

impl<S> Connected for Patient<S> {
    type ConnectInfo = Connection;

    fn connect_info(&self) -> Connection {
        self.request.clone()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(end) = &mut self.end {
            if end.as_mut().poll(cx).is_ready() && !self.request.asked.load(Relaxed) {
                tracing::debug!("a gRPC connection without a request is closed");
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            if self.request.asked.load(Relaxed) {
                self.end = None;
            }
        }
        let Patient { io, paced, .. } = &mut *self;
        paced.poll_read(Pin::new(io), cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }
}
