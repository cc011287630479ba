//! The beginning of a connection: TLS, authentication and the initial settings.
//!
//! - login-1. A client that sends data together with its request for TLS is disconnected: nothing
//!   that was sent in plain text counts after the handshake.
//! - login-2. An unknown user is asked like a known one, and refused with the same error after the
//!   same messages (auth-2).
//! - login-4. Over TLS, SCRAM-SHA-256-PLUS is offered first: the login is bound to the certificate
//!   that the client has seen (scram-1).
//! - login-3. The whole login takes at most `pg.startup_timeout`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_query::{Origin, Session};
use tokio::time::{Instant, sleep, timeout_at};

use super::error_response::ErrorResponse;
use super::message_reader::{Breach, Message, Opening, take_message, take_opening};
use super::wire::Wire;
use crate::auth::{Channel, Grant, Refused, Scram};
use crate::config::AuthMethod;
use crate::server_state::ServerState;
use crate::tls::TLS_HANDSHAKE;

/// The most bytes of an answer to an authentication request.
const ANSWER_BYTES_MAX: usize = 4 << 10;
const MECHANISM: &str = "SCRAM-SHA-256";
const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// A client after its login.
pub(super) struct Client {
    pub(super) session: Session,
    pub(super) grant: Grant,
    pub(super) database: String,
}

/// The result of the beginning of a connection.
pub(super) enum LoginOutcome {
    LoggedIn(Wire, Client),
    /// Cancels a statement of another connection.
    Cancel {
        process: u32,
        secret: Bytes,
    },
    /// The login was refused; the error is in the output of the wire.
    Refused(Wire),
    Disconnected,
}

/// The parameters of the start-up message.
struct StartupParameters {
    user: String,
    database: String,
    settings: Vec<(String, String)>,
}

/// The reason why a login fails.
enum End {
    Error(ErrorResponse),
    Disconnected,
}

impl From<ErrorResponse> for End {
    fn from(error: ErrorResponse) -> End {
        End::Error(error)
    }
}

impl From<std::io::Error> for End {
    fn from(_: std::io::Error) -> End {
        End::Disconnected
    }
}

impl From<Breach> for End {
    fn from(breach: Breach) -> End {
        End::Error(ErrorResponse::breach(&breach))
    }
}

/// Performs the login (login-3).
pub(super) async fn log_in(
    server: &Arc<ServerState>,
    wire: Wire,
    peer: SocketAddr,
) -> LoginOutcome {
    let deadline = Instant::now() + server.config.pg.startup_timeout;
    let mut wire = match timeout_at(deadline, open(server, wire)).await {
        Ok(Opened::Start(wire, (major, minor, parameters))) => {
            let mut wire = wire;
            let entering = enter(server, &mut wire, major, minor, parameters, peer);
            match timeout_at(deadline, entering).await {
                Ok(Ok(client)) => return LoginOutcome::LoggedIn(wire, client),
                Ok(Err(End::Disconnected)) | Err(_) => return LoginOutcome::Disconnected,
                Ok(Err(End::Error(error))) => {
                    wire.writer.error_response(&error);
                    wire
                }
            }
        }
        Ok(Opened::Cancel { process, secret }) => return LoginOutcome::Cancel { process, secret },
        Ok(Opened::Refused(mut wire, error)) => {
            wire.writer.error_response(&error);
            wire
        }
        Ok(Opened::Disconnected) | Err(_) => return LoginOutcome::Disconnected,
    };
    wire.input.clear();
    LoginOutcome::Refused(wire)
}

/// The result of the first message after those about TLS.
enum Opened {
    Start(Wire, (u16, u16, Vec<(Bytes, Bytes)>)),
    Cancel { process: u32, secret: Bytes },
    Refused(Wire, ErrorResponse),
    Disconnected,
}

async fn open(server: &ServerState, mut wire: Wire) -> Opened {
    match wire.peek().await {
        Ok(Some(TLS_HANDSHAKE)) => match encrypted(server, wire).await {
            Some(encrypted) => wire = encrypted,
            None => return Opened::Disconnected,
        },
        Ok(Some(_)) => {}
        Ok(None) | Err(_) => return Opened::Disconnected,
    }
    loop {
        let opening = match take_opening(&mut wire.input) {
            Ok(None) => match wire.fill().await {
                Ok(0) | Err(_) => return Opened::Disconnected,
                Ok(_) => continue,
            },
            Ok(Some(opening)) => opening,
            Err(breach) => return Opened::Refused(wire, ErrorResponse::breach(&breach)),
        };
        match opening {
            // Data after the request for TLS was sent in plain text (login-1).
            Opening::Tls | Opening::Gss if !wire.input.is_empty() => return Opened::Disconnected,
            Opening::Tls if server.tls.is_some() && !wire.is_tls() => {
                wire.writer.bytes.extend_from_slice(b"S");
                if wire.flush().await.is_err() {
                    return Opened::Disconnected;
                }
                match encrypted(server, wire).await {
                    Some(encrypted) => wire = encrypted,
                    None => return Opened::Disconnected,
                }
            }
            Opening::Tls | Opening::Gss => {
                wire.writer.bytes.extend_from_slice(b"N");
                if wire.flush().await.is_err() {
                    return Opened::Disconnected;
                }
            }
            Opening::Cancel { process, secret } => return Opened::Cancel { process, secret },
            Opening::Start { major, minor, parameters } => {
                let is_required = server.tls.as_ref().is_some_and(|tls| tls.is_required());
                if is_required && !wire.is_tls() {
                    let error =
                        ErrorResponse::fatal("28000", "connections without TLS are refused");
                    return Opened::Refused(wire, error);
                }
                return Opened::Start(wire, (major, minor, parameters));
            }
        }
    }
}

async fn encrypted(server: &ServerState, wire: Wire) -> Option<Wire> {
    let (acceptor, end_point) = server.tls.as_ref()?.acceptor();
    let stream = acceptor.accept(wire.into_plain()?).await.ok()?;
    Some(Wire::of_tls(stream, end_point))
}

/// Performs the login from the start-up message on.
async fn enter(
    server: &ServerState,
    wire: &mut Wire,
    major: u16,
    minor: u16,
    parameters: Vec<(Bytes, Bytes)>,
    peer: SocketAddr,
) -> Result<Client, End> {
    if major != 3 {
        let message = format!("protocol {major}.{minor} is not spoken here: 3.0 is");
        return Err(ErrorResponse::fatal("0A000", message).into());
    }
    let mut unknown = Vec::new();
    let startup = startup(parameters, &mut unknown)?;
    if 0 < minor || !unknown.is_empty() {
        wire.writer.negotiate(&unknown);
    }
    let user = startup.user.clone();
    let grant = match authenticate(server, wire, &user, peer).await {
        Ok(grant) => grant,
        Err(end) => {
            if let End::Error(error) = &end {
                let delay = server.users.failed(peer.ip(), &user);
                let why = &error.message;
                server.log.warn_limited("audit", format_args!("pg: {peer}: login: {why}"));
                server.metrics.auth_failures.add(1);
                sleep(delay.min(server.config.pg.startup_timeout / 2)).await;
            }
            return Err(end);
        }
    };
    server.users.succeeded(peer.ip(), &user);
    let (peer, role) = (Some(peer.to_string()), grant.role());
    let origin = Origin { protocol: "pg", peer, user: Some(user), role };
    let session = Session::new(origin);
    for (name, value) in &startup.settings {
        // An unknown setting is no reason to refuse a connection; a bad value is.
        match session.set(name, value) {
            Ok(()) => {}
            Err(problem @ tidegate_query::SettingProblem::Value { .. }) => {
                return Err(ErrorResponse::fatal("22023", problem.to_string()).into());
            }
            Err(_) => {}
        }
    }
    session.keep_first();
    Ok(Client { session, grant, database: startup.database })
}

/// Reads the names and values of the start-up message.
fn startup(
    parameters: Vec<(Bytes, Bytes)>,
    unknown: &mut Vec<String>,
) -> Result<StartupParameters, ErrorResponse> {
    let text = |bytes: &Bytes| {
        let text = std::str::from_utf8(bytes).map(str::to_owned);
        text.map_err(|_| ErrorResponse::fatal("22021", "the start-up message is not UTF-8"))
    };
    let (mut user, mut database, mut settings) = (String::new(), None, Vec::new());
    for (name, value) in &parameters {
        let (name, value) = (text(name)?, text(value)?);
        match name.as_str() {
            "user" => user = value,
            "database" => database = Some(value),
            "options" => settings.extend(options(&value)),
            "replication" if !matches!(value.as_str(), "false" | "off" | "no" | "0") => {
                return Err(ErrorResponse::fatal("0A000", "replication is not supported"));
            }
            "replication" => {}
            _ if name.starts_with("_pq_.") => unknown.push(name),
            // Some clients quote it as in SQL.
            "client_encoding" => settings.push((name, value.trim_matches('\'').to_owned())),
            _ => settings.push((name, value)),
        }
    }
    if user.is_empty() {
        return Err(ErrorResponse::fatal("28000", "no user is named"));
    }
    let database = database.filter(|it| !it.is_empty()).unwrap_or_else(|| user.clone());
    Ok(StartupParameters { user, database, settings })
}

/// Parses `-c name=value` and `--name=value`; a backslash escapes the next character.
fn options(text: &str) -> Vec<(String, String)> {
    let mut words = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let word = words.last_mut().expect("one is there");
        match character {
            '\\' => word.extend(characters.next()),
            _ if character.is_whitespace() => words.push(String::new()),
            _ => word.push(character),
        }
    }
    let mut settings = Vec::new();
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    while let Some(word) = words.next() {
        let assigned = match word.as_str() {
            "-c" => words.next(),
            _ => word.strip_prefix("--").or(word.strip_prefix("-c")).map(str::to_owned),
        };
        let assigned = assigned.unwrap_or_default();
        if let Some((name, value)) = assigned.split_once('=') {
            settings.push((name.replace('-', "_"), value.to_owned()));
        }
    }
    settings
}

/// Authenticates the user, with the first method that is allowed for the connection.
async fn authenticate(
    server: &ServerState,
    wire: &mut Wire,
    user: &str,
    peer: SocketAddr,
) -> Result<Grant, End> {
    let is_local = peer.ip().is_loopback();
    let is_allowed = |method: &&AuthMethod| match method {
        AuthMethod::Scram => true,
        AuthMethod::Password => is_local || wire.is_tls(),
        AuthMethod::Trust => is_local,
    };
    let methods = &server.config.pg.auth_methods;
    let Some(method) = methods.iter().find(is_allowed) else {
        return Err(
            ErrorResponse::fatal("28000", "there is no way to log in from this address").into()
        );
    };
    let grant = match method {
        AuthMethod::Trust => server.users.trust(user).ok_or_else(|| unknown_user(user))?,
        AuthMethod::Password => {
            wire.writer.authentication(3, b"");
            let mut password = answer(wire).await?.to_vec();
            // It is a text with a NUL at its end.
            password.pop_if(|last| *last == 0);
            let grant = server.users.check_password(user, password).await;
            grant.ok_or_else(|| wrong_password(user))?
        }
        AuthMethod::Scram => scram(server, wire, user).await?,
    };
    wire.writer.authentication(0, b"");
    Ok(grant)
}

async fn scram(server: &ServerState, wire: &mut Wire, user: &str) -> Result<Grant, End> {
    let end_point = wire.end_point();
    let offered = match end_point {
        Some(_) => format!("{MECHANISM_PLUS}\0{MECHANISM}\0\0"), // login-4
        None => format!("{MECHANISM}\0\0"),
    };
    wire.writer.authentication(10, offered.as_bytes());
    let first = answer(wire).await?;
    let malformed = || ErrorResponse::fatal("08P01", "a SASL message is malformed");
    let (mechanism, message) = initial_response(&first).ok_or_else(malformed)?;
    let channel = match (std::str::from_utf8(mechanism), &end_point) {
        (Ok(MECHANISM_PLUS), Some(end_point)) => Channel::Bound(end_point),
        (Ok(MECHANISM), Some(_)) => Channel::Declined,
        (Ok(MECHANISM), None) => Channel::Unbound,
        _ => {
            return Err(ErrorResponse::fatal("08P01", "this SASL mechanism was not offered").into());
        }
    };
    let refused = |why: Refused| match why {
        Refused::Message => malformed(),
        Refused::Proof => wrong_password(user),
        Refused::Downgraded => {
            let message = "the client believes that the server cannot bind a login to TLS, which \
                           was offered: the offer was changed on its way";
            ErrorResponse::fatal("28000", message)
        }
        Refused::Identity => {
            let message = "an authorization identity besides the user is not supported";
            ErrorResponse::fatal("0A000", message)
        }
    };
    let verifier = server.users.verifier(user);
    let (exchange, text) = Scram::begin(verifier, message, channel).map_err(refused)?;
    wire.writer.authentication(11, text.as_bytes());
    let second = answer(wire).await?;
    let text = exchange.finish(&second).map_err(refused)?;
    // The user may have been removed or changed since the challenge (auth-5).
    let grant = server.users.grant(user, exchange.verifier());
    let grant = grant.ok_or_else(|| wrong_password(user))?;
    wire.writer.authentication(12, text.as_bytes());
    Ok(grant)
}

/// Splits a SASLInitialResponse into the name of the mechanism and its first message, in front of
/// which its length stands: all bytes that are left. A length of -1, for no message, is none that a
/// login can begin with.
fn initial_response(answer: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(0, answer)?;
    let (length, message) = answer[end + 1..].split_first_chunk::<4>()?;
    let length = usize::try_from(i32::from_be_bytes(*length)).ok()?;
    (length == message.len()).then_some((&answer[..end], message))
}

/// Makes the refusal of a login (login-2).
fn wrong_password(user: &str) -> ErrorResponse {
    ErrorResponse::fatal("28P01", format!("password authentication failed for user \"{user}\""))
}

/// Makes the refusal of an unknown name where names are believed without a password.
fn unknown_user(user: &str) -> ErrorResponse {
    ErrorResponse::fatal("28000", format!("user \"{user}\" does not exist"))
}

/// Sends the request, and waits for the answer.
async fn answer(wire: &mut Wire) -> Result<Bytes, End> {
    wire.flush().await?;
    loop {
        match take_message(&mut wire.input, ANSWER_BYTES_MAX)? {
            Some(Message::Password(answer)) => return Ok(answer),
            Some(Message::Terminate) => return Err(End::Disconnected),
            Some(_) => return Err(ErrorResponse::fatal("08P01", "a password is awaited").into()),
            None => {
                if wire.fill().await? == 0 {
                    return Err(End::Disconnected);
                }
            }
        }
    }
}

/// The longest wait for a refused client to close.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_names_and_values() {
        let found = options("-c statement_timeout=5s --search-path=a\\ b -cjit=off -x c=d");
        let expected = [("statement_timeout", "5s"), ("search_path", "a b"), ("jit", "off")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(found, expected);
    }

    #[test]
    fn the_length_within_a_first_message_is_that_of_the_rest() {
        let message = &b"n,,n=,r=a"[..];
        assert_eq!(initial_response(b"X\0\0\0\0\x09n,,n=,r=a"), Some((&b"X"[..], message)));
        for wrong in [
            &b"X\0\0\0\0\x08n,,n=,r=a"[..],
            b"X\0\x7f\xff\xff\xffn,,n=,r=a",
            b"X\0\xff\xff\xff\xff",
            b"X\0\0\0",
            b"X",
            b"",
        ] {
            assert_eq!(initial_response(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn the_database_is_called_like_the_user_if_nothing_else_is_said() {
        let pair = |name: &str, value: &str| {
            (Bytes::copy_from_slice(name.as_bytes()), Bytes::copy_from_slice(value.as_bytes()))
        };
        let mut unknown = Vec::new();
        let parameters = vec![pair("user", "ann"), pair("_pq_.x", "1"), pair("jit", "off")];
        let found = startup(parameters, &mut unknown).ok().unwrap();
        assert_eq!((found.user.as_str(), found.database.as_str()), ("ann", "ann"));
        assert_eq!(unknown, ["_pq_.x"]);
        assert_eq!(found.settings, [("jit".to_owned(), "off".to_owned())]);
        let code = |parameters| startup(parameters, &mut Vec::new()).err().unwrap().code;
        assert_eq!(code(vec![pair("database", "d")]), "28000");
        assert_eq!(code(vec![pair("user", "a"), pair("replication", "true")]), "0A000");
    }
}
