//! Queueing theory as tests: what is known in closed form comes out of the simulator.
//!
//! Each figure is the mean over ten fixed seeds, of which the first tenth of the customers is cut off, and is accepted if
//! the theory lies within its 99.9 % confidence interval (Student's t, nine degrees of freedom). Ten seeds are drawn
//! once and for all, so a test never fails by chance; that it *can* fail is asserted too: the interval must be narrow,
//! and `interval.rs` shows that a wrong theory is refused. Units: the mean service takes 1 ms.

mod engine;
mod formulas;
mod interval;
mod laws;
mod queues;
mod station;
