//! The life of a server: start, listeners, periodic work, reload and stop.

mod in_memory;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender as StdSender, channel as std_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidegate_platform::{
    Clock, Disk, RealDisk, let_others_go_first, raise_descriptor_limit, sentence,
};
use tidegate_query::{Engine, EngineOptions, STACK_BYTES};
use tidegate_storage::{Database, Durability};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle as TaskHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::admission::{AdmissionControl, Shares};
use crate::auth::{User, Users};
use crate::backends::ADMIN_SLOTS;
use crate::config::{Auth, Config, TlsMode};
use crate::connection_threads::ConnectionThreads;
use crate::copy::{Copier, CopyHost};
use crate::error::{Error, Result};
use crate::host::ServerHost;
use crate::http::{self, ListenerKind};
use crate::ilp::{IdempotencyCache, Ingest, KeyFileError, Keys, RejectRow, Rejects, write_rejects};
use crate::ilp_tcp;
use crate::lanes::{self, Lanes};
use crate::log::Log;
use crate::metrics::Transport;
use crate::pg::{self, PENDING_MAX};
use crate::replaceable::ReplaceableSocket;
use crate::server_state::{Phase, ServerState, Services, Setup, Tracker};
use crate::socket::Socket;
use crate::tls::Tls;
use crate::watchdog::{CHECK_INTERVAL, Watchdog};

pub use in_memory::{InMemoryHost, InMemoryServer};

/// The most threads on which commits compute and wait for the disk: waiting ones share a sync, and
/// more than a few computing ones only share the cores.
const COMMIT_THREADS: usize = 64;
/// The interval at which the database is asked for due maintenance.
const MAINTENANCE: Duration = Duration::from_millis(100);
/// The advised number of files: with fewer, connections and segments may not have enough.
const FILES_ADVISED: u64 = 32_768;
/// The pause of a listener when there are no more file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The most connections of the listener for health and metrics alone: probes and scrapers are few.
const ADMIN_CONNECTIONS_MAX: usize = 64;
/// The most statements that run at the same time, for each thread of the engine.
const STATEMENTS_PER_THREAD: usize = 4;
/// The interval at which the end of jobs is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The longest wait for clients to receive the errors of statements that end with the server.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The longest wait for the last lines of the log.
const LAST_LINES: Duration = Duration::from_secs(1);
/// The longest wait of a runtime for its last threads.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// The environment of a server, given by the program that starts it.
pub struct Host<'a> {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The log.
    pub log: Arc<Log>,
    /// The threads and the memory of queries.
    pub engine: EngineOptions,
    /// The file of users beside those of the configuration.
    pub users: PathBuf,
    /// The function that reads the configuration again.
    pub reread: &'a dyn Fn() -> std::result::Result<Config, String>,
    /// The function that opens the database; called when the listeners are bound.
    pub open: &'a mut dyn FnMut() -> tidegate_storage::Result<Arc<Database>>,
}

/// Serves until the process is asked to end.
///
/// # Errors
/// If it cannot start, or cannot close the database properly.
pub fn serve(config: Config, host: Host<'_>) -> Result<()> {
    let log = Arc::clone(&host.log);
    let served = serve_until_told(config, host);
    // The end of the server does not wait long for a log that is not read (log-2).
    log.flush(LAST_LINES);
    served
}

fn serve_until_told(config: Config, host: Host<'_>) -> Result<()> {
    let Host { clock, log, engine, users, reread, open } = host;
    log.set_levels(config.log_levels.clone());
    let warnings = check_reach(&config)?;
    let users = Users::new(User::configured(&config.auth), users, Arc::clone(&log))?;
    let (keys, tls) = (keys(&config)?, Tls::new(&config.tls)?);
    let network = runtime("network", engine.threads, || {})?;
    let listeners = network.block_on(Listeners::bind(&config))?;
    let (stop, hangup) = network.block_on(async { (StopSignals::new(), hangups()) });
    let (stop, hangup) = (stop?, hangup?);
    let (phase_sender, phase) = watch::channel(Phase::Running);
    let setup = Setup { config, warnings, users, keys, tls, clock, log: Arc::clone(&log), phase };
    let server = Arc::new(ServerState::new(setup));
    let (tracker, all_gone) = Tracker::new();
    network.spawn(stop.wait(phase_sender.clone(), Arc::clone(&log)));
    announce(&listeners, &server);
    let Listeners { http, admin, tcp, pg } = listeners;
    let mut accept_tasks = Vec::new();
    for (listener, kind) in [(http, ListenerKind::Main), (admin, ListenerKind::Admin)] {
        let Some(listener) = listener else { continue };
        accept_tasks.push(network.spawn(accept_http(
            listener,
            kind,
            Arc::clone(&server),
            tracker.clone(),
        )));
    }
    network.spawn(pg::watch_users(Arc::clone(&server)));
    let backends = Arc::new(ConnectionThreads::new("backends", engine.threads)?);
    if let Some(listener) = pg {
        let (server, backends) = (Arc::clone(&server), Arc::clone(&backends));
        accept_tasks.push(network.spawn(accept_pg(listener, server, backends, tracker.clone())));
    }
    let database = open()?;
    warn_of_storage(&database, &log);
    let queries = runtime("query", engine.threads, || {})?;
    let jobs = runtime("jobs", engine.threads, let_others_go_first)?;
    let (services, rejects) = services(&server, &database, &engine, &queries, &jobs)?;
    // It must happen before a client can begin a job.
    network.block_on(log_interrupted_jobs(&server, &services));
    server.begin(Arc::clone(&services));
    let retention = server.config.ilp.reject_retention;
    let writing =
        network.spawn(write_rejects(rejects, Arc::clone(&database), retention, Arc::clone(&log)));
    // Streams send as fast as they are read; clients wait for the answers to queries.
    let streams = runtime("streams", engine.threads, let_others_go_first)?;
    if let Some(listener) = tcp {
        let (server, services) = (Arc::clone(&server), Arc::clone(&services));
        accept_tasks.push(streams.spawn(accept_tcp(listener, server, services, tracker.clone())));
    }
    drop(tracker);
    let maintenance = Ticking::maintenance(&server, &database)?;
    let watchdog = Ticking::watchdog(&server, &services)?;
    let lanes = Ticking::lanes(&services)?;
    let syncs = Ticking::syncs(&server, &database)?;
    let threads = [Some(maintenance), Some(watchdog), Some(lanes), syncs];
    let ticking = threads.into_iter().flatten().collect();
    log.info("server", format_args!("ready"));
    network.block_on(async {
        tokio::select! {
            () = reload_when_told(hangup, &server, reread) => {}
            () = drain(&server, &phase_sender, accept_tasks, all_gone, &services) => {}
        }
    });
    network.block_on(end_jobs(&services));
    let (network, queries) = ((network, backends), [queries, jobs]);
    end(Ending { network, streams, queries, server, services, writing, ticking, database })
}

/// Logs the addresses, and the warnings found at the start.
fn announce(listeners: &Listeners, server: &ServerState) {
    listeners.announce(&server.log);
    for warning in &server.warnings {
        server.log.warn("server", format_args!("{warning}"));
    }
}

/// The parts that live until the end.
struct Ending {
    network: (Runtime, Arc<ConnectionThreads>),
    streams: Runtime,
    /// The runtimes of short work, and of jobs.
    queries: [Runtime; 2],
    server: Arc<ServerState>,
    services: Arc<Services>,
    writing: TaskHandle<()>,
    ticking: Vec<Ticking>,
    database: Arc<Database>,
}

/// Closes the database properly (server-1).
fn end(ending: Ending) -> Result<()> {
    let Ending { network, streams, queries, server, services, writing, ticking, database } = ending;
    let (log, (network, backends)) = (Arc::clone(&server.log), network);
    ticking.into_iter().for_each(Ticking::stop);
    services.lanes.end(LAST_WAIT);
    // No rejects can be queued any more; the queued ones are written.
    drop((services, server));
    network.block_on(async {
        if timeout(LAST_WAIT, writing).await.is_err() {
            log.warn("server", format_args!("some rejects were not written in time"));
        }
    });
    streams.shutdown_timeout(LAST_WAIT);
    queries.into_iter().for_each(|runtime| runtime.shutdown_timeout(LAST_WAIT));
    network.shutdown_timeout(LAST_WAIT);
    // No connections are accepted any more.
    if let Some(backends) = Arc::into_inner(backends) {
        backends.end(LAST_WAIT);
    }
    database.close()?;
    log.info("server", format_args!("stopped"));
    Ok(())
}

/// Reads the keys of clients that may send lines over TCP.
fn keys(config: &Config) -> Result<Option<Keys>> {
    let Some(path) = &config.tcp.auth_file else { return Ok(None) };
    let path = path.clone();
    let bytes = RealDisk.read(&path);
    let bytes = bytes.map_err(|source| KeyFileError::Read { path: path.clone(), source })?;
    Ok(Some(Keys::parse(&String::from_utf8_lossy(&bytes), path)?))
}

/// Checks whether a server would start with a configuration, as far as that is possible without its
/// database and its ports. Returns warnings, a sentence each.
///
/// # Errors
/// The reason why it would not start.
pub fn check(config: &Config) -> Result<Vec<String>> {
    let warnings = check_reach(config)?;
    keys(config)?;
    Tls::new(&config.tls)?;
    Ok(warnings)
}

/// Checks that other machines cannot use the server without a secret, unless that is configured.
/// Returns warnings.
fn check_reach(config: &Config) -> Result<Vec<String>> {
    let is_open =
        |address: &Option<SocketAddr>| address.filter(|address| !address.ip().is_loopback());
    let listeners = [config.http.listen, config.tcp.listen, config.pg.listen];
    if listeners.iter().all(Option::is_none) {
        return Err(Error::NoListener);
    }
    if let Some(address) = is_open(&config.tcp.listen)
        && !config.tcp.allow_anonymous
        && config.tcp.auth_file.is_none()
    {
        let advice = "set ilp.tcp.auth_file to a file with the keys of clients, or \
                      ilp.tcp.allow_anonymous = true";
        return Err(Error::NoSecret { key: "ilp.tcp.listen", address, advice });
    }
    let asks_http = config.http.auth != Auth::Off;
    let has_secrets = !config.auth.has_default_password() || config.auth.allow_default_password;
    let http = ("http.listen", config.http.listen.filter(|_| asks_http));
    for (key, address) in [http, ("pg.listen", config.pg.listen)] {
        if let Some(address) = is_open(&address).filter(|_| !has_secrets) {
            let advice = match config.auth.readonly_enabled {
                false => "set auth.admin_password (TIDEGATE_AUTH_ADMIN_PASSWORD)",
                true => {
                    "set auth.admin_password (TIDEGATE_AUTH_ADMIN_PASSWORD) and \
                     auth.readonly_password (TIDEGATE_AUTH_READONLY_PASSWORD)"
                }
            };
            return Err(Error::NoSecret { key, address, advice });
        }
    }
    let mut warnings = login_warnings(config);
    let files = raise_descriptor_limit().unwrap_or(u64::MAX);
    if files < FILES_ADVISED {
        warnings
            .push(format!("only {files} files can be open: raise ulimit -n to {FILES_ADVISED}"));
    }
    Ok(warnings)
}

/// Makes the warnings about logins over HTTP that are not required, or not secret.
fn login_warnings(config: &Config) -> Vec<String> {
    let Some(address) = config.http.listen else { return Vec::new() };
    let is_local = address.ip().is_loopback();
    let warning = match (config.http.auth, http::needs_login(config)) {
        (Auth::Off, _) if is_local => {
            "http.auth = off: every program of this machine, and everything that a proxy sends to \
             it, is an administrator over HTTP without a login"
                .to_owned()
        }
        (Auth::Off, _) => format!(
            "http.listen = {address} with http.auth = off: everyone is an administrator over HTTP \
             without a login"
        ),
        (Auth::Auto, false) => {
            "http.auth = auto, and no auth.admin_password is set: every program of this machine is \
             an administrator over HTTP without a login, and so is what a proxy sends that adds \
             neither Forwarded nor X-Forwarded-For"
                .to_owned()
        }
        (_, true) if !is_local && config.tls.mode != TlsMode::Require => format!(
            "http.listen = {address} takes passwords in the clear; tls.mode = require would not"
        ),
        _ => return Vec::new(),
    };
    vec![warning]
}

/// Logs what was skipped, suspended or lost when the database was opened.
fn warn_of_storage(database: &Database, log: &Log) {
    if let Some(torn) = database.torn_group() {
        log.warn("storage", format_args!("{torn}"));
    }
    for (table, error) in database.suspended() {
        log.warn("storage", format_args!("table `{table}` is suspended: {}", sentence(&error)));
    }
    for error in database.take_warnings() {
        log.warn("storage", format_args!("{}", sentence(&error)));
    }
}

/// Makes a runtime; each of its threads calls `begin` first.
fn runtime(name: &'static str, threads: NonZeroUsize, begin: fn()) -> Result<Runtime> {
    Builder::new_multi_thread()
        .on_thread_start(begin)
        .worker_threads(threads.get())
        .thread_stack_size(STACK_BYTES)
        .max_blocking_threads(COMMIT_THREADS)
        .thread_name(name)
        .enable_all()
        .build()
        .map_err(|source| Error::Threads { source })
}

struct Listeners {
    http: Option<TcpListener>,
    admin: Option<TcpListener>,
    tcp: Option<TcpListener>,
    pg: Option<TcpListener>,
}

impl Listeners {
    async fn bind(config: &Config) -> Result<Listeners> {
        Ok(Listeners {
            http: bind("HTTP", config.http.listen).await?,
            admin: bind("health and metrics", config.http.admin_listen).await?,
            pg: bind("PostgreSQL's protocol", config.pg.listen).await?,
            tcp: bind("the line protocol", config.tcp.listen.filter(|_| !config.read_only)).await?,
        })
    }

    fn announce(&self, log: &Log) {
        let all = [
            ("HTTP", &self.http),
            ("metrics", &self.admin),
            ("PostgreSQL's protocol", &self.pg),
            ("line protocol", &self.tcp),
        ];
        for (what, listener) in all {
            if let Some(Ok(address)) = listener.as_ref().map(TcpListener::local_addr) {
                log.info("server", format_args!("{what} listens on {address}"));
            }
        }
    }
}

async fn bind(what: &'static str, address: Option<SocketAddr>) -> Result<Option<TcpListener>> {
    let Some(address) = address else { return Ok(None) };
    let listener = TcpListener::bind(address).await;
    listener.map(Some).map_err(|source| Error::Bind { what, address, source })
}

/// Makes the services, and the receiver of rejects.
fn services(
    server: &Arc<ServerState>,
    database: &Arc<Database>,
    options: &EngineOptions,
    queries: &Runtime,
    job_threads: &Runtime,
) -> Result<(Arc<Services>, mpsc::Receiver<RejectRow>)> {
    let config = &server.config;
    let statements = match config.query.max_concurrent {
        0 => options.threads.get() * STATEMENTS_PER_THREAD,
        most => most,
    };
    let (rejects, rows) = Rejects::new();
    let host = CopyHost::Server(Arc::clone(&server.log));
    let copier = Copier::new(database, config.copy.clone(), options.threads, host)?
        .with_budget(Arc::clone(&server.budget));
    let copier = Arc::new(copier);
    let engine = Engine::new(Arc::clone(database), options)?
        .with_server_info(Arc::new(ServerHost::new(server)))
        .with_bulk(Arc::clone(&copier) as _);
    let ingest = Ingest::new(config.ilp.clone(), rejects, config.ingest_limit, config.ingest_wait);
    ingest
        .idempotency_cache
        .restore(&database.batches(IdempotencyCache::RESTORED_MAX), Instant::now());
    let services = Services {
        database: Arc::clone(database),
        engine: Arc::new(engine),
        copier,
        query_threads: queries.handle().clone(),
        job_threads: job_threads.handle().clone(),
        admission: Arc::new(AdmissionControl::new(
            Shares::of(statements),
            config.query.queue_timeout,
        )),
        lanes: Lanes::new(options.threads, statements),
        folder: options.spill_dir.clone(),
        timeout: options.timeout,
        ingest,
    };
    Ok((Arc::new(services), rows))
}

/// Writes the last rows of COPY jobs that ended with an earlier process.
async fn log_interrupted_jobs(server: &Arc<ServerState>, services: &Arc<Services>) {
    if server.config.read_only {
        return;
    }
    let (log, of_task) = (Arc::clone(&server.log), Arc::clone(services));
    let ending = services.query_threads.spawn(async move {
        if let Err(error) = of_task.copier.log_interrupted_jobs(&of_task.engine).await {
            log.warn(
                "copy",
                format_args!(
                    "log the end of jobs that an earlier process has left: {}",
                    sentence(&error)
                ),
            );
        }
    });
    // A panic has already been printed to standard error.
    let _ = ending.await;
}

/// Ends the COPY jobs that are still running: their tables stay unchanged.
async fn end_jobs(services: &Services) {
    services.copier.stop();
    let idle = async {
        while !services.copier.is_idle() {
            sleep(POLL_INTERVAL).await;
        }
    };
    // A job that waits for an unresponsive disk is not waited for.
    let _ = timeout(LAST_WAIT, idle).await;
}

fn hangups() -> Result<Signal> {
    signal(SignalKind::hangup()).map_err(|source| Error::Threads { source })
}

/// Reads certificates, users and log levels again with each SIGHUP.
async fn reload_when_told(
    mut hangup: Signal,
    server: &ServerState,
    reread: &dyn Fn() -> std::result::Result<Config, String>,
) {
    while hangup.recv().await.is_some() {
        let log = &server.log;
        match reread() {
            Ok(config) => log.set_levels(config.log_levels),
            Err(error) => log.warn("server", format_args!("keys stay as they were: {error}")),
        }
        if let Some(Err(error)) = server.tls.as_ref().map(Tls::reload) {
            let error = sentence(&error);
            log.warn("server", format_args!("certificates stay as they were: {error}"));
        }
        server.users.reload();
        log.info("server", format_args!("reloaded"));
    }
    std::future::pending().await
}

/// The signals that end a server.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    fn new() -> Result<StopSignals> {
        let listen = |kind| signal(kind).map_err(|source| Error::Threads { source });
        Ok(StopSignals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// Handles the signals: the first begins the end, the second does not wait for running work.
    async fn wait(mut self, phase: watch::Sender<Phase>, log: Arc<Log>) {
        for next in [Phase::Draining, Phase::Ending] {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
            }
            log.info("server", format_args!("asked to stop"));
            phase.send_replace(next);
        }
    }
}

/// Waits until the server is told to stop, and then for running work, up to the configured time.
async fn drain(
    server: &Arc<ServerState>,
    phase: &watch::Sender<Phase>,
    accept_tasks: Vec<TaskHandle<()>>,
    mut all_gone: mpsc::Receiver<()>,
    services: &Services,
) {
    let mut phases = server.phase.clone();
    let is_stopping = phases.wait_for(|phase| phase.is_stopping()).await.is_ok();
    assert!(is_stopping, "the sender is borrowed");
    accept_tasks.iter().for_each(TaskHandle::abort);
    for task in accept_tasks {
        // It was aborted, or has panicked: it has ended either way.
        let _ = task.await;
    }
    let wait = server.config.stop_timeout;
    let mut ending = server.phase.clone();
    tokio::select! {
        _ = all_gone.recv() => {}
        _ = async { ending.wait_for(|phase| *phase == Phase::Ending).await.map(drop) } => {}
        () = sleep(wait) => {
            let seconds = wait.as_secs();
            server.log.warn("server", format_args!("statements are ended after {seconds} s"));
            phase.send_replace(Phase::Ending);
        }
    }
    // Clients of statements that are still running are told why these end.
    services.engine.end_statements();
    let _ = timeout(LAST_WORDS, all_gone.recv()).await;
}

async fn accept_http(
    listener: TcpListener,
    kind: ListenerKind,
    server: Arc<ServerState>,
    tracker: Tracker,
) {
    loop {
        let Some((stream, peer)) = accept(&listener, &server).await else { continue };
        serve_http(&server, Socket::accepted(stream), peer, kind, tracker.clone());
    }
}

/// Begins to serve a connection of HTTP, if there is a place for it.
fn serve_http(
    server: &Arc<ServerState>,
    socket: Socket,
    peer: SocketAddr,
    kind: ListenerKind,
    tracker: Tracker,
) {
    // Requests for the state of a busy server have places of their own.
    let (transport, max) = match kind {
        ListenerKind::Main => (Transport::Http, server.config.http.max_connections),
        ListenerKind::Admin => (Transport::Admin, ADMIN_CONNECTIONS_MAX),
    };
    let (task, is_admin) = (Arc::clone(server), kind == ListenerKind::Admin);
    let counted = Counted::one_more(server, transport, max).or_else(|| {
        let gone = is_admin && server.admin_sockets.drop_oldest();
        gone.then(|| Counted::in_place_of_another(server, transport))
    });
    let Some(counted) = counted else {
        tokio::spawn(http::refuse_connection(task, socket, max));
        return;
    };
    let place = is_admin.then(|| server.admin_sockets.enter(peer.ip()));
    tokio::spawn(async move {
        let served = http::serve(task, socket, peer, kind, tracker);
        match place {
            Some(place) => tokio::select! {
                () = Box::pin(served) => {}
                () = place.dropped() => {}
            },
            None => served.await,
        }
        drop(counted);
    });
}

async fn accept_pg(
    listener: TcpListener,
    server: Arc<ServerState>,
    backends: Arc<ConnectionThreads>,
    tracker: Tracker,
) {
    loop {
        let Some((stream, peer)) = accept(&listener, &server).await else { continue };
        let (task, tracker) = (Arc::clone(&server), tracker.clone());
        let Some(PgPlace { counted, pending }) = PgPlace::find(&server, peer) else {
            tokio::spawn(pg::refuse_connection(task, Socket::accepted(stream)));
            continue;
        };
        let given = backends.give(stream, peer, async move |stream, peer| {
            pg::serve(task, Socket::accepted(stream), peer, pending, tracker).await;
            drop(counted);
        });
        if let Err(error) = given {
            server.log.warn_limited("server", format_args!("{peer}: {error}"));
        }
    }
}

async fn accept_tcp(
    listener: TcpListener,
    server: Arc<ServerState>,
    services: Arc<Services>,
    tracker: Tracker,
) {
    let max = server.config.tcp.max_connections;
    loop {
        let Some((stream, peer)) = accept(&listener, &server).await else { continue };
        let Some(counted) = Counted::one_more(&server, Transport::Tcp, max) else {
            server.log.warn_limited("ilp", format_args!("{peer}: too many connections"));
            continue;
        };
        let (server, services) = (Arc::clone(&server), Arc::clone(&services));
        let tracker = tracker.clone();
        tokio::spawn(async move {
            ilp_tcp::serve(server, services, stream, peer, tracker).await;
            drop(counted);
        });
    }
}

async fn accept(listener: &TcpListener, server: &ServerState) -> Option<(TcpStream, SocketAddr)> {
    match listener.accept().await {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            server.log.warn_limited("server", format_args!("accept: {error}"));
            sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

/// A connection that is counted until this is dropped.
struct Counted(Arc<ServerState>, Transport);

impl Counted {
    /// Counts another connection; `None` if the limit is reached.
    fn one_more(server: &Arc<ServerState>, transport: Transport, max: usize) -> Option<Counted> {
        let metrics = server.metrics.of(transport);
        if i64::try_from(max).unwrap_or(i64::MAX) < metrics.connections.add(1) {
            metrics.connections.sub(1);
            metrics.connections_rejected.add(1);
            return None;
        }
        Some(Counted(Arc::clone(server), transport))
    }

    fn in_place_of_another(server: &Arc<ServerState>, transport: Transport) -> Counted {
        server.metrics.of(transport).connections.add(1);
        Counted(Arc::clone(server), transport)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.metrics.of(self.1).connections.sub(1);
    }
}

/// The place of a connection of PostgreSQL's protocol.
struct PgPlace {
    counted: Counted,
    pending: ReplaceableSocket,
}

impl PgPlace {
    /// Returns a place for one more connection; `None` if there is none.
    fn find(server: &Arc<ServerState>, peer: SocketAddr) -> Option<PgPlace> {
        // Some places depend on the user: the login comes first, of a bounded number of sockets.
        let max = server.config.pg.max_connections.saturating_add(ADMIN_SLOTS + PENDING_MAX);
        let counted = Counted::one_more(server, Transport::Pg, max).or_else(|| {
            // The connection replaces another one, which is dropped.
            let gone = server.pending_logins.drop_oldest();
            gone.then(|| Counted::in_place_of_another(server, Transport::Pg))
        })?;
        // It is registered here, so that the next connection can replace it.
        Some(PgPlace { counted, pending: server.pending_logins.enter(peer.ip()) })
    }
}

/// A thread with periodic work.
struct Ticking {
    stop: StdSender<()>,
    thread: JoinHandle<()>,
}

impl Ticking {
    /// Starts the thread that does due maintenance, independent of all other work.
    fn maintenance(server: &Arc<ServerState>, database: &Arc<Database>) -> Result<Ticking> {
        let (server, database) = (Arc::clone(server), Arc::clone(database));
        Ticking::start("maintenance", MAINTENANCE, let_others_go_first, move || {
            if let Err(error) = database.maintain() {
                server.metrics.maintenance_errors.add(1);
                let error = sentence(&error);
                server.log.warn_limited("storage", format_args!("maintenance: {error}"));
            }
        })
    }

    /// Starts the thread that checks the memory of the process.
    fn watchdog(server: &Arc<ServerState>, services: &Arc<Services>) -> Result<Ticking> {
        let mut watchdog = Watchdog::new(server, services);
        Ticking::start("memory", CHECK_INTERVAL, || {}, move || watchdog.check())
    }

    /// Starts the thread that keeps idle lanes ready, and lowers the priority of long statements.
    fn lanes(services: &Arc<Services>) -> Result<Ticking> {
        let lanes = Arc::clone(&services.lanes);
        lanes.prepare();
        Ticking::start("lanes", lanes::CHECK_INTERVAL, || {}, move || lanes.check())
    }

    /// Starts the thread that syncs the log every `wal.flush_interval`, unless every commit does.
    fn syncs(server: &Arc<ServerState>, database: &Arc<Database>) -> Result<Option<Ticking>> {
        if server.config.durability == Durability::Sync {
            return Ok(None);
        }
        let (interval, log) = (server.config.flush_interval, Arc::clone(&server.log));
        let database = Arc::clone(database);
        let syncs = Ticking::start(
            "sync",
            interval,
            || {},
            move || {
                if let Err(error) = database.sync() {
                    log.warn_limited("storage", format_args!("sync: {}", sentence(&error)));
                }
            },
        )?;
        Ok(Some(syncs))
    }

    /// Starts a thread that calls `begin` once, and then `work` at each interval.
    fn start(
        name: &str,
        interval: Duration,
        begin: fn(),
        mut work: impl FnMut() + Send + 'static,
    ) -> Result<Ticking> {
        let (stop, stopped) = std_channel();
        let tick = move || {
            begin();
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(interval) {
                work();
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(tick);
        let thread = thread.map_err(|source| Error::Threads { source })?;
        Ok(Ticking { stop, thread })
    }

    fn stop(self) {
        drop(self.stop);
        // A panic has already been printed to standard error.
        let _ = self.thread.join();
    }
}
