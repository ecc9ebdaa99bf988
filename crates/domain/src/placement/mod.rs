//! Placement rules: which queue an application goes to (section 6 of the queue rules).
//!
//! [`RuleConf`] is a rule that can run, made from a [`RuleSpec`]; [`place`] runs them all; [`reason`] has the texts of
//! rejections; [`view`] is what REST shows.

mod evaluate;
mod filter;
mod re2;
pub mod reason;
mod rule;
mod view;

pub(crate) use evaluate::tag;
pub use evaluate::{FORCE_TAG, QueueLookup, QueuePlacement, QueueStatus, Submission, is_forced, may_submit, place};
pub use filter::{Expression, Filter, MAX_EXPRESSIONS, Names, Verdict, is_expression, size};
pub use rule::{FilterSpec, RuleConf, RuleKind, RuleSpec, is_qualified};
pub use view::{FilterView, RuleView, views};
