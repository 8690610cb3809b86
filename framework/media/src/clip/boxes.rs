//! A first look at an MP4's boxes: do their sizes nest, does the file end where they say, and do
//! their counts stay within reason? What passes here is safe to hand to the full parser.
//!
//! Source of the layout: ISO/IEC 14496-12 §4.2 (boxes), §8.7.3 (`stsz`), §8.8.8 (`trun`).

/// Most entries that all sample tables of a file may announce together. A table of equal sizes
/// is stored as one number, so a few damaged bytes could otherwise ask for billions of entries.
const ENTRIES_MAX: u64 = 4 << 20;

/// Boxes nest this deep at most on the way to the sample tables.
const DEPTH_MAX: u32 = 8;

/// How far the file goes, and how far it should.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// End of the last box that is there in full, in bytes.
    pub bytes_complete: usize,
    /// End of the last box by its own account, in bytes.
    pub bytes_expected: u64,
    /// Whether the index (`moov`) is there in full.
    pub has_index: bool,
}

/// Walks the boxes. The error says what is wrong and where.
pub(super) fn check(data: &[u8]) -> Result<Extent, String> {
    let mut extent = Extent { bytes_complete: 0, bytes_expected: 0, has_index: false };
    let mut entries = 0;
    let mut at = 0;
    while at < data.len() {
        let header = match Header::read(data, at, data.len())? {
            Some(header) => header,
            None => {
                extent.bytes_expected = at as u64 + 8;
                break;
            }
        };
        if at == 0 && &header.name != b"ftyp" {
            return Err("it does not start with an ftyp box".into());
        }
        extent.bytes_expected = header.end;
        let Some(end) = usize::try_from(header.end).ok().filter(|&end| end <= data.len()) else {
            break;
        };
        if matches!(&header.name, b"moov" | b"moof") {
            extent.has_index |= &header.name == b"moov";
            children(data, header.body, end, 1, &mut entries)?;
        }
        extent.bytes_complete = end;
        at = end;
    }
    match extent.bytes_expected {
        0 => Err("it is empty".into()),
        _ => Ok(extent),
    }
}

fn children(data: &[u8], from: usize, to: usize, depth: u32, entries: &mut u64) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err(format!("boxes nest too deep at byte {from}"));
    }
    let mut at = from;
    while at < to {
        let header = Header::read(data, at, to)?
            .filter(|header| header.end <= to as u64)
            .ok_or_else(|| format!("the box at byte {at} is larger than the box around it"))?;
        let end = header.end as usize;
        match &header.name {
            b"trak" | b"mdia" | b"minf" | b"stbl" | b"traf" => {
                children(data, header.body, end, depth + 1, entries)?;
            }
            // Version and flags, one common size, then the count.
            b"stsz" => count(data, header.body + 8, end, entries)?,
            // Version and flags, then the count.
            b"trun" => count(data, header.body + 4, end, entries)?,
            _ => {}
        }
        at = end;
    }
    Ok(())
}

fn count(data: &[u8], at: usize, end: usize, entries: &mut u64) -> Result<(), String> {
    let bytes = data.get(at..at + 4).filter(|_| at + 4 <= end);
    let bytes = bytes.ok_or_else(|| format!("the table before byte {end} is cut short"))?;
    *entries += u64::from(be32(bytes));
    match *entries > ENTRIES_MAX {
        true => Err(format!("the table at byte {at} announces too many entries")),
        false => Ok(()),
    }
}

struct Header {
    name: [u8; 4],
    /// First byte after the header.
    body: usize,
    /// First byte after the box, by its own account.
    end: u64,
}

impl Header {
    /// Reads the header at `at`; `None` if it does not fit before `to`.
    fn read(data: &[u8], at: usize, to: usize) -> Result<Option<Self>, String> {
        let Some(head) = data[at..to].get(..8) else {
            return Ok(None);
        };
        let name = [head[4], head[5], head[6], head[7]];
        let (size, body) = match be32(head) {
            // The last box of a file may leave its size open.
            0 if to == data.len() => ((to - at) as u64, 8),
            1 => match data[at..to].get(8..16) {
                Some(large) => (u64::from(be32(large)) << 32 | u64::from(be32(&large[4..])), 16),
                None => return Ok(None),
            },
            size => (u64::from(size), 8),
        };
        if size < body {
            return Err(format!("the box at byte {at} has the impossible size {size}"));
        }
        Ok(Some(Self { name, body: at + body as usize, end: (at as u64).saturating_add(size) }))
    }
}

fn be32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxed(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
        let size = u32::try_from(body.len() + 8).unwrap().to_be_bytes();
        [&size[..], name, body].concat()
    }

    #[test]
    fn reports_how_far_the_file_goes() {
        let mut file = [boxed(b"ftyp", b"isom0000"), boxed(b"moov", &[])].concat();
        let index_end = file.len();
        file.extend(boxed(b"mdat", &[0; 100]));
        let whole = check(&file).unwrap();
        assert_eq!((whole.bytes_complete, whole.has_index), (file.len(), true));
        let cut = check(&file[..index_end + 50]).unwrap();
        assert_eq!(cut.bytes_complete, index_end);
        assert_eq!(cut.bytes_expected, file.len() as u64);
        assert!(!check(&file[..18]).unwrap().has_index);
    }

    #[test]
    fn refuses_what_would_mislead_the_parser() {
        let ftyp = boxed(b"ftyp", b"isom0000");
        let file = |body: &[u8]| [ftyp.clone(), boxed(b"moov", body)].concat();
        let stbl = |stsz: &[u8]| boxed(b"trak", &boxed(b"stbl", &boxed(b"stsz", stsz)));
        assert!(check(&[]).unwrap_err().contains("empty"));
        assert!(check(b"plain text, no video").unwrap_err().contains("ftyp"));
        assert!(check(&file(&[0, 0, 0, 0, b'f', b'r', b'e', b'e'])).is_ok());
        let circle = [boxed(b"free", &[0; 4]), boxed(b"trak", &[0, 0, 0, 4, 0, 0, 0, 0])].concat();
        assert!(check(&file(&circle)).unwrap_err().contains("impossible size 4"));
        assert!(check(&file(&[0, 0, 1, 0, b't', b'r', b'a', b'k'])).unwrap_err().contains("larger"));
        let many = [0, 0, 0, 0, 0, 0, 0, 9, 0xff, 0xff, 0xff, 0xff];
        assert!(check(&file(&stbl(&many))).unwrap_err().contains("too many"));
        assert!(check(&file(&stbl(&many[..10]))).unwrap_err().contains("cut short"));
        assert!(check(&file(&stbl(&[0; 12]))).is_ok());
    }

    #[test]
    fn nesting_is_bounded() {
        let mut body = Vec::new();
        for _ in 0..20 {
            body = boxed(b"trak", &body);
        }
        let file = [boxed(b"ftyp", &[]), boxed(b"moov", &body)].concat();
        assert!(check(&file).unwrap_err().contains("too deep"));
    }
}
