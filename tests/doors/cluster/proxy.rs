//! The network between a server and etcd: what goes through can be cut, or stand still while connections stay open.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

const PASS: u8 = 0;
const STALL: u8 = 1;
const CUT: u8 = 2;
/// How often it is looked whether bytes may go on.
const LOOK: Duration = Duration::from_millis(5);

/// See the module. Its threads end with the process.
pub struct Proxy {
    at: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    mode: AtomicU8,
    open: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// Passes on what comes to the server at this URL.
    pub fn to(url: &str) -> Proxy {
        let to: SocketAddr = url.trim_start_matches("http://").parse().expect("an address");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("bound");
        let state = Arc::<State>::default();
        let shared = state.clone();
        thread::spawn(move || {
            for from in listener.incoming().map_while(Result::ok) {
                // Where it is cut, or nobody is there, the connection ends at once.
                if shared.mode.load(SeqCst) == CUT {
                    continue;
                }
                let Ok(there) = TcpStream::connect(to) else { continue };
                shared.pass(&from, &there);
                shared.pass(&there, &from);
            }
        });
        Proxy { at, state }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.at)
    }

    /// Connections break, and no others come about.
    pub fn cut(&self) {
        self.state.mode.store(CUT, SeqCst);
        for stream in self.state.open.lock().expect("no panic").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Nothing goes through, and nobody is told.
    pub fn stall(&self) {
        self.state.mode.store(STALL, SeqCst);
    }

    /// All goes through again.
    pub fn pass(&self) {
        self.state.mode.store(PASS, SeqCst);
    }
}

impl State {
    fn pass(self: &Arc<Self>, from: &TcpStream, to: &TcpStream) {
        let (mut from, mut to) = (from.try_clone().expect("a stream"), to.try_clone().expect("a stream"));
        self.open.lock().expect("no panic").push(from.try_clone().expect("a stream"));
        let state = self.clone();
        thread::spawn(move || {
            let mut bytes = [0; 16 << 10];
            while let Ok(length @ 1..) = from.read(&mut bytes) {
                while state.mode.load(SeqCst) == STALL {
                    thread::sleep(LOOK);
                }
                if to.write_all(&bytes[..length]).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
        });
    }
}
