//! Devices that hardly ever have something to say: how many a process holds, and what it keeps for each.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Bundle, Scenario, Scratch, beside};

/// Few and many: more than a shard lets messages wait, since all of them hear the start.
const DEVICES: [u64; 2] = [1000, 100_000];
/// Resident memory for each device more, bytes.
const BYTES_MAX: f64 = 1000.0;
/// No run takes this long, whatever else the machine does.
const HANGS: Duration = Duration::from_secs(150);

fn scenario(devices: u64) -> String {
    let lines = format!("count = {devices}\nrate = \"0.01/s\"\nbytes = \"200B\"\nretries = 0\ntimeout = \"5s\"");
    Scenario { receiver: "workers = 64".to_owned(), ..Scenario::sensor_for("4s", &lines) }.toml()
}

/// Most resident memory so far, bytes (proc(5)).
fn resident(id: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok()? * 1024.0)
}

#[test]
fn a_hundred_thousand_quiet_devices_cost_less_than_a_kilobyte_each_and_all_of_them_start() {
    let _busy = beside();
    let scratch = Scratch::new();
    let most = DEVICES.map(|devices| {
        let file = format!("{devices}.toml");
        scratch.write(&file, scenario(devices));
        let dry = scratch.simulate(&file, &format!("dry{devices}"), &[]);
        let name = format!("real{devices}");
        let mut running = scratch.start(&["emulate", &file, "--out", &name, "--quiet"]);
        let (begun, mut most) = (Instant::now(), 0.0_f64);
        while running.runs() {
            assert!(begun.elapsed() < HANGS, "it hangs");
            most = resident(running.id()).map_or(most, |now| most.max(now));
            thread::sleep(Duration::from_millis(10));
        }
        let done = running.wait();
        assert!(matches!(done.code, Some(0 | 20)), "{}", done.stderr);
        let real = Bundle::read(&scratch.path(&name));
        real.doubted(&[]);
        // one in 25 of them is due within the run, and whoever did not hear the start never is
        assert!(real.total("generated") > devices / 50, "{}", real.total("generated"));
        assert_eq!(real.total("generated"), dry.total("generated"), "{devices}");
        assert_eq!(real.schedule(), dry.schedule(), "{devices}");
        most
    });
    let each = (most[1] - most[0]) / (DEVICES[1] - DEVICES[0]) as f64;
    println!("{each:.0} bytes for each device more: {most:?}");
    assert!(each > 50.0, "it was looked at too early: {most:?}");
    assert!(each < BYTES_MAX, "{each} bytes: {most:?}");
}
