//! PostgreSQL's protocol: logins, messages, transactions, COPY, values, and broken clients.

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
