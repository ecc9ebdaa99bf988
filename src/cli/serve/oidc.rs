//! The keys of an issuer of tokens: found by OpenID Connect Discovery, and asked for again every few minutes, and when a token
//! comes whose key is not known.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use clap::Args;
use hyper::{Method, Uri};
use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout};

use crate::{
    access::{
        Role,
        issuer::{Issuer, Terms},
    },
    cli::{
        client::{net::Client, trust::Trust},
        url::{self, without_user},
    },
};

/// Whose tokens are believed beside those of the file.
#[derive(Args, Clone, Debug, Default)]
pub struct OidcArgs {
    /// Issuer of tokens (OpenID Connect) that are believed beside those of the tokens file, such as https://id.example/realms/ops
    #[arg(long, value_name = "URL", value_parser = url::option, env = "CALLBOARD_OIDC_ISSUER", requires_all = ["tokens", "oidc_audience", "oidc_role"])]
    pub oidc_issuer: Option<String>,
    /// What `aud` of its tokens has to name
    #[arg(long, value_name = "TEXT", env = "CALLBOARD_OIDC_AUDIENCE", requires = "oidc_issuer")]
    pub oidc_audience: Option<String>,
    /// Which value of the claim is which role (viewer, shim, operator), such as board-admins=operator
    #[arg(long, value_name = "VALUE=ROLE", env = "CALLBOARD_OIDC_ROLE", value_delimiter = ',', value_parser = role, requires = "oidc_issuer")]
    pub oidc_role: Vec<(String, Role)>,
    /// The claim with these values, such as groups or realm_access.roles
    #[arg(long, value_name = "NAME", env = "CALLBOARD_OIDC_CLAIM", default_value = "roles")]
    pub oidc_claim: String,
    /// The claim with the resource managers that its holder may act for; a token without it may act for all
    #[arg(long, value_name = "NAME", env = "CALLBOARD_OIDC_RMS_CLAIM", default_value = "callboard_rms")]
    pub oidc_rms_claim: String,
    /// Certificates to believe of the issuer instead of those of the system (PEM)
    #[arg(long, value_name = "FILE", env = "CALLBOARD_OIDC_CA", requires = "oidc_issuer")]
    pub oidc_ca: Option<PathBuf>,
}

fn role(text: &str) -> Result<(String, Role), String> {
    let (value, role) = text.rsplit_once('=').ok_or_else(|| format!("\"{text}\" is not VALUE=ROLE"))?;
    if value.is_empty() {
        return Err(format!("\"{text}\" names no value of the claim"));
    }
    Ok((value.to_owned(), role.parse()?))
}

/// Keys are asked for again after this time.
const EVERY: Duration = Duration::from_secs(300);
/// And no sooner than this, whatever comes.
const AGAIN: Duration = Duration::from_secs(10);
/// The issuer has to answer by then.
const PATIENCE: Duration = Duration::from_secs(10);
/// What it says may be so long, in bytes.
const LONGEST: usize = 1 << 20;
/// So often the log says that it still does not answer.
const REMINDER: Duration = Duration::from_secs(600);
/// The doors wait for its first answer for so long.
const FIRST: Duration = Duration::from_secs(5);

/// An issuer, and how it is asked.
#[derive(Clone, Debug)]
pub struct Followed {
    /// Its keys, and what a token of it has to say.
    pub issuer: Arc<Issuer>,
    trust: Trust,
}

#[derive(Deserialize)]
struct Discovered {
    issuer: String,
    jwks_uri: String,
}

impl Followed {
    /// The issuer of the options, if there is one. Nobody is asked yet.
    ///
    /// # Errors
    /// Its address is none, or others could read and change what it says.
    pub fn open(args: &OidcArgs) -> anyhow::Result<Option<Followed>> {
        let Some(issuer) = &args.oidc_issuer else { return Ok(None) };
        check(issuer).context("--oidc-issuer")?;
        // The path of its configuration is put behind it (OpenID Connect Discovery, 3).
        if issuer.contains(['?', '#']) {
            bail!("--oidc-issuer: \"{}\" has a query or a fragment, as no issuer has", without_user(issuer));
        }
        if args.oidc_audience.as_deref().is_none_or(str::is_empty) {
            bail!("--oidc-audience is empty: name what `aud` of the tokens has");
        }
        let mut roles = BTreeMap::new();
        for (value, role) in &args.oidc_role {
            if roles.insert(value.clone(), *role).is_some_and(|other| other != *role) {
                bail!("--oidc-role gives \"{value}\" two roles: give it one");
            }
        }
        let terms = Terms {
            issuer: issuer.clone(),
            audience: args.oidc_audience.clone().unwrap_or_default(),
            claim: args.oidc_claim.clone(),
            roles,
            rms: args.oidc_rms_claim.clone(),
        };
        let trust = Trust { ca: args.oidc_ca.clone(), ..Trust::default() };
        Ok(Some(Followed { issuer: Arc::new(Issuer::new(terms)), trust }))
    }

    /// Asks for the keys, and goes on asking beside. Returns when they are known, or take too long.
    pub async fn start(self) {
        let first =
            timeout(FIRST, self.ask()).await.unwrap_or_else(|_| bail!("no answer within {} s", FIRST.as_secs()));
        let (known, mut told) = (first.is_ok(), None);
        self.tell(first, &mut told);
        actix::spawn(async move { self.go_on(known, told).await });
    }

    async fn go_on(&self, mut known: bool, mut told: Option<Instant>) {
        loop {
            sleep(AGAIN).await;
            if known {
                // Whichever is first.
                let _ = timeout(EVERY - AGAIN, self.issuer.wanted.notified()).await;
            }
            let asked = self.ask().await;
            known = asked.is_ok();
            self.tell(asked, &mut told);
        }
    }

    /// `told`: when it was said last that the issuer does not answer; `None`: it does.
    fn tell(&self, asked: anyhow::Result<usize>, told: &mut Option<Instant>) {
        let issuer = &self.issuer.terms().issuer;
        match asked {
            Ok(keys) if told.take().is_some() => tracing::info!(issuer, keys, "the issuer answers again"),
            Ok(keys) => tracing::debug!(issuer, keys, "the keys of the issuer are known"),
            Err(error) if !is_news(told, Instant::now()) => tracing::debug!(issuer, "still silent: {error:#}"),
            Err(error) => {
                tracing::warn!(
                    code = "issuer-silent",
                    issuer,
                    "{error:#}; its keys stay as they were, those that nobody knows yet let nobody in"
                );
            }
        }
    }

    async fn ask(&self) -> anyhow::Result<usize> {
        let issuer = &self.issuer.terms().issuer;
        let base = issuer.trim_end_matches('/');
        let text = self.get(&format!("{base}/.well-known/openid-configuration")).await?;
        let found: Discovered = serde_json::from_str(&text).context("its configuration is not that of an issuer")?;
        if found.issuer != *issuer {
            bail!(
                "it calls itself {}, and its tokens would too: give --oidc-issuer as it does",
                without_user(&found.issuer)
            );
        }
        check(&found.jwks_uri).context("jwks_uri")?;
        let keys = self.get(&found.jwks_uri).await?;
        self.issuer.learn(&keys).map_err(|why| anyhow::anyhow!("{}: {why}", without_user(&found.jwks_uri)))
    }

    async fn get(&self, url: &str) -> anyhow::Result<String> {
        let named = || without_user(url);
        let uri: Uri = url.parse().with_context(named)?;
        let origin =
            format!("{}://{}", uri.scheme_str().unwrap_or("https"), uri.authority().map_or("", |host| host.as_str()));
        // Without the token that commands send.
        let client =
            Client::without_token(&origin, &self.trust).map_err(|why| anyhow::anyhow!(why)).with_context(named)?;
        let answer = client.send_within(PATIENCE, Method::GET, url, None).await.with_context(named)?;
        if !answer.status.is_success() {
            bail!("{} answers {}", named(), answer.status);
        }
        timeout(PATIENCE, answer.text_up_to(LONGEST)).await.with_context(named)?.with_context(named)
    }
}

/// Whether its silence is to be told, which it is from then on: when it begins, and now and then.
fn is_news(told: &mut Option<Instant>, now: Instant) -> bool {
    let news = told.is_none_or(|at| now.duration_since(at) >= REMINDER);
    if news {
        *told = Some(now);
    }
    news
}

/// Nobody between may change what an issuer says.
fn check(url: &str) -> anyhow::Result<()> {
    let uri: Uri = url.parse().with_context(|| format!("\"{}\" is no address", without_user(url)))?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let loopback = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|host| host.is_loopback());
    match uri.scheme_str() {
        Some("https") if !host.is_empty() => Ok(()),
        Some("http") if loopback => Ok(()),
        _ => bail!(
            "\"{}\" does not begin with https://, which only an issuer on this machine's loopback may do without",
            without_user(url)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_issuer_is_told_of_once_and_then_now_and_then() {
        let (mut told, begin) = (None, Instant::now());
        let mut at = |seconds: u64| is_news(&mut told, begin + Duration::from_secs(seconds));
        assert!(at(0) && !at(10) && !at(599) && at(600) && !at(610));
        told = None;
        assert!(is_news(&mut told, begin + Duration::from_secs(620)), "it answered meanwhile");
    }

    #[test]
    fn an_issuer_is_asked_over_tls_or_the_loopback() {
        for right in ["https://id.example/realms/ops", "http://127.0.0.1:8080", "http://[::1]:1/x", "http://localhost"]
        {
            assert!(check(right).is_ok(), "{right}");
        }
        for wrong in
            ["http://id.example", "id.example", "", "ftp://localhost", "https://", "http://127.0.0.1.evil.example"]
        {
            assert!(check(wrong).is_err(), "{wrong}");
        }
        assert_eq!(role("a=b=operator"), Ok(("a=b".to_owned(), Role::Operator)));
        assert!(role("operator").is_err() && role("=operator").is_err() && role("a=king").is_err());
    }

    #[test]
    fn options_that_mean_nothing_or_two_things_are_refused() {
        let args = |issuer: &str, audience: &str, roles: &[(&str, Role)]| OidcArgs {
            oidc_issuer: Some(issuer.to_owned()),
            oidc_audience: Some(audience.to_owned()),
            oidc_role: roles.iter().map(|(value, role)| ((*value).to_owned(), *role)).collect(),
            ..OidcArgs::default()
        };
        let fault = |args: OidcArgs| format!("{:#}", Followed::open(&args).unwrap_err());
        let one = [("a", Role::Viewer)];
        assert!(Followed::open(&args("https://id.example", "board", &one)).unwrap().is_some());
        for issuer in ["https://id.example?x=1", "https://id.example/a#b"] {
            assert!(fault(args(issuer, "board", &one)).contains("has a query or a fragment"), "{issuer}");
        }
        assert!(fault(args("https://id.example", "", &one)).contains("--oidc-audience is empty"));
        let two = [("a", Role::Operator), ("a", Role::Viewer)];
        assert!(fault(args("https://id.example", "board", &two)).contains("\"a\" two roles"));
    }
}
