//! The limits of a configuration, made ready for look-ups by path and name (UGM-010–UGM-016, UGM-020–UGM-023).

use std::{collections::BTreeMap, sync::Arc};

use super::Who;
use crate::{conf::LimitConf, resources::Resource};

/// Every user, or every group, that no limit of the queue names (UGM-014, SEEDS S30).
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
    /// Named users and groups, and the wildcard group, in the order of the configuration.
    pub order: Vec<(Who, Arc<str>)>,
    users: BTreeMap<Arc<str>, Arc<Limit>>,
    /// With the place in `order`.
    groups: BTreeMap<Arc<str>, (usize, Arc<Limit>)>,
    /// For each user without a limit of its own here.
    pub every_user: Option<Arc<Limit>>,
    /// For each group without a limit of its own here.
    pub every_group: Option<Arc<Limit>>,
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
                every_user: None,
                every_group: None,
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

    /// The limit that holds for a user or group at a path: its own, else the wildcard's (UGM-003, UGM-014, SEEDS S30).
    pub fn of(&self, who: Who, name: &str, path: &str) -> Option<&Arc<Limit>> {
        let limits = self.get(path)?;
        limits.named(who, name).or(match who {
            Who::User => limits.every_user.as_ref(),
            Who::Group => limits.every_group.as_ref(),
        })
    }

    /// The group that an application of a user in `groups` is charged to: the first that a limit on the path names, from the
    /// leaf up and in the order of the configuration (UGM-021); else, where a wildcard limits groups on the path, the first
    /// of them by name, whatever order they came in. None without groups, and where no limit is about groups (UGM-023).
    pub fn group_of(&self, groups: &[Arc<str>], chain: &[Arc<str>]) -> Option<Arc<str>> {
        let mut wildcard = false;
        for limits in chain.iter().rev().filter_map(|path| self.get(path)) {
            if let Some(first) = limits.first_of(groups) {
                return Some(first.clone());
            }
            wildcard |= limits.every_group.is_some();
        }
        groups.iter().min().filter(|_| wildcard).cloned()
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
                self.every_user.get_or_insert_with(|| limit.clone());
            } else if !self.users.contains_key(user) {
                self.users.insert(user.clone(), limit.clone());
                self.order.push((Who::User, user.clone()));
            }
        }
        for group in &entry.groups {
            if self.has(Who::Group, group) {
                continue;
            }
            if **group == *WILDCARD {
                self.every_group = Some(limit.clone());
                self.order.push((Who::Group, group.clone()));
            } else {
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

    /// There is a limit under this very name, the wildcard group's included.
    pub fn has(&self, who: Who, name: &str) -> bool {
        self.named(who, name).is_some() || who == Who::Group && name == WILDCARD && self.every_group.is_some()
    }

    /// The group of these that is configured first.
    fn first_of(&self, groups: &[Arc<str>]) -> Option<&Arc<str>> {
        let named = groups.iter().filter_map(|group| self.groups.get_key_value(group));
        named.min_by_key(|(_, (place, _))| *place).map(|(name, _)| name)
    }
}
