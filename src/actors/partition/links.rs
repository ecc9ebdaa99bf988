//! What a partition is connected to, beside its resource manager and the event system.

use std::{path::Path, sync::Arc};

use actix::Addr;

use crate::{
    actors::{journal::JournalActor, resolvers::ldap::SECRETS},
    metrics::Metrics,
};

/// See the module. Without a link the partition does without.
#[derive(Clone)]
pub struct Links {
    /// Its resource journal.
    pub journal: Option<Addr<JournalActor>>,
    /// Takes what is counted.
    pub metrics: Option<Arc<Metrics>>,
    /// Directory of the LDAP settings, read where the resolver is `ldap`.
    pub ldap_secrets: Arc<Path>,
}

impl Default for Links {
    fn default() -> Self {
        Links { journal: None, metrics: None, ldap_secrets: Path::new(SECRETS).into() }
    }
}
