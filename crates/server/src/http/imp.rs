//! `/imp`: imports a file into a table with one commit, or not at all.
//!
//! - The bytes of a body go to the import as they arrive; no more of them are held than it lets
//!   wait.
//! - imp-1. A request that is not answered with success has changed nothing: bad values, a closed
//!   connection, and a full disk leave the table unchanged.
//!
//! The options of an import are in `request`, its answer in `answer`. Not here: the import
//! (`copy`), and the parts of a body (`multipart`).

mod request;
mod answer;

use std::sync::Arc;

use bytes::Bytes;
use tidegate_query::{Privilege, Session};

use super::decompression::{BodyEncoding, DecompressError, Decompressor, Encoding};
use super::exec::session;
use super::multipart::{BadParts, Multipart, PartSink, disposition};
use super::params::Params;
use super::response::Response;
use super::wire::{BodyError, Probe};
use super::{Flow, RequestContext};
use crate::budget::OverBudget;
use crate::copy::{CopyError, Ended, Upload};
use crate::server_state::Services;
use answer::{failure, success};
pub(super) use request::PARAMETERS;
use request::{AnswerForm, ImportRequest};

/// The most bytes of the part that describes columns.
const SCHEMA_BYTES: usize = 1 << 20;

/// The reason why there is no import.
enum Stopped {
    Failed {
        status: Option<u16>,
        error: CopyError,
    },
    /// The client has gone.
    Disconnected,
}

impl From<CopyError> for Stopped {
    fn from(error: CopyError) -> Stopped {
        Stopped::Failed { status: None, error }
    }
}

impl From<OverBudget> for Stopped {
    fn from(error: OverBudget) -> Stopped {
        let error = CopyError::new("53200", error.to_string());
        Stopped::Failed { status: Some(503), error }
    }
}

impl From<DecompressError> for Stopped {
    fn from(error: DecompressError) -> Stopped {
        match error {
            DecompressError::TooLarge { .. } => {
                let error = CopyError::new("54000", error.to_string());
                Stopped::Failed { status: Some(413), error }
            }
            _ => CopyError::new("22P04", error.to_string()).into(),
        }
    }
}

impl From<BadParts> for Stopped {
    fn from(BadParts(why): BadParts) -> Stopped {
        let message = format!("the body is not what an upload is: {why}");
        CopyError::new("08P01", message).into()
    }
}

impl From<BodyError> for Stopped {
    fn from(error: BodyError) -> Stopped {
        match error {
            BodyError::Cut | BodyError::Io(_) => Stopped::Disconnected,
            BodyError::Slow | BodyError::TooSlow => {
                let error = CopyError::new("08006", error.to_string());
                Stopped::Failed { status: Some(408), error }
            }
            BodyError::Malformed(_) => CopyError::new("08P01", error.to_string()).into(),
        }
    }
}

/// Answers a request to `/imp`.
pub(super) async fn import(context: &mut RequestContext<'_>) -> Flow {
    let params = match Params::parse(&context.head.query, PARAMETERS) {
        Ok(params) => params,
        Err(_) => {
            let message = "the address is not UTF-8, or not encoded";
            return context.refuse(400, message, Some("22021")).await;
        }
    };
    let form = match AnswerForm::of(&params) {
        Ok(form) => form,
        Err(error) => return respond(context, failure(AnswerForm::Text, None, &error)).await,
    };
    match take(context, params).await {
        Ok((ended, request)) => {
            let response = success(form, &ended, &request);
            context.respond(response).await
        }
        Err(Stopped::Disconnected) => Flow::Disconnected,
        Err(Stopped::Failed { status, error }) => {
            respond(context, failure(form, status, &error)).await
        }
    }
}

/// Sends the answer of a failure, with status 200 if that is configured for scripts.
async fn respond(context: &mut RequestContext<'_>, mut response: Response) -> Flow {
    if context.server.config.http.imp_always_200 {
        response.status = 200;
    }
    context.respond(response).await
}

/// Reads the body into an import, and waits for its end.
async fn take(
    context: &mut RequestContext<'_>,
    params: Params,
) -> Result<(Arc<Ended>, ImportRequest), Stopped> {
    if context.server.config.read_only {
        return Err(CopyError::new("25006", "the server is read-only").into());
    }
    let denied = |message| Stopped::from(CopyError::new("42501", message));
    context.allow(Privilege::Write("an import")).map_err(denied)?;
    if params.is_on("overwrite") {
        context.allow(Privilege::Define("an import that replaces a table")).map_err(denied)?;
    }
    let services = context.server.services();
    let services =
        services.map_err(|unready| CopyError::new(unready.code(), unready.to_string()))?;
    let max = context.server.config.http.max_upload_bytes;
    if 0 < max && context.body.length().is_some_and(|length| max < length) {
        return Err(too_large(max));
    }
    let mut receiving = Receiving::new(context, params, &services)?;
    let body_encoding = body_encoding(context)?;
    let decoder_bytes = body_encoding.encoding.memory_bytes();
    context.reserve(decoder_bytes)?;
    let mut decompressor = Decompressor::new(&body_encoding, usize::MAX)?;
    let mut bytes = 0;
    while let Some(mut piece) = context.body.next(context.wire).await? {
        bytes += piece.len() as u64;
        if 0 < max && max < bytes {
            return Err(too_large(max));
        }
        while !piece.is_empty() {
            let plain = decompressor.next(&mut piece)?;
            push(context, &mut receiving, plain).await?;
            context.reserve(decoder_bytes + receiving.parsed_parts.schema.capacity())?;
        }
    }
    let rest = decompressor.finish()?;
    push(context, &mut receiving, rest).await?;
    let finish = receiving.finish();
    let probe = Probe::of(context.head);
    tokio::select! {
        biased;
        ended = finish => ended,
        // Without a client to answer, the import is ended (imp-1).
        () = context.wire.closed(probe) => Err(Stopped::Disconnected),
    }
}

/// Passes bytes to the import. An import that waits for its start stops taking bytes, and the
/// client may go meanwhile (imp-1).
async fn push(
    context: &mut RequestContext<'_>,
    receiving: &mut Receiving<'_>,
    bytes: Bytes,
) -> Result<(), Stopped> {
    let probe = Probe::of(context.head);
    tokio::select! {
        biased;
        pushed = receiving.push(bytes) => pushed,
        () = context.wire.closed(probe) => Err(Stopped::Disconnected),
    }
}

fn too_large(max: u64) -> Stopped {
    let message = format!("the upload has more than {max} bytes");
    Stopped::Failed { status: Some(413), error: CopyError::new("54000", message) }
}

fn body_encoding(context: &RequestContext<'_>) -> Result<BodyEncoding, Stopped> {
    let name = context.head.field("content-encoding").unwrap_or_default();
    let encoding = Encoding::named(name).ok_or_else(|| {
        let error = CopyError::new("0A000", "the encoding of the body is not supported");
        Stopped::Failed { status: Some(415), error }
    })?;
    Ok(BodyEncoding { encoding, parts: None })
}

/// A body that is passed to an import.
struct Receiving<'a> {
    services: &'a Arc<Services>,
    session: Session,
    params: Params,
    parts: Option<Multipart>,
    parsed_parts: Parts,
    /// `None` until the target of the import is known.
    upload: Option<(Upload, ImportRequest)>,
}

impl<'a> Receiving<'a> {
    fn new(
        context: &RequestContext<'_>,
        params: Params,
        services: &'a Arc<Services>,
    ) -> Result<Receiving<'a>, Stopped> {
        let content_type = context.head.content_type();
        let parts = match content_type.as_str() {
            "multipart/form-data" => {
                let field = context.head.field("content-type").unwrap_or_default();
                Some(Multipart::new(field)?)
            }
            "text/csv" | "text/plain" | "application/octet-stream" | "" => None,
            other => {
                let message = format!("a body of type '{other}' is no upload");
                let error = CopyError::new("0A000", message);
                return Err(Stopped::Failed { status: Some(415), error });
            }
        };
        let session = session(context);
        let parsed_parts = Parts::default();
        Ok(Receiving { services, session, params, parts, parsed_parts, upload: None })
    }

    async fn push(&mut self, bytes: Bytes) -> Result<(), Stopped> {
        let data = match &mut self.parts {
            None => bytes,
            Some(parts) => {
                parts.push_to(&bytes, &mut self.parsed_parts)?;
                if self.parsed_parts.part != Some(Part::Data) {
                    return Ok(());
                }
                Bytes::from(std::mem::take(&mut self.parsed_parts.data))
            }
        };
        if self.upload.is_none() {
            self.begin().await?;
        }
        match &mut self.upload {
            Some((upload, _)) if !data.is_empty() => Ok(upload.push(data).await?),
            _ => Ok(()),
        }
    }

    /// Begins the import: all parameters are known when the data begin.
    async fn begin(&mut self) -> Result<(), Stopped> {
        let request = ImportRequest::new(
            &self.params,
            &self.parsed_parts.schema,
            self.parsed_parts.file_name.as_deref(),
        )?;
        let own = self.services.database.schema_of(&request.table);
        let request = request.for_table(own);
        let file = self.parsed_parts.file_name.clone().unwrap_or_else(|| "upload".to_owned());
        let asked = request.clone();
        let upload = self.services.copier.upload(
            request.table.clone(),
            file,
            &self.session,
            move |inner, source, rejects| asked.options(inner, source, rejects),
        );
        self.upload = Some((upload.await?, request));
        Ok(())
    }

    async fn finish(mut self) -> Result<(Arc<Ended>, ImportRequest), Stopped> {
        match &self.parts {
            Some(parts) => parts.finish()?,
            None if self.upload.is_none() => self.begin().await?,
            None => {}
        }
        let (upload, mut request) = self.upload.ok_or(BadParts("it has no part `data`"))?;
        upload.id().clone_into(&mut request.import_id);
        Ok((upload.finish().await?, request))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Schema,
    Data,
}

/// The parts of a body.
#[derive(Debug, Default)]
struct Parts {
    part: Option<Part>,
    schema: Vec<u8>,
    /// The bytes of data that were received and not yet taken.
    data: Vec<u8>,
    file_name: Option<String>,
}

impl PartSink for Parts {
    fn begin(&mut self, fields: &[u8]) -> Result<(), BadParts> {
        let name = disposition(fields, "name")
            .ok_or(BadParts("a part has no Content-Disposition with a name"))?;
        self.part = Some(match (name.as_str(), self.part) {
            (_, Some(Part::Data)) => return Err(BadParts("a part follows the part `data`")),
            ("schema", None) => Part::Schema,
            ("schema", Some(_)) => return Err(BadParts("it has two parts `schema`")),
            ("data", _) => {
                self.file_name = disposition(fields, "filename").filter(|name| !name.is_empty());
                Part::Data
            }
            _ => return Err(BadParts("its parts are called `schema` and `data`")),
        });
        Ok(())
    }

    fn text(&mut self, bytes: &[u8]) {
        match self.part {
            // A longer part is cut off, so that it is refused as invalid JSON.
            Some(Part::Schema) => {
                let room = SCHEMA_BYTES.saturating_sub(self.schema.len());
                self.schema.extend_from_slice(&bytes[..room.min(bytes.len())]);
            }
            _ => self.data.extend_from_slice(bytes),
        }
    }
}
