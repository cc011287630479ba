//! Servers for tests: one that keeps the received bytes, and some that misbehave.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Starts a server that handles each connection on a thread of its own, as long as the test runs.
pub(crate) fn serve(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Starts a server that takes connections and does nothing more, as long as the test runs.
pub(crate) fn silent() -> SocketAddr {
    serve(|stream| {
        thread::park_timeout(Duration::from_secs(600));
        drop(stream);
    })
}

/// Starts a server that reads a little and closes.
pub(crate) fn closing() -> SocketAddr {
    serve(|mut stream| {
        let _ = stream.read(&mut [0; 1_000]);
    })
}

/// Starts a server that takes everything; the bytes of each connection arrive at its end.
pub(crate) fn keeping() -> (SocketAddr, Receiver<Vec<u8>>) {
    let (sender, receiver) = channel();
    let address = serve(move |mut stream| {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        sender.send(bytes).unwrap();
    });
    (address, receiver)
}

/// Starts a server whose answers come from `answer`: from first line and body to status and text.
pub(crate) fn answering(
    answer: impl Fn(&str, &[u8]) -> (u16, String) + Clone + Send + 'static,
) -> SocketAddr {
    serve(move |stream| {
        let mut reader = BufReader::new(&stream);
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|count| count != 0) {
            let first = line.trim_end().to_owned();
            let mut length = 0;
            loop {
                line.clear();
                reader.read_line(&mut line).unwrap();
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line == "\r\n" {
                    break;
                }
            }
            line.clear();
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let (status, text) = answer(&first, &body);
            let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n", text.len());
            (&stream).write_all(format!("{head}{text}").as_bytes()).unwrap();
        }
    })
}

/// Waits until a started server takes connections.
pub(crate) fn answers(name: &str, port: u16, server: &mut Child) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < deadline, "{name} starts");
        assert_eq!(server.try_wait().unwrap(), None, "{name} runs");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Returns a port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
