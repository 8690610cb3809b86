//! nginx between sender and receiver, as one process with a configuration of its own.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::keys::Keys;
use super::variant::Front;
use crate::bench::lab::{Lab, RECEIVER_CORE};
use crate::bench::machine::said;
use crate::bench::process::Running;

/// Where it lies, in the order of looking.
const PLACES: [&str; 2] = ["nginx", "/usr/sbin/nginx"];

/// The program, if it is installed.
pub fn find() -> Result<PathBuf> {
    let found = PLACES.into_iter().find(|place| said(place, &["-v"]).is_some());
    found.map(PathBuf::from).context("nginx is not installed (apt-get install nginx)")
}

/// Starts it at `front`; what it is asked goes on to `back`, over connections that are kept.
pub fn start(
    lab: &mut Lab,
    program: &Path,
    (kind, front): (Front, SocketAddr),
    back: SocketAddr,
    keys: Option<&Keys>,
) -> Result<Running> {
    let folder = lab.folder.join("protocols-nginx");
    fs::create_dir_all(&folder)?;
    let listen = match (kind, keys) {
        (Front::Encrypted, Some(keys)) => format!(
            "listen {front} ssl http2;\nssl_certificate {};\nssl_certificate_key {};\nssl_protocols TLSv1.3;",
            keys.certificate.display(),
            keys.key.display()
        ),
        _ => format!("listen {front};"),
    };
    let file = folder.join("nginx.conf");
    fs::write(&file, config(&listen, back)).with_context(|| format!("writing {}", file.display()))?;
    let mut command = lab.command(program, Some(RECEIVER_CORE));
    command.arg("-e").arg("stderr").arg("-p").arg(&folder).arg("-c").arg(&file);
    lab.start("protocols-nginx", &mut command)
}

/// One process, so that its CPU time is seen; nothing is written but what is too large for memory.
fn config(listen: &str, back: SocketAddr) -> String {
    let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let paths: String = paths.iter().map(|name| format!("{name}_temp_path {name};\n")).collect();
    format!(
        "daemon off;\nmaster_process off;\npid nginx.pid;\nevents {{ worker_connections 1024; }}\nhttp {{\naccess_log off;\n{paths}\
         client_max_body_size 16m;\nkeepalive_requests 100000000;\n\
         upstream receiver {{ server {back}; keepalive 64; keepalive_requests 100000000; }}\n\
         server {{\n{listen}\nlocation / {{\nproxy_pass http://receiver;\nproxy_http_version 1.1;\n\
         proxy_set_header Connection \"\";\n}}\n}}\n}}\n"
    )
}
