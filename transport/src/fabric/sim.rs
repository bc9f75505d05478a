//! Simulated queue pairs, in process, on a virtual clock.
