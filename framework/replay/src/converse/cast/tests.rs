//! Copies and their addresses.

use super::*;
use crate::converse::testing::{Line, template};
use crate::edit::{Edit, Laps};
use crate::frame::Layers;

const LINES: [Line; 4] = [Line::C(0), Line::S(10), Line::C(20), Line::S(30)];

fn cast<'t>(
    template: &'t Template,
    editor: Option<&'t Editor>,
    count: u64,
    nets: &Nets,
) -> Result<Cast<'t>, CastError> {
    Cast::new(template, editor.map(Held::Lent), Split::Hosts, Some(count), nets)
}

fn texts(addresses: [IpAddr; 2]) -> [String; 2] {
    addresses.map(|address| address.to_string())
}

#[test]
fn copies_have_addresses_of_their_own_and_are_known_by_them() {
    let template = template(&LINES);
    let cast = cast(&template, None, 300, &Nets::default()).expect("a cast");
    assert_eq!(texts(cast.hosts(0)), ["198.18.0.1", "198.19.0.1"]);
    assert_eq!(texts(cast.hosts(299)), ["198.18.1.44", "198.19.1.44"]);
    assert_eq!((cast.packets(), cast.copy(299)), ([600, 600], 299));
    let mut frame = Vec::new();
    for conversation in [0, 1, 299] {
        for (position, step) in (0_u32..).zip(&cast.script(conversation).steps) {
            cast.frame(conversation, step.packet, &mut frame);
            let known = cast.know(&frame).expect("one of ours");
            assert_eq!((known.conversation, known.side), (conversation, step.side));
            assert_eq!(known.key, cast.script(0).step(position).key.expect("audible"), "the same for all copies");
            let layers = Layers::of(&frame);
            let sum = |from: usize, to: usize| crate::testing::sum(&[&frame[from..to]]);
            assert_eq!(sum(14, 34), 0xffff, "the header's checksum follows");
            assert_eq!(layers.innermost().map(|network| network.end), Some(frame.len()));
        }
    }
    cast.frame(0, 0, &mut frame);
    // another's address
    frame[29] = 77;
    assert_eq!(cast.know(&frame), None);
}

#[test]
fn one_copy_stays_as_it_is_unless_networks_are_given() {
    let template = template(&LINES);
    let plain = cast(&template, None, 1, &Nets::default()).expect("a cast");
    assert_eq!(texts(plain.hosts(0)), ["10.0.0.1", "10.0.0.2"]);
    let nets = Nets { clients: vec!["192.0.2.0/24".to_owned()], servers: Vec::new() };
    let given = cast(&template, None, 1, &nets).expect("a cast");
    assert_eq!(texts(given.hosts(0)), ["192.0.2.1", "198.19.0.1"]);
}

#[test]
fn an_edit_that_draws_hosts_gives_copies_their_own() {
    let template = template(&LINES);
    let edit = Edit { random_hosts: vec!["10.0.0.0/8".to_owned()], laps: Laps::Unique, ..Edit::default() };
    let editor = Editor::new(&edit, &template).expect("an edit");
    let cast = cast(&template, Some(&editor), 50, &Nets::default()).expect("a cast");
    let hosts: std::collections::BTreeSet<IpAddr> = (0..50).flat_map(|number| cast.hosts(number)).collect();
    assert_eq!(hosts.len(), 100);
    let mut frame = Vec::new();
    cast.frame(49, 3, &mut frame);
    assert_eq!(cast.know(&frame).map(|known| known.conversation), Some(49));
}

#[test]
fn what_cannot_be_told_apart_or_has_no_room_is_refused() {
    let template = template(&LINES);
    let said = |result: Result<Cast<'_>, CastError>| result.expect_err("refused").to_string();
    let [ip, port] = ["10.0.0.0/24 -> 192.0.2.7", "4000 -> 80"].map(|rule| vec![rule.to_owned()]);
    let edit = Edit { ip, port, ..Edit::default() };
    let editor = Editor::new(&edit, &template).expect("an edit");
    let same = said(cast(&template, Some(&editor), 1, &Nets::default()));
    assert!(same.contains("--clients and --servers"), "{same}");
    let nets = |text: &str| Nets { clients: Vec::new(), servers: vec![text.to_owned()] };
    let small = said(cast(&template, None, 7, &nets("192.0.2.0/29")));
    assert!(small.starts_with("--servers: 6 addresses for 7 conversations"), "{small}");
    assert!(cast(&template, None, 6, &nets("192.0.2.0/29")).is_ok());
    let wrong = said(cast(&template, None, 1, &nets("here")));
    assert!(wrong.starts_with("--servers: `here` is no address"), "{wrong}");
    assert!(matches!(cast(&template, None, 1 << 21, &Nets::default()), Err(CastError::Many(_))));
    let mut builder = crate::Builder::in_memory();
    builder.push(0, &[7; 60]).expect("a frame");
    let nobody = builder.finish().expect("a template");
    assert!(matches!(cast(&nobody, None, 1, &Nets::default()), Err(CastError::Nobody)));
}
