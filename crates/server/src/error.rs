//! Errors of starting and stopping a server.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

use crate::auth::UserFileError;
use crate::copy::FolderError;
use crate::ilp::KeyFileError;
use crate::tls::TlsError;

/// The result of an operation of the whole server.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a server did not start, or did not stop cleanly.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// An address cannot be listened on.
    #[error("cannot listen on {address} for {what}")]
    Bind {
        /// The protocol.
        what: &'static str,
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// Other machines could reach the server without a secret.
    #[error(
        "refusing to listen on {key} = {address} for other machines without a secret; {advice}"
    )]
    NoSecret {
        /// The key of the configuration.
        key: &'static str,
        /// The address.
        address: SocketAddr,
        /// The advice for the user.
        advice: &'static str,
    },
    /// The file with the keys of TCP clients cannot be read.
    #[error(transparent)]
    Keys(#[from] KeyFileError),
    /// A directory of COPY cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The users cannot be read.
    #[error(transparent)]
    Users(#[from] UserFileError),
    /// TLS is configured and cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// No listener is configured.
    #[error("http.listen, pg.listen and ilp.tcp.listen are all `none`: there is nothing to serve")]
    NoListener,
    /// Threads or signal handlers cannot be set up.
    #[error("start the server's threads")]
    Threads {
        /// The reason.
        source: io::Error,
    },
    /// The database cannot be opened, or not be closed.
    #[error(transparent)]
    Storage(#[from] tidegate_storage::Error),
    /// The query engine cannot be set up.
    #[error(transparent)]
    Query(#[from] tidegate_query::Error),
}

impl Error {
    /// Returns true if the configuration has to be changed.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            Error::Bind { .. }
            | Error::NoSecret { .. }
            | Error::Keys(_)
            | Error::Folder(_)
            | Error::Users(_)
            | Error::Tls(_)
            | Error::NoListener => true,
            Error::Threads { .. } | Error::Storage(_) | Error::Query(_) => false,
        }
    }
}
