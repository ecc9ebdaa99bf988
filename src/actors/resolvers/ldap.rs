//! Groups of users from a directory server (ACL-045, ACL-046). Blocks, within [`TOTAL`]: for `spawn_blocking`.

pub mod settings;

use std::{
    cell::RefCell,
    collections::BTreeMap,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream};
use ldap3::{LdapConnAsync, LdapConnSettings, LdapError, Scope, SearchEntry, ldap_escape};
use tokio::time::timeout;

use self::settings::LdapSettings;
use crate::domain::group_cache::Groups;

/// Where the settings are, if nothing else is said.
pub const SECRETS: &str = "/run/secrets/ldap";

/// Connecting, the TLS handshake included, takes this long at most; so does each answer.
const STEP: Duration = Duration::from_secs(5);

/// All look-ups of one request take this long at most, so that a silent directory does not hold up submissions for longer.
pub const TOTAL: Duration = Duration::from_secs(10);

/// Users that are looked up at once, over one connection.
const AT_ONCE: usize = 16;

/// A failure after less than this does not keep the directory from being asked again at once.
const PATIENCE: Duration = Duration::from_secs(1);

type Answer = Result<Groups, Arc<str>>;

/// What came of a look-up.
#[derive(Debug)]
pub struct Found {
    /// One for each user, in their order.
    pub answers: Vec<Answer>,
    /// The directory failed after a long wait: it is left alone for a while. A quick refusal does not count.
    pub unavailable: Option<Arc<str>>,
}

/// Looks all these users up over one connection; each gets an answer. The settings are read anew, so that a password which
/// was changed counts at once.
pub fn look_up(secrets: &Path, users: &[Arc<str>]) -> Found {
    let settings = match LdapSettings::read(secrets) {
        Ok(settings) => settings,
        Err(error) => {
            let why = error.to_string();
            tracing::warn!(code = "groups-unknown", users = users.len(), "groups of users are not known: {why}");
            return Found { answers: users.iter().map(|user| Err(unknown(user, &why))).collect(), unavailable: None };
        }
    };
    let began = Instant::now();
    let found = RefCell::new(BTreeMap::new());
    let asked = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Err(error) => Err(error.to_string()),
        Ok(runtime) => runtime.block_on(async {
            let asked = timeout(TOTAL, session(&settings, users, &found, STEP)).await;
            asked.unwrap_or_else(|_| Err(format!("directory {} did not answer within {TOTAL:?}", settings.url())))
        }),
    };
    let mut found = found.into_inner();
    let failed: Option<Arc<str>> = asked.err().map(Arc::from);
    let why = failed.clone().unwrap_or_default();
    let unavailable = failed.filter(|_| began.elapsed() >= PATIENCE);
    if !why.is_empty() {
        tracing::warn!(
            code = "groups-unknown",
            users = users.len() - found.len(),
            "groups of users are not known: {why}"
        );
    }
    let answer = |user: &Arc<str>| found.remove(user).unwrap_or_else(|| Err(unknown(user, &why)));
    Found { answers: users.iter().map(answer).collect(), unavailable }
}

/// The reason of a rejection.
pub fn unknown(user: &str, why: &str) -> Arc<str> {
    format!("groups of user '{user}' not found: {why}").into()
}

/// One connection: bind, then a search for each user, many at once. An error of the connection fails all that are left, a refusal of
/// the directory only its user. `step`: how long each answer may take.
async fn session(
    settings: &LdapSettings,
    users: &[Arc<str>],
    found: &RefCell<BTreeMap<Arc<str>, Answer>>,
    step: Duration,
) -> Result<(), String> {
    let url = settings.url();
    let fault = |what: &str, error: LdapError| format!("directory {url}: {what}: {}", told(error));
    let how = LdapConnSettings::new().set_conn_timeout(STEP).set_no_tls_verify(settings.insecure);
    let (connection, mut ldap) =
        LdapConnAsync::with_settings(how, &url).await.map_err(|error| fault("cannot connect", error))?;
    let driven = tokio::spawn(async move { connection.drive().await });
    let bound = ldap.with_timeout(STEP).simple_bind(&settings.bind_user, settings.bind_password.expose()).await;
    bound
        .and_then(ldap3::LdapResult::success)
        .map_err(|error| fault(&format!("cannot bind as '{}'", settings.bind_user), error))?;
    let not_searched = || format!("cannot search below '{}'", settings.base_dn);
    let of_user = |user: Arc<str>| {
        let mut ldap = ldap.clone();
        let (url, fault, not_searched) = (&url, &fault, &not_searched);
        async move {
            let filter = settings.filter.replace("%s", &ldap_escape(&*user));
            let search = ldap.search(&settings.base_dn, Scope::Subtree, &filter, settings.wanted());
            let fault = |error| fault(&not_searched(), error);
            let answer = match search.await.and_then(ldap3::SearchResult::success) {
                Err(error @ LdapError::LdapResult { .. }) => Err(unknown(&user, &fault(error))),
                Err(error) => return Err(fault(error)),
                Ok((entries, _)) if entries.is_empty() => {
                    Err(unknown(&user, &format!("directory {url} has no such user below '{}'", settings.base_dn)))
                }
                Ok((entries, _)) => {
                    let entries: Vec<SearchEntry> = entries.into_iter().map(SearchEntry::construct).collect();
                    Ok(groups_of(&user, &entries, &settings.group_attr))
                }
            };
            found.borrow_mut().insert(user, answer);
            Ok(())
        }
    };
    let mut searches = stream::iter(users.iter().cloned()).map(of_user).buffer_unordered(AT_ONCE);
    // A directory may answer one after the other: each has its time, from the answer before it.
    while let Some(done) =
        timeout(step, searches.next()).await.map_err(|silent| fault(&not_searched(), silent.into()))?
    {
        done?;
    }
    drop(searches);
    // The answers are there: the connection no longer matters.
    let _ = timeout(STEP, ldap.unbind()).await;
    driven.abort();
    Ok(())
}

/// An error in words. None of them holds what was sent.
fn told(error: LdapError) -> String {
    match error {
        LdapError::Timeout { .. } => format!("no answer within {STEP:?}"),
        LdapError::Io { source } => source.to_string(),
        LdapError::ResultRecv { .. } | LdapError::OpSend { .. } | LdapError::EndOfStream => {
            "the connection was closed".to_owned()
        }
        error => error.to_string(),
    }
}

/// The user's own name is its primary group; then those of the attribute, each once, in the order of the directory (ACL-034).
fn groups_of(user: &Arc<str>, entries: &[SearchEntry], attribute: &str) -> Groups {
    let mut groups: Vec<Arc<str>> = vec![user.clone()];
    for entry in entries {
        // Servers write names of attributes as they like.
        let values = entry.attrs.iter().filter(|(name, _)| name.eq_ignore_ascii_case(attribute));
        for group in values.flat_map(|(_, values)| values).filter_map(|value| group_name(value)) {
            if !groups.iter().any(|known| **known == *group) {
                groups.push(group.into());
            }
        }
    }
    groups.into()
}

/// The name in a value: that of the first part of a DN, `dev` in `CN=dev,OU=groups,DC=example`; all of a value that is no DN.
fn group_name(value: &str) -> Option<String> {
    let (mut name, mut rest) = (Vec::new(), value.as_bytes());
    while let [byte, after @ ..] = rest {
        rest = after;
        match byte {
            // A character, or two hexadecimal digits of a byte (RFC 4514, 2.4).
            b'\\' => {
                let hex = rest.get(..2).and_then(|hex| str::from_utf8(hex).ok());
                let code = hex.filter(|hex| hex.bytes().all(|digit| digit.is_ascii_hexdigit()));
                let code = code.and_then(|hex| u8::from_str_radix(hex, 16).ok());
                name.extend(code.or(rest.first().copied()));
                rest = rest.get(if code.is_some() { 2 } else { 1 }..).unwrap_or_default();
            }
            b',' | b'+' => break,
            byte => name.push(*byte),
        }
    }
    let name = String::from_utf8_lossy(&name);
    let name = name.split_once('=').map_or(&*name, |(_, name)| name).trim();
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
        thread,
    };

    use super::*;

    /// Answers each search after this time that there is nothing, but for the user `refused`; one after the other, or all at once.
    fn slow_directory(connection: TcpStream, pause: Duration, in_turn: bool) {
        let mut reader = connection.try_clone().unwrap();
        let mut head = [0; 2];
        while reader.read_exact(&mut head).is_ok() {
            let mut length = usize::from(head[1]);
            if length > 0x80 {
                let mut bytes = vec![0; length - 0x80];
                reader.read_exact(&mut bytes).unwrap();
                length = bytes.iter().fold(0, |sum, byte| (sum << 8) + usize::from(*byte));
            }
            let mut message = vec![0; length];
            reader.read_exact(&mut message).unwrap();
            let (number, operation) = (message[2], message[3]);
            let is_search = operation == 0x63;
            let is_refused = message.windows(7).any(|part| part == b"refused");
            let answer = match (is_search, is_refused) {
                (false, _) if operation != 0x60 => return,
                (false, _) => (0x61, 0),
                (true, false) => (0x65, 0),
                (true, true) => (0x65, 50),
            };
            let answer = [0x30, 0x0c, 0x02, 0x01, number, answer.0, 0x07, 0x0a, 0x01, answer.1, 0x04, 0x00, 0x04, 0x00];
            let mut writer = connection.try_clone().unwrap();
            let mut respond = move || {
                thread::sleep(if is_search { pause } else { Duration::ZERO });
                let _ = writer.write_all(&answer);
            };
            if in_turn { respond() } else { drop(thread::spawn(respond)) }
        }
    }

    /// A directory, and the settings of it.
    fn directory(pause: Duration, in_turn: bool) -> tempfile::TempDir {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        thread::spawn(move || slow_directory(listener.accept().unwrap().0, pause, in_turn));
        let secrets = tempfile::tempdir().unwrap();
        let settings = [
            ("Host", "127.0.0.1"),
            ("Port", &port),
            ("BaseDN", "dc=x"),
            ("Filter", "(uid=%s)"),
            ("GroupAttr", "memberOf"),
            ("ReturnAttr", "memberOf"),
            ("BindUser", "cn=reader"),
            ("BindPassword", "secret"),
        ];
        for (name, text) in settings {
            std::fs::write(secrets.path().join(name), text).unwrap();
        }
        secrets
    }

    #[tokio::test]
    async fn a_directory_that_answers_one_after_the_other_has_as_long_for_each() {
        let secrets = directory(Duration::from_millis(30), true);
        let settings = LdapSettings::read(secrets.path()).unwrap();
        let users: Vec<Arc<str>> = (0..40).map(|n| format!("user-{n}").into()).collect();
        let found = RefCell::default();
        session(&settings, &users, &found, Duration::from_millis(300)).await.unwrap();
        assert_eq!(found.borrow().len(), users.len());
        // And no longer.
        let secrets = directory(Duration::from_millis(900), true);
        let settings = LdapSettings::read(secrets.path()).unwrap();
        let why = session(&settings, &users, &found, Duration::from_millis(300)).await.unwrap_err();
        assert!(why.contains("cannot search below 'dc=x'"), "{why}");
    }

    #[test]
    fn many_users_of_a_slow_directory_are_known_in_time_and_one_that_is_refused_is_alone() {
        let secrets = directory(Duration::from_millis(300), false);
        let users: Vec<Arc<str>> = (0..40).map(|n| format!("user-{n}").into()).chain(["refused".into()]).collect();
        let found = look_up(secrets.path(), &users);
        assert_eq!(found.unavailable, None);
        let told: Vec<_> = found.answers.iter().map(|answer| answer.as_ref().unwrap_err()).collect();
        assert!(told[..40].iter().all(|why| why.contains("has no such user")), "{told:?}");
        assert!(told[40].contains("cannot search") && told[40].contains("insufficientAccessRights"), "{told:?}");
    }

    #[test]
    fn names_of_groups() {
        // ACL-046, section 12 item 14: odd values are tolerated.
        for (value, name) in [
            ("CN=dev,OU=groups,DC=example,DC=org", Some("dev")),
            ("cn=Ops Team,dc=x", Some("Ops Team")),
            ("ou=qa,dc=x", Some("qa")),
            ("CN=data\\, science,DC=x", Some("data, science")),
            ("cn=data\\2C sci\\c3\\a9nce\\20,DC=x", Some("data, sciénce")),
            ("cn=ü\\,\\ü\\", Some("ü,ü")),
            ("CN=a=b,DC=x", Some("a=b")),
            ("plain", Some("plain")),
            ("CN=", None),
            ("", None),
            (",", None),
        ] {
            assert_eq!(group_name(value).as_deref(), name, "{value}");
        }
    }

    #[test]
    fn the_user_first_and_each_once() {
        let entry = |values: &[&str]| SearchEntry {
            dn: String::new(),
            attrs: [("memberof".to_owned(), values.iter().map(|value| value.to_string()).collect())].into(),
            bin_attrs: Default::default(),
        };
        let entries = [entry(&["CN=dev,DC=x", "CN=alice,DC=x"]), entry(&["CN=dev,DC=y", "CN=ops,DC=x"])];
        assert_eq!(groups_of(&"alice".into(), &entries, "memberOf").join(" "), "alice dev ops");
        assert_eq!(groups_of(&"alice".into(), &entries, "other").join(" "), "alice");
    }

    #[test]
    fn without_settings_everybody_is_told_why() {
        let Found { answers, unavailable } = look_up(Path::new("/nonexistent/ldap"), &["alice".into(), "bob".into()]);
        assert_eq!(unavailable, None, "the directory was not asked");
        let text = "groups of user 'bob' not found: LDAP settings cannot be read from /nonexistent/ldap: ";
        assert!(answers.len() == 2 && answers[1].as_ref().is_err_and(|why| why.starts_with(text)), "{answers:?}");
    }
}
