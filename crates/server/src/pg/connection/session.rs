//! Statements that the connection executes itself: transactions, prepared statements and cursors;
//! and the execution of one statement of the simple protocol.
//!
//! - session-1. Within a transaction, changes wait for COMMIT, which makes all of them durable and
//!   visible at once, or none. The transaction itself sees them before.
//! - session-2. After an error in a transaction, no statement is executed until it ends, or is
//!   rolled back to a savepoint.
//! - session-3. EXECUTE and FETCH reach statements of the engine only, so neither running nor
//!   describing them recurses.

use std::sync::Arc;

use tidegate_query::{Access, Parameter, Session, parameter_count};

use super::execute::{Order, Progress, Started, Taken, described};
use super::extended::{
    Hold, Portal, Prepared, check_fetchable, column_formats, no_cursor, rows_tag,
};
use super::{Connection, LARGE_BYTES, Stopped};
use crate::budget::Reservation;
use crate::pg::command::{Command, command};
use crate::pg::encode::Format;
use crate::pg::error_response::ErrorResponse;
use crate::pg::message_writer::Status;
use crate::pg::portal::State;
use crate::pg::types;
use crate::pg::value::{Counted, bytes_of, constant};

/// The values of EXECUTE, and the count of their bytes.
pub(super) struct Constants {
    pub(super) values: Vec<Parameter>,
    reservation: Reservation,
}

impl Connection {
    /// Executes one statement of the simple protocol.
    pub(super) async fn statement(&mut self, sql: Arc<str>, before: usize) -> Result<(), Stopped> {
        let text = Arc::clone(&sql);
        let command = self.read(sql.len(), move || command(&text)).await?;
        let command = command.map_err(|mut error| {
            error.position = error.position.map(|position| position + before);
            error
        })?;
        self.check_state(&command)?;
        if command != Command::Statement {
            return self.command(&command, &[], None).await;
        }
        let is_large = LARGE_BYTES < sql.len();
        let parameters: Arc<[Parameter]> = Arc::new([]);
        let order = Order { sql, parameters, before, is_large, is_cursor: false };
        self.order(&order).await
    }

    /// Executes a statement of the engine, and sends its whole result.
    async fn order(&mut self, order: &Order) -> Result<(), Stopped> {
        match self.start(order).await? {
            Started::Done(tag) => self.changed(&tag),
            Started::Rows(mut rows) => {
                let (columns, formats) = described(&rows.schema, &[]);
                self.wire.writer.row_description(&columns, &formats);
                let taking = self.take_rows(order, &mut rows, &[], u64::MAX, Taken::Sent);
                let Progress { rows, .. } = taking.await?;
                self.wire.writer.complete(&rows_tag(&order.sql, rows));
                Ok(())
            }
        }
    }

    /// Reports that a statement without rows was executed.
    pub(super) fn changed(&mut self, tag: &str) -> Result<(), Stopped> {
        if tag == "SET" {
            self.tell_settings();
        }
        self.wire.writer.complete(tag);
        Ok(())
    }

    /// Checks that a failed transaction allows this statement (session-2).
    pub(super) fn check_state(&self, command: &Command) -> Result<(), ErrorResponse> {
        let ends = matches!(
            command,
            Command::Commit | Command::Rollback | Command::RollBackTo(_) | Command::Empty
        );
        if self.status == Status::Failed && !ends {
            let message = "current transaction is aborted, commands ignored until end of \
                           transaction block";
            return Err(ErrorResponse::new("25P02", message));
        }
        Ok(())
    }

    /// Executes a statement about the connection. `formats` is given in the extended protocol, in
    /// which rows are described spawned.
    pub(super) async fn command(
        &mut self,
        command: &Command,
        values: &[Parameter],
        formats: Option<&[Format]>,
    ) -> Result<(), Stopped> {
        match command {
            Command::Statement => unreachable!("the engine does it"),
            Command::Empty => self.wire.writer.empty(b'I'),
            Command::Begin(access) => self.begin(*access),
            Command::Commit => self.commit().await?,
            Command::Rollback => self.roll_back(),
            Command::Savepoint(name) => self.set_savepoint(name)?,
            Command::Release(name) => self.release_savepoint(name)?,
            Command::RollBackTo(name) => self.roll_back_to(name)?,
            Command::SetTransaction(access) => {
                if let Some(access) = *access {
                    self.session.set_access(access);
                }
                self.wire.writer.complete("SET");
            }
            Command::Prepare { name, types, sql } => self.prepare(name, types, sql).await?,
            Command::Execute { name, values } => {
                let prepared = self.find_executable(name)?;
                let constants = self.constants(name, &prepared, values).await?;
                self.execute_prepared(&prepared, constants, formats).await?;
            }
            Command::Deallocate(name) => self.deallocate(name.as_deref())?,
            Command::DiscardAll => self.discard()?,
            Command::DiscardSequences => {
                self.session.forget_numbers();
                self.wire.writer.complete("DISCARD SEQUENCES");
            }
            Command::DiscardTemp => self.discard_temporary(),
            Command::Declare { name, sql, is_binary, holds } => {
                let hold = if *holds { Hold::Wanted } else { Hold::No };
                self.declare(name, sql, values, *is_binary, hold).await?;
            }
            Command::Fetch { name, count, moves } => {
                let max = count.map_or(u64::MAX, u64::from);
                let taken = if *moves { Taken::Skipped } else { Taken::Sent };
                self.fetch(name, max, taken, formats).await?;
            }
            Command::CloseCursor(None) => {
                self.portals.clear();
                self.wire.writer.complete("CLOSE CURSOR ALL");
            }
            Command::CloseCursor(Some(name)) => {
                self.portals.remove(name).ok_or_else(|| no_cursor(name))?;
                self.wire.writer.complete("CLOSE CURSOR");
            }
            Command::Copy(sql) => Box::pin(self.copy(sql)).await?,
            Command::Nothing(tag) => self.wire.writer.complete(tag),
        }
        Ok(())
    }

    fn begin(&mut self, access: Option<Access>) {
        if self.status == Status::InTransaction {
            let warning = ErrorResponse::warning("there is already a transaction in progress");
            self.wire.writer.error_response(&ErrorResponse { code: "25001", ..warning });
        }
        self.session.begin(access.unwrap_or(Access::ReadWrite));
        if let Some(access) = access {
            self.session.set_access(access);
        }
        (self.status, self.is_implicit) = (Status::InTransaction, false);
        self.wire.writer.complete("BEGIN");
    }

    fn within_transaction(&self, what: &str) -> Result<(), ErrorResponse> {
        match self.status {
            Status::Idle => {
                let message = format!("{what} can only be used in transaction blocks");
                Err(ErrorResponse::new("25P01", message))
            }
            Status::InTransaction | Status::Failed => Ok(()),
        }
    }

    fn set_savepoint(&mut self, name: &str) -> Result<(), ErrorResponse> {
        self.within_transaction("SAVEPOINT")?;
        if !self.session.set_savepoint(name) {
            return Err(ErrorResponse::new("54000", "there are too many savepoints"));
        }
        self.wire.writer.complete("SAVEPOINT");
        Ok(())
    }

    fn release_savepoint(&mut self, name: &str) -> Result<(), ErrorResponse> {
        self.within_transaction("RELEASE SAVEPOINT")?;
        if !self.session.release_savepoint(name) {
            return Err(no_savepoint(name));
        }
        let count = self.session.savepoint_count();
        for portal in self.portals.values_mut() {
            portal.savepoint_count = portal.savepoint_count.min(count);
        }
        self.wire.writer.complete("RELEASE");
        Ok(())
    }

    /// Undoes what was done since a savepoint. The portals made since then end, as their rows may
    /// be undone; the savepoint stays.
    fn roll_back_to(&mut self, name: &str) -> Result<(), ErrorResponse> {
        self.within_transaction("ROLLBACK TO SAVEPOINT")?;
        if !self.session.roll_back_to(name) {
            return Err(no_savepoint(name));
        }
        let count = self.session.savepoint_count();
        self.portals.retain(|_, portal| portal.savepoint_count < count);
        self.status = Status::InTransaction;
        self.wire.writer.complete("ROLLBACK");
        Ok(())
    }

    /// Begins a transaction for statements that were sent together.
    pub(super) fn begin_implicit(&mut self) {
        self.session.begin(Access::ReadWrite);
        self.is_implicit = true;
    }

    pub(super) async fn end_implicit(&mut self) -> Result<(), Stopped> {
        if self.is_implicit {
            let held = self.hold_cursors();
            self.is_implicit = false;
            self.commit_held(&held).await?;
        }
        Ok(())
    }

    async fn commit(&mut self) -> Result<(), Stopped> {
        let held = match self.status {
            Status::InTransaction => self.hold_cursors(),
            Status::Idle | Status::Failed => Vec::new(),
        };
        self.is_implicit = false;
        let was = self.end_transaction();
        match was {
            Status::Idle => self.warn_no_transaction(),
            Status::InTransaction => {}
            Status::Failed => {
                self.session.roll_back();
                self.wire.writer.complete("ROLLBACK");
                return Ok(());
            }
        }
        self.commit_held(&held).await?;
        self.wire.writer.complete("COMMIT");
        Ok(())
    }

    /// Commits, with cursors that outlive the transaction (session-1). If it fails, these cursors
    /// end.
    async fn commit_held(&mut self, cursors: &[String]) -> Result<(), Stopped> {
        let done = self.commit_changes().await;
        if done.is_err() {
            self.portals.retain(|name, _| !cursors.contains(name));
        }
        done
    }

    async fn commit_changes(&mut self) -> Result<(), Stopped> {
        let (services, session) = (Arc::clone(&self.services), self.session.clone());
        let work = self.services.query_threads.spawn(async move {
            let done = services.engine.commit(&session).await;
            done.map_err(|error| ErrorResponse::of_query(&error, "", 0))
        });
        // If the client goes now, it does not learn the result; the commit is completed.
        match work.await {
            Ok(done) => Ok(done?),
            Err(_) => {
                Err(ErrorResponse::new("XX000", "internal error: COMMIT has panicked").into())
            }
        }
    }

    fn roll_back(&mut self) {
        self.is_implicit = false;
        if self.end_transaction() == Status::Idle {
            self.warn_no_transaction();
        }
        self.session.roll_back();
        self.wire.writer.complete("ROLLBACK");
    }

    /// Ends the transaction, and returns its status.
    fn end_transaction(&mut self) -> Status {
        self.end_portals();
        std::mem::replace(&mut self.status, Status::Idle)
    }

    fn warn_no_transaction(&mut self) {
        let warning = ErrorResponse::warning("there is no transaction in progress");
        self.wire.writer.error_response(&ErrorResponse { code: "25P01", ..warning });
    }

    async fn prepare(&mut self, name: &str, types: &[String], sql: &str) -> Result<(), Stopped> {
        if self.prepared.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(ErrorResponse::new("42P05", message).into());
        }
        let oid = |name: &String| {
            types::named(name).map(|ty| ty.oid).ok_or_else(|| {
                ErrorResponse::new("42704", format!("type \"{name}\" does not exist"))
            })
        };
        let types = types.iter().map(oid).collect::<Result<Vec<_>, _>>()?;
        let prepared = self.prepared(Arc::from(sql), types).await?;
        self.keep(name, prepared)?;
        self.wire.writer.complete("PREPARE");
        Ok(())
    }

    /// Returns the constants of EXECUTE as values of the types that PREPARE has declared.
    pub(super) async fn constants(
        &mut self,
        name: &str,
        prepared: &Prepared,
        constants: &[Parameter],
    ) -> Result<Constants, Stopped> {
        let mut counted = Counted::new(self.account.reserve(0).map_err(ErrorResponse::from)?);
        let (sql, types) = (Arc::clone(&prepared.sql), prepared.types.clone());
        let (name, constants) = (name.to_owned(), constants.to_vec());
        let bytes = sql.len() + bytes_of(&constants);
        let read = move || {
            // Only PREPARE reads statements that cannot be split into tokens: it refuses them.
            let needed = parameter_count(&sql).unwrap_or(0).max(types.len());
            let given = constants.len();
            if given != needed {
                let message = format!(
                    "wrong number of parameters for prepared statement \"{name}\": expected \
                     {needed}, got {given}"
                );
                return Err(ErrorResponse::new("42601", message));
            }
            let oids = types.into_iter().chain(std::iter::repeat(0));
            let values = constants
                .iter()
                .zip(oids)
                .enumerate()
                .map(|(at, (value, oid))| constant(value, at + 1, oid, &mut counted));
            let values = values.collect::<Result<Vec<_>, _>>()?;
            Ok(Constants { values, reservation: counted.into_reservation()? })
        };
        Ok(self.read(bytes, read).await??)
    }

    /// Executes a prepared statement with these values.
    async fn execute_prepared(
        &mut self,
        prepared: &Arc<Prepared>,
        constants: Constants,
        formats: Option<&[Format]>,
    ) -> Result<(), Stopped> {
        assert!(prepared.command == Command::Statement, "session-3");
        let Constants { values, reservation } = constants;
        let formats_kept = formats.unwrap_or_default().to_vec();
        let mut portal = Portal::new(prepared, values, reservation, formats_kept);
        if formats.is_none() {
            return self.order(&portal.order()).await;
        }
        match self.start(&portal.order()).await? {
            Started::Done(tag) => self.changed(&tag),
            Started::Rows(rows) => {
                portal.state = State::Rows(rows);
                let Progress { rows, .. } =
                    self.portal_rows(&mut portal, u64::MAX, Taken::Sent).await?;
                self.wire.writer.complete(&format!("SELECT {rows}"));
                Ok(())
            }
        }
    }

    fn deallocate(&mut self, name: Option<&str>) -> Result<(), ErrorResponse> {
        match name {
            None => {
                self.prepared.clear();
                self.wire.writer.complete("DEALLOCATE ALL");
            }
            Some(name) => {
                self.find_prepared(name)?;
                self.prepared.remove(name);
                self.wire.writer.complete("DEALLOCATE");
            }
        }
        Ok(())
    }

    fn discard_temporary(&mut self) {
        self.session.drop_temporary_tables();
        self.wire.writer.complete("DISCARD TEMP");
    }

    /// Resets the connection, as a pool does before it passes it to another user.
    fn discard(&mut self) -> Result<(), ErrorResponse> {
        if self.status != Status::Idle || self.is_implicit {
            let message = "DISCARD ALL cannot run inside a transaction block";
            return Err(ErrorResponse::new("25001", message));
        }
        self.prepared.clear();
        self.portals.clear();
        Session::reset(&self.session);
        self.session.drop_temporary_tables();
        self.tell_settings();
        self.wire.writer.complete("DISCARD ALL");
        Ok(())
    }

    /// Opens a cursor: its rows are those of this moment (portal-6).
    async fn declare(
        &mut self,
        name: &str,
        sql: &str,
        values: &[Parameter],
        is_binary: bool,
        hold: Hold,
    ) -> Result<(), Stopped> {
        if !self.is_implicit && hold == Hold::No {
            self.within_transaction("DECLARE CURSOR")?;
        }
        if self.portals.contains_key(name) {
            return Err(
                ErrorResponse::new("42P03", format!("cursor \"{name}\" already exists")).into()
            );
        }
        let prepared = Arc::new(self.prepared(Arc::from(sql), Vec::new()).await?);
        assert!(prepared.command == Command::Statement, "command-2");
        let formats = if is_binary { vec![Format::Binary] } else { Vec::new() };
        let reservation = self.account.reserve(bytes_of(values)).map_err(ErrorResponse::from)?;
        let mut portal = Portal::new(&prepared, values.to_vec(), reservation, formats);
        portal.hold = hold;
        self.begin_cursor(&mut portal).await?;
        self.keep_columns(&mut portal).await?;
        self.keep_portal(name, portal)?;
        if !self.is_implicit && self.status == Status::Idle {
            self.hold_cursors();
        }
        self.wire.writer.complete("DECLARE CURSOR");
        Ok(())
    }

    /// Keeps the cursors that outlive the transaction which is about to commit. Returns their
    /// names.
    fn hold_cursors(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        for (name, portal) in &mut self.portals {
            if portal.hold == Hold::Wanted {
                (portal.hold, portal.savepoint_count) = (Hold::Committed, 0);
                names.push(name.clone());
            }
        }
        names
    }

    async fn begin_cursor(&mut self, portal: &mut Portal) -> Result<(), Stopped> {
        let State::Ready = portal.state else { return Ok(()) };
        let order = Order { is_cursor: true, ..portal.order() };
        match self.start(&order).await? {
            Started::Rows(mut rows) => {
                rows.wait();
                portal.state = State::Rows(rows);
                Ok(())
            }
            Started::Done(_) => Err(ErrorResponse::new("42601", "a cursor is for a query").into()),
        }
    }

    async fn fetch(
        &mut self,
        name: &str,
        max: u64,
        taken: Taken,
        formats: Option<&[Format]>,
    ) -> Result<(), Stopped> {
        let mut portal = self.portals.remove(name).ok_or_else(|| no_cursor(name))?;
        let done = self.fetch_from(&mut portal, max, taken, formats).await;
        if done.is_ok() {
            self.portals.insert(name.to_owned(), portal);
        }
        done
    }

    async fn fetch_from(
        &mut self,
        portal: &mut Portal,
        max: u64,
        taken: Taken,
        formats: Option<&[Format]>,
    ) -> Result<(), Stopped> {
        check_fetchable(&portal.prepared.command)?;
        self.begin_cursor(portal).await?;
        self.keep_columns(portal).await?;
        if let Some(formats) = formats.filter(|formats| !formats.is_empty()) {
            portal.formats = formats.to_vec();
        }
        if let (Some(kept), None, Taken::Sent) = (&portal.columns, formats, taken) {
            let expanded = column_formats(&portal.formats, kept.schema.fields().len())?;
            let (columns, formats) = described(&kept.schema, &expanded);
            self.wire.writer.row_description(&columns, &formats);
        }
        let Progress { rows, .. } = self.portal_rows(portal, max, taken).await?;
        let word = if taken == Taken::Sent { "FETCH" } else { "MOVE" };
        self.wire.writer.complete(&format!("{word} {rows}"));
        Ok(())
    }
}

fn no_savepoint(name: &str) -> ErrorResponse {
    ErrorResponse::new("3B001", format!("savepoint \"{name}\" does not exist"))
}
