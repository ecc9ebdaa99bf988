//! Certificates and cryptography of encrypted connections.

use std::{path::Path, sync::Arc};

use rustls::{
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, pem::PemObject as _},
};

/// The cryptography of all connections.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The certificates of a PEM file.
///
/// # Errors
/// It cannot be read, or holds none.
pub fn chain(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let named = |what: String| format!("certificate file {}: {what}", file.display());
    let read = CertificateDer::pem_file_iter(file).map_err(|error| named(error.to_string()))?;
    let chain = read.collect::<Result<Vec<_>, _>>().map_err(|error| named(error.to_string()))?;
    if chain.is_empty() {
        return Err(named("it holds no certificate in PEM form".to_owned()));
    }
    Ok(chain)
}
