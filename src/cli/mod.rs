//! The subcommands of the program.

pub mod validate;
