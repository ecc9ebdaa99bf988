//! The certificate of the doors, read from files, and again when they change: new connections get the new one.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use arc_swap::ArcSwap;
pub use callboard_client::certificate::{chain, provider};
use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject as _},
    server::{
        ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::CertifiedKey,
};

/// Certificate chain and private key.
pub struct Certificate {
    chain: PathBuf,
    key: PathBuf,
    current: ArcSwap<CertifiedKey>,
}

impl Certificate {
    /// Reads both files, in PEM form.
    ///
    /// # Errors
    /// A file cannot be read or does not hold what it should, or they do not belong together.
    pub fn open(chain: &Path, key: &Path) -> Result<Arc<Certificate>, String> {
        let current = ArcSwap::from_pointee(read(chain, key)?);
        Ok(Arc::new(Certificate { chain: chain.to_owned(), key: key.to_owned(), current }))
    }

    /// Reads both files again. Where that fails, what was there stays.
    ///
    /// # Errors
    /// As [`Certificate::open`].
    pub fn reload(&self) -> Result<(), String> {
        self.current.store(Arc::new(read(&self.chain, &self.key)?));
        Ok(())
    }

    /// The files.
    pub fn files(&self) -> [&Path; 2] {
        [&self.chain, &self.key]
    }

    /// For a listener that speaks these protocols (ALPN). Takes TLS 1.2 and 1.3; clients may show a certificate where `clients`
    /// says whose are believed.
    ///
    /// # Errors
    /// The cryptography lacks a version of TLS.
    pub fn server(
        self: &Arc<Self>,
        protocols: &[&[u8]],
        clients: Option<&Arc<Authorities>>,
    ) -> Result<ServerConfig, String> {
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let config = match clients {
            None => config.with_no_client_auth(),
            Some(clients) => config.with_client_cert_verifier(clients.clone() as Arc<dyn ClientCertVerifier>),
        };
        let mut config = config.with_cert_resolver(self.clone());
        if clients.is_some() {
            // A session that is taken up again would be believed whatever has become of its authority.
            config.session_storage = Arc::new(NoServerSessionStorage {});
        }
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(config)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("chain", &self.chain).finish_non_exhaustive()
    }
}

/// Authorities whose client certificates are believed, read from a file, and again when it changes: connections from then on are
/// judged by the new ones. A client without a certificate is let in all the same.
#[derive(Debug)]
pub struct Authorities {
    file: PathBuf,
    current: ArcSwap<Arc<dyn ClientCertVerifier>>,
}

impl Authorities {
    /// Reads the file, in PEM form.
    ///
    /// # Errors
    /// It cannot be read, or a certificate in it cannot be used.
    pub fn open(file: &Path) -> Result<Arc<Authorities>, String> {
        let current = ArcSwap::from_pointee(believed(file)?);
        Ok(Arc::new(Authorities { file: file.to_owned(), current }))
    }

    /// Reads the file again. Where that fails, what was there stays.
    ///
    /// # Errors
    /// As [`Authorities::open`].
    pub fn reload(&self) -> Result<(), String> {
        self.current.store(Arc::new(believed(&self.file)?));
        Ok(())
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }
}

impl ClientCertVerifier for Authorities {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // No names are suggested: they change. Clients send what they have.
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.current.load().verify_client_cert(certificate, between, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.current.load().verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.current.load().verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.current.load().supported_verify_schemes()
    }
}

fn believed(authorities: &Path) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let named = |what: String| format!("certificate file {}: {what}", authorities.display());
    let mut roots = RootCertStore::empty();
    for authority in chain(authorities)? {
        roots.add(authority).map_err(|error| named(error.to_string()))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
    let verifier = verifier.allow_unauthenticated().build().map_err(|error| named(error.to_string()))?;
    Ok(verifier)
}

/// The DNS names and URIs that a client's certificate, which was verified, is for.
pub fn names(chain: Option<&[CertificateDer<'_>]>) -> Vec<Box<str>> {
    let read = |first| webpki::EndEntityCert::try_from(first).ok();
    let Some(certificate) = chain.and_then(<[_]>::first).and_then(read) else { return Vec::new() };
    certificate.valid_dns_names().chain(certificate.valid_uri_names()).map(Into::into).collect()
}

fn read(certificate: &Path, key: &Path) -> Result<CertifiedKey, String> {
    let chain = chain(certificate)?;
    let named = |what: String| format!("key file {}: {what}", key.display());
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| named(error.to_string()))?;
    CertifiedKey::from_der(chain, private, &provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            named(format!("it is not the key of the certificate in {}", certificate.display()))
        }
        other => named(other.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn files_are_read_and_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let (chain, key) = (dir.path().join("tls.crt"), dir.path().join("tls.key"));
        let (one, other) = (pair(), pair());
        fs::write(&chain, &one.0).unwrap();
        fs::write(&key, &one.1).unwrap();
        let certificate = Certificate::open(&chain, &key).unwrap();
        assert!(certificate.server(&[b"h2"], None).is_ok());
        let first = certificate.current.load().cert.clone();
        // Half of a change is not taken.
        fs::write(&chain, &other.0).unwrap();
        let fault = certificate.reload().unwrap_err();
        assert!(fault.contains("tls.key: it is not the key of the certificate in"), "{fault}");
        assert_eq!(certificate.current.load().cert, first);
        fs::write(&key, &other.1).unwrap();
        certificate.reload().unwrap();
        assert_ne!(certificate.current.load().cert, first);
    }

    #[test]
    fn faults_name_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let (chain, key) = pair();
        let (chain, key, empty) = (file("a.crt", &chain), file("a.key", &key), file("empty.pem", ""));
        let fault = |chain: &Path, key: &Path| Certificate::open(chain, key).unwrap_err();
        assert!(fault(&empty, &key).contains("empty.pem: it holds no certificate in PEM form"));
        assert!(fault(&chain, &empty).starts_with("key file ") && fault(&chain, &empty).contains("empty.pem"));
        assert!(fault(&dir.path().join("none"), &key).contains("none"));
        let shown = fault(&chain, &file("bad.key", "-----BEGIN PRIVATE KEY-----\nQUJD\n-----END PRIVATE KEY-----\n"));
        assert!(shown.contains("bad.key") && !shown.contains("QUJD"), "{shown}");
    }
}
