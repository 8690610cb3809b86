//! Experiment files, good and bad, read with kinds that have the real ones' keys but do nothing.

mod scenario {
    mod calibration;
    mod configs;
    mod control;
    mod errors;
    mod foreign;
    mod kinds;
    mod links;
    mod models;
    mod options;
    mod outside;
    mod plans;
    mod schema;
    mod secure;
    mod support;
    mod traffic;
}
