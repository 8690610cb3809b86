//! Flags of every verb that talks over a NATS server: where it is, how it is trusted, who connects. What is secret comes
//! from files or variables, never from the command line, which every user of a machine can read.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use clap::Args;
use rehearsal_bus::nats::{Auth, ConnectSettings, Secret, SettingsError};

use crate::exit::{Refused, UsageError};

/// Holds what `--nats` would.
const URL: &str = "REHEARSAL_NATS";
/// Holds the password of `--nats-user`.
pub const PASSWORD: &str = "REHEARSAL_NATS_PASSWORD";
/// Holds the password of `--nats-node-user`.
pub const NODE_PASSWORD: &str = "REHEARSAL_NATS_NODE_PASSWORD";
/// Holds the password of `--nats-aggregator-user`.
pub const AGGREGATOR_PASSWORD: &str = "REHEARSAL_NATS_AGGREGATOR_PASSWORD";
/// Variables that hold secrets: no process that a run starts gets them.
pub const SECRET_VARIABLES: [&str; 4] = [PASSWORD, NODE_PASSWORD, AGGREGATOR_PASSWORD, URL];

/// A server, and who connects to it.
#[derive(Debug, Args, Clone, Default)]
#[command(next_help_heading = "NATS server")]
pub struct Connection {
    /// NATS server, such as nats://127.0.0.1:4222 or tls://lab:4222; several of one cluster between commas
    #[arg(long, value_name = "URL", env = "REHEARSAL_NATS", hide_env_values = true)]
    pub nats: Option<String>,
    /// Authorities (PEM) that sign the server's certificate; requires encryption [default: the system's, if it encrypts]
    #[arg(long, value_name = "FILE", env = "REHEARSAL_NATS_CA")]
    pub nats_ca: Option<PathBuf>,
    /// Client certificate (PEM), for a server that asks for one
    #[arg(long, value_name = "FILE", env = "REHEARSAL_NATS_CERT")]
    pub nats_cert: Option<PathBuf>,
    /// Key of the client certificate (PEM)
    #[arg(long, value_name = "FILE", env = "REHEARSAL_NATS_KEY")]
    pub nats_key: Option<PathBuf>,
    /// User to connect as; the password is in the variable REHEARSAL_NATS_PASSWORD or in a file
    #[arg(long, value_name = "NAME", env = "REHEARSAL_NATS_USER")]
    pub nats_user: Option<String>,
    /// File that holds the password
    #[arg(long, value_name = "FILE", env = "REHEARSAL_NATS_PASSWORD_FILE")]
    pub nats_password_file: Option<PathBuf>,
    /// File that holds a token
    #[arg(long, value_name = "FILE", env = "REHEARSAL_NATS_TOKEN_FILE")]
    pub nats_token_file: Option<PathBuf>,
    /// File that holds the seed of an nkey, SU…
    #[arg(long, value_name = "FILE", env = "REHEARSAL_NATS_NKEY")]
    pub nats_nkey: Option<PathBuf>,
    /// Credentials file of a server with accounts, .creds
    #[arg(long, value_name = "FILE", env = "REHEARSAL_NATS_CREDS")]
    pub nats_creds: Option<PathBuf>,
    /// Where answers come in, as the server's permissions say [default: _INBOX.NAME for a user, else _INBOX]
    #[arg(long, value_name = "SUBJECT", env = "REHEARSAL_NATS_INBOX")]
    pub nats_inbox: Option<String>,
}

/// Whom processes of nodes connect as, where that is somebody else.
#[derive(Debug, Args, Clone, Default)]
#[command(next_help_heading = "NATS server")]
pub struct NodeIdentity {
    /// User that processes of nodes connect as [default: as this one]; its password is in the variable
    /// REHEARSAL_NATS_NODE_PASSWORD or in a file
    #[arg(long, value_name = "NAME", env = "REHEARSAL_NATS_NODE_USER")]
    pub nats_node_user: Option<String>,
    /// File that holds the password of the nodes' user
    #[arg(long, value_name = "FILE", env = "REHEARSAL_NATS_NODE_PASSWORD_FILE")]
    pub nats_node_password_file: Option<PathBuf>,
    /// File that holds the seed of the nodes' nkey
    #[arg(long, value_name = "FILE", env = "REHEARSAL_NATS_NODE_NKEY")]
    pub nats_node_nkey: Option<PathBuf>,
    /// Credentials file of the nodes
    #[arg(long, value_name = "FILE", env = "REHEARSAL_NATS_NODE_CREDS")]
    pub nats_node_creds: Option<PathBuf>,
}

/// Whom the process that stores connects as, where that is somebody else.
#[derive(Debug, Args, Clone, Default)]
#[command(next_help_heading = "NATS server")]
pub struct AggregatorIdentity {
    /// User that the process of the aggregator connects as [default: as this one]; its password is in the variable
    /// REHEARSAL_NATS_AGGREGATOR_PASSWORD or in a file
    #[arg(long, value_name = "NAME", env = "REHEARSAL_NATS_AGGREGATOR_USER")]
    pub nats_aggregator_user: Option<String>,
    /// File that holds the password of the aggregator's user
    #[arg(long, value_name = "FILE", env = "REHEARSAL_NATS_AGGREGATOR_PASSWORD_FILE")]
    pub nats_aggregator_password_file: Option<PathBuf>,
    /// File that holds the seed of the aggregator's nkey
    #[arg(long, value_name = "FILE", env = "REHEARSAL_NATS_AGGREGATOR_NKEY")]
    pub nats_aggregator_nkey: Option<PathBuf>,
    /// Credentials file of the aggregator
    #[arg(long, value_name = "FILE", env = "REHEARSAL_NATS_AGGREGATOR_CREDS")]
    pub nats_aggregator_creds: Option<PathBuf>,
}

impl Connection {
    /// What the flags say, if they name a server.
    ///
    /// # Errors
    /// When flags contradict each other, or a file cannot be read.
    pub fn settings(&self) -> Result<Option<ConnectSettings>> {
        let Some(urls) = &self.nats else {
            return match self.given() {
                Some(flag) => Err(usage(flag, "--nats URL is needed with it")),
                None => Ok(None),
            };
        };
        let mut settings = ConnectSettings::new(urls).map_err(|why| usage("--nats", &why.to_string()))?;
        settings.tls.require |= self.nats_ca.is_some() || self.nats_cert.is_some();
        settings.tls.ca = self.nats_ca.as_deref().map(|file| absolute("--nats-ca", file)).transpose()?;
        settings.tls.client = match (&self.nats_cert, &self.nats_key) {
            (Some(cert), Some(key)) => Some((absolute("--nats-cert", cert)?, absolute("--nats-key", key)?)),
            (None, None) => None,
            (Some(_), None) => return Err(usage("--nats-cert", "its key is needed too: --nats-key FILE")),
            (None, Some(_)) => return Err(usage("--nats-key", "its certificate is needed too: --nats-cert FILE")),
        };
        let flags = Identity {
            names: ["--nats-user", "--nats-password-file", "--nats-token-file", "--nats-nkey", "--nats-creds"],
            variable: PASSWORD,
            user: self.nats_user.as_deref(),
            files: [&self.nats_password_file, &self.nats_token_file, &self.nats_nkey, &self.nats_creds]
                .map(Option::as_deref),
        };
        if let Some(auth) = flags.auth()? {
            if settings.auth != Auth::Nobody {
                return Err(usage("--nats", "its URL names who connects, and another flag does too; give one of them"));
            }
            settings.auth = auth;
        }
        settings.inbox.clone_from(&self.nats_inbox);
        Ok(Some(settings))
    }

    /// A flag that says nothing without a server.
    fn given(&self) -> Option<&'static str> {
        [
            (self.nats_ca.is_some(), "--nats-ca"),
            (self.nats_cert.is_some(), "--nats-cert"),
            (self.nats_key.is_some(), "--nats-key"),
            (self.nats_user.is_some(), "--nats-user"),
            (self.nats_password_file.is_some(), "--nats-password-file"),
            (self.nats_token_file.is_some(), "--nats-token-file"),
            (self.nats_nkey.is_some(), "--nats-nkey"),
            (self.nats_creds.is_some(), "--nats-creds"),
            (self.nats_inbox.is_some(), "--nats-inbox"),
        ]
        .into_iter()
        .find_map(|(given, flag)| given.then_some(flag))
    }
}

impl NodeIdentity {
    /// The settings of processes of nodes: those of this process, with another identity if the flags name one.
    ///
    /// # Errors
    /// When flags contradict each other, or a file cannot be read.
    pub fn settings(&self, own: &ConnectSettings) -> Result<ConnectSettings> {
        let flags = Identity {
            names: ["--nats-node-user", "--nats-node-password-file", "", "--nats-node-nkey", "--nats-node-creds"],
            variable: NODE_PASSWORD,
            user: self.nats_node_user.as_deref(),
            files: [&self.nats_node_password_file, &None, &self.nats_node_nkey, &self.nats_node_creds]
                .map(Option::as_deref),
        };
        flags.settings(own)
    }
}

impl AggregatorIdentity {
    /// The settings of the process that stores: those of this process, with another identity if the flags name one.
    ///
    /// # Errors
    /// When flags contradict each other, or a file cannot be read.
    pub fn settings(&self, own: &ConnectSettings) -> Result<ConnectSettings> {
        let flags = Identity {
            names: [
                "--nats-aggregator-user",
                "--nats-aggregator-password-file",
                "",
                "--nats-aggregator-nkey",
                "--nats-aggregator-creds",
            ],
            variable: AGGREGATOR_PASSWORD,
            user: self.nats_aggregator_user.as_deref(),
            files: [
                &self.nats_aggregator_password_file,
                &None,
                &self.nats_aggregator_nkey,
                &self.nats_aggregator_creds,
            ]
            .map(Option::as_deref),
        };
        flags.settings(own)
    }
}

/// Starts this program anew if its command line holds a URL with a password, which every user of the machine can read
/// there: the URL moves to a variable, which only this user can.
///
/// # Errors
/// When it cannot be started.
pub fn hide_password() -> std::io::Result<()> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let holds = |word: &OsString| word.to_string_lossy().contains('@');
    let (url, range) = match words.iter().position(|word| word == "--nats") {
        Some(at) if words.get(at + 1).is_some_and(holds) => (words[at + 1].clone(), at..at + 2),
        _ => {
            let glued = words.iter().map(|word| word.to_string_lossy().strip_prefix("--nats=").map(OsString::from));
            match glued.enumerate().find_map(|(at, url)| Some((at, url.filter(holds)?))) {
                Some((at, url)) => (url, at..at + 1),
                None => return Ok(()),
            }
        }
    };
    words.drain(range);
    let mut again = Command::new(std::env::current_exe()?);
    again.arg0(&words[0]).args(&words[1..]).env(URL, url);
    Err(again.exec())
}

/// Flags that say who connects: a user, and the files of its password, of a token, an nkey and credentials.
struct Identity<'a> {
    names: [&'static str; 5],
    variable: &'static str,
    user: Option<&'a str>,
    files: [Option<&'a Path>; 4],
}

impl Identity<'_> {
    fn settings(&self, own: &ConnectSettings) -> Result<ConnectSettings> {
        let auth = self.auth()?;
        Ok(auth.map_or_else(|| own.clone(), |auth| own.clone().identified(auth)))
    }

    fn auth(&self) -> Result<Option<Auth>> {
        let [password, token, nkey, creds] = self.files;
        let given = [self.user.is_some(), false, token.is_some(), nkey.is_some(), creds.is_some()];
        let mut given = self.names.iter().zip(given).filter(|(_, given)| *given);
        if let (Some((first, _)), Some((second, _))) = (given.next(), given.next()) {
            return Err(usage(first, &format!("{second} names another identity; give one of them")));
        }
        if password.is_some() && self.user.is_none() {
            return Err(usage(self.names[1], &format!("whose password? Give {} NAME too", self.names[0])));
        }
        Ok(Some(match (self.user, token, nkey, creds) {
            (Some(name), ..) => Auth::User { name: name.to_owned(), password: self.password(password)? },
            (_, Some(file), ..) => Auth::Token(secret(file)?),
            (_, _, Some(file), _) => Auth::Nkey(secret(file)?),
            (_, _, _, Some(file)) => Auth::Creds(secret(file)?),
            (None, None, None, None) => return Ok(None),
        }))
    }

    fn password(&self, file: Option<&Path>) -> Result<Secret> {
        if let Some(file) = file {
            return secret(file);
        }
        match std::env::var(self.variable) {
            Ok(password) if !password.is_empty() => Ok(Secret::new(password)),
            _ => Err(usage(
                self.names[0],
                &format!("its password is missing; set {} or give {} FILE", self.variable, self.names[1]),
            )),
        }
    }
}

fn secret(file: &Path) -> Result<Secret> {
    Secret::read(file).map_err(|why: SettingsError| Refused(why.to_string()).into())
}

/// A file that is there, by a name that holds in other folders too.
fn absolute(flag: &str, file: &Path) -> Result<PathBuf> {
    let found = std::fs::canonicalize(file).and_then(|path| std::fs::File::open(&path).map(|_| path));
    found.map_err(|why| Refused(format!("{flag}: {} cannot be read: {why}", file.display())).into())
}

fn usage(flag: &str, why: &str) -> anyhow::Error {
    UsageError(format!("{flag}: {why}")).into()
}
