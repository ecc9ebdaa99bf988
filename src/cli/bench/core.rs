//! Core depth: `PartitionActor` in this very process, driven by its messages, no sockets.

use std::{
    sync::{Arc, mpsc::Sender},
    time::Instant,
};

use actix::prelude::*;
use anyhow::{Context as _, Result, bail};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::{
    answers::{self, Answered, Asked},
    drive::{Batch, Release, Rig, Target},
    shapes::Kind,
    workload::{Amount, Ask, PARTITION, TASK_GROUP, Workload, node_id, number_of},
};
use crate::{
    actors::partition::{Links, PartitionActor},
    config,
    domain::{
        alloc::{AskSpec, PreemptionPolicy},
        command::{
            AddApplication, AllocationItem, Command, NodeAction, NodeItem, PredicateAnswer, PredicateTerms, ReleaseItem,
        },
        effect::{Callback, Question, QuestionKind},
        resources::{Resource, Types, Vectors},
        sorted::Texts,
    },
    messages::{
        budget::Budget,
        clock::Clock,
        event::Publish,
        partition::{Commands, PartitionSetup, Patience, StopPartition},
        rm::{Deliver, Outgoing},
    },
};

const RM: &str = "bench";
const EPOCH: u64 = 1;
/// Nodes per command.
const NODES: usize = 1000;

/// The partition's actor and what it needs around it.
pub struct Core {
    partition: Addr<PartitionActor>,
    arbiters: [Arbiter; 2],
    /// Names of resource types, each once, as a session has them.
    types: Types,
}

/// Starts a partition on an arbiter of its own, with receivers of callbacks and events on another one.
///
/// Must be called inside an actix system.
pub fn start(work: &Workload) -> Result<Rig<Core>> {
    let loaded = config::load(&work.config).map_err(|refused| anyhow::anyhow!("{}", refused.message))?;
    let Some(conf) = loaded.partitions.first().cloned() else { bail!("the configuration has no partition") };
    let arbiters = [Arbiter::new(), Arbiter::new()];
    let (out, back) = unbounded_channel();
    // Nothing holds the partition back but itself.
    let budget = Budget::new(i64::MAX / 2, i64::MAX / 2);
    let credits = budget.clone();
    let sink = Sink::start_in_arbiter(&arbiters[1].handle(), move |_| Sink { out, budget: credits, questions: None });
    let setup = PartitionSetup {
        clock: Clock::default(),
        rm: RM.into(),
        epoch: EPOCH,
        internal: format!("[{RM}]{PARTITION}").into(),
        conf,
        budget,
        patience: Patience::default(),
        callbacks: sink.clone().recipient(),
        events: sink.clone().recipient().into(),
        recorded: None,
    };
    let partition = PartitionActor::start_on(&arbiters[0].handle(), setup, Links::default());
    if let Kind::Asking { batched } = work.shape.kind {
        let to = partition.clone();
        let questions = answers::start(batched, move |answers| {
            to.do_send(commands(answers.into_iter().map(predicate).collect()));
        });
        sink.do_send(Questions(questions));
        let terms = PredicateTerms { constrained: false, nodes: 1, shared: false };
        partition.do_send(commands(vec![Command::PredicateTerms(terms), Command::AskPredicates(true)]));
    }
    let pid = Some(std::process::id());
    Ok(Rig { target: Core { partition, arbiters, types: Types::default() }, back, depth: "core", pid })
}

impl Core {
    /// Ends the partition and its arbiters.
    pub async fn stop(self) -> Result<()> {
        self.partition.send(StopPartition).await.context("the partition is gone")?;
        for arbiter in self.arbiters {
            arbiter.stop();
            arbiter.join().map_err(|_| anyhow::anyhow!("an arbiter panicked"))?;
        }
        Ok(())
    }

    fn resource(&self, work: &Workload, amount: Amount) -> Result<Resource> {
        let mut resource = Resource::of(&[("memory", amount.memory), ("vcore", amount.vcore)]);
        for name in work.types() {
            resource.set(self.types.get(&name)?, amount.vcore.into());
        }
        Ok(resource)
    }

    fn send(&self, command: Command) {
        self.partition.do_send(commands(vec![command]));
    }
}

impl Target for Core {
    async fn nodes(&self, work: &Workload) -> Result<()> {
        let item = |(number, capacity): (usize, &Amount)| {
            Ok(NodeItem {
                id: node_id(number).into(),
                action: NodeAction::Create,
                capacity: Some(self.resource(work, *capacity)?),
                attributes: Texts::from([("si/node-partition".to_owned(), format!("[{RM}]{PARTITION}"))]),
            })
        };
        let items = work.nodes.iter().enumerate().map(item).collect::<Result<Vec<NodeItem>>>()?;
        items.chunks(NODES).for_each(|chunk| self.send(Command::Nodes(chunk.to_vec())));
        Ok(())
    }

    async fn apps(&self, work: &Workload) -> Result<()> {
        let add = |app: &super::workload::App| {
            Ok(AddApplication {
                id: app.id.as_str().into(),
                queue: app.queue.as_str().into(),
                user: app.user.as_str().into(),
                groups: Some(Arc::from([Arc::from(app.group.as_str())])),
                placeholder_ask: app.placeholders.map(|sum| self.resource(work, sum)).transpose()?,
                ..Default::default()
            })
        };
        let new = work.apps.iter().map(add).collect::<Result<_>>()?;
        self.send(Command::Applications { new, remove: Vec::new() });
        Ok(())
    }

    async fn allocations(&self, work: &Workload, asks: &[Ask], releases: Vec<Release>) -> Result<()> {
        let policy = PreemptionPolicy { allow_preempt_self: true, allow_preempt_other: true };
        let preemption = work.preempts().then_some(policy);
        let (names, mut vectors) = (work.types().collect::<Vec<_>>(), Vectors::new(&self.types));
        let mut resource = |amount: Amount| {
            let others = names.iter().map(|name| (name.as_str(), amount.vcore));
            vectors.of([("memory", amount.memory)].into_iter().chain(others).chain([("vcore", amount.vcore)]))
        };
        let item = |ask: &Ask| {
            Ok(AllocationItem {
                app: work.apps[ask.app].id.as_str().into(),
                node: None,
                spec: Arc::new(AskSpec {
                    key: ask.key_text().into(),
                    resource: resource(ask.needs)?,
                    priority: ask.priority,
                    task_group: if ask.gang { TASK_GROUP.into() } else { "".into() },
                    placeholder: ask.placeholder,
                    preemption,
                    ..Default::default()
                }),
            })
        };
        let ended = |release: Release| ReleaseItem {
            app: release.app.into(),
            key: release.key.into(),
            termination: release.termination,
        };
        let allocations = asks.iter().map(item).collect::<Result<_>>()?;
        let releases = releases.into_iter().map(ended).collect();
        self.send(Command::Allocations { allocations, releases });
        Ok(())
    }
}

fn commands(commands: Vec<Command>) -> Commands {
    Commands::of(EPOCH, commands)
}

fn predicate(answer: Answered) -> Command {
    let result = if answer.fits { Ok(()) } else { Err("one in a hundred".into()) };
    Command::Predicate(PredicateAnswer { question: answer.id, result, index: 0, refused: Vec::new() })
}

/// Receives what a resource manager and the event system would.
struct Sink {
    out: UnboundedSender<Batch>,
    budget: Arc<Budget>,
    questions: Option<Sender<(Instant, Vec<Asked>)>>,
}

/// Where the sink's questions go from now on.
#[derive(Message)]
#[rtype(result = "()")]
struct Questions(Sender<(Instant, Vec<Asked>)>);

impl Actor for Sink {
    type Context = Context<Self>;
}

impl Handler<Questions> for Sink {
    type Result = ();

    fn handle(&mut self, questions: Questions, _ctx: &mut Self::Context) {
        self.questions = Some(questions.0);
    }
}

impl Sink {
    fn ask(&self, asked: Vec<Asked>) {
        if let Some(questions) = self.questions.as_ref().filter(|_| !asked.is_empty()) {
            // The shim ends with the run.
            let _ = questions.send((Instant::now(), asked));
        }
    }
}

impl Handler<Deliver> for Sink {
    type Result = ();

    fn handle(&mut self, delivered: Deliver, _ctx: &mut Self::Context) {
        let mut batch = Batch::new(Instant::now());
        let mut asked = Vec::new();
        // Never so little that anything waited for it.
        let _ = self.budget.delivered(delivered.items.len());
        for item in delivered.items {
            let callback = match item {
                Outgoing::Callback(callback) => callback,
                Outgoing::Ask(Question { id, key, node, kind: QuestionKind::Fits { .. }, .. }) => {
                    asked.push(Asked { id, key: key.to_string(), node: node.to_string() });
                    continue;
                }
                Outgoing::Ask(_) => continue,
            };
            match callback {
                Callback::New(new) => match number_of(&new.spec.key) {
                    Some(number) => batch.placed.push(number),
                    None => batch.others += 1,
                },
                Callback::Released(released) if released.confirm => batch.confirm.push(Release {
                    key: released.key.to_string(),
                    app: released.app.to_string(),
                    termination: released.termination,
                }),
                Callback::AcceptedNode(_) | Callback::AcceptedApplication(_) => batch.accepted += 1,
                Callback::RejectedNode { node, reason } => batch.refused.push(format!("node {node}: {reason}")),
                Callback::RejectedApplication { app, reason } => {
                    batch.refused.push(format!("application {app}: {reason}"));
                }
                Callback::RejectedAllocation { key, reason, .. } => batch.refused.push(format!("ask {key}: {reason}")),
                _ => {}
            }
        }
        self.ask(asked);
        // The run may be over already.
        let _ = self.out.send(batch);
    }
}

impl Handler<Publish> for Sink {
    type Result = ();

    /// Events are made like always; storing and sending them is measured elsewhere.
    fn handle(&mut self, _msg: Publish, _ctx: &mut Self::Context) {}
}
