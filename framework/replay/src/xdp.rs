//! Writes XDP programs as the kernel's instructions: a few dozen, with jumps to labels, and no compiler.

use crate::sys::bpf::Instruction;

/// A register of the virtual machine; R10 is the stack's end. Source: kernel, Documentation/bpf/standardization.
pub type Register = u8;

/// The frame goes nowhere. Source: linux/bpf.h, `enum xdp_action`.
pub const XDP_DROP: i32 = 1;
/// The frame goes on as if there were no program.
pub const XDP_PASS: i32 = 2;

/// Calls of the kernel. Source: linux/bpf.h, `___BPF_FUNC_MAPPER`.
pub mod call {
    /// A value of a map, by its key.
    pub const MAP_LOOKUP: i32 = 1;
    /// The number of the core.
    pub const CORE: i32 = 8;
    /// Sends the frame out of an interface.
    pub const REDIRECT: i32 = 23;
    /// Makes the frame longer or shorter.
    pub const ADJUST_TAIL: i32 = 65;
    /// Copies bytes into the frame.
    pub const STORE_BYTES: i32 = 190;
}

/// When to jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Equal.
    Equal,
    /// Not equal.
    Different,
    /// Below, without sign.
    Below,
    /// Above, without sign.
    Above,
    /// Above or equal, without sign.
    AtLeast,
}

/// A program in the making.
#[derive(Debug, Default)]
pub struct Assembly {
    code: Vec<Instruction>,
    labels: Vec<(&'static str, usize)>,
    jumps: Vec<(usize, &'static str)>,
}

impl Assembly {
    fn push(&mut self, code: u8, to: Register, from: Register, offset: i16, value: i32) {
        self.code.push(Instruction { code, registers: from << 4 | to, offset, value });
    }

    /// `to = from`
    pub fn copy(&mut self, to: Register, from: Register) {
        self.push(0xbf, to, from, 0, 0);
    }

    /// `to = value`
    pub fn set(&mut self, to: Register, value: i32) {
        self.push(0xb7, to, 0, 0, value);
    }

    /// `to += value`
    pub fn add(&mut self, to: Register, value: i32) {
        self.push(0x07, to, 0, 0, value);
    }

    /// `to += from`
    pub fn add_register(&mut self, to: Register, from: Register) {
        self.push(0x0f, to, from, 0, 0);
    }

    /// `to -= from`
    pub fn subtract(&mut self, to: Register, from: Register) {
        self.push(0x1f, to, from, 0, 0);
    }

    /// `to = *(u32 *)(from + offset)`
    pub fn load_word(&mut self, to: Register, from: Register, offset: i16) {
        self.push(0x61, to, from, offset, 0);
    }

    /// `to = *(u64 *)(from + offset)`
    pub fn load(&mut self, to: Register, from: Register, offset: i16) {
        self.push(0x79, to, from, offset, 0);
    }

    /// `*(u32 *)(to + offset) = from`
    pub fn store_word(&mut self, to: Register, offset: i16, from: Register) {
        self.push(0x63, to, from, offset, 0);
    }

    /// `*(u64 *)(to + offset) = from`
    pub fn store(&mut self, to: Register, offset: i16, from: Register) {
        self.push(0x7b, to, from, offset, 0);
    }

    /// `to = *(u64 *)(at + offset) += to`, whole, and before and after everything else that memory sees.
    pub fn fetch_add(&mut self, at: Register, offset: i16, to: Register) {
        self.push(0xdb, at, to, offset, 0x01);
    }

    /// Adds 1 to `*(u64 *)(at + offset)`, through `scratch`. For what one core at a time writes.
    pub fn count(&mut self, at: Register, offset: i16, scratch: Register) {
        self.load(scratch, at, offset);
        self.add(scratch, 1);
        self.store(at, offset, scratch);
    }

    /// `to =` the map of this descriptor
    pub fn map(&mut self, to: Register, number: i32) {
        self.push(0x18, to, 1, 0, number);
        self.push(0, 0, 0, 0, 0);
    }

    /// `to =` where the only value of the map of this descriptor stands
    pub fn map_value(&mut self, to: Register, number: i32) {
        self.push(0x18, to, 2, 0, number);
        self.push(0, 0, 0, 0, 0);
    }

    /// Calls the kernel: arguments in R1 to R5, which are lost, and the result in R0.
    pub fn call(&mut self, function: i32) {
        self.push(0x85, 0, 0, 0, function);
    }

    /// Jumps to a label that comes later, when `a` compares so with a constant.
    pub fn jump(&mut self, when: When, a: Register, value: i32, label: &'static str) {
        self.jumps.push((self.code.len(), label));
        self.push(0x05 | operation(when), a, 0, 0, value);
    }

    /// Jumps to a label that comes later, when `a` compares so with `b`.
    pub fn jump_register(&mut self, when: When, a: Register, b: Register, label: &'static str) {
        self.jumps.push((self.code.len(), label));
        self.push(0x0d | operation(when), a, b, 0, 0);
    }

    /// Ends with what R0 holds.
    pub fn exit(&mut self) {
        self.push(0x95, 0, 0, 0, 0);
    }

    /// Ends with this answer.
    pub fn answer(&mut self, action: i32) {
        self.set(0, action);
        self.exit();
    }

    /// What follows has this name.
    pub fn label(&mut self, name: &'static str) {
        self.labels.push((name, self.code.len()));
    }

    /// The program.
    pub fn finish(mut self) -> Vec<Instruction> {
        for (at, label) in self.jumps {
            let target = self.labels.iter().find(|(name, _)| *name == label).map(|(_, at)| *at);
            let target = target.expect("every label that is jumped to is set: programs are fixed");
            self.code[at].offset = i16::try_from(target - at - 1).expect("programs are short, and jumps go forward");
        }
        self.code
    }
}

fn operation(when: When) -> u8 {
    match when {
        When::Equal => 0x10,
        When::Above => 0x20,
        When::AtLeast => 0x30,
        When::Different => 0x50,
        When::Below => 0xa0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_count_what_they_skip() {
        let mut program = Assembly::default();
        program.jump(When::Equal, 1, 7, "end");
        program.map(2, 5);
        program.label("end");
        program.answer(XDP_DROP);
        let code = program.finish();
        assert_eq!(code[0], Instruction { code: 0x15, registers: 1, offset: 2, value: 7 });
        assert_eq!(code[1], Instruction { code: 0x18, registers: 0x12, offset: 0, value: 5 });
        assert_eq!(code.len(), 5);
    }
}
