//! The doors over real sockets: the program itself, or a server in process, on free ports of the loopback.

#[path = "../common/mod.rs"]
mod common;

mod access;
mod cluster;
mod damage;
mod demo;
mod descriptors;
mod disk;
mod events_http;
mod events_kill;
mod events_log;
mod events_streams;
mod guide;
mod hostile;
mod in_process;
mod journal_door;
mod journal_flux;
mod ldap;
mod long;
mod observed;
mod openapi;
mod packages;
mod page;
mod replay;
mod rest;
mod shim;
mod traces;
mod wired;
