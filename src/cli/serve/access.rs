//! Tokens and certificates of the server: options, start, and what happens when the files change.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use anyhow::{anyhow, bail};
use clap::Args;
use rustls::ServerConfig;
use tokio::task::spawn_blocking;

use super::oidc::{Followed, OidcArgs};
use crate::{
    access::{
        Audit, Tokens,
        audit::Entry,
        certificate::{Authorities, Certificate},
        watch::Watched,
    },
    cli::url,
    domain::words::plural,
    http::origins::{Origin, Origins},
};

/// Who is let in, and how connections are encrypted.
#[derive(Args, Clone, Debug, Default)]
pub struct AccessArgs {
    /// Who may do what: a file of tokens, read again when it changes (`callboard token new` makes one). Without it
    /// everybody may do everything, and only addresses of this machine's loopback are taken
    #[arg(long, value_name = "FILE", env = "CALLBOARD_TOKENS")]
    pub tokens: Option<PathBuf>,
    /// Certificate chain of both doors (PEM), read again when it changes: they speak TLS
    #[arg(long, value_name = "FILE", env = "CALLBOARD_TLS_CERT", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", env = "CALLBOARD_TLS_KEY", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Authorities whose client certificates are believed (PEM): the tokens file says who they are
    #[arg(long, value_name = "FILE", env = "CALLBOARD_TLS_CLIENT_CA", requires_all = ["tls_cert", "tokens"])]
    pub tls_client_ca: Option<PathBuf>,
    /// Listen without tokens on addresses that other machines reach: whoever gets there may do everything
    #[arg(long, env = "CALLBOARD_INSECURE")]
    pub insecure: bool,
    /// Pages of this origin, such as https://board.example, may use the HTTP doors; without tokens these answer to its name too
    #[arg(long, value_name = "ORIGIN", env = "CALLBOARD_ALLOW_ORIGIN", value_parser = url::option, value_delimiter = ',')]
    pub allow_origin: Vec<String>,
    #[command(flatten)]
    pub oidc: OidcArgs,
}

/// What came of reading a file again, or why it changed nothing.
type Read = Result<String, String>;

/// Tokens and certificate of a running server.
#[derive(Clone, Debug)]
pub struct Access {
    /// Tokens, where there are any.
    pub tokens: Option<Arc<Tokens>>,
    certificate: Option<Arc<Certificate>>,
    clients: Option<Arc<Authorities>>,
    issuer: Option<Followed>,
    watched: [Watched; 3],
    allowed: Vec<Origin>,
}

impl Access {
    /// Reads the files. `doors` are the addresses that will be listened on, with their options.
    ///
    /// # Errors
    /// A file is wrong, or a door would be open to everybody who reaches it.
    pub fn open(args: &AccessArgs, doors: &[(&str, Option<SocketAddr>)]) -> anyhow::Result<Access> {
        let watched = [
            Watched::look(args.tokens.as_deref()),
            Watched::look(args.tls_cert.as_deref().into_iter().chain(args.tls_key.as_deref())),
            Watched::look(args.tls_client_ca.as_deref()),
        ];
        let tokens = args.tokens.as_deref().map(Tokens::open).transpose().map_err(|error| anyhow!(error))?;
        let certificate = match (&args.tls_cert, &args.tls_key) {
            (Some(cert), Some(key)) => Some(Certificate::open(cert, key).map_err(|error| anyhow!(error))?),
            _ => None,
        };
        let clients =
            args.tls_client_ca.as_deref().map(Authorities::open).transpose().map_err(|error| anyhow!(error))?;
        let issuer = Followed::open(&args.oidc)?;
        if let (Some(tokens), Some(issuer)) = (&tokens, &issuer) {
            tokens.believe(issuer.issuer.clone());
        }
        let open = doors.iter().filter_map(|(name, addr)| Some((name, addr.as_ref()?)));
        for (name, addr) in open.filter(|(_, addr)| !addr.ip().to_canonical().is_loopback()) {
            match &tokens {
                None if !args.insecure => bail!(
                    "{name} {addr} can be reached from other machines, and nobody is asked for a token: add --tokens FILE \
                     (callboard token new makes one), or --insecure to let everybody do everything"
                ),
                None => {
                    tracing::warn!(code = "open-door", door = name, %addr, "open to everybody who reaches it (--insecure)")
                }
                Some(_) if certificate.is_none() => {
                    tracing::warn!(code = "tokens-in-clear", door = name, %addr, "tokens cross the network in the clear: add --tls-cert and --tls-key, unless something in front of it encrypts");
                }
                Some(_) => {}
            }
        }
        // Here, as what is wrong with an option is told with all that was given.
        let allowed: Result<Vec<Origin>, String> = args.allow_origin.iter().map(|origin| origin.parse()).collect();
        let allowed = allowed.map_err(|why| anyhow!("--allow-origin: {why}"))?;
        let access = Access { tokens, certificate, clients, issuer, watched, allowed };
        access.look_for_tokens();
        Ok(access)
    }

    /// Tells where nobody has one.
    fn look_for_tokens(&self) {
        if let Some(tokens) = self.tokens.as_ref().filter(|tokens| tokens.is_empty() && self.issuer.is_none()) {
            tracing::warn!(code = "no-tokens", file = %tokens.file().display(), "no tokens in the file: nobody is let in");
        }
    }

    /// TLS for a door that speaks these protocols.
    ///
    /// # Errors
    /// The cryptography lacks a version of TLS.
    pub fn tls(&self, protocols: &[&[u8]]) -> anyhow::Result<Option<ServerConfig>> {
        let made = self.certificate.as_ref().map(|certificate| certificate.server(protocols, self.clients.as_ref()));
        made.transpose().map_err(|error| anyhow!(error))
    }

    /// Asks the issuer for its keys, where there is one, and again and again.
    pub async fn follow_issuer(&self) {
        if let Some(issuer) = &self.issuer {
            issuer.clone().start().await;
        }
    }

    /// Other servers find this one at this address, so it answers to that name without tokens too. What is no origin is told of by
    /// whoever reads the option.
    pub fn answer_to(&mut self, url: &str) {
        self.allowed.extend(url.parse::<Origin>());
    }

    /// Which pages may use the HTTP doors at this address.
    pub fn origins(&self, addr: SocketAddr) -> Origins {
        Origins::new(self.tokens.is_none(), addr.ip(), self.allowed.clone())
    }

    /// What the addresses of the doors begin with, where they speak TLS.
    pub fn scheme(&self) -> &'static str {
        if self.certificate.is_some() { "https://" } else { "" }
    }

    /// There are files to be read again.
    pub fn has_files(&self) -> bool {
        self.tokens.is_some() || self.certificate.is_some()
    }

    /// Reads all files again. One that is wrong changes nothing. Gives what came of each.
    pub fn reload(&self) -> Vec<Read> {
        let read = [self.reload_tokens(), self.reload_certificate(), self.reload_clients()];
        read.into_iter().flatten().collect()
    }

    fn reload_tokens(&self) -> Option<Read> {
        let tokens = self.tokens.as_ref()?;
        let read = tokens.reload();
        let told = |difference| format!("{}: {}; {difference}", tokens.file().display(), plural(tokens.len(), "token"));
        let read = read.map(told);
        match &read {
            Ok(_) => {
                tracing::info!(file = %tokens.file().display(), tokens = tokens.len(), "tokens read again");
                self.look_for_tokens();
            }
            Err(error) => tracing::error!(code = "tokens-unread", "{error}; the tokens stay as they are"),
        }
        Some(read)
    }

    fn reload_certificate(&self) -> Option<Read> {
        let certificate = self.certificate.as_ref()?;
        let file = certificate.files()[0].display();
        let read = certificate.reload().map(|()| format!("{file}: the certificate was read"));
        match &read {
            Ok(_) => tracing::info!(%file, "certificate read again"),
            // The other half of a change may be on its way.
            Err(error) => tracing::warn!(code = "certificate-unread", "{error}; the certificate stays as it is"),
        }
        Some(read)
    }

    fn reload_clients(&self) -> Option<Read> {
        let clients = self.clients.as_ref()?;
        let file = clients.file().display();
        let read = clients.reload().map(|()| format!("{file}: the authorities of clients were read"));
        match &read {
            Ok(_) => tracing::info!(%file, "authorities of clients read again"),
            Err(error) => tracing::warn!(code = "certificate-unread", "{error}; the authorities stay as they are"),
        }
        Some(read)
    }

    /// Reads files again whenever they change, for ever. Who is let in from then on, and by whom the server is known, is a change
    /// like one over a door.
    pub async fn follow(self, audit: Arc<Audit>) {
        let [tokens, certificate, clients] = self.watched.clone();
        tokio::join!(
            tokens.follow(async || self.read_again(&audit, "--tokens", Access::reload_tokens).await),
            certificate.follow(async || self.read_again(&audit, "--tls-cert", Access::reload_certificate).await),
            clients.follow(async || self.read_again(&audit, "--tls-client-ca", Access::reload_clients).await)
        );
    }

    /// Beside everything else: a file may hang, as a pipe does, or one of a file system that does not answer.
    async fn read_again(&self, audit: &Audit, option: &str, reload: fn(&Access) -> Option<Read>) {
        let access = self.clone();
        let read = spawn_blocking(move || reload(&access)).await.unwrap_or_else(|error| Some(Err(error.to_string())));
        note(audit, ("file", option), read);
    }
}

/// Files were read again, if they were: the audit log has by what door and for whom, and what came of each, also beside one that
/// is wrong.
pub fn note(audit: &Audit, (door, who): (&str, &str), read: impl IntoIterator<Item = Read>) {
    let read: Vec<Read> = read.into_iter().collect();
    if read.is_empty() {
        return;
    }
    let outcome = if read.iter().all(Result::is_ok) { "done" } else { "failed" };
    let told: Vec<String> = read.into_iter().map(|read| read.unwrap_or_else(|error| error)).collect();
    audit.note(Entry {
        door: door.to_owned(),
        who: who.to_owned(),
        action: "read files again".to_owned(),
        detail: told.join("; "),
        outcome: outcome.to_owned(),
        ..Entry::default()
    });
}

#[cfg(test)]
mod tests {
    use std::{fs, process::Command};

    use super::*;

    fn open(args: &AccessArgs, addr: &str) -> Result<Access, String> {
        let doors = [("--http", Some(addr.parse().unwrap())), ("--grpc", None)];
        Access::open(args, &doors).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn it_answers_to_the_name_at_which_other_servers_find_it() {
        use actix_web::http::{Method, header};

        let args = AccessArgs { insecure: true, ..AccessArgs::default() };
        let mut access = open(&args, "0.0.0.0:9080").unwrap();
        let mut headers = header::HeaderMap::new();
        headers.insert(header::HOST, header::HeaderValue::from_static("callboard2:9080"));
        let lets_in = |access: &Access| {
            let origins = access.origins("0.0.0.0:9080".parse().unwrap());
            origins.check(&Method::GET, &"/api/v1/settings".parse().unwrap(), &headers).is_ok()
        };
        assert!(!lets_in(&access));
        access.answer_to("http://callboard2:9080");
        assert!(lets_in(&access));
    }

    #[tokio::test]
    async fn a_file_that_hangs_holds_up_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens");
        fs::write(&file, "").unwrap();
        let args = AccessArgs { tokens: Some(file.clone()), ..AccessArgs::default() };
        let access = open(&args, "127.0.0.1:0").unwrap();
        fs::remove_file(&file).unwrap();
        assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
        // Opened when somebody reads it, who then waits for what comes: this goes on all the same.
        let opened = spawn_blocking(move || fs::OpenOptions::new().write(true).open(&file));
        tokio::select! {
            () = access.follow(Arc::default()) => unreachable!("it never ends"),
            opened = opened => drop(opened.unwrap().unwrap()),
        }
    }

    #[test]
    fn without_tokens_only_loopback_is_served() {
        let none = AccessArgs::default();
        for addr in ["127.0.0.1:0", "127.9.9.9:1", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
            assert!(open(&none, addr).is_ok(), "{addr}");
        }
        for addr in ["0.0.0.0:9080", "[::]:9080", "192.0.2.1:80", "[::ffff:192.0.2.1]:0"] {
            let refused = open(&none, addr).unwrap_err();
            assert!(refused.starts_with("--http ") && refused.contains("--tokens FILE"), "{refused}");
            assert!(open(&AccessArgs { insecure: true, ..none.clone() }, addr).is_ok(), "{addr}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        let tokens = AccessArgs { tokens: Some(file.path().to_owned()), ..none };
        assert!(open(&tokens, "0.0.0.0:9080").is_ok());
        let missing = AccessArgs { tokens: Some("/nonexistent/tokens".into()), ..tokens };
        assert!(open(&missing, "127.0.0.1:0").unwrap_err().contains("/nonexistent/tokens"));
    }
}
