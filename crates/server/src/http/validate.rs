//! `/api/v1/sql/validate`: describes the result of a statement without executing it.
//!
//! - Nothing is changed, and no row is read, so that a login is enough privilege.

use std::sync::Arc;

use tidegate_query::{Described, StatementOptions, TokenKind, next_token};

use super::exec::{
    DONE, Piece, Refusal, Running, Stopped, columns_of, deliver, read_params, services_for, session,
};
use super::params::Params;
use super::response::{JSON, Response};
use super::route::{ParameterSpec, ParameterType};
use super::{Flow, RequestContext};
use crate::admission::Claimant;
use crate::json::push_string;
use crate::server_state::{CountedQuery, Services};

/// The parameters of `/api/v1/sql/validate`.
pub(super) const PARAMETERS: &[ParameterSpec] =
    &[ParameterSpec::query("query", ParameterType::Text, "One statement.")];

/// Answers a request to `/api/v1/sql/validate`.
pub(super) async fn validate(context: &mut RequestContext<'_>) -> Flow {
    let counted = CountedQuery::begin(context.server, "http");
    let (flow, code) = match prepare(context).await {
        Ok((sql, services)) => run(context, sql, &services).await,
        Err(stopped) => stopped.answer(context).await,
    };
    counted.end(code);
    flow
}

async fn prepare(context: &mut RequestContext<'_>) -> Result<(String, Arc<Services>), Stopped> {
    let sql = statement(&read_params(context, PARAMETERS).await?);
    if sql.trim().is_empty() {
        return Err(Refusal::new("42601", "empty query").of(&sql).into());
    }
    let services = services_for(context, &sql)?;
    Ok((sql, services))
}

fn statement(params: &Params) -> String {
    params.find("query").unwrap_or_default().to_owned()
}

async fn run(
    context: &mut RequestContext<'_>,
    sql: String,
    services: &Arc<Services>,
) -> (Flow, &'static str) {
    let (id, text, timeout) = (context.request_id.clone(), sql.clone(), services.timeout);
    let (session, work) = (session(context), Arc::clone(services));
    let running = Running::on(&services.query_threads, |sender| async move {
        let piece = match described(&sql, session, &work).await {
            Ok(body) => Piece::Whole(Response::new(200, JSON, body), DONE),
            Err(refusal) => Piece::Whole(refusal.response(&id), refusal.code),
        };
        // If the client has gone, there is no receiver.
        let _ = sender.send(piece).await;
    });
    deliver(context, running, Response::new(200, JSON, ""), timeout, &text).await
}

async fn described(
    sql: &str,
    session: tidegate_query::Session,
    services: &Services,
) -> Result<String, Refusal> {
    let permit = services.admission.begin(&Claimant::of(&session)).await;
    let _permit =
        permit.map_err(|timed_out| Refusal::new("53400", timed_out.to_string()).of(sql))?;
    let options = StatementOptions { timeout: None, session, cancel_handle: None };
    let described = services.engine.describe(sql, &[], &options).await;
    let described = described.map_err(|error| Refusal::of_error(&error, sql))?;
    let Described { columns: Some(schema), designated, .. } = described else {
        return Ok(format!("{{\"queryType\":\"{}\"}}", first_word(sql)));
    };
    let mut text = String::from("{\"query\":");
    push_string(sql, &mut text);
    text.push_str(",\"columns\":");
    columns_of(&schema, &mut text);
    let designated = designated.map_or("-1".to_owned(), |it| it.to_string());
    text.push_str(&format!(",\"timestamp\":{designated}}}"));
    Ok(text)
}

/// Returns the first word of a statement.
fn first_word(sql: &str) -> String {
    let mut at = 0;
    while let Ok(Some(token)) = next_token(sql, at) {
        if token.kind == TokenKind::Word {
            return token.text.to_ascii_uppercase();
        }
        at = token.end();
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::super::params::tests::check_read;
    use super::*;

    #[test]
    fn all_parameters_are_read() {
        check_read(PARAMETERS, &[""], |params| drop(statement(params)));
    }
}
