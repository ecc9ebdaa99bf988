//! Stands before a server as its access control would: what is not a file of the page needs a token.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
};

pub struct Guard {
    pub url: String,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Guard {
    pub async fn start(backend: &str, token: &'static str) -> Guard {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let backend = backend.to_owned();
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, backend.clone(), token));
            }
        });
        Guard { url, task }
    }
}

/// One request for each connection.
async fn serve(mut socket: TcpStream, backend: String, token: &str) {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut part = [0; 4096];
        match socket.read(&mut part).await {
            Ok(read) if read > 0 => head.extend_from_slice(&part[..read]),
            _ => return,
        }
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let path = text.split(' ').nth(1).unwrap_or("");
    let free = path == "/" || path.starts_with("/page/");
    if !free && !text.to_lowercase().contains(&format!("authorization: bearer {token}\r\n")) {
        let refusal = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let _ = socket.write_all(refusal.as_bytes()).await;
        return;
    }
    let Ok(mut inner) = TcpStream::connect(backend).await else { return };
    let once = text.replacen("\r\n", "\r\nConnection: close\r\n", 1).replace("Connection: keep-alive\r\n", "");
    if inner.write_all(once.as_bytes()).await.is_ok() {
        let _ = copy_bidirectional(&mut socket, &mut inner).await;
    }
}
