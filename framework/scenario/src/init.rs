//! A first experiment to start from.

/// The text that `rehearsal init` writes: a commented experiment with a sensor and a receiver.
pub const fn init_template() -> &'static str {
    include_str!("init.toml")
}
