//! `tidegate serve`, as its clients see it: bytes over sockets, and signals.
//!
//! The server chooses free ports and reports them; it is ended by its own pid.

mod server;
mod query;
mod write;
mod tcp;
mod life;
mod access;
mod tls;
mod remote;
mod crash;
mod disk;
mod activity;
mod clients;
mod files;
mod postgres;
mod functions;
mod docs;
mod console;
