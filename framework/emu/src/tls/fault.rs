//! Why two ends did not come to terms: faults of handshakes, each with a name.

use std::error::Error;
use std::io;

use rustls::{AlertDescription, CertificateError};

/// Why a handshake failed, or what ended the connection right after it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Fault {
    /// The peer's certificate comes from an authority that is not trusted.
    Issuer,
    /// It has expired.
    Expired,
    /// It is not valid yet.
    Early,
    /// It is of another name or address.
    Name,
    /// It is not for this use.
    Purpose,
    /// It was revoked.
    Revoked,
    /// Something else is wrong with it.
    Certificate,
    /// The peer did not accept ours, or missed one.
    Ours,
    /// The peer has no version or suite in common with us.
    Version,
    /// The peer does not speak the protocol that was asked for.
    Protocol,
    /// The peer does not speak TLS.
    Foreign,
    /// Anything else that ended the handshake.
    Broken,
}

impl Fault {
    /// What an error of TLS says.
    pub(crate) fn of(why: &rustls::Error) -> Fault {
        match why {
            rustls::Error::InvalidCertificate(why) => Fault::of_certificate(why),
            rustls::Error::AlertReceived(alert) => Fault::of_alert(*alert),
            rustls::Error::PeerIncompatible(_) => Fault::Version,
            rustls::Error::NoApplicationProtocol => Fault::Protocol,
            rustls::Error::NoCertificatesPresented => Fault::Ours,
            rustls::Error::InvalidMessage(_) => Fault::Foreign,
            _ => Fault::Broken,
        }
    }

    /// What an alert says that the peer sent (RFC 8446 §6.2), or that ours was.
    pub(crate) fn of_alert(alert: AlertDescription) -> Fault {
        use AlertDescription as A;
        match alert {
            A::BadCertificate
            | A::CertificateRequired
            | A::CertificateExpired
            | A::CertificateRevoked
            | A::CertificateUnknown
            | A::UnsupportedCertificate
            | A::UnknownCA
            | A::AccessDenied => Fault::Ours,
            A::ProtocolVersion | A::InsufficientSecurity | A::HandshakeFailure => Fault::Version,
            A::NoApplicationProtocol => Fault::Protocol,
            _ => Fault::Broken,
        }
    }

    fn of_certificate(why: &CertificateError) -> Fault {
        use CertificateError as C;
        match why {
            C::UnknownIssuer => Fault::Issuer,
            C::Expired | C::ExpiredContext { .. } => Fault::Expired,
            C::NotValidYet | C::NotValidYetContext { .. } => Fault::Early,
            C::NotValidForName | C::NotValidForNameContext { .. } => Fault::Name,
            C::InvalidPurpose | C::InvalidPurposeContext { .. } => Fault::Purpose,
            C::Revoked => Fault::Revoked,
            _ => Fault::Certificate,
        }
    }

    /// What TLS says in the causes of an error, if it says anything.
    pub(crate) fn within(why: &(dyn Error + 'static)) -> Option<Fault> {
        let causes = std::iter::successors(Some(why), |cause| (*cause).source());
        causes.into_iter().find_map(|cause| {
            let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            let inner = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
            inner.or_else(|| cause.downcast_ref::<rustls::Error>()).map(Fault::of)
        })
    }

    /// What `address` did to `connections`.
    pub(crate) fn says(self, address: &str, connections: &str) -> String {
        let shown = |what: &str| format!("{address} showed {connections} a certificate {what}");
        match self {
            Fault::Issuer => shown("of an authority that is not trusted"),
            Fault::Expired => shown("that has expired"),
            Fault::Early => shown("that is not valid yet"),
            Fault::Name => shown("of another name"),
            Fault::Purpose => shown("that is not for servers"),
            Fault::Revoked => shown("that was revoked"),
            Fault::Certificate => shown("that is no good"),
            Fault::Ours => format!("{address} did not accept the certificate of {connections}, or missed one"),
            Fault::Version => format!("{address} has no version or no suite of TLS in common with {connections}"),
            Fault::Protocol => format!("{address} does not speak the protocol that {connections} asked for (ALPN)"),
            Fault::Foreign => format!("{address} answered {connections} with something else than TLS"),
            Fault::Broken => format!("{address} broke off the TLS handshake of {connections}"),
        }
    }

    /// What went wrong, of a connection that came in.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Fault::Issuer => "the sender's certificate comes from an authority that is not trusted",
            Fault::Expired => "the sender's certificate has expired",
            Fault::Early => "the sender's certificate is not valid yet",
            Fault::Name | Fault::Purpose | Fault::Revoked | Fault::Certificate => "the sender's certificate is no good",
            Fault::Ours => "the sender did not accept the receiver's certificate, or showed none of its own",
            Fault::Version => "no TLS 1.3 or no suite in common",
            Fault::Protocol => "no protocol in common (ALPN)",
            Fault::Foreign => "the sender does not speak TLS",
            Fault::Broken => "the sender broke it off",
        }
    }
}
