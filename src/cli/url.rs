//! Addresses as options name them, without a user and a password: nothing sends these, and what is not kept is nowhere shown.

use std::convert::Infallible;

pub use super::client::secret::without_user;

/// Reads an option that is an address, or several with commas between.
pub fn option(text: &str) -> Result<String, Infallible> {
    Ok(without_user(text))
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command, CommandFactory as _};

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn users_and_passwords_are_taken_out() {
        for (given, shown) in [
            ("http://board:9080/x?y=a@b", "http://board:9080/x?y=a@b"),
            ("https://u:SECRET@board/a@b", "https://board/a@b"),
            ("http://a,u:SECRET@b:1,https://SECRET@[::1]:2", "http://a,b:1,https://[::1]:2"),
            ("http://u:SEC@RET@board", "http://board"),
            ("http://u:SEC/RET@board/", "http://board/"),
            ("[fe80::1]", "[fe80::1]"),
            ("", ""),
        ] {
            assert_eq!(without_user(given), shown);
        }
    }

    #[test]
    fn no_option_keeps_them() {
        fn addresses(command: &Command, found: &mut Vec<(String, Arg)>) {
            let named = |arg: &&Arg| {
                arg.get_value_names().unwrap_or_default().iter().any(|name| name.contains("URL") || name == "ORIGIN")
            };
            found.extend(command.get_arguments().filter(named).map(|arg| (command.get_name().to_owned(), arg.clone())));
            command.get_subcommands().for_each(|sub| addresses(sub, found));
        }

        let mut found = Vec::new();
        addresses(&Cli::command(), &mut found);
        assert!(found.len() > 20, "{found:?}");
        for (command, arg) in found {
            let alone = Arg::new("it").value_parser(arg.get_value_parser().clone());
            let matches = Command::new("x").arg(alone).get_matches_from(["x", "http://u:SECRET@board"]);
            let read = matches.get_one::<String>("it").map(String::as_str);
            assert_eq!(read, Some("http://board"), "{command} {}", arg.get_id());
        }
    }
}
