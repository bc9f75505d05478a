//! What the node processes host; the tests know them by these types.

use ringpost::prelude::*;

/// Counts the words it is told, and answers at once.
#[actor]
#[derive(Default)]
pub struct Counter {
    words: u64,
    bytes: u64,
}

/// Some text.
#[message]
pub struct Text {
    /// The text.
    pub text: String,
}

#[handlers]
impl Counter {
    /// Counts the words of a text, where it lies.
    #[handler]
    pub fn count(&mut self, msg: View<Text>) {
        self.words += msg.text.split_whitespace().count() as u64;
        self.bytes += msg.text.len() as u64;
    }

    /// Words and bytes so far.
    #[handler]
    pub fn counted(&self) -> (u64, u64) {
        (self.words, self.bytes)
    }

    /// What was asked.
    #[handler]
    pub fn echo(&self, text: String) -> String {
        text
    }
}

/// Never answers.
#[actor]
pub struct Mute;

#[handlers]
impl Mute {
    /// Waits for ever.
    #[handler]
    pub async fn wait(&self, number: u64) -> u64 {
        std::future::pending::<()>().await;
        number
    }
}

/// How many mute actors a node process hosts: `mute0` to `mute7`.
pub const MUTES: u64 = 8;
