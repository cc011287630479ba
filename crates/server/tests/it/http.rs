//! HTTP: routes, requests, logins, and the bodies of answers.

pub(crate) mod client;
mod requests;
mod exec;
mod routes;
mod refusals;
mod access;
mod lines;
mod files;
mod formats;
