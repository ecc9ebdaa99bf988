//! Several servers on a real etcd. Without Debian's package `etcd-server` these tests say that they are skipped, and fail where
//! `CI` is `true`.

mod backup;
mod begin;
mod carry;
mod clients;
mod config;
mod drain;
mod events;
mod faults;
mod hangs;
mod journal;
mod members;
mod proxy;
mod restart;
pub mod rig;
mod shims;
mod standby;
mod two;
mod unheard;
mod upgrade;
mod usage;
