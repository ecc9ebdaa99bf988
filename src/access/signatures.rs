//! Signatures of tokens that an issuer made, checked with the same cryptography as TLS.

use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind,
    crypto::{CryptoProvider, JwtVerifier, KeyUtils},
    errors::{ErrorKind, Result},
};
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use signature_traits::{Error, Verifier};

use ::signature as signature_traits;

/// What may have been used: nothing that is made with a secret that the server would have to know.
pub const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// To be called before anything is checked; again changes nothing.
pub fn prepare() {
    let _ = PROVIDER.install_default();
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    let check = match (key.kind(), algorithm) {
        (DecodingKeyKind::RsaModulusExponent { n, e }, _) => {
            let parameters = match algorithm {
                Algorithm::RS256 => &signature::RSA_PKCS1_2048_8192_SHA256,
                Algorithm::RS384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                Algorithm::RS512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                Algorithm::PS256 => &signature::RSA_PSS_2048_8192_SHA256,
                Algorithm::PS384 => &signature::RSA_PSS_2048_8192_SHA384,
                Algorithm::PS512 => &signature::RSA_PSS_2048_8192_SHA512,
                _ => return Err(ErrorKind::InvalidAlgorithm.into()),
            };
            Check::Rsa { parameters, n: n.clone(), e: e.clone() }
        }
        (DecodingKeyKind::SecretOrDer(key), Algorithm::ES256) => Check::of(&signature::ECDSA_P256_SHA256_FIXED, key),
        (DecodingKeyKind::SecretOrDer(key), Algorithm::ES384) => Check::of(&signature::ECDSA_P384_SHA384_FIXED, key),
        (DecodingKeyKind::SecretOrDer(key), Algorithm::EdDSA) => Check::of(&signature::ED25519, key),
        _ => return Err(ErrorKind::InvalidAlgorithm.into()),
    };
    Ok(Box::new(With { algorithm: *algorithm, check }))
}

enum Check {
    Rsa { parameters: &'static RsaParameters, n: Vec<u8>, e: Vec<u8> },
    Key { algorithm: &'static dyn VerificationAlgorithm, key: Vec<u8> },
}

impl Check {
    fn of(algorithm: &'static dyn VerificationAlgorithm, key: &[u8]) -> Check {
        Check::Key { algorithm, key: key.to_vec() }
    }
}

struct With {
    algorithm: Algorithm,
    check: Check,
}

impl Verifier<Vec<u8>> for With {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let checked = match &self.check {
            Check::Rsa { parameters, n, e } => RsaPublicKeyComponents { n, e }.verify(parameters, message, signature),
            Check::Key { algorithm, key } => UnparsedPublicKey::new(*algorithm, key).verify(message, signature),
        };
        checked.map_err(|_| Error::new())
    }
}

impl JwtVerifier for With {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
