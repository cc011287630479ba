//! The extended protocol: statements that are parsed, bound, described and executed in steps.
//!
//! - extended-1. A statement is described once, on demand: for a Describe, or for the types of
//!   parameters that the client leaves open.
//! - extended-2. A statement returns the columns that it was described with. If its tables have
//!   changed so that it would return others, it fails with the error that clients know.
//! - extended-3. Statements up to the next Sync are one transaction, as in PostgreSQL: an error in
//!   the middle undoes those before it. A statement whose Sync has already arrived needs none.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use tidegate_model::limits;
use tidegate_query::{
    CancelHandle, Described, Parameter, StatementOptions, first_token, split_statements,
};

use super::execute::{Ending, Order, Progress, Started, Taken, check_depth, described};
use super::script::Script;
use super::{Connection, LARGE_BYTES, Stopped};
use crate::budget::Reservation;
use crate::pg::command::{Command, changes_rows, check_name, command};
use crate::pg::encode::Format;
use crate::pg::error_response::ErrorResponse;
use crate::pg::message_reader::{Bind, Object, SYNC};
use crate::pg::message_writer::Status;
use crate::pg::portal::State;
use crate::pg::types;
use crate::pg::value::{Counted, TypeSource, bytes_of, example, parameter};

/// A prepared statement, with or without a name.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) sql: Arc<str>,
    pub(super) command: Command,
    /// The types of parameters given by the client; 0 is left open.
    pub(super) types: Vec<u32>,
    /// The bytes that it takes, without its description.
    bytes: usize,
    _reservation: Reservation,
    described: tokio::sync::OnceCell<Description>,
}

/// The parameters and the columns of a statement.
#[derive(Clone, Debug)]
pub(super) struct Description {
    pub(super) columns: Option<SchemaRef>,
    /// The types of all parameters.
    pub(super) types: Vec<u32>,
    _reservation: Arc<Reservation>,
}

/// The lifetime of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    No,
    /// Beyond its transaction, if that is committed.
    Wanted,
    /// The transaction was committed, and the cursor lives until it is closed.
    Committed,
}

/// The columns of a cursor, kept until it is closed.
#[derive(Debug)]
pub(super) struct KeptColumns {
    pub(super) schema: SchemaRef,
    _reservation: Reservation,
}

/// A statement with values: a portal.
#[derive(Debug)]
pub(super) struct Portal {
    pub(super) prepared: Arc<Prepared>,
    pub(super) values: Arc<[Parameter]>,
    pub(super) formats: Vec<Format>,
    pub(super) state: State,
    pub(super) hold: Hold,
    /// The number of savepoints that its transaction had when it was made: the rollback to one of
    /// these ends it.
    pub(super) savepoint_count: usize,
    /// The columns that FETCH describes, also behind the last row; `None` for a portal before its
    /// first FETCH.
    pub(super) columns: Option<KeptColumns>,
    /// The bytes that it takes until its rows come: perhaps nothing else keeps its statement.
    bytes: usize,
    _reservation: Reservation,
}

impl Portal {
    /// Returns the cancel_handle of its statement, if that has rows.
    pub(super) fn working(&self) -> Option<CancelHandle> {
        let State::Rows(rows) = &self.state else { return None };
        rows.is_working().then(|| rows.cancel_handle.clone())
    }

    /// Releases the rows of a statement that was cancelled.
    pub(super) fn end_canceled(&mut self) {
        if let State::Rows(rows) = &mut self.state {
            rows.end_canceled();
        }
    }

    /// Makes a portal with values, and the count of their bytes.
    pub(super) fn new(
        prepared: &Arc<Prepared>,
        values: Vec<Parameter>,
        reservation: Reservation,
        formats: Vec<Format>,
    ) -> Portal {
        let bytes = prepared.bytes + bytes_of(&values) + size_of_val(formats.as_slice());
        let (prepared, values) = (Arc::clone(prepared), Arc::from(values));
        Portal {
            prepared,
            values,
            formats,
            state: State::Ready,
            hold: Hold::No,
            savepoint_count: 0,
            columns: None,
            bytes,
            _reservation: reservation,
        }
    }

    pub(super) fn order(&self) -> Order {
        let (sql, parameters) = (Arc::clone(&self.prepared.sql), Arc::clone(&self.values));
        let is_large = LARGE_BYTES < self.bytes;
        Order { sql, parameters, before: 0, is_large, is_cursor: false }
    }
}

impl Connection {
    pub(super) async fn parse(
        &mut self,
        name: &Bytes,
        sql: Bytes,
        types: Vec<u32>,
    ) -> Result<(), Stopped> {
        let name = new_name(name)?;
        if !name.is_empty() && self.prepared.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(ErrorResponse::new("42P05", message).into());
        }
        let (bytes, reading) = (sql.len(), Script::bytes(&sql));
        let _reservation = self.account.reserve(reading).map_err(ErrorResponse::from)?;
        let read = move || -> Result<Arc<str>, ErrorResponse> {
            let sql = text(&sql)?;
            match 1 < split_statements(sql).len() {
                false => Ok(Arc::from(sql)),
                true => {
                    let message = "cannot insert multiple commands into a prepared statement";
                    Err(ErrorResponse::new("42601", message))
                }
            }
        };
        let sql = self.read(bytes, read).await??;
        let prepared = self.prepared(sql, types).await?;
        self.keep(name, prepared)?;
        self.wire.writer.empty(b'1');
        Ok(())
    }

    /// Makes a prepared statement, and counts its bytes.
    pub(super) async fn prepared(
        &mut self,
        sql: Arc<str>,
        types: Vec<u32>,
    ) -> Result<Prepared, Stopped> {
        let max = limits::STATEMENT_PARAMETERS;
        if max < types.len() {
            let message = format!("a statement has at most {max} parameters");
            return Err(ErrorResponse::new("54000", message).into());
        }
        let text = Arc::clone(&sql);
        let command = self.read(sql.len(), move || command(&text)).await??;
        let bytes = sql.len() + command.bytes() + size_of_val(types.as_slice());
        let _reservation =
            self.account.reserve(bytes + size_of::<Prepared>()).map_err(ErrorResponse::from)?;
        Ok(Prepared { sql, command, types, bytes, _reservation, described: Default::default() })
    }

    /// Keeps a statement under a name (connection-3).
    pub(super) fn keep(&mut self, name: &str, prepared: Prepared) -> Result<(), ErrorResponse> {
        let max = self.server.config.pg.max_prepared;
        if !self.prepared.contains_key(name) && max <= self.prepared.len() {
            let message = format!("a connection keeps at most {max} prepared statements");
            return Err(ErrorResponse::new("53400", message));
        }
        self.check_room(name, prepared.bytes)?;
        self.prepared.insert(name.to_owned(), Arc::new(prepared));
        Ok(())
    }

    /// Checks that a named object of this many bytes may be kept (connection-3).
    fn check_room(&self, name: &str, bytes: usize) -> Result<(), ErrorResponse> {
        // The unnamed object is replaced by the next one.
        if name.is_empty() {
            return Ok(());
        }
        let prepared = self.prepared.iter().filter(|(name, _)| !name.is_empty());
        let portals = self.portals.iter().filter(|(name, _)| !name.is_empty());
        let bytes_used = prepared.map(|(_, it)| it.bytes).chain(portals.map(|(_, it)| it.bytes));
        let max = self.server.config.pg.max_message;
        match bytes_used.sum::<usize>() + bytes <= max {
            true => Ok(()),
            false => {
                let message = format!(
                    "a connection keeps at most {max} bytes of prepared statements and portals"
                );
                Err(ErrorResponse::new("53400", message))
            }
        }
    }

    pub(super) fn find_prepared(&self, name: &str) -> Result<Arc<Prepared>, ErrorResponse> {
        let found = self.prepared.get(name).map(Arc::clone);
        found.ok_or_else(|| {
            ErrorResponse::new("26000", format!("prepared statement \"{name}\" does not exist"))
        })
    }

    /// Returns a prepared statement that EXECUTE may run (session-3). Parse can name others, too.
    pub(super) fn find_executable(&self, name: &str) -> Result<Arc<Prepared>, ErrorResponse> {
        let prepared = self.find_prepared(name)?;
        match prepared.command {
            Command::Statement => Ok(prepared),
            _ => {
                let message = format!(
                    "EXECUTE runs queries, INSERT, UPDATE and DELETE: prepared statement \
                     \"{name}\" is none of them"
                );
                Err(ErrorResponse::new("0A000", message))
            }
        }
    }

    pub(super) async fn bind(&mut self, bind: Bind) -> Result<(), Stopped> {
        let name = new_name(&bind.portal)?.to_owned();
        let prepared = self.find_prepared(text(&bind.statement)?)?;
        if !name.is_empty() && self.portals.contains_key(&name) {
            let message = format!("portal \"{name}\" already exists");
            return Err(ErrorResponse::new("42P03", message).into());
        }
        let count = bind.values.len();
        let is_open = prepared.types.len() < count || prepared.types.contains(&0);
        let types = match is_open && 0 < count {
            true => self.description(&prepared).await?.types,
            false => prepared.types.clone(),
        };
        if types.len() != count {
            let message = format!(
                "bind message supplies {count} parameters, but prepared statement requires {}",
                types.len()
            );
            return Err(ErrorResponse::new("08P01", message).into());
        }
        let formats = formats(&bind.formats, count)?;
        let results = result_formats(&bind.results)?;
        if let Some(Description { columns: Some(columns), .. }) = prepared.described.get() {
            column_formats(&results, columns.fields().len())?;
        }
        let sources = prepared.types.iter().map(|&oid| match oid {
            0 => TypeSource::Inferred,
            _ => TypeSource::Declared,
        });
        let sources = sources.chain(std::iter::repeat(TypeSource::Inferred));
        let types = types.into_iter().zip(sources).zip(formats).collect::<Vec<_>>();
        let bytes = bind.values.iter().flatten().map(Bytes::len).sum::<usize>();
        let mut counted = Counted::new(self.account.reserve(0).map_err(ErrorResponse::from)?);
        let read = move || {
            let mut values = Vec::with_capacity(types.len());
            for (at, (value, ((oid, source), format))) in bind.values.iter().zip(types).enumerate()
            {
                let value = value.as_deref();
                values.push(parameter(value, at + 1, oid, source, format, &mut counted)?);
            }
            Ok::<_, ErrorResponse>((values, counted.into_reservation()?))
        };
        let (values, reservation) = self.read(bytes, read).await??;
        self.keep_portal(&name, Portal::new(&prepared, values, reservation, results))?;
        self.wire.writer.empty(b'2');
        Ok(())
    }

    /// Keeps a portal under a name (connection-3).
    pub(super) fn keep_portal(
        &mut self,
        name: &str,
        mut portal: Portal,
    ) -> Result<(), ErrorResponse> {
        let max = self.server.config.pg.max_prepared;
        if !self.portals.contains_key(name) && max <= self.portals.len() {
            let message = format!("a connection keeps at most {max} portals");
            return Err(ErrorResponse::new("53400", message));
        }
        self.check_room(name, portal.bytes)?;
        portal.savepoint_count = self.session.savepoint_count();
        self.portals.insert(name.to_owned(), portal);
        Ok(())
    }

    pub(super) async fn describe(&mut self, object: Object) -> Result<(), Stopped> {
        match object {
            Object::Statement(name) => {
                let prepared = self.find_prepared(text(&name)?)?;
                let description = self.description(&prepared).await?;
                self.wire.writer.parameter_types(&description.types);
                self.push_description(description.columns.as_ref(), &[])?;
            }
            Object::Portal(name) => {
                let name = text(&name)?;
                let mut portal = self.portals.remove(name).ok_or_else(|| no_portal(name))?;
                let columns = self.portal_columns(&mut portal).await?;
                self.push_description(columns.as_ref(), &portal.formats)?;
                self.portals.insert(name.to_owned(), portal);
            }
        }
        Ok(())
    }

    /// Returns the columns of a portal. A query that is known to be quick is begun for this, as its
    /// result has them.
    async fn portal_columns(&mut self, portal: &mut Portal) -> Result<Option<SchemaRef>, Stopped> {
        if let State::Ready = portal.state
            && portal.prepared.command == Command::Statement
            && self.check_state(&portal.prepared.command).is_ok()
            && let Some(mut rows) = self.start_known(&portal.order()).await?
        {
            self.check_columns(&portal.prepared, &rows.schema)?;
            rows.wait();
            portal.state = State::Rows(Box::new(rows));
        }
        match &portal.state {
            State::Rows(rows) => Ok(Some(Arc::clone(&rows.schema))),
            State::Ready | State::Over => {
                let (prepared, values) = (Arc::clone(&portal.prepared), Arc::clone(&portal.values));
                self.columns_with(&prepared, &values).await
            }
        }
    }

    /// Keeps the columns of a cursor for its FETCHes: the rows that have them end before it does.
    pub(super) async fn keep_columns(&mut self, portal: &mut Portal) -> Result<(), Stopped> {
        if portal.columns.is_some() {
            return Ok(());
        }
        let schema = match &portal.state {
            State::Rows(rows) => Some(Arc::clone(&rows.schema)),
            // All rows were taken without FETCH.
            State::Ready | State::Over => {
                let (prepared, values) = (Arc::clone(&portal.prepared), Arc::clone(&portal.values));
                Box::pin(self.query_columns(&prepared, &values)).await?
            }
        };
        if let Some(schema) = schema {
            let bytes = types::bytes_of(&schema);
            let _reservation = self.account.reserve(bytes).map_err(ErrorResponse::from)?;
            portal.columns = Some(KeptColumns { schema, _reservation });
        }
        Ok(())
    }

    fn push_description(
        &mut self,
        columns: Option<&SchemaRef>,
        formats: &[Format],
    ) -> Result<(), ErrorResponse> {
        match columns {
            None => self.wire.writer.empty(b'n'),
            Some(schema) => {
                let formats = column_formats(formats, schema.fields().len())?;
                let (columns, formats) = described(schema, &formats);
                self.wire.writer.row_description(&columns, &formats);
            }
        }
        Ok(())
    }

    /// Returns the description of a statement (extended-1).
    pub(super) async fn description(
        &mut self,
        prepared: &Arc<Prepared>,
    ) -> Result<Description, Stopped> {
        if let Some(known) = prepared.described.get() {
            return Ok(known.clone());
        }
        let values = prepared.types.iter().map(|&oid| example(oid)).collect::<Vec<_>>();
        let (columns, types) = match self.of_command(&prepared.command, &values).await? {
            Some(columns) => (columns, prepared.types.clone()),
            None => {
                let described = self.engine_describes(prepared, values).await?;
                check_typed(&described, &prepared.types)?;
                let count = described.parameters.len().max(prepared.types.len());
                let types = (0..count).map(|at| type_of(&described, &prepared.types, at));
                let types = types.collect();
                (described.columns, types)
            }
        };
        let bytes = columns.as_ref().map_or(0, types::bytes_of) + size_of_val(types.as_slice());
        let reservation = self.account.reserve(bytes).map_err(ErrorResponse::from)?;
        let description = Description { columns, types, _reservation: Arc::new(reservation) };
        let description = prepared.described.get_or_init(|| async { description }).await;
        Ok(description.clone())
    }

    /// Returns the columns of a statement that the connection executes itself; `None` if the engine
    /// executes it.
    async fn of_command(
        &mut self,
        command: &Command,
        values: &[Parameter],
    ) -> Result<Option<Option<SchemaRef>>, Stopped> {
        Ok(match command {
            Command::Statement => None,
            // Its parameters are those of the query.
            Command::Declare { sql, .. } if !values.is_empty() || sql.contains('$') => None,
            Command::Fetch { name, moves: false, .. } => {
                let portal = self.portals.get(name).ok_or_else(|| no_cursor(name))?;
                check_fetchable(&portal.prepared.command)?;
                if let Some(KeptColumns { schema, .. }) = &portal.columns {
                    return Ok(Some(Some(Arc::clone(schema))));
                }
                let (prepared, values) = (Arc::clone(&portal.prepared), Arc::clone(&portal.values));
                Some(self.query_columns(&prepared, &values).await?)
            }
            Command::Execute { name, values } => {
                let prepared = self.find_executable(name)?;
                let constants = self.constants(name, &prepared, values).await?;
                Some(self.query_columns(&prepared, &constants.values).await?)
            }
            _ => Some(None),
        })
    }

    /// Returns the columns of a statement with these values.
    async fn columns_with(
        &mut self,
        prepared: &Arc<Prepared>,
        values: &[Parameter],
    ) -> Result<Option<SchemaRef>, Stopped> {
        match self.of_command(&prepared.command, values).await? {
            Some(columns) => Ok(columns),
            None => self.query_columns(prepared, values).await,
        }
    }

    /// Returns the columns of a statement of the engine, or of the query of a cursor.
    async fn query_columns(
        &mut self,
        prepared: &Arc<Prepared>,
        values: &[Parameter],
    ) -> Result<Option<SchemaRef>, Stopped> {
        match prepared.described.get() {
            Some(known) => Ok(known.columns.clone()),
            None => Ok(self.engine_describes(prepared, values.to_vec()).await?.columns),
        }
    }

    async fn engine_describes(
        &mut self,
        prepared: &Prepared,
        values: Vec<Parameter>,
    ) -> Result<Described, Stopped> {
        // DECLARE is described by its query.
        let (text, is_declared) = match &prepared.command {
            Command::Declare { sql, .. } => (Arc::from(sql.as_str()), true),
            _ => (Arc::clone(&prepared.sql), false),
        };
        let services = Arc::clone(&self.services);
        let (session, described) = (self.session.clone(), Arc::clone(&text));
        let cancel_handle = CancelHandle::default();
        let _cancelable = self.backend.begin(&cancel_handle);
        let work = self.services.query_threads.spawn(async move {
            let options =
                StatementOptions { timeout: None, session, cancel_handle: Some(cancel_handle) };
            services.engine.describe(&described, &values, &options).await
        });
        let _ending = Ending(work.abort_handle());
        let done = tokio::select! {
            biased;
            done = work => done,
            () = self.wire.closed() => return Err(Stopped::Disconnected),
        };
        match done {
            Ok(described) => {
                let mut described =
                    described.map_err(|error| ErrorResponse::of_query(&error, &text, 0))?;
                described.columns.as_ref().map_or(Ok(()), check_depth)?;
                // Its rows are returned by FETCH.
                described.columns = described.columns.filter(|_| !is_declared);
                Ok(described)
            }
            Err(_) => {
                Err(ErrorResponse::new("XX000", "internal error: planning has panicked").into())
            }
        }
    }

    pub(super) async fn execute(&mut self, portal: &Bytes, rows_max: u32) -> Result<(), Stopped> {
        let name = text(portal)?.to_owned();
        // 0 is no limit, and so are numbers that are negative for the client.
        let max = match rows_max {
            0 | 0x8000_0000.. => u64::MAX,
            max => max.into(),
        };
        let mut portal = self.portals.remove(&name).ok_or_else(|| no_portal(&name))?;
        let done = Box::pin(self.execute_portal(&mut portal, max)).await;
        if done.is_ok() && !self.portals.contains_key(&name) {
            self.portals.insert(name, portal);
        }
        done
    }

    async fn execute_portal(&mut self, portal: &mut Portal, max: u64) -> Result<(), Stopped> {
        if let State::Ready = portal.state {
            self.check_state(&portal.prepared.command)?;
            if portal.prepared.command != Command::Statement {
                if let Command::Copy(sql) = &portal.prepared.command {
                    self.begin_pipelined(sql);
                }
                portal.state = State::Over;
                let formats = portal.formats.clone();
                let (command, values) = (&portal.prepared.command, &portal.values[..]);
                return self.command(command, values, Some(&formats)).await;
            }
            self.begin_pipelined(&portal.prepared.sql);
            match self.start(&portal.order()).await? {
                Started::Done(tag) => {
                    portal.state = State::Over;
                    return self.changed(&tag);
                }
                Started::Rows(rows) => {
                    self.check_columns(&portal.prepared, &rows.schema)?;
                    portal.state = State::Rows(rows);
                }
            }
        }
        match self.portal_rows(portal, max, Taken::Sent).await? {
            Progress { is_over: false, .. } => self.wire.writer.empty(b's'),
            Progress { rows, .. } => {
                self.wire.writer.complete(&rows_tag(&portal.prepared.sql, rows));
            }
        }
        Ok(())
    }

    /// Begins an implicit transaction for a statement within a pipeline (extended-3).
    fn begin_pipelined(&mut self, sql: &str) {
        let is_last = self.wire.input.first() == Some(&SYNC);
        let is_open = self.status != Status::Idle || self.is_implicit;
        if !is_open && !is_last && changes_rows(sql) {
            self.begin_implicit();
        }
    }

    /// Takes rows of a portal that has been started.
    pub(super) async fn portal_rows(
        &mut self,
        portal: &mut Portal,
        max: u64,
        taken: Taken,
    ) -> Result<Progress, Stopped> {
        let order = portal.order();
        let State::Rows(rows) = &mut portal.state else {
            return Ok(Progress { rows: 0, is_over: true });
        };
        let formats = column_formats(&portal.formats, rows.schema.fields().len())?;
        let progress = self.take_rows(&order, rows, &formats, max, taken).await?;
        if progress.is_over {
            portal.state = State::Over;
        }
        Ok(progress)
    }

    /// Checks that the columns are those of the description (extended-2).
    fn check_columns(&self, prepared: &Prepared, actual: &SchemaRef) -> Result<(), ErrorResponse> {
        let Some(Description { columns: Some(expected), .. }) = prepared.described.get() else {
            return Ok(());
        };
        match types::are_same(&types::columns(expected), &types::columns(actual)) {
            true => Ok(()),
            false => Err(ErrorResponse::stale_plan()),
        }
    }

    pub(super) fn close(&mut self, object: &Object) -> Result<(), Stopped> {
        match object {
            Object::Statement(name) => drop(self.prepared.remove(text(name)?)),
            Object::Portal(name) => drop(self.portals.remove(text(name)?)),
        }
        self.wire.writer.empty(b'3');
        Ok(())
    }
}

/// Checks that the types of all parameters are declared, or follow from the statement.
fn check_typed(described: &Described, declared: &[u32]) -> Result<(), ErrorResponse> {
    let is_declared = |at: &usize| declared.get(*at).is_some_and(|&oid| oid != 0);
    match described.untyped.iter().find(|at| !is_declared(at)) {
        None => Ok(()),
        Some(at) => {
            let message = format!("could not determine data type of parameter ${}", at + 1);
            Err(ErrorResponse::new("42P18", message))
        }
    }
}

/// Returns the type of a parameter: the declared one, the inferred one, or else text.
fn type_of(described: &Described, declared: &[u32], at: usize) -> u32 {
    let found = described.parameters.get(at).and_then(Option::as_ref);
    match declared.get(at) {
        Some(&oid) if oid != 0 => oid,
        _ => match found.map(|field| types::type_of(field).0) {
            Some(ty) if ty != types::UNKNOWN => ty.oid,
            _ => types::TEXT.oid,
        },
    }
}

/// Returns the command tag of a statement with rows.
pub(super) fn rows_tag(sql: &str, rows: u64) -> String {
    match first_token(sql) {
        Some(first) if first.is_word("SHOW") => "SHOW".to_owned(),
        Some(first) if first.is_word("EXPLAIN") => "EXPLAIN".to_owned(),
        Some(first) if first.is_word("INSERT") => format!("INSERT 0 {rows}"),
        Some(first) if first.is_word("UPDATE") => format!("UPDATE {rows}"),
        Some(first) if first.is_word("DELETE") => format!("DELETE {rows}"),
        _ => format!("SELECT {rows}"),
    }
}

pub(super) fn text(bytes: &Bytes) -> Result<&str, ErrorResponse> {
    std::str::from_utf8(bytes).map_err(|_| ErrorResponse::not_text())
}

/// Returns the name of an object that is to be kept.
fn new_name(bytes: &Bytes) -> Result<&str, ErrorResponse> {
    let name = text(bytes)?;
    check_name(name).map(|()| name)
}

pub(super) fn no_portal(name: &str) -> ErrorResponse {
    ErrorResponse::new("34000", format!("portal \"{name}\" does not exist"))
}

pub(super) fn no_cursor(name: &str) -> ErrorResponse {
    ErrorResponse::new("34000", format!("cursor \"{name}\" does not exist"))
}

fn format(code: u16) -> Result<Format, ErrorResponse> {
    match code {
        0 => Ok(Format::Text),
        1 => Ok(Format::Binary),
        _ => Err(ErrorResponse::new("08P01", format!("{code} is not a format of values"))),
    }
}

/// Returns the format of each value: none are given, one for all, or each.
fn formats(codes: &[u16], count: usize) -> Result<Vec<Format>, ErrorResponse> {
    match codes {
        [] => Ok(vec![Format::Text; count]),
        [one] => Ok(vec![format(*one)?; count]),
        all if all.len() == count => all.iter().map(|&code| format(code)).collect(),
        _ => {
            let format_count = codes.len();
            let message = format!("bind message has {format_count} formats for {count} parameters");
            Err(ErrorResponse::new("08P01", message))
        }
    }
}

fn result_formats(codes: &[u16]) -> Result<Vec<Format>, ErrorResponse> {
    codes.iter().map(|&code| format(code)).collect()
}

/// Returns the format of each column: one is for all, and none is text.
pub(super) fn column_formats(
    formats: &[Format],
    columns: usize,
) -> Result<Vec<Format>, ErrorResponse> {
    match formats {
        [] => Ok(vec![Format::Text; columns]),
        [one] => Ok(vec![*one; columns]),
        all if all.len() == columns => Ok(all.to_vec()),
        all => {
            let message = format!(
                "bind message has {} result formats but query has {columns} columns",
                all.len()
            );
            Err(ErrorResponse::new("08P01", message))
        }
    }
}

/// Checks that a portal is a statement of the engine (session-3).
pub(super) fn check_fetchable(command: &Command) -> Result<(), ErrorResponse> {
    match command {
        Command::Statement => Ok(()),
        _ => Err(ErrorResponse::not_supported("FETCH from a portal that is no query")),
    }
}
