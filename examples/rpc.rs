//! A server with two functions, and three clients that call them at the same time: requests of
//! 4 MiB, and one for which a function panics.
//!
//! `cargo run --example rpc` prints:
//!
//! ```text
//! 24 requests of 4 MiB are answered
//! 7 / 2 = 3
//! 7 / 0: the function panicked
//! 8 / 2 = 4
//! ```
#![deny(warnings)]

use std::time::Duration;

use futures::future::try_join_all;
use ringpost::prelude::*;
use ringpost_streams::rpc::{self, Bytes, CallError, Client};

const CLIENTS: usize = 3;
/// Requests that each client has in flight.
const REQUESTS: usize = 8;
const REQUEST_BYTES: usize = 4 << 20;

/// A request with a type. `Bytes` is one without.
#[message]
struct Divide {
    dividend: u64,
    divisor: u64,
}

async fn serve(server: &Node) -> Result<(), BoxError> {
    // The request is read where it arrived.
    rpc::serve(server, "sum", |request: View<Bytes>| async move {
        request.iter().map(|byte| u64::from(*byte)).sum::<u64>()
    })
    .await?;
    rpc::serve(server, "divide", |request: View<Divide>| async move {
        request.dividend.to_native() / request.divisor.to_native() // panics for 0
    })
    .await?;
    Ok(())
}

/// Sends large requests, all of them before the first answer.
async fn load(client: usize, node: &Node) -> Result<(), BoxError> {
    let sum = Client::<Bytes, u64>::with_timeout(node, Duration::from_secs(30));
    try_join_all((0..REQUESTS).map(async |request| {
        let byte = (client * REQUESTS + request) as u8;
        let answer = sum.call("server/sum", Bytes(vec![byte; REQUEST_BYTES])).await?;
        let is_right = answer == u64::from(byte) * REQUEST_BYTES as u64;
        if is_right { Ok(()) } else { Err(BoxError::from("the sum is wrong")) }
    }))
    .await?;
    Ok(())
}

async fn divide(node: &Node) -> Result<(), BoxError> {
    let quotient = Client::<Divide, u64>::new(node);
    for (dividend, divisor) in [(7, 2), (7, 0), (8, 2)] {
        print!("{dividend} / {divisor}");
        match quotient.call("server/divide", Divide { dividend, divisor }).await {
            Ok(quotient) => println!(" = {quotient}"),
            Err(CallError::Ask(error)) if error.cause == AskCause::Panicked => {
                println!(": the function panicked");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

async fn run(server: &Node, clients: &[Node]) -> Result<(), BoxError> {
    serve(server).await?;
    try_join_all(clients.iter().map(|client| client.ready(1))).await?;
    try_join_all(clients.iter().enumerate().map(|(number, node)| load(number, node))).await?;
    println!("{} requests of {} MiB are answered", CLIENTS * REQUESTS, REQUEST_BYTES >> 20);
    divide(&clients[0]).await
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let server = Node::builder("server").listen("127.0.0.1:0").start().await?;
    let client =
        |number| Node::builder(format!("client-{number}")).seeds(server.addresses()).start();
    let clients = try_join_all((0..CLIENTS).map(client)).await?;
    let outcome = run(&server, &clients).await;
    for node in clients.iter().chain([&server]) {
        node.shutdown(Duration::from_secs(5)).await;
    }
    outcome
}
