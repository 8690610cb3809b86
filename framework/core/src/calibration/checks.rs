//! What makes sense in a calibration, and what to write instead of what does not.

use super::{
    BYTE_NS_MAX, CORES_MAX, Calibration, CalibrationError, CarrierCosts, Cost, CpuRules, EASED_MAX, FIXED_NS_MAX,
    PERIOD_MAX, PERIOD_MIN, Pacing, QUANTILES_MAX, QUANTUM_MAX, Validity,
};
use crate::plan::Carrier;
use crate::time::Span;

impl Calibration {
    /// Whether every value makes sense.
    ///
    /// # Errors
    /// [`CalibrationError`] names the first key that does not.
    pub fn check(&self) -> Result<(), CalibrationError> {
        if self.host.id.trim().is_empty() {
            return Err(wrong("host.id", "a calibration has a name; write for instance `id = \"lab-7\"`"));
        }
        self.valid.check()?;
        self.cpu.check()?;
        self.pacing.check()?;
        for (carrier, costs) in &self.carriers {
            let name = serde_name(*carrier);
            costs.check(&format!("carriers.{name}"))?;
        }
        for (name, costs) in [("full", self.tls.full), ("resumed", self.tls.resumed)] {
            within(&format!("tls.{name}.connect_ns"), costs.connect_ns, FIXED_NS_MAX)?;
            within(&format!("tls.{name}.accept_ns"), costs.accept_ns, FIXED_NS_MAX)?;
        }
        self.work.encode.check("work.encode")?;
        self.work.decode.check("work.decode")?;
        for (key, span) in [("messages.control", self.messages.control), ("messages.broker", self.messages.broker)] {
            if span.is_some_and(|span| span > Span::from_secs(60)) {
                return Err(wrong(key, "a message takes at most `60s`; write for instance `100us`"));
            }
        }
        Ok(())
    }
}

impl Validity {
    fn check(&self) -> Result<(), CalibrationError> {
        if self.payload_max.is_some_and(|max| max < self.payload_min) {
            return Err(wrong("valid.payload_max", "must not be below `payload_min`"));
        }
        if self.cores_max == Some(0) {
            return Err(wrong("valid.cores_max", "a node has at least 1 core"));
        }
        if self.cpu_percent_max.is_some_and(|max| !(0.0..=100.0).contains(&max)) {
            return Err(wrong("valid.cpu_percent_max", "must be between 0 and 100"));
        }
        Ok(())
    }
}

impl CpuRules {
    fn check(&self) -> Result<(), CalibrationError> {
        if !(PERIOD_MIN..=PERIOD_MAX).contains(&self.period) {
            let period = self.period;
            return Err(wrong("cpu.period", format!("{period} is no period of the kernel: write `1ms` to `1s`")));
        }
        if self.io_threads == 0 || self.io_threads as usize > CORES_MAX {
            return Err(wrong("cpu.io_threads", format!("must be between 1 and {CORES_MAX}")));
        }
        if self.scaling.len() > CORES_MAX {
            return Err(wrong("cpu.scaling", format!("at most {CORES_MAX} values")));
        }
        if self.scaling.iter().any(|share| !(*share > 0.0 && *share <= 2.0)) {
            return Err(wrong("cpu.scaling", "each value is a share of one core's speed, above 0 and at most 2"));
        }
        within("cpu.wake_ns", self.wake_ns, FIXED_NS_MAX)?;
        within("cpu.sleep_ns", self.sleep_ns, FIXED_NS_MAX)?;
        within("cpu.rest_cores", self.rest_cores, 1.0)
    }
}

impl Pacing {
    fn check(&self) -> Result<(), CalibrationError> {
        if self.quantum.is_some_and(|quantum| quantum > QUANTUM_MAX) {
            return Err(wrong("pacing.quantum", format!("must be at most {QUANTUM_MAX}, as `--quantum` of `emulate`")));
        }
        within("pacing.due_ns", self.due_ns, FIXED_NS_MAX)?;
        quantiles("pacing.late_ns", &self.late_ns, FIXED_NS_MAX)
    }
}

impl CarrierCosts {
    fn check(&self, key: &str) -> Result<(), CalibrationError> {
        self.send.check(&format!("{key}.send"))?;
        self.receive.check(&format!("{key}.receive"))?;
        self.connect.check(&format!("{key}.connect"))?;
        self.accept.iter().try_for_each(|accept| accept.check(&format!("{key}.accept")))?;
        for (name, costs) in [("reply", &self.reply), ("paused", &self.paused)] {
            let Some(costs) = costs else { continue };
            costs.send.check(&format!("{key}.{name}.send"))?;
            costs.receive.check(&format!("{key}.{name}.receive"))?;
        }
        within(&format!("{key}.closing"), self.closing, 1.0)?;
        quantiles(&format!("{key}.wake.idle_ns"), &self.wake.idle_ns, FIXED_NS_MAX)?;
        quantiles(&format!("{key}.wake.nap_ns"), &self.wake.nap_ns, FIXED_NS_MAX)?;
        quantiles(&format!("{key}.wake.busy_ns"), &self.wake.busy_ns, FIXED_NS_MAX)?;
        let Some(saturation) = self.saturation else { return Ok(()) };
        within(&format!("{key}.saturation.hidden_ns"), saturation.hidden_ns, FIXED_NS_MAX)?;
        within(&format!("{key}.saturation.per_second"), saturation.per_second, 1e9)
    }
}

impl Cost {
    fn check(&self, key: &str) -> Result<(), CalibrationError> {
        within(&format!("{key}.fixed_ns"), self.fixed_ns, FIXED_NS_MAX)?;
        within(&format!("{key}.ns_per_byte"), self.ns_per_byte, BYTE_NS_MAX)?;
        within(&format!("{key}.eased"), self.eased, EASED_MAX)?;
        quantiles(&format!("{key}.residual"), &self.residual, 1e3)
    }
}

fn within(key: &str, value: f64, max: f64) -> Result<(), CalibrationError> {
    if (0.0..=max).contains(&value) { Ok(()) } else { Err(wrong(key, format!("must be between 0 and {max}"))) }
}

fn quantiles(key: &str, table: &[f64], max: f64) -> Result<(), CalibrationError> {
    if table.len() > QUANTILES_MAX {
        return Err(wrong(key, format!("at most {QUANTILES_MAX} quantiles")));
    }
    table.iter().try_for_each(|value| within(key, *value, max))?;
    if table.is_sorted() { Ok(()) } else { Err(wrong(key, "quantiles rise: write the smallest first")) }
}

fn wrong(key: &str, reason: impl Into<String>) -> CalibrationError {
    CalibrationError { key: key.to_owned(), reason: reason.into() }
}

/// A carrier's word in files.
fn serde_name(carrier: Carrier) -> String {
    let debug = format!("{carrier:?}");
    debug.to_lowercase()
}
