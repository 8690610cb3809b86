//! Answers as they come: whole, in pieces, and such as are none.

use proptest::prelude::*;
use rehearsal_core::Status;

use super::*;

/// Status, bytes, and whether the connection may be used again.
type End = Option<(Status, u32, bool)>;

/// Feeds a text in pieces of `size`; what it came to and whether the connection may be used again, or why it is none, and
/// what was left over.
fn read(text: &[u8], size: usize, bare: bool) -> (Result<End, Loss>, Vec<u8>) {
    let mut answer = Answer::new(Wanted::default(), bare);
    let mut buffer: Vec<u8> = Vec::new();
    for piece in text.chunks(size) {
        buffer.extend_from_slice(piece);
        match answer.feed(&buffer) {
            Ok(taken) => drop(buffer.drain(..taken)),
            Err(why) => return (Err(why), buffer),
        }
    }
    let open = !answer.is_done();
    if open {
        answer.closed();
    }
    let end = answer.end().map(|end| (end.status, end.bytes, answer.keep));
    (Ok(end), buffer)
}

/// The same in pieces of any size.
fn whole(text: &str) -> Result<Option<(Status, u32, bool)>, Loss> {
    let all: Vec<_> = [1, 2, 3, 7, text.len()].map(|size| read(text.as_bytes(), size, false).0).into();
    assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "{text}: {all:?}");
    all[0]
}

const OK: Status = Status::Success;

#[test]
fn bodies_end_where_their_heads_say() {
    for (text, bytes, keep) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", 2, true),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok", 2, true),
        ("HTTP/1.1 204 No Content\r\n\r\n", 0, true),
        ("HTTP/1.1 204\r\n\r\n", 0, true),
        ("HTTP/1.1 200 OK\r\nconnection: x, Close\r\ncontent-length: 0\r\n\r\n", 0, false),
        ("HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\nx", 1, false),
        ("HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 1\r\n\r\nx", 1, true),
        ("HTTP/1.1 200 OK\r\n\r\nuntil the end", 13, false),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nabc", 3, false),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=\"y\"\r\n0123456789\r\n0\r\n\r\n",
            13,
            true,
        ),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\na: b\r\nc: d\r\n\r\n", 0, true),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", 1, false),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx",
            1,
            true,
        ),
    ] {
        assert_eq!(whole(text), Ok(Some((OK, bytes, keep))), "{text}");
    }
}

#[test]
fn no_body_follows_what_asked_for_none() {
    let text = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
    assert_eq!(read(text, 4, true).0, Ok(Some((OK, 0, true))));
    assert_eq!(whole("HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n"), Ok(Some((Status::Failed, 0, true))));
}

#[test]
fn what_breaks_off_is_no_answer() {
    for text in [
        "",
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
    ] {
        let end = if text.is_empty() { Ok(None) } else { whole(text) };
        assert_eq!(end, Ok(None), "{text}");
    }
}

#[test]
fn what_is_something_else_says_so() {
    for text in [
        "SSH-2.0-other\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffffff\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\r\n",
    ] {
        assert_eq!(whole(text), Err(Loss::Foreign), "{text}");
    }
}

#[test]
fn nothing_grows_without_bound() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(INTERIM_MAX as usize + 1);
    assert_eq!(read(interim.as_bytes(), 1000, false).0, Err(Loss::Foreign));
    let head = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(HEAD_MAX));
    assert_eq!(read(head.as_bytes(), 4096, false).0, Err(Loss::Foreign));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(HEADERS_MAX + 1));
    assert_eq!(read(many.as_bytes(), 4096, false).0, Err(Loss::Foreign));
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let extension = format!("{chunked}1;{}", "x".repeat(HEAD_MAX + 1));
    assert_eq!(read(extension.as_bytes(), 4096, false).0, Err(Loss::Foreign));
    let trailers = format!("{chunked}0\r\n{}", "x: y\r\n".repeat(HEAD_MAX / 6 + 1));
    assert_eq!(read(trailers.as_bytes(), 4096, false).0, Err(Loss::Foreign));
}

#[test]
fn what_follows_an_answer_is_left() {
    let text = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n";
    let (end, left) = read(text, text.len(), false);
    assert_eq!((end, left.as_slice()), (Ok(Some((OK, 2, true))), &b"HTTP/1.1 200 OK\r\n"[..]));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>, size in 1_usize..20) {
        let mut text = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
        text.extend_from_slice(&bytes);
        // the same in any pieces, and no panic
        prop_assert_eq!(read(&text, size, false).0, read(&text, text.len(), false).0);
        let _ = read(&bytes, size, false);
    }

    #[test]
    fn chunks_of_any_size_add_up(sizes in proptest::collection::vec(1_usize..300, 0..20), size in 1_usize..50) {
        let mut text = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_owned();
        for length in &sizes {
            text += &format!("{length:x}\r\n{}\r\n", "z".repeat(*length));
        }
        text += "0\r\n\r\n";
        let expected = Ok(Some((OK, sizes.iter().sum::<usize>() as u32, true)));
        prop_assert_eq!(read(text.as_bytes(), size, false).0, expected);
    }
}
