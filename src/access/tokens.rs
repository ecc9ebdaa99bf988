//! The tokens that are known, read from a file, and again when it changes.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use arc_swap::ArcSwap;
use futures::Stream as _;
use subtle::ConstantTimeEq as _;
use tokio::{
    sync::watch,
    time::{Instant, Sleep, sleep},
};
use tokio_stream::wrappers::WatchStream;

use super::{
    Digest,
    issuer::{Issuer, LEEWAY},
    line::{Grant, Proof},
};

/// Names of each kind that are told when the file was read again.
const LISTED: usize = 20;

/// The tokens of a server.
#[derive(Debug)]
pub struct Tokens {
    file: PathBuf,
    grants: ArcSwap<Vec<Arc<Grant>>>,
    /// Counts the changes.
    changes: watch::Sender<u64>,
    /// Whose tokens are believed too.
    issuer: OnceLock<Arc<Issuer>>,
}

impl Tokens {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read, or a line of it is wrong: the text names file and line.
    pub fn open(file: &Path) -> Result<Arc<Tokens>, String> {
        let grants = ArcSwap::from_pointee(read(file)?);
        Ok(Arc::new(Tokens { file: file.to_owned(), grants, changes: watch::channel(0).0, issuer: OnceLock::new() }))
    }

    /// Tokens of this issuer are believed too, from now on.
    pub fn believe(&self, issuer: Arc<Issuer>) {
        // Called once.
        let _ = self.issuer.set(issuer);
    }

    /// Reads the file again, and says which names are other than before. Where that fails, what was known stays.
    ///
    /// # Errors
    /// As [`Tokens::open`].
    pub fn reload(&self) -> Result<String, String> {
        let grants = read(&self.file)?;
        let before = self.grants.load_full();
        let difference = difference(&before, &grants);
        if *before != grants {
            self.grants.store(Arc::new(grants));
            self.changes.send_modify(|changes| *changes += 1);
        }
        Ok(difference)
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.grants.load().len()
    }

    /// There are none: nobody is let in.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What this token grants. Takes as long whichever of those of the file it is, or none.
    pub fn find(&self, token: &str) -> Option<Arc<Grant>> {
        let digest = Digest::of(token);
        let mut found = None;
        for grant in self.grants.load().iter() {
            if let Proof::Token(known) = &grant.proof
                && bool::from(known.ct_eq(&digest))
            {
                found = Some(grant.clone());
            }
        }
        found.or_else(|| self.issuer.get()?.grant(token).map(Arc::new))
    }

    /// What a client certificate with one of these names grants.
    pub fn find_certificate(&self, names: &[Box<str>]) -> Option<Arc<Grant>> {
        if names.is_empty() {
            return None;
        }
        let grants = self.grants.load();
        let named = |grant: &&Arc<Grant>| names.iter().any(|name| grant.proof.is_certificate_for(name));
        grants.iter().find(named).cloned()
    }

    /// The grant still holds, unchanged.
    fn holds(&self, grant: &Arc<Grant>) -> bool {
        self.grants.load().iter().any(|known| known == grant)
    }
}

/// The names that were added, removed, or grant something else, or for another secret.
fn difference(before: &[Arc<Grant>], after: &[Arc<Grant>]) -> String {
    let by_name = |grants: &[Arc<Grant>]| {
        let mut names: BTreeMap<Arc<str>, Vec<Arc<Grant>>> = BTreeMap::new();
        grants.iter().for_each(|grant| names.entry(grant.name.clone()).or_default().push(grant.clone()));
        names
    };
    let (before, after) = (by_name(before), by_name(after));
    let added = after.keys().filter(|name| !before.contains_key(*name));
    let removed = before.keys().filter(|name| !after.contains_key(*name));
    let changed = after.iter().filter(|(name, grants)| before.get(*name).is_some_and(|before| before != *grants));
    let lists: [(&str, Vec<&str>); 3] = [
        ("added", added.map(|name| &**name).collect()),
        ("removed", removed.map(|name| &**name).collect()),
        ("changed", changed.map(|(name, _)| &**name).collect()),
    ];
    let told = lists.iter().filter(|(_, names)| !names.is_empty()).map(|(what, names)| {
        let more = names.len().saturating_sub(LISTED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{what} {}{more}", names[..names.len().min(LISTED)].join(", "))
    });
    let told: Vec<String> = told.collect();
    if told.is_empty() { "nobody is added, removed or changed".to_owned() } else { told.join("; ") }
}

fn read(file: &Path) -> Result<Vec<Arc<Grant>>, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("tokens file {}: {error}", file.display()))?;
    grants(file, &text)
}

/// What all lines of the file grant, if this is its text.
///
/// # Errors
/// As [`Tokens::open`].
pub fn grants(file: &Path, text: &str) -> Result<Vec<Arc<Grant>>, String> {
    let lines = lines(file, text)?;
    for (at, (number, grant)) in lines.iter().enumerate() {
        if let Some((first, other)) = lines[..at].iter().find(|(_, known)| known.proof == grant.proof) {
            return Err(format!(
                "tokens file {}: line {number}: the token or certificate of \"{}\" is there twice: line {first} has it \
                 as \"{}\"; callboard token revoke takes one of them out",
                file.display(),
                grant.name,
                other.name
            ));
        }
    }
    Ok(lines.into_iter().map(|(_, grant)| Arc::new(grant)).collect())
}

/// What each line of a text grants, by the number of the line, also where two of them grant to the same.
///
/// # Errors
/// A line is wrong: the text names file and line.
pub fn lines(file: &Path, text: &str) -> Result<Vec<(usize, Grant)>, String> {
    let fault = |number, what| format!("tokens file {}: line {number}: {what}", file.display());
    let numbered = (1..).zip(text.lines());
    numbered
        .filter_map(|(number, line)| match Grant::read(line) {
            Ok(grant) => grant.map(|grant| Ok((number, grant))),
            Err(what) => Some(Err(fault(number, what))),
        })
        .collect()
}

/// The right to go on: ends when the tokens file takes the grant away, or changes it; that of an issuer's token, or of a
/// certificate, when that expires.
#[derive(Debug)]
pub struct Lease {
    tokens: Arc<Tokens>,
    grant: Arc<Grant>,
    changes: WatchStream<u64>,
    /// The changes after which it last held.
    seen: Option<u64>,
    expires: Option<Expires>,
}

/// When something expires that says so by the clock, which may be set meanwhile, and goes on while the machine sleeps: it is looked
/// at again and again.
#[derive(Debug)]
struct Expires {
    /// Seconds since 1970.
    until: u64,
    /// The same as far as was known at first; `None`: later than anybody waits.
    at: Option<Instant>,
    timer: Pin<Box<Sleep>>,
    why: &'static str,
}

/// So often.
const LOOK: Duration = Duration::from_secs(10);

impl Expires {
    fn new(until: u64, why: &'static str) -> Expires {
        let left = left(until);
        Expires { until, at: Instant::now().checked_add(left), timer: Box::pin(sleep(left.min(LOOK))), why }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<&'static str> {
        while self.timer.as_mut().poll(context).is_ready() {
            let now = Instant::now();
            if self.at.is_some_and(|at| at <= now) || left(self.until).is_zero() {
                return Poll::Ready(self.why);
            }
            let next = now + LOOK;
            self.timer.as_mut().reset(self.at.map_or(next, |at| at.min(next)));
        }
        Poll::Pending
    }
}

fn left(until: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_secs(until).saturating_sub(now)
}

impl Lease {
    /// For as long as the grant holds; `certificate` is until when that of the connection is good, where it is what is believed.
    pub fn new(tokens: Arc<Tokens>, grant: Arc<Grant>, certificate: u64) -> Lease {
        let changes = WatchStream::new(tokens.changes.subscribe());
        // As long as a new request with it would be let in.
        let expires = match grant.proof {
            Proof::Issued(until) => Some(Expires::new(until.saturating_add(LEEWAY), "the token has expired")),
            Proof::Certificate(_) => Some(Expires::new(certificate.saturating_add(1), "the certificate has expired")),
            Proof::Token(_) => None,
        };
        Lease { tokens, grant, changes, seen: None, expires }
    }

    /// Ready when the right has ended, with why.
    pub fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<&'static str> {
        if let Some(Poll::Ready(why)) = self.expires.as_mut().map(|expires| expires.poll(context)) {
            return Poll::Ready(why);
        }
        // The file has none of an issuer.
        if let Proof::Issued(_) = self.grant.proof {
            return Poll::Pending;
        }
        while Pin::new(&mut self.changes).poll_next(context).is_ready() {}
        // Not by the stream alone: what wakes those who wait may come after the change.
        let changes = Some(*self.tokens.changes.borrow());
        if self.seen != changes {
            if !self.tokens.holds(&self.grant) {
                return Poll::Ready("the token was taken back");
            }
            self.seen = changes;
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures::FutureExt as _;

    use super::*;
    use crate::access::Role;

    fn line(role: Role, token: &str) -> String {
        format!("{role} {} name={token}\n", Digest::of(token))
    }

    #[test]
    fn tokens_are_found_by_what_they_are() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), line(Role::Viewer, "one") + "# none\n\n" + &line(Role::Operator, "two")).unwrap();
        let tokens = Tokens::open(file.path()).unwrap();
        assert_eq!(tokens.len(), 2);
        assert_eq!(tokens.find("two").unwrap().role, Role::Operator);
        assert!(tokens.find("three").is_none() && tokens.find("").is_none());
        assert!(tokens.find(&Digest::of("two").to_string()).is_none(), "a digest is no token");
    }

    #[test]
    fn faults_name_file_and_line_and_change_nothing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), line(Role::Viewer, "one")).unwrap();
        let tokens = Tokens::open(file.path()).unwrap();
        fs::write(file.path(), line(Role::Viewer, "one") + "king x\n").unwrap();
        let fault = tokens.reload().unwrap_err();
        assert!(fault.contains(&file.path().display().to_string()) && fault.contains("line 2"), "{fault}");
        fs::write(file.path(), line(Role::Viewer, "one") + &line(Role::Shim, "one")).unwrap();
        assert!(tokens.reload().unwrap_err().contains("line 2: the token or certificate of \"one\" is there twice"));
        assert!(tokens.find("one").is_some());
        assert!(Tokens::open(Path::new("/nonexistent/tokens")).unwrap_err().contains("/nonexistent/tokens"));
    }

    #[test]
    fn who_is_added_removed_or_changed_is_told() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let named = |role, token: &str, name: &str| {
            line(role, token).replace(&format!("name={token}\n"), &format!("name={name}\n"))
        };
        fs::write(file.path(), named(Role::Viewer, "1", "alice") + &named(Role::Shim, "2", "k8s")).unwrap();
        let tokens = Tokens::open(file.path()).unwrap();
        assert_eq!(tokens.reload().unwrap(), "nobody is added, removed or changed");
        fs::write(file.path(), named(Role::Operator, "3", "eve") + &named(Role::Shim, "4", "k8s")).unwrap();
        assert_eq!(tokens.reload().unwrap(), "added eve; removed alice; changed k8s");
        let many: String = (0..30).map(|n| named(Role::Viewer, &n.to_string(), &format!("n{n:02}"))).collect();
        fs::write(file.path(), many).unwrap();
        let told = tokens.reload().unwrap();
        assert!(told.contains("n19 and 10 more; removed eve, k8s") && !told.contains("n20"), "{told}");
    }

    #[tokio::test]
    async fn a_lease_ends_with_its_grant() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), line(Role::Viewer, "one") + &line(Role::Viewer, "two")).unwrap();
        let tokens = Tokens::open(file.path()).unwrap();
        let lease = |token: &str| Lease::new(tokens.clone(), tokens.find(token).unwrap(), 0);
        let (mut one, mut two) = (lease("one"), lease("two"));
        fs::write(file.path(), line(Role::Viewer, "two")).unwrap();
        tokens.reload().unwrap();
        poll_fn(|context| one.poll_ended(context)).await;
        assert!(poll_fn(|context| two.poll_ended(context)).now_or_never().is_none());
        fs::write(file.path(), line(Role::Operator, "two")).unwrap();
        tokens.reload().unwrap();
        assert_eq!(poll_fn(|context| two.poll_ended(context)).await, "the token was taken back");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_of_a_certificate_ends_with_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "shim certificate:k8s.example name=k8s\n").unwrap();
        let tokens = Tokens::open(file.path()).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let lease = |until| {
            let grant = tokens.find_certificate(&["k8s.example".into()]).unwrap();
            Lease::new(tokens.clone(), grant, until)
        };
        let begun = tokio::time::Instant::now();
        assert_eq!(poll_fn(|context| lease(now - 1).poll_ended(context)).await, "the certificate has expired");
        let mut later = lease(now + 60);
        assert_eq!(poll_fn(|context| later.poll_ended(context)).await, "the certificate has expired");
        assert!((50..=61).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
        // Or when its line is taken away.
        let mut taken = lease(now + 1_000);
        fs::write(file.path(), "").unwrap();
        tokens.reload().unwrap();
        assert_eq!(poll_fn(|context| taken.poll_ended(context)).await, "the token was taken back");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_of_an_issuers_token_ends_when_a_new_request_with_it_would_be_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let tokens = Tokens::open(file.path()).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let lease = |until| {
            let proof = Proof::Issued(until);
            let grant = Grant { role: Role::Shim, proof, name: "oidc:x".into(), rms: None, configures: false };
            Lease::new(tokens.clone(), Arc::new(grant), 0)
        };
        let begun = tokio::time::Instant::now();
        // Let in some seconds after it expired.
        let mut late = lease(now - 30);
        assert_eq!(poll_fn(|context| late.poll_ended(context)).await, "the token has expired");
        // Not to the second: the clock of the machine goes on.
        assert!((20..=30).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
        assert!(poll_fn(|context| lease(u64::MAX).poll_ended(context)).now_or_never().is_none());
    }
}
