//! `callboard top`: applications, queues, users and nodes as they are now, again and again; and why what waits does.

mod draw;
mod model;

use std::{
    env,
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
    time::Duration,
};

use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use serde_json::Value;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::Instant,
};

use self::model::{Key, Model, Panel, View, Wish};
use super::{
    client::http::{named, segment},
    door::{Door, Error},
    lists::{rows, table::List},
    out, why,
};
use crate::{domain::words::plural, http::api::board::why::noun};

/// Between two looks of the terminal for keys.
const LOOK: Duration = Duration::from_millis(200);
/// Applications that are asked for.
const APPLICATIONS: usize = 1_000;

/// Options of `callboard top`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Keys: Tab or 1 to 4 another view; arrows, Page Up, Page Down, Home, End choose; Enter opens: why an application waits, the applications \
of a queue or user, what is on a node; Esc goes back; / filters; s sorts by the next column, r from the other end; q quits.

Without a terminal the view is printed once, as a table. Exit status: 0 done; 1 the server cannot be asked")]
pub struct TopArgs {
    /// What is shown first
    #[arg(long, value_enum, default_value = "apps")]
    view: View,
    /// Time between two looks, such as 2s
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = super::wait::time)]
    every: Duration,
    #[command(flatten)]
    door: Door,
}

/// Runs the command; its help tells the keys and the exit status.
///
/// # Errors
/// The server cannot be asked, or the terminal cannot be used.
pub async fn run(args: TopArgs) -> anyhow::Result<ExitCode> {
    // A dumb one cannot be drawn on.
    let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
    let terminal = !dumb && io::stdout().is_terminal() && io::stdin().is_terminal();
    if terminal {
        return Ok(live(args).await?);
    }
    once(&args).await?;
    Ok(ExitCode::SUCCESS)
}

fn failed(error: &io::Error) -> Error {
    Error { text: format!("the terminal cannot be used: {error}"), status: None }
}

/// The view as a table.
async fn once(args: &TopArgs) -> Result<(), Error> {
    let (headline, list) = look(&args.door, args.view, None).await?;
    let text = format!("{headline}\n{}{}", list.table(false, true), list.note);
    out::stdout().write_all(text.as_bytes()).map_err(|error| failed(&error))
}

/// What the server says of a view.
async fn look(door: &Door, view: View, within: Option<&(View, String)>) -> Result<(String, List), Error> {
    let partition = segment(&door.partition);
    let (overview, now) = door.value_and_now("/api/v1/overview").await?;
    let list = match view {
        View::Apps => {
            let of = match within {
                Some((View::Users, user)) => format!("&user={}", segment(user)),
                Some((_, queue)) => format!("&queue={}", segment(queue)),
                None => String::new(),
            };
            let path = format!("/api/v1/partition/{partition}/applications?limit={APPLICATIONS}{of}");
            rows::applications(&door.value_at(&path).await?, now)
        }
        View::Queues => {
            let path = format!("/ws/v1/partition/{}/queues", named(&door.partition));
            rows::queues(&door.value_at(&path).await?)
        }
        View::Users => {
            let path = format!("/ws/v1/partition/{}/usage/users", named(&door.partition));
            model::users(&door.value_at(&path).await?)
        }
        View::Nodes => rows::nodes(&door.value_at(&format!("/api/v1/partition/{partition}/nodes")).await?, now),
    };
    Ok((headline(&overview, &door.partition), list))
}

/// A line about a partition.
fn headline(overview: &Value, partition: &str) -> String {
    let rows = overview["partitions"].as_array();
    let row = rows.into_iter().flatten().find(|row| row["name"] == *partition);
    let Some(row) = row else { return format!("partition {partition} is not registered") };
    let count = |value: &Value| value.as_u64().unwrap_or_default();
    let apps: u64 = row["applications"].as_object().into_iter().flatten().map(|(_, n)| count(n)).sum();
    let percent = |kind: &str| {
        let (used, all) = (row["used"][kind].as_f64()?, row["capacity"][kind].as_f64().filter(|all| *all > 0.0)?);
        Some(format!("{} {:.0} %", noun(kind, 0), 100.0 * used / all))
    };
    let shares: Vec<String> = ["memory", "vcore"].into_iter().filter_map(percent).collect();
    format!(
        "{partition} ({} {}): {}, {} drained, {}, {} wait; {}",
        row["rm"].as_str().unwrap_or_default(),
        row["rmState"].as_str().unwrap_or_default(),
        plural(count(&row["nodes"]["total"]), "node"),
        count(&row["nodes"]["drained"]),
        plural(apps, "application"),
        plural(count(&row["waiting"]["asks"]), "ask"),
        shares.join(", ")
    )
}

/// What came of a request.
enum Answer {
    List(View, Option<(View, String)>, Result<(String, List), Error>),
    Panel(String, Result<String, Error>),
}

async fn live(args: TopArgs) -> Result<ExitCode, Error> {
    let ended = ended();
    let mut terminal = ratatui::try_init().map_err(|error| failed(&error))?;
    let done = tokio::select! {
        done = watch(&args, &mut terminal) => done.map(|()| ExitCode::SUCCESS),
        status = ended => Ok(status),
    };
    // After a hang-up there is no terminal any more.
    let _ = ratatui::try_restore();
    done
}

/// A signal that ends the command, as the exit status that a shell shows for it. Without this the terminal would stay as it was drawn on.
fn ended() -> impl Future<Output = ExitCode> {
    let signals = (signal(SignalKind::hangup()), signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    async {
        let (Ok(mut hangup), Ok(mut interrupt), Ok(mut terminate)) = signals else {
            return std::future::pending().await;
        };
        let kind = tokio::select! {
            _ = hangup.recv() => SignalKind::hangup(),
            _ = interrupt.recv() => SignalKind::interrupt(),
            _ = terminate.recv() => SignalKind::terminate(),
        };
        ExitCode::from(u8::try_from(128 + kind.as_raw_value()).unwrap_or(u8::MAX))
    }
}

/// Draws, reads keys, and asks the server beside it, so that a slow answer holds up no key.
async fn watch(args: &TopArgs, terminal: &mut ratatui::DefaultTerminal) -> Result<(), Error> {
    let mut model = Model { view: args.view, ..Model::default() };
    let (sender, mut answers) = mpsc::unbounded_channel::<Answer>();
    let mut asked = false;
    let mut next = Instant::now();
    loop {
        if !asked && Instant::now() >= next {
            asked = true;
            let (door, view, within, sender) = (args.door.clone(), model.view, model.within.clone(), sender.clone());
            tokio::spawn(async move {
                let found = look(&door, view, within.as_ref()).await;
                // The loop may have ended meanwhile.
                let _ = sender.send(Answer::List(view, within, found));
            });
        }
        terminal.draw(|frame| draw::draw(frame, &mut model)).map_err(|error| failed(&error))?;
        let read = tokio::task::spawn_blocking(|| if event::poll(LOOK)? { event::read().map(Some) } else { Ok(None) });
        let read = read.await.map_err(|error| failed(&io::Error::other(error)))?.map_err(|error| failed(&error))?;
        match read.and_then(|event| key(&event)).map(|key| key.map(|key| model.press(key))) {
            Some(None | Some(Wish::Quit)) => return Ok(()),
            Some(Some(Wish::Read)) => (asked, next) = (false, Instant::now()),
            Some(Some(Wish::Why(app))) => ask_panel(&args.door, app, true, &sender),
            Some(Some(Wish::Node(node))) => ask_panel(&args.door, node, false, &sender),
            Some(Some(Wish::Nothing)) | None => {}
        }
        while let Ok(answer) = answers.try_recv() {
            match answer {
                // One of another view comes too late.
                Answer::List(view, within, _) if (view, &within) != (model.view, &model.within) => {}
                Answer::List(_, _, found) => {
                    (asked, next) = (false, Instant::now() + args.every);
                    match found {
                        Ok((headline, list)) => {
                            model.headline = headline;
                            model.take(list);
                        }
                        Err(error) => model.fault = error.to_string(),
                    }
                }
                Answer::Panel(title, found) => {
                    let text = found.unwrap_or_else(|error| error.to_string());
                    model.panel = Some(Panel { title, text, scroll: 0 });
                }
            }
        }
    }
}

fn ask_panel(door: &Door, name: String, app: bool, sender: &mpsc::UnboundedSender<Answer>) {
    let (door, sender) = (door.clone(), sender.clone());
    tokio::spawn(async move {
        let found = if app { why::explained(&door, &name).await } else { node(&door, &name).await };
        // As above.
        let _ = sender.send(Answer::Panel(name, found));
    });
}

/// What is on a node.
async fn node(door: &Door, id: &str) -> Result<String, Error> {
    let path = format!("/ws/v1/partition/{}/node/{}", named(&door.partition), named(id));
    let node = door.value_at(&path).await?;
    let told = |name: &str, key: &str| format!("{name}: {}\n", super::human::amounts(&rows::amount(&node[key])));
    let mut text = format!(
        "{}{}{}\n",
        told("Capacity", "capacity"),
        told("Allocated", "allocated"),
        told("Available", "available")
    );
    for row in node["allocations"].as_array().into_iter().flatten() {
        let text_of = |key: &str| row[key].as_str().unwrap_or_default();
        let size = super::human::amounts(&rows::amount(&row["resource"]));
        text.push_str(&format!("{}  {}  {size}\n", text_of("applicationId"), text_of("allocationKey")));
    }
    Ok(text)
}

/// The key of an event; inner `None` is Ctrl-C.
#[expect(clippy::option_option, reason = "no key, the end, and a key are three things")]
fn key(event: &Event) -> Option<Option<Key>> {
    let Event::Key(pressed) = event else { return None };
    if pressed.kind == KeyEventKind::Release {
        return None;
    }
    let key = match pressed.code {
        KeyCode::Char('c') if pressed.modifiers.contains(KeyModifiers::CONTROL) => return Some(None),
        KeyCode::Char(letter) => Key::Char(letter),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Esc,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    };
    Some(Some(key))
}

#[cfg(test)]
mod tests {
    use ratatui::crossterm::event::KeyEvent;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_about_the_partition() {
        let overview = json!({"partitions": [{"name": "default", "rm": "rm-1", "rmState": "Running", "applications": {"Running": 2},
            "nodes": {"total": 1, "drained": 0}, "waiting": {"asks": 3}, "used": {"memory": 1}, "capacity": {"memory": 4}}]});
        let expected = "default (rm-1 Running): 1 node, 0 drained, 2 applications, 3 asks wait; memory 25 %";
        assert_eq!(headline(&overview, "default"), expected);
        assert_eq!(headline(&overview, "other"), "partition other is not registered");
    }

    #[test]
    fn keys_of_a_terminal() {
        let press = |code, modifiers| key(&Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(press(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(None));
        assert_eq!(press(KeyCode::Char('c'), KeyModifiers::NONE), Some(Some(Key::Char('c'))));
        assert_eq!(press(KeyCode::F(1), KeyModifiers::NONE), None);
        assert_eq!(key(&Event::Resize(1, 1)), None);
    }
}
