//! Tokens of an issuer (OpenID Connect): JWTs, whose signatures are checked with the keys that it publishes.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use arc_swap::ArcSwap;
use jsonwebtoken::{
    DecodingKey, Validation, decode, decode_header,
    errors::ErrorKind,
    jwk::{Jwk, KeyAlgorithm, PublicKeyUse},
};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Notify;

use super::{
    Role,
    line::{Grant, Proof},
    signatures::{self, ALGORITHMS},
};

/// Keys of an issuer that are taken at most.
const KEYS: usize = 100;

/// Seconds by which the issuer's clock may differ from ours.
pub const LEEWAY: u64 = 60;

/// What is believed of an issuer's tokens.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Its address, as `iss` of its tokens has it.
    pub issuer: String,
    /// One of `aud` has to be this.
    pub audience: String,
    /// The claim that says what its holder is: a text with blanks between words or a list, in the manner of `realm_access.roles`.
    pub claim: String,
    /// Which of its values is which role; the highest holds.
    pub roles: BTreeMap<String, Role>,
    /// The claim that names the resource managers its holder may act for; without it all.
    pub rms: String,
}

/// See the module.
pub struct Issuer {
    terms: Terms,
    keys: ArcSwap<Vec<Key>>,
    /// A token came whose key is not known.
    pub wanted: Notify,
}

struct Key {
    id: Option<String>,
    /// The only one that it is for, where that is said.
    algorithm: Option<KeyAlgorithm>,
    key: DecodingKey,
}

impl std::fmt::Debug for Issuer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issuer").field("terms", &self.terms).finish_non_exhaustive()
    }
}

impl Issuer {
    /// One whose keys are not known yet.
    pub fn new(terms: Terms) -> Issuer {
        signatures::prepare();
        Issuer { terms, keys: ArcSwap::default(), wanted: Notify::new() }
    }

    /// What is believed.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Takes over the keys that it publishes (RFC 7517), each by itself; those of kinds that are not known, and those that are for
    /// something else than signatures, are left out. Gives how many there are.
    ///
    /// # Errors
    /// It is no set of keys, or none of them can be used: those that were known stay.
    pub fn learn(&self, text: &str) -> Result<usize, String> {
        let set: Set = serde_json::from_str(text).map_err(|error| format!("it is no set of keys: {error}"))?;
        let key = |entry: Value| {
            let jwk: Jwk = serde_json::from_value(entry).ok()?;
            // One that is for encryption may be held by others, who sign nothing.
            if !matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
                return None;
            }
            let key = DecodingKey::from_jwk(&jwk).ok()?;
            Some(Key { id: jwk.common.key_id, algorithm: jwk.common.key_algorithm, key })
        };
        let keys: Vec<Key> = set.keys.into_iter().filter_map(key).take(KEYS).collect();
        if keys.is_empty() {
            return Err("it holds no key that can be used".to_owned());
        }
        let count = keys.len();
        self.keys.store(Arc::new(keys));
        Ok(count)
    }

    /// What a token grants; `None`: it is none of this issuer, or grants nothing. The log says why at the level debug.
    pub fn grant(&self, token: &str) -> Option<Grant> {
        if token.split('.').count() != 3 {
            return None;
        }
        self.check(token).inspect_err(|why| tracing::debug!(%why, "a token of the issuer is not taken")).ok()
    }

    fn check(&self, token: &str) -> Result<Grant, String> {
        let header = decode_header(token).map_err(|error| error.to_string())?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(format!("algorithm {:?} is not taken", header.alg));
        }
        if let Some(critical) = header.crit.filter(|names| !names.is_empty()) {
            return Err(format!("it takes more than is known here: {}", critical.join(", ")));
        }
        let mut terms = Validation::new(header.alg);
        terms.set_required_spec_claims(&["exp", "iss", "aud"]);
        terms.set_issuer(&[&self.terms.issuer]);
        terms.set_audience(&[&self.terms.audience]);
        terms.validate_nbf = true;
        terms.leeway = LEEWAY;
        let keys = self.keys.load();
        let fits = |key: &&Key| {
            key.key.family() == header.alg.family()
                && key.algorithm.is_none_or(|only| only == header.alg.into())
                && (header.kid.is_none() || key.id == header.kid)
        };
        let mut why = None;
        for key in keys.iter().filter(fits) {
            match decode::<Value>(token, &key.key, &terms) {
                Ok(read) => return self.read(&read.claims),
                // Another key of this name may have taken its place, or it has none.
                Err(error) if matches!(error.kind(), ErrorKind::InvalidSignature) => {}
                Err(error) => why = Some(error.to_string()),
            }
        }
        Err(why.unwrap_or_else(|| {
            self.wanted.notify_one();
            format!("its key {:?} is not known", header.kid)
        }))
    }

    fn read(&self, claims: &Value) -> Result<Grant, String> {
        // A claim may have dots in its own name, as those have that are named by a URI.
        let within = |claim: &str| claim.split('.').try_fold(claims, |value, name| value.get(name));
        let of = |claim: &str| claims.get(claim).or_else(|| within(claim));
        // The library also takes a list that names it among others.
        if claims["iss"] != *self.terms.issuer {
            return Err(format!("iss is {}", claims["iss"]));
        }
        let subject = claims["sub"].as_str().filter(|subject| !subject.is_empty()).ok_or("it has no sub")?;
        let expires = claims["exp"].as_f64().ok_or("exp is no number")?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        if claims["iat"].as_f64().is_some_and(|issued| issued > now + LEEWAY as f64) {
            return Err(format!("it was issued in the future: {}", claims["iat"]));
        }
        let roles = words(of(&self.terms.claim));
        let role = roles.iter().filter_map(|word| self.terms.roles.get(word)).max().copied();
        let role =
            role.ok_or_else(|| format!("{} of the user \"{subject}\" names no role: {roles:?}", self.terms.claim))?;
        // As in the tokens file: an operator's orders go to whichever partition they name.
        if role == Role::Operator && of(&self.terms.rms).is_some() {
            // In quotes, as where it names no role: `callboard diagnose` knows a name by them.
            return Err(format!(
                "the user \"{subject}\" is an operator, who is not bound to resource managers: {}",
                self.terms.rms
            ));
        }
        let rms = of(&self.terms.rms).map(|rms| words(Some(rms)).into_iter().map(Arc::from).collect());
        let name = format!("oidc:{}", subject.chars().take(200).collect::<String>()).into();
        Ok(Grant { role, proof: Proof::Issued(expires.max(0.0) as u64), name, rms, configures: false })
    }
}

/// A set of keys, of which each is looked at by itself: one that is odd takes none of the others along.
#[derive(Deserialize)]
struct Set {
    keys: Vec<Value>,
}

/// The words of a claim.
fn words(claim: Option<&Value>) -> Vec<String> {
    match claim {
        Some(Value::String(text)) => text.split_whitespace().map(str::to_owned).collect(),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    use ring::{
        rand::SystemRandom,
        signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _},
    };
    use serde_json::json;

    use super::*;

    struct Signer {
        id: &'static str,
        pair: EcdsaKeyPair,
    }

    fn b64(bytes: impl AsRef<[u8]>) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    impl Signer {
        fn new(id: &'static str) -> Signer {
            let random = SystemRandom::new();
            let text = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
            Signer {
                id,
                pair: EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, text.as_ref(), &random).unwrap(),
            }
        }

        fn jwk(&self) -> Value {
            let point = self.pair.public_key().as_ref();
            json!({"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": self.id, "x": b64(&point[1..33]), "y": b64(&point[33..])})
        }

        fn token(&self, header: &Value, claims: &Value) -> String {
            let text = format!("{}.{}", b64(header.to_string()), b64(claims.to_string()));
            let signature = self.pair.sign(&SystemRandom::new(), text.as_bytes()).unwrap();
            format!("{text}.{}", b64(signature))
        }
    }

    fn issuer() -> Issuer {
        Issuer::new(Terms {
            issuer: "https://id.example".into(),
            audience: "callboard".into(),
            claim: "realm_access.roles".into(),
            roles: [("ops".into(), Role::Operator), ("shims".into(), Role::Shim)].into(),
            rms: "rms".into(),
        })
    }

    fn claims(more: Value) -> Value {
        let mut claims = json!({"iss": "https://id.example", "aud": ["other", "callboard"], "sub": "alice", "exp": 4_000_000_000_u64,
            "realm_access": {"roles": ["shims", "ops", "more"]}});
        for (key, value) in more.as_object().unwrap() {
            claims[key] = value.clone();
        }
        claims
    }

    #[test]
    fn keys_are_looked_at_one_by_one_and_only_those_for_signatures_count() {
        let (issuer, signer, other) = (issuer(), Signer::new("one"), Signer::new("two"));
        let mut encrypts = other.jwk();
        encrypts["use"] = json!("enc");
        let odd = json!({"kty": "EC", "crv": 7, "kid": ["x"]});
        let set = json!({"keys": [odd, 1, encrypts, signer.jwk()]});
        assert_eq!(issuer.learn(&set.to_string()), Ok(1));
        let token = |signer: &Signer| signer.token(&json!({"alg": "ES256", "kid": signer.id}), &claims(json!({})));
        assert!(issuer.grant(&token(&signer)).is_some() && issuer.grant(&token(&other)).is_none());
        let mut unsaid = other.jwk();
        unsaid.as_object_mut().unwrap().remove("use");
        assert_eq!(issuer.learn(&json!({"keys": [unsaid]}).to_string()), Ok(1));
        assert!(issuer.grant(&token(&other)).is_some(), "for whatever");
    }

    #[test]
    fn a_claim_may_have_dots_in_its_own_name() {
        let claim = "https://board.example/roles";
        let issuer = Issuer::new(Terms { claim: claim.into(), ..issuer().terms });
        let signer = Signer::new("one");
        issuer.learn(&json!({"keys": [signer.jwk()]}).to_string()).unwrap();
        let token = signer.token(&json!({"alg": "ES256", "kid": "one"}), &claims(json!({claim: ["shims"]})));
        assert_eq!(issuer.grant(&token).unwrap().role, Role::Shim);
    }

    #[test]
    fn a_token_grants_what_its_claims_say_as_long_as_its_signature_is_right() {
        let (issuer, signer, other) = (issuer(), Signer::new("one"), Signer::new("one"));
        let header = json!({"alg": "ES256", "kid": "one"});
        let token = signer.token(&header, &claims(json!({})));
        assert!(issuer.grant(&token).is_none(), "its key is not known yet");
        let ed =
            Ed25519KeyPair::from_pkcs8(Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap().as_ref()).unwrap();
        let set = json!({"keys": [
            {"kty": "oct", "k": b64("secret"), "kid": "shared"},
            {"kty": "OKP", "crv": "Ed25519", "kid": "two", "x": b64(ed.public_key())},
            signer.jwk(),
        ]});
        assert_eq!(issuer.learn(&set.to_string()), Ok(3));
        let grant = issuer.grant(&token).unwrap();
        assert_eq!((grant.role, &*grant.name, &grant.rms), (Role::Operator, "oidc:alice", &None));
        assert_eq!(grant.proof, Proof::Issued(4_000_000_000));
        let shim = signer.token(&header, &claims(json!({"realm_access": {"roles": "shims"}, "rms": ["rm-1"]})));
        let shim = issuer.grant(&shim).unwrap();
        assert_eq!((shim.role, shim.rms), (Role::Shim, Some(["rm-1".into()].into())));
        let text = format!("{}.{}", b64(json!({"alg": "EdDSA"}).to_string()), b64(claims(json!({})).to_string()));
        let unnamed = format!("{text}.{}", b64(ed.sign(text.as_bytes())));
        assert!(issuer.grant(&unnamed).is_some(), "without a key id");
        for (what, token) in [
            ("another key", other.token(&header, &claims(json!({})))),
            ("an unknown key", signer.token(&json!({"alg": "ES256", "kid": "three"}), &claims(json!({})))),
            ("no signature", format!("{}.", token.rsplit_once('.').unwrap().0)),
            ("alg none", signer.token(&json!({"alg": "none"}), &claims(json!({})))),
            ("a shared secret", signer.token(&json!({"alg": "HS256", "kid": "shared"}), &claims(json!({})))),
            ("expired", signer.token(&header, &claims(json!({"exp": 1_600_000_000})))),
            ("issued in the future", signer.token(&header, &claims(json!({"iat": 3_900_000_000_u64})))),
            ("critical", signer.token(&json!({"alg": "ES256", "kid": "one", "crit": ["b64"]}), &claims(json!({})))),
            ("not yet", signer.token(&header, &claims(json!({"nbf": 3_900_000_000_u64})))),
            ("another issuer", signer.token(&header, &claims(json!({"iss": "https://evil.example"})))),
            (
                "several issuers",
                signer.token(&header, &claims(json!({"iss": ["https://evil.example", "https://id.example"]}))),
            ),
            ("another audience", signer.token(&header, &claims(json!({"aud": "other"})))),
            ("no role", signer.token(&header, &claims(json!({"realm_access": {"roles": ["more"]}})))),
            ("an operator of some resource managers", signer.token(&header, &claims(json!({"rms": ["rm-1"]})))),
            ("no subject", signer.token(&header, &claims(json!({"sub": ""})))),
            ("a token of the file", "cbt_x".to_owned()),
            ("nothing", "..".to_owned()),
        ] {
            assert!(issuer.grant(&token).is_none(), "{what}");
        }
        // A key that says what it is for is for nothing else.
        let mut strict = set.clone();
        strict["keys"][1]["alg"] = json!("ES384");
        assert!(issuer.learn(&strict.to_string()).is_ok() && issuer.grant(&unnamed).is_none());
        assert_eq!(issuer.learn(&set.to_string()), Ok(3));
        let mut changed = token.clone().into_bytes();
        changed[40] ^= 1;
        assert!(issuer.grant(&String::from_utf8(changed).unwrap()).is_none());
        for wrong in ["{}", "[]", "x", r#"{"keys": []}"#] {
            assert!(issuer.learn(wrong).is_err(), "{wrong}");
        }
        assert!(issuer.grant(&token).is_some(), "what was known stays");
    }
}
