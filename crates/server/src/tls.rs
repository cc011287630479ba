//! TLS 1.2 and 1.3 for every listener: certificates, their key, and certificates of clients.
//!
//! - server_tls-1. The key is a secret: a file that other users of the machine can read is refused.
//! - server_tls-2. Changed files are used for later connections; if certificate and key do not
//!   match, the earlier ones stay.
//! - server_tls-3. Each protocol has its own name in the handshake (ALPN), and refuses clients that
//!   name another: a message for one protocol is never read as one of the other.
//! - server_tls-4. A connection keeps the certificate that it was accepted with, after a reload
//!   too.
//!
//! Not here: the negotiation of TLS within a protocol (`pg`, `http`).

mod binding;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ServerSessionMemoryCache, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use thiserror::Error;
use tidegate_platform::{Disk, RealDisk};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use crate::config::{TlsConfig, TlsMode};

/// A connection with TLS.
pub(crate) type ServerStream = tokio_rustls::server::TlsStream<TcpStream>;

/// The protocol that PostgreSQL's clients name when they begin with TLS at once.
const PG_PROTOCOL: &[u8] = b"postgresql";
const HTTP_PROTOCOL: &[u8] = b"http/1.1";
/// The first byte of a TLS connection.
pub(crate) const TLS_HANDSHAKE: u8 = 0x16;
/// The most sessions of HTTP's clients that may be resumed.
const SESSIONS_MAX: usize = 256;
/// The interval at which the files are checked for changes (server_tls-2).
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The reason why TLS cannot be set up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: tidegate_platform::Error,
    },
    /// A file does not have the expected content.
    #[error("{path} has no {what} in PEM format")]
    Empty {
        /// The file.
        path: PathBuf,
        /// The expected content.
        what: &'static str,
    },
    /// Other users of the machine can read the key.
    #[error("{path} can be read by other users: restrict it with chmod 600")]
    OpenKey {
        /// The file.
        path: PathBuf,
    },
    /// A key of the configuration is missing.
    #[error("TLS needs the configuration key `{key}`")]
    Missing {
        /// The key of the configuration.
        key: &'static str,
    },
    /// Certificate and key do not match or are not supported.
    #[error("certificate and key cannot be used")]
    Unusable {
        /// The reason.
        source: rustls::Error,
    },
    /// The CA for clients is invalid.
    #[error("{path} has no usable certificate authority for clients: {reason}")]
    ClientAuthority {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

/// The TLS setup of a server.
pub(crate) struct Tls {
    config: TlsConfig,
    current: Mutex<Current>,
}

struct Current {
    acceptors: Acceptors,
    stamps: Vec<Option<Stamp>>,
    checked_at: Instant,
}

/// An acceptor for each protocol, which refuses the other one (server_tls-3).
#[derive(Clone)]
struct Acceptors {
    http: TlsAcceptor,
    pg: TlsAcceptor,
    /// The hash of the certificate, to which a login can be bound (server_tls-4).
    end_point: Option<Arc<[u8]>>,
}

/// The metadata of a file that changes with its content.
type Stamp = (u64, i64, i64);

impl Tls {
    /// Sets up TLS; `None` if it is off.
    pub(crate) fn new(config: &TlsConfig) -> Result<Option<Tls>, TlsError> {
        if config.mode == TlsMode::Off {
            return Ok(None);
        }
        let current = Current {
            acceptors: acceptors(config)?,
            stamps: stamps(config),
            checked_at: Instant::now(),
        };
        Ok(Some(Tls { config: config.clone(), current: Mutex::new(current) }))
    }

    /// Returns true if connections in plain text are refused.
    pub(crate) fn is_required(&self) -> bool {
        self.config.mode == TlsMode::Require
    }

    /// Returns the acceptor for a new connection of PostgreSQL's protocol (server_tls-2), with the
    /// hash of its certificate, if a login can be bound to it (server_tls-4).
    pub(crate) fn acceptor(&self) -> (TlsAcceptor, Option<Arc<[u8]>>) {
        let Acceptors { pg, end_point, .. } = self.current();
        (pg, end_point)
    }

    /// Returns the acceptor for a new connection of HTTP.
    pub(crate) fn http_acceptor(&self) -> TlsAcceptor {
        self.current().http
    }

    fn current(&self) -> Acceptors {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if CHECK_INTERVAL <= current.checked_at.elapsed() {
            current.checked_at = Instant::now();
            let stamps = stamps(&self.config);
            if stamps != current.stamps
                && let Ok(acceptors) = acceptors(&self.config)
            {
                (current.acceptors, current.stamps) = (acceptors, stamps);
            }
        }
        current.acceptors.clone()
    }

    /// Reads the files again, without waiting for the interval.
    pub(crate) fn reload(&self) -> Result<(), TlsError> {
        let (stamps, acceptors) = (stamps(&self.config), acceptors(&self.config)?);
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Current { acceptors, stamps, checked_at: Instant::now() };
        Ok(())
    }
}

fn acceptors(config: &TlsConfig) -> Result<Acceptors, TlsError> {
    let cert = config.cert.as_ref().ok_or(TlsError::Missing { key: "tls.cert" })?;
    let key = config.key.as_ref().ok_or(TlsError::Missing { key: "tls.key" })?;
    let (chain, key) = (certificates(cert)?, private_key(key)?);
    let end_point = chain.first().and_then(|own| binding::end_point(own)).map(Arc::from);
    let provider = Arc::new(default_provider());
    let unusable = |source| TlsError::Unusable { source };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let builder = match &config.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let bad_authority = |reason| TlsError::ClientAuthority { path: path.clone(), reason };
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| bad_authority(error.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = verifier.build().map_err(|error| bad_authority(error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut pg = builder.with_single_cert(chain, key).map_err(unusable)?;
    let mut http = pg.clone();
    pg.alpn_protocols = vec![PG_PROTOCOL.to_vec()];
    http.alpn_protocols = vec![HTTP_PROTOCOL.to_vec()];
    // A session of one listener is not resumed at the other (server_tls-3).
    http.session_storage = ServerSessionMemoryCache::new(SESSIONS_MAX);
    let [pg, http] = [pg, http].map(|config| TlsAcceptor::from(Arc::new(config)));
    Ok(Acceptors { http, pg, end_point })
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    RealDisk.read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(path)?;
    let chain = CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
    let empty = || TlsError::Empty { path: path.to_owned(), what: "certificate" };
    chain.ok().filter(|chain| !chain.is_empty()).ok_or_else(empty)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    // The key must not be readable for others (server_tls-1).
    if path.metadata().is_ok_and(|metadata| metadata.mode() & 0o077 != 0) {
        return Err(TlsError::OpenKey { path: path.to_owned() });
    }
    let key = PrivateKeyDer::from_pem_slice(&read(path)?);
    key.map_err(|_| TlsError::Empty { path: path.to_owned(), what: "private key" })
}

fn stamps(config: &TlsConfig) -> Vec<Option<Stamp>> {
    let stamp = |path: &Option<PathBuf>| {
        let metadata = path.as_ref()?.metadata().ok()?;
        Some((metadata.ino(), metadata.mtime(), metadata.mtime_nsec()))
    };
    [&config.cert, &config.key, &config.client_ca].into_iter().map(stamp).collect()
}
