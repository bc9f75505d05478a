//! Programs in C and C++ that use the installed libraries.

mod communicator;
mod header;
mod process;
mod rdma;
mod rp;
mod toolchain;
