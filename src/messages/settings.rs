//! The options of a running server, as REST shows them and as `callboard settings` reads them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An option of the command line.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerOption {
    /// As it is given, without the dashes before it.
    pub name: String,
    /// What is given with it, such as ADDR|off; flag: nothing is.
    pub r#type: String,
    /// What is in force; null: nothing was given. Paths of secrets, never what is in them.
    pub value: Option<String>,
    /// Left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The variable of the environment that says the same; left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// It is not as it would be if nothing was given.
    pub set: bool,
    /// What it does.
    pub description: String,
}
