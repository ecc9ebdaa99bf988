//! A directory server of its own, on a free port of the loopback, with a few people in it.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::common::{LIMIT, skip};

const BASE: &str = "dc=example,dc=org";
pub const PASSWORD: &str = "a-reader's-secret";

/// Groups as values of `memberOf`, as directories of the kind that most have keep them.
const PEOPLE: [(&str, &[&str]); 4] = [
    ("alice", &["CN=dev,OU=groups,DC=example,DC=org", "CN=data\\, science,OU=groups,DC=example,DC=org"]),
    ("bob", &["CN=ops,OU=groups,DC=example,DC=org", "odd"]),
    ("carol", &[]),
    ("star*", &["CN=dev,OU=groups,DC=example,DC=org"]),
];

/// A running server; killed at the end of the test.
pub struct Slapd {
    child: Child,
    pub port: u16,
    dir: tempfile::TempDir,
}

/// Where the server is installed, if it is; else the test is left out.
pub fn installed(test: &str) -> Option<PathBuf> {
    let found = ["/usr/sbin/slapd", "/usr/local/libexec/slapd", "/usr/libexec/slapd"].map(PathBuf::from);
    let found = found.into_iter().find(|path| path.is_file());
    if found.is_none() {
        skip(test, "no directory server (Debian: slapd) is installed");
    }
    found
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

impl Slapd {
    /// Starts one; where a test is named over TLS, with a certificate of its own making, and the test is left out where none can
    /// be made.
    pub fn start(program: &Path, tls: Option<&str>) -> Option<Slapd> {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name).display().to_string();
        fs::create_dir(at("data")).expect("made");
        let mut conf = format!(
            "include /etc/ldap/schema/core.schema\ninclude /etc/ldap/schema/cosine.schema\ninclude /etc/ldap/schema/inetorgperson.schema\n\
             attributetype ( 1.3.6.1.4.1.4203.666.1.999 NAME 'memberOf' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )\n\
             objectclass ( 1.3.6.1.4.1.4203.666.3.999 NAME 'groupedPerson' SUP top AUXILIARY MAY memberOf )\n\
             pidfile {}\ndisallow bind_anon\nrequire authc\n",
            at("pid")
        );
        if let Some(test) = tls {
            let made = Command::new("openssl")
                .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"])
                .args(["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"])
                .args(["-keyout", &at("key.pem"), "-out", &at("cert.pem")])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            if !made.is_ok_and(|status| status.success()) {
                skip(test, "openssl, which makes the certificate, is not installed");
                return None;
            }
            conf += &format!("TLSCertificateFile {}\nTLSCertificateKeyFile {}\n", at("cert.pem"), at("key.pem"));
        }
        conf += &format!(
            "database ldif\nsuffix {BASE}\nrootdn cn=reader,{BASE}\nrootpw \"{PASSWORD}\"\ndirectory {}\n",
            at("data")
        );
        fs::write(at("slapd.conf"), conf).expect("written");
        let mut ldif =
            format!("dn: {BASE}\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: example\n\n");
        for (uid, groups) in PEOPLE {
            ldif += &format!(
                "dn: uid={uid},{BASE}\nobjectClass: inetOrgPerson\nobjectClass: groupedPerson\nuid: {uid}\ncn: {uid}\nsn: {uid}\n"
            );
            for group in groups {
                ldif += &format!("memberOf: {group}\n");
            }
            ldif.push('\n');
        }
        fs::write(at("people.ldif"), ldif).expect("written");
        let added = Command::new(program.with_file_name("slapadd"))
            .args(["-f", &at("slapd.conf"), "-l", &at("people.ldif")])
            .output()
            .expect("slapadd runs");
        assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
        let port = free_port();
        let scheme = if tls.is_some() { "ldaps" } else { "ldap" };
        let child = Command::new(program)
            .args(["-h", &format!("{scheme}://127.0.0.1:{port}"), "-f", &at("slapd.conf"), "-d", "0"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("slapd starts");
        let mut slapd = Slapd { child, port, dir };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = slapd.child.try_wait().expect("a child");
            assert!(ended.is_none() && began.elapsed() < LIMIT, "slapd does not listen: {ended:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(slapd)
    }

    /// The certificate, where it has one.
    pub fn certificate(&self) -> PathBuf {
        self.dir.path().join("cert.pem")
    }
}

impl Drop for Slapd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory of settings for a server at this port.
pub fn secrets(port: u16, changes: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let port = port.to_string();
    let reader = format!("cn=reader,{BASE}");
    let settings = [
        ("Host", "127.0.0.1"),
        ("Port", &port),
        ("BaseDN", BASE),
        ("Filter", "(&(objectClass=inetOrgPerson)(uid=%s))"),
        ("GroupAttr", "memberOf"),
        ("ReturnAttr", "cn,memberOf"),
        ("BindUser", &reader),
        ("BindPassword", PASSWORD),
    ];
    for (name, text) in settings.iter().chain(changes) {
        fs::write(dir.path().join(name), text).expect("written");
    }
    dir
}
