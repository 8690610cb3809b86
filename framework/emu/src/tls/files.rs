//! Certificates and keys out of PEM files (RFC 7468), read where a node runs.

use std::path::Path;

use rehearsal_core::plan::{LinkSpec, TlsSpec};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::beside;
use super::identity::Identity;
use crate::error::EmuError;

/// Certificates in one file. Assumed: ten times what a bundle of a laboratory holds.
const CERTIFICATES_MAX: usize = 1000;
/// Where systems keep the authorities that they trust: Debian, Fedora, SUSE, Alpine.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Names a file in their place, as OpenSSL has it.
const SYSTEM_VARIABLE: &str = "SSL_CERT_FILE";

/// What a link's files hold.
#[derive(Default)]
pub(super) struct Files {
    /// Authorities that are trusted in place of the run's.
    pub(super) ca: Option<Vec<CertificateDer<'static>>>,
    /// What is shown in place of what was made for the run.
    pub(super) own: Option<Identity>,
    /// Whether the link leads to a target outside, for which nothing is made.
    pub(super) outside: bool,
}

impl Files {
    /// Reads the files that a link names.
    ///
    /// # Errors
    /// When one cannot be read, or holds something else.
    pub(super) fn read(base: &Path, link: &LinkSpec, spec: &TlsSpec) -> Result<Files, EmuError> {
        let (outside, link) = (link.outside, link.name.as_str());
        let ca = match &spec.ca {
            Some(name) => Some(certificates(base, link, name)?),
            None if outside && !spec.insecure => Some(of_system(link)?),
            None => None,
        };
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
        Ok(Files { ca, own, outside })
    }
}

/// The authorities that the system trusts.
fn of_system(link: &str) -> Result<Vec<CertificateDer<'static>>, EmuError> {
    let named = std::env::var(SYSTEM_VARIABLE).ok();
    let file = named.or_else(|| SYSTEM.iter().find(|file| Path::new(file).exists()).map(|file| (*file).to_owned()));
    let Some(file) = file else {
        let reason = "this system keeps no authorities there: name those of the target, `tls = { ca = \"ca.pem\" }`";
        return Err(EmuError::TlsFile { link: link.to_owned(), file: SYSTEM[0].to_owned(), reason: reason.to_owned() });
    };
    certificates(Path::new(""), link, &file)
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
