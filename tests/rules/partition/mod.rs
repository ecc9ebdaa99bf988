//! `domain::Partition` from outside: commands in, effects out, and an audit of every book after every step.

mod again;
mod atomic;
#[cfg(debug_assertions)]
mod constrained;
mod cost;
mod drain;
mod env;
mod explain;
mod gang;
mod gang_begins;
mod gang_first;
mod gang_reserved;
mod gang_rules;
mod gang_speed;
mod gang_stress;
mod life;
mod metered;
mod one_request;
mod predicates;
mod preempt;
mod queue_laws;
mod queue_orders;
mod queues;
mod random;
mod recorded;
mod records;
mod reload_speed;
mod remedies;
mod reservations;
mod speed;
mod squeeze;
mod twin;
mod usage;
mod whatif;
mod when;
mod withdrawn;
