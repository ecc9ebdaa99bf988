//! Settings of the directory server: files in one directory, one per setting (ACL-045).

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
};

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text, for the directory server only.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// What a look-up needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LdapSettings {
    host: String,
    port: u16,
    ssl: bool,
    /// The certificate of the server is not checked.
    pub insecure: bool,
    /// Searched with all that is below it.
    pub base_dn: String,
    /// Finds a user; `%s` stands for its name.
    pub filter: String,
    /// Attribute that holds the groups.
    pub group_attr: String,
    return_attrs: Vec<String>,
    /// Who asks.
    pub bind_user: String,
    /// Its password.
    pub bind_password: Secret,
}

/// Why there are no settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The directory or one of the files.
    #[error("LDAP settings cannot be read from {}: {error}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A file that has to be there.
    #[error("LDAP setting {name} is missing: write the file {}", path.display())]
    Missing {
        /// Name of the setting.
        name: &'static str,
        /// Where it would be.
        path: PathBuf,
    },
    /// A file with something else than is wanted.
    #[error("LDAP setting {name} in {} {fault}", path.display())]
    Bad {
        /// Name of the setting.
        name: &'static str,
        /// Where it is.
        path: PathBuf,
        /// What is wrong; nothing of a password.
        fault: String,
    },
}

const REQUIRED: [&str; 8] = ["Host", "Port", "BaseDN", "Filter", "GroupAttr", "ReturnAttr", "BindUser", "BindPassword"];
const OPTIONAL: [&str; 2] = ["Insecure", "SSL"];

impl LdapSettings {
    /// Reads the files of a directory; what begins with `..` and what is a directory is not one of them. Contents are trimmed.
    ///
    /// # Errors
    /// The first file that is missing, unreadable or bad, by name.
    pub fn read(directory: &Path) -> Result<LdapSettings, SettingsError> {
        LdapSettings::read_with(directory, &mut |_| {})
    }

    /// The same, with what is accepted and may be a mistake.
    pub fn read_with(directory: &Path, warn: &mut dyn FnMut(String)) -> Result<LdapSettings, SettingsError> {
        let texts = texts(directory, warn)?;
        let path = |name: &str| directory.join(name);
        let bad = |name, fault: String| SettingsError::Bad { name, path: path(name), fault };
        for name in REQUIRED {
            match texts.get(name).map(String::as_str) {
                None => return Err(SettingsError::Missing { name, path: path(name) }),
                Some("") => return Err(bad(name, "is empty: it needs a value".to_owned())),
                Some(_) => {}
            }
        }
        let text = |name: &str| texts.get(name).cloned().unwrap_or_default();
        let port = text("Port").parse::<u16>().ok().filter(|port| *port > 0);
        let port =
            port.ok_or_else(|| bad("Port", format!("is '{}': it has to be a number from 1 to 65535", text("Port"))))?;
        let filter = text("Filter");
        if !filter.contains("%s") {
            return Err(bad("Filter", format!("is '{filter}': it has to contain %s, which stands for the user")));
        }
        if !is_balanced(&filter) {
            return Err(bad("Filter", format!("is '{filter}': its parentheses do not match")));
        }
        let flag = |name: &'static str| match texts.get(name).map(String::as_str) {
            None | Some("0" | "f" | "F" | "FALSE" | "false" | "False") => Ok(false),
            Some("1" | "t" | "T" | "TRUE" | "true" | "True") => Ok(true),
            Some(other) => Err(bad(name, format!("is '{other}': it has to be true or false"))),
        };
        let (ssl, insecure) = (flag("SSL")?, flag("Insecure")?);
        let host = text("Host");
        if !is_host(&host) {
            return Err(bad("Host", format!("is '{host}': it has to be a host name or address alone")));
        }
        if ssl && port != 636 {
            warn(format!("LDAP with SSL on port {port}, which is usually 636"));
        }
        if ssl && insecure {
            warn("LDAP with SSL, but Insecure: the certificate of the server is not checked".to_owned());
        }
        let return_attrs: Vec<String> = text("ReturnAttr").split(',').map(|name| name.trim().to_owned()).collect();
        for (name, dn) in [("BaseDN", text("BaseDN")), ("BindUser", text("BindUser"))] {
            if !dn.contains('=') {
                warn(format!("LDAP setting {name} is '{dn}', which does not look like a DN"));
            }
        }
        for attribute in return_attrs.iter().chain([&text("GroupAttr")]) {
            if attribute.is_empty() || !attribute.chars().all(|c| c.is_ascii_alphanumeric() || ";-_.*+".contains(c)) {
                warn(format!("LDAP attribute '{attribute}' does not look like one"));
            }
        }
        Ok(LdapSettings {
            host,
            port,
            ssl,
            insecure,
            base_dn: text("BaseDN"),
            filter,
            group_attr: text("GroupAttr"),
            return_attrs,
            bind_user: text("BindUser"),
            bind_password: Secret(text("BindPassword")),
        })
    }

    /// The server.
    pub fn url(&self) -> String {
        let scheme = if self.ssl { "ldaps" } else { "ldap" };
        match self.host.contains(':') && !self.host.starts_with('[') {
            true => format!("{scheme}://[{}]:{}", self.host, self.port),
            false => format!("{scheme}://{}:{}", self.host, self.port),
        }
    }

    /// Attributes to ask for: those of ReturnAttr and the one of the groups.
    pub fn wanted(&self) -> Vec<&str> {
        let mut wanted: Vec<&str> =
            self.return_attrs.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
        if !wanted.iter().any(|name| name.eq_ignore_ascii_case(&self.group_attr)) {
            wanted.push(&self.group_attr);
        }
        wanted
    }
}

fn texts(directory: &Path, warn: &mut dyn FnMut(String)) -> Result<BTreeMap<String, String>, SettingsError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |error| SettingsError::Unreadable { path, error }
    };
    let mut texts = BTreeMap::new();
    for entry in fs::read_dir(directory).map_err(unreadable(directory))? {
        let entry = entry.map_err(unreadable(directory))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // Secrets are mounted as links to files, with directories beside them.
        if name.starts_with("..") || entry.path().is_dir() {
            continue;
        }
        if !REQUIRED.contains(&name.as_str()) && !OPTIONAL.contains(&name.as_str()) {
            let known = [&REQUIRED[..], &OPTIONAL[..]].concat().join(", ");
            warn(format!("{}: no LDAP setting has this name; there are {known}", entry.path().display()));
            continue;
        }
        let text = fs::read_to_string(entry.path()).map_err(unreadable(&entry.path()))?;
        texts.insert(name, text.trim().to_owned());
    }
    Ok(texts)
}

fn is_balanced(filter: &str) -> bool {
    let mut open = 0_i32;
    for c in filter.chars() {
        open += i32::from(c == '(') - i32::from(c == ')');
        if open < 0 {
            return false;
        }
    }
    open == 0
}

/// Nothing that would make another URL of it.
fn is_host(host: &str) -> bool {
    host.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:[]".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [(&str, &str); 8] = [
        ("Host", "ldap.example.org\n"),
        ("Port", " 389 "),
        ("BaseDN", "dc=example,dc=org"),
        ("Filter", "(&(uid=%s)(objectClass=person))"),
        ("GroupAttr", "memberOf"),
        ("ReturnAttr", "cn, memberOf"),
        ("BindUser", "cn=reader,dc=example,dc=org"),
        ("BindPassword", "s3cret\n"),
    ];

    fn directory(changes: &[(&str, Option<&str>)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in GOOD {
            fs::write(directory.path().join(name), text).unwrap();
        }
        for (name, text) in changes {
            let path = directory.path().join(name);
            match text {
                Some(text) => fs::write(path, text).unwrap(),
                None => fs::remove_file(path).unwrap(),
            }
        }
        directory
    }

    fn read(changes: &[(&str, Option<&str>)]) -> (Result<LdapSettings, String>, Vec<String>) {
        let directory = directory(changes);
        let mut warnings = Vec::new();
        let settings = LdapSettings::read_with(directory.path(), &mut |text| warnings.push(text));
        let shown = directory.path().display().to_string();
        let hidden = |text: String| text.replace(&shown, "DIR");
        (settings.map_err(|error| hidden(error.to_string())), warnings.into_iter().map(hidden).collect())
    }

    #[test]
    fn all_settings() {
        // ACL-045
        let (settings, warnings) = read(&[]);
        let settings = settings.unwrap();
        assert_eq!((settings.url().as_str(), settings.insecure), ("ldap://ldap.example.org:389", false));
        assert_eq!(settings.wanted(), ["cn", "memberOf"]);
        assert_eq!((settings.bind_password.expose(), warnings.len()), ("s3cret", 0));
        assert!(!format!("{settings:?}").contains("s3cret"), "a secret is not shown");
        let (settings, _) = read(&[("SSL", Some("true")), ("Port", Some("636")), ("ReturnAttr", Some("cn"))]);
        let settings = settings.unwrap();
        assert_eq!(
            (settings.url().as_str(), settings.wanted()),
            ("ldaps://ldap.example.org:636", vec!["cn", "memberOf"])
        );
        let (settings, _) = read(&[("Host", Some("::1"))]);
        assert_eq!(settings.unwrap().url(), "ldap://[::1]:389");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (name, text, wanted) in [
            ("Host", None, "LDAP setting Host is missing: write the file DIR/Host"),
            ("BindPassword", None, "LDAP setting BindPassword is missing: write the file DIR/BindPassword"),
            ("BaseDN", Some(" \n"), "LDAP setting BaseDN in DIR/BaseDN is empty: it needs a value"),
            ("Port", Some("0"), "LDAP setting Port in DIR/Port is '0': it has to be a number from 1 to 65535"),
            ("Port", Some("65536"), "LDAP setting Port in DIR/Port is '65536': it has to be a number from 1 to 65535"),
            (
                "Filter",
                Some("(uid=x)"),
                "LDAP setting Filter in DIR/Filter is '(uid=x)': it has to contain %s, which stands for the user",
            ),
            (
                "Filter",
                Some(")uid=%s("),
                "LDAP setting Filter in DIR/Filter is ')uid=%s(': its parentheses do not match",
            ),
            ("SSL", Some("maybe"), "LDAP setting SSL in DIR/SSL is 'maybe': it has to be true or false"),
            ("Host", Some("a/b"), "LDAP setting Host in DIR/Host is 'a/b': it has to be a host name or address alone"),
        ] {
            assert_eq!(read(&[(name, text)]).0.unwrap_err(), wanted);
        }
    }

    #[test]
    fn what_may_be_a_mistake_is_a_warning() {
        let (settings, warnings) = read(&[
            ("SSL", Some("T")),
            ("Insecure", Some("1")),
            ("BindUser", Some("reader")),
            ("GroupAttr", Some("member of")),
            ("Colour", Some("blue")),
            ("..data", Some("x")),
        ]);
        assert!(settings.is_ok_and(|settings| settings.insecure));
        let told = |part: &str| warnings.iter().filter(|warning| warning.contains(part)).count();
        for part in ["port 389", "not checked", "BindUser is 'reader'", "'member of'", "DIR/Colour: no LDAP setting"] {
            assert_eq!(told(part), 1, "{part}: {warnings:?}");
        }
        assert_eq!(warnings.len(), 5, "{warnings:?}");
    }
}
