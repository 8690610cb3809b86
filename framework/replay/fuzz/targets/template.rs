//! `template` of `src/fuzz.rs` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rehearsal_replay::fuzz::template(bytes));
