//! What TS 28.552 and TS 28.554 call what our metrics stand beside.
//!
//! Those documents measure inside the network: at the gNB, at the UPF, per slice. We measure from application to
//! application, so none of ours *is* one of theirs; a laboratory imports their counters and holds them beside ours. The
//! table says which belong together and what lies between. KPIs of ETSI TS 132 455 (TS 32.455) are those of the 4G core
//! and have no counterpart here.

use serde::Serialize;

/// One of our metrics and the measurement it stands beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Name {
    /// Ours, as in `series.parquet` or `summary.json`.
    pub ours: &'static str,
    /// Theirs: a measurement's name, or the KPI's title where it is no counter.
    pub theirs: &'static str,
    /// The document.
    pub document: &'static str,
    /// What ours holds beyond theirs.
    pub between: &'static str,
}

/// The names that apply.
pub const NAMES: [Name; 6] = [
    Name {
        ours: "bytes_received",
        theirs: "DRB.UEThpUl",
        document: "TS 28.552, 5.1.1.3",
        between: "payload of an uplink sender per second of the run, idle time included; theirs is per active time on the air",
    },
    Name {
        ours: "bytes_sent",
        theirs: "DRB.UEThpDl",
        document: "TS 28.552, 5.1.1.3",
        between: "likewise for a sender in the network",
    },
    Name {
        ours: "one_way",
        theirs: "GTP.DelayDlPsaUpfNgranMean",
        document: "TS 28.552, 5.1.1.1",
        between: "theirs is the stretch from UPF to NG-RAN alone; ours adds the air and both hosts",
    },
    Name {
        ours: "one_way",
        theirs: "end-to-end latency of a network slice",
        document: "TS 28.554, 6.3",
        between: "theirs ends at the UE and the UPF; ours adds both hosts and the data network",
    },
    Name {
        ours: "lost",
        theirs: "DRB.PacketLossRateUl",
        document: "TS 28.552, 5.1.3.1",
        between: "exchanges or datagrams after all repetitions, not packets on one interface",
    },
    Name {
        ours: "bytes_received",
        theirs: "upstream throughput for a network slice instance",
        document: "TS 28.554, 6.3",
        between: "payload between applications; theirs counts GTP payload at N3",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_source_and_a_difference() {
        for name in NAMES {
            assert!(name.document.starts_with("TS 28.55") && !name.between.is_empty(), "{name:?}");
        }
    }
}
