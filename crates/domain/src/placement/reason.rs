//! Texts of rejections: why an application got no queue (R3.24, R3.24a, PLC-035, PLC-041).

use std::fmt::Display;

/// The rules were run and gave no queue: `cause` is one of a rule, or [`NO_MATCH`].
pub fn not_placed(app: &str, cause: impl Display) -> String {
    format!("failed to place application {app}: {cause}")
}

/// No rule gave a queue (PLC-041).
pub const NO_MATCH: &str = "application rejected: no placement rule matched";

/// A parent rule gave a leaf (PLC-007).
pub fn parent_is_leaf(queue: &str) -> String {
    format!("parent rule returned a leaf queue: {queue}")
}

/// A queue that a rule gave cannot be made; `cause` is one of the functions below.
pub fn not_created(app: &str, queue: &str, cause: impl Display) -> String {
    format!("failed to create rule based queue {queue} for application {app}\n{cause}")
}

/// Cause: the lowest existing ancestor is a leaf.
pub fn below_leaf(queue: &str, ancestor: &str) -> String {
    format!("creation of queue {queue} failed parent is already a leaf: {ancestor}")
}

/// Cause: the lowest existing ancestor is draining (QUE-005).
pub fn below_draining(ancestor: &str) -> String {
    format!("dynamic queue creation failed: \ncannot add a child queue when queue is marked for deletion: {ancestor}")
}

/// Cause: the name is kept for the recovery queue (PLC-044).
pub fn reserved_name() -> String {
    format!("dynamic queue cannot be {}", crate::queue::RECOVERY_QUEUE)
}

/// The queue is gone or has become a parent since it was chosen.
pub fn not_found(app: &str, queue: &str) -> String {
    format!("failed to find queue {queue} for application {app}")
}
