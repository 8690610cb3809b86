//! What a receiver's carrier checks of a request's body: JSON as JSON, pictures as pictures.

use bytes::Bytes;
use rehearsal_media::jpeg;

/// Bytes at the front of a picture in which its frame header must be found.
const HEAD_BYTES: usize = 64 * 1024;

/// Checks a body by its announced media type; types that are not known pass. `decode` decodes a picture in full.
pub fn check(content_type: &str, body: &[Bytes], decode: bool) -> bool {
    match content_type {
        "application/json" => is_json(body),
        "image/jpeg" if decode => jpeg::decode(&joined(body, usize::MAX)).is_ok(),
        "image/jpeg" => is_jpeg(body),
        _ => true,
    }
}

fn is_json(body: &[Bytes]) -> bool {
    match body {
        [one] => serde_json::from_slice::<serde::de::IgnoredAny>(one).is_ok(),
        many => serde_json::from_slice::<serde::de::IgnoredAny>(&joined(many, usize::MAX)).is_ok(),
    }
}

fn is_jpeg(body: &[Bytes]) -> bool {
    let Some(last) = body.iter().rev().find(|b| !b.is_empty()) else { return false };
    let first = &body[0];
    // the frame header usually lies in the first piece: nothing is copied
    if jpeg::check_header(first, last).is_ok() {
        return true;
    }
    jpeg::check_header(&joined(body, HEAD_BYTES), &tail(body)).is_ok()
}

/// The first `limit` bytes of all pieces.
fn joined(body: &[Bytes], limit: usize) -> Vec<u8> {
    let total = body.iter().map(Bytes::len).sum::<usize>().min(limit);
    let mut all = Vec::with_capacity(total);
    for piece in body {
        all.extend_from_slice(&piece[..piece.len().min(total - all.len())]);
    }
    all
}

/// The last two bytes, wherever the pieces are cut.
fn tail(body: &[Bytes]) -> Vec<u8> {
    let mut last: Vec<u8> = body.iter().rev().flat_map(|b| b.iter().rev()).take(2).copied().collect();
    last.reverse();
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_checked_whole_wherever_it_is_cut() {
        let text = Bytes::from_static(br#"{"device":"a","ts":1.5,"data":"xyz"}"#);
        assert!(check("application/json", std::slice::from_ref(&text), false));
        assert!(check("application/json", &[text.slice(..10), text.slice(10..)], false));
        assert!(!check("application/json", &[text.slice(..10)], false));
        assert!(!check("application/json", &[text.clone(), text], false));
    }

    #[test]
    fn a_picture_that_is_cut_or_no_picture_is_refused() {
        assert!(!check("image/jpeg", &[], false));
        assert!(!check("image/jpeg", &[Bytes::from_static(b"\xff\xd8\xff\xd9")], false));
        assert!(!check("image/jpeg", &[Bytes::from(vec![0; 1000])], false));
        assert!(check("text/plain", &[Bytes::from_static(b"anything")], false));
    }
}
