//! Flags of `rehearsal send`: a load in one line, without a file.

use std::path::PathBuf;

use clap::Args;

use super::Output;

/// `rehearsal send`.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  rehearsal send http://127.0.0.1:8080/ --once
  rehearsal send http://127.0.0.1:8080/items --rate 100/s --duration 30s --connections 50
  rehearsal send http://127.0.0.1:8080/items --body '{\"id\":\"{uuid}\"}' --expect 201 --threshold 'response.p99<100ms'
  rehearsal send http://192.0.2.7/ --allow 192.0.2.7 --duration 10s --out results/first
  rehearsal send https://127.0.0.1:8443/ --http 2 --streams 50 --ca ca.pem --requests 10000
  rehearsal send udp://127.0.0.1:9000 --body 'n={seq}' --answer echo --rate 1000/s
  rehearsal send tcp://127.0.0.1:6379 --body-file ping.txt --answer line --connections 20
  rehearsal send mqtt://127.0.0.1/sensors/{member} --body '{\"at\":{time}}' --qos 1 --rate 200/s

Without --rate each connection sends its next request when the last was answered. Targets beyond this machine need --allow.
A --body may hold {seq}, {member}, {node}, {actor}, {time} and {uuid}, and so may headers and the URL's path; {{word}} is sent
as {word}. Over udp:// what has left is a success unless --answer says what must come back.")]
pub struct Send {
    /// Where to: http://HOST[:PORT][/PATH], https://…, udp://HOST:PORT, tcp://…, tls://…, mqtt://HOST[:PORT]/TOPIC, mqtts://…
    pub url: String,
    /// Send one request and show its answer: status, headers, first bytes, times
    #[arg(long, conflicts_with_all = ["rate", "duration", "connections", "requests", "threshold", "expect", "expect_body", "out", "junit"])]
    pub once: bool,
    /// Requests in all per time, evenly spaced, such as 100/s [default: as fast as answers come]
    #[arg(long, value_name = "RATE", env = "REHEARSAL_RATE", help_heading = "Load")]
    pub rate: Option<String>,
    /// How long to send [default: 10s, or as long as --requests take]
    #[arg(long, value_name = "TIME", env = "REHEARSAL_DURATION", help_heading = "Load")]
    pub duration: Option<String>,
    /// Connections, each with one request at a time [default: 10; over HTTP/2 and HTTP/3 1, with --streams]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=100_000),
        env = "REHEARSAL_CONNECTIONS",
        help_heading = "Load"
    )]
    pub connections: Option<u32>,
    /// Requests of one connection at a time, over HTTP/2 and HTTP/3 [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "Load")]
    pub streams: Option<u32>,
    /// Requests in all; the run ends with the last of them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "duration", env = "REHEARSAL_REQUESTS", help_heading = "Load")]
    pub requests: Option<u64>,
    /// An attempt without an answer after this time is unacknowledged; none is tried again
    #[arg(long, value_name = "TIME", default_value = "10s", env = "REHEARSAL_TIMEOUT", help_heading = "Load")]
    pub timeout: String,
    /// The version of HTTP: 2 is agreed on by ALPN under https, and taken for granted under http; 3 goes over QUIC [default: 1.1]
    #[arg(long, value_name = "VERSION", value_parser = ["1.1", "2", "3"], help_heading = "Connection")]
    pub http: Option<String>,
    /// Trust the authorities in this PEM file, in place of the system's
    #[arg(long, value_name = "FILE", conflicts_with = "insecure", help_heading = "Connection")]
    pub ca: Option<PathBuf>,
    /// Take any certificate; the verdict says so
    #[arg(long, help_heading = "Connection")]
    pub insecure: bool,
    /// Show this certificate (PEM), with those between it and its authority
    #[arg(long, value_name = "FILE", requires = "key", help_heading = "Connection")]
    pub cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "Connection")]
    pub key: Option<PathBuf>,
    /// The name to ask for (SNI), and that the certificate must be of [default: the URL's host]
    #[arg(long, value_name = "NAME", help_heading = "Connection")]
    pub server_name: Option<String>,
    /// How sure a delivery by mqtt is [default: 1]
    #[arg(long, value_name = "0|1|2", value_parser = clap::value_parser!(u8).range(0..=2), help_heading = "Connection")]
    pub qos: Option<u8>,
    /// Whom the broker of mqtt knows the client as
    #[arg(long, value_name = "NAME", help_heading = "Connection")]
    pub user: Option<String>,
    /// A file with that user's password in its first line
    #[arg(long, value_name = "FILE", requires = "user", help_heading = "Connection")]
    pub password_file: Option<PathBuf>,
    /// The method [default: GET, or POST where there is a body]
    #[arg(long, short = 'X', value_name = "METHOD", env = "REHEARSAL_METHOD", help_heading = "Request")]
    pub method: Option<String>,
    /// A header, such as 'accept: text/html' (repeatable)
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE", help_heading = "Request")]
    pub headers: Vec<String>,
    /// The body, as text
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file", help_heading = "Request")]
    pub body: Option<String>,
    /// The body, from a file
    #[arg(long, value_name = "FILE", help_heading = "Request")]
    pub body_file: Option<PathBuf>,
    /// A body of so many bytes that differ each time, such as 1kB
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["body", "body_file"], help_heading = "Request")]
    pub body_bytes: Option<String>,
    /// A code that is a success, in place of 2xx (repeatable)
    #[arg(long, value_name = "STATUS", value_delimiter = ',', help_heading = "Request")]
    pub expect: Vec<u16>,
    /// Text that the body of a success must hold
    #[arg(long, value_name = "TEXT", help_heading = "Request")]
    pub expect_body: Option<String>,
    /// What ends an exchange over udp, tcp or tls: nothing, line, echo, any, or a size such as 12B [default: line, over udp nothing]
    #[arg(long, value_name = "ANSWER", help_heading = "Request")]
    pub answer: Option<String>,
    /// Permit traffic to this address or network, such as 10.0.0.0/24 (repeatable) [default: loopback only]
    #[arg(long, value_name = "CIDR", env = "REHEARSAL_ALLOW", value_delimiter = ',')]
    pub allow: Vec<String>,
    /// Exit with 10 if this does not hold, such as 'response.p99<100ms' (repeatable)
    #[arg(long, value_name = "LIMIT", help_heading = "Results")]
    pub threshold: Vec<String>,
    /// Start although a check before the start failed; the verdict says so
    #[arg(long, env = "REHEARSAL_FORCE")]
    pub force: bool,
    /// Where results go; without --out nothing is kept
    #[command(flatten)]
    pub output: Output,
}
