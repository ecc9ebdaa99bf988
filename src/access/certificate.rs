//! The certificate of the doors, read from files, and again when they change: new connections get the new one.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
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

/// What a client has shown on its connection: a certificate that was verified, if any.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    names: Arc<[Box<str>]>,
    until: u64,
}

impl Shown {
    /// The first of a chain that was verified.
    pub fn of(chain: Option<&[CertificateDer<'_>]>) -> Shown {
        let Some(first) = chain.and_then(<[_]>::first) else { return Shown::default() };
        let certificate = webpki::EndEntityCert::try_from(first).ok();
        let Some((certificate, until)) = certificate.zip(not_after(first)) else { return Shown::default() };
        let names = certificate.valid_dns_names().chain(certificate.valid_uri_names()).map(Into::into).collect();
        Shown { names, until }
    }

    /// The DNS names and URIs that it is for.
    pub fn names(&self) -> &[Box<str>] {
        &self.names
    }

    /// When it expires, seconds since 1970.
    pub fn until(&self) -> u64 {
        self.until
    }

    /// A new connection with it would not be let in any more.
    pub fn has_expired(&self) -> bool {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() > self.until
    }
}

/// The last second of a certificate (RFC 5280, 4.1: the fifth field of what is signed, or the fourth where there is no version).
fn not_after(certificate: &[u8]) -> Option<u64> {
    let (_, certificate, _) = element(certificate)?;
    let (_, mut rest, _) = element(certificate)?;
    if let (0xa0, _, behind) = element(rest)? {
        rest = behind;
    }
    // Serial number, algorithm, issuer.
    for _ in 0..3 {
        rest = element(rest)?.2;
    }
    let (_, validity, _) = element(rest)?;
    let (_, _, until) = element(validity)?;
    let (tag, until, _) = element(until)?;
    let text = std::str::from_utf8(until).ok()?;
    let text = match tag {
        // Two digits of the year: up to 2049.
        0x17 if text.get(..2)? < "50" => format!("20{text}"),
        0x17 => format!("19{text}"),
        0x18 => text.to_owned(),
        _ => return None,
    };
    let time = jiff::civil::DateTime::strptime("%Y%m%d%H%M%SZ", text).ok()?;
    let seconds = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_second();
    Some(u64::try_from(seconds).unwrap_or_default())
}

/// The tag and what is in the first element of DER, and what is behind it.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(length - 0x80))?;
            (length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (inside, behind) = rest.split_at_checked(length)?;
    Some((*tag, inside, behind))
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
    fn a_certificate_says_until_when_it_is_good() {
        for (year, until) in [(1999, 915_148_800), (2049, 2_493_072_000), (2050, 2_524_608_000), (4000, 64_060_588_800)]
        {
            let mut params = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
            params.not_after = rcgen::date_time_ymd(year, 1, 1);
            let made = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
            let shown = Shown::of(Some(&[made.der().clone()]));
            assert_eq!((shown.until(), shown.has_expired()), (until, year < 2000), "{year}");
            assert_eq!(shown.names(), [Box::from("a.example")]);
        }
        assert!(Shown::of(None).names().is_empty());
        // Whatever comes is read without a fault.
        let made = pair().0;
        let der = CertificateDer::from_pem_slice(made.as_bytes()).unwrap();
        (0..der.len()).for_each(|end| _ = not_after(&der[..end]));
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
