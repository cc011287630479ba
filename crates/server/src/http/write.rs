//! `/write`: commits the lines of a body with one commit, or not at all.
//!
//! - A body is parsed as it arrives, in any pieces; only its rows are kept.
//! - 204 is sent when all rows are durable and readable; any other answer, except for
//!   `on_error=skip`, means that no row of the request is there, as far as that is known: 500 with
//!   "in doubt" says that it is not known.
//! - http_write-1. A body is processed in small pieces (`decompression`), between which other tasks
//!   can run; it is dropped when its client has gone, or the server must end.
//! - http_write-2. A repeated request with an idempotency key gets the first answer again, and a
//!   different request with the same key is refused (idempotency_cache-2).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::mem;
use std::sync::Arc;

use tidegate_ingest::line::{LineParser, OnBadLine, ParseError, Precision};
use tidegate_model::ByteCount;
use tidegate_platform::{Class, sentence};
use tidegate_query::Privilege;
use tidegate_storage::Error as StorageError;
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::Instant;

use super::decompression::{BodyEncoding, DecompressError, Decompressor, Encoding};
use super::pace::BodyPace;
use super::params::Params;
use super::response::{JSON, Response};
use super::route::ParameterSpec;
use super::route::ParameterType::{OneOf, Text};
use super::wire::{BodyError, Head, Probe};
use super::{Flow, RequestContext};
use crate::ilp::{
    Answer, CommitError, CommitOptions, Committed, Content, Fingerprint, Host, KeyReused,
    NamedBatch, RejectRow, Reserved, UNIT_BYTES, commit, is_race,
};
use crate::json::push_string;
use crate::log::shortened;
use crate::metrics::Transport;
use crate::server_state::{Phase, Services};
use crate::sqlstate;

/// The most bytes of an idempotency key.
const KEY_BYTES: usize = 64;
/// The most bytes of a message.
const MESSAGE_BYTES: usize = 1_024;
/// The most bad lines that an answer lists.
const ERRORS_SHOWN: usize = 100;
/// The bytes of reserved text after which the connection is checked.
const CHECK_BYTES: usize = 1 << 20;
/// The most bytes of a body that are still read after it was refused, so that the connection can be
/// used again.
const REST_BYTES: u64 = 1 << 20;

/// The parameters of `/write`.
pub(super) const PARAMETERS: &[ParameterSpec] = &[
    ParameterSpec::query(
        "precision",
        OneOf(&["n", "ns", "u", "us", "ms", "s", "m", "h"]),
        "The unit of timestamps.",
    ),
    ParameterSpec::query(
        "on_error",
        OneOf(&["abort", "skip"]),
        "The effect of a bad line on the request.",
    ),
    ParameterSpec::header(
        "Idempotency-Key",
        Text,
        "At most 64 bytes; a repeated request with the same key is committed once.",
    ),
];

/// The reason why lines were not committed, as reported to the client.
struct Refusal {
    status: u16,
    code: &'static str,
    message: String,
    line: Option<u64>,
    /// The kind of the error in metrics.
    kind: &'static str,
    parse_error: Option<Box<ParseError>>,
}

enum Stopped {
    Refused(Refusal),
    /// The client has gone.
    Disconnected,
}

impl Refusal {
    fn new(status: u16, code: &'static str, message: impl Into<String>) -> Refusal {
        let kind = match status {
            413 => "too_long",
            403 => "forbidden",
            411 => "length",
            415 => "encoding",
            422 => "reused_name",
            421 => "read_only",
            503 => "retry",
            507 => "disk_full",
            500 => "internal",
            _ => "request",
        };
        Refusal { status, code, message: message.into(), line: None, kind, parse_error: None }
    }

    fn of_parse_error(parse_error: Box<ParseError>) -> Refusal {
        let is_long = parse_error.reason.is_too_large();
        let (status, code) = if is_long { (413, "request too large") } else { (400, "invalid") };
        let mut refusal = Refusal::new(status, code, parse_error.to_string());
        refusal.line = Some(parse_error.line);
        refusal.kind = parse_error.reason.kind();
        refusal.parse_error = Some(parse_error);
        refusal
    }

    fn of_storage(error: &StorageError) -> Refusal {
        let message = sentence(error);
        match (sqlstate::of_storage(error), error.class()) {
            ("53100", _) => Refusal::new(507, "retry operation", message),
            ("25006" | "53200", _) => Refusal::new(503, "retry operation", message),
            _ if matches!(error, StorageError::BatchReused { .. }) => key_reused(),
            ("54000", _) => Refusal::new(413, "request too large", message),
            _ if is_race(error) => Refusal::new(503, "retry operation", message),
            (_, Class::Caller) => Refusal::new(400, "invalid", message),
            (_, Class::Environment | Class::Corruption) => {
                Refusal::new(500, "internal error", message)
            }
        }
    }

    fn response(&self, error_id: &str) -> Response {
        let mut text = format!("{{\"code\":\"{}\",\"message\":", self.code);
        push_string(shortened(&self.message, MESSAGE_BYTES), &mut text);
        if let Some(line) = self.line {
            write!(text, ",\"line\":{line}").expect("a String takes everything");
        }
        write!(text, ",\"errorId\":\"{error_id}\"}}").expect("a String takes everything");
        let response = Response::new(self.status, JSON, text);
        if self.status == 503 { response.with("Retry-After", "1") } else { response }
    }
}

impl From<Refusal> for Stopped {
    fn from(refusal: Refusal) -> Stopped {
        Stopped::Refused(refusal)
    }
}

impl From<DecompressError> for Refusal {
    fn from(error: DecompressError) -> Refusal {
        match error {
            DecompressError::TooLarge { max } => too_large(max),
            DecompressError::Malformed { .. } | DecompressError::NotParts(_) => {
                Refusal::new(400, "invalid", error.to_string())
            }
        }
    }
}

impl From<DecompressError> for Stopped {
    fn from(error: DecompressError) -> Stopped {
        Refusal::from(error).into()
    }
}

impl From<BodyError> for Stopped {
    fn from(error: BodyError) -> Stopped {
        match error {
            BodyError::Cut | BodyError::Io(_) => Stopped::Disconnected,
            BodyError::Slow | BodyError::TooSlow => {
                Refusal::new(408, "retry operation", error.to_string()).into()
            }
            BodyError::Malformed(_) => Refusal::new(400, "invalid", error.to_string()).into(),
        }
    }
}

/// Makes the answer to a request that is refused before its handler runs.
pub(super) fn refused(context: &RequestContext<'_>, status: u16, message: &str) -> Response {
    let code = match status {
        401 => "unauthorized",
        403 => "forbidden",
        _ => "invalid",
    };
    Refusal::new(status, code, message).response(&context.server.ids.error())
}

/// Answers a request to `/write`.
pub(super) async fn write(context: &mut RequestContext<'_>) -> Flow {
    let outcome = take(context).await;
    match outcome {
        Ok(Answer::All) => context.respond(Response::empty()).await,
        Ok(Answer::Partial(body)) => context.respond(Response::new(200, JSON, body)).await,
        Err(Stopped::Disconnected) => Flow::Disconnected,
        Err(Stopped::Refused(refusal)) => {
            let error_id = context.server.ids.error();
            note(context, &refusal, &error_id);
            if rest(context).await.is_err() {
                return Flow::Disconnected;
            }
            context.respond(refusal.response(&error_id)).await
        }
    }
}

/// Counts and logs a request that was refused, and stores the reason.
fn note(context: &mut RequestContext<'_>, refusal: &Refusal, error_id: &str) {
    let (server, peer) = (context.server, context.peer);
    server.metrics.rejected(Transport::Http, refusal.kind, 1);
    let message = shortened(&refusal.message, MESSAGE_BYTES);
    server.log.warn_limited("ilp", format_args!("{peer}: {error_id}: {message}"));
    let (Some(parse_error), Ok(services)) = (&refusal.parse_error, server.services()) else {
        return;
    };
    if !context.reject_limit.allows(Instant::now()) {
        return;
    }
    let now = server.clock.now_micros();
    let mut row = RejectRow::of_parse_error(parse_error, Transport::Http, &peer.to_string(), now);
    row.error_id = Some(error_id.to_owned());
    services.ingest.rejects.keep(row);
}

/// Reads the rest of a small body, so that another request can follow.
async fn rest(context: &mut RequestContext<'_>) -> Result<(), BodyError> {
    if context.body.length().is_some_and(|bytes| bytes <= REST_BYTES) {
        while context.body.next(context.wire).await?.is_some() {}
    }
    Ok(())
}

/// The options of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WriteOptions {
    precision: Precision,
    on_bad_line: OnBadLine,
    body_encoding: BodyEncoding,
    /// The idempotency key, so that the lines are committed once.
    name: Option<String>,
}

impl WriteOptions {
    fn fingerprint(&self, context: &RequestContext<'_>) -> Fingerprint {
        Fingerprint::new(context.sender.user.as_deref(), &format!("{:?}", self.precision))
    }
}

fn write_options(head: &Head) -> Result<WriteOptions, Refusal> {
    let params = Params::parse(&head.query, PARAMETERS)
        .map_err(|_| Refusal::new(400, "invalid", "the address is not UTF-8, or not encoded"))?;
    let precision = params.find("precision").filter(|text| !text.is_empty()).unwrap_or("ns");
    let precision = Precision::parse(precision).ok_or_else(|| {
        let message = format!(
            "precision '{}' is not known; n, ns, u, us, ms, s, m and h are",
            shortened(precision, 64)
        );
        Refusal::new(400, "not supported", message)
    })?;
    let on_bad_line = match params.find("on_error") {
        None | Some("abort") => OnBadLine::Stop,
        Some("skip") => OnBadLine::Skip,
        Some(other) => {
            let message = format!("on_error is abort or skip, not '{}'", shortened(other, 64));
            return Err(Refusal::new(400, "not supported", message));
        }
    };
    let name = head.field("content-encoding").unwrap_or_default();
    let encoding = Encoding::named(name).ok_or_else(|| {
        let message = format!("the encoding '{}' is not supported", shortened(name, 64));
        Refusal::new(415, "not supported", message)
    })?;
    let has_parts = head.content_type().starts_with("multipart/");
    let parts = head.field("content-type").filter(|_| has_parts).map(str::to_owned);
    let body_encoding = BodyEncoding { encoding, parts };
    Ok(WriteOptions { precision, on_bad_line, body_encoding, name: request_name(head)? })
}

fn request_name(head: &Head) -> Result<Option<String>, Refusal> {
    match head.field("idempotency-key") {
        None | Some("") => Ok(None),
        Some(key) if key.len() <= KEY_BYTES => Ok(Some(key.to_owned())),
        Some(_) => {
            let message = format!("an idempotency key has at most {KEY_BYTES} bytes");
            Err(Refusal::new(400, "invalid", message))
        }
    }
}

/// Commits the lines of a request, and returns the answer.
async fn take(context: &mut RequestContext<'_>) -> Result<Answer, Stopped> {
    let options = write_options(context.head)?;
    if !context.server.config.http.ilp_enabled {
        let message = "the line protocol over HTTP is switched off";
        return Err(Refusal::new(421, "not accepting writes", message).into());
    }
    if context.server.config.read_only {
        let message = "the server is read-only";
        return Err(Refusal::new(421, "not accepting writes", message).into());
    }
    let services = context.server.services().map_err(|unready| {
        Stopped::from(Refusal::new(503, "retry operation", unready.to_string()))
    })?;
    let allowed = context.allow(Privilege::Write("lines"));
    allowed.map_err(|message| Refusal::new(403, "forbidden", message))?;
    let reserved = context.reserve(options.body_encoding.encoding.memory_bytes());
    reserved.map_err(|error| Refusal::new(503, "retry operation", error.to_string()))?;
    let Some(name) = &options.name else { return take_lines(context, &services, &options).await };
    let cache = &services.ingest.idempotency_cache;
    if cache.is_known(name, Instant::now()) {
        let content = content_of(context, &options).await?;
        let cached = cache.find(name, content, Instant::now()).map_err(|_| key_reused())?;
        // The answer may have been forgotten meanwhile, with the body read: the client has to
        // retry.
        let again = || Refusal::new(503, "retry operation", "the answer was forgotten just now");
        return Ok(cached.ok_or_else(again)?); // http_write-2
    }
    take_lines(context, &services, &options).await
}

/// Makes the answer to a request whose idempotency key was used for another one (http_write-2).
fn key_reused() -> Refusal {
    let message = "the Idempotency-Key was used for another request: with other lines, precision, \
                   or user";
    Refusal::new(422, "invalid", message)
}

/// Returns the content of a request without parsing it.
async fn content_of(
    context: &mut RequestContext<'_>,
    options: &WriteOptions,
) -> Result<Content, Stopped> {
    let max = context.server.config.http.max_ilp_body;
    let (mut decompressor, mut fingerprint) =
        (Decompressor::new(&options.body_encoding, max)?, options.fingerprint(context));
    while let Some(mut piece) = context.body.next(context.wire).await? {
        while !piece.is_empty() {
            fingerprint.update(&decompressor.next(&mut piece)?);
            yield_now().await;
        }
    }
    fingerprint.update(&decompressor.finish()?);
    Ok(fingerprint.finish())
}

async fn take_lines(
    context: &mut RequestContext<'_>,
    services: &Arc<Services>,
    options: &WriteOptions,
) -> Result<Answer, Stopped> {
    let parser = match options.on_bad_line {
        OnBadLine::Stop => services.ingest.parser(options.precision),
        OnBadLine::Skip => {
            LineParser::new(services.ingest.line_options(options.precision, OnBadLine::Skip))
        }
    };
    let mut reading = Reading {
        parser,
        fingerprint: options.name.as_ref().map(|_| options.fingerprint(context)),
        reserved: None,
        bytes: 0,
        charged: 0,
        rejected: 0,
        parse_errors: Vec::new(),
        kinds: BTreeMap::new(),
    };
    let read = reading.read(context, services, options).await;
    let content = reading.fingerprint.take().map(Fingerprint::finish);
    let named = options.name.as_deref().zip(content);
    let cache = &services.ingest.idempotency_cache;
    let begun = named.map(|(name, content)| cache.begin(name, content, Instant::now()));
    let committed = match (read, begun) {
        (Err(stopped), _) => Err(stopped),
        (Ok(()), Some(Err(KeyReused))) => Err(key_reused().into()),
        (Ok(()), begun) => {
            let batch = named.map(|(name, content)| content.batch(name));
            let committed = reading.commit(context, services, batch).await;
            let answer = committed.map(|it| answer(context, services, &mut reading, it, named));
            drop(begun);
            answer
        }
    };
    if options.on_bad_line == OnBadLine::Stop {
        services.ingest.keep_parser(reading.parser);
    }
    committed
}

/// Makes the answer to a committed request; it is kept for repeats.
fn answer(
    context: &mut RequestContext<'_>,
    services: &Services,
    reading: &mut Reading,
    committed: Committed,
    named: Option<(&str, Content)>,
) -> Answer {
    let cache = &services.ingest.idempotency_cache;
    if committed.is_repeat {
        // The tables know the key, but its answer is forgotten, or is being sent at this moment.
        let known = named.map(|(name, content)| cache.find(name, content, Instant::now()));
        return known.and_then(Result::ok).flatten().unwrap_or(Answer::All);
    }
    let answer = outcome(context, services, reading, committed);
    if let Some((name, content)) = named {
        cache.keep(name, content, answer.clone(), Instant::now());
    }
    answer
}

fn outcome(
    context: &mut RequestContext<'_>,
    services: &Services,
    reading: &mut Reading,
    committed: Committed,
) -> Answer {
    let (parse_errors, mut kinds) =
        (mem::take(&mut reading.parse_errors), mem::take(&mut reading.kinds));
    let rejected = reading.rejected + committed.rejected;
    if rejected == 0 {
        return Answer::All;
    }
    for parse_error in &committed.parse_errors {
        *kinds.entry(parse_error.reason.kind()).or_default() += 1;
    }
    for (reason, count) in kinds {
        context.server.metrics.rejected(Transport::Http, reason, count);
    }
    let parse_errors = [parse_errors, committed.parse_errors].concat();
    note_partial(context, services, &parse_errors, rejected);
    Answer::Partial(partial(committed.rows, rejected, &parse_errors))
}

/// A body that is parsed into rows.
struct Reading {
    parser: LineParser,
    /// The fingerprint of the text so far, if the request has an idempotency key.
    fingerprint: Option<Fingerprint>,
    /// The memory of all that was read and is not committed.
    reserved: Option<Reserved>,
    /// The bytes of text so far.
    bytes: usize,
    /// The bytes that were reserved since the connection was checked.
    charged: usize,
    rejected: u64,
    parse_errors: Vec<ParseError>,
    /// The number of bad lines of each kind.
    kinds: BTreeMap<&'static str, u64>,
}

impl Reading {
    async fn read(
        &mut self,
        context: &mut RequestContext<'_>,
        services: &Services,
        options: &WriteOptions,
    ) -> Result<(), Stopped> {
        let max = context.server.config.http.max_ilp_body;
        if options.body_encoding.encoding == Encoding::Plain
            && context.body.length().is_some_and(|length| (max as u64) < length)
        {
            return Err(too_large(max).into());
        }
        let mut decompressor = Decompressor::new(&options.body_encoding, max)?;
        // Waiting for bytes must not delay others (ilp-2).
        let (pace, is_short) = (BodyPace::begin(), || services.ingest.is_short());
        while let Some(mut piece) = pace.next(context, self.bytes, is_short).await? {
            while !piece.is_empty() {
                let text = decompressor.next(&mut piece)?;
                self.feed(context, services, &text).await?;
            }
        }
        let rest = decompressor.finish()?;
        self.feed(context, services, &rest).await?;
        let clock = Arc::clone(&context.server.clock);
        let mut host = Host::new(&services.database, clock.as_ref());
        let finished = self.parser.finish(&mut host);
        self.take_errors();
        Ok(finished.map_err(Refusal::of_parse_error)?)
    }

    async fn feed(
        &mut self,
        context: &mut RequestContext<'_>,
        services: &Services,
        text: &[u8],
    ) -> Result<(), Stopped> {
        if text.is_empty() {
            return Ok(());
        }
        self.bytes += text.len();
        if let Some(fingerprint) = &mut self.fingerprint {
            fingerprint.update(text);
        }
        let metrics = context.server.metrics.of(Transport::Http);
        metrics.bytes.add(text.len() as u64);
        let reserved = services.ingest.reserve(text.len()).await.ok_or_else(|| {
            let message = "the memory for rows on their way is used up";
            Stopped::from(Refusal::new(503, "retry operation", message))
        })?;
        match &mut self.reserved {
            Some(held) => held.merge(reserved),
            None => self.reserved = Some(reserved),
        }
        let fed = {
            let mut host = Host::new(&services.database, context.server.clock.as_ref());
            self.parser.feed(text, &mut host)
        };
        self.take_errors();
        fed.map_err(Refusal::of_parse_error)?;
        yield_now().await;
        // A piece of one byte reserves a whole unit.
        self.charged += text.len().next_multiple_of(UNIT_BYTES);
        if CHECK_BYTES <= self.charged {
            self.charged = 0;
            self.check_client(context, services).await?;
        }
        Ok(())
    }

    /// Releases memory that is not needed, and stops if the client has gone (http_write-1).
    async fn check_client(
        &mut self,
        context: &mut RequestContext<'_>,
        services: &Services,
    ) -> Result<(), Stopped> {
        if let Some(reserved) = &mut self.reserved {
            services.ingest.shrink(reserved, self.parser.pending_bytes());
        }
        let is_ending = *context.server.phase.borrow() == Phase::Ending;
        if is_ending || context.wire.is_disconnected(Probe::of(context.head)).await {
            return Err(Stopped::Disconnected);
        }
        Ok(())
    }

    fn take_errors(&mut self) {
        let (parse_errors, count) = self.parser.take_errors();
        self.rejected += count;
        for (kind, count) in self.parser.take_kinds() {
            *self.kinds.entry(kind).or_default() += count;
        }
        let room = ERRORS_SHOWN.saturating_sub(self.parse_errors.len());
        self.parse_errors.extend(parse_errors.into_iter().take(room));
    }

    /// Commits all rows, even if the client has gone meanwhile.
    async fn commit(
        &mut self,
        context: &RequestContext<'_>,
        services: &Arc<Services>,
        batch: Option<NamedBatch>,
    ) -> Result<Committed, Stopped> {
        let metrics = context.server.metrics.of(Transport::Http);
        let start = context.server.clock.monotonic_nanos();
        let rows = self.parser.take();
        let lines = rows.iter().map(|rows| rows.rows.rows() as u64).sum::<u64>();
        metrics.lines.add(lines + self.rejected);
        if rows.is_empty() {
            return Ok(Committed::default());
        }
        let options = CommitOptions {
            lines: self.parser.options().clone(),
            partition_by: services.ingest.options.partition_by,
            batch,
        };
        let (database, reserved) = (Arc::clone(&services.database), self.reserved.take());
        let work = spawn_blocking(move || {
            let outcome = commit(&database, rows, &options);
            drop(reserved);
            outcome
        });
        let outcome = work.await.map_err(|_| {
            Stopped::from(Refusal::new(500, "internal error", "the commit has panicked"))
        })?;
        match outcome {
            Ok(committed) => {
                if committed.is_repeat {
                    return Ok(committed);
                }
                metrics.commits.add(1);
                metrics.rows.add(committed.rows);
                metrics.commit_times.record(context.server.clock.monotonic_nanos() - start);
                Ok(committed)
            }
            Err(CommitError::ParseError(parse_error)) => {
                Err(Refusal::of_parse_error(parse_error).into())
            }
            Err(CommitError::Storage { source, .. }) => {
                metrics.commit_errors.add(1);
                Err(Refusal::of_storage(&source).into())
            }
        }
    }
}

fn too_large(max: usize) -> Refusal {
    let max = ByteCount(max as u64);
    Refusal::new(413, "request too large", format!("the body has more than {max}, decompressed"))
}

/// Logs and stores the lines that were skipped.
fn note_partial(
    context: &mut RequestContext<'_>,
    services: &Services,
    parse_errors: &[ParseError],
    rejected: u64,
) {
    let (server, peer) = (context.server, context.peer);
    server.log.warn_limited("ilp", format_args!("{peer}: rejected lines: {rejected}"));
    let (now, peer) = (server.clock.now_micros(), peer.to_string());
    for parse_error in parse_errors {
        if context.reject_limit.allows(Instant::now()) {
            let row = RejectRow::of_parse_error(parse_error, Transport::Http, &peer, now);
            services.ingest.rejects.keep(row);
        }
    }
}

/// Makes the JSON of accepted and rejected lines.
fn partial(accepted: u64, rejected: u64, parse_errors: &[ParseError]) -> String {
    let mut text = format!(
        "{{\"code\":\"partial write\",\"accepted\":{accepted},\"rejected\":{rejected},\"errors\":["
    );
    for (position, parse_error) in parse_errors.iter().take(ERRORS_SHOWN).enumerate() {
        let comma = if position == 0 { "" } else { "," };
        write!(text, "{comma}{{\"line\":{},\"message\":", parse_error.line)
            .expect("a String takes everything");
        push_string(shortened(&parse_error.reason.to_string(), MESSAGE_BYTES), &mut text);
        text.push('}');
    }
    text.push_str("]}");
    text
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::super::params::tests::check_read;
    use super::*;

    #[test]
    fn all_parameters_are_read() {
        check_read(PARAMETERS, &[""], |_| {
            let mut head = BytesMut::from("POST /write HTTP/1.0\r\n\r\n");
            assert!(write_options(&Head::of_text(&mut head)).is_ok());
        });
    }

    #[test]
    fn errors_have_their_keys_in_order() {
        let mut refusal = Refusal::new(400, "invalid", "no \"number\"");
        refusal.line = Some(3);
        let response = refusal.response("6b1f0e92c4d7-18");
        let expected = "{\"code\":\"invalid\",\"message\":\"no \\\"number\\\"\",\"line\":3,\
                        \"errorId\":\"6b1f0e92c4d7-18\"}";
        assert_eq!(String::from_utf8(response.body).unwrap(), expected);
    }
}
