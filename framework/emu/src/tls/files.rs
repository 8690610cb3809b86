//! Certificates and keys out of PEM files (RFC 7468), read where a node runs.

use std::path::Path;

use rehearsal_core::plan::TlsSpec;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::beside;
use super::identity::Identity;
use crate::error::EmuError;

/// Certificates in one file. Assumed: ten times what a bundle of a laboratory holds.
const CERTIFICATES_MAX: usize = 1000;

/// What a link's files hold.
#[derive(Default)]
pub(super) struct Files {
    /// Authorities that are trusted in place of the run's.
    pub(super) ca: Option<Vec<CertificateDer<'static>>>,
    /// What is shown in place of what was made for the run.
    pub(super) own: Option<Identity>,
}

impl Files {
    /// Reads the files that a link names.
    ///
    /// # Errors
    /// When one cannot be read, or holds something else.
    pub(super) fn read(base: &Path, link: &str, spec: &TlsSpec) -> Result<Files, EmuError> {
        let ca = spec.ca.as_ref().map(|name| certificates(base, link, name)).transpose()?;
        let own = match (&spec.certificate, &spec.key) {
            (Some(certificate), Some(key)) => {
                let chain = certificates(base, link, certificate)?;
                let authority = chain[chain.len() - 1].clone();
                let pem = read(base, link, key)?;
                let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| EmuError::TlsFile {
                    link: link.to_owned(),
                    file: key.clone(),
                    reason: "it holds no private key in PEM (`-----BEGIN PRIVATE KEY-----`)".to_owned(),
                })?;
                Some(Identity { authority, chain, key })
            }
            _ => None,
        };
        Ok(Files { ca, own })
    }
}

fn certificates(base: &Path, link: &str, name: &str) -> Result<Vec<CertificateDer<'static>>, EmuError> {
    let pem = read(base, link, name)?;
    let wrong =
        |reason: &str| EmuError::TlsFile { link: link.to_owned(), file: name.to_owned(), reason: reason.into() };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).take(CERTIFICATES_MAX).collect();
    let found = found.map_err(|_| wrong("its PEM is damaged"))?;
    if found.is_empty() {
        return Err(wrong("it holds no certificate in PEM (`-----BEGIN CERTIFICATE-----`)"));
    }
    Ok(found)
}

fn read(base: &Path, link: &str, name: &str) -> Result<Vec<u8>, EmuError> {
    std::fs::read(beside(base, name)).map_err(|why| EmuError::TlsFile {
        link: link.to_owned(),
        file: name.to_owned(),
        reason: why.to_string(),
    })
}
