//! Why a server did not start, or did not end as it should.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

use crate::auth::UserFileError;
use crate::copy::FolderError;
use crate::ilp::KeyFileError;
use crate::tls::TlsError;

/// The result of what a server does as a whole.
pub type Result<T> = std::result::Result<T, Error>;

/// See the module.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// An address cannot be listened on.
    #[error("cannot listen on {address} for {what}")]
    Bind {
        /// What for.
        what: &'static str,
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Other machines could reach the server without a secret.
    #[error(
        "refusing to listen on {key} = {address} for other machines without a secret; {advice}"
    )]
    Open {
        /// Which key.
        key: &'static str,
        /// Where.
        address: SocketAddr,
        /// What to do.
        advice: &'static str,
    },
    /// The keys of those who may send lines cannot be read.
    #[error(transparent)]
    Keys(#[from] KeyFileError),
    /// A folder of COPY cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Users cannot be read.
    #[error(transparent)]
    Users(#[from] UserFileError),
    /// TLS is wanted and cannot be had.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// There is nothing to do.
    #[error("http.listen, pg.listen and ilp.tcp.listen are none: there is nothing to serve")]
    Nothing,
    /// Threads or signals are not to be had.
    #[error("start the server's threads")]
    Threads {
        /// Why.
        source: io::Error,
    },
    /// The database cannot be opened, or not be closed.
    #[error(transparent)]
    Storage(#[from] tidegate_storage::Error),
    /// The engine of queries cannot be made.
    #[error(transparent)]
    Query(#[from] tidegate_query::Error),
}

impl Error {
    /// Whether it is the configuration that has to be changed.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            Error::Bind { .. }
            | Error::Open { .. }
            | Error::Keys(_)
            | Error::Folder(_)
            | Error::Users(_)
            | Error::Tls(_)
            | Error::Nothing => true,
            Error::Threads { .. } | Error::Storage(_) | Error::Query(_) => false,
        }
    }
}
