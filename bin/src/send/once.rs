//! One request by hand: what went out, what came back, and when.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use rehearsal_core::Span;
use rehearsal_core::outside::template::{Item, Template};
use rehearsal_core::outside::{AnswerSpec, RequestSpec, Scheme};
use rehearsal_core::payload::RenderContext;
use rehearsal_emu::{EmuOptions, Encrypted};
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
pub(super) struct Told {
    pub address: SocketAddr,
    pub connect: Duration,
    pub first_byte: Duration,
    pub total: Duration,
    pub answer: Vec<u8>,
    /// What an encrypted connection agreed on.
    pub agreed: Option<String>,
    pub ending: Ending,
}

/// Where an answer ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// Where HTTP says.
    Http,
    /// As the file says, after a body of so many bytes.
    Bare(AnswerSpec, usize),
}

impl Ending {
    /// Whether no more comes than is there.
    fn is_whole(self, answer: &[u8]) -> bool {
        match self {
            Ending::Http => is_whole(answer),
            Ending::Bare(AnswerSpec::Nothing, _) => true,
            Ending::Bare(AnswerSpec::Any, _) => !answer.is_empty(),
            Ending::Bare(AnswerSpec::Line, _) => answer.contains(&b'\n'),
            Ending::Bare(AnswerSpec::Echo, asked) => answer.len() >= asked,
            Ending::Bare(AnswerSpec::Bytes(bytes), _) => answer.len() as u64 >= bytes.0,
        }
    }
}

/// A connection, encrypted or not.
trait Talk: Read + Write {}
impl<T: Read + Write> Talk for T {}

/// Sends one request and shows its answer. The exit code is 0 for any answer.
pub(super) fn once(args: &Send, mut experiment: Experiment) -> Result<ExitCode> {
    if args.http.as_deref().is_some_and(|version| version != "1.1") {
        return Err(UsageError("--once speaks HTTP/1.1; leave --http out, or --once".to_owned()).into());
    }
    if args.url.starts_with("mqtt") {
        let instead = "--once shows an answer, and a broker has none; `--requests 1` publishes one message";
        return Err(UsageError(instead.to_owned()).into());
    }
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
    let limit = Duration::from_nanos(timeout.as_nanos().max(1));
    let bare = outside.url.scheme.is_bare();
    let (body, media_type) = body(&experiment)?;
    let told = if outside.url.scheme == Scheme::Udp {
        let ending = ending(&experiment, AnswerSpec::Nothing, body.len());
        datagram(address, &body, limit, ending)
    } else if bare {
        let ending = ending(&experiment, AnswerSpec::Line, body.len());
        ask(&experiment, address, &body, limit, ending)
    } else {
        ask(&experiment, address, &request(&experiment, &body, media_type), limit, Ending::Http)
    };
    let told = told.map_err(|why| Refused(format!("{address}: {why}")))?;
    print(&match args.output.format {
        Format::Text => text(&told),
        Format::Json => json(&told)?,
    })?;
    Ok(ExitCode::SUCCESS)
}

fn said(experiment: &Experiment) -> RequestSpec {
    experiment.senders().find_map(|(_, _, sender)| sender.request.as_deref().cloned()).unwrap_or_default()
}

fn ending(experiment: &Experiment, usual: AnswerSpec, asked: usize) -> Ending {
    Ending::Bare(said(experiment).answer().unwrap_or(usual), asked)
}

fn item() -> Item {
    Item { seq: 0, member: 0, epoch_ns: unix_ns() }
}

/// The body of the experiment's first request, and its media type.
fn body(experiment: &Experiment) -> Result<(Vec<u8>, &'static str)> {
    let (assembly, _) = assemble(experiment, experiment.plan(0), Use::Emulation, true)?;
    let (mut body, spec) = (bytes::BytesMut::new(), said(experiment));
    let Some((recipe, written)) = assembly.recipes.first().zip(spec.body) else {
        return Ok((Vec::new(), "application/octet-stream"));
    };
    let length = written
        .template
        .as_ref()
        .map_or_else(|| written.bytes.map_or(1000, |bytes| bytes.0 as u32), |text| filled(text).length(0, 0) as u32);
    match recipe.shared(0) {
        Some(bytes) => body.extend_from_slice(&bytes),
        None => recipe.render(RenderContext { seq: 0, member: 0, epoch_ns: item().epoch_ns, bytes: length }, &mut body),
    }
    Ok((body.to_vec(), recipe.content_type()))
}

/// A text of the one actor that `send` has.
fn filled(text: &str) -> Template {
    Template::read(text).of("send", "main")
}

/// The bytes of the experiment's first request, on a connection for it alone.
fn request(experiment: &Experiment, body: &[u8], media_type: &str) -> Vec<u8> {
    let (spec, item) = (said(experiment), item());
    let render = |text: &str| {
        let mut out = bytes::BytesMut::new();
        filled(text).render(item, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    };
    let Some(outside) = experiment.outside.first() else { return Vec::new() };
    let path = render(spec.path.as_deref().unwrap_or(&outside.url.path));
    let method = spec.method.as_deref().unwrap_or(if body.is_empty() { "GET" } else { "POST" });
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", outside.url.authority());
    for (name, value) in &spec.headers {
        text += &format!("{name}: {}\r\n", render(value));
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
    all.extend_from_slice(body);
    all
}

/// Connects, and agrees on keys where the target wants that.
fn connect(
    experiment: &Experiment,
    address: SocketAddr,
    limit: Duration,
) -> io::Result<(TcpStream, Box<dyn Talk>, Option<String>)> {
    let stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(limit))?;
    stream.set_read_timeout(Some(limit))?;
    let timer = stream.try_clone()?;
    let outside = experiment.outside.first();
    let Some((outside, link)) = outside.and_then(|outside| Some((outside, outside.link()?))) else {
        return Ok((timer, Box::new(stream), None));
    };
    if !link.is_encrypted() {
        return Ok((timer, Box::new(stream), None));
    }
    let talk = Encrypted::over(stream, link, &outside.url.host, &experiment.base).map_err(io::Error::other)?;
    let agreed = talk.agreed();
    Ok((timer, Box::new(talk), Some(agreed)))
}

/// Sends a datagram, and waits for another if one is to come.
fn datagram(address: SocketAddr, body: &[u8], limit: Duration, ending: Ending) -> io::Result<Told> {
    let begin = Instant::now();
    let from = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(from)?;
    socket.connect(address)?;
    let connect = begin.elapsed();
    socket.send(body)?;
    let mut answer = Vec::new();
    if !ending.is_whole(&answer) {
        socket.set_read_timeout(Some(limit))?;
        answer.resize(64 << 10, 0);
        let bytes = socket.recv(&mut answer).map_err(|why| match why.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => why,
        })?;
        answer.truncate(bytes);
    }
    let total = begin.elapsed();
    Ok(Told { address, connect, first_byte: total, total, answer, agreed: None, ending })
}

fn ask(
    experiment: &Experiment,
    address: SocketAddr,
    request: &[u8],
    limit: Duration,
    ending: Ending,
) -> io::Result<Told> {
    let begin = Instant::now();
    let (timer, mut stream, agreed) = connect(experiment, address, limit)?;
    let connect = begin.elapsed();
    stream.write_all(request)?;
    stream.flush()?;
    let (mut answer, mut piece) = (Vec::new(), [0_u8; 16 << 10]);
    let mut first_byte = None;
    while (answer.len() as u64) < ANSWER_MAX && !ending.is_whole(&answer) {
        let left = limit.checked_sub(begin.elapsed()).filter(|left| !left.is_zero());
        let Some(left) = left else {
            return if answer.is_empty() { Err(io::ErrorKind::TimedOut.into()) } else { break_off(begin, &answer) };
        };
        timer.set_read_timeout(Some(left))?;
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
    if answer.is_empty() && !ending.is_whole(&answer) {
        return Err(io::Error::other("the connection was closed without an answer"));
    }
    if ending == Ending::Http && !answer.starts_with(b"HTTP/") {
        return Err(io::Error::other("the answer is something else than HTTP"));
    }
    let total = begin.elapsed();
    Ok(Told { address, connect, first_byte: first_byte.unwrap_or(total), total, answer, agreed, ending })
}

fn break_off<T>(begin: Instant, answer: &[u8]) -> io::Result<T> {
    let (bytes, after) = (answer.len(), begin.elapsed().as_secs_f64());
    Err(io::Error::other(format!("the answer was not whole after {after:.1} s; {bytes} bytes had come")))
}

impl Told {
    /// Head and body, of HTTP; else all is body.
    fn parts(&self) -> (&[u8], &[u8]) {
        match self.ending {
            Ending::Http => parts(&self.answer).unwrap_or((&self.answer, &[])),
            Ending::Bare(..) => (&[], &self.answer),
        }
    }
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
    let (head, body) = told.parts();
    let clean = |bytes: &[u8]| rehearsal_scenario::printable_lines(&String::from_utf8_lossy(bytes).replace('\r', ""));
    let shown = &body[..body.len().min(SHOWN)];
    let mut text = if told.ending == Ending::Http { format!("{}\n", clean(head)) } else { String::new() };
    if !body.is_empty() {
        text += &format!("\n{}\n", clean(shown));
        if shown.len() < body.len() {
            text += &format!("… {} of {} bytes\n", shown.len(), body.len());
        }
    }
    let [connect, first, total] = [told.connect, told.first_byte, told.total].map(millis);
    let agreed = told.agreed.as_ref().map(|agreed| format!(" ({agreed})")).unwrap_or_default();
    text + &format!(
        "\n{}{agreed}: connected after {connect} ms, first byte after {first} ms, all after {total} ms\n",
        told.address
    )
}

fn json(told: &Told) -> Result<String> {
    let (head, body) = told.parts();
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse::<u16>().ok());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    Ok(serde_json::to_string_pretty(&serde_json::json!({
        "address": told.address.to_string(),
        "tls": told.agreed,
        "status": status,
        "headers": headers,
        "body_bytes": body.len(),
        "body_start": String::from_utf8_lossy(&body[..body.len().min(SHOWN)]),
        "connect_ms": millis(told.connect),
        "first_byte_ms": millis(told.first_byte),
        "total_ms": millis(told.total),
    }))?)
}
