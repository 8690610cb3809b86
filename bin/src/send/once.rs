//! One request by hand: what went out, what came back, and when.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use rehearsal_core::Span;
use rehearsal_core::outside::template::{Item, Template};
use rehearsal_core::payload::RenderContext;
use rehearsal_emu::EmuOptions;
use rehearsal_scenario::Experiment;

use crate::cli::{Format, Send};
use crate::clips::Use;
use crate::exit::{Refused, UsageError};
use crate::experiment::assemble;
use crate::facts::unix_ns;
use crate::report::print;
use crate::targets;

/// Bytes of an answer that are read. Assumed: a page or a document, not a film.
const ANSWER_MAX: u64 = 1 << 20;
/// Bytes of a body that are shown.
const SHOWN: usize = 1000;

/// What came of it.
struct Told {
    address: SocketAddr,
    connect: Duration,
    first_byte: Duration,
    total: Duration,
    answer: Vec<u8>,
}

/// Sends one request and shows its answer. The exit code is 0 for any answer of HTTP.
pub(super) fn once(args: &Send, mut experiment: Experiment) -> Result<ExitCode> {
    targets::find(&mut experiment)?;
    let Some(outside) = experiment.outside.first() else { return Err(UsageError("no target".to_owned()).into()) };
    let mut options = EmuOptions::default();
    for text in &args.allow {
        options.allow.push(text.parse().map_err(|why| UsageError(format!("--allow: {why}")))?);
    }
    let address = outside.address.ok_or_else(|| Refused("nobody knows where that is".to_owned()))?;
    if !options.allows(address.ip()) {
        let ip = address.ip();
        return Err(Refused(format!("{ip} is beyond this machine; to permit it: --allow {ip}")).into());
    }
    let timeout: Span = args.timeout.parse().map_err(|why| UsageError(format!("--timeout: {why}")))?;
    let request = request(&experiment)?;
    let limit = Duration::from_nanos(timeout.as_nanos().max(1));
    let told = ask(address, &request, limit).map_err(|why| Refused(format!("{address}: {why}")))?;
    print(&match args.output.format {
        Format::Text => text(&told),
        Format::Json => json(&told)?,
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The bytes of the experiment's first request, on a connection for it alone.
fn request(experiment: &Experiment) -> Result<Vec<u8>> {
    let (assembly, _) = assemble(experiment, experiment.plan(0), Use::Emulation, true)?;
    let spec = experiment.senders().find_map(|(_, _, sender)| sender.request.clone()).unwrap_or_default();
    let item = Item { seq: 0, member: 0, epoch_ns: unix_ns() };
    let (mut body, mut path) = (bytes::BytesMut::new(), bytes::BytesMut::new());
    let recipe = assembly.recipes.first();
    // a client's bodies have as many bytes as their first says
    let media_type = recipe.map_or("", |recipe| recipe.content_type());
    if let (Some(recipe), Some(written)) = (recipe, &spec.body) {
        let length = written.template.as_ref().map_or_else(
            || written.bytes.map_or(1000, |bytes| bytes.0 as u32),
            |text| Template::read(text).length(0, 0) as u32,
        );
        match recipe.shared(0) {
            Some(bytes) => body.extend_from_slice(&bytes),
            None => {
                recipe.render(RenderContext { seq: 0, member: 0, epoch_ns: item.epoch_ns, bytes: length }, &mut body)
            }
        }
    }
    let Some(outside) = experiment.outside.first() else { return Ok(Vec::new()) };
    Template::read(spec.path.as_deref().unwrap_or(&outside.url.path)).render(item, &mut path);
    let method = spec.method.as_deref().unwrap_or(if body.is_empty() { "GET" } else { "POST" });
    let mut text =
        format!("{method} {} HTTP/1.1\r\nhost: {}\r\n", String::from_utf8_lossy(&path), outside.url.authority());
    for (name, value) in &spec.headers {
        text += &format!("{name}: {value}\r\n");
    }
    let typed = spec.headers.keys().any(|name| name.eq_ignore_ascii_case("content-type"));
    if !body.is_empty() {
        if !typed {
            text += &format!("content-type: {media_type}\r\n");
        }
        text += &format!("content-length: {}\r\n", body.len());
    } else if matches!(method, "POST" | "PUT" | "PATCH") {
        text += "content-length: 0\r\n";
    }
    text += "connection: close\r\n\r\n";
    let mut all = text.into_bytes();
    all.extend_from_slice(&body);
    Ok(all)
}

fn ask(address: SocketAddr, request: &[u8], limit: Duration) -> io::Result<Told> {
    let begin = Instant::now();
    let mut stream = TcpStream::connect_timeout(&address, limit)?;
    let connect = begin.elapsed();
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(limit))?;
    stream.write_all(request)?;
    let (mut answer, mut piece) = (Vec::new(), [0_u8; 16 << 10]);
    let mut first_byte = None;
    while (answer.len() as u64) < ANSWER_MAX && !is_whole(&answer) {
        let left = limit.checked_sub(begin.elapsed()).filter(|left| !left.is_zero());
        let Some(left) = left else {
            return if answer.is_empty() { Err(io::ErrorKind::TimedOut.into()) } else { break_off(begin, &answer) };
        };
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => {
                first_byte.get_or_insert_with(|| begin.elapsed());
                answer.extend_from_slice(&piece[..read]);
            }
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    if answer.is_empty() {
        return Err(io::Error::other("the connection was closed without an answer"));
    }
    if !answer.starts_with(b"HTTP/") {
        return Err(io::Error::other("the answer is something else than HTTP"));
    }
    let total = begin.elapsed();
    Ok(Told { address, connect, first_byte: first_byte.unwrap_or(total), total, answer })
}

fn break_off<T>(begin: Instant, answer: &[u8]) -> io::Result<T> {
    let (bytes, after) = (answer.len(), begin.elapsed().as_secs_f64());
    Err(io::Error::other(format!("the answer was not whole after {after:.1} s; {bytes} bytes had come")))
}

/// Head and body of an answer.
fn parts(answer: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some((&answer[..end], &answer[end + 4..]))
}

/// Whether a head says that no more comes than is there; without a length the peer closes.
fn is_whole(answer: &[u8]) -> bool {
    let Some((head, body)) = parts(answer) else { return false };
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    let code = head.split(' ').nth(1).unwrap_or_default();
    matches!(code, "204" | "304") || length.is_some_and(|length| body.len() >= length)
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn text(told: &Told) -> String {
    let (head, body) = parts(&told.answer).unwrap_or((&told.answer, &[]));
    let clean = |bytes: &[u8]| rehearsal_scenario::printable_lines(&String::from_utf8_lossy(bytes).replace('\r', ""));
    let shown = &body[..body.len().min(SHOWN)];
    let mut text = format!("{}\n", clean(head));
    if !body.is_empty() {
        text += &format!("\n{}\n", clean(shown));
        if shown.len() < body.len() {
            text += &format!("… {} of {} bytes\n", shown.len(), body.len());
        }
    }
    let [connect, first, total] = [told.connect, told.first_byte, told.total].map(millis);
    text + &format!(
        "\n{}: connected after {connect} ms, first byte after {first} ms, all after {total} ms\n",
        told.address
    )
}

fn json(told: &Told) -> Result<String> {
    let (head, body) = parts(&told.answer).unwrap_or((&told.answer, &[]));
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse::<u16>().ok());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    Ok(serde_json::to_string_pretty(&serde_json::json!({
        "address": told.address.to_string(),
        "status": status,
        "headers": headers,
        "body_bytes": body.len(),
        "body_start": String::from_utf8_lossy(&body[..body.len().min(SHOWN)]),
        "connect_ms": millis(told.connect),
        "first_byte_ms": millis(told.first_byte),
        "total_ms": millis(told.total),
    }))?)
}
