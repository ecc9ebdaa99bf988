//! What a client shows to a server, and which servers it believes.

use std::{fs, path::PathBuf, sync::Arc};

use rustls::{ClientConfig, RootCertStore};

use super::{certificate, secret::Secret};

/// Environment variable with the token itself. There is no such option: others could read it off the process list.
const TOKEN: &str = "CALLBOARD_TOKEN";

/// Token and certificates of a client.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct Trust {
    /// File with the token to send, instead of the variable CALLBOARD_TOKEN
    #[cfg_attr(feature = "clap", arg(long, global = true, value_name = "FILE", env = "CALLBOARD_TOKEN_FILE"))]
    pub token_file: Option<PathBuf>,
    /// Certificates to believe instead of those of the system, such as that of an own authority (PEM)
    #[cfg_attr(feature = "clap", arg(long, global = true, value_name = "FILE", env = "CALLBOARD_CA"))]
    pub ca: Option<PathBuf>,
}

impl Trust {
    /// The token to send, where there is one.
    ///
    /// # Errors
    /// The file cannot be read, or holds no token.
    pub fn token(&self) -> Result<Option<Secret>, String> {
        let (text, named) = match &self.token_file {
            Some(file) => {
                let named = format!("token file {}", file.display());
                (fs::read_to_string(file).map_err(|error| format!("{named}: {error}"))?, named)
            }
            None => match std::env::var(TOKEN) {
                Ok(text) => (text, TOKEN.to_owned()),
                Err(std::env::VarError::NotPresent) => return Ok(None),
                Err(std::env::VarError::NotUnicode(_)) => return Err(format!("{TOKEN} is no text")),
            },
        };
        Secret::given(text.trim()).map(Some).map_err(|error| format!("{named}: {error}"))
    }

    /// How TLS is spoken.
    ///
    /// # Errors
    /// The file cannot be read, or the system has no certificates.
    pub fn tls(&self) -> Result<ClientConfig, String> {
        let mut roots = RootCertStore::empty();
        match &self.ca {
            Some(file) => {
                for known in certificate::chain(file)? {
                    let added = roots.add(known);
                    added.map_err(|error| format!("certificate file {}: {error}", file.display()))?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                if roots.is_empty() {
                    return Err("the system has no certificates to believe: name some with --ca FILE".to_owned());
                }
            }
        }
        client(roots)
    }
}

/// A client that believes these.
///
/// # Errors
/// The cryptography lacks a version of TLS.
pub fn client(roots: RootCertStore) -> Result<ClientConfig, String> {
    let config = ClientConfig::builder_with_provider(certificate::provider()).with_safe_default_protocol_versions();
    let config = config.map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(Arc::new(roots)).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_from_files_without_the_line_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let trust = Trust { token_file: Some(file.path().to_owned()), ca: None };
        fs::write(file.path(), "cbt_abc\n").unwrap();
        assert_eq!(trust.token().unwrap().unwrap().reveal(), "cbt_abc");
        fs::write(file.path(), "\n").unwrap();
        assert!(trust.token().unwrap_err().contains("the token is empty"));
        let missing = Trust { token_file: Some("/nonexistent/token".into()), ca: Some("/nonexistent/ca".into()) };
        assert!(missing.token().unwrap_err().contains("/nonexistent/token"));
        assert!(missing.tls().unwrap_err().contains("/nonexistent/ca"));
    }
}
