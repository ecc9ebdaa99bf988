//! Connections as they come, so many at a time, encrypted where the door has a certificate. One over which nobody calls who may is closed.

use std::{
    io,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{Stream, StreamExt as _, future::poll_fn, stream};
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::{Instant, Sleep, sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

use super::{
    paced::{Arrived, Paced},
    room::{Place, Room, Ticket},
};
use crate::access::certificate::Shown;

/// Connections that nobody has taken yet.
const READY: usize = 64;

/// Pause after none could be accepted: what is short then (descriptors, memory) is not back at once.
const PAUSE: Duration = Duration::from_millis(500);

/// Plain connections, at most `room` at a time, each of which has so long for its first request.
pub fn plain(
    listener: TcpListener,
    room: usize,
    patience: Duration,
) -> impl Stream<Item = io::Result<Patient<TcpStream>>> {
    accepted(listener, room).map(move |(stream, place)| {
        let address = address(&stream);
        Ok(Patient::new(stream, place, address, Shown::default(), patience))
    })
}

fn address(stream: &TcpStream) -> Option<IpAddr> {
    Some(stream.peer_addr().ok()?.ip())
}

/// Connections, each with its place among those that may be open. One waits here for its place, those beyond wait in the kernel.
fn accepted(listener: TcpListener, room: usize) -> impl Stream<Item = (TcpStream, Place)> {
    stream::unfold((listener, Room::new(room)), |(listener, room)| async {
        let stream = accept(|| async { Ok(listener.accept().await?.0) }).await;
        let place = room.place(address(&stream)).await;
        // It still works without, only slower.
        let _ = stream.set_nodelay(true);
        Some(((stream, place), (listener, room)))
    })
}

/// The next connection. What goes wrong before it is logged once: that may go on for hours.
async fn accept<S, F: Future<Output = io::Result<S>>>(next: impl Fn() -> F) -> S {
    let mut told = false;
    loop {
        let error = match next().await {
            Ok(stream) => return stream,
            // Whoever was about to connect has gone.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) => error,
        };
        if !told {
            tracing::warn!(
                code = "grpc-not-accepted",
                %error,
                "a gRPC connection cannot be accepted: it is tried again twice a second"
            );
            told = true;
        }
        sleep(PAUSE).await;
    }
}

/// Encrypted ones, at most `room` at a time, each of which has so long for its part of the handshake, and then for its first request. A slow peer
/// holds up nobody else; one that fails is not seen.
pub fn encrypted(
    listener: TcpListener,
    room: usize,
    config: ServerConfig,
    patience: Duration,
) -> impl Stream<Item = io::Result<Patient<TlsStream<TcpStream>>>> {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (ready, connections) = mpsc::channel(READY);
    tokio::spawn(async move {
        let mut accepted = Box::pin(accepted(listener, room));
        loop {
            let stream = tokio::select! {
                stream = accepted.next() => stream,
                () = ready.closed() => return,
            };
            let Some((stream, place)) = stream else { return };
            let (acceptor, ready) = (acceptor.clone(), ready.clone());
            tokio::spawn(async move {
                let address = address(&stream);
                let accepted = tokio::select! {
                    accepted = timeout(patience, acceptor.accept(stream)) => accepted,
                    () = poll_fn(|context| place.poll_closed(context)) => return,
                };
                match accepted {
                    // Nobody takes it: the door is being closed.
                    Ok(Ok(stream)) => {
                        let shown = Shown::of(stream.get_ref().1.peer_certificates());
                        drop(ready.send(Ok(Patient::new(stream, place, address, shown, patience))).await);
                    }
                    Ok(Err(error)) => tracing::debug!(%error, "no TLS on a gRPC connection"),
                    Err(_) => tracing::debug!("no TLS on a gRPC connection in time"),
                }
            });
        }
    });
    ReceiverStream::new(connections)
}

/// A connection whose frames are handed on in order ([`Paced`]), and that fails when no call of somebody who may has come over it in time, or when
/// its place is needed ([`Room`]): a peer that never speaks HTTP/2, or is never let in, holds nothing for long. Once there was such a call, pings tell whether the peer is there.
pub struct Patient<S> {
    io: S,
    request: Connection,
    paced: Paced,
    end: Option<Pin<Box<Sleep>>>,
    patience: Duration,
    /// Its place among those that may be open.
    place: Place,
}

/// What a connection shares with its requests, each of which carries it in its extensions.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    /// Its place among those that may be open.
    pub ticket: Option<Ticket>,
    /// Requests of plain streams that are being handed in.
    pub arrived: Arc<Arrived>,
    /// Address of the client.
    pub address: Option<IpAddr>,
    /// The certificate that the client has shown.
    pub shown: Shown,
}

impl<S> Patient<S> {
    fn new(io: S, place: Place, address: Option<IpAddr>, shown: Shown, patience: Duration) -> Patient<S> {
        let request = Connection { address, shown, ticket: Some(place.ticket()), ..Connection::default() };
        let paced = Paced::new(request.arrived.clone());
        Patient { io, request, paced, end: Some(Box::pin(sleep(patience))), patience, place }
    }

    /// Whether it is over.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.place.poll_closed(cx).is_ready() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        while let Some(end) = &mut self.end
            && end.as_mut().poll(cx).is_ready()
        {
            match self.place.due(self.patience) {
                None => self.end = None,
                Some(due) if due > Instant::now() => end.as_mut().reset(due),
                Some(_) => {
                    tracing::debug!("a gRPC connection without a call that is let in is closed");
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
        }
        Ok(())
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
        if let Err(over) = self.poll_over(cx) {
            return Poll::Ready(Err(over));
        }
        let Patient { io, paced, .. } = &mut *self;
        paced.poll_read(Pin::new(io), cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        // While nothing can be written nothing is read either.
        if let Err(over) = self.poll_over(cx) {
            return Poll::Ready(Err(over));
        }
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
        if let Err(over) = self.poll_over(cx) {
            return Poll::Ready(Err(over));
        }
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_door_without_descriptors_waits_between_its_tries() {
        let (tries, began) = (AtomicU32::new(0), Instant::now());
        let next = || async {
            match tries.fetch_add(1, SeqCst) {
                0 => Err(io::ErrorKind::ConnectionAborted.into()),
                1..=4 => Err(io::Error::from_raw_os_error(nix::libc::EMFILE)),
                _ => Ok(7),
            }
        };
        assert_eq!(accept(next).await, 7);
        assert_eq!((tries.load(SeqCst), began.elapsed()), (6, PAUSE * 4));
    }

    #[tokio::test]
    async fn connections_beyond_the_bound_wait_until_one_has_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let mut incoming = Box::pin(plain(listener, 2, Duration::from_secs(60)));
        let _peers = [(); 3].map(|()| std::net::TcpStream::connect(addr).unwrap());
        let first = incoming.next().await.unwrap().unwrap();
        let _second = incoming.next().await.unwrap().unwrap();
        // Not there without waiting.
        assert!(futures::FutureExt::now_or_never(incoming.next()).is_none());
        drop(first);
        assert!(incoming.next().await.unwrap().is_ok());
    }
}
