//! Handshakes of TLS that come to nothing, each with its name.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rehearsal_core::Span;
use rehearsal_core::plan::{Carrier, LinkSpec, TlsSpec};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::Trial;
use crate::lab::group;

/// An authority of a test, in a file of its own.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(super) der: CertificateDer<'static>,
    pub(super) folder: PathBuf,
}

impl Authority {
    pub(super) fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        // authorities of one name would be taken for each other, until their signatures are checked
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let folder = std::env::temp_dir().join(format!("rehearsal-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("ca.pem"), pem(certificate.der())).expect("a file");
        Authority { issuer: Issuer::new(params, key), der: certificate.der().clone(), folder }
    }

    /// A certificate for `address`, and its key.
    pub(super) fn certify(&self, address: &str, to: i32) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let mut params = CertificateParams::new(vec![address.to_owned()]).expect("an address");
        params.not_after = date_time_ymd(to, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate.der().clone(), PrivatePkcs8KeyDer::from(key.serialize_der()).into())
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn pem(der: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    for (i, part) in der.chunks(3).enumerate() {
        let bits = part.iter().fold(0_u32, |n, b| n << 8 | u32::from(*b)) << (8 * (3 - part.len()));
        for j in 0..4 {
            let digit = LETTERS[(bits >> (18 - 6 * j) & 63) as usize] as char;
            text.push(if j <= part.len() { digit } else { '=' });
        }
        if i % 16 == 15 {
            text.push('\n');
        }
    }
    text + "\n-----END CERTIFICATE-----\n"
}

/// Answers requests of HTTP/1.1 under TLS, each connection once.
fn server(config: ServerConfig) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    let config = Arc::new(config);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = ServerConnection::new(config.clone()).expect("a configuration");
            let mut stream = StreamOwned::new(connection, stream);
            let mut request = [0; 4096];
            if stream.read(&mut request).is_ok_and(|read| read > 0) {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi");
                let _ = stream.read(&mut request);
            } else {
                // the alert is on its way: do not overtake it with a reset
                let _ = stream.sock.shutdown(std::net::Shutdown::Write);
                let _ = stream.sock.read_to_end(&mut Vec::new());
            }
        }
    });
    address
}

fn builder() -> rustls::ConfigBuilder<ServerConfig, rustls::WantsVerifier> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("a version")
}

fn plain((certificate, key): (CertificateDer<'static>, PrivateKeyDer<'static>)) -> ServerConfig {
    builder().with_no_client_auth().with_single_cert(vec![certificate], key).expect("they belong together")
}

fn trial(authority: &Authority, address: SocketAddr) -> Trial {
    let tls = TlsSpec { ca: Some("ca.pem".to_owned()), ..TlsSpec::default() };
    let link = LinkSpec { carrier: Carrier::Http1, tls: Some(tls), ..LinkSpec::default() };
    Trial { base: authority.folder.clone(), timeout: Span::from_millis(500), ..Trial::of(link, address) }
}

#[test]
fn a_certificate_of_a_given_authority_is_good() {
    let authority = Authority::new("good");
    let address = server(plain(authority.certify("127.0.0.1", 2090)));
    let (end, notes) = Trial { requests: 1, ..trial(&authority, address) }.run();
    assert_eq!((group(&end, 0).tally.success, notes), (1, vec![]));
    let row = &end.connections[0];
    assert_eq!((row.opened, row.full, row.tls.as_str(), row.alpn.as_str()), (1, 1, "TLS 1.3", ""));
}

/// Carriers over TCP, and what they are called where they are agreed on.
const CARRIERS: [(Carrier, &str); 2] = [(Carrier::Http1, "http/1.1"), (Carrier::Http2, "h2")];

#[test]
fn faults_of_certificates_are_told_apart() {
    let (authority, other) = (Authority::new("faults"), Authority::new("other"));
    let over = |(carrier, name): (Carrier, &str), mut config: ServerConfig, says: &str| {
        if config.alpn_protocols.is_empty() {
            config.alpn_protocols = vec![name.as_bytes().to_vec()];
        }
        let trial = trial(&authority, server(config));
        Trial { link: LinkSpec { carrier, ..trial.link.clone() }, ..trial }.must_be_told(says);
    };
    let told = |config: ServerConfig, says: &str| CARRIERS.iter().for_each(|each| over(*each, config.clone(), says));
    let shown = |what: &str| format!("showed 3 connections a certificate {what}");
    told(plain(other.certify("127.0.0.1", 2090)), &shown("of an authority that is not trusted"));
    told(plain(authority.certify("127.0.0.1", 1999)), &shown("that has expired"));
    told(plain(authority.certify("192.0.2.7", 2090)), &shown("of another name"));
    let (certificate, key) = authority.certify("127.0.0.1", 2090);
    let mut roots = RootCertStore::empty();
    roots.add(other.der.clone()).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().expect("a verifier");
    let mutual = builder().with_client_cert_verifier(verifier);
    let mutual = mutual.with_single_cert(vec![certificate], key).expect("they belong together");
    // it comes after the handshake: of HTTP/2's connection the library tells no more than that it ended
    over(CARRIERS[0], mutual.clone(), "did not accept the certificate of 3 connections, or missed one");
    over(CARRIERS[1], mutual, "closed 3 connections without an answer");
    let mut other_protocol = plain(authority.certify("127.0.0.1", 2090));
    other_protocol.alpn_protocols = vec![b"another".to_vec()];
    told(other_protocol, "does not speak the protocol that 3 connections asked for (ALPN)");
}

#[test]
fn peers_that_do_not_speak_tls_or_say_nothing_are_named() {
    let authority = Authority::new("clear");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    trial(&authority, address).must_be_told("answered 3 connections with something else than TLS");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    let silent = Trial { timeout: Span::from_millis(40), ..trial(&authority, address) };
    silent.must_be_told("did not accept 3 connections in time");
    drop(listener);
}
