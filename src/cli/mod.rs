//! The subcommands of the program, one folder or file each.

pub mod audit;
pub mod bench;
pub mod cluster;
pub mod context;
pub mod demo;
pub mod diagnose;
pub mod door;
pub mod events;
pub mod flight;
pub mod human;
pub mod journal;
pub mod lists;
pub mod log;
pub mod log_level;
pub mod out;
pub mod pages;
pub mod place;
pub mod plan;
pub mod process;
pub mod queue;
pub mod ready;
pub mod replay;
pub mod resource;
pub mod secrets;
pub mod serve;
pub mod settings;
pub mod simulate;
pub mod token;
pub mod top;
pub mod url;
pub mod usage;
pub mod validate;
pub mod wait;
pub mod whatif;
pub mod why;

use std::{borrow::Cow, path::PathBuf, process::ExitCode};

pub use callboard_client as client;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand, builder::Resettable};
use tokio::signal::unix::{SignalKind, signal};

use self::{
    audit::AuditArgs,
    bench::BenchArgs,
    cluster::ClusterArgs,
    demo::DemoArgs,
    diagnose::DiagnoseArgs,
    events::EventsArgs,
    flight::FlightArgs,
    journal::JournalArgs,
    lists::{AppsArgs, NodesArgs, QueuesArgs, RmsArgs, StatusArgs, Wanted},
    log::LogArgs,
    log_level::LogLevelArgs,
    pages::{CompletionsArgs, ManArgs},
    plan::PlanArgs,
    queue::QueueArgs,
    ready::ReadyArgs,
    replay::{GenerateArgs, ReplayArgs},
    resource::ResourceArgs,
    serve::ServeArgs,
    settings::SettingsArgs,
    simulate::SimulateArgs,
    token::TokenArgs,
    top::TopArgs,
    usage::UsageArgs,
    wait::WaitArgs,
    whatif::WhatIfArgs,
    why::WhyArgs,
};

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "callboard", version = env!("CALLBOARD_BUILD"), about = "A resource scheduler that resource managers register with")]
#[command(args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve resource managers (the default)
    Serve(Box<ServeArgs>),
    /// Run a server with a cluster that lives, and say what to try
    Demo(DemoArgs),
    /// Play a trace against a scheduler, and report how it went
    Replay(Box<ReplayArgs>),
    /// Write a generated trace
    Generate(GenerateArgs),
    /// Measure the scheduler
    Bench(Box<BenchArgs>),
    /// Run small worlds drawn from seeds, in simulated time and with crashes, and hold them against rules
    Simulate(SimulateArgs),
    /// Check a configuration file
    Validate {
        /// The file; - for the standard input
        file: PathBuf,
    },
    /// Show what a new configuration would do to a running server
    Plan(PlanArgs),
    /// Show what a change would do to a running cluster: nodes, queues, applications, a configuration
    #[command(name = "whatif")]
    WhatIf(Box<WhatIfArgs>),
    /// Show partitions at a glance, and what waits in them
    Status(StatusArgs),
    /// Watch applications, queues, users and nodes, with why what waits does
    Top(TopArgs),
    /// Show applications, those that wait first
    Apps(AppsArgs),
    /// Show queues
    Queues(QueuesArgs),
    /// Show nodes: how full they are, and what is the matter with them
    Nodes(NodesArgs),
    /// Show resource managers and their sessions
    Rms(RmsArgs),
    /// Explain why an application waits, and what would help
    Why(WhyArgs),
    /// Show events: what happened to which application, node, queue, user and ask
    Events(EventsArgs),
    /// Show the resource journal
    Journal(Box<JournalArgs>),
    /// Show, drain and undrain resources
    Resource(ResourceArgs),
    /// Stop, drain and resume queues
    Queue(QueueArgs),
    /// Show what users, groups or queues used over a while
    Usage(UsageArgs),
    /// Show the settings of a running server
    Settings(SettingsArgs),
    /// Wait until something holds of applications, queues or nodes
    Wait(WaitArgs),
    /// Show what the logs of a data directory hold
    Log(LogArgs),
    /// List, export, show, check and serve flights: what logs hold, seen again
    Flight(Box<FlightArgs>),
    /// Show the servers of a cluster and who leads what, and move the lead
    Cluster(ClusterArgs),
    /// Show or change what the log of a running server tells
    LogLevel(LogLevelArgs),
    /// Write what is needed to find a fault into one file, without secrets
    Diagnose(DiagnoseArgs),
    /// Say whether a server takes requests, by the exit status
    Ready(ReadyArgs),
    /// Show who changed what
    Audit(AuditArgs),
    /// Make tokens, list them, take them back: who may do what
    Token(TokenArgs),
    /// Print what a shell completes commands by
    Completions(CompletionsArgs),
    /// Print a page for man
    Man(ManArgs),
}

/// A variable that is empty says nothing, as in a file of them where a value was taken out.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty = |arg: &clap::Arg| arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
    command
        .mut_args(|arg| if is_empty(&arg) { arg.env(Resettable::Reset) } else { arg })
        .mut_subcommands(without_empty_variables)
}

impl Cli {
    /// The command line of this process, with what the user's file of contexts says as defaults.
    ///
    /// # Errors
    /// That file is wrong.
    pub fn read() -> Result<Cli, String> {
        let matches = context::apply(without_empty_variables(Cli::command()))?.get_matches();
        Cli::from_arg_matches(&matches).map_err(|error| error.to_string())
    }

    /// Runs what was asked for.
    pub fn run(self) -> ExitCode {
        match self.command {
            None => serve::run(self.serve),
            Some(Command::Serve(args)) => serve::run(*args),
            Some(Command::Demo(args)) => reported(demo::run(&args)),
            Some(Command::Replay(args)) => report(replay::run(&args)),
            Some(Command::Generate(args)) => report(replay::generate(&args)),
            Some(Command::Bench(args)) => report(bench::run(&args)),
            Some(Command::Simulate(args)) => report(simulate::run(&args)),
            Some(Command::Validate { file }) => report(validate::run(&file)),
            Some(Command::Plan(args)) => wait_for(plan::run(args)),
            Some(Command::WhatIf(args)) => reported(whatif::run(&args)),
            Some(Command::Status(args)) => reported(lists::run(&Wanted::Status(args))),
            Some(Command::Top(args)) => reported(top::run(args)),
            Some(Command::Apps(args)) => reported(lists::run(&Wanted::Apps(args))),
            Some(Command::Queues(args)) => reported(lists::run(&Wanted::Queues(args))),
            Some(Command::Nodes(args)) => reported(lists::run(&Wanted::Nodes(args))),
            Some(Command::Rms(args)) => reported(lists::run(&Wanted::Rms(args))),
            Some(Command::Why(args)) => reported(why::run(&args)),
            Some(Command::Events(args)) => reported(events::run(args)),
            Some(Command::Journal(args)) => wait_for(journal::run(*args)),
            Some(Command::Resource(args)) => wait_for(resource::run(args)),
            Some(Command::Queue(args)) => wait_for(queue::run(args)),
            Some(Command::Usage(args)) => reported(usage::run(&args)),
            Some(Command::Settings(args)) => reported(settings::run(&args)),
            Some(Command::Wait(args)) => wait_for(wait::run(args)),
            Some(Command::Log(args)) => reported(log::run(&args)),
            Some(Command::Flight(args)) => report(flight::run(*args)),
            Some(Command::Cluster(args)) => reported(cluster::run(&args)),
            Some(Command::LogLevel(args)) => reported(log_level::run(&args)),
            Some(Command::Diagnose(args)) => reported(diagnose::run(&args)),
            Some(Command::Ready(args)) => reported(ready::run(&args)),
            Some(Command::Audit(args)) => reported(audit::run(&args)),
            Some(Command::Token(args)) => report(token::run(&args)),
            Some(Command::Completions(args)) => report(pages::completions(&args)),
            Some(Command::Man(args)) => report(pages::man(&args)),
        }
    }
}

/// A command line that can be read, and whose parts say nothing or do not go together: it ends as one that cannot be read does,
/// so that a script tells its own mistake from what failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Misused(Cow<'static, str>);

/// Exit status where the command line is wrong, as clap has it.
const MISUSED: u8 = 2;

fn report(done: anyhow::Result<ExitCode>) -> ExitCode {
    done.unwrap_or_else(|error| {
        out::note(format_args!("callboard: {error:#}"));
        if error.is::<Misused>() { ExitCode::from(MISUSED) } else { ExitCode::FAILURE }
    })
}

/// Runs a client command to its end, and says why it failed.
fn reported(command: impl Future<Output = anyhow::Result<ExitCode>>) -> ExitCode {
    wait_for(async move { report(command.await) })
}

/// Runs a client command to its end.
fn wait_for(command: impl Future<Output = ExitCode>) -> ExitCode {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(command),
        Err(error) => report(Err(error.into())),
    }
}

/// Waits for Ctrl-C, or the request to end; takes note of them from the call on, not only from when it is waited for.
fn interrupted() -> impl Future<Output = ()> {
    let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    async {
        let (Ok(mut interrupt), Ok(mut terminate)) = signals else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}
