//! A resource manager with its partitions, and a shim whose pods constrain each other. Everything is on its way for a while.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use callboard::{
    config,
    domain::{
        Partition,
        alloc::AskSpec,
        command::{
            AddApplication, AllocationItem, Command, NodeAction, NodeItem, PredicateAnswer, PredicateTerms, ReleaseItem,
        },
        effect::{Callback, Effect, Question, TurnEffect},
        turns::Turns,
        types::{Nanos, Termination},
    },
};

use crate::partition::env::{QUEUES, res};

/// What a pod asks for beside room. A pod is named `<kind><group>-<number>`, and only those of its kind and group matter to it;
/// to volumes also how many are on the node.
pub const ANTI: char = 'a';
pub const PORT: char = 'p';
pub const SPREAD: char = 's';
/// A volume is in the zone of the node that used it first, and is used on one node at a time.
pub const VOLUME: char = 'v';
pub const FREE: char = 'f';

/// Volumes that a node takes.
const VOLUMES: usize = 2;

enum Line {
    New(String, String),
    Ask(usize, Question),
}

/// What leaves a partition at once.
type Delivery = (Vec<Line>, Vec<TurnEffect>);

/// What the shim knows of, or what was decided.
#[derive(Clone, Debug, Default)]
pub struct Where {
    pub pods: BTreeMap<String, String>,
    /// The zones of volumes.
    pub bound: BTreeMap<String, usize>,
}

impl Where {
    fn put(&mut self, key: &str, node: &str, zones: usize) {
        self.pods.insert(key.to_owned(), node.to_owned());
        if key.starts_with(VOLUME) {
            self.bound.entry(key[..2].to_owned()).or_insert_with(|| zone(node, zones));
        }
    }

    pub fn fits(&self, key: &str, node: &str, zones: usize) -> bool {
        let like = &key[..2];
        let others = || self.pods.iter().filter(|(other, _)| other.starts_with(like) && *other != key).map(|of| of.1);
        match key.chars().next() {
            Some(ANTI) => others().all(|other| zone(other, zones) != zone(node, zones)),
            Some(PORT) => others().all(|other| other != node),
            Some(SPREAD) => {
                let mut counts = vec![0; zones];
                others().for_each(|other| counts[zone(other, zones)] += 1);
                counts[zone(node, zones)] < counts.iter().min().copied().unwrap_or(0) + 1
            }
            Some(VOLUME) => {
                let there = self.pods.iter().filter(|(pod, on)| pod.starts_with(VOLUME) && *on == node && *pod != key);
                let mut volumes: Vec<&str> = there.map(|(pod, _)| &pod[..2]).chain([like]).collect();
                volumes.sort_unstable();
                volumes.dedup();
                self.bound.get(like).is_none_or(|bound| *bound == zone(node, zones))
                    && others().all(|other| other == node)
                    && volumes.len() <= VOLUMES
            }
            _ => true,
        }
    }
}

/// A partition, and what is on its way to it and from it.
struct Part {
    name: Arc<str>,
    partition: Partition,
    mail: VecDeque<Command>,
    deliveries: VecDeque<Delivery>,
    /// What was decided when the last answer was sent to it.
    answered: Where,
}

/// See the module.
pub struct World {
    parts: Vec<Part>,
    turns: Turns,
    pub now: Nanos,
    zones: usize,
    /// On their way to the shim, in order.
    lines: VecDeque<Line>,
    /// On their way back, with whether the ask is constrained.
    answers: VecDeque<(usize, bool, PredicateAnswer)>,
    /// What the shim has handled.
    pub view: Where,
    /// What was decided.
    pub truth: Where,
    pub calls: usize,
    pub asked: BTreeMap<(String, String), usize>,
    pub refuse: fn(&str, &str) -> bool,
}

/// Node `n<number>` is in a zone by its number.
pub fn zone(node: &str, zones: usize) -> usize {
    number(node) % zones
}

fn number(node: &str) -> usize {
    node[1..].parse().expect("a number")
}

impl World {
    pub fn new(nodes: usize, zones: usize, size: i64, terms: PredicateTerms) -> World {
        World::of(1, nodes, zones, size, terms)
    }

    /// Nodes are of the partitions in turn; so are applications, `app-1` of the first.
    pub fn of(parts: usize, nodes: usize, zones: usize, size: i64, terms: PredicateTerms) -> World {
        let conf = config::load(QUEUES).expect("a valid configuration").partitions[0].clone();
        let now = Nanos::from_secs(1_000_000);
        let part = |n: usize| {
            let name: Arc<str> = format!("[rm-1]{n}").into();
            let partition = Partition::new("rm-1".into(), name.clone(), conf.clone(), now, &mut Vec::new());
            let (mail, deliveries) = (VecDeque::new(), VecDeque::new());
            Part { name, partition, mail, deliveries, answered: Where::default() }
        };
        let mut world = World {
            parts: (0..parts).map(part).collect(),
            turns: Turns::default(),
            now,
            zones,
            lines: VecDeque::new(),
            answers: VecDeque::new(),
            view: Where::default(),
            truth: Where::default(),
            calls: 0,
            asked: BTreeMap::new(),
            refuse: |_, _| false,
        };
        for part in 0..parts {
            world.apply(part, Command::PredicateTerms(PredicateTerms { shared: parts > 1, ..terms }));
            world.apply(part, Command::AskPredicates(true));
        }
        world.turns.among(world.parts.iter().filter(|_| parts > 1).map(|part| part.name.clone()).collect());
        for node in 0..nodes {
            let part = node % parts;
            let item = NodeItem {
                id: format!("n{node:03}").into(),
                action: NodeAction::Create,
                capacity: Some(res(size, size)),
                attributes: BTreeMap::from([("si/node-partition".to_owned(), world.parts[part].name.to_string())])
                    .into(),
            };
            world.apply(part, Command::Nodes(vec![item]));
        }
        for id in ["app-1", "app-2"] {
            let (user, groups) = ("alice".into(), Some(Arc::from([Arc::from("staff")])));
            let new = AddApplication { id: id.into(), queue: "root.a".into(), user, groups, ..Default::default() };
            world.apply(world.part_of(id), Command::Applications { new: vec![new], remove: Vec::new() });
        }
        world.settle();
        world
    }

    fn part_of(&self, app: &str) -> usize {
        (app["app-".len()..].parse::<usize>().expect("a number") - 1) % self.parts.len()
    }

    pub fn is_of(&self, app: &str, node: &str) -> bool {
        number(node) % self.parts.len() == self.part_of(app)
    }

    fn apply(&mut self, part: usize, command: Command) {
        let mut effects = Vec::new();
        let partition = &mut self.parts[part].partition;
        partition.apply(command, self.now, &mut effects);
        while partition.schedule_at_once(64, self.now, &mut effects) > 0 {}
        let (mut lines, mut words) = (Vec::new(), Vec::new());
        for effect in effects {
            match effect {
                Effect::Callback(Callback::New(new)) => {
                    let (key, node) = (new.spec.key.to_string(), new.node.to_string());
                    let known = self.truth.pods.contains_key(&key);
                    // A release in another partition that comes after the answer comes after the placement too.
                    let answered = key.starts_with(SPREAD) && self.parts[part].answered.fits(&key, &node, self.zones);
                    let fits = self.truth.fits(&key, &node, self.zones) || answered;
                    assert!(known || fits, "{key} on {node}: {:?}", self.truth);
                    self.truth.put(&key, &node, self.zones);
                    lines.push(Line::New(key, node));
                }
                Effect::Ask(question) => lines.push(Line::Ask(part, question)),
                Effect::Turn(word) => words.push(word),
                _ => {}
            }
        }
        if !lines.is_empty() || !words.is_empty() {
            self.parts[part].deliveries.push_back((lines, words));
        }
        if self.parts.len() == 1 {
            while self.deliver(0) {}
        }
    }

    /// What a partition sent arrives at the resource manager's session. False: there is nothing.
    pub fn deliver(&mut self, part: usize) -> bool {
        let Some((lines, words)) = self.parts[part].deliveries.pop_front() else { return false };
        self.lines.extend(lines);
        for word in words {
            self.turns.on_message(&self.parts[part].name, word);
        }
        self.pass();
        true
    }

    fn pass(&mut self) {
        for (name, commands) in self.turns.take() {
            let part = self.parts.iter_mut().find(|part| part.name == name).expect("known");
            if commands.iter().any(|command| matches!(command, Command::Predicate(_))) {
                part.answered = self.truth.clone();
            }
            part.mail.extend(commands);
        }
        if self.parts.len() == 1 {
            while self.work(0) {}
        }
    }

    /// A partition does what it was sent. False: there is nothing.
    pub fn work(&mut self, part: usize) -> bool {
        let Some(command) = self.parts[part].mail.pop_front() else { return false };
        self.apply(part, command);
        true
    }

    /// Nothing is on its way.
    pub fn is_idle(&self) -> bool {
        let idle = |part: &Part| part.mail.is_empty() && part.deliveries.is_empty();
        self.lines.is_empty() && self.answers.is_empty() && self.parts.iter().all(idle)
    }

    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    pub fn add(&mut self, app: &str, key: &str, node: Option<&str>) {
        let mut spec = AskSpec { key: key.into(), resource: Arc::new(res(1, 1)), ..AskSpec::default() };
        if key.starts_with(FREE) {
            spec.tags.insert("callboard.io/unconstrained".into(), "true".into());
        }
        if let Some(node) = node {
            // The shim placed it by itself.
            self.truth.put(key, node, self.zones);
            self.view.put(key, node, self.zones);
        }
        let item = AllocationItem { app: app.into(), node: node.map(Into::into), spec: Arc::new(spec) };
        let part = self.part_of(app);
        self.apply(part, Command::Allocations { allocations: vec![item], releases: Vec::new() });
    }

    pub fn release(&mut self, app: &str, key: &str) {
        self.view.pods.remove(key);
        self.truth.pods.remove(key);
        let part = self.part_of(app);
        let (app, key, termination) = (app.into(), key.into(), Termination::StoppedByRm);
        let releases = vec![ReleaseItem { app, key, termination }];
        self.apply(part, Command::Allocations { allocations: Vec::new(), releases });
    }

    /// The shim handles its next line. False: there is none.
    pub fn handle(&mut self) -> bool {
        let Some(line) = self.lines.pop_front() else { return false };
        match line {
            Line::New(key, node) => {
                // It may have been released while this was on its way; its volume was used.
                let there = self.truth.pods.contains_key(&key);
                self.view.put(&key, &node, self.zones);
                if !there {
                    self.view.pods.remove(&key);
                }
            }
            Line::Ask(part, question) => {
                self.calls += 1;
                let mut refused: Vec<Arc<str>> = Vec::new();
                let mut result = Err(Arc::from("it does not fit"));
                for node in std::iter::once(&question.node).chain(&question.more) {
                    *self.asked.entry((question.key.to_string(), node.to_string())).or_default() += 1;
                    if !(self.refuse)(&question.key, node) && self.view.fits(&question.key, node, self.zones) {
                        result = Ok(());
                        break;
                    }
                    refused.push("it does not fit".into());
                }
                if result.is_err() {
                    refused.pop();
                }
                let answer = PredicateAnswer { question: question.id, result, index: 0, refused };
                self.answers.push_back((part, !question.together, answer));
            }
        }
        true
    }

    /// The next answer arrives. False: there is none.
    pub fn hear(&mut self) -> bool {
        let Some((part, in_turn, answer)) = self.answers.pop_front() else { return false };
        if in_turn {
            self.turns.answer(self.parts[part].name.clone(), vec![answer]);
            self.pass();
        } else {
            self.parts[part].mail.push_back(Command::Predicate(answer));
            if self.parts.len() == 1 {
                self.work(part);
            }
        }
        true
    }

    pub fn pass_time(&mut self, time: Nanos) {
        let end = self.now.plus(time);
        let next = |world: &World| {
            let due = world.parts.iter().enumerate();
            due.filter_map(|(n, part)| Some((part.partition.next_deadline()?, n))).min().filter(|next| next.0 <= end)
        };
        while let Some((due, part)) = next(self) {
            self.now = due.max(self.now);
            self.apply(part, Command::Tick);
        }
        self.now = end;
    }

    pub fn settle(&mut self) {
        loop {
            let parts = 0..self.parts.len();
            let moved = parts.fold(false, |moved, part| self.deliver(part) | self.work(part) | moved);
            if !(moved | self.handle() | self.hear()) {
                return;
            }
        }
    }

    pub fn placed(&self, like: &str) -> usize {
        self.truth.pods.keys().filter(|key| key.starts_with(like)).count()
    }

    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    pub fn audit(&self) -> Vec<String> {
        self.parts.iter().flat_map(|part| part.partition.audit()).map(|finding| format!("{finding:?}")).collect()
    }
}
