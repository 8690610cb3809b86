//! Where figures are served: on the loopback, unless the user says otherwise.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::exit::UsageError;

/// An address that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub SocketAddr);

impl Address {
    /// Reads `127.0.0.1:9464`, `:9464` or `9464`; beyond the loopback only if it may be `public`.
    ///
    /// # Errors
    /// What to write instead.
    pub fn read(text: &str, public: bool) -> Result<Self, UsageError> {
        let port = text.strip_prefix(':').unwrap_or(text).parse::<u16>().ok();
        let here = port.map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
        let Some(address) = here.or_else(|| text.parse().ok()) else {
            return Err(UsageError(format!("--metrics: `{text}` is no address; write for instance `127.0.0.1:9464`")));
        };
        if !public && !address.ip().is_loopback() {
            return Err(UsageError(format!(
                "--metrics: whoever reaches {address} could read the figures; write `127.0.0.1:{}`, or add \
                 `--metrics-public` if that is meant",
                address.port()
            )));
        }
        Ok(Address(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_loopback_is_served_unasked() {
        let read = |text: &str, public| Address::read(text, public).map(|a| a.0.to_string()).map_err(|why| why.0);
        for (text, expected) in [
            ("127.0.0.1:9464", "127.0.0.1:9464"),
            (":9464", "127.0.0.1:9464"),
            ("0", "127.0.0.1:0"),
            ("[::1]:9464", "[::1]:9464"),
        ] {
            assert_eq!(read(text, false).as_deref(), Ok(expected));
        }
        for open in ["0.0.0.0:9464", "192.0.2.1:9464", "[::]:9464"] {
            assert!(read(open, false).is_err_and(|why| why.contains("`--metrics-public`")), "{open}");
            assert_eq!(read(open, true).as_deref(), Ok(open));
        }
        assert!(read("localhost", false).is_err_and(|why| why.contains("is no address")));
        assert!(read("99999", false).is_err());
    }
}
