//! Servers that are not ours: nginx, and whatever else is installed. Without one its tests say so and pass.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::support::{Scratch, free_port};

/// A program that ends with its test.
pub struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program that is to listen at `port`; `None`, with a word, if there is none of that name.
pub fn server(scratch: &Scratch, program: &str, args: &[&str], port: u16) -> Option<Server> {
    let log = fs::File::create(scratch.path(&format!("{program}.log"))).expect("a log");
    let start = |path: String| {
        let mut command = Command::new(path);
        let both = (log.try_clone().expect("a log"), log.try_clone().expect("a log"));
        command.args(args).current_dir(scratch.path("")).stdin(Stdio::piped()).stdout(both.0).stderr(both.1);
        command.env("XDG_DATA_HOME", scratch.path("data")).env("XDG_CONFIG_HOME", scratch.path("config"));
        command.spawn().ok()
    };
    let paths = [program.to_owned(), format!("/usr/sbin/{program}")];
    let Some(child) = paths.into_iter().find_map(start) else {
        eprintln!("skipped: no {program} was found");
        return None;
    };
    let server = Server(child);
    for _ in 0..1500 {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Some(server);
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!(
        "{program} does not listen: {}",
        fs::read_to_string(scratch.path(&format!("{program}.log"))).unwrap_or_default()
    );
}

/// Two authorities, `ca` and `other`; of the first a certificate for localhost and 127.0.0.1 and one of a client.
pub fn certificates(scratch: &Scratch) -> Option<()> {
    scratch.write("openssl.cnf", "[req]\ndistinguished_name = dn\n[dn]\n");
    let ca = ["-addext", "basicConstraints=critical,CA:TRUE"];
    let leaf = ["-addext", "basicConstraints=critical,CA:FALSE", "-CA", "ca.pem", "-CAkey", "ca.key"];
    let names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"];
    for (name, more) in [
        ("ca", ca.to_vec()),
        ("other", ca.to_vec()),
        ("server", [&leaf[..], &names].concat()),
        ("client", leaf.to_vec()),
    ] {
        let (key, pem, subject) = (format!("{name}.key"), format!("{name}.pem"), format!("/CN={name}"));
        let common = ["req", "-x509", "-config", "openssl.cnf", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
        let mut command = Command::new("openssl");
        command
            .args(common)
            .args(["-nodes", "-days", "2", "-subj", &subject, "-keyout", &key, "-out", &pem])
            .args(more);
        let Ok(done) = command.current_dir(scratch.path("")).output() else {
            eprintln!("skipped: no openssl was found");
            return None;
        };
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    Some(())
}

/// An nginx with certificates: https with HTTP/1.1 and 2, HTTP/2 in clear, and https that asks for certificates.
pub struct Nginx {
    _server: Server,
    pub https: u16,
    pub clear2: u16,
    pub mutual: u16,
    pub old: u16,
}

pub fn nginx(scratch: &Scratch) -> Option<Nginx> {
    certificates(scratch)?;
    let [https, clear2, mutual, old] = [(); 4].map(|()| free_port());
    // before version 1.23.4 TLS 1.3 has to be asked for
    let tls = "ssl_certificate server.pem; ssl_certificate_key server.key; ssl_protocols TLSv1.2 TLSv1.3;";
    let old_tls = tls.replace(" TLSv1.3", "");
    let pages = "location / { return 200 \"hello\\n\"; } location /gone { return 404 \"no\\n\"; } \
                 location /moved { return 302 /; } location /cut { return 444; }";
    let temporary =
        ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|name| format!("{name}_temp_path tmp-{name};"));
    scratch.write(
        "nginx.conf",
        format!(
            "daemon off; master_process off; pid nginx.pid; error_log stderr;\nevents {{}}\nhttp {{ access_log off; {}\n\
             server {{ listen 127.0.0.1:{https} ssl http2; {tls} {pages} }}\n\
             server {{ listen 127.0.0.1:{clear2} http2; {pages} }}\n\
             server {{ listen 127.0.0.1:{mutual} ssl; {tls} ssl_client_certificate ca.pem; ssl_verify_client on; {pages} }}\n\
             server {{ listen 127.0.0.1:{old} ssl; {old_tls} {pages} }}\n}}\n",
            temporary.join(" ")
        ),
    );
    let prefix = format!("{}/", scratch.path("").display());
    let server = server(scratch, "nginx", &["-p", &prefix, "-c", "nginx.conf", "-e", "stderr"], https)?;
    Some(Nginx { _server: server, https, clear2, mutual, old })
}
