//! What a fuzzer calls: any bytes for each reader, and what must hold of what comes of them. The targets below `fuzz/` hand
//! these functions to libFuzzer; the tests run through the same corpus.

use std::io::Cursor;

use crate::capture::{self, Capture, Filter, Options, Writer};
use crate::edit::{Checksums, Edit, Editor, Pad, Payload};
use crate::frame::Layers;
use crate::receive::{Streams, key};
use crate::template::{Builder, FRAME_MAX};
use crate::{Packet, Template};

/// Takes any bytes.
pub type Target = fn(&[u8]);

/// All targets by their names, of which folders of the corpus have theirs.
pub const TARGETS: [(&str, Target); 5] =
    [("capture", capture), ("edit", edit), ("filter", filter), ("frame", frame), ("template", template)];

/// Nanoseconds at which pcap ends, in the year 2106.
const PCAP_END: u64 = (1 << 32) * 1_000_000_000;

/// A capture: its books balance, and what is written of it is read back the same.
pub fn capture(bytes: &[u8]) {
    for salvage in [false, true] {
        let Ok(template) = imported(bytes, salvage) else { continue };
        let ledger = &template.notes().ledger;
        assert_eq!(ledger.read, ledger.loaded + ledger.left_out(), "every packet is loaded or left out for a reason");
        assert_eq!(ledger.loaded, u64::from(template.len()), "what is loaded is there");
        assert!(template.packets().is_sorted_by_key(|packet| packet.at), "packets are in order of time");
        let began = template.notes().began;
        if began + template.duration() >= PCAP_END {
            continue;
        }
        let mut writer = Writer::new(Vec::new()).expect("memory");
        for packet in template.packets() {
            writer.packet(began + packet.at, packet.original, packet.bytes).expect("memory, before 2106");
        }
        let again = imported(&writer.finish().expect("memory"), false).expect("what we write is a capture");
        let told = |packet: Packet<'_>| (packet.at, packet.original, packet.bytes.to_vec());
        assert!(again.packets().map(told).eq(template.packets().map(told)), "what is written is read back");
    }
}

fn imported(bytes: &[u8], salvage: bool) -> Result<Template, capture::Fault> {
    let options = Options { salvage, ..Options::default() };
    capture::import_capture(Capture::of(Cursor::new(bytes.to_vec()))?, Builder::in_memory(), &options, &mut 0)
}

/// A template file: it is refused, or read without harm.
pub fn template(bytes: &[u8]) {
    let Ok(template) = Template::from_bytes(bytes.to_vec()) else { return };
    for packet in template.packets() {
        assert!(packet.bytes.len() <= bytes.len(), "a packet lies in the file");
        assert!(packet.after.is_none_or(|before| before < packet.index), "nobody waits for what comes later");
    }
    let _ = template.overview();
}

/// A frame: nothing is looked for behind its end.
pub fn frame(bytes: &[u8]) {
    for network in Layers::of(bytes).networks() {
        assert!(network.at < network.payload && network.payload <= network.end && network.end <= bytes.len());
        let _ = (network.addresses(bytes), network.ports(bytes), network.tcp_flags(bytes));
    }
    let _ = key(bytes);
    let mut streams = Streams::default();
    streams.frame(bytes, 0);
    assert!(streams.now() <= 1);
}

/// A filter, and behind a byte of 0 a frame that it is asked about: `not` wants the others.
pub fn filter(bytes: &[u8]) {
    let (text, frame) = parts(bytes);
    let text = String::from_utf8_lossy(text);
    let Ok(filter) = text.parse::<Filter>() else { return };
    let Ok(opposite) = format!("not ({text})").parse::<Filter>() else { return };
    let (layers, original) = (Layers::of(frame), frame.len() as u32);
    assert_ne!(filter.wants(frame, &layers, original), opposite.wants(frame, &layers, original));
}

/// Lines of an edit, and behind a byte of 0 a frame that is edited.
pub fn edit(bytes: &[u8]) {
    let (text, frame) = parts(bytes);
    let mut builder = Builder::in_memory();
    if builder.push(0, frame).is_err() {
        return;
    }
    let template = builder.finish().expect("memory");
    let table = table(&String::from_utf8_lossy(text));
    let Ok(editor) = Editor::new(&table, &template) else { return };
    let mut copy = Vec::new();
    for lap in 0..2 {
        let original = editor.apply(&template.packet(0), lap, &mut copy);
        assert!(copy.len() <= original as usize, "a packet had no fewer bytes than are kept of it");
        assert!(
            copy.len() <= FRAME_MAX.max(frame.len() + 4 * table.vlan.len()),
            "only a tag makes it longer than it may be"
        );
        assert!(!table.is_empty() || copy == frame, "an edit of nothing changes nothing");
    }
}

fn parts(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
}

/// Lines of `KEY=VALUE`, as they would stand behind `--edit`; what is none says nothing.
fn table(text: &str) -> Edit {
    let mut edit = Edit::default();
    for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
        let value = value.to_owned();
        match key {
            "ip" => edit.ip.push(value),
            "nodes" => edit.nodes.push(value),
            "random_hosts" => edit.random_hosts.push(value),
            "anonymise" => edit.anonymise = Some(value),
            "mac" => edit.mac.push(value),
            "client_mac" => edit.client_mac = Some(value),
            "port" => edit.port.push(value),
            "vlan" => edit.vlan.push(value),
            "ttl" => edit.ttl = value.parse().ok(),
            "payload" => edit.payload = Payload::Zero,
            "payload_bytes_max" => edit.payload_bytes_max = value.parse().ok(),
            "pad" => edit.pad = value.parse().ok().map(Pad::Bytes),
            "trim_trailer" => edit.trim_trailer = true,
            "checksums" => edit.checksums = if value == "repair" { Checksums::Repair } else { Checksums::Keep },
            _ => {}
        }
    }
    edit
}

#[cfg(test)]
mod tests;
