//! A partition with a clock, a shim that keeps what it was told, and verbs that read like a script.

use std::{collections::BTreeMap, sync::Arc};

use callboard::{
    config,
    domain::{
        Partition,
        alloc::{AskSpec, PreemptionPolicy},
        command::{AddApplication, AllocationItem, Command, NodeAction, NodeItem, PredicateAnswer, ReleaseItem},
        effect::{Callback, Effect, Question, Released},
        event::Event,
        log::{Input, Step},
        partition::recorded::Recorded,
        resources::Resource,
        types::{AppState, Nanos, Termination},
    },
};

use super::{
    linked,
    twin::{self, Twin},
    usage::Lives,
};

pub const QUEUES: &str = "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: \"*\"\n        queues:\n          - name: a\n          - name: b\n";

/// See the module.
pub struct Env {
    pub partition: Partition,
    pub now: Nanos,
    /// Callbacks in order, as short texts.
    pub told: Vec<String>,
    /// Releases that the shim has to confirm.
    pub unconfirmed: Vec<Released>,
    pub events: Vec<Event>,
    /// Questions that wait for an answer.
    pub questions: Vec<Question>,
    /// Container states are not noted.
    pub calm: bool,
    /// What the shim refuses: (ask, node).
    pub refusals: Vec<(String, String)>,
    /// The lives of allocations, where they are watched.
    pub lives: Option<Lives>,
    /// Does the same from a log and its snapshots.
    pub twin: Option<Twin>,
    /// What comes in, where it is recorded.
    pub recorded: Option<Recorded>,
    /// Adds up what events tell of users and groups, from the beginning.
    pub reader: Option<linked::Reader>,
}

pub fn res(memory: i64, vcore: i64) -> Resource {
    Resource::of(&[("memory", memory), ("vcore", vcore)])
}

/// An ask under construction.
#[derive(Clone)]
pub struct Ask {
    pub spec: AskSpec,
    pub app: Arc<str>,
    pub node: Option<Arc<str>>,
}

impl Ask {
    pub fn new(app: &str, key: &str, size: i64) -> Ask {
        let spec = AskSpec { key: key.into(), resource: Arc::new(res(size, size)), ..AskSpec::default() };
        Ask { spec, app: app.into(), node: None }
    }

    pub fn placeholder(mut self, group: &str) -> Ask {
        self.spec.task_group = group.into();
        self.spec.placeholder = true;
        self
    }

    pub fn group(mut self, group: &str) -> Ask {
        self.spec.task_group = group.into();
        self
    }

    pub fn priority(mut self, priority: i32) -> Ask {
        self.spec.priority = priority;
        self
    }

    pub fn on(mut self, node: &str) -> Ask {
        self.node = Some(node.into());
        self
    }

    /// It may preempt others, and be preempted.
    pub fn preempts(mut self) -> Ask {
        self.spec.preemption = Some(PreemptionPolicy { allow_preempt_self: true, allow_preempt_other: true });
        self
    }

    /// It may preempt others, and not be preempted while others can.
    pub fn opted_out(mut self) -> Ask {
        self.spec.preemption = Some(PreemptionPolicy { allow_preempt_self: false, allow_preempt_other: true });
        self
    }

    pub fn originator(mut self) -> Ask {
        self.spec.originator = true;
        self
    }

    pub fn sized(mut self, resource: Resource) -> Ask {
        self.spec.resource = Arc::new(resource);
        self
    }

    /// The shim may be asked about it side by side with others.
    pub fn unconstrained(mut self) -> Ask {
        self.spec.tags = BTreeMap::from([("callboard.io/unconstrained".to_owned(), "true".to_owned())]).into();
        self
    }

    pub fn requires(mut self, node: &str) -> Ask {
        self.spec.required_node = Some(node.into());
        self
    }
}

impl Env {
    pub fn new(yaml: &str) -> Env {
        let conf = config::load(yaml).expect("a valid configuration").partitions[0].clone();
        let now = Nanos::from_secs(1_000_000);
        let mut effects = Vec::new();
        let partition = Partition::new("rm-1".into(), "[rm-1]default".into(), conf, now, &mut effects);
        let mut env = Env {
            twin: Some(Twin::of(&partition)),
            partition,
            now,
            told: Vec::new(),
            unconfirmed: Vec::new(),
            events: Vec::new(),
            questions: Vec::new(),
            calm: false,
            refusals: Vec::new(),
            lives: None,
            recorded: None,
            reader: Some(linked::Reader::default()),
        };
        env.take(effects);
        env
    }

    /// One that leaves container states out of what it hears.
    pub fn calm(yaml: &str) -> Env {
        let mut env = Env::new(yaml);
        env.calm = true;
        env
    }

    /// Without a twin, for very many lives.
    pub fn alone(self) -> Env {
        Env { twin: None, ..self }
    }

    pub fn apply(&mut self, command: Command) {
        self.step(Input::Apply(command));
    }

    /// Takes the first partition of another configuration.
    pub fn reload(&mut self, text: &str) {
        let conf = config::load(text).unwrap_or_else(|refused| panic!("{refused:?}\n{text}")).partitions.remove(0);
        self.apply(Command::Configure(conf));
        self.run();
    }

    /// Makes a step, and so does the twin; gives the number of decisions, or of other reasons to go on.
    pub fn step(&mut self, input: Input) -> usize {
        let effects = &mut Vec::new();
        let made = self.made(input, effects);
        self.take(std::mem::take(effects));
        self.check();
        made
    }

    /// Makes a step whose effects the caller looks at.
    pub fn made(&mut self, input: Input, effects: &mut Vec<Effect>) -> usize {
        let step = Step { at: self.now, input };
        let before = effects.len();
        let done = self.partition.replay(step.clone(), effects);
        if let Some(recorded) = &mut self.recorded {
            recorded.note(vec![step.clone()], &effects[before..], &self.partition);
        }
        if let Some(twin) = &mut self.twin {
            twin.follow(&self.partition, &step, effects);
        }
        done.made.max(usize::from(done.cut))
    }

    /// The partition ends, so many items at a time.
    pub fn stop(&mut self, items: usize) {
        self.apply(Command::Stop);
        while self.step(Input::Dismantle { max: items }) > 0 {}
    }

    /// Applies and schedules until nothing more happens.
    pub fn run(&mut self) {
        while self.step(twin::schedule(64)) > 0 {}
    }

    pub fn check(&mut self) {
        if let Some(lives) = &mut self.lives {
            lives.observe(&self.partition, self.now);
        }
        let findings = self.partition.audit();
        assert!(findings.is_empty(), "{findings:#?}\n told {:#?}", self.told);
        if let Some(reader) = &self.reader {
            reader.check(&self.partition);
        }
    }

    pub fn take(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Callback(callback) => self.note(callback),
                Effect::Event(event) => {
                    self.reader.iter_mut().for_each(|reader| reader.note(&event));
                    self.events.push(event);
                }
                Effect::Ask(question) => self.questions.push(question),
                _ => {}
            }
        }
    }

    fn note(&mut self, callback: Callback) {
        let text = match callback {
            Callback::New(new) => format!("new {} on {}", new.spec.key, new.node),
            Callback::Released(released) => {
                let text = format!("released {} {:?}", released.key, released.termination);
                if released.confirm {
                    self.unconfirmed.push(*released);
                }
                text
            }
            Callback::RejectedAllocation { key, reason, .. } => format!("rejected {key}: {reason}"),
            Callback::AcceptedApplication(app) => format!("accepted {app}"),
            Callback::RejectedApplication { app, reason } => format!("rejected {app}: {reason}"),
            Callback::UpdatedApplication { app, state, .. } => format!("{app} {state}"),
            Callback::AcceptedNode(node) => format!("node {node}"),
            Callback::RejectedNode { node, reason } => format!("rejected node {node}: {reason}"),
            Callback::ContainerState { .. } if self.calm => return,
            Callback::ContainerState { key, state, .. } => format!("{key} {state:?}"),
        };
        self.told.push(text);
    }

    /// What the shim was told since the last call.
    pub fn heard(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told)
    }

    pub fn node(&mut self, id: &str, size: i64) {
        self.node_action(id, NodeAction::Create, Some(res(size, size)));
    }

    /// A node with these amounts.
    pub fn apply_node(&mut self, id: &str, capacity: &[(&str, i64)]) {
        self.node_action(id, NodeAction::Create, Some(Resource::of(capacity)));
    }

    pub fn node_action(&mut self, id: &str, action: NodeAction, capacity: Option<Resource>) {
        let attributes = BTreeMap::from([("si/node-partition".to_owned(), "[rm-1]default".to_owned())]);
        self.apply(Command::Nodes(vec![NodeItem { id: id.into(), action, capacity, attributes: attributes.into() }]));
        self.run();
    }

    pub fn app(&mut self, id: &str, queue: &str) {
        self.add_app(AddApplication { id: id.into(), queue: queue.into(), ..self.by("alice") });
    }

    pub fn by(&self, user: &str) -> AddApplication {
        AddApplication { user: user.into(), groups: Some(Arc::from([Arc::from("staff")])), ..AddApplication::default() }
    }

    pub fn add_app(&mut self, item: AddApplication) {
        self.apply(Command::Applications { new: vec![item], remove: Vec::new() });
        self.run();
    }

    /// An application in root.a that may run so long.
    pub fn limited(&mut self, id: &str, millis: i64) {
        let item = AddApplication { id: id.into(), queue: "root.a".into(), timeout_millis: millis, ..self.by("alice") };
        self.add_app(item);
    }

    pub fn gang(&mut self, id: &str, queue: &str, total: i64, style: &str) {
        let item = AddApplication {
            id: id.into(),
            queue: queue.into(),
            placeholder_ask: Some(res(total, total)),
            gang_style: style.into(),
            timeout_millis: 60_000,
            ..self.by("alice")
        };
        self.add_app(item);
    }

    pub fn remove_app(&mut self, id: &str) {
        self.apply(Command::Applications { new: Vec::new(), remove: vec![id.into()] });
        self.run();
    }

    pub fn ask(&mut self, asks: Vec<Ask>) {
        let allocations = asks
            .into_iter()
            .map(|ask| AllocationItem { app: ask.app, node: ask.node, spec: Arc::new(ask.spec) })
            .collect();
        self.apply(Command::Allocations { allocations, releases: Vec::new() });
        self.run();
    }

    pub fn release(&mut self, app: &str, key: &str, termination: Termination) {
        let releases = vec![ReleaseItem { app: app.into(), key: key.into(), termination }];
        self.apply(Command::Allocations { allocations: Vec::new(), releases });
        self.run();
    }

    /// Answers the oldest open question.
    pub fn answer(&mut self, result: Result<(), Arc<str>>, index: i32) -> Question {
        let question = self.questions.remove(0);
        self.apply(Command::Predicate(PredicateAnswer { question: question.id, result, index, refused: Vec::new() }));
        self.run();
        question
    }

    /// Nobody answers the oldest open question.
    pub fn unanswered(&mut self) -> Question {
        let question = self.questions.remove(0);
        self.apply(Command::Unanswered(question.id));
        self.run();
        question
    }

    /// Messages in the log of an ask (R4.34).
    pub fn log(&self, app: &str, key: &str) -> Vec<String> {
        let row = self.partition.alloc(app, key).expect("a row");
        row.log.iter().map(|entry| entry.message.to_string()).collect()
    }

    /// The shim refuses this ask on this node from now on.
    pub fn refuse(&mut self, key: &str, node: &str) {
        self.refusals.push((key.into(), node.into()));
    }

    /// Answers the oldest open question.
    pub fn answer_one(&mut self) {
        let question = self.questions.remove(0);
        let refused = self.refusals.iter().any(|(key, node)| **key == *question.key && **node == *question.node);
        let result = if refused { Err("the shim does not want it there".into()) } else { Ok(()) };
        self.apply(Command::Predicate(PredicateAnswer {
            question: question.id,
            result,
            index: 0,
            refused: Vec::new(),
        }));
        self.run();
    }

    /// Answers all questions, and what they bring.
    pub fn answer_all(&mut self) {
        while !self.questions.is_empty() {
            self.answer_one();
        }
    }

    /// Confirms everything that waits for it, and what that brings.
    pub fn confirm_all(&mut self) {
        while let Some(release) = self.unconfirmed.pop() {
            self.release(&release.app.clone(), &release.key.clone(), release.termination);
        }
    }

    pub fn pass(&mut self, seconds: i64) {
        let end = self.now.plus(Nanos::from_secs(seconds));
        while let Some(next) = self.partition.next_deadline().filter(|next| *next <= end) {
            self.now = next.max(self.now);
            self.apply(Command::Tick);
            self.run();
        }
        self.now = end;
        self.run();
    }

    pub fn state(&self, app: &str) -> Option<AppState> {
        self.partition.app_by_id.get(app).map(|ix| self.partition.apps[*ix].state)
    }

    /// These applications are removed, and with the last one all charges.
    pub fn end(&mut self, apps: &[&str]) {
        apps.iter().for_each(|app| self.remove_app(app));
        self.assert_empty();
    }

    /// Nothing is charged to anybody.
    pub fn assert_empty(&self) {
        let root = &self.partition.queues[self.partition.root];
        assert!(root.allocated().is_zero() && root.pending().is_zero() && root.preempting.is_zero(), "{root:#?}");
        assert_eq!((self.partition.allocations, self.partition.placeholders, self.partition.reservations), (0, 0, 0));
        assert_eq!(self.partition.ugm.users().count(), 0);
        assert!(self.partition.nodes.values().all(|n| n.allocated().is_zero() && n.allocs.is_empty()));
    }
}
