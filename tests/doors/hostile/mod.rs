//! What one request, one resource manager or one page sends must not harm the others.

mod depth;
mod log;
mod memory;
mod names;
mod origins;
mod pipelined;
mod pipes;
mod tenants;
mod underway;
