//! TLS 1.2 and 1.3 for every listener: certificates, their key, and who must show one of his own.
//!
//! - TL1. The key is a secret: a file that others can read is refused.
//! - TL2. Files that have changed are picked up for connections that begin later; if they are no
//!   pair, those from before stay.
//! - TL3. Each protocol has its own name in the handshake (ALPN), and refuses those who name
//!   another: what is meant for one is never taken for the other.
//!
//! - TL4. A connection knows the certificate that it was accepted with, whatever is read later.
//!
//! Not here: which protocol asks for it, and how (`pg`, `http`).

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

/// A connection that TLS is spoken on.
pub(crate) type ServerStream = tokio_rustls::server::TlsStream<TcpStream>;

/// What PostgreSQL's clients name when they begin with TLS at once.
const PG_PROTOCOL: &[u8] = b"postgresql";
const HTTP_PROTOCOL: &[u8] = b"http/1.1";
/// The first byte of a connection of TLS.
pub(crate) const TLS_HANDSHAKE: u8 = 0x16;
/// Sessions of HTTP's clients that may be resumed.
const SESSIONS_MAX: usize = 256;
/// How often it is looked whether files have changed (TL2).
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Why there is no TLS.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("read {path}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: tidegate_platform::Error,
    },
    /// A file has not what it should have.
    #[error("{path} has no {what} in the form of PEM")]
    Empty {
        /// Which.
        path: PathBuf,
        /// What it should have.
        what: &'static str,
    },
    /// Others can read the key.
    #[error("{path} can be read by others: chmod 600 makes it a secret")]
    OpenKey {
        /// Which file.
        path: PathBuf,
    },
    /// A key of the configuration is missing.
    #[error("TLS needs the configuration key `{key}`")]
    Missing {
        /// Which.
        key: &'static str,
    },
    /// Certificate and key do not work.
    #[error("certificate and key cannot be used")]
    Unusable {
        /// Why.
        source: rustls::Error,
    },
    /// The authority for clients is none.
    #[error("{path} has no authority that clients can be checked by: {reason}")]
    ClientAuthority {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// TLS as it is configured.
pub(crate) struct Tls {
    config: TlsConfig,
    current: Mutex<Current>,
}

struct Current {
    acceptors: Acceptors,
    stamps: Vec<Option<Stamp>>,
    looked: Instant,
}

/// For each protocol one, which agrees to no other (TL3).
#[derive(Clone)]
struct Acceptors {
    http: TlsAcceptor,
    pg: TlsAcceptor,
    /// The hash of the certificate, which a login can be bound to (TL4).
    end_point: Option<Arc<[u8]>>,
}

/// What changes when a file does.
type Stamp = (u64, i64, i64);

impl Tls {
    /// TLS, if it is wanted.
    pub(crate) fn new(config: &TlsConfig) -> Result<Option<Tls>, TlsError> {
        if config.mode == TlsMode::Off {
            return Ok(None);
        }
        let current = Current {
            acceptors: acceptors(config)?,
            stamps: stamps(config),
            looked: Instant::now(),
        };
        Ok(Some(Tls { config: config.clone(), current: Mutex::new(current) }))
    }

    /// Whether nothing may be said in the clear.
    pub(crate) fn is_required(&self) -> bool {
        self.config.mode == TlsMode::Require
    }

    /// For a connection of PostgreSQL's protocol that begins now (TL2), with the hash of its
    /// certificate, if a login can be bound to it (TL4).
    pub(crate) fn acceptor(&self) -> (TlsAcceptor, Option<Arc<[u8]>>) {
        let Acceptors { pg, end_point, .. } = self.current();
        (pg, end_point)
    }

    /// For one of HTTP.
    pub(crate) fn http_acceptor(&self) -> TlsAcceptor {
        self.current().http
    }

    fn current(&self) -> Acceptors {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if LOOK_AGAIN <= current.looked.elapsed() {
            current.looked = Instant::now();
            let stamps = stamps(&self.config);
            if stamps != current.stamps
                && let Ok(acceptors) = acceptors(&self.config)
            {
                (current.acceptors, current.stamps) = (acceptors, stamps);
            }
        }
        current.acceptors.clone()
    }

    /// Reads the files now.
    pub(crate) fn reload(&self) -> Result<(), TlsError> {
        let (stamps, acceptors) = (stamps(&self.config), acceptors(&self.config)?);
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Current { acceptors, stamps, looked: Instant::now() };
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
            let refused = |reason| TlsError::ClientAuthority { path: path.clone(), reason };
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| refused(error.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = verifier.build().map_err(|error| refused(error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut pg = builder.with_single_cert(chain, key).map_err(unusable)?;
    let mut http = pg.clone();
    pg.alpn_protocols = vec![PG_PROTOCOL.to_vec()];
    http.alpn_protocols = vec![HTTP_PROTOCOL.to_vec()];
    // A session of one listener is not resumed at the other (TL3).
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
    // TL1.
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
