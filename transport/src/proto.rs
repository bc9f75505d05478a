//! The link protocol, sans I/O.
