//! Several servers on a real etcd. Without Debian's package `etcd-server` these tests say that they are skipped, and fail where
//! `CI` is `true`.

mod clients;
mod drain;
mod faults;
mod journal;
mod members;
mod proxy;
mod restart;
pub mod rig;
mod standby;
mod two;
