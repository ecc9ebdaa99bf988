//! Answers that are written while they are sent: in chunks, of which only few wait for the client at a time.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use actix_web::{HttpRequest, HttpResponse, http::header};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures::{Stream, stream};
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
    task::spawn_blocking,
    time::timeout,
};

use super::reply::{self, COMPRESS_FROM};

/// Size of a chunk in bytes.
const CHUNK: usize = 64 << 10;
/// Chunks that wait for the client at most.
const WAITING: usize = 4;
/// A client that takes nothing for so long has given up.
pub const STALLED: Duration = Duration::from_secs(30);

/// Sends JSON that `write` writes, on a thread where it may take its time, with the headers and the compression of every other
/// JSON answer. A client that goes away, or stands still, makes `write` fail. One that fails otherwise cuts the answer off.
pub async fn send<F>(req: &HttpRequest, write: F) -> HttpResponse
where
    F: FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static,
{
    let (begin, begun) = oneshot::channel();
    let (chunks, received) = mpsc::channel(WAITING);
    let whole = Arc::new(AtomicBool::new(false));
    let mut spool = Spool {
        buffer: Vec::with_capacity(CHUNK),
        gzip: reply::takes_gzip(req),
        encoder: None,
        begin: Some(begin),
        chunks,
        runtime: Handle::current(),
    };
    let done = whole.clone();
    spawn_blocking(move || match write(&mut spool).and_then(|()| spool.finish()) {
        Ok(()) => done.store(true, Ordering::Release),
        Err(error) => tracing::debug!(%error, "an answer was not sent to its end"),
    });
    let compressed = begun.await.unwrap_or(false);
    let mut response = HttpResponse::Ok();
    response.insert_header((header::CONTENT_TYPE, reply::JSON));
    for (name, value) in reply::cors_headers(req) {
        response.insert_header((name, value));
    }
    if compressed {
        response.insert_header((header::CONTENT_ENCODING, "gzip"));
        response.insert_header((header::VARY, "Accept-Encoding"));
    }
    response.streaming(body(received, whole))
}

/// What is received, to its end where that is said to be `whole`; else the answer is cut off.
pub fn body(received: mpsc::Receiver<Bytes>, whole: Arc<AtomicBool>) -> impl Stream<Item = io::Result<Bytes>> {
    stream::unfold(Some((received, whole)), async |state| {
        let (mut received, whole) = state?;
        match received.recv().await {
            Some(chunk) => Some((Ok(chunk), Some((received, whole)))),
            None if whole.load(Ordering::Acquire) => None,
            None => Some((Err(io::ErrorKind::UnexpectedEof.into()), None)),
        }
    })
}

/// Collects chunks and hands them on.
struct Spool {
    buffer: Vec<u8>,
    /// The client takes compressed answers.
    gzip: bool,
    encoder: Option<GzEncoder<Vec<u8>>>,
    /// Told whether the answer is compressed, as soon as that is known.
    begin: Option<oneshot::Sender<bool>>,
    chunks: mpsc::Sender<Bytes>,
    runtime: Handle,
}

impl Spool {
    fn begin(&mut self) {
        if let Some(begin) = self.begin.take() {
            let compress = self.gzip && self.buffer.len() >= COMPRESS_FROM;
            self.encoder = compress.then(|| GzEncoder::new(Vec::with_capacity(CHUNK), Compression::fast()));
            // Where nobody waits for it the first chunk fails.
            let _ = begin.send(compress);
        }
    }

    /// Hands on what is in the buffer.
    fn hand_on(&mut self) -> io::Result<()> {
        self.begin();
        let part = std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK));
        let part = match &mut self.encoder {
            None => part,
            Some(encoder) => {
                encoder.write_all(&part)?;
                std::mem::take(encoder.get_mut())
            }
        };
        self.give(part)
    }

    fn give(&self, part: Vec<u8>) -> io::Result<()> {
        if part.is_empty() {
            return Ok(());
        }
        match self.runtime.block_on(timeout(STALLED, self.chunks.send(part.into()))) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::ErrorKind::BrokenPipe.into()),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.hand_on()?;
        match self.encoder.take() {
            Some(encoder) => self.give(encoder.finish()?),
            None => Ok(()),
        }
    }
}

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK {
            self.hand_on()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_given_up() {
        let (end, mut ended) = oneshot::channel();
        let endless = move |to: &mut dyn Write| {
            let mut written = 0;
            let error = loop {
                match to.write_all(&[b'a'; CHUNK]) {
                    Ok(()) => written += 1,
                    Err(error) => break error,
                }
            };
            let _ = end.send((error.kind(), written));
            Err(error)
        };
        let response = send(&TestRequest::default().to_http_request(), endless).await;
        let mut waited = 0;
        // The writer has a thread of its own: the clock may be ahead of it.
        let told = loop {
            if let Ok(told) = ended.try_recv() {
                break told;
            }
            tokio::time::advance(Duration::from_secs(1)).await;
            waited += 1;
        };
        assert_eq!(told, (io::ErrorKind::TimedOut, WAITING));
        assert!(waited >= STALLED.as_secs(), "{waited} s");
        drop(response);
    }
}
