//! Commands that documents show are those of the program: whole ones are read as the program reads them, and of
//! mentions within a line the sub-command and the flags. `docs/cli.md` is written from the program.

use std::{env, fmt::Write as _, fs};

use callboard::cli::Cli;
use clap::{Arg, ArgAction, Command, CommandFactory as _, error::ErrorKind};

use super::{blocks, documents, root};

#[test]
fn shown_commands_are_those_of_the_program() {
    let (mut faults, mut seen) = (String::new(), 0);
    for (name, text) in documents() {
        // What was true of a version stays in the list of its changes.
        if name == "CHANGELOG.md" {
            continue;
        }
        let (found, prose) = blocks(&text);
        for block in found.iter().filter(|block| ["", "sh", "console", "bash"].contains(&&*block.kind)) {
            for words in block.text.replace("\\\n", " ").lines().flat_map(commands) {
                seen += 1;
                if let Err(error) = Cli::command().try_get_matches_from(&words)
                    && !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
                {
                    let _ = writeln!(faults, "{name}:{}: {}: {error}", block.line, words.join(" "));
                }
            }
        }
        for span in prose.split('`').skip(1).step_by(2).filter_map(|span| span.strip_prefix("callboard ")) {
            seen += 1;
            if let Err(error) = mention(span) {
                let _ = writeln!(faults, "{name}: `callboard {span}`: {error}");
            }
        }
    }
    assert!(seen > 45, "documents show commands: {seen}");
    assert_eq!(faults, "");
}

/// What is named so takes the place of the option of all commands, without a word.
#[test]
fn no_argument_of_a_command_has_the_name_of_an_option_of_all() {
    let mut faults = String::new();
    let mut commands = vec![(Cli::command(), String::new(), Vec::new())];
    while let Some((command, path, globals)) = commands.pop() {
        let path = format!("{path} {}", command.get_name());
        let own: Vec<String> =
            command.get_arguments().filter(|arg| arg.is_global_set()).map(|arg| arg.get_id().to_string()).collect();
        for arg in command.get_arguments().filter(|arg| !arg.is_global_set()) {
            if globals.contains(&arg.get_id().to_string()) {
                let _ = writeln!(faults, "{path}: {}", arg.get_id());
            }
        }
        let all: Vec<String> = globals.into_iter().chain(own).collect();
        commands.extend(command.get_subcommands().map(|below| (below.clone(), path.clone(), all.clone())));
    }
    assert_eq!(faults, "");
}

/// The commands of the program in a line of a shell, as words.
fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut found, mut words, mut word, mut quote) = (Vec::new(), Vec::new(), None::<String>, None);
    let mut end = |words: &mut Vec<String>| found.push(std::mem::take(words));
    for letter in line.chars().chain([';']) {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '"' | '\'') => {
                word.get_or_insert_default();
                quote = Some(letter);
            }
            (None, ' ' | '\t') => words.extend(word.take()),
            (None, '#') if word.is_none() => break,
            (None, ';' | '|' | '&' | '>' | '<' | '(' | ')' | '`') => {
                words.extend(word.take());
                end(&mut words);
            }
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    end(&mut words);
    found.into_iter().filter_map(own).collect()
}

/// What of a command is for the program, if it is the program that it runs.
fn own(mut words: Vec<String>) -> Option<Vec<String>> {
    let before = words.iter().take_while(|word| {
        ["$", "sudo", "nohup", "exec", "then", "do"].contains(&word.as_str())
            || (word.contains('=') && !word.contains('-'))
    });
    words.drain(..before.count());
    let name = words.first()?.rsplit('/').next()?.to_owned();
    match name.as_str() {
        "callboard" => {}
        "cargo" if words.get(1).is_some_and(|word| word == "run") => {
            let end = words.iter().position(|word| word == "--")?;
            words.drain(..end);
        }
        _ => return None,
    }
    words[0] = "callboard".to_owned();
    // A redirection such as `2>&1` leaves its number behind.
    if words.last().is_some_and(|word| word == "1" || word == "2") {
        words.pop();
    }
    Some(words)
}

/// A command in running text may leave things out, and write `[--flag]`.
fn mention(span: &str) -> Result<(), String> {
    let mut command = Cli::command();
    command.build();
    let clean: String = span.chars().map(|c| if "[]|,()…".contains(c) { ' ' } else { c }).collect();
    for word in clean.split_whitespace() {
        if let Some(flag) = word.strip_prefix("--") {
            let flag = flag.split('=').next().unwrap_or(flag);
            let known = command.get_arguments().any(|arg| {
                arg.get_long() == Some(flag) || arg.get_all_aliases().is_some_and(|all| all.contains(&flag))
            });
            if !known && !["help", "version"].contains(&flag) {
                return Err(format!("{} has no --{flag}", command.get_name()));
            }
        } else if let Some(next) = command.find_subcommand(word) {
            command = next.clone();
        } else if command.get_name() == "callboard" && !["ready", "alone"].contains(&word) {
            return Err(format!("there is no command {word}"));
        } else if command.get_name() == "callboard" {
            return Ok(());
        }
    }
    Ok(())
}

#[test]
fn the_page_of_commands_is_that_of_the_program() {
    let mut page =
        "# Commands\n\nThis page is written from the program, by a test; `--help` of each command says the same.\n"
            .to_owned();
    let mut command = Cli::command();
    command.build();
    describe(&command, "callboard", &mut page);
    let path = root().join("docs/cli.md");
    if env::var_os("WRITE_DOCS").is_some() {
        fs::write(&path, &page).expect("the page can be written");
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == page,
        "docs/cli.md is not what the program says: WRITE_DOCS=1 cargo test --test rules page_of_commands"
    );
}

fn describe(command: &Command, path: &str, page: &mut String) {
    let hidden = |arg: &&Arg| arg.is_hide_set() || matches!(arg.get_action(), ArgAction::Help | ArgAction::Version);
    let _ = writeln!(page, "\n## `{path}`\n");
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(page, "{}", plain(&about));
    let mut args: Vec<&Arg> = command.get_arguments().filter(|arg| !hidden(arg)).collect();
    if path == "callboard" {
        page.push_str("\nWithout a command it is `serve`, with its options.\n");
        args.clear();
    }
    if !args.is_empty() {
        page.push_str("\n| option | variable | default | meaning |\n| --- | --- | --- | --- |\n");
        for arg in args {
            let values = arg.get_value_names().unwrap_or_default().join(" ");
            let takes = arg.get_action().takes_values() && !values.is_empty();
            let short = arg.get_short().map_or(String::new(), |short| format!("-{short}, "));
            let name = match arg.get_long() {
                // `--color never` would be refused.
                Some(long) if takes && arg.is_require_equals_set() => format!("{short}--{long}[={values}]"),
                Some(long) if takes => format!("{short}--{long} {values}"),
                Some(long) => format!("{short}--{long}"),
                None => values,
            };
            let variable = arg.get_env().map_or(String::new(), |env| format!("`{}`", env.to_string_lossy()));
            let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
            let default =
                if takes && !defaults.is_empty() { format!("`{}`", defaults.join(" ")) } else { String::new() };
            let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
            let possible: Vec<_> =
                arg.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
            let possible =
                if takes && !possible.is_empty() { format!(" ({})", possible.join(", ")) } else { String::new() };
            let _ = writeln!(
                page,
                "| `{}` | {variable} | {default} | {}{possible} |",
                name.replace('|', "\\|"),
                plain(&help)
            );
        }
    }
    // Keys and exit statuses; the examples between them are those of the other pages.
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    for told in after.split("\n\n").filter(|told| told.starts_with("Keys: ") || told.contains("Exit status: ")) {
        let _ = writeln!(page, "\n{}", plain(told));
    }
    let subcommands: Vec<&Command> =
        command.get_subcommands().filter(|command| command.get_name() != "help" && !command.is_hide_set()).collect();
    if !subcommands.is_empty() && path == "callboard" {
        page.push_str("\nThe commands, each in a section below: ");
        let names: Vec<_> =
            subcommands.iter().map(|command| format!("[{0}](#callboard-{0})", command.get_name())).collect();
        let _ = writeln!(page, "{}.", names.join(", "));
    }
    for command in subcommands {
        describe(command, &format!("{path} {}", command.get_name()), page);
    }
}

/// A text on one line, which no table or tag takes for its own.
pub(super) fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "\\<")
}

#[test]
fn commands_of_a_line_are_found() {
    let own = |line: &str| commands(line).into_iter().map(|words| words[1..].join(" ")).collect::<Vec<_>>();
    assert_eq!(
        own("$ sudo callboard serve --http 127.0.0.1:9080 > log 2>&1 &  # comment"),
        ["serve --http 127.0.0.1:9080"]
    );
    assert_eq!(own("A=b cargo run --release -- demo; ./x/callboard events 'a b' | head"), ["demo", "events a b"]);
    assert_eq!(own("systemctl reload callboard"), Vec::<String>::new());
    assert!(mention("events [--follow]").is_ok() && mention("events --folow").is_err() && mention("evnts").is_err());
}
