//! A connection to a target outside for whoever asks it once, without a run.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;

use rehearsal_core::plan::LinkSpec;
use rustls::{ClientConnection, StreamOwned};

use super::files::Files;
use super::{Agreed, Fault, Trust};
use crate::http::client::server_name;

/// A connection under TLS.
pub struct Encrypted(StreamOwned<ClientConnection, TcpStream>);

impl Encrypted {
    /// Agrees on keys with a target, as its link says; files are relative to `base`.
    ///
    /// # Errors
    /// What is wrong with a file, or what the two ends could not agree on.
    pub fn over(mut stream: TcpStream, link: &LinkSpec, host: &str, base: &Path) -> Result<Encrypted, String> {
        let spec = link.security().unwrap_or_default();
        let files = Files::read(base, link, &spec).map_err(|why| why.to_string())?;
        let trust = Trust { files: [(0, files)].into(), ..Trust::none() };
        let side = trust.client(0, link).map_err(|why| why.to_string())?;
        let host = spec.server_name.as_deref().unwrap_or(host);
        let name = server_name(host).ok_or_else(|| format!("`{host}` is no name that a certificate could be of"))?;
        let mut connection = ClientConnection::new(side.config, name).map_err(|why| why.to_string())?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream).map_err(|why| match Fault::within(&why) {
                Some(fault) => fault.says("it", "the connection"),
                None => why.to_string(),
            })?;
        }
        Ok(Encrypted(StreamOwned::new(connection, stream)))
    }

    /// Version, suite and protocol.
    pub fn agreed(&self) -> String {
        let Agreed { version, cipher, alpn, .. } = Agreed::of(&self.0.conn);
        if alpn.is_empty() { format!("{version}, {cipher}") } else { format!("{version}, {cipher}, {alpn}") }
    }
}

impl Read for Encrypted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.read(into) {
            // a peer that closes without saying so has said all the same
            Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            read => read,
        }
    }
}

impl Write for Encrypted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
