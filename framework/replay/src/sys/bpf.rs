//! The bpf(2) system call: maps that are mapped into this process, programs given as instructions, and what runs them.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

use super::region::Region;
use super::socket::checked;

/// Commands. Source: linux/bpf.h, `enum bpf_cmd`.
const MAP_CREATE: libc::c_int = 0;
const PROG_LOAD: libc::c_int = 5;
const PROG_TEST_RUN: libc::c_int = 10;
const LINK_CREATE: libc::c_int = 28;
/// Source: linux/bpf.h, `BPF_MAP_TYPE_ARRAY`, `BPF_PROG_TYPE_XDP`, `BPF_XDP`.
const MAP_TYPE_ARRAY: u32 = 2;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// Source: linux/bpf.h, `BPF_F_MMAPABLE`, `BPF_F_TEST_XDP_LIVE_FRAMES`.
const MMAPABLE: u32 = 1 << 10;
const LIVE_FRAMES: u32 = 1 << 1;
/// Source: linux/if_link.h, `XDP_FLAGS_DRV_MODE`.
const IN_DRIVER: u32 = 1 << 2;
/// Frames of one round; the kernel takes 256 at most. Source: linux/bpf.h, measured: larger gives no more.
const ROUND: u32 = 64;
/// Bytes of what the verifier has to say.
const LOG: usize = 64 << 10;
/// The page that mappings are multiples of. Source: BPF array maps round up to `PAGE_SIZE`; a larger page is covered by it.
const PAGE: usize = 4096;

/// One instruction, as the kernel reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// Operation.
    pub code: u8,
    /// Destination register in the low, source register in the high half.
    pub registers: u8,
    /// Offset, in instructions or bytes.
    pub offset: i16,
    /// Constant.
    pub value: i32,
}

/// An array map; its values are mapped into this process.
#[derive(Debug)]
pub struct Array {
    /// What the program writes and reads.
    pub values: Region,
    fd: OwnedFd,
    /// Bytes from one value to the next.
    pub stride: usize,
}

impl Array {
    /// Makes an array of `entries` values of `bytes` each.
    ///
    /// # Errors
    /// What the system says: it needs CAP_BPF, and memory.
    pub fn create(entries: u32, bytes: u32) -> io::Result<Self> {
        let mut wish = Wish::new();
        for (at, value) in [(0, MAP_TYPE_ARRAY), (4, 4), (8, bytes), (12, entries), (16, MMAPABLE)] {
            wish.word(at, value);
        }
        let fd = wish.descriptor(MAP_CREATE)?;
        let stride = (bytes as usize).next_multiple_of(8);
        let values = Region::of(&fd, (stride * entries as usize).next_multiple_of(PAGE), 0)?;
        Ok(Array { values, fd, stride })
    }

    /// Its number, for instructions that name it.
    pub fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

/// A loaded XDP program.
#[derive(Debug)]
pub struct Program(OwnedFd);

impl Program {
    /// Hands instructions to the kernel's verifier.
    ///
    /// # Errors
    /// What the system says, with the verifier's own words when it refused.
    pub fn load(name: &str, instructions: &[Instruction]) -> io::Result<Self> {
        Self::attempt(name, instructions, None).or_else(|first| {
            // once more, for the reason
            let mut log = vec![0u8; LOG];
            Self::attempt(name, instructions, Some(&mut log)).map_err(|_| {
                let text = String::from_utf8_lossy(&log);
                let said: Vec<&str> = text.trim_end_matches('\0').lines().rev().take(3).collect();
                let said = said.into_iter().rev().collect::<Vec<_>>().join("; ");
                if said.is_empty() { first } else { io::Error::new(first.kind(), format!("{first}: {said}")) }
            })
        })
    }

    fn attempt(name: &str, instructions: &[Instruction], log: Option<&mut [u8]>) -> io::Result<Self> {
        let license = c"Dual MIT/GPL";
        let mut wish = Wish::new();
        wish.word(0, PROG_TYPE_XDP);
        wish.word(4, instructions.len() as u32);
        wish.long(8, instructions.as_ptr() as u64);
        wish.long(16, license.as_ptr() as u64);
        if let Some(log) = log {
            wish.word(24, 1);
            wish.word(28, log.len() as u32);
            wish.long(32, log.as_mut_ptr() as u64);
        }
        wish.name(48, name);
        wish.word(68, ATTACH_XDP);
        wish.descriptor(PROG_LOAD).map(Program)
    }

    /// Runs it `repeat` times over frames that begin as `frame`, and really sends what it redirects (Linux 5.18). The call
    /// returns when that is done, or at a signal.
    ///
    /// # Errors
    /// What the system says; `EINVAL` or `ENOTSUPP` on kernels that cannot.
    pub fn run_live(&self, frame: &[u8], repeat: u32) -> io::Result<()> {
        let mut wish = Wish::new();
        wish.word(0, self.0.as_raw_fd().cast_unsigned());
        wish.word(8, frame.len() as u32);
        wish.long(16, frame.as_ptr() as u64);
        for (at, value) in [(32, repeat), (64, LIVE_FRAMES), (72, ROUND)] {
            wish.word(at, value);
        }
        match wish.ask(PROG_TEST_RUN) {
            Err(why) if why.kind() == io::ErrorKind::Interrupted => Ok(()),
            done => done.map(drop),
        }
    }

    /// Attaches it to an interface's driver; it is detached when what comes back is dropped, or this process ends.
    ///
    /// # Errors
    /// What the system says: `EBUSY` when another program is attached, `EOPNOTSUPP` when the driver knows no XDP.
    pub fn attach(&self, index: u32) -> io::Result<Attached> {
        let mut wish = Wish::new();
        let fd = self.0.as_raw_fd().cast_unsigned();
        for (at, value) in [(0, fd), (4, index), (8, ATTACH_XDP), (12, IN_DRIVER)] {
            wish.word(at, value);
        }
        wish.descriptor(LINK_CREATE).map(|link| Attached { _link: link })
    }
}

/// A program at work on an interface, until this is dropped.
#[derive(Debug)]
pub struct Attached {
    _link: OwnedFd,
}

/// The argument of bpf(2): a union of structs, of which each command reads its own. Source: linux/bpf.h, `union bpf_attr`.
struct Wish([u64; 18]);

impl Wish {
    fn new() -> Self {
        Wish([0; 18])
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        for (at, byte) in (at..).zip(bytes) {
            let mut long = self.0[at / 8].to_ne_bytes();
            long[at % 8] = *byte;
            self.0[at / 8] = u64::from_ne_bytes(long);
        }
    }

    fn word(&mut self, at: usize, value: u32) {
        self.put(at, &value.to_ne_bytes());
    }

    fn long(&mut self, at: usize, value: u64) {
        self.put(at, &value.to_ne_bytes());
    }

    /// A name of at most 15 bytes.
    fn name(&mut self, at: usize, name: &str) {
        self.put(at, &name.as_bytes()[..name.len().min(15)]);
    }

    fn ask(&mut self, command: libc::c_int) -> io::Result<libc::c_int> {
        let len = size_of_val(&self.0);
        // SAFETY: Pointer and length are of one array. What it points to in turn are slices that the callers above borrow for
        // longer than this call; a log is borrowed exclusively.
        let done = unsafe { libc::syscall(libc::SYS_bpf, command, self.0.as_mut_ptr(), len) };
        checked(libc::c_int::try_from(done).unwrap_or(-1))
    }

    fn descriptor(&mut self, command: libc::c_int) -> io::Result<OwnedFd> {
        // SAFETY: A descriptor that bpf(2) has just made is nobody else's; these commands return one.
        self.ask(command).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

impl AsFd for Array {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lie_where_the_kernel_reads_them() {
        let mut wish = Wish::new();
        wish.word(4, 0x0102_0304);
        wish.long(8, 7);
        wish.name(48, "sixteen-bytes-no");
        assert_eq!(wish.0[0].to_ne_bytes()[4..], 0x0102_0304u32.to_ne_bytes());
        assert_eq!(wish.0[1], 7);
        assert_eq!(wish.0[7].to_ne_bytes()[7], 0, "a name is closed");
    }

    #[test]
    fn an_instruction_has_eight_bytes() {
        assert_eq!(size_of::<Instruction>(), 8);
    }
}
