//! Whoever sent a request, and what they may do.

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

use super::{
    Role, Tokens,
    certificate::Shown,
    line::{Grant, Proof},
    tokens::Lease,
};

/// The sender of a request.
#[derive(Clone, Debug)]
pub enum Caller {
    /// The server has no tokens: everybody may do everything.
    Anyone,
    /// The holder of a token.
    Holder(Arc<Grant>),
}

/// Why a request is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// It has no token.
    #[error("this needs a token: send the header Authorization: Bearer TOKEN")]
    NoToken,
    /// The certificate of its connection was good when that began.
    #[error("the certificate of this connection has expired: connect again with a new one")]
    Expired,
    /// Its token is not known.
    #[error("the token is not one of this server, or not any more")]
    Unknown,
    /// Its token does not suffice.
    #[error("this needs the role {needed}; the token \"{name}\" has the role {role}")]
    Role {
        /// What it takes.
        needed: Role,
        /// Name of the token.
        name: Arc<str>,
        /// What it is.
        role: Role,
    },
    /// A shim's token that may not configure.
    #[error(
        "a change of the configuration needs the role operator, or a token of a shim with \"configures\"; the token \
         \"{name}\" has the role {role}"
    )]
    Configures {
        /// Name of the token.
        name: Arc<str>,
        /// What it is.
        role: Role,
    },
    /// Its token is for other resource managers.
    #[error("the token \"{name}\" may not act for resource manager \"{rm}\", only for {allowed}")]
    Rm {
        /// Name of the token.
        name: Arc<str>,
        /// The resource manager.
        rm: String,
        /// Those it is for.
        allowed: String,
    },
}

impl Denied {
    /// Nobody known asked, so that another token may help: HTTP 401, else 403.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Denied::NoToken | Denied::Unknown | Denied::Expired)
    }

    /// The kind of refusal, as metrics name it.
    pub fn reason(&self) -> &'static str {
        match self {
            Denied::NoToken => "no_token",
            Denied::Unknown | Denied::Expired => "unknown_token",
            Denied::Role { .. } | Denied::Configures { .. } => "role",
            Denied::Rm { .. } => "resource_manager",
        }
    }

    /// The value of `WWW-Authenticate` (RFC 6750).
    pub fn challenge(&self) -> String {
        let error = match self {
            Denied::NoToken => String::new(),
            Denied::Unknown | Denied::Expired => ", error=\"invalid_token\"".to_owned(),
            Denied::Role { needed, .. } => format!(", error=\"insufficient_scope\", scope=\"{needed}\""),
            Denied::Configures { .. } => ", error=\"insufficient_scope\", scope=\"operator\"".to_owned(),
            Denied::Rm { .. } => ", error=\"insufficient_scope\"".to_owned(),
        };
        format!("Bearer realm=\"callboard\"{error}")
    }
}

impl Caller {
    /// Who sends this token, or over a connection on which this was shown; `tokens` are those of the server, where it has any. A
    /// token goes before.
    ///
    /// # Errors
    /// There is neither, or it is not known, or not good any more.
    pub fn identify(tokens: Option<&Tokens>, token: Option<&str>, shown: &Shown) -> Result<Caller, Denied> {
        let Some(tokens) = tokens else { return Ok(Caller::Anyone) };
        match token {
            Some(token) => tokens.find(token).map(Caller::Holder).ok_or(Denied::Unknown),
            None => {
                let grant = tokens.find_certificate(shown.names()).ok_or(Denied::NoToken)?;
                if shown.has_expired() { Err(Denied::Expired) } else { Ok(Caller::Holder(grant)) }
            }
        }
    }

    /// What callers are counted by: what was shown, since two tokens may have one name; else the address.
    pub fn key(&self, address: Option<IpAddr>) -> String {
        match self {
            // The name of an issuer's token is its subject: the next token of the same holder has it too.
            Caller::Holder(grant) => match &grant.proof {
                Proof::Issued(_) => format!("issued {}", grant.name),
                proof => proof.to_string(),
            },
            Caller::Anyone => self.identity(address),
        }
    }

    /// Who it is, for texts: the name of its token, else its address (of IPv6, the network of a site).
    pub fn identity(&self, address: Option<IpAddr>) -> String {
        match (self, address.map(|address| address.to_canonical())) {
            (Caller::Holder(grant), _) => format!("token {}", grant.name),
            (Caller::Anyone, Some(IpAddr::V6(address))) => {
                let network = address.to_bits() >> 64 << 64;
                format!("address {}/64", Ipv6Addr::from_bits(network))
            }
            (Caller::Anyone, Some(address)) => format!("address {address}"),
            (Caller::Anyone, None) => String::new(),
        }
    }

    /// Is this, or more.
    ///
    /// # Errors
    /// The caller has a token with a lesser role.
    pub fn needs(&self, needed: Role) -> Result<(), Denied> {
        match self {
            Caller::Holder(grant) if grant.role < needed => {
                Err(Denied::Role { needed, name: grant.name.clone(), role: grant.role })
            }
            _ => Ok(()),
        }
    }

    /// The name of its token, for the log.
    pub fn name(&self) -> &str {
        match self {
            Caller::Anyone => "anyone",
            Caller::Holder(grant) => &grant.name,
        }
    }

    /// What it is; without tokens everybody is everything.
    pub fn role(&self) -> Role {
        match self {
            Caller::Anyone => Role::Operator,
            Caller::Holder(grant) => grant.role,
        }
    }

    /// Is a resource manager, and no operator: the settings of the whole process are not its.
    pub fn is_tenant(&self) -> bool {
        self.needs(Role::Operator).is_err()
    }

    /// May act for this resource manager.
    ///
    /// # Errors
    /// Its token is for other resource managers only.
    pub fn acts_for(&self, rm: &str) -> Result<(), Denied> {
        let Caller::Holder(grant) = self else { return Ok(()) };
        let Some(rms) = &grant.rms else { return Ok(()) };
        if rms.iter().any(|allowed| **allowed == *rm) {
            return Ok(());
        }
        Err(Denied::Rm { name: grant.name.clone(), rm: rm.to_owned(), allowed: rms.join(", ") })
    }

    /// May change the configuration of a running session.
    ///
    /// # Errors
    /// Its role does not allow that.
    pub fn configures(&self) -> Result<(), Denied> {
        match self {
            Caller::Holder(grant) if grant.role < Role::Operator && !(grant.role == Role::Shim && grant.configures) => {
                Err(Denied::Configures { name: grant.name.clone(), role: grant.role })
            }
            _ => Ok(()),
        }
    }

    /// The right to go on with a long answer over a connection on which this was shown; `None` where it never ends.
    pub fn lease(&self, tokens: Option<&Arc<Tokens>>, shown: &Shown) -> Option<Lease> {
        match (self, tokens) {
            (Caller::Holder(grant), Some(tokens)) => Some(Lease::new(tokens.clone(), grant.clone(), shown.until())),
            _ => None,
        }
    }
}

/// The token of an `Authorization` header.
pub fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Digest;

    fn holder(role: Role, rms: Option<&[&str]>, configures: bool) -> Caller {
        let rms = rms.map(|rms| rms.iter().map(|rm| Arc::from(*rm)).collect());
        Caller::Holder(Arc::new(Grant {
            role,
            proof: Proof::Token(Digest::of("x")),
            name: "x".into(),
            rms,
            configures,
        }))
    }

    #[test]
    fn roles_include_those_before_them() {
        for (role, may) in
            [(Role::Viewer, [true, false, false]), (Role::Shim, [true, true, false]), (Role::Operator, [true; 3])]
        {
            let caller = holder(role, None, false);
            assert_eq!(Role::ALL.map(|needed| caller.needs(needed).is_ok()), may, "{role}");
            assert_eq!(
                (caller.configures().is_ok(), !caller.is_tenant()),
                (role == Role::Operator, role == Role::Operator)
            );
        }
        assert!(holder(Role::Shim, None, true).configures().is_ok());
        assert!(holder(Role::Viewer, None, true).configures().is_err());
        let denied = holder(Role::Viewer, None, false).needs(Role::Operator).unwrap_err();
        assert_eq!(denied.to_string(), "this needs the role operator; the token \"x\" has the role viewer");
        let challenge = "Bearer realm=\"callboard\", error=\"insufficient_scope\", scope=\"operator\"";
        assert_eq!(denied.challenge(), challenge);
    }

    #[test]
    fn a_token_may_be_for_some_resource_managers() {
        let some = holder(Role::Shim, Some(&["rm-1", "rm-2"]), false);
        assert!(some.acts_for("rm-1").is_ok() && holder(Role::Shim, None, false).acts_for("any").is_ok());
        let denied = some.acts_for("rm-3").unwrap_err().to_string();
        assert_eq!(denied, "the token \"x\" may not act for resource manager \"rm-3\", only for rm-1, rm-2");
    }

    #[test]
    fn headers() {
        assert_eq!(bearer("Bearer abc"), Some("abc"));
        assert_eq!(bearer("  bearer   abc "), Some("abc"));
        for none in ["", "Bearer", "Bearer ", "Basic abc", "abc"] {
            assert_eq!(bearer(none), None, "{none:?}");
        }
    }

    #[test]
    fn without_tokens_everybody_may_do_everything() {
        let anyone = Caller::identify(None, Some("whatever"), &Shown::default()).unwrap();
        assert!(anyone.needs(Role::Operator).is_ok() && anyone.acts_for("x").is_ok() && anyone.configures().is_ok());
        assert!(!anyone.is_tenant());
        let identity = |address: &str| anyone.identity(Some(address.parse().unwrap()));
        assert_eq!(identity("::ffff:10.0.0.1"), "address 10.0.0.1");
        assert_eq!(identity("2001:db8:1:2:3:4:5:6"), "address 2001:db8:1:2::/64");
        assert_eq!(holder(Role::Viewer, None, false).identity(None), "token x");
    }

    #[test]
    fn callers_are_counted_by_what_they_show() {
        let key = |proof, name: &str| {
            let grant = Grant { role: Role::Shim, proof, name: name.into(), rms: None, configures: false };
            Caller::Holder(Arc::new(grant)).key(None)
        };
        let token = |token: &str, name: &str| key(Proof::Token(Digest::of(token)), name);
        let issued = |until| key(Proof::Issued(until), "oidc:x");
        assert_ne!(token("a", "unnamed"), token("b", "unnamed"));
        assert_eq!(token("a", "one"), token("a", "renamed"));
        assert_ne!(token("a", "oidc:x"), issued(1));
        assert_eq!(issued(1), issued(2), "the next token of the same holder");
        let address = Some("10.0.0.1".parse().unwrap());
        assert_eq!(Caller::Anyone.key(address), "address 10.0.0.1");
    }
}
