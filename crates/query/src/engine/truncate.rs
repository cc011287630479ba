//! TRUNCATE: deletes all rows of a table, and restarts its numbers if asked to.

use std::sync::Arc;

use super::{Begun, Engine};
use crate::answer::{Answer, Done};
use crate::dml::Changed;
use crate::error::Result;
use crate::parse::{Modification, Name, RowChange, Statement, Target};

impl Engine {
    /// Executes a TRUNCATE, in the session's own changes or for all sessions.
    pub(super) async fn truncate(
        &self,
        sql: &Arc<str>,
        table: Name,
        restarts_numbers: bool,
        begun: &Begun,
    ) -> Result<Answer> {
        let session = &begun.caller.session;
        let own_changes = session.own_changes();
        let own =
            own_changes.as_ref().and_then(|changes| changes.named(&table)).map(|table| table.id);
        let id = own.or_else(|| session.visible(self.database()).table_id(&table.text));
        let answer = match Engine::is_held(session, &table) {
            true => self.empty(sql, table, begun).await?,
            false => {
                let statement = Statement::TruncateTable { table, restarts_numbers };
                self.define(Arc::clone(sql), statement, begun).await?.answer()
            }
        };
        if let Some(id) = id.filter(|_| restarts_numbers) {
            self.system.numbers.forget(id);
        }
        Ok(answer)
    }

    /// Executes a TRUNCATE that only the session sees: deletes the rows that it sees now.
    async fn empty(&self, sql: &str, table: Name, begun: &Begun) -> Result<Answer> {
        let target = Target { table, alias: None };
        let all = Modification { target, with: 0..0, clauses: sql.len(), returning: None };
        let Changed { done, .. } = self.changes(begun).execute(sql, RowChange::Delete(all)).await?;
        Ok(Done { tag: "TRUNCATE TABLE", rows: None, ..done }.answer())
    }
}
