//! A certificate for the receiver and for nginx, made by openssl; both ends of an experiment in two processes need the same files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::ways::{BRIDGED, FAR};

/// An authority, which signed a certificate, and its key.
pub struct Keys {
    pub authority: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Keys {
    /// Makes them in a folder; they are good for two days.
    ///
    /// # Errors
    /// When there is no openssl 3 or it fails.
    pub fn make(folder: &Path) -> Result<Keys> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("openssl.cnf"), "[req]\ndistinguished_name = dn\n[dn]\n")?;
        openssl(folder, "authority", &["-addext", "basicConstraints=critical,CA:TRUE"])?;
        let names = format!("subjectAltName=DNS:localhost,IP:127.0.0.1,IP:{},IP:{FAR}", BRIDGED[1]);
        let signed =
            ["-addext", "basicConstraints=critical,CA:FALSE", "-CA", "authority.pem", "-CAkey", "authority.key"];
        openssl(folder, "server", &[&signed[..], &["-addext", &names]].concat())?;
        let file = |name: &str| folder.join(name);
        Ok(Keys { authority: file("authority.pem"), certificate: file("server.pem"), key: file("server.key") })
    }
}

/// A certificate with a new key, of the kind that a run makes for itself: ECDSA over P-256.
fn openssl(folder: &Path, name: &str, more: &[&str]) -> Result<()> {
    let (key, pem, subject) = (format!("{name}.key"), format!("{name}.pem"), format!("/CN={name}"));
    let common = ["req", "-x509", "-config", "openssl.cnf", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
    let mut command = Command::new("openssl");
    command.current_dir(folder).args(common).args(["-nodes", "-days", "2", "-subj", &subject]);
    let done = command.args(["-keyout", &key, "-out", &pem]).args(more).output().context("openssl is not installed")?;
    ensure!(done.status.success(), "openssl (3 or later is needed): {}", String::from_utf8_lossy(&done.stderr).trim());
    Ok(())
}
