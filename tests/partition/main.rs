//! `domain::Partition` from outside: commands in, effects out, and an audit of every book after every step.

mod env;
mod gang;
mod life;
mod preempt;
mod random;
mod speed;
