//! Experiment files, good and bad, read with kinds that have the real ones' keys but do nothing.

mod scenario {
    mod configs;
    mod errors;
    mod kinds;
    mod options;
    mod plans;
    mod schema;
    mod support;
    mod traffic;
}
