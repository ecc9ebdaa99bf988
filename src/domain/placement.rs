//! Placement rules: which queue an application goes to (section 6 of the queue rules).

/// One rule with its chain of parents.
#[derive(Clone, Debug)]
pub struct RuleConf {
    /// Make the queue where it does not exist (PLC-015).
    pub create: bool,
}
