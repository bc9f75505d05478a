//! Tests of how words are counted.

use super::*;
use crate::files::tests::{Folder, list};
use crate::mapper::Mapper;
use crate::steward::Steward;
use crate::text::PIECE_BYTES;
use crate::verify::verify;

/// Members that are actors of one node without a network.
async fn members(count: u32) -> (Node, Vec<Member>) {
    let node = Node::builder("here").start().await.unwrap();
    let mut members = Vec::new();
    for n in 1..=count {
        members.push(Member {
            name: format!("n{n}"),
            pid: n,
            mapper: node.spawn_anonymous(Mapper::default()).await.unwrap(),
            reducer: node.spawn_anonymous(Reducer::default()).await.unwrap(),
            steward: node.spawn_anonymous(Steward).await.unwrap(),
        });
    }
    (node, members)
}

/// Lists some files of several pieces, an empty file, a file that is no text, and a one-word file.
fn listing(folder: &Folder) -> Listing {
    let sentence = "Nine_lives has the cat, and THE CAT has Çedilla number ";
    for n in 0..20_usize {
        let text: String = (0..n * 300).map(|k| format!("{sentence}{k}\n")).collect();
        folder.write(&format!("deep/{n}"), text);
    }
    folder.write("empty", "");
    folder.write("binary", b"\xfe\xed");
    folder.write("one", "é".repeat(2 * PIECE_BYTES));
    list(folder)
}

#[tokio::test]
async fn every_word_is_counted_once() {
    let folder = Folder::new("every");
    let (node, members) = members(3).await;
    let run = count(&members, listing(&folder)).await;
    assert!(run.is_complete(), "{:?}", run.gaps());
    assert_eq!(run.fed.sources.len(), 22);
    assert_eq!(run.tally.table["nine_lives"], (0..20).sum::<u64>() * 300);
    assert!(run.tally.bytes > 20 * PIECE_BYTES as u64);
    verify(&run.tally, &run.fed.sources).unwrap();
    node.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn no_input_ends_with_an_empty_result() {
    let folder = Folder::new("none");
    let (node, members) = members(1).await;
    let run = count(&members, list(&folder)).await;
    assert!(run.is_whole() && run.is_empty() && run.tally.words == 0 && run.tally.table.is_empty());
    node.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_lost_mapper_is_said_and_the_others_go_on() {
    let folder = Folder::new("mapper");
    let (node, members) = members(3).await;
    members[1].mapper.kill().await.unwrap();
    members[1].mapper.wait_stopped().await;
    let run = count(&members, listing(&folder)).await;
    assert!(!run.is_whole());
    assert!(matches!(&run.losses[0], Loss::Node { name, .. } if name == "n2"), "{:?}", run.losses);
    assert!(run.tally.words > 0);
    node.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_lost_reducer_is_said_with_the_words_it_had() {
    let folder = Folder::new("reducer");
    let (node, members) = members(3).await;
    members[2].reducer.kill().await.unwrap();
    members[2].reducer.wait_stopped().await;
    let run = count(&members, listing(&folder)).await;
    let lost_words =
        |loss: &Loss| matches!(loss, Loss::Words { counted, tables } if counted > tables);
    assert!(!run.is_whole() && run.losses.iter().any(lost_words), "{:?}", run.losses);
    assert_eq!(run.fed.bytes, run.tally.bytes, "the text itself was counted");
    node.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn without_a_node_nothing_is_read_to_the_end() {
    let folder = Folder::new("nobody");
    let (node, members) = members(2).await;
    for member in &members {
        member.mapper.kill().await.unwrap();
        member.mapper.wait_stopped().await;
    }
    let run = count(&members, listing(&folder)).await;
    assert!(run.fed.unread > 0 && run.tally.words == 0 && !run.is_whole(), "{:?}", run.gaps());
    node.shutdown(Duration::from_secs(5)).await;
}
