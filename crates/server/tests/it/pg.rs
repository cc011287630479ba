//! PostgreSQL's protocol: logins, messages, transactions, COPY, values, and broken clients.

#![expect(clippy::too_many_lines, reason = "a conversation is one text")]

mod client;
mod conversation;
mod startup;
mod simple;
mod extended;
mod transactions;
mod values;
mod parameters;
mod copy;
mod breaches;
mod clients;
mod wire;
mod hostile;
