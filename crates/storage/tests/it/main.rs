//! Tests of `storage` from outside: on simulated disks that crash, fail and fill up.
#![cfg(test)]

mod fixture;
mod model;
mod opening;
mod ddl;
mod views;
mod import;
mod snapshots;
mod changes;
mod commits;
mod races;
mod verify;
mod appends;
mod syncs;
mod crash;
mod blast;
mod damaged_drop;
mod damaged_flush;
mod damaged_log;
mod damaged_table;
mod recovery;
mod faults;
mod simulate;
mod one_table;
mod transactions;
