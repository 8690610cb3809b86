//! TLS, 1.3 (RFC 8446) among ourselves: who this process is, whom it trusts, and the configurations of both ends that follow from a link's
//! `tls`.
//!
//! Where a link names no files, a process makes an authority and one certificate for the run, in memory. The authority's
//! certificate goes to the other processes beside the addresses of receivers, so that each trusts all authorities of its run
//! and nobody else; no key leaves its process. Configurations of senders are made when their first connection is opened,
//! those of receivers when the first comes in: by then all authorities are known, and one that comes later (a node that was
//! started again) makes them anew. Targets outside are trusted as the system or a file says, and may have TLS 1.2 alone.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rehearsal_core::assembly::Assembly;
use rehearsal_core::plan::{Carrier, LinkSpec, TlsHandshake, TlsMode, TlsSpec};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{self, cipher_suite};
use rustls::pki_types::CertificateDer;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};

use crate::error::EmuError;

mod agreed;
mod asking;
mod fault;
mod files;
mod identity;
mod links;

pub(crate) use agreed::{Agreed, Asked};
pub use asking::Encrypted;
pub(crate) use fault::Fault;
use files::Files;
use identity::Identity;
pub(crate) use links::Doors;
pub(crate) use links::check;

/// Authorities that a process learns of at most, as many as an agent takes nodes.
pub(crate) const AUTHORITIES_MAX: usize = 512;
/// Tickets that a target's connections keep for later ones. Source: rustls keeps eight for TLS 1.3 in any case.
const TICKETS: usize = 8;
/// Tickets that a receiver gives out with each handshake, where they are wanted. Source: RFC 8446 §4.6.1 allows any number;
/// two is what rustls and OpenSSL give.
const TICKETS_GIVEN: usize = 2;

/// Who a process is and whom it trusts.
pub(crate) struct Trust {
    /// By row of the plan's links.
    files: BTreeMap<usize, Files>,
    /// Made for the run, where any link names no files.
    own: Option<Identity>,
    /// Authorities of the run, this process's own among them.
    authorities: Mutex<Vec<CertificateDer<'static>>>,
    /// Counts changes of `authorities`.
    version: AtomicU64,
    provider: Arc<CryptoProvider>,
    /// One suite, because QUIC's library does not tell which was chosen.
    quic: Arc<CryptoProvider>,
    /// Every suite, for targets outside.
    outside: Arc<CryptoProvider>,
}

/// What a sender's connections to one target use.
#[derive(Clone)]
pub(crate) struct ClientSide {
    version: u64,
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) asked: Arc<Asked>,
}

/// A configuration, and of which authorities.
pub(crate) struct Dated<T> {
    version: u64,
    pub(crate) config: Arc<T>,
}

impl<T> Clone for Dated<T> {
    fn clone(&self) -> Self {
        Dated { version: self.version, config: self.config.clone() }
    }
}

impl Trust {
    /// For a process that listens at `addresses`: its files are read, its keys made.
    ///
    /// # Errors
    /// When a file cannot be read, or holds something else.
    pub(crate) fn of(assembly: &Assembly, addresses: impl Iterator<Item = IpAddr>) -> Result<Trust, EmuError> {
        let files = links::files(assembly)?;
        let run_makes = |files: &Files| !files.outside && (files.ca.is_none() || files.own.is_none());
        let run_makes = files.values().any(run_makes);
        let own = if run_makes { Some(Identity::make(&assembly.plan.info.run, addresses)?) } else { None };
        let authorities = own.iter().map(|own| own.authority.clone()).collect();
        let trust = Trust { files, own, authorities: Mutex::new(authorities), ..Trust::none() };
        Ok(trust)
    }

    /// For a process without encrypted links.
    pub(crate) fn none() -> Trust {
        Trust {
            files: BTreeMap::new(),
            own: None,
            authorities: Mutex::default(),
            version: AtomicU64::new(0),
            provider: Arc::new(provider(&SUITES)),
            quic: Arc::new(provider(&SUITES[..1])),
            outside: Arc::new(ring::default_provider()),
        }
    }

    /// The authority of this process, for the others.
    pub(crate) fn authority(&self) -> Option<Vec<u8>> {
        self.own.as_ref().map(|own| own.authority.to_vec())
    }

    /// Trusts further authorities of the run, if anything here is encrypted.
    pub(crate) fn learn(&self, authorities: impl IntoIterator<Item = Vec<u8>>) {
        if self.files.is_empty() {
            return;
        }
        let mut known = self.authorities.lock().unwrap_or_else(PoisonError::into_inner);
        for der in authorities {
            if known.len() < AUTHORITIES_MAX && !known.iter().any(|known| known.as_ref() == der) {
                known.push(CertificateDer::from(der));
                self.version.fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    /// Whether a configuration does not know all authorities.
    pub(crate) fn is_old(&self, dated: &Dated<ServerConfig>) -> bool {
        dated.version != self.version.load(Ordering::Acquire)
    }

    /// The same of a sender's.
    pub(crate) fn has_news_for(&self, side: &ClientSide) -> bool {
        side.version != self.version.load(Ordering::Acquire)
    }

    /// What a sender's connections over a link use. Tickets are kept in it, so each target has its own.
    ///
    /// # Errors
    /// When a certificate and its key do not belong together, or an authority cannot be used.
    pub(crate) fn client(&self, row: usize, link: &LinkSpec) -> Result<ClientSide, rustls::Error> {
        let spec = link.security().unwrap_or_default();
        let version = self.version.load(Ordering::Acquire);
        let (provider, versions): (_, &[&SupportedProtocolVersion]) = match (link.carrier, link.outside) {
            (Carrier::Http3, _) => (&self.quic, &[&TLS13]),
            (_, false) => (&self.provider, &[&TLS13]),
            (_, true) => (&self.outside, &[&TLS13, &TLS12]),
        };
        let asked = if spec.insecure && link.outside {
            Asked::anything(provider)
        } else {
            Asked::new(self.roots(row)?, provider)?
        };
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)?
            .dangerous()
            .with_custom_certificate_verifier(asked.clone());
        let own = match (link.outside, spec.mode) {
            (true, _) => self.files.get(&row).and_then(|files| files.own.as_ref()),
            (false, TlsMode::Mutual) => self.identity(row),
            (false, TlsMode::Server) => None,
        };
        let mut config = match own {
            Some(own) => builder.with_client_auth_cert(own.chain.clone(), own.key.clone_key())?,
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = alpn(link.carrier);
        config.resumption = match spec.handshake {
            TlsHandshake::Full => Resumption::disabled(),
            TlsHandshake::Resumed => Resumption::in_memory_sessions(TICKETS),
        };
        Ok(ClientSide { version, config: Arc::new(config), asked })
    }

    /// What a receiver's connections use, over TCP or QUIC; `None` if none of its links is encrypted there.
    ///
    /// # Errors
    /// As of [`Trust::client`].
    pub(crate) fn server(&self, doors: &Doors, quic: bool) -> Result<Option<Dated<ServerConfig>>, rustls::Error> {
        let version = self.version.load(Ordering::Acquire);
        let wanted = |carrier: Carrier| (carrier == Carrier::Http3) == quic;
        let links: Vec<(usize, Carrier, &TlsSpec)> = doors.encrypted().filter(|(_, c, _)| wanted(*c)).collect();
        let Some((row, ..)) = links.first() else { return Ok(None) };
        let Some(own) = links.iter().find_map(|(row, ..)| self.identity(*row)) else { return Ok(None) };
        let builder = ServerConfig::builder_with_provider(self.provider.clone()).with_protocol_versions(&[&TLS13])?;
        let is_mutual = |(.., spec): &(usize, Carrier, &TlsSpec)| spec.mode == TlsMode::Mutual;
        let builder = if links.iter().any(is_mutual) {
            let verifier = WebPkiClientVerifier::builder_with_provider(self.roots(*row)?.into(), self.provider.clone());
            // a receiver that also serves links without certificates cannot tell their senders apart before
            let verifier = if links.iter().all(is_mutual) { verifier } else { verifier.allow_unauthenticated() };
            let verifier = verifier.build().map_err(|why| rustls::Error::General(why.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let mut config = builder.with_single_cert(own.chain.clone(), own.key.clone_key())?;
        config.alpn_protocols = links.iter().flat_map(|(_, carrier, _)| alpn(*carrier)).collect();
        if links.iter().any(|(.., spec)| spec.handshake == TlsHandshake::Resumed) {
            config.ticketer = ring::Ticketer::new()?;
            config.send_tls13_tickets = TICKETS_GIVEN;
        } else {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Some(Dated { version, config: Arc::new(config) }))
    }

    /// What this process shows on a link.
    fn identity(&self, row: usize) -> Option<&Identity> {
        self.files.get(&row).and_then(|files| files.own.as_ref()).or(self.own.as_ref())
    }

    fn roots(&self, row: usize) -> Result<RootCertStore, rustls::Error> {
        let mut roots = RootCertStore::empty();
        let given = self.files.get(&row).and_then(|files| files.ca.as_ref());
        match given {
            // a system keeps some that are of no use here
            Some(ca) if self.files.get(&row).is_some_and(|files| files.outside) => {
                roots.add_parsable_certificates(ca.iter().cloned());
            }
            Some(ca) => ca.iter().try_for_each(|ca| roots.add(ca.clone()))?,
            None => {
                let known = self.authorities.lock().unwrap_or_else(PoisonError::into_inner);
                known.iter().try_for_each(|authority| roots.add(authority.clone()))?;
            }
        }
        Ok(roots)
    }
}

/// AES-128-GCM first: the suite that everybody has (RFC 8446 §9.1), on all carriers the same.
static SUITES: [SupportedCipherSuite; 3] = [
    cipher_suite::TLS13_AES_128_GCM_SHA256,
    cipher_suite::TLS13_AES_256_GCM_SHA384,
    cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
];

/// Cryptography of *ring*.
fn provider(suites: &[SupportedCipherSuite]) -> CryptoProvider {
    CryptoProvider { cipher_suites: suites.to_vec(), ..ring::default_provider() }
}

/// What a carrier is called where it is agreed on (RFC 7301). Source: the IANA registry of ALPN protocol identifiers.
fn alpn(carrier: Carrier) -> Vec<Vec<u8>> {
    let name: &[u8] = match carrier {
        Carrier::Http1 => b"http/1.1",
        Carrier::Http2 => b"h2",
        Carrier::Http3 => b"h3",
        _ => return Vec::new(),
    };
    vec![name.to_vec()]
}

/// A path as a link names it, relative to the experiment.
fn beside(base: &Path, name: &str) -> std::path::PathBuf {
    base.join(name)
}
