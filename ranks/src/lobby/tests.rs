//! Messages of other nodes to a lobby that still waits for ranks.

#![allow(clippy::unwrap_used, reason = "tests")]

use futures::future::join;
use ringpost::test_kit;

use super::{Candidate, Commit, Lobby, Met, Visit};
use crate::error::JoinError;
use crate::member::Member;
use crate::world::World;

#[test]
fn candidates_and_worlds_that_cannot_be_are_ignored_or_an_error() {
    test_kit::run(1, |cluster| async move {
        let nodes = cluster.nodes(2).await;
        let joins = World::join(&nodes[0], "job", 2);
        let tells = async {
            let lobby = nodes[1].when_named::<Lobby>("n1/ranks.job").await.unwrap();
            // A candidate whose rank is on another node than its lobby.
            let member = nodes[1].named::<Member>("n2/rank").unwrap();
            let by_name = nodes[1].named::<Lobby>("n1/ranks.job").unwrap();
            let candidate =
                Candidate { lobby: by_name, member, size: 2, number: None, window: 80 << 20 };
            let visit = || lobby.ask(Visit { candidate: candidate.clone() });
            visit().await.unwrap();
            let Met::Waits(known) = visit().await.unwrap() else { panic!("it waits") };
            assert_eq!(known.len(), 1, "the first one was ignored");
            // A world of fewer ranks than it is to have.
            lobby.tell(Commit { members: known, nonce: 7 }).await.unwrap();
        };
        let (joined, ()) = join(joins, tells).await;
        let error = joined.expect_err("the world has one rank of two");
        assert!(matches!(error, JoinError::OtherSize { theirs: 1, ours: 2, .. }), "{error}");
        assert_eq!(World::join(&nodes[0], "job", 1).await.unwrap().size(), 1);
    });
}
