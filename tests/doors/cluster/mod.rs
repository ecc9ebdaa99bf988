//! Several servers on a real etcd. Without Debian's package `etcd-server` these tests say that they are skipped, and fail where
//! `CI` is `true`.

mod clients;
mod faults;
mod journal;
mod restart;
mod rig;
mod two;
