//! What the way to the other processes went through, told at the end.

use super::Bridge;

impl Bridge {
    /// What the connection went through, for the verdict's notes; the messages that it lost.
    pub(crate) fn close(&self) -> (Vec<String>, u64) {
        let (traffic, heard) = (self.nats.traffic(), self.heard.borrow());
        let mut notes = Vec::new();
        if self.leads {
            notes.push(format!(
                "control over NATS: {} messages ({} bytes) from the controller, {} ({} bytes) to it",
                traffic.sent, traffic.sent_bytes, traffic.received, traffic.received_bytes
            ));
        }
        if traffic.disconnects > 0 {
            notes.push(format!("the connection to the NATS server was lost{}", times(traffic.disconnects)));
        }
        let mut more = |n: u64, one: &str, many: &str, what: &str| {
            notes.extend((n > 0).then(|| format!("{n} {} {what}", if n == 1 { one } else { many })));
        };
        more(traffic.refusals, "error was", "errors were", "told by the NATS server");
        let [one, many] = ["message on the run's subjects was", "messages on the run's subjects were"];
        more(heard.ignored, one, many, "not understood and ignored");
        let missed = "lost on their way from other processes; words of the life cycle are said again";
        more(heard.missed, "message was", "messages were", missed);
        let (sent, unkept) = (self.outbox.totals(), self.outbox.open_messages() as u64);
        let again = "telemetry was published again, for the NATS server did not say that it keeps it";
        more(sent.retries, "time", "times", again);
        more(sent.dropped, "time", "times", "telemetry found no room in the queue to the NATS server");
        more(unkept, "message of telemetry is", "messages of telemetry are", "not known to be kept by the NATS server");
        let mut lost = traffic.dropped + unkept;
        if let Some(collector) = &self.collector {
            let (taken, open) = (collector.totals(), collector.open_messages().unwrap_or_default());
            let bytes = format!("of telemetry ({} bytes) came through JetStream", taken.bytes);
            more(taken.delivered, "message", "messages", &bytes);
            more(taken.again, "message of telemetry was", "messages of telemetry were", "delivered again");
            let full = "given up by the NATS server: its stream was full";
            more(taken.forgotten, "message of telemetry was", "messages of telemetry were", full);
            more(taken.given_up, "report was", "reports were", "incomplete for too long");
            let open_still = "not stored, and not acknowledged";
            more(open, "message of telemetry is", "messages of telemetry are", open_still);
            lost += taken.forgotten;
        }
        notes.extend(self.outbox.left_out().into_iter().map(|what| format!("too large for the NATS server: {what}")));
        (notes, lost)
    }
}

fn times(n: u64) -> String {
    if n == 1 { String::new() } else { format!(" {n} times") }
}
