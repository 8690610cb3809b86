//! From the decoder's colours to those of a JPEG file.
//!
//! A video frame and a JPEG picture both store one luma and two chroma planes, but not the same
//! ones: HD video uses the BT.709 matrix and the limited range 16–235, JFIF demands BT.601 and
//! the full range 0–255. Going through RGB (decode, then let the JPEG encoder convert back) is a
//! linear map there and a linear map back; their product is one 3 × 3 matrix, which is applied
//! here in a single pass. The picture is the one that an RGB round trip gives, except that
//! values outside of the RGB cube are not clipped on the way. Chroma stays at the resolution it
//! has, so that it is neither interpolated nor averaged.
//!
//! Sources: BT.601-7 §2.5.1, BT.709-6 §3, BT.2020-2 table 4 (the luma weights), H.264 table E-5
//! (`matrix_coefficients`), JFIF 1.02 (full-range BT.601).

use rust_h264::decoder::{ChromaFormat, Frame};

/// How a video stream encodes colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Colour {
    /// `matrix_coefficients` of the stream; 2 is "unspecified".
    pub matrix: u8,
    /// Whether luma spans 0–255 instead of 16–235.
    pub full_range: bool,
}

impl Default for Colour {
    fn default() -> Self {
        Self { matrix: 2, full_range: false }
    }
}

impl Colour {
    /// Luma weights of red and blue. An unspecified matrix is BT.709 from 720 lines upwards and
    /// BT.601 below, which is what players assume.
    fn weights(self, height: u32) -> (f64, f64) {
        match self.matrix {
            1 => (0.2126, 0.0722),
            4 => (0.30, 0.11),
            5 | 6 => (0.299, 0.114),
            7 => (0.212, 0.087),
            9 | 10 => (0.2627, 0.0593),
            _ if height >= 720 => (0.2126, 0.0722),
            _ => (0.299, 0.114),
        }
    }
}

/// A picture in the colours of JFIF, ready to be encoded at any quality.
pub(crate) struct Picture {
    /// Width, in pixels.
    pub width: u16,
    /// Height, in pixels.
    pub height: u16,
    /// Luma, `width × height`.
    pub luma: Vec<u8>,
    /// Both chroma planes, each sample repeated to the full width; one row for every
    /// `rows_per_chroma` rows of luma.
    pub chroma: [Vec<u8>; 2],
    /// Luma rows that share a row of chroma: 2 for 4:2:0, 1 for 4:2:2.
    pub rows_per_chroma: usize,
}

impl Picture {
    /// Converts one decoded frame. `None` if its planes do not fit its size.
    pub(crate) fn new(frame: &Frame, colour: Colour) -> Option<Self> {
        let (width, height) = (frame.width as usize, frame.height as usize);
        let columns = frame.chroma_width() as usize;
        let rows_per_chroma = match frame.chroma_format {
            ChromaFormat::Yuv420 => 2,
            ChromaFormat::Yuv422 => 1,
        };
        let rows = height.div_ceil(rows_per_chroma);
        let eight = |plane: &[u8]| eight_bits(plane, frame.bit_depth);
        let (luma, cb, cr) = (eight(&frame.y), eight(&frame.u), eight(&frame.v));
        let fits = luma.len() == width * height
            && columns == width.div_ceil(2)
            && cb.len() == columns * rows
            && cr.len() == columns * rows
            && width * height > 0;
        if !fits {
            return None;
        }
        let mut picture = Self {
            width: u16::try_from(width).ok()?,
            height: u16::try_from(height).ok()?,
            luma,
            chroma: [vec![0; width * rows], vec![0; width * rows]],
            rows_per_chroma,
        };
        let map = Map::new(colour, frame.height);
        for row in 0..rows {
            let source = row * columns..(row + 1) * columns;
            picture.convert(&map, row, &cb[source.clone()], &cr[source]);
        }
        Some(picture)
    }

    /// Converts one row of chroma and the rows of luma that it belongs to.
    fn convert(&mut self, map: &Map, row: usize, cb: &[u8], cr: &[u8]) {
        let width = usize::from(self.width);
        let [out_cb, out_cr] = &mut self.chroma;
        let wide = row * width..(row + 1) * width;
        let pairs = out_cb[wide.clone()].chunks_mut(2).zip(out_cr[wide].chunks_mut(2));
        for ((out_cb, out_cr), (&cb, &cr)) in pairs.zip(cb.iter().zip(cr)) {
            let (cb, cr) = map.chroma(cb, cr);
            out_cb.fill(cb);
            out_cr.fill(cr);
        }
        let first = row * self.rows_per_chroma * width;
        let last = self.luma.len().min(first + self.rows_per_chroma * width);
        for line in self.luma[first..last].chunks_exact_mut(width) {
            for (pair, (&cb, &cr)) in line.chunks_mut(2).zip(cb.iter().zip(cr)) {
                let shift = map.luma_shift(cb, cr);
                for luma in pair {
                    *luma = map.luma(*luma, shift);
                }
            }
        }
    }
}

/// Brings a plane to eight bits per sample, rounding.
fn eight_bits(plane: &[u8], bit_depth: u8) -> Vec<u8> {
    if bit_depth <= 8 {
        return plane.to_vec();
    }
    let shift = u32::from(bit_depth - 8);
    let wide = plane.chunks_exact(2).map(|b| u32::from(u16::from_le_bytes([b[0], b[1]])));
    wide.map(|v| ((v + (1 << (shift - 1))) >> shift).min(255) as u8).collect()
}

/// The product of both colour matrices, in fixed point with 16 fractional bits.
struct Map {
    luma: i32,
    luma_zero: i32,
    /// Luma per unit of source Cb and Cr.
    shift: [i32; 2],
    /// Target Cb and Cr (rows) per unit of source Cb and Cr (columns).
    chroma: [[i32; 2]; 2],
}

const ONE: i32 = 1 << 16;
const HALF: i32 = ONE / 2;

impl Map {
    fn new(colour: Colour, height: u32) -> Self {
        let (red, blue) = colour.weights(height);
        let (luma_gain, chroma_gain, luma_zero) = match colour.full_range {
            true => (1.0, 1.0, 0),
            false => (255.0 / 219.0, 255.0 / 224.0, 16),
        };
        let column = |cb: f64, cr: f64| {
            let (r, b) = (2.0 * (1.0 - red) * cr, 2.0 * (1.0 - blue) * cb);
            let g = -(red * r + blue * b) / (1.0 - red - blue);
            let luma = 0.299 * r + 0.587 * g + 0.114 * b;
            let fixed = |value: f64| (value * chroma_gain * f64::from(ONE)).round() as i32;
            [luma, (b - luma) / 1.772, (r - luma) / 1.402].map(fixed)
        };
        let ([luma_cb, cb_cb, cr_cb], [luma_cr, cb_cr, cr_cr]) = (column(1.0, 0.0), column(0.0, 1.0));
        Self {
            luma: (luma_gain * f64::from(ONE)).round() as i32,
            luma_zero,
            shift: [luma_cb, luma_cr],
            chroma: [[cb_cb, cb_cr], [cr_cb, cr_cr]],
        }
    }

    fn chroma(&self, cb: u8, cr: u8) -> (u8, u8) {
        let (cb, cr) = (i32::from(cb) - 128, i32::from(cr) - 128);
        let mix = |[a, b]: [i32; 2]| byte(a * cb + b * cr + 128 * ONE);
        (mix(self.chroma[0]), mix(self.chroma[1]))
    }

    /// What the chroma of a pixel adds to its luma.
    fn luma_shift(&self, cb: u8, cr: u8) -> i32 {
        self.shift[0] * (i32::from(cb) - 128) + self.shift[1] * (i32::from(cr) - 128)
    }

    fn luma(&self, luma: u8, shift: i32) -> u8 {
        byte(self.luma * (i32::from(luma) - self.luma_zero) + shift)
    }
}

fn byte(fixed: i32) -> u8 {
    ((fixed + HALF) >> 16).clamp(0, 255) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    const HD: Colour = Colour { matrix: 1, full_range: false };

    /// The long way: limited BT.709 to RGB, RGB to full BT.601, in floating point.
    fn through_rgb(y: f64, cb: f64, cr: f64) -> [f64; 3] {
        let (y, cb, cr) = ((y - 16.0) / 219.0, (cb - 128.0) / 224.0, (cr - 128.0) / 224.0);
        let (r, b) = (y + 1.5748 * cr, y + 1.8556 * cb);
        let g = (y - 0.2126 * r - 0.0722 * b) / 0.7152;
        let luma = 0.299 * r + 0.587 * g + 0.114 * b;
        [luma, (b - luma) / 1.772 + 128.0 / 255.0, (r - luma) / 1.402 + 128.0 / 255.0].map(|v| v * 255.0)
    }

    #[test]
    fn equals_the_way_through_rgb() {
        let map = Map::new(HD, 720);
        for (y, cb, cr) in [(16, 128, 128), (235, 128, 128), (81, 90, 200), (145, 54, 34), (120, 160, 100)] {
            let want = through_rgb(y.into(), cb.into(), cr.into()).map(|v| v.clamp(0.0, 255.0));
            let (out_cb, out_cr) = map.chroma(cb, cr);
            let got = [map.luma(y, map.luma_shift(cb, cr)), out_cb, out_cr];
            for (got, want) in got.into_iter().zip(want) {
                assert!((f64::from(got) - want).abs() <= 0.51, "{y} {cb} {cr}: {got} {want}");
            }
        }
    }

    #[test]
    fn jfif_colours_pass_unchanged() {
        let map = Map::new(Colour { matrix: 6, full_range: true }, 480);
        for value in 0..=255 {
            assert_eq!(map.luma(value, map.luma_shift(9, 250)), value);
            assert_eq!(map.chroma(value, 255 - value), (value, 255 - value));
        }
    }

    #[test]
    fn every_plane_layout_is_accepted_and_a_wrong_one_refused() {
        let frame = |chroma_format, rows: usize| Frame {
            width: 6,
            height: 4,
            y: vec![120; 24],
            u: vec![100; 3 * rows],
            v: vec![140; 3 * rows],
            pic_order_cnt: 0,
            chroma_format,
            bit_depth: 8,
        };
        let half = Picture::new(&frame(ChromaFormat::Yuv420, 2), HD).unwrap();
        let full = Picture::new(&frame(ChromaFormat::Yuv422, 4), HD).unwrap();
        assert_eq!((half.rows_per_chroma, half.chroma[0].len()), (2, 12));
        assert_eq!((full.rows_per_chroma, full.chroma[0].len()), (1, 24));
        assert_eq!(half.luma, full.luma);
        assert!(half.luma.iter().all(|&v| v == half.luma[0]));
        assert!(Picture::new(&frame(ChromaFormat::Yuv420, 3), HD).is_none());
    }

    #[test]
    fn ten_bits_are_rounded_to_eight() {
        assert_eq!(eight_bits(&[0xff, 0x03, 0x02, 0x00, 0x01, 0x00], 10), [255, 1, 0]);
    }
}
