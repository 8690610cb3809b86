//! What the two ends of a connection agreed on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CommonState, DigitallySignedStruct, HandshakeKind, ProtocolVersion, RootCertStore, SignatureScheme};

use super::Fault;

/// Version, suite and protocol of an encrypted connection, in the words of their registries, and how it came about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Agreed {
    pub version: &'static str,
    pub cipher: String,
    pub alpn: String,
    /// By a ticket, without certificates.
    pub resumed: bool,
}

impl Agreed {
    /// What a finished handshake over TCP says.
    pub(crate) fn of(state: &CommonState) -> Agreed {
        let cipher = state.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
        let version = match state.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "TLS 1.2",
            // no other is offered
            _ => "TLS 1.3",
        };
        Agreed {
            version,
            cipher: cipher.unwrap_or_default().replace("TLS13_", "TLS_"),
            alpn: state.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned()).unwrap_or_default(),
            resumed: state.handshake_kind() == Some(HandshakeKind::Resumed),
        }
    }

    /// What a finished handshake over QUIC says, which tells the protocol alone: only one suite was offered there.
    pub(crate) fn over_quic(alpn: &[u8], resumed: bool) -> Agreed {
        let alpn = String::from_utf8_lossy(alpn).into_owned();
        Agreed { version: "TLS 1.3", cipher: "TLS_AES_128_GCM_SHA256".to_owned(), alpn, resumed }
    }
}

/// Checks certificates as usual, and counts how many were good: a resumed connection shows none.
#[derive(Debug)]
pub(crate) struct Asked {
    /// `None`: any certificate is good.
    inner: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
    good: AtomicU64,
    /// Why the last bad one was.
    fault: Mutex<Option<Fault>>,
}

impl Asked {
    /// Certificates of these authorities are good.
    ///
    /// # Errors
    /// When there is no authority.
    pub(crate) fn new(roots: RootCertStore, provider: &Arc<CryptoProvider>) -> Result<Arc<Asked>, rustls::Error> {
        let inner = WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone()).build();
        let inner = inner.map_err(|why| rustls::Error::General(why.to_string()))?;
        Ok(Asked::by(Some(inner), provider))
    }

    /// Any certificate is good, if its key was used.
    pub(crate) fn anything(provider: &Arc<CryptoProvider>) -> Arc<Asked> {
        Asked::by(None, provider)
    }

    fn by(inner: Option<Arc<WebPkiServerVerifier>>, provider: &Arc<CryptoProvider>) -> Arc<Asked> {
        Arc::new(Asked { inner, provider: provider.clone(), good: AtomicU64::new(0), fault: Mutex::default() })
    }

    /// Takes one good certificate off the count, if there is any. Which of several connections it was shown to does not
    /// matter to their sum.
    pub(crate) fn take(&self) -> bool {
        self.good.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1)).is_ok()
    }
}

impl Asked {
    /// Why the last bad certificate was, if one was since this was last asked.
    pub(crate) fn take_fault(&self) -> Option<Fault> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl ServerCertVerifier for Asked {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let checked = match &self.inner {
            Some(inner) => inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now),
            None => Ok(ServerCertVerified::assertion()),
        };
        match &checked {
            Ok(_) => _ = self.good.fetch_add(1, Ordering::AcqRel),
            Err(why) => *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(Fault::of(why)),
        }
        checked
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
