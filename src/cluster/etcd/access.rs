//! How etcd is reached: addresses, and files with certificates and a password. These may be replaced while the server runs.

use std::{fs, path::Path, path::PathBuf, time::Duration};

use callboard_client::certificate::chain;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use super::innermost;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(1);
/// How often an idle connection is asked whether it is alive, and how long it has to answer.
const ALIVE: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// URLs of its members.
    pub members: Vec<String>,
    /// File with certificates to believe (PEM).
    pub ca: Option<PathBuf>,
    /// Files with the certificate and the key to show (PEM).
    pub identity: Option<(PathBuf, PathBuf)>,
    /// User, and the file with the password.
    pub user: Option<(String, PathBuf)>,
}

/// What is in the files of certificates.
#[derive(Default, PartialEq, Eq)]
pub struct Certificates {
    ca: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| format!("{}: cannot be read: {error}", file.display()))
}

/// The content of a file that has certificates: one without any would be taken, and nobody believed.
fn read_certificates(file: &Path) -> Result<Vec<u8>, String> {
    let content = read(file)?;
    chain(file)?;
    Ok(content)
}

impl Access {
    /// The certificates as they are now.
    ///
    /// # Errors
    /// A file cannot be read, or holds no certificate.
    pub fn certificates(&self) -> Result<Certificates, String> {
        let ca = self.ca.as_deref().map(read_certificates).transpose()?;
        let of = |(shown, key): &(PathBuf, PathBuf)| Ok::<_, String>((read_certificates(shown)?, read(key)?));
        Ok(Certificates { ca, identity: self.identity.as_ref().map(of).transpose()? })
    }

    /// User and password as they are now.
    ///
    /// # Errors
    /// The file cannot be read, or is no text.
    pub fn user(&self) -> Result<Option<(String, String)>, String> {
        let Some((name, file)) = &self.user else { return Ok(None) };
        let password = String::from_utf8(read(file)?).map_err(|_| format!("{}: is no text", file.display()))?;
        Ok(Some((name.clone(), password.trim_end().to_owned())))
    }

    /// Ways to the members, which connect when they are first needed; from within a runtime.
    ///
    /// # Errors
    /// A URL or a certificate is none, or no member is named.
    pub fn channels(&self, with: &Certificates) -> Result<Vec<Channel>, String> {
        if self.members.is_empty() {
            return Err("no member of etcd is named".to_owned());
        }
        self.members.iter().map(|url| channel(url, with)).collect()
    }
}

fn channel(url: &str, with: &Certificates) -> Result<Channel, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("\"{url}\" is no URL of a member of etcd: {why}");
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(wrong(&"it begins with http:// or https://"));
    }
    let mut endpoint = Endpoint::from_shared(url.to_owned()).map_err(|error| wrong(&error))?;
    if url.starts_with("https://") {
        let mut tls = match &with.ca {
            Some(ca) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        if let Some((certificate, key)) = &with.identity {
            tls = tls.identity(Identity::from_pem(certificate, key));
        }
        endpoint = endpoint
            .tls_config(tls)
            .map_err(|error| format!("the certificates for etcd are not sound: {}", innermost(&error)))?;
    }
    let endpoint = endpoint
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(ALIVE)
        .keep_alive_timeout(ALIVE)
        .keep_alive_while_idle(true);
    Ok(endpoint.connect_lazy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_certificate_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (none, some) = (dir.path().join("none.pem"), dir.path().join("some.pem"));
        fs::write(&none, "no certificate\n").unwrap();
        fs::write(&some, rcgen::generate_simple_self_signed(["etcd".to_owned()]).unwrap().cert.pem()).unwrap();
        let refused = |ca: &PathBuf, shown: &PathBuf| {
            let identity = Some((shown.clone(), some.clone()));
            let access = Access { ca: Some(ca.clone()), identity, ..Access::default() };
            access.certificates().err()
        };
        assert_eq!(refused(&some, &some), None);
        for (ca, shown) in [(&none, &some), (&some, &none)] {
            let why = refused(ca, shown).unwrap();
            assert!(why.ends_with("none.pem: it holds no certificate in PEM form"), "{why}");
        }
        let why = refused(&dir.path().join("gone.pem"), &some).unwrap();
        assert!(why.contains("gone.pem: cannot be read: "), "{why}");
    }
}
