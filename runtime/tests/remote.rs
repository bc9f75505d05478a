//! Nodes over loopback, for tests whose subject is something else.

use std::time::Duration;

use ringpost::net::Profile;
use ringpost::prelude::*;

pub async fn listening(name: &str, seeds: &[&Node]) -> Node {
    let seeds = seeds.iter().flat_map(|node| node.addresses());
    let profile = Profile { down_after: Duration::from_secs(3), ..Profile::default() };
    let builder = Node::builder(name).listen("127.0.0.1:0").seeds(seeds).profile(profile);
    builder.start().await.unwrap()
}

pub async fn pair() -> (Node, Node) {
    let alpha = listening("alpha", &[]).await;
    let beta = listening("beta", &[&alpha]).await;
    alpha.ready(1).await.unwrap();
    beta.ready(1).await.unwrap();
    (alpha, beta)
}

pub const PATIENCE: Duration = Duration::from_secs(5);

pub async fn end(nodes: [Node; 2]) {
    let [first, second] = &nodes;
    let (killed, late) = tokio::join!(first.shutdown(PATIENCE), second.shutdown(PATIENCE));
    assert_eq!((killed, late), (vec![], vec![]));
}
