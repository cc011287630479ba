//! Connection threads: threads that each have connections of their own.
//!
//! - A connection stays on the thread that it was given: no work of it moves to another thread,
//!   which would have to be woken, and would find nothing to do. Connections are given to the
//!   threads in turn.
//!
//! Small statements are answered by the thread of their connection; threads that share their work
//! woke each other for each statement.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tidegate_query::STACK_BYTES;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::error::{Error, Result};

/// A set of connection threads.
pub(crate) struct ConnectionThreads {
    threads: Vec<Thread>,
    next: AtomicUsize,
}

struct Thread {
    handle: Handle,
    stop: oneshot::Sender<()>,
    /// The channel closes when the thread ends; nothing is sent.
    ended: Mutex<Receiver<()>>,
}

impl ConnectionThreads {
    pub(crate) fn new(name: &str, threads: NonZeroUsize) -> Result<ConnectionThreads> {
        let threads = (0..threads.get()).map(|_| Thread::start(name)).collect::<Result<_>>()?;
        Ok(ConnectionThreads { threads, next: AtomicUsize::new(0) })
    }

    /// Passes a connection to the next thread.
    ///
    /// # Errors
    /// If the socket cannot be taken from its runtime.
    pub(crate) fn give<F>(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        work: impl FnOnce(TcpStream, SocketAddr) -> F + Send + 'static,
    ) -> std::io::Result<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stream = stream.into_std()?;
        self.spawn(async move {
            // It fails only if the system has no memory for it: the connection ends.
            if let Ok(stream) = TcpStream::from_std(stream) {
                work(stream, peer).await;
            }
        });
        Ok(())
    }

    /// Runs the work of a connection on the next thread.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let at = self.next.fetch_add(1, Relaxed) % self.threads.len();
        self.threads[at].handle.spawn(work);
    }

    /// Ends the connections, and waits at most this long for each of the threads.
    pub(crate) fn end(self, wait: Duration) {
        for Thread { stop, ended, .. } in self.threads {
            // Both fail only if the thread has ended already.
            let _ = oneshot::Sender::send(stop, ());
            let ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
            let _ = ended.recv_timeout(wait);
        }
    }
}

impl Thread {
    fn start(name: &str) -> Result<Thread> {
        let failed = |source| Error::Threads { source };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let ((stop, stopped), (running, ended)) = (oneshot::channel(), channel::<()>());
        let run = move || {
            // A sender that was dropped ends the thread, too.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
            drop(running);
        };
        let thread = thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES);
        thread.spawn(run).map_err(failed)?;
        Ok(Thread { handle, stop, ended: Mutex::new(ended) })
    }
}
