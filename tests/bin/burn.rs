//! Takes processors away from everything else: `burn THREADS` computes nothing on that many threads
//! until its standard input ends.

use std::hint::spin_loop;
use std::io::Read;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(threads) = std::env::args().nth(1).and_then(|word| word.parse::<usize>().ok()) else {
        eprintln!("usage: burn THREADS");
        return ExitCode::from(2);
    };
    for _ in 0..threads {
        std::thread::spawn(|| {
            loop {
                spin_loop();
            }
        });
    }
    // An error is an end, too.
    drop(std::io::stdin().read_to_end(&mut Vec::new()));
    ExitCode::SUCCESS
}
