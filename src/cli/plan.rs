//! `callboard plan`: what a new configuration would do to a running server, before it is applied.

use std::{
    fmt::Write as _,
    fs,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::Args;
use hyper::Method;
use serde::Deserialize;

use super::client::{
    http::segment,
    net::{Body, Client, Failed},
    trust::Trust,
};
use super::{
    context::ContextArg,
    out, url,
    validate::{NOTHING, says_nothing},
};
use crate::domain::words::{either, plural};
use crate::http::api::plan::view::{Change, PartitionPlan, Plan, Setting, Warning};

/// Options of `callboard plan`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Exit status: 0 nothing would suffer; 1 the configuration is refused, all faults are listed; \
                        2 it could not be computed; 3 applications would not be admitted, or quotas would stand below usage")]
pub struct PlanArgs {
    /// The new configuration
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Address of the server
    #[arg(long, value_name = "URL", value_parser = url::option, env = "CALLBOARD_SERVER", default_value = "http://127.0.0.1:9080")]
    server: String,
    /// Resource manager whose configuration it would be, where several are registered
    #[arg(long, value_name = "ID")]
    rm: Option<String>,
    /// Print the answer of the server
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub context: ContextArg,
    #[command(flatten)]
    trust: Trust,
}

/// The configuration is refused.
const REFUSED: u8 = 1;
/// Nobody could say.
const UNKNOWN: u8 = 2;
/// It would be accepted, and applications or quotas would suffer.
const CONSEQUENCES: u8 = 3;

/// An error answer, as far as it matters here.
#[derive(Deserialize)]
struct Problem {
    detail: String,
    #[serde(default)]
    errors: Vec<Warning>,
}

/// Runs the command; its help tells the exit status.
pub async fn run(args: PlanArgs) -> ExitCode {
    let (mut out, mut err) = (out::stdout(), io::stderr().lock());
    ExitCode::from(run_with(&args, &mut out, &mut err).await)
}

async fn run_with(args: &PlanArgs, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    match ask(args).await {
        Ok(answer) => {
            let status = if answer.plan.has_consequences() { CONSEQUENCES } else { 0 };
            let text = if args.json { out::escaped(&answer.json) } else { table(&answer.plan) };
            match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
                Ok(()) => status,
                Err(error) => {
                    out::fail(err, &error);
                    UNKNOWN
                }
            }
        }
        Err(Failure { status, on_stdout, text }) => {
            let to: &mut dyn Write = if on_stdout { out } else { err };
            if let Err(error) = to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
                out::fail(err, &error);
            }
            status
        }
    }
}

struct Answer {
    plan: Plan,
    json: String,
}

struct Failure {
    status: u8,
    /// Faults are the result of the command, other errors are not.
    on_stdout: bool,
    text: String,
}

impl Failure {
    fn unknown(text: String) -> Failure {
        Failure { status: UNKNOWN, on_stdout: false, text: format!("callboard: {}\n", out::lines(&text)) }
    }
}

async fn ask(args: &PlanArgs) -> Result<Answer, Failure> {
    let name = args.config.display();
    let config =
        fs::read(&args.config).map_err(|error| Failure::unknown(format!("{name}: cannot be read: {error}")))?;
    // At the door an empty text is the server's own configuration; in a file it is none.
    if says_nothing(&String::from_utf8_lossy(&config)) {
        return Err(Failure { status: REFUSED, ..Failure::unknown(format!("{name}: {NOTHING}")) });
    }
    let server = args.server.trim_end_matches('/');
    let query = args.rm.as_deref().map_or(String::new(), |rm| format!("?rm={}", segment(rm)));
    let client = Client::new(server, &args.trust).map_err(Failure::unknown)?;
    let unreachable = |error: Failed| Failure::unknown(error.of_server(server));
    let body = Body { kind: "application/yaml", bytes: config.into(), number: None };
    let url = format!("{server}/api/v1/plan{query}");
    let answer = client.send(Method::POST, &url, Some(body)).await.map_err(unreachable)?;
    let status = answer.status;
    let mut json = answer.text().await.map_err(unreachable)?;
    if !status.is_success() {
        let problem: Problem =
            out::answer(&json).map_err(|_| Failure::unknown(format!("{server} answers {status}: {}", json.trim())))?;
        if problem.errors.is_empty() {
            return Err(Failure::unknown(problem.detail));
        }
        if args.json {
            return Err(Failure { status: REFUSED, on_stdout: true, text: out::escaped(&json) + "\n" });
        }
        let mut text = String::new();
        for Warning { line, column, rule, message } in &problem.errors {
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(text, "{name}:{line}:{column}: {rule}: {message}");
        }
        return Err(Failure { status: REFUSED, on_stdout: true, text });
    }
    let plan = out::answer(&json)
        .map_err(|error| Failure::unknown(format!("the answer of {server} is not a plan: {error}")))?;
    json.push('\n');
    Ok(Answer { plan, json })
}

/// The plan for people.
pub(super) fn table(plan: &Plan) -> String {
    let mut text = String::new();
    for Warning { line, column, message, .. } in &plan.warnings {
        let place = if *line > 0 { format!("{line}:{column}: ") } else { String::new() };
        let _ = writeln!(text, "warning: {place}{message}");
    }
    if plan.unchanged {
        let _ = writeln!(text, "{}: this configuration is in force, nothing would change", plan.rm_id);
        return text;
    }
    for partition in &plan.partitions {
        part(&mut text, partition);
    }
    let all = |count: fn(&PartitionPlan) -> usize| plan.partitions.iter().map(count).sum::<usize>();
    let queues = all(|partition| partition.queues.len());
    let _ = writeln!(
        text,
        "{}: {} {}, {} would not be admitted, {} would stand below usage",
        plan.rm_id,
        plural(queues, "queue"),
        either(&queues, "differs", "differ"),
        plural(all(|partition| partition.applications.len()), "application"),
        plural(all(|partition| partition.exceeded.len()), "quota"),
    );
    text
}

fn part(text: &mut String, plan: &PartitionPlan) {
    let what = match plan.change {
        Change::Added => "would be added",
        Change::Removed => "would be removed with all that is in it",
        Change::Kept if plan.settings.is_empty() && plan.queues.is_empty() => "stays as it is",
        Change::Kept => "would change",
    };
    let _ = writeln!(text, "partition {} {what}", plan.partition);
    lines(text, &plan.settings);
    if !plan.queues.is_empty() {
        let width = plan.queues.iter().map(|queue| queue.queue_name.len()).max().unwrap_or_default();
        for queue in &plan.queues {
            let apps = match queue.applications {
                0 => String::new(),
                some => format!("  {}", plural(some, "application")),
            };
            let line = format!("  {:<8}  {:<width$}{apps}", queue.change, queue.queue_name);
            let _ = writeln!(text, "{}", line.trim_end());
            // What is new has no settings to compare with, only its own.
            lines(text, &queue.settings);
        }
    }
    if !plan.applications.is_empty() {
        text.push_str("applications that would not be admitted\n");
        for app in &plan.applications {
            let _ = writeln!(
                text,
                "  {}  {}  {}  {}  {}",
                app.application_id,
                app.queue_name,
                app.user,
                app.state,
                app.reason.replace('\n', " ")
            );
        }
    }
    if !plan.exceeded.is_empty() {
        text.push_str("quotas that would stand below usage\n");
        for row in &plan.exceeded {
            let who = match (&row.user, &row.group) {
                (Some(user), _) => format!("  user {user}"),
                (None, Some(group)) => format!("  group {group}"),
                (None, None) => String::new(),
            };
            let after =
                row.preempted_after_seconds.map_or(String::new(), |after| format!(", preempted after {after} s"));
            let _ = writeln!(text, "  {}{who}  {} {}, used {}{after}", row.queue_name, row.what, row.limit, row.used);
        }
    }
    if plan.more > 0 {
        let _ =
            writeln!(text, "and {} more queues, applications and quotas, which the server does not list", plan.more);
    }
}

fn lines(text: &mut String, settings: &[Setting]) {
    let shown = |value: &Option<String>| match value.as_deref() {
        None => "–".to_owned(),
        Some("") => "\"\"".to_owned(),
        Some(value) => value.to_owned(),
    };
    for Setting { setting, from, to } in settings {
        let _ = writeln!(text, "            {setting}: {} → {}", shown(from), shown(to));
    }
}
