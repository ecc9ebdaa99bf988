//! The limits of a configuration, made ready for look-ups by path and name (UGM-010–UGM-016, UGM-020–UGM-023).

use std::{collections::BTreeMap, sync::Arc};

use super::Who;
use crate::{conf::LimitConf, resources::Resource};

/// Every user, or every group that is not named (UGM-011, UGM-014).
pub(super) const WILDCARD: &str = "*";

/// One limit; all names of an entry share it, each with its own usage (UGM-011).
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Resources at most; `None`: any amount (UGM-013). An explicit 0 forbids that type (UGM-032).
    pub resources: Option<Resource>,
    /// Applications at most; 0: any number.
    pub applications: u64,
}

/// All limits of a partition.
#[derive(Debug, Default)]
pub(super) struct Limits {
    /// In the order of the configuration.
    pub paths: Vec<PathLimits>,
    by_path: BTreeMap<Arc<str>, usize>,
}

/// The limits of one queue.
#[derive(Debug)]
pub(super) struct PathLimits {
    pub path: Arc<str>,
    /// Named users, and all groups with the wildcard group, in the order of the configuration.
    pub order: Vec<(Who, Arc<str>)>,
    users: BTreeMap<Arc<str>, Arc<Limit>>,
    /// With the place in `order`.
    groups: BTreeMap<Arc<str>, (usize, Arc<Limit>)>,
    /// For each user without a limit of its own here.
    pub everyone: Option<Arc<Limit>>,
}

impl Limits {
    pub fn new<'a>(limits: impl IntoIterator<Item = (&'a Arc<str>, &'a [LimitConf])>) -> Limits {
        let mut all = Limits::default();
        for (path, entries) in limits {
            for entry in entries {
                all.at(path).add(entry);
            }
        }
        all
    }

    fn at(&mut self, path: &Arc<str>) -> &mut PathLimits {
        let at = *self.by_path.entry(path.clone()).or_insert_with(|| {
            self.paths.push(PathLimits {
                path: path.clone(),
                order: Vec::new(),
                users: BTreeMap::new(),
                groups: BTreeMap::new(),
                everyone: None,
            });
            self.paths.len() - 1
        });
        &mut self.paths[at]
    }

    pub fn get(&self, path: &str) -> Option<&PathLimits> {
        Some(&self.paths[*self.by_path.get(path)?])
    }

    /// The limit that is configured for this very name at a path.
    pub fn named(&self, who: Who, name: &str, path: &str) -> Option<&Arc<Limit>> {
        self.get(path)?.named(who, name)
    }

    /// The limit that holds for a user or group at a path: its own, else for a user the wildcard (UGM-003, UGM-014).
    pub fn of(&self, who: Who, name: &str, path: &str) -> Option<&Arc<Limit>> {
        let limits = self.get(path)?;
        limits.named(who, name).or(limits.everyone.as_ref().filter(|_| who == Who::User))
    }

    /// The group that an application of a user in `groups` is charged to: from the leaf up, at each level the first
    /// configured one of them, else the wildcard (UGM-021, UGM-022). None without groups (UGM-023).
    pub fn group_of(&self, groups: &[Arc<str>], chain: &[Arc<str>]) -> Option<Arc<str>> {
        if groups.is_empty() {
            return None;
        }
        chain.iter().rev().find_map(|path| self.get(path)?.group_of(groups))
    }
}

impl PathLimits {
    fn add(&mut self, entry: &LimitConf) {
        let limit = Arc::new(Limit {
            resources: entry.max_resources.clone().filter(|max| !max.is_empty()),
            applications: entry.max_applications,
        });
        for user in &entry.users {
            if **user == *WILDCARD {
                self.everyone.get_or_insert_with(|| limit.clone());
            } else if !self.users.contains_key(user) {
                self.users.insert(user.clone(), limit.clone());
                self.order.push((Who::User, user.clone()));
            }
        }
        for group in &entry.groups {
            if !self.groups.contains_key(group) {
                self.groups.insert(group.clone(), (self.order.len(), limit.clone()));
                self.order.push((Who::Group, group.clone()));
            }
        }
    }

    pub fn named(&self, who: Who, name: &str) -> Option<&Arc<Limit>> {
        match who {
            Who::User => self.users.get(name),
            Who::Group => self.groups.get(name).map(|(_, limit)| limit),
        }
    }

    fn group_of(&self, groups: &[Arc<str>]) -> Option<Arc<str>> {
        let named =
            groups.iter().filter(|group| ***group != *WILDCARD).filter_map(|group| self.groups.get_key_value(group));
        let first = named.min_by_key(|(_, (place, _))| *place);
        first.or_else(|| self.groups.get_key_value(WILDCARD)).map(|(name, _)| name.clone())
    }
}
