//! Who shows a certificate: a chain and its key, read from files or made for one run.

use std::collections::BTreeSet;
use std::net::IpAddr;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::error::EmuError;

/// A certificate, those above it, and its key.
pub(super) struct Identity {
    pub(super) authority: CertificateDer<'static>,
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

impl Identity {
    /// An authority for one process of a run, and a certificate of it for the addresses that it listens at: ECDSA over P-256
    /// (RFC 8446 §9.1). Both serve for either end.
    pub(super) fn make(run: &str, addresses: impl Iterator<Item = IpAddr>) -> Result<Identity, EmuError> {
        let addresses: BTreeSet<String> = addresses.map(|address| address.to_string()).collect();
        let failed = |why: rcgen::Error| EmuError::Certificate { reason: why.to_string() };
        let mut above = CertificateParams::new(Vec::new()).map_err(failed)?;
        above.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        above.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        above.distinguished_name.push(DnType::CommonName, format!("Rehearsal, authority of the run {run}"));
        let authority_key = KeyPair::generate().map_err(failed)?;
        let authority = above.self_signed(&authority_key).map_err(failed)?;
        let issuer = Issuer::new(above, authority_key);

        let mut own = CertificateParams::new(addresses.into_iter().collect::<Vec<_>>()).map_err(failed)?;
        own.distinguished_name.push(DnType::CommonName, "Rehearsal");
        own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        own.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = own.signed_by(&key, &issuer).map_err(failed)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok(Identity { authority: authority.der().clone(), chain: vec![certificate.der().clone()], key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_process_has_an_authority_and_a_key_of_its_own() {
        let make = || Identity::make("trial", ["127.0.0.1", "::1"].map(|a| a.parse().expect("an address")).into_iter());
        let [a, b] = [make().expect("an identity"), make().expect("an identity")];
        assert_ne!(a.authority, b.authority);
        assert_ne!(a.key.secret_der(), b.key.secret_der());
    }
}
